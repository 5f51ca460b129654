//! A caller that makes any call of the module: with handles that were given out and others, mechanisms with right and wrong parameters, templates
//! that contradict themselves, and buffers that are too small. It remembers what it did, and panics where the module breaks a promise.
//!
//! Where its choices come from is a [`Source`]: dice for tests, the fuzzer's bytes for the fuzz target `pkcs11`, which includes this folder.
//! Pointers are null or lead to as much memory as is said, unless that is more than any memory has: what is left nobody can check.

mod arguments;
mod calls;

use std::collections::HashMap;
use std::ptr::null_mut;

use cryptoki_sys::*;

pub(crate) use self::arguments::Source;
use self::arguments::{GUARD, Given, Wish, buffer, is_intact, mechanism};
use super::common::{Module, Template};

/// Calls of one caller that take long: stretched PINs, RSA keys.
const SLOW_MAX: u8 = 1;

/// What a session can have under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Find,
    Encrypt,
    Decrypt,
    Digest,
    Sign,
    Verify,
    /// As `Verify`, begun with the signature.
    VerifyGiven,
    MessageEncrypt,
    MessageDecrypt,
}

/// What is known of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    #[default]
    Ended,
    Active,
    /// In sessions of others, and after an error of two operations at once.
    Unknown,
}

/// What a call does to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Part,
    /// It ends what it is a step of, unless it only asks for a length.
    Last,
    /// One of several that follow each other whatever comes of it.
    Message,
}

/// What a call with an output came to.
#[derive(Clone, Copy, Debug)]
struct Done {
    rv: CK_RV,
    /// Whether it asked for the length alone.
    is_query: bool,
}

/// The caller: sessions and objects that it was given, and those that are gone.
pub(crate) struct Caller<'m, S> {
    functions: &'m CK_FUNCTION_LIST_3_2,
    source: S,
    mechanisms: Vec<CK_MECHANISM_TYPE>,
    /// Sessions that this caller alone uses; the second may write.
    sessions: Vec<CK_SESSION_HANDLE>,
    /// Sessions that others use too: nothing is known of what is under way there.
    shared: Vec<CK_SESSION_HANDLE>,
    /// Keys of all kinds, by others.
    keys: &'m [CK_OBJECT_HANDLE],
    /// Objects of ours, and the sessions that they were made in.
    objects: Vec<(CK_OBJECT_HANDLE, CK_SESSION_HANDLE)>,
    gone: Vec<CK_OBJECT_HANDLE>,
    closed: Vec<CK_SESSION_HANDLE>,
    standing: HashMap<(CK_SESSION_HANDLE, Kind), Standing>,
    states: Vec<Vec<u8>>,
    slow: u8,
    worked: usize,
}

/// Calls a function of a table by its name.
macro_rules! function {
    ($functions:expr, $name:ident $(, $argument:expr)* $(,)?) => {{
        let function = $functions.$name.expect("a function");
        // SAFETY: pointers are null or lead to as much memory as is said, which is this caller's own.
        unsafe { function($($argument),*) }
    }};
}
use function;

