//! The module beside SoftHSM: the same loop over the same functions, each side in a process of its own, by turns.
//!
//! `cargo bench -p ciphermill-pkcs11 --bench figures`, on a quiet machine. SoftHSM is Debian's, or the module that `SOFTHSM` names. Every
//! signature and ciphertext of the first round of a side is verified or decrypted by that side before times are taken.
#![allow(unsafe_code, reason = "modules are called as C calls them")]
#![allow(clippy::expect_used, reason = "a benchmark stops at once")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::null_mut;
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ciphermill::{BoundOp, KeyPolicy, Mill};
use ciphermill_contract::{Direction, KeyMaterial, Suite};
use cryptoki_sys::*;
use libloading::Library;

const SOFTHSM: &str = "/usr/lib/softhsm/libsofthsm2.so";
const PIN: &[u8] = b"1234";
/// Turns of each side.
const ROUNDS: usize = 7;
/// What a side has in each turn.
const TURN: Duration = Duration::from_millis(1500);
const MESSAGE: [u8; 64] = [7; 64];

/// How many threads do what, what it has to reach, and what is aimed at.
const CASES: [(usize, &str, f64, f64); 3] =
    [(16, "RSA-2048", 4.0, 8.0), (16, "ECDSA P-256", 4.0, 10.0), (1, "AES-GCM of 64 bytes", 4.0, 10.0)];

fn ok(rv: CK_RV) {
    assert_eq!(rv, CKR_OK, "{rv:#x}");
}

fn at(bytes: &[u8]) -> *mut u8 {
    bytes.as_ptr().cast_mut()
}

/// A module with a new token, of which the user is logged in.
struct Module {
    functions: CK_FUNCTION_LIST,
    slot: CK_SLOT_ID,
    _library: Library,
}

/// Calls a function of a module.
macro_rules! call {
    ($module:expr, $name:ident $(, $argument:expr)* $(,)?) => {{
        let function = $module.functions.$name.expect("a function");
        #[allow(unused_unsafe, reason = "within others")]
        // SAFETY: the pointers are the benchmark's, and lengths are theirs.
        unsafe { function($($argument),*) }
    }};
}

impl Module {
    fn open(path: &Path) -> Module {
        // SAFETY: a module of PKCS#11 by the standard's entry, whose table is never freed.
        let (functions, library) = unsafe {
            let library = Library::new(path).expect("a module");
            let entry =
                library.get::<unsafe extern "C" fn(*mut *mut CK_FUNCTION_LIST) -> CK_RV>(b"C_GetFunctionList\0");
            let mut list = null_mut();
            ok(entry.expect("an entry")(&mut list));
            (*list, library)
        };
        let mut module = Module { functions, slot: 0, _library: library };
        let mut arguments = CK_C_INITIALIZE_ARGS { flags: CKF_OS_LOCKING_OK, ..CK_C_INITIALIZE_ARGS::default() };
        ok(call!(module, C_Initialize, std::ptr::from_mut(&mut arguments).cast()));
        let mut label = [b' '; 32];
        ok(call!(module, C_InitToken, 0, at(PIN), 4, label.as_mut_ptr()));
        // SoftHSM numbers its slots anew.
        let (mut slots, mut count) = ([0; 8], 8);
        ok(call!(module, C_GetSlotList, 1, slots.as_mut_ptr(), &mut count));
        let is_made = |slot: &CK_SLOT_ID| {
            let mut info = CK_TOKEN_INFO::default();
            ok(call!(module, C_GetTokenInfo, *slot, &mut info));
            info.flags & CKF_TOKEN_INITIALIZED != 0
        };
        module.slot = slots.into_iter().take(count as usize).find(is_made).expect("a token");
        let session = module.session();
        ok(call!(module, C_Login, session, CKU_SO, at(PIN), 4));
        ok(call!(module, C_InitPIN, session, at(PIN), 4));
        ok(call!(module, C_Logout, session));
        ok(call!(module, C_Login, session, CKU_USER, at(PIN), 4));
        module
    }

