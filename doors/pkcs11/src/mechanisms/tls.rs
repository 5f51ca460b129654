//! The parameters of TLS 1.2 (PKCS#11 3.2, TLS 1.2 mechanisms), and what is written to where they point.

use std::ptr::null_mut;

use ciphermill_contract::suite::Digest;
use cryptoki_sys::*;

use super::raw::{Raw, bad, whole_bytes};
use super::{Premaster, digest};
use crate::memory::{bytes, many, place};
use crate::rv::{Result, Rv};

/// Bytes of a master secret (RFC 5246, 8.1).
pub(crate) const MASTER_LEN: usize = 48;

/// Bytes of one key, MAC key or IV of a connection at most.
const PIECE_LEN_MAX: usize = 64;

/// Bytes of the MAC of `Finished` (RFC 5246, 7.4.9: 12, and more where a suite of ciphers says so).
const FINISHED_LEN_MIN: usize = 12;
const FINISHED_LEN_MAX: usize = 64;

/// What the pseudorandom function is given besides the secret (RFC 5246, 5).
#[derive(Debug)]
pub(crate) struct Prf {
    pub(crate) digest: Digest,
    pub(crate) label: Vec<u8>,
    pub(crate) seed: Vec<u8>,
    /// Where the version goes with which a premaster secret begins; null without.
    version: *mut CK_VERSION,
}

/// The keys of a connection.
#[derive(Debug)]
pub(crate) struct KeyBlock {
    pub(crate) prf: Prf,
    /// Bytes of a MAC key, of a key and of an IV, any of which may be zero.
    pub(crate) mac_len: usize,
    pub(crate) key_len: usize,
    pub(crate) iv_len: usize,
    out: *mut CK_SSL3_KEY_MAT_OUT,
}

/// The MAC of a handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    pub(crate) digest: Digest,
    pub(crate) len: usize,
    pub(crate) label: &'static [u8],
}

/// The digest of the pseudorandom function.
fn prf_digest(kind: CK_MECHANISM_TYPE) -> Result<Digest> {
    digest(kind).ok_or(Rv(CKR_MECHANISM_PARAM_INVALID))
}

/// Both sides' random numbers.
///
/// # Safety
/// They are as long as they say.
unsafe fn randoms(given: &CK_SSL3_RANDOM_DATA) -> Result<[&[u8]; 2]> {
    // SAFETY: by the caller.
    unsafe {
        Ok([bytes(given.pClientRandom, given.ulClientRandomLen)?, bytes(given.pServerRandom, given.ulServerRandomLen)?])
    }
}

impl Prf {
    /// Of a master secret (RFC 5246, 8.1).
    ///
    /// # Safety
    /// As [`KeyBlock::read`], for this and what follows.
    pub(super) unsafe fn master(raw: &Raw, premaster: Premaster) -> Result<Prf> {
        // SAFETY: by the caller.
        let (given, randoms) = unsafe {
            let given = raw.structure::<CK_TLS12_MASTER_KEY_DERIVE_PARAMS>()?;
            (given, randoms(&given.RandomInfo)?)
        };
        Prf::of_premaster(given.prfHashMechanism, b"master secret", randoms.concat(), given.pVersion, premaster)
    }

    /// Of an extended master secret, with the hash of the handshake in place of the random numbers (RFC 7627, 4).
    ///
    /// # Safety
    /// As above.
    pub(super) unsafe fn extended_master(raw: &Raw, premaster: Premaster) -> Result<Prf> {
        // SAFETY: by the caller.
        let (given, hash) = unsafe {
            let given = raw.structure::<CK_TLS12_EXTENDED_MASTER_KEY_DERIVE_PARAMS>()?;
            (given, bytes(given.pSessionHash, given.ulSessionHashLen)?)
        };
        let label = b"extended master secret";
        Prf::of_premaster(given.prfHashMechanism, label, hash.to_vec(), given.pVersion, premaster)
    }

    /// A place for the version there is with RSA, and is not otherwise (PKCS#11 3.2, TLS 1.2, master key derivation).
    fn of_premaster(
        kind: CK_MECHANISM_TYPE,
        label: &[u8],
        seed: Vec<u8>,
        version: *mut CK_VERSION,
        premaster: Premaster,
    ) -> Result<Prf> {
        if seed.is_empty() || version.is_null() != (premaster == Premaster::Agreed) {
            return bad();
        }
        Ok(Prf { digest: prf_digest(kind)?, label: label.to_vec(), seed, version })
    }

