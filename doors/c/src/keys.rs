//! Keys of a mill's table: taken in, generated, destroyed. C programs hold names, never bytes.

use std::ptr::null;

use ciphermill::contract::{
    Batch, Direction, Directions, EngineKinds, KeyForm, KeyId, KeyMaterial, Op, OpStatus, Suite,
};
use ciphermill::{KeyPolicy, Mill};
use ciphermill_keys::SuiteSet;
use ciphermill_keys::keystore::KeyKind;
use ciphermill_memory::SecretBytes;

use crate::entry::entry;
use crate::failure::{CIPHERMILL_REFUSED, CIPHERMILL_TOO_SHORT, Failure, ciphermill_status};
use crate::foreign::{self, Plain, Versioned};
use crate::handle;
use crate::mill::ciphermill_mill;
use crate::suite::{self, ciphermill_suite};

/// The name of a key in a mill's table. All zeros is no key, for suites that take none.
///
/// A key that was destroyed is never reached by its name again, nor is another.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ciphermill_key {
    /// Its place in the table.
    pub slot: u32,
    /// How often that place was used; zero for no key.
    pub generation: u32,
}

const _: () = {
    assert!(size_of::<ciphermill_key>() == size_of::<KeyId>());
    assert!(std::mem::offset_of!(ciphermill_key, generation) == std::mem::offset_of!(KeyId, generation));
};

// SAFETY: two integers.
unsafe impl Plain for ciphermill_key {}

impl From<ciphermill_key> for KeyId {
    #[inline]
    fn from(key: ciphermill_key) -> KeyId {
        KeyId { slot: key.slot, generation: key.generation }
    }
}

impl From<KeyId> for ciphermill_key {
    fn from(key: KeyId) -> ciphermill_key {
        ciphermill_key { slot: key.slot, generation: key.generation }
    }
}

/// A symmetric key's raw bytes; for chains the cipher's key followed by the MAC's.
pub const CIPHERMILL_KEY_SECRET: u32 = 0;
/// A private key: PKCS#8 in DER for RSA, ECDH and ECDSA; for DH the big-endian exponent; for X25519, X448 and Ed25519 the
/// scalar or seed of 32, 56 and 32 bytes; for ML-KEM the seed of 64 bytes; for ML-DSA the seed of 32 bytes.
pub const CIPHERMILL_KEY_PRIVATE: u32 = 1;
/// A public key: SubjectPublicKeyInfo in DER for RSA, ECDH and ECDSA; raw bytes for all others.
pub const CIPHERMILL_KEY_PUBLIC: u32 = 2;

/// What a key may be used for. Set `struct_len` to the size of the structure, and all else to zero for any use.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ciphermill_key_policy {
    /// sizeof(ciphermill_key_policy).
    pub struct_len: usize,
    /// The suites that the key may be used with; NULL for any.
    pub suites: *const ciphermill_suite,
    /// How many there are.
    pub suites_len: usize,
    /// The directions: zero for both, 1 for CIPHERMILL_ENCRYPT alone, 2 for CIPHERMILL_DECRYPT alone.
    pub directions: u32,
    /// The kinds of engines that may hold the key, zero for all: 1 reference, 2 library, 4 lanes, 8 GPU, 16 token, 32
    /// service.
    pub engines: u32,
    /// Operations that the key may be used for in all, counted from now; zero for any number.
    pub operations_max: u64,
    /// The second (Unix time) from which on the key is refused; zero for none.
    pub expires_unix_s: u64,
}

impl Default for ciphermill_key_policy {
    fn default() -> Self {
        Self {
            struct_len: size_of::<Self>(),
            suites: null(),
            suites_len: 0,
            directions: 0,
            engines: 0,
            operations_max: 0,
            expires_unix_s: 0,
        }
    }
}

// SAFETY: integers and a pointer, which is checked before it is followed.
unsafe impl Plain for ciphermill_key_policy {}
// SAFETY: its first field is its length.
unsafe impl Versioned for ciphermill_key_policy {}

/// The contract's policy; `usual` says what no policy at all means.
///
/// # Safety
/// The pointers are a caller's, to be read.
unsafe fn policy(at: *const ciphermill_key_policy, usual: KeyPolicy) -> Result<KeyPolicy, Failure> {
    if at.is_null() {
        return Ok(usual);
    }
    // SAFETY: by the caller.
    let given = unsafe { foreign::versioned(at, "policy") }?;
    let mut policy = KeyPolicy::default();
    if !given.suites.is_null() {
        // SAFETY: by the caller.
        let numbers = unsafe { foreign::slice(given.suites, given.suites_len, "the policy's suites") }?;
        let suites = numbers.iter().map(|number| suite::of_number(*number)).collect::<Result<Vec<Suite>, _>>()?;
        policy.suites = SuiteSet::of(suites);
    }
    if given.directions != 0 {
        let bits = u8::try_from(given.directions).ok().and_then(Directions::from_bits);
        policy.directions = bits.ok_or_else(|| Failure::misuse("the policy's directions are from 0 to 3"))?;
    }
    if given.engines != 0 {
        let bits =
            u8::try_from(given.engines).map_err(|_| Failure::misuse("the policy's engines are from 0 to 255"))?;
        policy.engines = EngineKinds::from_bits(bits);
    }
    policy.operations_max = Some(given.operations_max).filter(|operations| *operations != 0);
    policy.expires_unix_s = Some(given.expires_unix_s).filter(|second| *second != 0);
    Ok(policy)
}

