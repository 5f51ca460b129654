//! Slots: a token each, and who is logged in.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ciphermill::Mill;
use crossbeam_utils::atomic::AtomicCell;
use cryptoki_sys::{
    CK_STATE, CK_USER_TYPE, CKR_ARGUMENTS_BAD, CKR_USER_ALREADY_LOGGED_IN, CKR_USER_ANOTHER_ALREADY_LOGGED_IN,
    CKR_USER_NOT_LOGGED_IN, CKR_USER_TYPE_INVALID, CKS_RO_PUBLIC_SESSION, CKS_RO_USER_FUNCTIONS, CKS_RW_PUBLIC_SESSION,
    CKS_RW_SO_FUNCTIONS, CKS_RW_USER_FUNCTIONS, CKU_SO, CKU_USER,
};

use crate::attached::Attached;
use crate::objects::Objects;
use crate::rv::{Result, fail};
use crate::store::{State, Token};

/// Who is logged in: for all sessions of an application with a token at once (PKCS#11 3.2, 5.6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    Nobody,
    User,
    SecurityOfficer,
}

/// A slot and its token, which is a keystore.
pub(crate) struct Slot {
    pub(crate) token: Token,
    /// The tokens of other modules that are shown beside it: the slot is the metaslot then.
    attached: Option<Attached>,
    login: AtomicCell<Login>,
    /// Held while somebody logs in or out.
    changing: Mutex<()>,
    /// The state of the token that the application's objects were made from.
    seen: Mutex<Option<(State, u64)>>,
}

impl Slot {
    pub(crate) fn new(path: &Path, mill: &Mill, attached: Option<Attached>) -> Slot {
        Slot {
            token: Token::open(path, mill),
            attached,
            login: AtomicCell::new(Login::Nobody),
            changing: Mutex::default(),
            seen: Mutex::default(),
        }
    }

    /// Whether it unites a keystore and the tokens of other modules.
    pub(crate) fn is_metaslot(&self) -> bool {
        self.attached.is_some()
    }

    #[inline]
    pub(crate) fn login(&self) -> Login {
        self.login.load()
    }

    /// # Errors
    /// `CKR_USER_ALREADY_LOGGED_IN`, `CKR_USER_ANOTHER_ALREADY_LOGGED_IN`, `CKR_USER_TYPE_INVALID`; those of [`Token::login_user`].
    pub(crate) fn log_in(&self, user: CK_USER_TYPE, pin: &[u8]) -> Result<()> {
        let wanted = match user {
            CKU_USER => Login::User,
            CKU_SO => Login::SecurityOfficer,
            _ => return fail(CKR_USER_TYPE_INVALID),
        };
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        match self.login() {
            Login::Nobody => {}
            now if now == wanted => return fail(CKR_USER_ALREADY_LOGGED_IN),
            _ => return fail(CKR_USER_ANOTHER_ALREADY_LOGGED_IN),
        }
        match wanted {
            Login::SecurityOfficer => self.token.login_so(pin)?,
            _ => self.token.login_user(pin)?,
        }
        self.login.store(wanted);
        self.forget();
        Ok(())
    }

    pub(crate) fn log_out(&self) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.login.store(Login::Nobody);
        self.token.logout();
        self.forget();
    }

    /// Logs out, and closes the tokens beside its own.
    pub(crate) fn close(&self) {
        self.attached.iter().for_each(Attached::close);
        self.log_out();
    }

    /// # Errors
    /// `CKR_USER_NOT_LOGGED_IN` unless the user is.
    pub(crate) fn needs_user(&self) -> Result<()> {
        if self.login() == Login::User { Ok(()) } else { fail(CKR_USER_NOT_LOGGED_IN) }
    }

    /// The state of a session (PKCS#11 3.2, 5.6).
    pub(crate) fn state(&self, may_write: bool) -> CK_STATE {
        match (self.login(), may_write) {
            (Login::Nobody, false) => CKS_RO_PUBLIC_SESSION,
            (Login::Nobody, true) => CKS_RW_PUBLIC_SESSION,
            (Login::User, false) => CKS_RO_USER_FUNCTIONS,
            (Login::User, true) => CKS_RW_USER_FUNCTIONS,
            (Login::SecurityOfficer, _) => CKS_RW_SO_FUNCTIONS,
        }
    }

    /// Brings the application's objects up to date with the token, if that has changed: by this application, or by another. Tells whether
    /// it had.
    ///
    /// # Errors
    /// Those of [`Token::objects`].
    pub(crate) fn refresh(&self, number: usize, mill: &Mill, objects: &Objects) -> Result<bool> {
        // Tokens may take their time: nobody who logs in or out waits for that.
        let attached = self.attached.as_ref().map_or(0, Attached::state);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (self.token.state(), attached);
        if *seen == Some(now) {
            return Ok(false);
        }
        let with_private = self.login() == Login::User;
        let mut stored = self.token.objects(with_private)?;
        if let Some(attached) = &self.attached {
            stored.extend(attached.objects(mill, with_private));
        }
        let stored = stored.into_iter().map(|stored| (stored.id, stored.attributes, stored.key)).collect();
        objects.synchronise(number, stored);
        *seen = Some(now);
        Ok(true)
    }

    /// Has the next look read the token again.
    pub(crate) fn forget(&self) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A PIN that was given.
///
/// # Errors
/// `CKR_ARGUMENTS_BAD` where none was: there is no other way to enter one.
pub(crate) fn given(pin: *const u8, bytes: Result<&[u8]>) -> Result<&[u8]> {
    if pin.is_null() { fail(CKR_ARGUMENTS_BAD) } else { bytes }
}
