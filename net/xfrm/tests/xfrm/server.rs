//! The server and its clients: answers, listings, groups, and clients that misbehave.

use std::os::unix::fs::PermissionsExt;

use crate::client::{Client, MOVED_TO, Running, control};
use crate::strategies::plain;
use ciphermill_xfrm::message::{Reply, Request, encode_request};
use ciphermill_xfrm::{AssociationKey, Errno, Event, Kernel, Limits, ListFilter, Mapping, Server, SpiRequest, Table};

const EXPIRE: u32 = 1 << 1;
const ASSOCIATIONS: u32 = 1 << 2;
const MAPPING: u32 = 1 << 7;

fn add(spi: u32) -> Request {
    Request::Add(Box::new(plain(spi)))
}

fn key(spi: u32) -> AssociationKey {
    plain(spi).id.into()
}

/// What is told of the first association when its packets have moved.
fn mapping() -> Event {
    Event::Mapping(Mapping { id: plain(1).id, reqid: 1, old: (plain(1).source, 0), new: MOVED_TO })
}

#[test]
fn requests_are_answered() {
    let server = Running::new(Limits::default(), Table::new());
    let mut client = Client::new(&server.path, 0);
    assert_eq!(client.ask(&add(1)), [Reply::Outcome(Ok(()))]);
    assert_eq!(client.ask(&add(1)), [Reply::Outcome(Err(Errno::EXIST))]);
    let [Reply::Association(state)] = &client.ask(&Request::Query(key(1)))[..] else { panic!("an association") };
    assert_eq!(state.association, plain(1));
    assert_eq!(client.receive().len(), 1, "the acknowledgement that was asked for");
    assert_eq!(client.ask(&Request::Query(key(2))), [Reply::Outcome(Err(Errno::SRCH))]);
    let [Reply::Replay(id, replay)] = &client.ask(&Request::QueryReplay(key(1), 0))[..] else { panic!("a service") };
    assert_eq!((*id, replay.bitmap.len()), (key(1).id, 1));
    assert_eq!(client.receive().len(), 1);
    let mut larval = plain(0);
    larval.algorithms = None;
    let request = SpiRequest { association: larval, min: 0x100, max: 0x1ff };
    let [Reply::Association(state)] = &client.ask(&Request::AllocateSpi(Box::new(request)))[..] else {
        panic!("an SPI")
    };
    assert!((0x100..0x200).contains(&state.association.id.spi));
}