impl<'m, S: Source> Caller<'m, S> {
    /// A caller with two sessions of its own with the first slot, whose user is logged in and stays so.
    pub(crate) fn new(
        functions: &'m CK_FUNCTION_LIST_3_2,
        source: S,
        shared: Vec<CK_SESSION_HANDLE>,
        keys: &'m [CK_OBJECT_HANDLE],
    ) -> Caller<'m, S> {
        let mut count = 0;
        assert_eq!(function!(functions, C_GetMechanismList, 0, null_mut(), &mut count), CKR_OK);
        let mut mechanisms = vec![0; count as usize];
        assert_eq!(function!(functions, C_GetMechanismList, 0, mechanisms.as_mut_ptr(), &mut count), CKR_OK);
        let mut caller = Caller {
            functions,
            source,
            mechanisms,
            sessions: Vec::new(),
            shared,
            keys,
            objects: Vec::new(),
            gone: Vec::new(),
            closed: Vec::new(),
            standing: HashMap::new(),
            states: Vec::new(),
            slow: SLOW_MAX,
            worked: 0,
        };
        caller.open(CKF_SERIAL_SESSION);
        caller.open(CKF_SERIAL_SESSION | CKF_RW_SESSION);
        caller
    }

    fn open(&mut self, flags: CK_FLAGS) {
        let mut session = 0;
        assert_eq!(function!(self.functions, C_OpenSession, 0, flags, null_mut(), None, &mut session), CKR_OK);
        assert!(!self.sessions.contains(&session) && !self.closed.contains(&session), "a handle is given out twice");
        self.sessions.push(session);
    }

    /// Destroys the token's objects and closes the sessions. How many calls worked.
    pub(crate) fn finish(mut self) -> usize {
        let may_write = self.sessions[1];
        for (object, _) in self.objects.clone() {
            if self.flag(may_write, object, CKA_TOKEN) == Some(true) {
                let (mut yes, len) = (1_u8, 1);
                let mut may = CK_ATTRIBUTE { type_: CKA_DESTROYABLE, pValue: (&raw mut yes).cast(), ulValueLen: len };
                assert_eq!(function!(self.functions, C_SetAttributeValue, may_write, object, &mut may, 1), CKR_OK);
                assert_eq!(self.destroy(may_write, object), CKR_OK);
            }
        }
        for session in self.sessions.clone() {
            self.close(session);
        }
        for session in &self.shared {
            // Whoever comes next begins where this caller did.
            assert_eq!(function!(self.functions, C_SessionCancel, *session, CK_ULONG::MAX), CKR_OK);
        }
        self.worked
    }

    /// Makes so many calls, or as many as the source says.
    ///
    /// # Panics
    /// Where the module answers or writes what it must not.
    pub(crate) fn run(&mut self, calls: usize) {
        for _ in 0..calls {
            if self.source.is_over() {
                return;
            }
            self.call();
        }
    }

    fn call(&mut self) {
        let session = self.session();
        let rv = match self.source.below(16) {
            0..=2 => self.ciphers(session),
            3 => self.digests(session),
            4 => self.signatures(session),
            5 => self.verifications(session),
            6 => self.both_at_once(session),
            7 | 8 => self.messages(session),
            9 | 10 => self.objects(session),
            11 => self.searches(session),
            12 => self.keys_made(session),
            13 => self.keys_moved(session),
            14 => self.sessions(session),
            _ => self.others(session),
        };
        assert!(is_an_answer(rv), "{rv:#x}");
        if self.sessions.contains(&session) || self.shared.contains(&session) {
            assert_ne!(rv, CKR_SESSION_HANDLE_INVALID);
        }
        if rv == CKR_OK {
            self.worked += 1;
        }
    }

    fn session(&mut self) -> CK_SESSION_HANDLE {
        match self.source.below(32) {
            31 => self.source.wild(),
            30 if !self.closed.is_empty() => self.source.pick(&self.closed),
            26..=29 if !self.shared.is_empty() => self.source.pick(&self.shared),
            _ => self.source.pick(&self.sessions),
        }
    }

    fn object(&mut self) -> CK_OBJECT_HANDLE {
        match self.source.below(16) {
            15 => self.source.wild(),
            14 if !self.gone.is_empty() => self.source.pick(&self.gone),
            8..=13 if !self.objects.is_empty() => self.source.pick(&self.objects).0,
            _ => self.source.pick(self.keys),
        }
    }

    /// A key that a mechanism takes, more often than not; its private half if it is one of a pair.
    fn key(&mut self, given: &Given, private: bool) -> CK_OBJECT_HANDLE {
        if self.source.one_in(4) {
            return self.object();
        }
        let (at, is_pair) = arguments::key_of(given.kind());
        self.keys.get(at + usize::from(private && is_pair)).copied().unwrap_or_default()
    }

    fn mechanism(&mut self, wish: Wish) -> Given {
        let kind = match self.source.below(16) {
            15 => self.source.wild(),
            14 => self.source.pick(&self.mechanisms),
            _ => self.source.pick(wish.mechanisms()),
        };
        let key = self.source.pick(self.keys);
        mechanism(&mut self.source, kind, key)
    }

    /// Makes a call with an output: into a buffer of any length, or to a null pointer, to ask how long it would be.
    fn output(&mut self, call: impl FnOnce(&CK_FUNCTION_LIST_3_2, *mut u8, *mut CK_ULONG) -> CK_RV) -> Done {
        let room = self.source.pick(&[256, 16, 32, 0, 8, 600, 5000, 1]);
        let is_query = self.source.one_in(8);
        let mut memory = buffer(room);
        let at = if is_query { null_mut() } else { memory.as_mut_ptr() };
        let mut len = room as CK_ULONG;
        let has_len = !self.source.one_in(64);
        let place = if has_len { &raw mut len } else { null_mut() };
        let rv = call(self.functions, at, place);
        assert!(is_intact(&memory, room), "written behind {room} bytes");
        match rv {
            CKR_OK if !is_query => assert!(has_len && len <= room as CK_ULONG, "{len} bytes in {room}"),
            CKR_BUFFER_TOO_SMALL => assert!(!is_query && len > room as CK_ULONG, "{room} bytes are enough for {len}"),
            _ => {}
        }
        Done { rv, is_query }
    }

    /// The same with an input, which may lie where the output goes.
    fn transform(
        &mut self,
        call: impl FnOnce(&CK_FUNCTION_LIST_3_2, *mut u8, CK_ULONG, *mut u8, *mut CK_ULONG) -> CK_RV,
    ) -> Done {
        let mut input = self.source.some_bytes();
        let in_place = self.source.one_in(4);
        let (at, len) = self.source.place(&mut input);
        self.output(|functions, out, out_len| {
            // There are `GUARD` bytes behind the room for the output, which may be read.
            let from = if in_place && !out.is_null() && len <= GUARD as CK_ULONG { out } else { at };
            call(functions, from, len, out, out_len)
        })
    }

    fn standing(&self, session: CK_SESSION_HANDLE, kind: Kind) -> Standing {
        if !self.sessions.contains(&session) {
            return Standing::Unknown;
        }
        self.standing.get(&(session, kind)).copied().unwrap_or_default()
    }

    /// Notes an object that a call has made.
    fn made(&mut self, session: CK_SESSION_HANDLE, rv: CK_RV, object: CK_OBJECT_HANDLE) {
        if rv != CKR_OK {
            return;
        }
        let known = self.objects.iter().any(|(one, _)| *one == object) || self.gone.contains(&object);
        assert!(!known, "a handle is given out twice");
        self.objects.push((object, session));
        // What is sensitive or may not leave the token is not to be read.
        if self.has_value(session, object) {
            let (sensitive, extractable) = (CKA_SENSITIVE, CKA_EXTRACTABLE);
            assert_ne!(self.flag(session, object, sensitive), Some(true));
            assert_ne!(self.flag(session, object, extractable), Some(false));
        }
    }

    fn flag(&self, session: CK_SESSION_HANDLE, object: CK_OBJECT_HANDLE, kind: CK_ATTRIBUTE_TYPE) -> Option<bool> {
        let mut value = 7_u8;
        let mut attribute = CK_ATTRIBUTE { type_: kind, pValue: (&raw mut value).cast(), ulValueLen: 1 };
        match function!(self.functions, C_GetAttributeValue, session, object, &mut attribute, 1) {
            CKR_OK => Some(value == 1),
            _ => None,
        }
    }

    fn has_value(&self, session: CK_SESSION_HANDLE, object: CK_OBJECT_HANDLE) -> bool {
        let mut attribute = CK_ATTRIBUTE { type_: CKA_VALUE, pValue: null_mut(), ulValueLen: 0 };
        function!(self.functions, C_GetAttributeValue, session, object, &mut attribute, 1) == CKR_OK
    }

    /// What follows from an answer to a call that named an object: nothing works with one that is gone.
    fn named(&self, object: CK_OBJECT_HANDLE, rv: CK_RV) -> CK_RV {
        assert!(rv != CKR_OK || !self.gone.contains(&object), "an object that was destroyed is used");
        rv
    }

    /// Whether an object is there.
    fn is_there(&self, session: CK_SESSION_HANDLE, object: CK_OBJECT_HANDLE) -> bool {
        let mut size = 0;
        match function!(self.functions, C_GetObjectSize, session, object, &mut size) {
            CKR_OK => true,
            rv => {
                assert_eq!(rv, CKR_OBJECT_HANDLE_INVALID);
                false
            }
        }
    }

    fn destroy(&mut self, session: CK_SESSION_HANDLE, object: CK_OBJECT_HANDLE) -> CK_RV {
        let rv = self.named(object, function!(self.functions, C_DestroyObject, session, object));
        if rv == CKR_OK {
            assert!(!self.is_there(session, object), "it was destroyed");
            self.objects.retain(|(one, _)| *one != object);
            self.gone.push(object);
        }
        rv
    }

    /// Closes a session of ours, and looks whether its objects went with it.
    fn close(&mut self, session: CK_SESSION_HANDLE) {
        let objects = std::mem::take(&mut self.objects).into_iter();
        let (ending, staying): (Vec<_>, Vec<_>) =
            objects.partition(|(object, of)| *of == session && self.flag(session, *object, CKA_TOKEN) != Some(true));
        self.objects = staying;
        assert_eq!(function!(self.functions, C_CloseSession, session), CKR_OK);
        assert_eq!(function!(self.functions, C_CloseSession, session), CKR_SESSION_HANDLE_INVALID);
        self.sessions.retain(|one| *one != session);
        self.standing.retain(|(of, _), _| *of != session);
        self.closed.push(session);
        for (object, _) in ending {
            if let Some(witness) = self.sessions.first().or(self.shared.first()) {
                assert!(!self.is_there(*witness, object), "an object outlives its session");
            }
            self.gone.push(object);
        }
    }

    /// What follows from the answer to a call that begins an operation, or ends it with a null mechanism.
    fn begun(&mut self, session: CK_SESSION_HANDLE, kind: Kind, ends: bool, rv: CK_RV) -> CK_RV {
        let other = match kind {
            Kind::Verify => Kind::VerifyGiven,
            Kind::VerifyGiven => Kind::Verify,
            kind => kind,
        };
        if ends && rv == CKR_OK {
            self.standing.remove(&(session, kind));
            self.standing.remove(&(session, other));
            return rv;
        }
        let standing = [self.standing(session, kind), self.standing(session, other)];
        let is_ended = standing == [Standing::Ended; 2];
        match rv {
            CKR_OK => assert!(!standing.contains(&Standing::Active), "{kind:?} begins twice"),
            CKR_OPERATION_ACTIVE => assert!(!is_ended, "{kind:?} is not active"),
            _ => {}
        }
        if rv == CKR_OK {
            self.standing.insert((session, kind), Standing::Active);
        }
        rv
    }

    /// What follows from the answer to a step of an operation.
    fn stepped(&mut self, session: CK_SESSION_HANDLE, kind: Kind, step: Step, done: Done) -> CK_RV {
        let rv = done.rv;
        match self.standing(session, kind) {
            Standing::Ended => {
                let said = matches!(rv, CKR_OPERATION_NOT_INITIALIZED | CKR_ARGUMENTS_BAD);
                assert!(said, "{kind:?} has ended, but {rv:#x}");
            }
            Standing::Active => assert_ne!(rv, CKR_OPERATION_NOT_INITIALIZED, "{kind:?} is under way"),
            Standing::Unknown => {}
        }
        let goes_on = match (rv, step) {
            (CKR_BUFFER_TOO_SMALL | CKR_OPERATION_ACTIVE, _) | (_, Step::Message) => true,
            (CKR_OK, Step::Part) => true,
            (CKR_OK, Step::Last) => done.is_query,
            _ => false,
        };
        if !goes_on {
            self.standing.remove(&(session, kind));
        }
        rv
    }
}

