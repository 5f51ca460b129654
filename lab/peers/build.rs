//! Compiles the shim over Intel's multi-buffer library, when header and library are there; otherwise leaves a reason for
//! the peer to report.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(ipsec_mb)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/ipsec_mb");
    println!("cargo::rerun-if-env-changed=CIPHERMILL_NO_IPSEC_MB");
    match shim() {
        Ok(()) => println!("cargo::rustc-cfg=ipsec_mb"),
        Err(why) => {
            println!("cargo::rustc-env=CIPHERMILL_IPSEC_MB_MISSING={why}");
            // Where Debian's package puts the header: one that is installed after this build is found by the next.
            println!("cargo::rerun-if-changed=/usr/include");
        }
    }
}

fn shim() -> Result<(), String> {
    if env::var_os("CIPHERMILL_NO_IPSEC_MB").is_some() {
        return Err("it was left out of this build (CIPHERMILL_NO_IPSEC_MB)".to_owned());
    }
    if env::var("CARGO_CFG_TARGET_ARCH").as_deref() != Ok("x86_64") {
        return Err("it is for x86-64 only".to_owned());
    }
    let missing = |what: &str| format!("{what}; install libipsec-mb-dev (version 1.3 or later) and build again");
    let out = env::var("OUT_DIR").map_err(|_| "no output folder".to_owned())?;
    let compiler = cc::Build::new().try_get_compiler().map_err(|_| "no C compiler was found".to_owned())?;
    // One program tells whether header and library are there and new enough.
    let probe = Path::new(&out).join("probe.c");
    std::fs::write(&probe, PROBE).map_err(|error| error.to_string())?;
    let linked = compiler
        .to_command()
        .arg(&probe)
        .args(["-lIPSec_MB", "-o"])
        .arg(Path::new(&out).join("probe"))
        .output()
        .map_err(|error| error.to_string())?;
    if !linked.status.success() {
        return Err(missing("its header or library was not found when this was built, or is older than 1.3"));
    }
    cc::Build::new()
        .files(["src/ipsec_mb/run.c", "src/ipsec_mb/keys.c", "src/ipsec_mb/native.c"])
        .std("c11")
        .opt_level(3)
        .warnings(true)
        .extra_warnings(true)
        .try_compile("ciphermill_ipsec_mb")
        .map_err(|_| missing("its shim did not compile"))?;
    println!("cargo::rustc-link-lib=IPSec_MB");
    Ok(())
}

const PROBE: &str = "#include <intel-ipsec-mb.h>
#if IMB_VERSION_NUM < IMB_VERSION(1, 3, 0)
#error too old
#endif
int main(void) { return imb_get_version() < IMB_VERSION(1, 3, 0); }
";
