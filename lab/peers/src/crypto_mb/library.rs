//! Intel's crypto_mb, loaded at run time: its functions by the names and arguments that its documentation gives
//! (`intel/cryptography-primitives`, `sources/ippcp/crypto_mb`, version 1.1).
//!
//! Every function takes arrays of eight pointers and answers with a status of four bits for each lane, lane 0 lowest. Numbers
//! are little-endian words of 64 bits, except for what RSA and ECDSA read and write as messages and signatures: big-endian bytes.

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::ptr;

use ciphermill_contract::suite::RsaSize;
use libloading::Library;

use crate::with_causes;

/// The environment variable with the path of `libcrypto_mb.so`.
pub const VARIABLE: &str = "CIPHERMILL_CRYPTO_MB";

/// Requests of one call.
pub(super) const LANES: usize = 8;

/// The major version whose functions are declared here.
const MAJOR: c_int = 1;

/// `MBX_ALGO_X25519`: the library has it with AVX-512 IFMA only, as it has the other curves.
const ALGO_X25519: c_int = 4;

/// Eight pointers to what is read, and to what is written.
pub(super) type Inputs<T> = [*const T; LANES];
pub(super) type Outputs = [*mut u8; LANES];

type In<T> = *const *const T;
type Out = *const *mut u8;

/// From, to, modulus, bits of the modulus, method, scratch memory.
type RsaPublic = unsafe extern "C" fn(In<u8>, Out, In<u64>, c_int, *const c_void, *mut u8) -> u32;
/// From, to, exponent, modulus, bits of the modulus, method, scratch memory.
type RsaPrivate = unsafe extern "C" fn(In<u8>, Out, In<u64>, In<u64>, c_int, *const c_void, *mut u8) -> u32;
/// From, to, `p`, `q`, `d mod p-1`, `d mod q-1`, `1/q mod p`, bits of the modulus, method, scratch memory.
type RsaCrt = unsafe extern "C" fn(
    In<u8>,
    Out,
    In<u64>,
    In<u64>,
    In<u64>,
    In<u64>,
    In<u64>,
    c_int,
    *const c_void,
    *mut u8,
) -> u32;
type RsaMethod = unsafe extern "C" fn(c_int) -> *const c_void;
type RsaBytes = unsafe extern "C" fn(*const c_void) -> c_int;
/// Shared secret, private key, public value.
type X25519 = unsafe extern "C" fn(Out, In<u8>, In<u8>) -> u32;
/// `R`, `S`, message, its length, private key, public key.
type EdSign = unsafe extern "C" fn(Out, Out, In<u8>, *const u32, In<u8>, In<u8>) -> u32;
/// `R`, `S`, message, its length, public key.
type EdVerify = unsafe extern "C" fn(In<u8>, In<u8>, In<u8>, *const u32, In<u8>) -> u32;
/// Shared secret, private key, `x`, `y` and `z` of the public value (no `z` when affine), scratch memory.
type Ecdh = unsafe extern "C" fn(Out, In<u64>, In<u64>, In<u64>, In<u64>, *mut u8) -> u32;
/// `r`, `s`, digest, ephemeral key, private key, scratch memory.
type EcSign = unsafe extern "C" fn(Out, Out, In<u8>, In<u64>, In<u64>, *mut u8) -> u32;
/// `r`, `s`, digest, `x`, `y` and `z` of the public key (no `z` when affine), scratch memory.
type EcVerify = unsafe extern "C" fn(In<u8>, In<u8>, In<u8>, In<u64>, In<u64>, In<u64>, *mut u8) -> u32;

/// What the library says of itself.
#[repr(C)]
struct Version {
    major: c_int,
    minor: c_int,
    patch: c_int,
    target: [u8; 4],
    name: *const c_void,
    built: *const c_void,
    words: *const c_void,
}

impl Version {
    /// As in `1.1.0 k1`.
    fn words(&self) -> String {
        let target = self.target.iter().take_while(|byte| byte.is_ascii_alphanumeric());
        let target: String = target.map(|byte| char::from(*byte)).collect();
        format!("{}.{}.{} {target}", self.major, self.minor, self.patch)
    }
}

/// The functions of one curve.
pub(super) struct Curve {
    pub(super) ecdh: Ecdh,
    pub(super) sign: EcSign,
    pub(super) verify: EcVerify,
}

