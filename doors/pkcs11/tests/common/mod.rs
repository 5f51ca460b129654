//! The module as an application has it: by its table of functions, with PINs and a token of its own.
#![allow(dead_code, reason = "each test needs a part")]
#![allow(clippy::expect_used, reason = "part of tests")]

pub(crate) mod calls;

use std::path::Path;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ciphermill_pkcs11::functions::{C_GetFunctionList, C_GetInterface};
use cryptoki_sys::*;
use tempfile::TempDir;

/// The library is one a process: tests of one program take turns.
static TURN: Mutex<()> = Mutex::new(());

pub(crate) const SO_PIN: &[u8] = b"so-pin-1234";
pub(crate) const PIN: &[u8] = b"user-pin-1234";

/// A module that is initialised until it is dropped.
pub(crate) struct Module {
    pub(crate) functions: CK_FUNCTION_LIST_3_2,
    pub(crate) folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// Calls a function of the module by its name.
#[macro_export]
macro_rules! call {
    ($module:expr, $name:ident $(, $argument:expr)* $(,)?) => {{
        let function = $module.functions.$name.expect("a function");
        // SAFETY: the pointers are those of the test, and lengths are theirs.
        #[allow(unused_unsafe, reason = "within others")]
        unsafe { function($($argument),*) }
    }};
}

impl Module {
    /// A module with the keystores `a` and `b` in a new folder, which are not there yet.
    pub(crate) fn open() -> Module {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Module::open_in(turn, tempfile::tempdir().expect("a folder"), "")
    }

    /// The same in a folder that `prepare` has put something in, with the configuration that it returns.
    pub(crate) fn prepared(prepare: impl FnOnce(&Path) -> String) -> Module {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("pkcs11.toml");
        std::fs::write(&file, prepare(folder.path())).expect("a file");
        Module::open_in(turn, folder, file.to_str().expect("a path"))
    }

    fn open_in(turn: MutexGuard<'static, ()>, folder: TempDir, configuration: &str) -> Module {
        let keystores = ["a", "b"].map(|name| folder.path().join(name).display().to_string());
        // SAFETY: tests that read the environment wait for their turn.
        unsafe {
            std::env::set_var("CIPHERMILL_PKCS11_KEYSTORES", keystores.join(":"));
            std::env::set_var("CIPHERMILL_PKCS11_CONF", configuration);
            std::env::set_var("XDG_CONFIG_HOME", folder.path());
        }
        let module = Module { functions: functions(), folder, _turn: turn };
        assert_eq!(call!(module, C_Initialize, null_mut()), CKR_OK);
        module
    }

    /// The same, with the first slot's token initialised and its user's PIN set.
    pub(crate) fn with_token() -> Module {
        Module::open().initialized()
    }

    /// With the first slot's token initialised and its user's PIN set.
    pub(crate) fn initialized(self) -> Module {
        let module = self;
        let mut label = *b"a token                         ";
        assert_eq!(call!(module, C_InitToken, 0, pin(SO_PIN), len(SO_PIN), label.as_mut_ptr()), CKR_OK);
        let session = module.session(true);
        assert_eq!(call!(module, C_Login, session, CKU_SO, pin(SO_PIN), len(SO_PIN)), CKR_OK);
        assert_eq!(call!(module, C_InitPIN, session, pin(PIN), len(PIN)), CKR_OK);
        assert_eq!(call!(module, C_CloseSession, session), CKR_OK);
        module
    }

    /// A session with the first slot.
    pub(crate) fn session(&self, may_write: bool) -> CK_SESSION_HANDLE {
        self.session_with(0, may_write)
    }

    /// A session with a slot.
    pub(crate) fn session_with(&self, slot: CK_SLOT_ID, may_write: bool) -> CK_SESSION_HANDLE {
        let mut session = 0;
        let flags = CKF_SERIAL_SESSION | if may_write { CKF_RW_SESSION } else { 0 };
        assert_eq!(call!(self, C_OpenSession, slot, flags, null_mut(), None, &mut session), CKR_OK);
        session
    }