/// Takes a copy of a key into the mill's locked memory and tells its name. The caller wipes the original.
///
/// `form` is CIPHERMILL_KEY_SECRET, _PRIVATE or _PUBLIC. Whether the bytes suit a suite is found out by the first batch. `policy` may
/// be NULL for any use.
///
/// # Errors
/// CIPHERMILL_REFUSED for a key of no bytes; CIPHERMILL_EXHAUSTED for more than 16 KiB, a full table or a lack of memory;
/// CIPHERMILL_MISUSE, CIPHERMILL_FORKED.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_key_import(
    mill: *const ciphermill_mill,
    key: *mut ciphermill_key,
    form: u32,
    bytes: *const u8,
    bytes_len: usize,
    policy: *const ciphermill_key_policy,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mill = unsafe { handle::shared(mill) }?;
        let place = foreign::place(key, "key")?;
        // SAFETY: the caller's to be read.
        let bytes = unsafe { foreign::slice(bytes, bytes_len, "the key's bytes") }?;
        let form = match form {
            CIPHERMILL_KEY_SECRET => KeyForm::Secret,
            CIPHERMILL_KEY_PRIVATE => KeyForm::Private,
            CIPHERMILL_KEY_PUBLIC => KeyForm::Public,
            _ => return Err(Failure::misuse(format!("there is no form {form} of a key"))),
        };
        // SAFETY: the caller's to be read.
        let policy = unsafe { self::policy(policy, KeyPolicy::default()) }?;
        let imported = mill.keys().import(KeyMaterial { form, bytes }, policy)?;
        // SAFETY: the caller's to be written.
        unsafe { place.put(imported.into()) };
        Ok(())
    })
}

/// Random bytes as a key, which are nowhere but in locked memory.
fn random_key(mill: &Mill, kind: KeyKind, policy: KeyPolicy) -> Result<KeyId, Failure> {
    let mut bytes = SecretBytes::zeroed(kind.len()).map_err(|_| Failure::memory(kind.len()))?;
    let mut ops = [Op { output_len: kind.len() as u32, ..Op::default() }];
    mill.run(Batch::new(Suite::Random, Direction::Encrypt, &mut ops, &mut bytes))?;
    match ops[0].status {
        OpStatus::Done => Ok(mill.keys().import(KeyMaterial { form: kind.form(), bytes: &bytes }, policy)?),
        status => Failure::of_status(status).map(|()| KeyId::NONE),
    }
}

/// Generates a key, or a key pair, that suits a suite, and tells its name. Its secret half never leaves locked memory.
///
/// For suites of key pairs (RSA, curves, ML-KEM, ML-DSA) the public key is written to `public_key`; `public_len` is the room there
/// in bytes, and on return the length of the public key: SubjectPublicKeyInfo in DER for RSA, ECDH and ECDSA, raw bytes for
/// others. For symmetric keys and exponents of DH nothing is written and `public_len` may be NULL; symmetric keys are the
/// longest that the suite takes, of open lengths 64 bytes at most.
///
/// `policy` may be NULL: the key may be used with this suite alone then.
///
/// # Errors
/// CIPHERMILL_REFUSED for suites without keys; CIPHERMILL_TOO_SHORT, before anything is generated; CIPHERMILL_ENGINE_FAULT,
/// CIPHERMILL_EXHAUSTED, CIPHERMILL_MISUSE, CIPHERMILL_FORKED.
///
/// # Threads
/// Any. RSA takes from tens of milliseconds to seconds.
///
/// # Safety
/// Pointers and lengths are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_key_generate(
    mill: *const ciphermill_mill,
    key: *mut ciphermill_key,
    public_key: *mut u8,
    public_len: *mut usize,
    suite: ciphermill_suite,
    policy: *const ciphermill_key_policy,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mill = unsafe { handle::shared(mill) }?;
        let place = foreign::place(key, "key")?;
        let suite = suite::of_number(suite)?;
        // SAFETY: the caller's to be read.
        let policy = unsafe { self::policy(policy, KeyPolicy::only(suite)) }?;
        let generated = if let Some(pair) = suite.key_pair() {
            // SAFETY: the caller's to be read.
            let room = unsafe { foreign::read(public_len.cast_const(), "public_len") }?;
            if room < pair.public_len() {
                // SAFETY: the caller's to be written.
                unsafe { foreign::place(public_len, "public_len")?.put(pair.public_len()) };
                let text = format!("the public key has up to {} bytes, there are {room}", pair.public_len());
                return Err(Failure::new(CIPHERMILL_TOO_SHORT, text));
            }
            foreign::place(public_key, "public_key")?;
            let (generated, public) = mill.generate(pair, policy)?;
            // SAFETY: the caller's to be written.
            unsafe { foreign::put_bytes(public_key, public_len, &public) }?;
            generated
        } else {
            let kind = KeyKind::for_suite(suite);
            let kind = kind.ok_or_else(|| Failure::new(CIPHERMILL_REFUSED, format!("{suite} takes no key")))?;
            let generated = random_key(mill, kind, policy)?;
            if !public_len.is_null() {
                // SAFETY: the caller's to be written.
                unsafe { foreign::place(public_len, "public_len")?.put(0) };
            }
            generated
        };
        // SAFETY: the caller's to be written.
        unsafe { place.put(generated.into()) };
        Ok(())
    })
}

/// Destroys a key: operations that begin later are refused, and it is wiped when the last one that was begun has ended.
///
/// # Errors
/// CIPHERMILL_REFUSED for a key that is unknown or was destroyed; CIPHERMILL_MISUSE, CIPHERMILL_FORKED.
///
/// # Threads
/// Any.
///
/// # Safety
/// Pointers are as the head of the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ciphermill_key_destroy(
    mill: *const ciphermill_mill,
    key: ciphermill_key,
) -> ciphermill_status {
    entry(|| {
        // SAFETY: an open handle of the caller's.
        let mill = unsafe { handle::shared(mill) }?;
        Ok(mill.keys().destroy(key.into())?)
    })
}
