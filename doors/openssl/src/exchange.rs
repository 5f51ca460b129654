//! Key agreement on curves: a context of `default` beside the two keys.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::{Arc, OnceLock};

use ciphermill::ComesAlone;
use ciphermill_contract::suite::Agreement;
use ciphermill_contract::{Direction, KeyId, Suite};
use zeroize::Zeroizing;

use crate::backend::Backend;
use crate::context::{beside, pass};
use crate::dispatch::{KeyExchange, Object};
use crate::ffi::Param;
use crate::guard::{answer, guarded};
use crate::inner::{Inner, provider_context};
use crate::key::Key;
use crate::material::KeyType;
use crate::operation::Operation;
use crate::params::{END, Params, ask_octets};
use crate::run::{left_alone, run};

/// Agreements that are made here, by the names that `default` has for them.
pub(crate) const AGREEMENTS: [&CStr; 3] = [c"ECDH", c"X25519", c"X448"];

static FUNCTIONS: [OnceLock<KeyExchange>; AGREEMENTS.len()] = [const { OnceLock::new() }; AGREEMENTS.len()];

/// Longest public value: an uncompressed point over the largest field that OpenSSL takes (`OPENSSL_ECC_MAX_FIELD_BITS`, 661 bits).
const PUBLIC_LEN_MAX: usize = 1 + 2 * 83;

/// A context of an application.
struct ExchangeContext {
    of: usize,
    inner: Object,
    key: Option<Arc<Key>>,
    peer: Option<Arc<Key>>,
    /// Whether it has parameters that only `default` knows: a KDF, a cofactor.
    is_special: bool,
    /// While `default` does what would be alone in the mill.
    alone: Option<ComesAlone<'static>>,
}

/// The functions of `default` for an agreement.
pub(crate) fn functions(of: usize) -> &'static KeyExchange {
    FUNCTIONS[of].get_or_init(|| Inner::functions(AGREEMENTS[of]))
}

/// Our functions for an agreement: all that `default` has.
pub(crate) fn exchanges<const OF: usize>() -> KeyExchange {
    let inner = functions(OF);
    KeyExchange {
        newctx: inner.newctx.and(Some(newctx::<OF>)),
        init: inner.init.and(Some(init)),
        derive: inner.derive.and(Some(derive)),
        set_peer: inner.set_peer.and(Some(set_peer)),
        freectx: inner.freectx.and(Some(freectx)),
        dupctx: inner.dupctx.and(Some(dupctx)),
        set_ctx_params: inner.set_ctx_params.and(Some(set_ctx_params)),
        settable_ctx_params: inner.settable_ctx_params.and(Some(settable_ctx_params::<OF>)),
        get_ctx_params: inner.get_ctx_params.and(Some(get_ctx_params)),
        gettable_ctx_params: inner.gettable_ctx_params.and(Some(gettable_ctx_params::<OF>)),
    }
}

beside!(ExchangeContext, KeyExchange);

impl ExchangeContext {
    /// The shared secret. `None` when `default` is to find it.
    fn derive_in_mill(&mut self) -> Option<Zeroizing<Vec<u8>>> {
        if self.is_special {
            return None;
        }
        let backend = Backend::current()?;
        let own = self.key.as_ref()?;
        // Before a key is imported that is used once.
        if own.key_type() == KeyType::X25519 && own.is_whole() {
            self.alone = left_alone(backend, Suite::Agree(Agreement::X25519), Agreement::X25519.public_len());
        }
        if self.alone.is_some() {
            return None;
        }
        let (key, usable) = own.usable(backend)?;
        let agreement = usable.agreement()?;
        if agreement != Agreement::X25519 && own.is_whole() {
            self.alone = left_alone(backend, Suite::Agree(agreement), agreement.public_len());
        }
        if self.alone.is_some() {
            return None;
        }
        agree(backend, Suite::Agree(agreement), key, self.peer.as_ref()?)
    }
}

/// The secret that a key shares with a peer's.
fn agree(backend: &'static Backend, suite: Suite, key: KeyId, peer: &Key) -> Option<Zeroizing<Vec<u8>>> {
    let mut public = [0; PUBLIC_LEN_MAX];
    let mut asked = [ask_octets(c"encoded-pub-key", &mut public), END];
    // SAFETY: the object is of these functions; there is room for the longest answer.
    if unsafe { peer.functions().get_params?(peer.inner(), asked.as_mut_ptr()) } != 1 {
        return None;
    }
    let public = public.get(..asked[0].return_size)?;
    let input_len = public.len();
    let mut data = Zeroizing::new(public.to_vec());
    data.resize(input_len.max(suite.output_len(Direction::Encrypt, input_len, input_len)), 0);
    let operation = Operation { suite, direction: Direction::Encrypt, key, data, input_len, tag: Vec::new() };
    run(backend, operation).map(|done| done.data)
}

