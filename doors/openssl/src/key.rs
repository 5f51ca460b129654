//! Keys: objects of `default` with the mill's name for their private half, and the functions that manage them.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

use ciphermill_contract::suite::{Curve, Kem, MlDsaSet};
use ciphermill_contract::{KeyForm, KeyId};

use crate::backend::{self, Backend};
use crate::dispatch::{KeyManagement, Object};
use crate::ephemeral;
use crate::ffi::{Callback, Param, selection};
use crate::guard::guarded;
use crate::inner::{Inner, provider_context};
use crate::material::{self, KeyType, Usable};
use crate::params::{END, Params, ask_octets, ask_text, tell_integer, tell_text};
use crate::stack::with_room;
use crate::stored::{self, Stored};

/// Types of keys that are managed here, by the names that `default` has for them.
pub(crate) const TYPES: [(&CStr, KeyType); 12] = [
    (c"RSA", KeyType::Rsa),
    (c"RSA-PSS", KeyType::RsaPss),
    (c"EC", KeyType::Ec),
    (c"X25519", KeyType::X25519),
    (c"X448", KeyType::X448),
    (c"ED25519", KeyType::Ed25519),
    (c"ML-KEM-512", KeyType::MlKem(Kem::MlKem512)),
    (c"ML-KEM-768", KeyType::MlKem(Kem::MlKem768)),
    (c"ML-KEM-1024", KeyType::MlKem(Kem::MlKem1024)),
    (c"ML-DSA-44", KeyType::MlDsa(MlDsaSet::MlDsa44)),
    (c"ML-DSA-65", KeyType::MlDsa(MlDsaSet::MlDsa65)),
    (c"ML-DSA-87", KeyType::MlDsa(MlDsaSet::MlDsa87)),
];

/// The functions of `default` for each of [`TYPES`].
static FUNCTIONS: [OnceLock<KeyManagement>; TYPES.len()] = [const { OnceLock::new() }; TYPES.len()];

/// A key, counted: applications and contexts hold it.
pub(crate) struct Key {
    of: usize,
    inner: Object,
    /// The private half where it is the keystore's; the object has the public one alone then.
    stored: Option<Arc<Stored>>,
    /// What became of importing the private half, and the public one.
    imported: [AtomicPtr<Imported>; 2],
}

/// The places of both halves.
const PRIVATE: usize = 0;
const PUBLIC: usize = 1;

/// What became of importing a key, in the process of this generation.
struct Imported {
    generation: u64,
    usable: Option<(KeyId, Usable)>,
}

// SAFETY: keys of `default` may be used by any thread, as those of the core are.
unsafe impl Send for Key {}
// SAFETY: as above.
unsafe impl Sync for Key {}

impl Key {
    fn wrap(of: usize, inner: Object, stored: Option<Arc<Stored>>) -> Object {
        if inner.is_null() {
            return ptr::null_mut();
        }
        let key = Key { of, inner, stored, imported: Default::default() };
        Arc::into_raw(Arc::new(key)).cast_mut().cast()
    }

    /// A key whose private half is the keystore's, from an object of `default` with the public one.
    pub(crate) fn of_keystore(of: usize, inner: Object, stored: Arc<Stored>) -> Object {
        Key::wrap(of, inner, Some(stored))
    }

    /// Whether `default` can do what the mill does not: not with a private half that is the keystore's.
    pub(crate) fn is_whole(&self) -> bool {
        self.stored.is_none()
    }

    /// The key that an object is.
    ///
    /// # Safety
    /// Null, or an object of [`Key::wrap`] that is not freed while the reference is used.
    pub(crate) unsafe fn of<'a>(object: *const c_void) -> Option<&'a Key> {
        // SAFETY: the caller's promise.
        unsafe { object.cast::<Key>().as_ref() }
    }

    /// A count of its own for whoever keeps the key.
    ///
    /// # Safety
    /// As [`Key::of`].
    pub(crate) unsafe fn keep(object: *const c_void) -> Option<Arc<Key>> {
        let key = ptr::NonNull::new(object.cast_mut().cast::<Key>())?;
        // SAFETY: the object is a counted one, and alive.
        unsafe {
            Arc::increment_strong_count(key.as_ptr());
            Some(Arc::from_raw(key.as_ptr()))
        }
    }