/// The library's functions.
pub(super) struct Api {
    pub(super) rsa_public: RsaPublic,
    pub(super) rsa_private: RsaPrivate,
    pub(super) rsa_crt: RsaCrt,
    rsa_methods: [RsaMethod; 3],
    rsa_bytes: RsaBytes,
    pub(super) x25519: X25519,
    pub(super) ed25519_sign: EdSign,
    pub(super) ed25519_verify: EdVerify,
    pub(super) p256: Curve,
    pub(super) p384: Curve,
    /// Its version and the processor that it was built for.
    pub(super) version: String,
    /// What the functions lie in: kept for as long as they are called.
    _library: Library,
}

impl Api {
    /// Loads the library at `path`.
    ///
    /// # Errors
    /// Why it cannot be used, in words that name [`VARIABLE`].
    pub(super) fn load(path: &Path) -> Result<Api, String> {
        let wrong = |why: String| format!("{VARIABLE} is {}, but {why}", path.display());
        if !path.is_file() {
            return Err(wrong("there is no such file".to_owned()));
        }
        // SAFETY: what the user names runs its initialisers; crypto_mb has none beyond those of OpenSSL, which it links to.
        let library = unsafe { Library::new(path) }
            .map_err(|error| wrong(format!("it cannot be loaded: {}", with_causes(&error))))?;
        // SAFETY: the types are those of version 1, which is asked for before anything else is called.
        unsafe { Api::of(library) }.map_err(wrong)
    }

    /// # Safety
    /// Functions that the library has under these names have these types.
    unsafe fn of(library: Library) -> Result<Api, String> {
        /// # Safety
        /// `F` is the type of the function of this name, if there is one.
        unsafe fn function<F: Copy>(library: &Library, name: &str) -> Result<F, String> {
            // SAFETY: the caller's promise.
            let found = unsafe { library.get::<F>(name.as_bytes()) };
            found.map(|found| *found).map_err(|_| format!("it has no function `{name}`, so it is not crypto_mb"))
        }
        // SAFETY: the caller's promise, for each of them.
        unsafe {
            let lib = &library;
            let version: unsafe extern "C" fn() -> *const Version = function(lib, "mbx_getversion")?;
            let version = version().as_ref().ok_or("it does not tell its version")?;
            if version.major != MAJOR {
                return Err(format!("it is version {}, and {MAJOR}.x is needed", version.words()));
            }
            let algorithm: unsafe extern "C" fn(c_int) -> u64 = function(lib, "mbx_get_algo_info")?;
            let curve = |name: &str| {
                Ok::<_, String>(Curve {
                    ecdh: function(lib, &format!("mbx_{name}_ecdh_mb8"))?,
                    sign: function(lib, &format!("mbx_{name}_ecdsa_sign_mb8"))?,
                    verify: function(lib, &format!("mbx_{name}_ecdsa_verify_mb8"))?,
                })
            };
            let api = Api {
                rsa_public: function(lib, "mbx_rsa_public_mb8")?,
                rsa_private: function(lib, "mbx_rsa_private_mb8")?,
                rsa_crt: function(lib, "mbx_rsa_private_crt_mb8")?,
                rsa_methods: [
                    function(lib, "mbx_RSA_pub65537_Method")?,
                    function(lib, "mbx_RSA_private_Method")?,
                    function(lib, "mbx_RSA_private_crt_Method")?,
                ],
                rsa_bytes: function(lib, "mbx_RSA_Method_BufSize")?,
                x25519: function(lib, "mbx_x25519_mb8")?,
                ed25519_sign: function(lib, "mbx_ed25519_sign_mb8")?,
                ed25519_verify: function(lib, "mbx_ed25519_verify_mb8")?,
                p256: curve("nistp256")?,
                p384: curve("nistp384")?,
                version: version.words(),
                _library: library,
            };
            if algorithm(ALGO_X25519) & LANES as u64 == 0 {
                return Err("it does not run the curves on this processor: they need AVX-512 IFMA".to_owned());
            }
            Ok(api)
        }
    }

    /// Bytes of scratch memory that the three RSA functions want for keys of this size, aligned to 64.
    pub(super) fn rsa_scratch_len(&self, size: RsaSize) -> usize {
        let bits = c_int::try_from(size.bits()).unwrap_or(0);
        let bytes = self.rsa_methods.iter().map(|method| {
            // SAFETY: the function looks a number up; its result is a constant of the library, or null.
            let method = unsafe { method(bits) };
            // SAFETY: reads the constant.
            if method.is_null() { 0 } else { unsafe { (self.rsa_bytes)(method) } }
        });
        bytes.filter_map(|bytes| usize::try_from(bytes).ok()).max().unwrap_or(0)
    }

    /// The functions look their method up themselves.
    pub(super) const ANY_METHOD: *const c_void = ptr::null();
}
