//! `ciphermill openssl check`: the provider in OpenSSL's own program, by what it counts.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

use super::program::{self, Running};
use crate::output::{say, table};

/// Operations, each with the arguments that make its key and those that do it. `{key}` and the others are files.
const OPERATIONS: [(&str, &str, &str); 11] = [
    ("RSA-2048, signature", "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048", SIGN),
    ("RSA-4096, signature", "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:4096", SIGN),
    ("RSA-2048, decryption of OAEP", "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048", DECRYPT_OAEP),
    ("RSA-2048, decryption of PKCS #1", "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048", DECRYPT),
    ("ECDSA P-256, signature", "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256", SIGN),
    ("ECDSA P-384, signature", "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384", SIGN),
    ("ECDSA P-384, verification", "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384", VERIFY),
    ("Ed25519, signature", "genpkey -algorithm ED25519", SIGN),
    ("ECDH P-256, agreement", "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256", AGREE),
    ("X25519, agreement", "genpkey -algorithm X25519", AGREE),
    ("X448, agreement", "genpkey -algorithm X448", AGREE),
];

const SIGN: &str = "pkeyutl -sign -rawin -inkey key -in message -out made";
const VERIFY: &str = "pkeyutl -verify -rawin -pubin -inkey public -in message -sigfile signed";
const DECRYPT: &str = "pkeyutl -decrypt -inkey key -in encrypted -out made";
const DECRYPT_OAEP: &str = "pkeyutl -decrypt -inkey key -pkeyopt rsa_padding_mode:oaep -in encrypted -out made";
const AGREE: &str = "pkeyutl -derive -inkey key -peerkey public -out made";

/// Handshakes, each with the arguments that make the server's key.
const HANDSHAKES: [(&str, &str); 2] = [
    ("TLS 1.3 with RSA-2048, server", "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048"),
    ("TLS 1.3 with ECDSA P-256, server", "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256"),
];

/// Checks a configuration, and shows who does what under it.
pub(super) fn run(file: &Path) -> anyhow::Result<()> {
    let file = fs::canonicalize(file).with_context(|| {
        format!("cannot read {}; `ciphermill openssl install` writes it, --file names another", file.display())
    })?;
    program::loads(&file, &file)?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let tried = Tried { file: &file, folder: folder.path() };
    let mut rows = table(&["operation", "mill", "default"], 1);
    let mut in_mill = 0;
    for (name, generate, work) in OPERATIONS {
        let counted = tried.operation(generate, work).with_context(|| format!("{}: {name}", file.display()))?;
        in_mill += counted;
        rows.add_row([name.to_owned(), counted.to_string(), u64::from(counted == 0).to_string()]);
    }
    for (name, generate) in HANDSHAKES {
        let counted = tried.handshake(generate).with_context(|| format!("{}: {name}", file.display()))?;
        in_mill += counted;
        // A server signs and agrees.
        rows.add_row([name.to_owned(), counted.to_string(), 2_u64.saturating_sub(counted).to_string()]);
    }
    say(format!(
        "{}: the providers default and ciphermill are active; with the mill preferred, these do\n{rows}",
        file.display()
    ))?;
    ensure!(
        in_mill > 0,
        "{}: the provider is loaded and did no operation; `default_properties` has to prefer it (?provider=ciphermill)",
        file.display()
    );
    Ok(())
}

/// A configuration that is tried, in a folder for keys.
struct Tried<'a> {
    file: &'a Path,
    folder: &'a Path,
}

