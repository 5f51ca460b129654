//! The double: how it is built, how a test gets a process of its own in which it stands for CUDA, and what is asked of it
//! there.

use std::ffi::{CStr, CString, OsString, c_char};
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cudarc::driver::sys;
use sha2::{Digest as _, Sha256};

/// Says to a process that it runs inside, and which test.
const INSIDE: &str = "FAKE_CUDA_INSIDE";

/// What a test may take at most: one that hangs fails.
const PATIENCE: Duration = Duration::from_secs(600);

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake_cuda");

/// How eagerly the double does what nobody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Not before somebody waits for it.
    Late,
    /// By chance.
    Random,
    /// At once.
    Early,
}

pub(crate) const PACES: [Pace; 3] = [Pace::Late, Pace::Random, Pace::Early];

/// Past the test harness, which would keep it to itself.
pub(crate) fn say(what: &str) {
    // A log that cannot be written to is no reason to fail.
    let _ = writeln!(std::io::stderr(), "gpu: {what}");
}

/// Runs a test's body in a process of its own, in which the double is what is found under CUDA's names. Where there is no
/// compiler the test says that it did not run, and fails in CI.
pub(crate) fn inside(test: &str, body: impl FnOnce(&Double)) {
    if std::env::var(INSIDE).as_deref() == Ok(test) {
        return body(&Double::open());
    }
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let Some(folder) = FOLDER.get_or_init(built) else { return };
    let mut libraries = OsString::from(folder);
    if let Some(others) = std::env::var_os("LD_LIBRARY_PATH") {
        libraries.push(":");
        libraries.push(others);
    }
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(INSIDE, test)
        .env("LD_LIBRARY_PATH", libraries)
        .env("CIPHERMILL_DEVICE_ROOT", folder)
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("a process");
    let mut stdout = child.stdout.take().expect("piped");
    let reader = std::thread::spawn(move || {
        let mut said = String::new();
        stdout.read_to_string(&mut said).map(|_| said)
    });
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a process of ours") {
            break status;
        }
        if start.elapsed() > PATIENCE {
            child.kill().expect("a process of ours");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let said = reader.join().expect("no panic").unwrap_or_default();
    assert!(status.success(), "{test} failed on the double of CUDA ({status}):\n{said}");
    assert!(said.contains("1 passed"), "{test} did not run inside:\n{said}");
    say(&format!("{test} on the double of CUDA: {:.1} s", start.elapsed().as_secs_f64()));
}

/// The folder with the double, which is compiled unless an earlier run has done that.
fn built() -> Option<PathBuf> {
    let compiler = std::env::var("CXX").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "c++".to_owned());
    if Command::new(&compiler).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        let missing = format!("there is no C++ compiler here ({compiler})");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{missing}");
        say(&format!("NOT RUN: the CUDA runtime was not tested, {missing}"));
        return None;
    }
    let mut files: Vec<PathBuf> =
        fs::read_dir(SOURCES).expect("the sources").map(|entry| entry.expect("a file").path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "cpp" || end == "h"));
    files.sort();
    let mut name = Sha256::new();
    files.iter().for_each(|path| name.update(fs::read(path).expect("a source")));
    let name: String = name.finalize().as_slice()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fake-cuda-{name}"));
    if !folder.exists() {
        let draft = folder.with_extension(std::process::id().to_string());
        fs::create_dir_all(draft.join("dev")).expect("a folder for the double");
        fs::write(draft.join("dev/nvidiactl"), []).expect("a node");
        build(&compiler, &files, &draft);
        if fs::rename(&draft, &folder).is_err() {
            // Another process has built it meanwhile.
            fs::remove_dir_all(&draft).expect("a folder of ours");
        }
    }
    Some(folder)
}

