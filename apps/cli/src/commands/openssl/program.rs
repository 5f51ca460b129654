//! OpenSSL's own program, which knows where its configuration is and whether one can be loaded.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use ciphermill_cli::interrupt;

/// How long one call may take. RSA keys of 4,096 bits take seconds on a slow machine.
const CALL_MAX: Duration = Duration::from_secs(60);

/// The program with a configuration, or with none.
pub(super) fn command(configuration: Option<&Path>) -> Command {
    let mut command = Command::new("openssl");
    command
        .env("OPENSSL_CONF", configuration.unwrap_or(Path::new("/dev/null")))
        .env_remove("CIPHERMILL_OPENSSL_COUNTS");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A child that ends with this value.
pub(super) struct Running(pub(super) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended where this fails.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a command.
pub(super) fn start(command: &mut Command) -> anyhow::Result<Running> {
    let child =
        command.spawn().context("cannot run openssl, OpenSSL's program (on Debian: apt-get install openssl)")?;
    Ok(Running(child))
}

/// Runs a command to its end, however it ends. What it says has to fit into a pipe.
pub(super) fn output(command: &mut Command) -> anyhow::Result<Output> {
    let mut running = start(command)?;
    let status = wait(&mut running)?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    if let Some(mut pipe) = running.0.stdout.take() {
        pipe.read_to_end(&mut stdout)?;
    }
    if let Some(mut pipe) = running.0.stderr.take() {
        pipe.read_to_end(&mut stderr)?;
    }
    Ok(Output { status, stdout, stderr })
}

/// Waits for the end of a child, but not for ever and not after Ctrl-C.
pub(super) fn wait(running: &mut Running) -> anyhow::Result<std::process::ExitStatus> {
    let (begun, stop) = (Instant::now(), interrupt::watch()?);
    loop {
        if let Some(status) = running.0.try_wait()? {
            return Ok(status);
        }
        ensure!(!stop.load(Ordering::Relaxed), "stopped");
        ensure!(begun.elapsed() < CALL_MAX, "openssl did not end within {} s", CALL_MAX.as_secs());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a command that has to succeed, and returns what it printed.
pub(super) fn succeed(command: &mut Command, what: &str) -> anyhow::Result<String> {
    let output = output(command)?;
    if !output.status.success() {
        bail!("{what}: openssl says: {}", first_lines(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The lines that say something, as one.
pub(super) fn first_lines(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let lines: Vec<_> = said.lines().filter(|line| !line.trim().is_empty()).take(4).collect();
    if lines.is_empty() { "nothing".to_owned() } else { lines.join("; ") }
}

/// The machine's configuration, as it was built into OpenSSL; whatever OPENSSL_CONF says.
pub(super) fn machine_file() -> anyhow::Result<PathBuf> {
    let said = succeed(command(None).args(["version", "-d"]), "cannot find the machine's openssl.cnf")?;
    let folder = said.trim().strip_prefix("OPENSSLDIR: \"").and_then(|rest| rest.strip_suffix('"'));
    let folder = folder.with_context(|| format!("`openssl version -d` says no folder, but: {}", said.trim()))?;
    Ok(Path::new(folder).join("openssl.cnf"))
}

/// Fails unless a program with this configuration has both providers. `name` is the file's in errors.
pub(super) fn loads(configuration: &Path, name: &Path) -> anyhow::Result<()> {
    let cannot = format!("{}: OpenSSL cannot load it", name.display());
    let listed = output(command(Some(configuration)).args(["list", "-providers"]))?;
    ensure!(listed.status.success(), "{cannot}: {}", first_lines(&listed.stderr));
    let text = String::from_utf8_lossy(&listed.stdout);
    for provider in ["default", "ciphermill"] {
        ensure!(
            is_active(&text, provider),
            "{}: the provider `{provider}` is not active in a program that reads it; openssl says: {}",
            name.display(),
            first_lines(&listed.stderr)
        );
    }
    Ok(())
}

/// Whether `openssl list -providers` shows a provider as active: its name, and its status among the lines below that are farther in.
fn is_active(listed: &str, provider: &str) -> bool {
    let mut lines = listed.lines().skip_while(|line| line.strip_prefix("  ") != Some(provider)).skip(1);
    lines.by_ref().take_while(|line| line.starts_with("    ")).any(|line| line.trim() == "status: active")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_that_of_its_provider() {
        let listed =
            "Providers:\n  ciphermill\n    name: C\n    status: inactive\n  default\n    name: D\n    status: active\n";
        assert!(is_active(listed, "default"));
        assert!(!is_active(listed, "ciphermill"));
        assert!(!is_active(listed, "name: D"));
    }
}