    /// The object of `default`, which its functions take.
    pub(crate) fn inner(&self) -> Object {
        self.inner
    }

    /// The same of an object that may be null.
    ///
    /// # Safety
    /// As [`Key::of`].
    pub(crate) unsafe fn inner_of(object: *const c_void) -> Object {
        // SAFETY: the caller's promise.
        unsafe { Key::of(object) }.map_or(ptr::null_mut(), Key::inner)
    }

    /// Its type.
    pub(crate) fn key_type(&self) -> KeyType {
        TYPES[self.of].1
    }

    pub(crate) fn functions(&self) -> &'static KeyManagement {
        functions(self.of)
    }

    /// The mill's name for the private key and what can be done with it. It is imported when it is first asked for.
    pub(crate) fn usable(&self, backend: &Backend) -> Option<(KeyId, Usable)> {
        self.imported(backend, PRIVATE)
    }

    /// The same of the public key, which curves, ML-KEM and ML-DSA have in the mill.
    pub(crate) fn public(&self, backend: &Backend) -> Option<(KeyId, Usable)> {
        self.imported(backend, PUBLIC)
    }

    fn imported(&self, backend: &Backend, half: usize) -> Option<(KeyId, Usable)> {
        let seen = self.imported[half].load(Ordering::Acquire);
        // SAFETY: what was published is freed with the key, or never.
        if let Some(imported) = unsafe { seen.as_ref() }
            && imported.generation == backend.generation()
        {
            return imported.usable;
        }
        let import = |form| material::import(backend, self.functions(), self.key_type(), self.inner, form);
        // Without a stack to do it on, another time.
        let usable = with_room(|| match &self.stored {
            _ if half == PUBLIC => import(KeyForm::Public),
            Some(stored) => stored.import(backend).map(|key| (key, stored.usable)),
            None => import(KeyForm::Private),
        })?;
        if usable.is_none() && !self.is_whole() {
            // Nobody else can do anything with it: the next operation tries again.
            return None;
        }
        let imported = Box::into_raw(Box::new(Imported { generation: backend.generation(), usable }));
        // What is replaced here was a parent's: its few bytes are lost, since another thread may be reading them.
        if self.imported[half].compare_exchange(seen, imported, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return usable;
        }
        // SAFETY: nobody has seen it.
        let own = unsafe { Box::from_raw(imported) };
        forget(&own);
        self.imported(backend, half)
    }

    /// The curve, if it is one of the mill's.
    pub(crate) fn curve(&self) -> Option<Curve> {
        if self.key_type() != KeyType::Ec {
            return None;
        }
        let mut name = [0; 32];
        let mut asked = [ask_text(c"group", &mut name), END];
        // SAFETY: the object is of these functions; a parameter with room for the answer.
        if unsafe { self.functions().get_params?(self.inner, asked.as_mut_ptr()) } != 1 {
            return None;
        }
        material::curve_of(CStr::from_bytes_until_nul(&name).ok()?.to_bytes())
    }

    /// Forgets what was imported: the object has another key now. Nobody else may be using it meanwhile, as everywhere in OpenSSL.
    fn changed(&self) {
        for half in &self.imported {
            let imported = half.swap(ptr::null_mut(), Ordering::AcqRel);
            if !imported.is_null() {
                // SAFETY: it was published by `imported`, and taken back here.
                let own = unsafe { Box::from_raw(imported) };
                forget(&own);
            }
        }
    }
}

/// Wipes an imported key, if it is this process's.
fn forget(imported: &Imported) {
    let Some((key, _)) = imported.usable.filter(|_| imported.generation == backend::generation()) else { return };
    if let Some(backend) = Backend::current() {
        // It is there: nobody else destroys it.
        let _ = backend.mill.keys().destroy(key);
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.changed();
        // SAFETY: this value's own object.
        unsafe { free_inner(self.of, self.inner) };
    }
}

/// Frees an object of `default`.
///
/// # Safety
/// It must be one of this type, that nobody uses any more.
pub(crate) unsafe fn free_inner(of: usize, inner: Object) {
    if let Some(free) = functions(of).free {
        // SAFETY: the caller's promise.
        unsafe { free(inner) };
    }
}

/// A key on its way to the core by reference (provider-object(7)): freed, unless it is taken.
pub(crate) struct Loaded {
    of: usize,
    object: Object,
}

