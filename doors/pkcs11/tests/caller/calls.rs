//! The functions of the table, by what they are about.

use std::ptr::null_mut;

use cryptoki_sys::*;

use super::super::common::PIN;
use super::arguments::{Base, Given, Source, Wish, buffer, is_intact, is_tag_intact, of_message, template};
use super::{Caller, Done, Kind, Standing, Step, function};

impl<S: Source> Caller<'_, S> {
    pub(super) fn ciphers(&mut self, session: CK_SESSION_HANDLE) -> CK_RV {
        let (encrypts, call) = (self.source.below(2) == 0, self.source.below(6));
        let kind = if encrypts { Kind::Encrypt } else { Kind::Decrypt };
        if call < 2 {
            let mut given = self.mechanism(Wish::Cipher);
            let key = self.key(&given, !encrypts);
            let rv = match encrypts {
                true => function!(self.functions, C_EncryptInit, session, given.at(), key),
                false => function!(self.functions, C_DecryptInit, session, given.at(), key),
            };
            return self.began(session, kind, &given, key, rv);
        }
        let (step, done) = match (call, encrypts) {
            (2, true) => (Step::Last, self.transform(|f, i, n, o, l| function!(f, C_Encrypt, session, i, n, o, l))),
            (2, false) => (Step::Last, self.transform(|f, i, n, o, l| function!(f, C_Decrypt, session, i, n, o, l))),
            (3 | 4, true) => {
                (Step::Part, self.transform(|f, i, n, o, l| function!(f, C_EncryptUpdate, session, i, n, o, l)))
            }
            (3 | 4, false) => {
                (Step::Part, self.transform(|f, i, n, o, l| function!(f, C_DecryptUpdate, session, i, n, o, l)))
            }
            (_, true) => (Step::Last, self.output(|f, o, l| function!(f, C_EncryptFinal, session, o, l))),
            (_, false) => (Step::Last, self.output(|f, o, l| function!(f, C_DecryptFinal, session, o, l))),
        };
        self.stepped(session, kind, step, done)
    }

    /// As `begun`, for a call with a key.
    fn began(
        &mut self,
        session: CK_SESSION_HANDLE,
        kind: Kind,
        given: &Given,
        key: CK_OBJECT_HANDLE,
        rv: CK_RV,
    ) -> CK_RV {
        if !given.is_null() {
            self.named(key, rv);
        }
        self.begun(session, kind, given.is_null(), rv)
    }

    pub(super) fn digests(&mut self, session: CK_SESSION_HANDLE) -> CK_RV {
        let (mut input, key) = (self.source.some_bytes(), self.object());
        let (at, len) = self.source.place(&mut input);
        let (step, done) = match self.source.below(6) {
            0 | 1 => {
                let mut given = self.mechanism(Wish::Digest);
                let rv = function!(self.functions, C_DigestInit, session, given.at());
                return self.begun(session, Kind::Digest, given.is_null(), rv);
            }
            2 => (Step::Last, self.transform(|f, i, n, o, l| function!(f, C_Digest, session, i, n, o, l))),
            3 => (Step::Part, said(function!(self.functions, C_DigestUpdate, session, at, len))),
            4 => (Step::Part, said(self.named(key, function!(self.functions, C_DigestKey, session, key)))),
            _ => (Step::Last, self.output(|f, o, l| function!(f, C_DigestFinal, session, o, l))),
        };
        self.stepped(session, Kind::Digest, step, done)
    }

    pub(super) fn signatures(&mut self, session: CK_SESSION_HANDLE) -> CK_RV {
        let mut input = self.source.some_bytes();
        let (at, len) = self.source.place(&mut input);
        let (step, done) = match self.source.below(5) {
            0 | 1 => {
                let mut given = self.mechanism(Wish::Sign);
                let key = self.key(&given, true);
                let rv = function!(self.functions, C_SignInit, session, given.at(), key);
                return self.began(session, Kind::Sign, &given, key, rv);
            }
            2 => (Step::Last, self.transform(|f, i, n, o, l| function!(f, C_Sign, session, i, n, o, l))),
            3 => (Step::Part, said(function!(self.functions, C_SignUpdate, session, at, len))),
            _ => (Step::Last, self.output(|f, o, l| function!(f, C_SignFinal, session, o, l))),
        };
        self.stepped(session, Kind::Sign, step, done)
    }

    pub(super) fn verifications(&mut self, session: CK_SESSION_HANDLE) -> CK_RV {
        let (mut input, mut signature) = (self.source.some_bytes(), self.source.some_bytes());
        let (at, len) = self.source.place(&mut input);
        let (of, of_len) = self.source.place(&mut signature);
        let functions = self.functions;
        let (kind, step, rv) = match self.source.below(10) {
            begins @ 0..=3 => {
                let mut given = self.mechanism(Wish::Sign);
                let key = self.key(&given, false);
                let (kind, rv) = match begins {
                    0 | 1 => (Kind::Verify, function!(functions, C_VerifyInit, session, given.at(), key)),
                    _ => {
                        let rv = function!(functions, C_VerifySignatureInit, session, given.at(), key, of, of_len);
                        (Kind::VerifyGiven, rv)
                    }
                };
                return self.began(session, kind, &given, key, rv);
            }
            4 => (Kind::Verify, Step::Last, function!(functions, C_Verify, session, at, len, of, of_len)),
            5 => (Kind::Verify, Step::Part, function!(functions, C_VerifyUpdate, session, at, len)),
            6 => (Kind::Verify, Step::Last, function!(functions, C_VerifyFinal, session, of, of_len)),
            7 => (Kind::VerifyGiven, Step::Last, function!(functions, C_VerifySignature, session, at, len)),
            8 => (Kind::VerifyGiven, Step::Part, function!(functions, C_VerifySignatureUpdate, session, at, len)),
            _ => (Kind::VerifyGiven, Step::Last, function!(functions, C_VerifySignatureFinal, session)),
        };
        self.stepped(session, kind, step, said(rv))
    }

    /// Functions that work at two operations, of which an error ends at least one.
    pub(super) fn both_at_once(&mut self, session: CK_SESSION_HANDLE) -> CK_RV {
        let (kinds, done) = match self.source.below(4) {
            0 => (
                [Kind::Digest, Kind::Encrypt],
                self.transform(|f, i, n, o, l| function!(f, C_DigestEncryptUpdate, session, i, n, o, l)),
            ),
            1 => (
                [Kind::Digest, Kind::Decrypt],
                self.transform(|f, i, n, o, l| function!(f, C_DecryptDigestUpdate, session, i, n, o, l)),
            ),
            2 => (
                [Kind::Sign, Kind::Encrypt],
                self.transform(|f, i, n, o, l| function!(f, C_SignEncryptUpdate, session, i, n, o, l)),
            ),
            _ => (
                [Kind::Verify, Kind::Decrypt],
                self.transform(|f, i, n, o, l| function!(f, C_DecryptVerifyUpdate, session, i, n, o, l)),
            ),
        };
        // Where a signature was given first, parts are taken as well.
        let ended = kinds.iter().any(|kind| self.standing(session, *kind) == Standing::Ended)
            && !(kinds[0] == Kind::Verify && self.standing(session, Kind::VerifyGiven) != Standing::Ended);
        let said = matches!(done.rv, CKR_OPERATION_NOT_INITIALIZED | CKR_ARGUMENTS_BAD);
        assert!(!ended || said, "{kinds:?} have ended, but {:#x}", done.rv);
        if !matches!(done.rv, CKR_OK | CKR_BUFFER_TOO_SMALL | CKR_OPERATION_NOT_INITIALIZED) {
            for kind in kinds.into_iter().chain([Kind::VerifyGiven]) {
                if self.standing(session, kind) == Standing::Active {
                    self.standing.insert((session, kind), Standing::Unknown);
                }
            }
        }
        done.rv
    }

    pub(super) fn messages(&mut self, session: CK_SESSION_HANDLE) -> CK_RV {
        let (encrypts, call) = (self.source.below(2) == 0, self.source.below(5));
        let kind = if encrypts { Kind::MessageEncrypt } else { Kind::MessageDecrypt };
        let mut given = self.mechanism(Wish::Message);
        if call < 2 {
            let key = self.key(&given, false);
            let rv = match encrypts {
                true => function!(self.functions, C_MessageEncryptInit, session, given.at(), key),
                false => function!(self.functions, C_MessageDecryptInit, session, given.at(), key),
            };
            return self.began(session, kind, &given, key, rv);
        }
        if call == 2 && self.source.below(2) == 0 {
            let rv = match encrypts {
                true => function!(self.functions, C_MessageEncryptFinal, session),
                false => function!(self.functions, C_MessageDecryptFinal, session),
            };
            return self.stepped(session, kind, Step::Last, said(rv));
        }
        of_message(&mut self.source, &mut given);
        let (parameter, parameter_len) = given.parameter();
        let mut associated = self.source.some_bytes();
        let (aad, aad_len) = self.source.place(&mut associated);
        let done = self.transform(|f, i, n, o, l| match encrypts {
            true => function!(f, C_EncryptMessage, session, parameter, parameter_len, aad, aad_len, i, n, o, l),
            false => function!(f, C_DecryptMessage, session, parameter, parameter_len, aad, aad_len, i, n, o, l),
        });
        assert!(is_tag_intact(&given), "written behind a tag");
        self.stepped(session, kind, Step::Message, done)
    }

    pub(super) fn objects(&mut self, session: CK_SESSION_HANDLE) -> CK_RV {
        let (object, mut made) = (self.object(), 0);
        match self.source.below(8) {
            0..=2 => {
                let mut attributes = template(&mut self.source, Base::Object);
                let (at, count) = attributes.place(&mut self.source);
                let rv = function!(self.functions, C_CreateObject, session, at, count, &mut made);
                self.made(session, rv, made);
                rv
            }
            3 => {
                let mut attributes = template(&mut self.source, Base::Copy);
                let (at, count) = attributes.place(&mut self.source);
                let rv = function!(self.functions, C_CopyObject, session, object, at, count, &mut made);
                self.made(session, rv, made);
                self.named(object, rv)
            }
            4 => {
                let mut attributes = template(&mut self.source, Base::Nothing);
                let (at, count) = attributes.place(&mut self.source);
                self.named(object, function!(self.functions, C_SetAttributeValue, session, object, at, count))
            }
            5 => self.destroy(session, object),
            6 => {
                let mut size = 0;
                let place = if self.source.one_in(16) { null_mut() } else { &raw mut size };
                self.named(object, function!(self.functions, C_GetObjectSize, session, object, place))
            }
            _ => self.values(session, object),
        }
    }

    /// Reads attributes into buffers of any length.
    fn values(&mut self, session: CK_SESSION_HANDLE, object: CK_OBJECT_HANDLE) -> CK_RV {
        let count = self.source.below(5);
        let kinds = [CKA_VALUE, CKA_CLASS, CKA_LABEL, CKA_MODULUS, CKA_EC_POINT, CKA_SENSITIVE, CKA_PRIME_1, 0x7777];
        let mut wanted: Vec<_> = (0..count)
            .map(|_| (self.source.pick(&kinds), self.source.pick(&[64, 0, 8, 1, 600]), self.source.one_in(4)))
            .map(|(kind, room, is_query)| (kind, room, is_query, buffer(room)))
            .collect();
        let mut raw: Vec<_> = wanted
            .iter_mut()
            .map(|(kind, room, is_query, memory)| CK_ATTRIBUTE {
                type_: *kind,
                pValue: if *is_query { null_mut() } else { memory.as_mut_ptr().cast() },
                ulValueLen: *room as CK_ULONG,
            })
            .collect();
        let len = raw.len() as CK_ULONG;
        let rv = function!(self.functions, C_GetAttributeValue, session, object, raw.as_mut_ptr(), len);
        for ((_, room, is_query, memory), attribute) in wanted.iter().zip(&raw) {
            assert!(is_intact(memory, *room), "written behind an attribute of {room} bytes");
            let fits = attribute.ulValueLen <= *room as CK_ULONG;
            assert!(rv != CKR_OK || *is_query || fits, "{} bytes in {room}", attribute.ulValueLen);
        }
        self.named(object, rv)
    }

    pub(super) fn searches(&mut self, session: CK_SESSION_HANDLE) -> CK_RV {
        match self.source.below(4) {
            0 | 1 => {
                let mut attributes = template(&mut self.source, Base::Nothing);
                let (at, count) = attributes.place(&mut self.source);
                let rv = function!(self.functions, C_FindObjectsInit, session, at, count);
                self.begun(session, Kind::Find, false, rv)
            }
            2 => {
                let room = self.source.pick(&[8, 0, 1, 100]);
                let (mut found, mut count) = (vec![CK_ULONG::MAX; room + 2], 0);
                let (at, max) = (found.as_mut_ptr(), room as CK_ULONG);
                let rv = function!(self.functions, C_FindObjects, session, at, max, &mut count);
                assert!(count <= max && found[room..] == [CK_ULONG::MAX; 2], "{count} objects in {room}");
                // What was found may have been destroyed since.
                self.stepped(session, Kind::Find, Step::Message, said(rv))
            }
            _ => self.stepped(
                session,
                Kind::Find,
                Step::Last,
                said(function!(self.functions, C_FindObjectsFinal, session)),
            ),
        }
    }

    pub(super) fn keys_made(&mut self, session: CK_SESSION_HANDLE) -> CK_RV {
        let (mut made, mut other) = (0, 0);
        let call = self.source.below(4);
        let mut first = template(&mut self.source, if call == 1 { Base::Public } else { Base::Secret });
        let (at, count) = first.place(&mut self.source);
        match call {
            0 => {
                let mut given = self.mechanism(Wish::Generate);
                let rv = function!(self.functions, C_GenerateKey, session, given.at(), at, count, &mut made);
                self.made(session, rv, made);
                rv
            }
            1 => {
                let mut given = self.mechanism(Wish::Pair);
                let mut second = template(&mut self.source, Base::Nothing);
                let (to, to_count) = second.place(&mut self.source);
                let (one, two) = (&raw mut made, &raw mut other);
                let two = if self.source.one_in(32) { one } else { two };
                let mechanism = given.at();
                let rv =
                    function!(self.functions, C_GenerateKeyPair, session, mechanism, at, count, to, to_count, one, two);
                self.made(session, rv, made);
                self.made(session, rv, other);
                rv
            }
            2 => {
                let mut given = self.mechanism(Wish::Derive);
                let base = self.key(&given, true);
                let rv = function!(self.functions, C_DeriveKey, session, given.at(), base, at, count, &mut made);
                self.made(session, rv, made);
                self.named(base, rv)
            }
            _ => {
                let mut given = self.mechanism(Wish::Encapsulate);
                let base = self.key(&given, false);
                let mechanism = given.at();
                let place = &raw mut made;
                let done = self
                    .output(|f, o, l| function!(f, C_EncapsulateKey, session, mechanism, base, at, count, o, l, place));
                if !done.is_query {
                    self.made(session, done.rv, made);
                }
                self.named(base, done.rv)
            }
        }
    }

    pub(super) fn keys_moved(&mut self, session: CK_SESSION_HANDLE) -> CK_RV {
        let (key, mut made) = (self.object(), 0);
        let mut input = self.source.some_bytes();
        let (from, len) = self.source.place(&mut input);
        match self.source.below(3) {
            0 => {
                let mut given = self.mechanism(Wish::Wrap);
                let by = self.key(&given, false);
                let mechanism = given.at();
                let done = self.output(|f, o, l| function!(f, C_WrapKey, session, mechanism, by, key, o, l));
                self.named(by, self.named(key, done.rv))
            }
            1 => {
                let mut given = self.mechanism(Wish::Wrap);
                let by = self.key(&given, true);
                let mut attributes = template(&mut self.source, Base::Secret);
                let (at, count) = attributes.place(&mut self.source);
                let mechanism = given.at();
                let rv =
                    function!(self.functions, C_UnwrapKey, session, mechanism, by, from, len, at, count, &mut made);
                self.made(session, rv, made);
                self.named(by, rv)
            }
            _ => {
                let mut given = self.mechanism(Wish::Encapsulate);
                let by = self.key(&given, true);
                let mut attributes = template(&mut self.source, Base::Secret);
                let (at, count) = attributes.place(&mut self.source);
                let mut encapsulated = self.source.bytes(1088);
                let (from, len) =
                    if self.source.below(2) == 0 { self.source.place(&mut encapsulated) } else { (from, len) };
                let mechanism = given.at();
                let rv = function!(
                    self.functions,
                    C_DecapsulateKey,
                    session,
                    mechanism,
                    by,
                    at,
                    count,
                    from,
                    len,
                    &mut made
                );
                self.made(session, rv, made);
                self.named(by, rv)
            }
        }
    }

    pub(super) fn sessions(&mut self, session: CK_SESSION_HANDLE) -> CK_RV {
        let mine = self.sessions.contains(&session);
        match self.source.below(8) {
            0 if self.sessions.len() < 5 => {
                let writes = self.source.pick(&[CKF_RW_SESSION, 0]);
                self.open(CKF_SERIAL_SESSION | writes);
                CKR_OK
            }
            // The first two stay.
            1 if mine && self.sessions[..2].iter().all(|kept| *kept != session) => {
                self.close(session);
                CKR_OK
            }
            2 => {
                let flags =
                    self.source.pick(&[CKF_DIGEST, CKF_ENCRYPT, CKF_SIGN, CKF_VERIFY, CKF_FIND_OBJECTS, CK_ULONG::MAX]);
                let rv = function!(self.functions, C_SessionCancel, session, flags);
                if rv == CKR_OK && mine {
                    self.standing.retain(|(of, kind), _| *of != session || flags & flag(*kind) == 0);
                }
                rv
            }
            3 => {
                let mut state = Vec::new();
                let done = self.output(|f, o, l| {
                    let rv = function!(f, C_GetOperationState, session, o, l);
                    if rv == CKR_OK && !o.is_null() && !l.is_null() {
                        // SAFETY: the module has written as many bytes, which the caller checks afterwards.
                        state = unsafe { std::slice::from_raw_parts(o, (*l as usize).min(16)) }.to_vec();
                    }
                    rv
                });
                if !state.is_empty() {
                    self.states.push(state);
                }
                done.rv
            }
            4 => self.restore(session),
            5 => {
                let mut info = CK_SESSION_INFO::default();
                let rv = function!(self.functions, C_GetSessionInfo, session, &mut info);
                assert!(rv != CKR_OK || matches!(info.state, CKS_RO_USER_FUNCTIONS | CKS_RW_USER_FUNCTIONS));
                rv
            }
            6 => {
                let flags = self.source.pick(&[0, CKF_RW_SESSION, CK_ULONG::MAX, CKF_SERIAL_SESSION]);
                let (slot, place) = (self.source.wild() | 2, null_mut());
                let mut opened = 0;
                let place = if self.source.one_in(2) { place } else { &raw mut opened };
                function!(self.functions, C_OpenSession, slot, flags, null_mut(), None, place)
            }
            _ => self.log_in(session),
        }
    }

    fn restore(&mut self, session: CK_SESSION_HANDLE) -> CK_RV {
        let mut state = self.source.bytes(16);
        if !self.states.is_empty() && self.source.below(2) == 0 {
            let at = self.source.below(self.states.len());
            state = self.states[at].clone();
        }
        let (at, len) = self.source.place(&mut state);
        let keys = if self.source.one_in(8) { self.object() } else { 0 };
        let rv = function!(self.functions, C_SetOperationState, session, at, len, keys, 0);
        if rv == CKR_OK && self.sessions.contains(&session) {
            self.standing.retain(|(of, _), _| *of != session);
            self.standing.insert((session, Kind::Digest), Standing::Active);
        }
        rv
    }

    /// Logs in where somebody is, which is refused; authenticates an operation that waits for that.
    fn log_in(&mut self, session: CK_SESSION_HANDLE) -> CK_RV {
        let mut pin = PIN.to_vec();
        let (at, len) = match self.source.below(4) {
            0 => (null_mut(), 4),
            1 => (pin.as_mut_ptr(), CK_ULONG::MAX),
            _ => (pin.as_mut_ptr(), PIN.len() as CK_ULONG),
        };
        let user = self.source.pick(&[CKU_USER, CKU_CONTEXT_SPECIFIC, 7]);
        if user == CKU_CONTEXT_SPECIFIC {
            // A PIN is stretched, which takes long on purpose.
            if self.slow == 0 {
                return CKR_USER_TYPE_INVALID;
            }
            self.slow -= 1;
        }
        function!(self.functions, C_Login, session, user, at, len)
    }

    /// Random numbers, questions about the library, and functions that the module has not.
    pub(super) fn others(&mut self, session: CK_SESSION_HANDLE) -> CK_RV {
        let mut memory = self.source.some_bytes();
        let (at, len) = self.source.place(&mut memory);
        let (slot, functions) = (self.source.pick(&[0, 1, 2, CK_ULONG::MAX]), self.functions);
        let kind = self.source.pick(&self.mechanisms);
        let mut given = self.mechanism(Wish::Sign);
        let key = self.object();
        match self.source.below(14) {
            0 => function!(functions, C_GenerateRandom, session, at, len),
            1 => function!(functions, C_SeedRandom, session, at, len),
            2 => function!(functions, C_GetMechanismInfo, slot, kind, &mut CK_MECHANISM_INFO::default()),
            3 => function!(functions, C_GetTokenInfo, slot, &mut CK_TOKEN_INFO::default()),
            4 => function!(functions, C_GetSlotInfo, slot, &mut CK_SLOT_INFO::default()),
            5 => {
                let room = self.source.pick(&[2, 0, 1, 200]);
                let (mut list, mut count) = (vec![CK_ULONG::MAX; room + 2], room as CK_ULONG);
                let rv = match self.source.below(2) {
                    0 => function!(functions, C_GetSlotList, 1, list.as_mut_ptr(), &mut count),
                    _ => function!(functions, C_GetMechanismList, slot, list.as_mut_ptr(), &mut count),
                };
                assert!(rv != CKR_OK || count <= room as CK_ULONG);
                assert!(list[room..] == [CK_ULONG::MAX; 2], "written behind {room} numbers");
                rv
            }
            6 => function!(functions, C_Initialize, null_mut()),
            // A null pointer would end it all.
            7 => function!(functions, C_Finalize, (&raw mut given).cast()),
            8 => function!(functions, C_InitToken, 0, at, len, null_mut()),
            9 => function!(functions, C_InitPIN, session, at, len),
            10 => function!(functions, C_GetFunctionStatus, session),
            11 => function!(functions, C_WaitForSlotEvent, CKF_DONT_BLOCK, null_mut(), null_mut()),
            12 => function!(functions, C_SignRecoverInit, session, given.at(), key),
            _ => function!(functions, C_MessageSignInit, session, given.at(), key),
        }
    }
}

/// The answer to a call without an output.
fn said(rv: CK_RV) -> Done {
    Done { rv, is_query: false }
}

/// What `C_SessionCancel` calls an operation.
fn flag(kind: Kind) -> CK_FLAGS {
    match kind {
        Kind::Find => CKF_FIND_OBJECTS,
        Kind::Encrypt => CKF_ENCRYPT,
        Kind::Decrypt => CKF_DECRYPT,
        Kind::Digest => CKF_DIGEST,
        Kind::Sign => CKF_SIGN,
        Kind::Verify | Kind::VerifyGiven => CKF_VERIFY,
        Kind::MessageEncrypt => CKF_MESSAGE_ENCRYPT,
        Kind::MessageDecrypt => CKF_MESSAGE_DECRYPT,
    }
}