    /// The same, to call functions in.
    pub(crate) fn client(&self) -> calls::Client<'_> {
        calls::Client { module: self, session: self.user() }
    }

    /// A session that may write, with the user logged in.
    pub(crate) fn user(&self) -> CK_SESSION_HANDLE {
        let session = self.session(true);
        assert_eq!(call!(self, C_Login, session, CKU_USER, pin(PIN), len(PIN)), CKR_OK);
        session
    }

    /// An AES key of 32 bytes for everything, which lives as long as its session.
    pub(crate) fn aes(&self, session: CK_SESSION_HANDLE) -> CK_OBJECT_HANDLE {
        let mut template = Template::new();
        template.number(CKA_VALUE_LEN, 32);
        for may in [CKA_ENCRYPT, CKA_DECRYPT, CKA_SIGN, CKA_VERIFY, CKA_WRAP, CKA_UNWRAP, CKA_EXTRACTABLE] {
            template.flag(may, true);
        }
        template.flag(CKA_SENSITIVE, false);
        let mut key = 0;
        let mut mechanism = mechanism(CKM_AES_KEY_GEN, &mut []);
        let (at, count) = template.parts();
        assert_eq!(call!(self, C_GenerateKey, session, &mut mechanism, at, count, &mut key), CKR_OK);
        key
    }

    /// A pair on P-256.
    pub(crate) fn p256(&self, session: CK_SESSION_HANDLE) -> (CK_OBJECT_HANDLE, CK_OBJECT_HANDLE) {
        let mut public = Template::new();
        public.bytes(CKA_EC_PARAMS, &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]);
        public.flag(CKA_VERIFY, true);
        let mut private = Template::new();
        private.flag(CKA_SIGN, true);
        private.flag(CKA_DERIVE, true);
        self.pair(session, CKM_EC_KEY_PAIR_GEN, &mut public, &mut private)
    }

    pub(crate) fn pair(
        &self,
        session: CK_SESSION_HANDLE,
        kind: CK_MECHANISM_TYPE,
        public: &mut Template,
        private: &mut Template,
    ) -> (CK_OBJECT_HANDLE, CK_OBJECT_HANDLE) {
        let mut mechanism = mechanism(kind, &mut []);
        let ((public, public_count), (private, private_count)) = (public.parts(), private.parts());
        let (mut of_public, mut of_private) = (0, 0);
        let rv = call!(
            self,
            C_GenerateKeyPair,
            session,
            &mut mechanism,
            public,
            public_count,
            private,
            private_count,
            &mut of_public,
            &mut of_private
        );
        assert_eq!(rv, CKR_OK);
        (of_public, of_private)
    }

    /// The value of an attribute.
    pub(crate) fn value(
        &self,
        session: CK_SESSION_HANDLE,
        object: CK_OBJECT_HANDLE,
        kind: CK_ATTRIBUTE_TYPE,
    ) -> Result<Vec<u8>, CK_RV> {
        let mut attribute = CK_ATTRIBUTE { type_: kind, pValue: null_mut(), ulValueLen: 0 };
        match call!(self, C_GetAttributeValue, session, object, &mut attribute, 1) {
            CKR_OK => {}
            rv => return Err(rv),
        }
        let mut value = vec![0_u8; attribute.ulValueLen as usize];
        attribute.pValue = value.as_mut_ptr().cast();
        match call!(self, C_GetAttributeValue, session, object, &mut attribute, 1) {
            CKR_OK => Ok(value),
            rv => Err(rv),
        }
    }

    /// The objects with these attributes.
    pub(crate) fn find(&self, session: CK_SESSION_HANDLE, template: &mut Template) -> Vec<CK_OBJECT_HANDLE> {
        let (at, count) = template.parts();
        assert_eq!(call!(self, C_FindObjectsInit, session, at, count), CKR_OK);
        let mut found = [0; 64];
        let mut number = 0;
        assert_eq!(call!(self, C_FindObjects, session, found.as_mut_ptr(), 64, &mut number), CKR_OK);
        assert_eq!(call!(self, C_FindObjectsFinal, session), CKR_OK);
        found[..number as usize].to_vec()
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let rv = call!(self, C_Finalize, null_mut());
        assert!(rv == CKR_OK || rv == CKR_CRYPTOKI_NOT_INITIALIZED || std::thread::panicking());
    }
}