/// Compiles the sources side by side, and puts the library under both of CUDA's names: it is one library all the same.
fn build(compiler: &str, files: &[PathBuf], folder: &Path) {
    let sources: Vec<&PathBuf> = files.iter().filter(|path| path.extension().is_some_and(|end| end == "cpp")).collect();
    let object = |source: &Path| folder.join(source.file_name().expect("a file")).with_extension("o");
    let compilers: Vec<_> = sources
        .iter()
        .map(|source| {
            let mut command = Command::new(compiler);
            command.args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden", "-c"]);
            command.arg(source).arg("-o").arg(object(source)).spawn().expect("the compiler")
        })
        .collect();
    for mut compiler in compilers {
        assert!(compiler.wait().expect("the compiler").success(), "the double does not compile");
    }
    let library = folder.join("libcuda.so");
    let mut linker = Command::new(compiler);
    linker.args(["-shared", "-o"]).arg(&library).args(sources.iter().map(|source| object(source)));
    assert!(linker.args(["-ldl", "-pthread"]).status().expect("the linker").success(), "the double does not link");
    std::os::unix::fs::symlink("libcuda.so", folder.join("libnvrtc.so")).expect("a link");
}

/// What stands for CUDA in this process.
pub(crate) struct Double(());

/// One of its functions, which must have the type that is asked for.
macro_rules! function {
    ($name:literal, $type:ty) => {{
        // SAFETY: the library is the double, whose function of this name has this type.
        unsafe { *sys::culib().get::<$type>($name.as_bytes()).expect("the double has it") }
    }};
}

impl Double {
    fn open() -> Double {
        // SAFETY: it is only asked for.
        assert!(unsafe { sys::is_culib_present() }, "the double is found");
        let double = Double(());
        double.reset(0, Pace::Random);
        double
    }

    /// Forgets everything, and begins with a seed.
    pub(crate) fn reset(&self, seed: u64, pace: Pace) {
        let reset = function!("fake_cuda_reset", unsafe extern "C" fn(u64, i32));
        // SAFETY: nothing is under way in the engine.
        unsafe { reset(seed, pace as i32) }
    }

    /// Makes the `nth` call from now on fail, of one function or of any; with `for_good`, every call behind it as well.
    pub(crate) fn fail(&self, name: Option<&str>, nth: u64, code: i32, for_good: bool) {
        let fail = function!("fake_cuda_fail", unsafe extern "C" fn(*const c_char, u64, i32, i32));
        let name = name.map(|name| CString::new(name).expect("a name"));
        // SAFETY: the name is a string or null, and is copied.
        unsafe { fail(name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr()), nth, code, i32::from(for_good)) }
    }

    /// Makes the `nth` piece of work from now on fail while it is done.
    pub(crate) fn fail_work(&self, nth: u64, code: i32) {
        let fail = function!("fake_cuda_fail_work", unsafe extern "C" fn(u64, i32));
        // SAFETY: plain numbers.
        unsafe { fail(nth, code) }
    }

    /// Launches that were done since the reset.
    pub(crate) fn launches(&self) -> u64 {
        let launches = function!("fake_cuda_launches", unsafe extern "C" fn() -> u64);
        // SAFETY: nothing is asked of the caller.
        unsafe { launches() }
    }

    /// What was made to fail, once it has failed.
    pub(crate) fn failed(&self) -> Option<String> {
        let failed = function!("fake_cuda_failed", unsafe extern "C" fn() -> *const c_char);
        // SAFETY: the double gives a string that it keeps.
        let name = unsafe { CStr::from_ptr(failed()) }.to_string_lossy().into_owned();
        Some(name).filter(|name| !name.is_empty())
    }

    /// The rules that were broken, a line each, with what is left over now.
    pub(crate) fn report(&self) -> String {
        let report = function!("fake_cuda_report", unsafe extern "C" fn() -> *const c_char);
        // SAFETY: as above.
        unsafe { CStr::from_ptr(report()) }.to_string_lossy().into_owned()
    }

    /// Fails if any rule was broken.
    pub(crate) fn assert_clean(&self, when: &str) {
        let report = self.report();
        assert!(report.is_empty(), "{when}: the CUDA runtime broke rules:\n{report}");
    }
}