    /// Of what is exported (RFC 5705, 4).
    ///
    /// # Safety
    /// As above.
    pub(super) unsafe fn exporter(raw: &Raw) -> Result<Prf> {
        // SAFETY: by the caller.
        let (given, label, randoms, context) = unsafe {
            let given = raw.structure::<CK_TLS_KDF_PARAMS>()?;
            let label = bytes(given.pLabel, given.ulLabelLength)?;
            (given, label, randoms(&given.RandomInfo)?, bytes(given.pContextData, given.ulContextDataLength)?)
        };
        let mut seed = randoms.concat();
        // An empty context is another one than none.
        if !given.pContextData.is_null() {
            let len = u16::try_from(context.len()).or(bad())?;
            seed.extend_from_slice(&len.to_be_bytes());
            seed.extend_from_slice(context);
        }
        if label.is_empty() {
            return bad();
        }
        let digest = prf_digest(given.prfMechanism)?;
        Ok(Prf { digest, label: label.to_vec(), seed, version: null_mut() })
    }

    /// Writes the version that a premaster secret begins with to where the application wants to have it, if it does.
    ///
    /// # Errors
    /// `CKR_MECHANISM_PARAM_INVALID` for a secret that is shorter.
    ///
    /// # Safety
    /// What the parameter pointed to when it was read is there yet.
    pub(crate) unsafe fn tell_version(&self, premaster: &[u8]) -> Result<()> {
        match premaster {
            _ if self.version.is_null() => Ok(()),
            &[major, minor, ..] => {
                // SAFETY: by the caller.
                *unsafe { place(self.version) }? = CK_VERSION { major, minor };
                Ok(())
            }
            _ => bad(),
        }
    }
}

impl Finished {
    /// # Safety
    /// As [`KeyBlock::read`].
    pub(super) unsafe fn read(raw: &Raw) -> Result<Finished> {
        // SAFETY: by the caller.
        let given = unsafe { raw.structure::<CK_TLS_MAC_PARAMS>() }?;
        let len = usize::try_from(given.ulMacLength).or(bad())?;
        let label: &[u8] = match given.ulServerOrClient {
            1 => b"server finished",
            2 => b"client finished",
            _ => return bad(),
        };
        if !(FINISHED_LEN_MIN..=FINISHED_LEN_MAX).contains(&len) {
            return bad();
        }
        Ok(Finished { digest: prf_digest(given.prfHashMechanism)?, len, label })
    }
}

impl KeyBlock {
    /// # Safety
    /// The parameter is as long as it says and leads to as much memory as it says.
    pub(super) unsafe fn read(raw: &Raw) -> Result<KeyBlock> {
        // SAFETY: by the caller.
        let (given, [client, server], out) = unsafe {
            let given = raw.structure::<CK_TLS12_KEY_MAT_PARAMS>()?;
            (given, randoms(&given.RandomInfo)?, place(given.pReturnedKeyMaterial)?)
        };
        let piece = |bits| whole_bytes(bits).and_then(|len| if len <= PIECE_LEN_MAX { Ok(len) } else { bad() });
        let (mac_len, key_len) = (piece(given.ulMacSizeInBits)?, piece(given.ulKeySizeInBits)?);
        let iv_len = piece(given.ulIVSizeInBits)?;
        if iv_len != 0 && (out.pIVClient.is_null() || out.pIVServer.is_null()) {
            return bad();
        }
        if given.bIsExport != CK_FALSE || mac_len + key_len == 0 || client.is_empty() || server.is_empty() {
            return bad();
        }
        // RFC 5246, 6.3: here the server's comes first.
        let seed = [server, client].concat();
        let digest = prf_digest(given.prfHashMechanism)?;
        let prf = Prf { digest, label: b"key expansion".to_vec(), seed, version: null_mut() };
        Ok(KeyBlock { prf, mac_len, key_len, iv_len, out: given.pReturnedKeyMaterial })
    }

    /// Writes handles and IVs to where the application wants to have them: MAC keys and keys, the client's first, and both IVs.
    ///
    /// # Errors
    /// `CKR_MECHANISM_PARAM_INVALID` where there is no place, which there was when the parameter was read.
    ///
    /// # Safety
    /// As [`Prf::tell_version`]; IVs have room for as many bytes as the parameter says that they have.
    pub(crate) unsafe fn give(&self, handles: [CK_OBJECT_HANDLE; 4], ivs: [&[u8]; 2]) -> Result<()> {
        // SAFETY: by the caller.
        unsafe {
            let out = place(self.out).or(bad())?;
            for (to, iv) in [out.pIVClient, out.pIVServer].into_iter().zip(ivs) {
                many(to, iv.len() as CK_ULONG).or(bad())?.copy_from_slice(iv);
            }
            [out.hClientMacSecret, out.hServerMacSecret, out.hClientKey, out.hServerKey] = handles;
        }
        Ok(())
    }
}