#[test]
fn a_listing_has_all_of_many_and_one_is_enough_at_a_time() {
    let mut table = Table::new();
    (1..=1000).for_each(|spi| assert!(table.add(plain(spi)).is_ok()));
    let server = Running::new(Limits::default(), table);
    let client = Client::new(&server.path, 0);
    // Both in one datagram, so that the second comes while the first is on its way.
    let mut both = encode_request(&Request::List(ListFilter::default()), 5, false).to_vec();
    both.extend_from_slice(&encode_request(&Request::ListPolicies, 6, false));
    client.send(&both);
    let (mut spis, mut busy) = (Vec::new(), 0);
    'listing: loop {
        for (header, reply) in client.receive() {
            match reply {
                Reply::Association(state) => spis.push(state.association.id.spi),
                Reply::Outcome(Err(Errno::BUSY)) if header.sequence == 6 => busy += 1,
                Reply::Done if header.sequence == 5 => break 'listing,
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((spis, busy), ((1..=1000).collect::<Vec<_>>(), 1));
}

#[test]
fn groups_hear_what_is_theirs_and_no_keys() {
    let server = Running::new(Limits::default(), Table::new());
    let hears_all = Client::new(&server.path, ASSOCIATIONS | MAPPING);
    let hears_expiry = Client::new(&server.path, EXPIRE);
    let mut asks = Client::new(&server.path, 0);
    assert_eq!(asks.ask(&add(1)), [Reply::Outcome(Ok(()))]);
    let [(_, Reply::Association(state))] = &hears_all.receive()[..] else { panic!("an association") };
    let Some(ciphermill_xfrm::Algorithms::Aead { key: secret, .. }) = &state.association.algorithms else {
        panic!("AEAD")
    };
    assert_eq!(secret.expose(), [0; 20]);
    assert_eq!(server.moved.send(key(1)), Ok(()));
    assert_eq!(hears_all.receive()[0].1, Reply::Event(mapping()));
    assert!(hears_expiry.hears_nothing());
    // A socket that is bound again hears other groups.
    hears_expiry.send(&control(1, MAPPING));
    assert_eq!(asks.ask(&add(2)), [Reply::Outcome(Ok(()))]);
    assert_eq!(server.moved.send(key(1)), Ok(()));
    assert_eq!(hears_expiry.receive()[0].1, Reply::Event(mapping()));
}

#[test]
fn a_client_that_does_not_read_loses_events_and_holds_nobody_up() {
    let mut table = Table::new();
    assert!(table.add(plain(1)).is_ok());
    let server = Running::new(Limits { pending: 16, ..Limits::default() }, table);
    let mut deaf = Client::new(&server.path, MAPPING);
    let mut other = Client::new(&server.path, 0);
    // Its own buffer takes some hundreds.
    for round in 0..20 {
        (0..1000).for_each(|_| assert_eq!(server.moved.send(key(1)), Ok(())));
        assert_eq!(other.ask(&add(2 + round)), [Reply::Outcome(Ok(()))], "round {round}");
    }
    let mut heard = 0;
    while !deaf.hears_nothing() {
        heard += deaf.receive().len();
    }
    assert!((16..20_000).contains(&heard), "{heard} of 20000");
    // And then it is served as ever.
    assert_eq!(deaf.ask(&add(100)), [Reply::Outcome(Ok(()))]);
    assert_eq!(server.moved.send(key(1)), Ok(()));
    assert_eq!(deaf.receive()[0].1, Reply::Event(mapping()));
}

#[test]
fn strangers_and_what_is_too_long_are_dropped() {
    let server = Running::new(Limits { datagram_len: 1024, clients: 3, ..Limits::default() }, Table::new());
    let stranger = Client::mute(&server.path);
    stranger.send(&encode_request(&add(1), 1, true));
    assert_eq!(stranger.receive(), [], "no association of who has not the library");
    let newer = Client::mute(&server.path);
    newer.send(&control(2, 0));
    assert_eq!(newer.receive(), []);
    let long = Client::new(&server.path, 0);
    long.send(&vec![0; 1025]);
    assert_eq!(long.receive(), []);
    // What is cut or nonsense has no answer, as with a kernel; the connection stays.
    let mut odd = Client::new(&server.path, 0);
    odd.send(&[1, 2, 3]);
    odd.send(&[0xff; 64]);
    assert_eq!(odd.ask(&add(1)), [Reply::Outcome(Ok(()))]);
    let more = [(); 2].map(|()| Client::new(&server.path, 0));
    // It may be turned away before it has said anything.
    assert_eq!(Client::mute(&server.path).receive(), [], "one more than there may be");
    drop(more);
}

#[test]
fn the_socket_is_the_user_s_alone_and_is_not_taken_from_a_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("xfrm");
    let server = Server::bind(&path, Limits::default()).expect("a server");
    let mode = std::fs::metadata(&path).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let second = Server::bind(&path, Limits::default()).map(|_| ()).expect_err("there is one");
    assert_eq!(second.raw_os_error(), Some(Errno::ADDRINUSE.raw_os_error()));
    drop(server);
    assert!(!path.exists());
    std::fs::write(&path, "somebody's").expect("written");
    assert!(Server::bind(&path, Limits::default()).is_err());
    assert_eq!(std::fs::read_to_string(&path).expect("still there"), "somebody's");
}

#[test]
fn a_socket_that_nobody_listens_on_is_replaced() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("xfrm");
    let left = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a socket");
    bind(&left, &SocketAddrUnix::new(&path).expect("a path")).expect("bound");
    drop(left);
    assert!(path.exists());
    assert!(Server::bind(&path, Limits::default()).is_ok());
}