/// Keys of all kinds, which stay as they are: secret ones and pairs, in the order that `arguments::key_of` knows.
pub(crate) fn keys_of_all_kinds(module: &Module, session: CK_SESSION_HANDLE) -> Vec<CK_OBJECT_HANDLE> {
    let fixed = || {
        let mut template = Template::new();
        template.flag(CKA_MODIFIABLE, false).flag(CKA_DESTROYABLE, false);
        template
    };
    let mut keys = Vec::new();
    for (kind, len) in
        [(CKK_AES, 32), (CKK_AES, 16), (CKK_GENERIC_SECRET, 32), (CKK_DES3, 24), (CKK_CHACHA20, 32), (CKK_HKDF, 32)]
    {
        let (mut template, mut key) = (fixed(), 0);
        template.number(CKA_CLASS, CKO_SECRET_KEY).number(CKA_KEY_TYPE, kind).bytes(CKA_VALUE, &[7; 32][..len]);
        template.flag(CKA_EXTRACTABLE, true).flag(CKA_DERIVE, true);
        let (at, count) = template.parts();
        assert_eq!(function!(module.functions, C_CreateObject, session, at, count, &mut key), CKR_OK);
        keys.push(key);
    }
    for kind in [
        CKM_EC_KEY_PAIR_GEN,
        CKM_EC_EDWARDS_KEY_PAIR_GEN,
        CKM_EC_MONTGOMERY_KEY_PAIR_GEN,
        CKM_RSA_PKCS_KEY_PAIR_GEN,
        CKM_ML_KEM_KEY_PAIR_GEN,
        CKM_ML_DSA_KEY_PAIR_GEN,
    ] {
        let (mut public, mut private) = (fixed(), fixed());
        match kind {
            CKM_EC_KEY_PAIR_GEN => public.bytes(CKA_EC_PARAMS, arguments::CURVES[0]),
            CKM_EC_EDWARDS_KEY_PAIR_GEN => public.bytes(CKA_EC_PARAMS, arguments::CURVES[1]),
            CKM_EC_MONTGOMERY_KEY_PAIR_GEN => public.bytes(CKA_EC_PARAMS, arguments::CURVES[2]),
            CKM_RSA_PKCS_KEY_PAIR_GEN => public.number(CKA_MODULUS_BITS, 1024),
            _ => public.number(CKA_PARAMETER_SET, 2),
        };
        private.flag(CKA_DERIVE, true).flag(CKA_EXTRACTABLE, true);
        let (public, private) = module.pair(session, kind, &mut public, &mut private);
        keys.extend([public, private]);
    }
    keys
}

/// Whether a function may answer so: with what the standard knows, and neither with what follows a panic nor with what is wrong with a device.
fn is_an_answer(rv: CK_RV) -> bool {
    rv <= CKR_TOKEN_NOT_INITIALIZED.max(CKR_FUNCTION_REJECTED)
        && !matches!(
            rv,
            CKR_GENERAL_ERROR | CKR_HOST_MEMORY | CKR_FUNCTION_FAILED | CKR_DEVICE_ERROR | CKR_DEVICE_MEMORY
        )
}
