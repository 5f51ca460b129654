//! OpenSSL's own program, with the provider in its configuration.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// A folder of this test, with a configuration that loads the provider.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("ciphermill-openssl-{}-{test}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let configuration = format!(
            "openssl_conf = init\n[init]\nproviders = providers\nalg_section = algorithms\n\
             [algorithms]\ndefault_properties = ?provider=ciphermill\n\
             [providers]\ndefault = the_default\nciphermill = ours\n[the_default]\nactivate = 1\n\
             [ours]\nactivate = 1\nmodule = {}\nkeystore = {}\nmaster-key-file = {}\n",
            super::library().display(),
            folder.join("keys").display(),
            folder.join("master").display(),
        );
        fs::write(folder.join("on.cnf"), configuration).expect("written");
        fs::write(folder.join("off.cnf"), "").expect("written");
        fs::write(folder.join("message"), "a message\n").expect("written");
        Folder(folder)
    }

    pub(crate) fn command(&self, provider: &str, arguments: &str) -> Command {
        let mut command = Command::new("openssl");
        command.current_dir(&self.0).args(arguments.split(' '));
        let configuration = if provider == "faster" { "on" } else { provider };
        command.env("OPENSSL_CONF", self.0.join(format!("{configuration}.cnf")));
        if provider != "faster" {
            // One operation at a time would be left to `default` here and there.
            command.env("CIPHERMILL_OPENSSL_PREFERS", "mill");
        }
        command
    }

    /// Runs a command that has to succeed, with the provider or without.
    pub(crate) fn run(&self, provider: &str, arguments: &str) -> Output {
        let output = self.command(provider, arguments).output().expect("openssl (apt-get install openssl)");
        assert!(
            output.status.success(),
            "{provider}: openssl {arguments}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output
    }

    /// Runs a command with the provider and without, which have to fail alike.
    pub(crate) fn both_fail(&self, arguments: &str) {
        for provider in ["on", "off"] {
            let output = self.command(provider, arguments).output().expect("openssl");
            assert!(!output.status.success(), "{provider}: openssl {arguments} succeeded");
            assert!(output.status.code().is_some(), "{provider}: openssl {arguments} died");
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A test that fails leaves it, for whoever looks for the reason.
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// A server that ends with the test.
pub(crate) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server with a key, on a port that is free.
pub(crate) fn serve(folder: &Folder, provider: &str, name: &str) -> (Server, u16) {
    let arguments = format!("s_server -accept 127.0.0.1:0 -key {name}.pem -cert {name}.crt -async");
    let mut command = folder.command(provider, &arguments);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("openssl");
    let mut server = Server(child);
    let stdout = server.0.stdout.take().expect("piped");
    let mut lines = BufReader::new(stdout).lines();
    let port = loop {
        let line = lines.next().expect("the server says where it listens").expect("text");
        if let Some(address) = line.strip_prefix("ACCEPT ") {
            break address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        }
    };
    // Nobody reads what it says, so that it must not wait for that.
    std::thread::spawn(move || lines.for_each(drop));
    (server, port)
}