impl Loaded {
    /// Takes an object of [`Key::of_keystore`] over.
    pub(crate) fn new(of: usize, object: Object) -> Loaded {
        Loaded { of, object }
    }

    /// Tells the core of the key, which has it loaded then; what the core says of that.
    ///
    /// # Safety
    /// The callback must be one of the core's for objects, with its argument.
    pub(crate) unsafe fn hand_over(mut self, callback: Callback, argument: *mut c_void) -> c_int {
        /// `OSSL_OBJECT_PKEY`.
        const KEY: c_int = 2;
        let kind = KEY;
        let place = ptr::from_mut(&mut self.object).cast::<u8>();
        // SAFETY: the bytes of the pointer itself, which `load` takes and clears.
        let reference = unsafe { std::slice::from_raw_parts_mut(place, size_of::<Object>()) };
        let params = [
            tell_integer(c"type", &kind),
            tell_text(c"data-type", TYPES[self.of].0),
            ask_octets(c"reference", reference),
            END,
        ];
        // SAFETY: the caller's promise.
        unsafe { callback(params.as_ptr(), argument) }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: the count that nobody has taken, or null.
        unsafe { free(self.object) };
    }
}

/// Takes the key that a reference stands for.
unsafe extern "C" fn load<const OF: usize>(reference: *const c_void, len: usize) -> Object {
    guarded(ptr::null_mut(), || {
        if reference.is_null() || len != size_of::<Object>() {
            return ptr::null_mut();
        }
        // SAFETY: the core hands on what `hand_over` gave it, while that call lasts.
        unsafe {
            let place = reference.cast_mut().cast::<Object>();
            if Key::of(place.read_unaligned()).is_none_or(|key| key.of != OF) {
                return ptr::null_mut();
            }
            place.replace(ptr::null_mut())
        }
    })
}

/// The functions of `default` for keys of a type; none where it has no such type.
pub(crate) fn functions(of: usize) -> &'static KeyManagement {
    FUNCTIONS[of].get_or_init(|| Inner::functions(TYPES[of].0))
}

/// Our functions for keys of a type: all that `default` has. Loading by reference is a matter between a provider and its own decoders
/// and stores.
pub(crate) fn managed<const OF: usize>() -> KeyManagement {
    let inner = functions(OF);
    KeyManagement {
        new: inner.new.and(Some(new::<OF>)),
        gen_init: inner.gen_init.and(Some(gen_init::<OF>)),
        gen_set_template: inner.gen_set_template.and(Some(gen_set_template::<OF>)),
        gen_set_params: inner.gen_set_params.and(Some(gen_set_params::<OF>)),
        gen_settable_params: inner.gen_settable_params.and(Some(gen_settable_params::<OF>)),
        gen_get_params: inner.gen_get_params.and(Some(gen_get_params::<OF>)),
        gen_gettable_params: inner.gen_gettable_params.and(Some(gen_gettable_params::<OF>)),
        generate: inner.generate.and(Some(generate::<OF>)),
        gen_cleanup: Some(gen_cleanup::<OF>),
        load: inner.load.and(Some(load::<OF>)),
        free: inner.free.and(Some(free)),
        get_params: inner.get_params.and(Some(get_params)),
        gettable_params: inner.gettable_params.and(Some(gettable_params::<OF>)),
        set_params: inner.set_params.and(Some(set_params)),
        settable_params: inner.settable_params.and(Some(settable_params::<OF>)),
        query_operation_name: inner.query_operation_name,
        has: inner.has.and(Some(has)),
        validate: inner.validate.and(Some(validate)),
        matches: inner.matches.and(Some(matches)),
        import: inner.import.and(Some(import)),
        import_types: inner.import_types,
        export: inner.export.and(Some(export)),
        export_types: inner.export_types,
        dup: inner.dup.and(Some(dup)),
    }
}

unsafe extern "C" fn new<const OF: usize>(_: Object) -> Object {
    guarded(ptr::null_mut(), || {
        let Some(new) = functions(OF).new else { return ptr::null_mut() };
        // SAFETY: the context is that of `default`, whose function it is.
        Key::wrap(OF, unsafe { new(provider_context()) }, None)
    })
}

