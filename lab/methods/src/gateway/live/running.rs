//! Two gateways that run: started by a definition, known to pass packets, and ended with this value.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ciphermill_esp::Transform;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use super::ground::{Cores, Ground, SIDES, Side, URGENT};
use super::load::{self, Spent};
use super::stack::{Definitions, Stack, Step, Words};
use crate::LabError;

/// How long a gateway may take until it listens, and a step until it is done.
const START_MAX: Duration = Duration::from_secs(30);
/// How long it has to end by itself.
const END_MAX: Duration = Duration::from_secs(3);
/// How often it is looked for meanwhile.
const LOOK: Duration = Duration::from_millis(5);

/// Both gateways.
pub(super) struct Running {
    /// Declared first, so that the programs end before their namespaces and files go.
    programs: Vec<Program>,
    core: usize,
    pub(super) ground: Ground,
    _folder: TempDir,
}

struct Program {
    side: Side,
    child: Child,
    /// What it has said on both outputs.
    said: PathBuf,
}

/// What both gateways have spent until now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spending {
    /// By each, in programs and in the kernel for them.
    pub(super) sides: [Spent; 2],
    /// On their core, whoever it was.
    pub(super) core: Spent,
}

impl Spending {
    pub(super) fn minus(&self, before: &Spending) -> Spending {
        let [west, east] = self.sides;
        let sides = [west.minus(&before.sides[0]), east.minus(&before.sides[1])];
        Spending { sides, core: self.core.minus(&before.core) }
    }

    pub(super) fn times(&self, factor: f64) -> Spending {
        Spending { sides: self.sides.map(|side| side.times(factor)), core: self.core.times(factor) }
    }
}

fn failed(what: &str, error: &io::Error) -> LabError {
    LabError::Parameters(format!("{what}: {error}"))
}

impl Running {
    /// Starts a gateway's definition on both sides with one of its suites.
    ///
    /// # Errors
    /// What could not be made or started, with the program's last words.
    pub(super) fn start(
        definitions: &Definitions,
        stack: &Stack,
        suite: &str,
        program: &Path,
        cores: Cores,
    ) -> Result<Running, LabError> {
        let ground =
            Ground::make(&lab_name(), stack.forwards).map_err(|error| failed("the network namespaces", &error))?;
        let folder = tempfile::tempdir().map_err(|error| failed("a folder for files", &error))?;
        let words = words(stack, suite, program, folder.path())?;
        let mut running = Running { programs: Vec::new(), core: cores.gateways, ground, _folder: folder };
        for (side, words) in SIDES.iter().zip(&words) {
            running.start_side(definitions, stack, *side, words)?;
        }
        for (side, words) in SIDES.iter().zip(&words) {
            if let Some(ready) = &stack.ready {
                let ready = PathBuf::from(words.fill(ready)?);
                running.wait_for(*side, &ready)?;
            }
        }
        for step in &stack.after {
            for (side, words) in SIDES.iter().zip(&words) {
                if step.side.as_ref().is_none_or(|name| name == side.name()) {
                    running.step(definitions, step, *side, words)?;
                }
            }
        }
        Ok(running)
    }

    fn start_side(
        &mut self,
        definitions: &Definitions,
        stack: &Stack,
        side: Side,
        words: &Words,
    ) -> Result<(), LabError> {
        for name in &stack.files {
            let path = definitions.path(name, words)?;
            let text = Zeroizing::new(definitions.text(name, words)?);
            write(&path, &text).map_err(|error| failed(&path.display().to_string(), &error))?;
        }
        if stack.program.is_empty() {
            return Ok(());
        }
        let said = PathBuf::from(words.fill("@folder@/@side@.said")?);
        let mut command = self.pinned(&stack.program, side, words)?;
        for (name, value) in &stack.environment {
            command.env(name, words.fill(value)?);
        }
        let named = |error| failed(&stack.name, &error);
        let output = File::create(&said).map_err(named)?;
        command.stdin(Stdio::null()).stdout(output.try_clone().map_err(named)?).stderr(output);
        let child = command.spawn().map_err(named)?;
        self.programs.push(Program { side, child, said });
        Ok(())
    }

