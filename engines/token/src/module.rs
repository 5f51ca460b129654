//! A module: the shared library of a token's vendor, and its function list.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use cryptoki_sys::{
    CK_C_INITIALIZE_ARGS, CK_FUNCTION_LIST, CK_RV, CK_SLOT_ID, CK_TOKEN_INFO, CKF_OS_LOCKING_OK,
    CKR_CRYPTOKI_ALREADY_INITIALIZED, CKR_FUNCTION_NOT_SUPPORTED, CKR_OK,
};
use libloading::Library;

/// Slots of a module that are looked at.
const SLOTS_MAX: usize = 4096;

/// A module that was loaded and initialised. It stays so until the program ends: vendors' libraries start threads and register what
/// runs at exit, and do not bear being unloaded.
pub(crate) struct Module {
    functions: *const CK_FUNCTION_LIST,
    /// Taken around each operation of tokens with one session: modules are known that crash when two threads sign, whatever they promise of locking.
    turn: Mutex<()>,
    /// What `functions` points into; none for a list of the program's own.
    _library: Option<Library>,
}

// SAFETY: the list is constant memory of the library, which lives as long. Calls over it are made in turn, or side by side where whoever
// configured the token says that the module bears it, which was told so when it was initialised.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

/// Why there is no module.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// The loader's words.
    Library(String),
    /// `C_GetFunctionList` or `C_Initialize` said no.
    Call(CK_RV),
}

/// An outcome other than `CKR_OK` as an error.
pub(crate) fn outcome(code: CK_RV) -> Result<(), CK_RV> {
    if code == CKR_OK { Ok(()) } else { Err(code) }
}

/// Modules by the process that has initialised them and their paths.
type Loaded = HashMap<(u32, PathBuf), Arc<Module>>;

impl Module {
    /// Loads and initialises a module once in a program, whatever the number of its tokens (PKCS#11 3.1, 5.4).
    ///
    /// # Errors
    /// [`LoadError`].
    pub(crate) fn load(path: &Path) -> Result<Arc<Module>, LoadError> {
        static LOADED: LazyLock<Mutex<Loaded>> = LazyLock::new(Mutex::default);
        // A child initialises it anew (5.4.1), and takes no turn that a thread of its parent may have for ever.
        let name = (std::process::id(), path.canonicalize().unwrap_or_else(|_| path.to_owned()));
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = loaded.get(&name) {
            return Ok(Arc::clone(module));
        }
        let module = Arc::new(Module::open(&name.1)?);
        loaded.insert(name, Arc::clone(&module));
        Ok(module)
    }

    fn open(path: &Path) -> Result<Module, LoadError> {
        let words = |error: libloading::Error| LoadError::Library(error.to_string());
        // SAFETY: loading runs the library's initialisers; the user named it as a PKCS#11 module, and is believed.
        let library = unsafe { Library::new(path) }.map_err(words)?;
        type Entry = unsafe extern "C" fn(*mut *mut CK_FUNCTION_LIST) -> CK_RV;
        // SAFETY: the type is that of the standard (5.4.4) for this name.
        let entry = unsafe { library.get::<Entry>(b"C_GetFunctionList\0") }.map_err(words)?;
        let mut functions: *mut CK_FUNCTION_LIST = ptr::null_mut();
        // SAFETY: the argument is a place for the pointer.
        outcome(unsafe { entry(&raw mut functions) }).map_err(LoadError::Call)?;
        if functions.is_null() {
            return Err(LoadError::Library("C_GetFunctionList gave no list".to_owned()));
        }
        let module = Module { functions, turn: Mutex::default(), _library: Some(library) };
        let mut arguments = CK_C_INITIALIZE_ARGS { flags: CKF_OS_LOCKING_OK, ..CK_C_INITIALIZE_ARGS::default() };
        let initialize = module.functions().C_Initialize.ok_or(LoadError::Call(CKR_FUNCTION_NOT_SUPPORTED))?;
        // SAFETY: the arguments live through the call; without functions for mutexes the module takes the system's.
        match unsafe { initialize((&raw mut arguments).cast()) } {
            CKR_OK | CKR_CRYPTOKI_ALREADY_INITIALIZED => Ok(module),
            code => Err(LoadError::Call(code)),
        }
    }

    /// A module that is a list of functions of this program, which is not initialised.
    #[cfg(test)]
    pub(crate) fn of(functions: &'static CK_FUNCTION_LIST) -> Module {
        Module { functions, turn: Mutex::default(), _library: None }
    }

    pub(crate) fn functions(&self) -> &CK_FUNCTION_LIST {
        // SAFETY: not null, checked when it was opened, and of the library, which lives as long as `self`.
        unsafe { &*self.functions }
    }

    /// The turn of whoever calls: held around all calls of one operation.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Slots that have a token now (5.5.1).
    pub(crate) fn slots(&self) -> Result<Vec<CK_SLOT_ID>, CK_RV> {
        let list = self.functions().C_GetSlotList.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
        let mut count = 0;
        // SAFETY: without a place for slots only their number is written.
        outcome(unsafe { list(1, ptr::null_mut(), &raw mut count) })?;
        let mut slots = vec![0; usize::try_from(count).unwrap_or(SLOTS_MAX).min(SLOTS_MAX)];
        count = slots.len() as _;
        // SAFETY: `slots` has room for `count`.
        outcome(unsafe { list(1, slots.as_mut_ptr(), &raw mut count) })?;
        slots.truncate(usize::try_from(count).unwrap_or(0));
        Ok(slots)
    }

    /// What a slot's token says of itself (5.5.3).
    pub(crate) fn token_info(&self, slot: CK_SLOT_ID) -> Result<CK_TOKEN_INFO, CK_RV> {
        let ask = self.functions().C_GetTokenInfo.ok_or(CKR_FUNCTION_NOT_SUPPORTED)?;
        let mut info = CK_TOKEN_INFO::default();
        // SAFETY: the argument is a place for the answer.
        outcome(unsafe { ask(slot, &raw mut info) })?;
        Ok(info)
    }
}