    fn session(&self) -> CK_SESSION_HANDLE {
        let mut session = 0;
        let flags = CKF_SERIAL_SESSION | CKF_RW_SESSION;
        ok(call!(self, C_OpenSession, self.slot, flags, null_mut(), None, &mut session));
        session
    }

    /// A key for a case: the private and the public half, or the secret key twice.
    fn key(&self, session: CK_SESSION_HANDLE, case: usize) -> [CK_OBJECT_HANDLE; 2] {
        let (mut yes, mut no) = ([1_u8], [0_u8]);
        let (mut bits, mut len) = (2048_u64.to_ne_bytes(), 32_u64.to_ne_bytes());
        let mut curve = [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
        let attribute = |kind, value: &mut [u8]| CK_ATTRIBUTE {
            type_: kind,
            pValue: value.as_mut_ptr().cast(),
            ulValueLen: value.len() as CK_ULONG,
        };
        let kind = |kind| CK_MECHANISM { mechanism: kind, pParameter: null_mut(), ulParameterLen: 0 };
        let [mut private, mut public] = [0, 0];
        if case == 2 {
            let mut template = [
                attribute(CKA_VALUE_LEN, &mut len),
                attribute(CKA_ENCRYPT, &mut yes),
                attribute(CKA_DECRYPT, &mut yes),
                attribute(CKA_TOKEN, &mut no),
            ];
            ok(call!(self, C_GenerateKey, session, &mut kind(CKM_AES_KEY_GEN), template.as_mut_ptr(), 4, &mut private));
            return [private, private];
        }
        let (mechanism, what) = match case {
            0 => (CKM_RSA_PKCS_KEY_PAIR_GEN, attribute(CKA_MODULUS_BITS, &mut bits)),
            _ => (CKM_EC_KEY_PAIR_GEN, attribute(CKA_EC_PARAMS, &mut curve)),
        };
        let mut of_public = [what, attribute(CKA_VERIFY, &mut yes)];
        let mut of_private = [attribute(CKA_SIGN, &mut yes)];
        let (first, second) = (of_public.as_mut_ptr(), of_private.as_mut_ptr());
        let mut kind = kind(mechanism);
        ok(call!(self, C_GenerateKeyPair, session, &mut kind, first, 2, second, 1, &mut public, &mut private));
        [private, public]
    }

    /// One operation, as applications make one: begun, and done.
    fn operation(
        &self,
        session: CK_SESSION_HANDLE,
        case: usize,
        key: CK_OBJECT_HANDLE,
        out: &mut [u8; 512],
    ) -> CK_ULONG {
        let mut len = 512;
        if case == 2 {
            let (mut iv, mut parameters) = ([9_u8; 12], CK_GCM_PARAMS::default());
            let mut mechanism = gcm(&mut iv, &mut parameters);
            ok(call!(self, C_EncryptInit, session, &mut mechanism, key));
            ok(call!(self, C_Encrypt, session, at(&MESSAGE), 64, out.as_mut_ptr(), &mut len));
        } else {
            let mut mechanism = signing(case);
            ok(call!(self, C_SignInit, session, &mut mechanism, key));
            ok(call!(self, C_Sign, session, at(&MESSAGE[..32]), 32, out.as_mut_ptr(), &mut len));
        }
        len
    }

    /// Checks what an operation gave.
    fn check(
        &self,
        session: CK_SESSION_HANDLE,
        case: usize,
        key: CK_OBJECT_HANDLE,
        out: &mut [u8; 512],
        len: CK_ULONG,
    ) {
        if case == 2 {
            let (mut iv, mut parameters) = ([9_u8; 12], CK_GCM_PARAMS::default());
            let (mut mechanism, mut text, mut text_len) = (gcm(&mut iv, &mut parameters), [0; 80], 80);
            ok(call!(self, C_DecryptInit, session, &mut mechanism, key));
            ok(call!(self, C_Decrypt, session, out.as_mut_ptr(), len, text.as_mut_ptr(), &mut text_len));
            assert_eq!(text.get(..text_len as usize), Some(&MESSAGE[..]));
        } else {
            let mut mechanism = signing(case);
            ok(call!(self, C_VerifyInit, session, &mut mechanism, key));
            ok(call!(self, C_Verify, session, at(&MESSAGE[..32]), 32, out.as_mut_ptr(), len));
        }
    }
}

fn signing(case: usize) -> CK_MECHANISM {
    let mechanism = if case == 0 { CKM_RSA_PKCS } else { CKM_ECDSA };
    CK_MECHANISM { mechanism, pParameter: null_mut(), ulParameterLen: 0 }
}

fn gcm(iv: &mut [u8; 12], parameters: &mut CK_GCM_PARAMS) -> CK_MECHANISM {
    *parameters = CK_GCM_PARAMS {
        pIv: iv.as_mut_ptr(),
        ulIvLen: 12,
        ulIvBits: 96,
        pAAD: null_mut(),
        ulAADLen: 0,
        ulTagBits: 128,
    };
    CK_MECHANISM {
        mechanism: CKM_AES_GCM,
        pParameter: std::ptr::from_mut(parameters).cast(),
        ulParameterLen: size_of::<CK_GCM_PARAMS>() as CK_ULONG,
    }
}

/// One side's turn: prints its rate in operations a second. `in_turn` has its threads wait for each other, for modules that do not bear
/// several at once.
fn side(path: &Path, case: usize, threads: usize, in_turn: bool) {
    let module = Module::open(path);
    let (start, lock) = (Barrier::new(threads), Mutex::new(()));
    let first = module.session();
    let [key, checked_by] = module.key(first, case);
    let done: Vec<f64> = std::thread::scope(|scope| {
        let work = || {
            let (session, mut out) = (module.session(), [0; 512]);
            let operation = |out: &mut [u8; 512]| {
                let _turn = in_turn.then(|| lock.lock().unwrap_or_else(PoisonError::into_inner));
                module.operation(session, case, key, out)
            };
            for _ in 0..50 {
                let len = operation(&mut out);
                let _turn = in_turn.then(|| lock.lock().unwrap_or_else(PoisonError::into_inner));
                module.check(session, case, checked_by, &mut out, len);
            }
            start.wait();
            let (begun, mut count) = (Instant::now(), 0_u32);
            while begun.elapsed() < TURN {
                // The clock is looked at seldom where operations are short.
                for _ in 0..if case == 2 { 100 } else { 1 } {
                    operation(&mut out);
                    count += 1;
                }
            }
            f64::from(count) / begun.elapsed().as_secs_f64()
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        all.into_iter().map(|thread| thread.join().expect("a thread")).collect()
    });
    println!("{}", done.iter().sum::<f64>());
}

/// Has a process of its own measure a side; `None` where that process did not live to the end.
fn measure(module: &Path, case: usize, in_turn: bool) -> Option<f64> {
    let folder = tempfile::tempdir().expect("a folder");
    let configuration = folder.path().join("softhsm2.conf");
    std::fs::write(&configuration, format!("directories.tokendir = {}\nlog.level = ERROR\n", folder.path().display()))
        .expect("a file");
    let output = Command::new(std::env::current_exe().expect("this program"))
        .arg("--side")
        .arg(module)
        .args([case.to_string(), CASES[case].0.to_string(), in_turn.to_string()])
        .env("SOFTHSM2_CONF", &configuration)
        .env("CIPHERMILL_PKCS11_KEYSTORES", folder.path().join("keystore"))
        .output()
        .expect("this program once more");
    if !output.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

/// The median, the least and the most.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

fn compare(ours: &Path, peer: &Path) {
    println!("| work | ours a second | SoftHSM a second | factor | must | aim |\n|---|---|---|---|---|---|");
    for (case, (threads, name, must, aim)) in CASES.into_iter().enumerate() {
        // Some builds of SoftHSM crash when two threads sign.
        let in_turn = measure(peer, case, false).is_none();
        let (mut all, mut rates) = (Vec::new(), [Vec::new(), Vec::new()]);
        for _ in 0..ROUNDS {
            let mine = measure(ours, case, false).expect("our own module");
            let other = measure(peer, case, in_turn).expect("SoftHSM");
            all.push(mine / other);
            rates[0].push(mine);
            rates[1].push(other);
        }
        let [(mine, ..), (other, ..)] = rates.map(spread);
        let (factor, least, most) = spread(all);
        let note = if in_turn { " (in turn: it crashes otherwise)" } else { "" };
        println!(
            "| {name}, threads: {threads} | {mine:.0} | {other:.0}{note} | {factor:.2} ({least:.2} to {most:.2}) | {must} | {aim} |"
        );
    }
}

/// What the module takes above a bound context, in nanoseconds: `C_EncryptInit` and `C_Encrypt` beside [`ciphermill::Bound::run`].
fn above_bound(ours: &Path) {
    const OPERATIONS: u32 = 20_000;
    let folder = tempfile::tempdir().expect("a folder");
    // SAFETY: there are no other threads yet.
    unsafe { std::env::set_var("CIPHERMILL_PKCS11_KEYSTORES", folder.path().join("keystore")) };
    let module = Module::open(ours);
    let session = module.session();
    let [key, _] = module.key(session, 2);
    let engines = ["lanes", "library", "reference"]
        .map(|name| ciphermill_engines::open(name).expect("a name").expect("an engine"));
    let mill = Mill::builder().engines(engines).workers(0).legacy(true).open().expect("a mill");
    let suite: Suite = "aes-256-gcm".parse().expect("a suite");
    let id = mill.keys().import(KeyMaterial::secret(&[7; 32]), KeyPolicy::default()).expect("a key");
    let mut bound = mill.bind(suite, Direction::Encrypt, id).expect("a handle");
    let mut differences = Vec::new();
    let (mut through, mut direct) = (Vec::new(), Vec::new());
    for _ in 0..21 {
        let begun = Instant::now();
        let mut out = [0; 512];
        for _ in 0..OPERATIONS {
            module.operation(session, 2, key, &mut out);
        }
        let module_ns = begun.elapsed().as_nanos() as f64 / f64::from(OPERATIONS);
        let begun = Instant::now();
        for _ in 0..OPERATIONS {
            let (mut data, mut tag) = (MESSAGE, [0; 16]);
            let op = BoundOp { iv: &[9; 12], aad: b"", data: &mut data, input_len: 64, tag: &mut tag };
            assert!(bound.run(op).expect("an engine").status.is_done());
        }
        let bound_ns = begun.elapsed().as_nanos() as f64 / f64::from(OPERATIONS);
        through.push(module_ns);
        direct.push(bound_ns);
        differences.push(module_ns - bound_ns);
    }
    let ((module, ..), (bound, ..), (more, least, most)) = (spread(through), spread(direct), spread(differences));
    println!(
        "\nAES-256-GCM of 64 bytes: {module:.0} ns by C_EncryptInit and C_Encrypt, {bound:.0} ns by a bound context"
    );
    println!("above the bound context: {more:.0} ns ({least:.0} to {most:.0}); must < 150, aim < 60");
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, module, case, threads, in_turn] = arguments.as_slice()
        && flag == "--side"
    {
        let [case, threads] = [case, threads].map(|number| number.parse().expect("a number"));
        return side(Path::new(module), case, threads, in_turn == "true");
    }
    let program = std::env::current_exe().expect("this program");
    let ours = program.with_file_name("libciphermill_pkcs11.so");
    above_bound(&ours);
    let peer = std::env::var_os("SOFTHSM").map_or_else(|| PathBuf::from(SOFTHSM), PathBuf::from);
    if !peer.exists() {
        eprintln!("no SoftHSM at {}: apt-get install softhsm2, or name it with SOFTHSM", peer.display());
        std::process::exit(77);
    }
    compare(&ours, &peer);
}