/// The newest table of functions, which the oldest call gives too as far as it goes.
pub(crate) fn functions() -> CK_FUNCTION_LIST_3_2 {
    let (mut interface, mut old) = (null_mut(), null_mut());
    // SAFETY: places for pointers; what they lead to is never freed.
    unsafe {
        assert_eq!(C_GetInterface(null_mut(), null_mut(), &mut interface, 0), CKR_OK);
        assert_eq!(C_GetFunctionList(&mut old), CKR_OK);
        let functions = *(*interface).pFunctionList.cast::<CK_FUNCTION_LIST_3_2>();
        assert_eq!((*old).C_Sign.map(|f| f as usize), functions.C_Sign.map(|f| f as usize));
        functions
    }
}

/// A template, and the values it points to.
#[derive(Default)]
pub(crate) struct Template {
    values: Vec<(CK_ATTRIBUTE_TYPE, Vec<u8>)>,
    attributes: Vec<CK_ATTRIBUTE>,
}

impl Template {
    pub(crate) fn new() -> Template {
        Template::default()
    }

    /// A key's of a class and type.
    pub(crate) fn key(class: CK_OBJECT_CLASS, kind: CK_KEY_TYPE) -> Template {
        let mut template = Template::new();
        template.number(CKA_CLASS, class).number(CKA_KEY_TYPE, kind);
        template
    }

    /// A secret key's that may be read and derived from.
    pub(crate) fn secret(kind: CK_KEY_TYPE) -> Template {
        let mut template = Template::key(CKO_SECRET_KEY, kind);
        template.flag(CKA_SENSITIVE, false).flag(CKA_EXTRACTABLE, true).flag(CKA_DERIVE, true);
        template
    }

    pub(crate) fn bytes(&mut self, kind: CK_ATTRIBUTE_TYPE, value: &[u8]) -> &mut Template {
        self.values.push((kind, value.to_vec()));
        self
    }

    pub(crate) fn flag(&mut self, kind: CK_ATTRIBUTE_TYPE, value: bool) -> &mut Template {
        self.bytes(kind, &[u8::from(value)])
    }

    pub(crate) fn number(&mut self, kind: CK_ATTRIBUTE_TYPE, value: CK_ULONG) -> &mut Template {
        self.bytes(kind, &value.to_ne_bytes())
    }

    pub(crate) fn parts(&mut self) -> (*mut CK_ATTRIBUTE, CK_ULONG) {
        let attributes = self.values.iter_mut().map(|(kind, value)| CK_ATTRIBUTE {
            type_: *kind,
            pValue: value.as_mut_ptr().cast(),
            ulValueLen: value.len() as CK_ULONG,
        });
        self.attributes = attributes.collect();
        (self.attributes.as_mut_ptr(), self.attributes.len() as CK_ULONG)
    }
}

/// A mechanism with the bytes of its parameter.
pub(crate) fn mechanism(kind: CK_MECHANISM_TYPE, parameter: &mut [u8]) -> CK_MECHANISM {
    let at = if parameter.is_empty() { null_mut() } else { parameter.as_mut_ptr().cast() };
    CK_MECHANISM { mechanism: kind, pParameter: at, ulParameterLen: parameter.len() as CK_ULONG }
}

/// Bytes that the module only reads.
pub(crate) fn pin(bytes: &[u8]) -> *mut u8 {
    bytes.as_ptr().cast_mut()
}

pub(crate) fn len(bytes: &[u8]) -> CK_ULONG {
    bytes.len() as CK_ULONG
}
