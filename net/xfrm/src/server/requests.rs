//! Requests handed to the kernel, and what it answers written down.

use rustix::io::Errno;
use tracing::{debug, warn};

use super::Datagram;
use super::client::{Client, Listed};
use crate::bytes::Writer;
use crate::constants::{NLM_F_ACK, NLM_F_REQUEST, NLMSG_MIN_TYPE};
use crate::control::Control;
use crate::kernel::Kernel;
use crate::message::{Header, Notice, Request, State, messages, parse_request, write_ack, write_notice, write_state};
use crate::policy::Thresholds;
use crate::refusal::Refusal;

/// What a datagram of requests has brought about, and what outlasts it.
#[derive(Default)]
pub(super) struct Answers {
    /// For groups, which hear of a change before who caused it is answered.
    pub(super) notices: Vec<(u32, Datagram)>,
    /// For who asked.
    replies: Vec<Datagram>,
    thresholds: Thresholds,
}

/// Where an answer goes.
#[derive(Clone, Copy)]
struct Caller {
    header: Header,
    control: Control,
}

impl Answers {
    /// Works on a datagram of a client.
    pub(super) fn serve(&mut self, client: &mut Client, datagram: &[u8], kernel: &mut dyn Kernel) {
        for message in messages(datagram) {
            let (header, body) = match message {
                Ok(message) => message,
                // Nothing tells whose answer this would be. A kernel is silent, too.
                Err(refusal) => return warn!("a datagram was ignored: {refusal}"),
            };
            match Control::parse(&header, body) {
                Some(Ok(control)) => {
                    client.set_control(control);
                    continue;
                }
                Some(Err(refusal)) => return client.end(Some(refusal.why)),
                None => {}
            }
            let Some(control) = client.control() else {
                return client.end(Some("it does not have the preloaded library"));
            };
            self.answer(client, Caller { header, control }, body, kernel);
        }
    }

    /// Gives the client what it asked for.
    pub(super) fn finish(&mut self, client: Option<&mut Client>) {
        let replies = std::mem::take(&mut self.replies);
        if let Some(client) = client {
            replies.into_iter().for_each(|reply| client.answer(reply));
        }
    }

    fn answer(&mut self, client: &mut Client, caller: Caller, body: &[u8], kernel: &mut dyn Kernel) {
        let header = caller.header;
        // Netlink's own numbers, and what is no request, pass a kernel without effect.
        let outcome = if header.kind < NLMSG_MIN_TYPE || header.flags & NLM_F_REQUEST == 0 {
            Ok(())
        } else {
            let request = parse_request(&header, body);
            debug!("{request:?}");
            let listed = match &request {
                Ok(Request::List(filter)) => Some(Listed::Associations(*filter)),
                Ok(Request::ListPolicies) => Some(Listed::Policies),
                _ => None,
            };
            match listed {
                // Its end is the answer.
                Some(what) if client.begin_listing(what, header.sequence) => return,
                Some(_) => Err(Refusal::new(Errno::BUSY, "a listing while there is another")),
                None => request.and_then(|request| self.perform(caller, request, kernel)),
            }
        };
        if let Err(refusal) = outcome {
            debug!("request {:#x} is refused: {refusal}", header.kind);
        }
        if outcome.is_err() || header.flags & NLM_F_ACK != 0 {
            let mut to = Writer::new();
            write_ack(&mut to, &header, caller.control.port, outcome, caller.control.words);
            self.replies.push(to.into_bytes());
        }
    }

    fn perform(&mut self, caller: Caller, request: Request, kernel: &mut dyn Kernel) -> Result<(), Refusal> {
        match request {
            Request::Add(association) => self.notify(caller, Notice::Added(&kernel.add(*association)?)),
            Request::Update(association) => self.notify(caller, Notice::Updated(&kernel.update(*association)?)),
            Request::Delete(key) => self.notify(caller, Notice::Deleted(&kernel.delete(&key)?)),
            Request::Query(key) => self.reply(caller, State::Association(&kernel.query(&key)?)),
            Request::AllocateSpi(request) => {
                self.reply(caller, State::Association(&kernel.allocate_spi(*request)?));
            }
            Request::Flush(protocol) => {
                // A kernel says nothing of associations that were not there.
                if kernel.flush(protocol) > 0 {
                    self.notify(caller, Notice::Flushed(protocol));
                }
            }
            Request::AddPolicy(policy) => self.notify(caller, Notice::PolicyAdded(&kernel.add_policy(*policy)?)),
            Request::UpdatePolicy(policy) => {
                self.notify(caller, Notice::PolicyUpdated(&kernel.update_policy(*policy)?));
            }
            Request::DeletePolicy(key) => self.notify(caller, Notice::PolicyDeleted(&kernel.delete_policy(&key)?)),
            Request::QueryPolicy(key) => self.reply(caller, State::Policy(&kernel.query_policy(&key)?)),
            Request::FlushPolicies(kind) => {
                kernel.flush_policies(kind);
                self.notify(caller, Notice::PoliciesFlushed(kind));
            }
            Request::CountAssociations(flags) => self.reply(caller, State::Associations(kernel.counts(), flags)),
            Request::CountPolicies(flags) => {
                self.reply(caller, State::Policies(kernel.counts(), self.thresholds, flags));
            }
            Request::SetThresholds { ipv4, ipv6 } => {
                self.thresholds.ipv4 = ipv4.unwrap_or(self.thresholds.ipv4);
                self.thresholds.ipv6 = ipv6.unwrap_or(self.thresholds.ipv6);
            }
            Request::QueryReplay(key, flags) => self.reply(caller, State::Replay(&kernel.query(&key)?, flags)),
            Request::SetReplay(update) => self.notify(caller, Notice::Replay(&kernel.set_replay(*update)?)),
            Request::List(_) | Request::ListPolicies => {}
        }
        Ok(())
    }

    fn reply(&mut self, caller: Caller, state: State<'_>) {
        let mut to = Writer::new();
        let header = Header { kind: 0, flags: 0, sequence: caller.header.sequence, port: caller.control.port };
        write_state(&mut to, header, state);
        self.replies.push(to.into_bytes());
    }

    fn notify(&mut self, caller: Caller, notice: Notice<'_>) {
        let mut to = Writer::new();
        let header = Header { kind: 0, flags: 0, sequence: caller.header.sequence, port: caller.control.port };
        let group = write_notice(&mut to, header, notice);
        self.notices.push((group, to.into_bytes()));
    }
}