/// A generator of `default`, and what it is asked for.
struct Generator {
    inner: Object,
    /// Whether it is a pair of X25519 and nothing else.
    is_x25519: bool,
}

impl Generator {
    /// # Safety
    /// Null, or an object of `gen_init` that is alive.
    unsafe fn of<'a>(object: Object) -> Option<&'a mut Generator> {
        // SAFETY: the caller's promise.
        unsafe { object.cast::<Generator>().as_mut() }
    }
}

unsafe extern "C" fn gen_init<const OF: usize>(_: Object, parts: c_int, params: *const Param) -> Object {
    guarded(ptr::null_mut(), || {
        let Some(init) = functions(OF).gen_init else { return ptr::null_mut() };
        // SAFETY: as in `new`; the parameters are the core's.
        let inner = unsafe { init(provider_context(), parts, params) };
        if inner.is_null() {
            return ptr::null_mut();
        }
        let pair = selection::PRIVATE_KEY | selection::PUBLIC_KEY;
        let is_x25519 = TYPES[OF].1 == KeyType::X25519 && parts & pair == pair && params.is_null();
        Box::into_raw(Box::new(Generator { inner, is_x25519 })).cast()
    })
}

unsafe extern "C" fn gen_set_template<const OF: usize>(generator: Object, template: Object) -> c_int {
    guarded(0, || {
        // SAFETY: generators and templates are ours.
        match (unsafe { Generator::of(generator) }, functions(OF).gen_set_template) {
            (Some(generator), Some(set)) => {
                generator.is_x25519 = false;
                // SAFETY: as above.
                unsafe { set(generator.inner, Key::inner_of(template)) }
            }
            _ => 0,
        }
    })
}

unsafe extern "C" fn gen_set_params<const OF: usize>(generator: Object, params: *const Param) -> c_int {
    guarded(0, || {
        // SAFETY: generators are ours, the parameters the core's.
        match (unsafe { Generator::of(generator) }, functions(OF).gen_set_params) {
            (Some(generator), Some(set)) => {
                // SAFETY: as above. X25519 has one group.
                generator.is_x25519 &= unsafe { Params::new(params) }.keys().all(|key| key == c"group");
                // SAFETY: as above.
                unsafe { set(generator.inner, params) }
            }
            _ => 0,
        }
    })
}

unsafe extern "C" fn gen_settable_params<const OF: usize>(generator: Object, _: Object) -> *const Param {
    // SAFETY: generators are ours.
    match (functions(OF).gen_settable_params, unsafe { Generator::of(generator) }) {
        // SAFETY: as in `new`.
        (Some(settable), Some(generator)) => unsafe { settable(generator.inner, provider_context()) },
        _ => ptr::null(),
    }
}

unsafe extern "C" fn gen_get_params<const OF: usize>(generator: Object, params: *mut Param) -> c_int {
    // SAFETY: generators are ours.
    match (functions(OF).gen_get_params, unsafe { Generator::of(generator) }) {
        // SAFETY: the parameters are the core's.
        (Some(get), Some(generator)) => unsafe { get(generator.inner, params) },
        _ => 0,
    }
}

unsafe extern "C" fn gen_gettable_params<const OF: usize>(generator: Object, _: Object) -> *const Param {
    // SAFETY: generators are ours.
    match (functions(OF).gen_gettable_params, unsafe { Generator::of(generator) }) {
        // SAFETY: as in `new`.
        (Some(gettable), Some(generator)) => unsafe { gettable(generator.inner, provider_context()) },
        _ => ptr::null(),
    }
}

unsafe extern "C" fn generate<const OF: usize>(
    generator: Object,
    callback: Option<Callback>,
    argument: *mut c_void,
) -> Object {
    guarded(ptr::null_mut(), || {
        // SAFETY: generators are ours.
        let (Some(generator), Some(generate)) = (unsafe { Generator::of(generator) }, functions(OF).generate) else {
            return ptr::null_mut();
        };
        // SAFETY: the callback is the core's.
        let by_default = || unsafe { generate(generator.inner, callback, argument) };
        let inner = if generator.is_x25519 { ephemeral::generate(functions(OF), by_default) } else { by_default() };
        Key::wrap(OF, inner, None)
    })
}

