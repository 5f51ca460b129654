//! What commands ask the service, and what it tells of its clients.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use ciphermill_channel::{Answer, Ask};
use ciphermill_cli::output::printable;
use ciphermill_service_engine::{Link, default_socket};
use serde::Deserialize;

/// A connection to the service.
pub(crate) struct Asked {
    link: Link,
    socket: PathBuf,
}

impl Asked {
    /// Connects to the service at `socket`; without one to the one that the environment names, else the user's own, else the machine's.
    ///
    /// # Errors
    /// Nobody is there, or this user is turned away.
    pub(crate) fn connect(socket: Option<&Path>) -> anyhow::Result<Asked> {
        let socket = socket.map_or_else(default_socket, Path::to_owned);
        let (link, ..) = Link::connect(&socket).with_context(|| at(&socket))?;
        Ok(Asked { link, socket })
    }

    /// What the service answers, if that is a text.
    ///
    /// # Errors
    /// The service has gone, or says no.
    pub(crate) fn ask(&self, what: &Ask<'_>) -> anyhow::Result<String> {
        match self.link.ask(what).with_context(|| at(&self.socket))? {
            Answer::Text(text) => Ok(text),
            Answer::Done => Ok(String::new()),
            _ => bail!("{}: it gave another answer than was asked for", at(&self.socket)),
        }
    }

    /// Who is connected, as far as the user may know.
    ///
    /// # Errors
    /// As [`Asked::ask`].
    pub(crate) fn clients(&self) -> anyhow::Result<Vec<ClientRow>> {
        serde_json::from_str(&self.ask(&Ask::Clients)?).context("the service's answer is no list of clients")
    }

    /// Where the service is.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }
}

fn at(socket: &Path) -> String {
    format!("the service at {}", socket.display())
}

/// One connection, and what was done for it since it began.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ClientRow {
    pub(crate) id: u64,
    pub(crate) pid: i32,
    pub(crate) uid: u32,
    unit: Option<String>,
    program: Option<String>,
    command: Option<String>,
    pub(crate) seconds: u64,
    pub(crate) channels: u64,
    pub(crate) keys: u64,
    pub(crate) requests: u64,
    pub(crate) shared: u64,
    /// Requests that were held back by a limit of the user's.
    pub(crate) held: u64,
    pub(crate) ops: u64,
    pub(crate) bytes: u64,
    /// Time of workers.
    pub(crate) busy_ns: u64,
}

impl ClientRow {
    /// The user's name, or number where it has none here.
    pub(crate) fn user(&self) -> String {
        uzers::get_user_by_uid(self.uid)
            .map_or_else(|| self.uid.to_string(), |user| printable(&user.name().to_string_lossy()))
    }

    /// The unit of the client's process.
    pub(crate) fn unit(&self) -> String {
        self.unit.as_deref().map_or_else(|| "-".to_owned(), printable)
    }

    /// The file that the process runs; in parentheses what it calls itself, where the service cannot see that.
    pub(crate) fn program(&self) -> String {
        match (&self.program, &self.command) {
            (Some(path), _) => printable(path),
            (None, Some(command)) => format!("({})", printable(command)),
            (None, None) => "-".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_called_by_what_is_known_of_it() {
        let row = |program: &str| -> ClientRow {
            let text = format!(
                "{{\"id\": 3, \"pid\": 4, \"uid\": 4000000001, \"gid\": 5, \"unit\": null, {program}, \"seconds\": 1, \
                 \"channels\": 1, \"keys\": 2, \"requests\": 3, \"shared\": 0, \"held\": 0, \"ops\": 4, \"bytes\": 5, \"busy_ns\": 6}}"
            );
            serde_json::from_str(&text).expect("a client")
        };
        let seen = row("\"program\": \"/bin/a\\u001b\", \"command\": \"b\"");
        assert_eq!(
            (seen.user(), seen.unit(), seen.program()),
            ("4000000001".into(), "-".into(), "/bin/a\u{fffd}".into())
        );
        assert_eq!(row("\"program\": null, \"command\": \"b\"").program(), "(b)");
        assert_eq!(row("\"program\": null, \"command\": null").program(), "-");
    }
}