    /// A program in a gateway's namespace and on its core, as urgent as the generator.
    fn pinned(&self, program: &[String], side: Side, words: &Words) -> Result<Command, LabError> {
        let mut command = self.ground.lab.command(side.name(), "taskset");
        command.args(["-c", &self.core.to_string(), "nice", "-n", &URGENT.to_string()]);
        for argument in program {
            command.arg(words.fill(argument)?);
        }
        Ok(command)
    }

    fn wait_for(&mut self, side: Side, path: &Path) -> Result<(), LabError> {
        let begun = Instant::now();
        while !path.exists() {
            self.check()?;
            if begun.elapsed() > START_MAX {
                return Err(self.said(side, "it does not listen"));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn step(&mut self, definitions: &Definitions, step: &Step, side: Side, words: &Words) -> Result<(), LabError> {
        if let (Some(socket), Some(text)) = (&step.socket, &step.send) {
            let text = Zeroizing::new(definitions.text(text, words)?);
            let path = words.fill(socket)?;
            let answer = ask(Path::new(&path), &text).map_err(|error| failed(&path, &error))?;
            return match answer.lines().any(|line| line == "errno=0") {
                true => Ok(()),
                false => Err(self.said(side, &format!("{path} says {}", answer.trim()))),
            };
        }
        let mut command = self.pinned(&step.run, side, words)?;
        let output = command.stdin(Stdio::null()).output();
        let name = step.run.first().map(String::as_str).unwrap_or_default();
        let output = output.map_err(|error| failed(name, &error))?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                let last = said.lines().last().unwrap_or_default().to_owned();
                Err(self.said(side, &format!("{} fails ({}): {last}", step.run.join(" "), output.status)))
            }
        }
    }

    /// That both programs still run.
    ///
    /// # Errors
    /// One has ended, with its last words.
    pub(super) fn check(&mut self) -> Result<(), LabError> {
        let mut gone = None;
        for program in &mut self.programs {
            if let Ok(Some(status)) = program.child.try_wait() {
                gone = gone.or(Some((program.side, status)));
            }
        }
        match gone {
            Some((side, status)) => Err(self.said(side, &format!("it has ended ({status})"))),
            None => Ok(()),
        }
    }

    /// What is wrong, with the last words of a side.
    pub(super) fn said(&self, side: Side, what: &str) -> LabError {
        let program = self.programs.iter().find(|program| program.side == side);
        let said = program.and_then(|program| fs::read_to_string(&program.said).ok()).unwrap_or_default();
        let last = said.lines().last().map(|line| format!(": {line}")).unwrap_or_default();
        LabError::Parameters(format!("{}: {what}{last}", side.name()))
    }

    /// What was spent until now.
    ///
    /// # Errors
    /// What the system says, as when a program is gone.
    pub(super) fn spending(&self) -> io::Result<Spending> {
        let mut spending = Spending { core: load::of_core(self.core)?, ..Spending::default() };
        for program in &self.programs {
            let place = spending.sides.iter_mut().zip(SIDES).find(|(_, side)| *side == program.side);
            if let Some((place, _)) = place {
                *place = load::of_process(program.child.id())?;
            }
        }
        Ok(spending)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(id) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended before; there is nobody left to tell of a failure here.
            let _asked = kill_process(id, Signal::TERM);
        }
        let begun = Instant::now();
        while begun.elapsed() < END_MAX && !matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
            std::thread::sleep(LOOK);
        }
        let _killed = self.child.kill();
        let _waited = self.child.wait();
    }
}

/// A name that no other run has at the same time.
fn lab_name() -> String {
    format!("gw{}", std::process::id())
}