impl Tried<'_> {
    /// A command of OpenSSL in the folder, with the configuration or without any.
    fn command(&self, with: bool, arguments: &str) -> Command {
        let mut command = program::command(with.then_some(self.file));
        command.current_dir(self.folder).args(arguments.split(' '));
        command
    }

    /// A command with the configuration, whose operations are counted. The mill does what it can: some lone operations would be left to
    /// `default`, which is as fast.
    fn counting(&self, arguments: &str) -> Command {
        let mut command = self.command(true, arguments);
        command.env("CIPHERMILL_OPENSSL_COUNTS", self.folder.join("counts")).env("CIPHERMILL_OPENSSL_PREFERS", "mill");
        command
    }

    fn prepare(&self, arguments: &str) -> anyhow::Result<()> {
        program::succeed(&mut self.command(false, arguments), "cannot prepare keys").map(drop)
    }

    /// Has one operation done, and returns how many the mill did.
    fn operation(&self, generate: &str, work: &str) -> anyhow::Result<u64> {
        self.prepare(&format!("{generate} -out key"))?;
        self.prepare("pkey -in key -pubout -out public")?;
        fs::write(self.folder.join("message"), [7; 64])?;
        match work {
            DECRYPT => self.prepare("pkeyutl -encrypt -pubin -inkey public -in message -out encrypted")?,
            DECRYPT_OAEP => self.prepare(
                "pkeyutl -encrypt -pubin -inkey public -pkeyopt rsa_padding_mode:oaep -in message -out encrypted",
            )?,
            VERIFY => self.prepare("pkeyutl -sign -rawin -inkey key -in message -out signed")?,
            _ => {}
        }
        self.forget_counts()?;
        program::succeed(&mut self.counting(work), "cannot be done")?;
        self.counted()
    }

    fn forget_counts(&self) -> anyhow::Result<()> {
        fs::write(self.folder.join("counts"), [0; 16]).context("cannot write a temporary file")
    }

    /// Operations that the mill did since `forget_counts`: the file's first number.
    fn counted(&self) -> anyhow::Result<u64> {
        let bytes = fs::read(self.folder.join("counts"))?;
        let first = bytes.first_chunk().context("the file of counts was cut short")?;
        Ok(u64::from_ne_bytes(*first))
    }

    /// Has a server with the provider and a client without shake hands, and returns how many operations the server's mill did.
    fn handshake(&self, generate: &str) -> anyhow::Result<u64> {
        self.prepare(&format!("{generate} -out key"))?;
        fs::write(self.folder.join("request"), "[req]\ndistinguished_name = name\n[name]\n")?;
        self.prepare("req -x509 -config request -key key -subj /CN=localhost -days 2 -out certificate")?;
        self.forget_counts()?;
        let (mut server, port) = self.serve()?;
        let client =
            format!("s_client -connect 127.0.0.1:{port} -tls1_3 -brief -verify_return_error -CAfile certificate");
        program::succeed(&mut self.command(false, &client), "the client cannot shake hands")?;
        // It ends after its one connection.
        program::wait(&mut server)?;
        self.counted()
    }

    /// Starts a server for one connection, and returns its port.
    fn serve(&self) -> anyhow::Result<(Running, u16)> {
        let mut command = self.counting("s_server -accept 127.0.0.1:0 -naccept 1 -key key -cert certificate");
        // What it says after its port is as much as one connection gives, which a pipe holds.
        command.stdin(Stdio::piped());
        let mut server = program::start(&mut command)?;
        let stdout = server.0.stdout.take().context("no pipe")?;
        let mut lines = BufReader::new(stdout);
        let mut line = String::new();
        while lines.read_line(&mut line)? > 0 {
            if let Some(address) = line.trim().strip_prefix("ACCEPT ") {
                let port = address.rsplit(':').next().and_then(|port| port.parse().ok());
                // Kept open, since writing into a pipe that nobody reads ends a program.
                server.0.stdout = Some(lines.into_inner());
                return port.map(|port| (server, port)).context("the server does not say where it listens");
            }
            line.clear();
        }
        let said = program::wait(&mut server).ok().and(server.0.stderr.take()).map(|mut pipe| {
            let mut said = Vec::new();
            let _ = std::io::Read::read_to_end(&mut pipe, &mut said);
            program::first_lines(&said)
        });
        bail!("the server did not start; openssl says: {}", said.unwrap_or_default())
    }
}