unsafe extern "C" fn gen_cleanup<const OF: usize>(generator: Object) {
    guarded((), || {
        if generator.is_null() {
            return;
        }
        // SAFETY: the core's own, which it does not use any more.
        let generator = unsafe { Box::from_raw(generator.cast::<Generator>()) };
        if let Some(cleanup) = functions(OF).gen_cleanup {
            // SAFETY: as above.
            unsafe { cleanup(generator.inner) };
        }
    });
}

unsafe extern "C" fn free(key: Object) {
    guarded((), || {
        if !key.is_null() {
            // SAFETY: the count that the core was given.
            drop(unsafe { Arc::from_raw(key.cast::<Key>()) });
        }
    });
}

/// Calls a function of `default` for the object that a key of ours holds; an answer of zero where there is no key or function.
macro_rules! pass {
    ($key:expr, $function:ident ( $($argument:expr),* )) => {{
        // SAFETY: the core hands over keys that we have made and that are alive, and arguments that the function takes.
        unsafe {
            match Key::of($key).and_then(|key| Some((key.inner(), key.functions().$function?))) {
                Some((inner, function)) => function(inner, $($argument),*),
                None => 0,
            }
        }
    }};
}

unsafe extern "C" fn get_params(key: Object, params: *mut Param) -> c_int {
    pass!(key, get_params(params))
}

unsafe extern "C" fn set_params(key: Object, params: *const Param) -> c_int {
    // SAFETY: a key of ours, or null.
    if let Some(key) = unsafe { Key::of(key) } {
        guarded((), || key.changed());
    }
    pass!(key, set_params(params))
}

unsafe extern "C" fn gettable_params<const OF: usize>(_: Object) -> *const Param {
    // SAFETY: as in `new`.
    functions(OF).gettable_params.map_or(ptr::null(), |gettable| unsafe { gettable(provider_context()) })
}

unsafe extern "C" fn settable_params<const OF: usize>(_: Object) -> *const Param {
    // SAFETY: as in `new`.
    functions(OF).settable_params.map_or(ptr::null(), |settable| unsafe { settable(provider_context()) })
}

/// What `default` is to be asked of a key for some of its parts: the private half may be the keystore's, where it is sound.
unsafe fn inner_parts(key: *const c_void, parts: c_int) -> c_int {
    // SAFETY: a key of ours, or null.
    match unsafe { Key::of(key) } {
        Some(key) if !key.is_whole() => parts & !selection::PRIVATE_KEY,
        _ => parts,
    }
}

unsafe extern "C" fn has(key: *const c_void, parts: c_int) -> c_int {
    // SAFETY: the core's key.
    let parts = unsafe { inner_parts(key, parts) };
    pass!(key, has(parts))
}

unsafe extern "C" fn validate(key: *const c_void, parts: c_int, how: c_int) -> c_int {
    // SAFETY: the core's key.
    let parts = unsafe { inner_parts(key, parts) };
    pass!(key, validate(parts, how))
}

unsafe extern "C" fn matches(one: *const c_void, other: *const c_void, parts: c_int) -> c_int {
    // SAFETY: keys of ours, or null.
    let other = unsafe { Key::inner_of(other) };
    pass!(one, matches(other.cast_const(), parts))
}

unsafe extern "C" fn import(key: Object, parts: c_int, params: *const Param) -> c_int {
    // SAFETY: a key of ours, or null.
    if let Some(key) = unsafe { Key::of(key) } {
        guarded((), || key.changed());
    }
    pass!(key, import(parts, params))
}

unsafe extern "C" fn export(key: Object, parts: c_int, callback: Option<Callback>, argument: *mut c_void) -> c_int {
    // SAFETY: the core's key.
    if unsafe { inner_parts(key, parts) } != parts {
        return guarded(0, stored::refuse_export);
    }
    pass!(key, export(parts, callback, argument))
}

unsafe extern "C" fn dup(key: *const c_void, parts: c_int) -> Object {
    guarded(ptr::null_mut(), || {
        // SAFETY: a key of ours, or null.
        let Some(key) = (unsafe { Key::of(key) }) else { return ptr::null_mut() };
        let Some(dup) = key.functions().dup else { return ptr::null_mut() };
        let stored = key.stored.clone().filter(|_| parts & selection::PRIVATE_KEY != 0);
        // SAFETY: as above.
        Key::wrap(key.of, unsafe { dup(key.inner, parts) }, stored)
    })
}