/// What is filled in on each side.
fn words(stack: &Stack, suite: &str, program: &Path, folder: &Path) -> Result<[Words; 2], LabError> {
    let own_suite = stack.suites.get(suite);
    let own_suite = own_suite.ok_or_else(|| LabError::Parameters(format!("{} has no {suite}", stack.name)))?;
    let key_len = suite.parse::<Transform>().map_or(0, |transform| transform.key_len() + transform.salt_len());
    let keys = [random(key_len)?, random(key_len)?];
    let secret = random(32)?;
    let privates = [private()?, private()?];
    let publics = [&privates[0], &privates[1]].map(|private| PublicKey::from(private).to_bytes());
    let mut both = [Words::default(), Words::default()];
    for (own, (words, side)) in both.iter_mut().zip(SIDES).enumerate() {
        let peer = 1 - own;
        words.set("side", side.name());
        words.set("peer_side", side.peer().name());
        words.set_path("folder", folder);
        words.set_path("program", program);
        words.set("own", side.outer().to_string());
        words.set("peer", side.peer().outer().to_string());
        words.set("own_network", side.network());
        words.set("peer_network", side.peer().network());
        words.set("suite", own_suite);
        words.set("secret", hex::encode(&secret));
        words.set("key_out", hex::encode(&keys[own]));
        words.set("key_in", hex::encode(&keys[peer]));
        words.set("spi_out", (0x1001 + own).to_string());
        words.set("spi_in", (0x1001 + peer).to_string());
        words.set("private", hex::encode(privates[own].as_bytes()));
        words.set("peer_public", hex::encode(publics[peer]));
    }
    Ok(both)
}

fn random(len: usize) -> Result<Zeroizing<Vec<u8>>, LabError> {
    let mut bytes = Zeroizing::new(vec![0; len]);
    getrandom::fill(&mut bytes).map_err(|error| LabError::Parameters(format!("no random bytes: {error}")))?;
    Ok(bytes)
}

fn private() -> Result<StaticSecret, LabError> {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *bytes).map_err(|error| LabError::Parameters(format!("no random bytes: {error}")))?;
    Ok(StaticSecret::from(*bytes))
}

/// Files have keys in them, so nobody else reads them.
fn write(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}

/// Sends a text to a socket, and reads what comes until an empty line or the end.
fn ask(path: &Path, text: &str) -> io::Result<String> {
    let mut socket = UnixStream::connect(path)?;
    socket.set_read_timeout(Some(START_MAX))?;
    socket.write_all(text.as_bytes())?;
    let (mut answer, mut buffer) = (Vec::new(), [0; 512]);
    while !answer.ends_with(b"\n\n") {
        match socket.read(&mut buffer)? {
            0 => break,
            len => answer.extend(buffer.iter().take(len)),
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_are_told_the_same_of_each_other() {
        let definitions = Definitions::read().expect("sound");
        let ours = definitions.gateway.iter().find(|stack| stack.name == "ciphermill").expect("there");
        let (program, folder) = (Path::new("/bin/ciphermill"), Path::new("/scratch"));
        let [west, east] = words(ours, "aes-128-gcm", program, folder).expect("words");
        let both = |words: &Words, text: &str| words.fill(text).expect("filled");
        for (own, peer) in [("@own@", "@peer@"), ("@key_out@", "@key_in@"), ("@spi_out@", "@spi_in@")] {
            assert_eq!((both(&west, own), both(&west, peer)), (both(&east, peer), both(&east, own)));
            assert_ne!(both(&west, own), both(&west, peer));
        }
        assert_eq!(both(&west, "@secret@"), both(&east, "@secret@"));
        // 16 bytes of key and 4 of salt.
        assert_eq!(both(&west, "@key_out@").len(), 40);
        assert_ne!(both(&west, "@private@"), both(&east, "@private@"));
        assert!(words(ours, "rot13", program, folder).is_err());
    }

    #[test]
    fn spending_is_a_difference_by_side() {
        let spent = |user_s| Spent { user_s, ..Spent::default() };
        let before = Spending { sides: [spent(1.0), spent(2.0)], core: spent(4.0) };
        let after = Spending { sides: [spent(1.5), spent(4.0)], core: spent(9.0) };
        let wanted = Spending { sides: [spent(1.0), spent(4.0)], core: spent(10.0) };
        assert_eq!(after.minus(&before).times(2.0), wanted);
    }
}
