//! DPDK's ipsec-secgw as a peer: a program of its own, which the script `xtask/gateway/secgw.sh` builds, runs in memory and reads out.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::Deserialize;

/// Where the script lies, seen from the repository's root.
const SCRIPT: &str = "xtask/gateway/secgw.sh";

/// What scripts exit with where they cannot run.
const CANNOT: i32 = 77;

/// The script, found.
pub(super) struct Secgw {
    script: PathBuf,
    core: Option<usize>,
}

/// One of its measurements.
#[derive(Clone, Debug, Deserialize)]
struct Line {
    mpps: f64,
    /// How much of the core it had.
    core_share: f64,
}

impl Secgw {
    /// `Err` says why there is none.
    pub(super) fn find(core: Option<usize>) -> Result<Secgw, String> {
        let script = PathBuf::from(SCRIPT);
        if !script.is_file() {
            return Err(format!("{SCRIPT} is not here: run the lab in the repository's root"));
        }
        Ok(Secgw { script, core })
    }

    /// Millions of packets a second of one measurement, as `gcm-out-64`, in a second.
    pub(super) fn mpps(&self, name: &str) -> Result<f64, String> {
        let mut command = Command::new("bash");
        command.arg(&self.script).args(["--seconds", "1", "--only", name]).stdin(Stdio::null());
        if let Some(core) = self.core {
            command.args(["--core", &core.to_string()]);
        }
        let output = command.output().map_err(|error| format!("bash: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing").to_owned();
            return Err(if output.status.code() == Some(CANNOT) {
                last
            } else {
                format!("it failed, and said: {last}")
            });
        }
        let line = read(&String::from_utf8_lossy(&output.stdout)).ok_or("its output has no measurement")?;
        // Packets while it had the core, as if it had had all of it.
        Ok(line.mpps / line.core_share.clamp(0.1, 1.0))
    }
}

fn read(text: &str) -> Option<Line> {
    text.lines().filter(|line| line.starts_with('{')).find_map(|line| serde_json::from_str(line).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_json_is_found() {
        let text = "out AES-128-GCM   64 bytes:   9.370 Mpps\n{\"peer\": \"ipsec-secgw\", \"mpps\": 9.37, \"core_share\": 0.98}\n";
        let line = read(text).expect("a measurement");
        assert_eq!((line.mpps, line.core_share), (9.37, 0.98));
        assert!(read("secgw: no DPDK\n").is_none());
    }
}