unsafe extern "C" fn newctx<const OF: usize>(_: Object) -> Object {
    guarded(ptr::null_mut(), || {
        let Some(new) = functions(OF).newctx else { return ptr::null_mut() };
        // SAFETY: the context is that of `default`, whose function it is.
        let inner = unsafe { new(provider_context()) };
        if inner.is_null() {
            return ptr::null_mut();
        }
        Box::into_raw(Box::new(ExchangeContext {
            of: OF,
            inner,
            key: None,
            peer: None,
            is_special: false,
            alone: None,
        }))
        .cast()
    })
}

unsafe extern "C" fn dupctx(context: Object) -> Object {
    guarded(ptr::null_mut(), || {
        // SAFETY: a context of ours, or null.
        let Some(from) = (unsafe { ExchangeContext::of(context) }) else { return ptr::null_mut() };
        let Some(dup) = from.functions().dupctx else { return ptr::null_mut() };
        // SAFETY: the context is of these functions.
        let inner = unsafe { dup(from.inner) };
        if inner.is_null() {
            return ptr::null_mut();
        }
        let (key, peer) = (from.key.clone(), from.peer.clone());
        Box::into_raw(Box::new(ExchangeContext {
            of: from.of,
            inner,
            key,
            peer,
            is_special: from.is_special,
            alone: None,
        }))
        .cast()
    })
}

unsafe extern "C" fn init(context: Object, key: Object, params: *const Param) -> c_int {
    guarded(0, || {
        // SAFETY: the core's arguments.
        let inner_key = unsafe { Key::inner_of(key) };
        let begun = pass!(ExchangeContext, context, 0, init(inner_key, params));
        // SAFETY: as above.
        unsafe {
            if let Some(own) = ExchangeContext::of(context) {
                own.key = Key::keep(key).filter(|_| begun == 1);
                own.peer = None;
                own.is_special = Params::new(params).keys().next().is_some();
            }
        }
        begun
    })
}

unsafe extern "C" fn set_peer(context: Object, peer: Object) -> c_int {
    guarded(0, || {
        // SAFETY: the core's arguments.
        let inner_peer = unsafe { Key::inner_of(peer) };
        let is_taken = pass!(ExchangeContext, context, 0, set_peer(inner_peer));
        // SAFETY: as above.
        if let Some(own) = unsafe { ExchangeContext::of(context) }.filter(|_| is_taken == 1) {
            // SAFETY: as above. A peer that `default` refuses leaves the one before.
            own.peer = unsafe { Key::keep(peer) };
        }
        is_taken
    })
}

/// Bytes of the secret that a key of the keystore has with others; `default` would want the private half to tell.
fn len_of_stored(own: &ExchangeContext) -> Option<usize> {
    let key = own.key.as_ref().filter(|key| !key.is_whole() && !own.is_special)?;
    let agreement = key.usable(Backend::current()?)?.1.agreement()?;
    Some(agreement.secret_len())
}

unsafe extern "C" fn derive(context: Object, out: *mut u8, len: *mut usize, room: usize) -> c_int {
    guarded(0, || {
        if out.is_null() {
            // SAFETY: the core's arguments.
            let asked = unsafe { ExchangeContext::of(context) }.and_then(|own| len_of_stored(own));
            // SAFETY: as above, null or a place for a length.
            if let (Some(asked), Some(len)) = (asked, unsafe { len.as_mut() }) {
                *len = asked;
                return 1;
            }
        } else {
            // SAFETY: the core's arguments.
            let secret = unsafe { ExchangeContext::of(context) }.and_then(|own| own.derive_in_mill());
            // SAFETY: as above.
            if secret.is_some_and(|secret| unsafe { answer(&secret, out, len, room) }) {
                return 1;
            }
        }
        by_default(context, pass!(ExchangeContext, context, 0, derive(out, len, room)))
    })
}

unsafe extern "C" fn set_ctx_params(context: Object, params: *const Param) -> c_int {
    // SAFETY: the core's arguments.
    unsafe {
        if let Some(own) = ExchangeContext::of(context) {
            own.is_special |= Params::new(params).keys().next().is_some();
        }
    }
    pass!(ExchangeContext, context, 0, set_ctx_params(params))
}
