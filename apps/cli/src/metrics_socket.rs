//! `--metrics-socket`: what the mill counts, served on a Unix socket while a command runs.
//!
//! It answers `GET /metrics` over HTTP with the Prometheus text, so that `ciphermill top`, `curl --unix-socket` and
//! collectors read it. Only the socket's owner can connect. Clients have a thread each and little time; the work that is
//! watched never waits for them.

use std::fs::{DirBuilder, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use ciphermill::Mill;

/// Bytes of a request at most.
const REQUEST_LEN_MAX: usize = 4096;

/// Clients that are answered side by side at most; others are hung up on.
const CLIENTS_MAX: usize = 8;

/// The time that a client has for its request, and again for taking the answer.
const CLIENT_TIME: Duration = Duration::from_secs(1);

/// How often the listener looks for clients and for its end.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A socket that is served; dropping this ends it and removes the socket.
pub(crate) struct Served {
    path: PathBuf,
    /// Device and inode of the socket, so that another one in its place is left alone.
    identity: (u64, u64),
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Serves what `mill` counts at `path`; nothing without a path.
///
/// # Errors
/// There is something at `path` other than the socket of a program that has ended, or no socket can be made there.
pub(crate) fn serve(path: Option<&Path>, mill: &Mill) -> anyhow::Result<Option<Served>> {
    let mill = mill.clone();
    serve_text(path, Arc::new(move || mill.metrics().prometheus()))
}

/// What is served: made anew for each who asks.
pub(crate) type Text = Arc<dyn Fn() -> String + Send + Sync>;

/// The same with a text of the caller's.
///
/// # Errors
/// As [`serve`].
pub(crate) fn serve_text(path: Option<&Path>, text: Text) -> anyhow::Result<Option<Served>> {
    let Some(path) = path else { return Ok(None) };
    let wrong = || format!("cannot serve metrics at {}", path.display());
    clear_dead(path).with_context(wrong)?;
    let listener = bind_private(path).with_context(wrong)?;
    let metadata = std::fs::symlink_metadata(path).with_context(wrong)?;
    let stop = Arc::new(AtomicBool::new(false));
    let own_stop = Arc::clone(&stop);
    let listen = move || listen(&listener, &text, &own_stop);
    let thread = thread::Builder::new().name("metrics".to_owned()).spawn(listen).with_context(wrong)?;
    let identity = (metadata.dev(), metadata.ino());
    Ok(Some(Served { path: path.to_owned(), identity, stop, thread: Some(thread) }))
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It ends within a moment; if it panicked there is nothing left to end.
            let _ = thread.join();
        }
        let still = std::fs::symlink_metadata(&self.path);
        if still.is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket that nobody listens on any more.
fn clear_dead(path: &Path) -> anyhow::Result<()> {
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if !metadata.file_type().is_socket() {
        bail!("there is a file that is no socket; it is left alone");
    }
    match UnixStream::connect(path) {
        Ok(_) => bail!("another program serves there"),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(std::fs::remove_file(path)?),
        Err(error) => Err(error.into()),
    }
}

/// A listener at `path` that only the owner can connect to. A socket has the permissions of the process's mask until
/// they are changed, so it is made within a folder that nobody else can enter and linked to its place afterwards, which
/// fails if there is something by then.
fn bind_private(path: &Path) -> anyhow::Result<UnixListener> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = parent.join(format!(".cm{}", std::process::id()));
    DirBuilder::new().mode(0o700).create(&folder)?;
    let first = folder.join("s");
    let made = (|| {
        let listener = UnixListener::bind(&first)?;
        std::fs::set_permissions(&first, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        std::fs::hard_link(&first, path)?;
        Ok::<_, io::Error>(listener)
    })();
    let _ = std::fs::remove_file(&first);
    let _ = std::fs::remove_dir(&folder);
    Ok(made?)
}

fn listen(listener: &UnixListener, text: &Text, stop: &AtomicBool) {
    let clients = Arc::new(AtomicUsize::new(0));
    while !stop.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(LOOK_EVERY);
            continue;
        };
        if clients.load(Ordering::Relaxed) >= CLIENTS_MAX {
            continue;
        }
        clients.fetch_add(1, Ordering::Relaxed);
        let (text, own_clients) = (Arc::clone(text), Arc::clone(&clients));
        let answered = thread::Builder::new().name("metrics-client".to_owned()).spawn(move || {
            // A client that goes away or is too slow is its own affair.
            let _ = answer(stream, &text);
            own_clients.fetch_sub(1, Ordering::Relaxed);
        });
        if answered.is_err() {
            clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn answer(mut stream: UnixStream, text: &Text) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let response = match read_request(&mut stream)? {
        None => response("431 Request Header Fields Too Large", "the request is too long\n"),
        Some(request) => respond(&request, text),
    };
    let end = Instant::now() + CLIENT_TIME;
    let mut rest = response.as_bytes();
    while !rest.is_empty() {
        stream.set_write_timeout(Some(time_until(end)?))?;
        match stream.write(rest)? {
            0 => return Err(ErrorKind::WriteZero.into()),
            written => rest = &rest[written..],
        }
    }
    Ok(())
}

/// The head of a request; `None` when it is too long.
fn read_request(stream: &mut UnixStream) -> io::Result<Option<Vec<u8>>> {
    let end = Instant::now() + CLIENT_TIME;
    let (mut request, mut piece) = (Vec::new(), [0u8; 512]);
    loop {
        stream.set_read_timeout(Some(time_until(end)?))?;
        let count = stream.read(&mut piece)?;
        request.extend_from_slice(&piece[..count]);
        let is_whole = |end: &[u8]| request.windows(end.len()).any(|window| window == end);
        if count == 0 || is_whole(b"\r\n\r\n") || is_whole(b"\n\n") {
            return Ok(Some(request));
        }
        if request.len() > REQUEST_LEN_MAX {
            return Ok(None);
        }
    }
}

fn time_until(end: Instant) -> io::Result<Duration> {
    end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()).ok_or_else(|| ErrorKind::TimedOut.into())
}

fn respond(request: &[u8], text: &Text) -> String {
    let line = request.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some("GET"), Some("/metrics"), Some(version)) if version.starts_with("HTTP/1.") => response("200 OK", &text()),
        (Some("GET"), Some(_), Some(version)) if version.starts_with("HTTP/1.") => {
            response("404 Not Found", "there is /metrics and nothing else\n")
        }
        (Some(_), Some(_), Some(version)) if version.starts_with("HTTP/1.") => {
            response("405 Method Not Allowed", "only GET is understood\n")
        }
        _ => response("400 Bad Request", "this is not HTTP/1\n"),
    }
}

fn response(status: &str, body: &str) -> String {
    let head = "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\nConnection: close";
    format!("HTTP/1.0 {status}\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
