//! What the module is between `C_Initialize` and `C_Finalize`.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use ciphermill::Mill;
use ciphermill_memory::{Slab, SlotId};
use cryptoki_sys::{
    CK_SESSION_HANDLE, CK_SLOT_ID, CKR_CRYPTOKI_ALREADY_INITIALIZED, CKR_CRYPTOKI_NOT_INITIALIZED, CKR_GENERAL_ERROR,
    CKR_NEED_TO_CREATE_THREADS, CKR_SESSION_COUNT, CKR_SESSION_HANDLE_INVALID, CKR_SLOT_ID_INVALID,
};

use crate::attached::Attached;
use crate::configuration::Configuration;
use crate::objects::Objects;
use crate::operations::Saved;
use crate::rv::{Result, Rv, fail};
use crate::session::Session;
use crate::slot::Slot;

/// Sessions of one application: what leaks them is refused in time.
pub(crate) const SESSIONS_MAX: u32 = 1 << 16;

/// Which process this is, counted along the line of its parents.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// The library as it was initialised last. What was published is never freed, so that calls that are under way when another thread
/// finalises end cleanly; what it held is let go of by [`Library::close`].
static OPENED: AtomicPtr<Library> = AtomicPtr::new(ptr::null_mut());

/// Held while the library is initialised or finalised.
static CHANGING: Mutex<()> = Mutex::new(());

/// Slots, sessions and objects.
pub(crate) struct Library {
    generation: u64,
    pub(crate) mill: Mill,
    pub(crate) slots: Vec<Slot>,
    pub(crate) sessions: Slab<Session>,
    pub(crate) objects: Objects,
    pub(crate) saved: Saved,
}

unsafe extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Which process this is: another number after each fork.
fn generation() -> u64 {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the handler adds to a number, which every state of a forked child allows. The library is never unloaded (build.rs).
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    GENERATION.load(Ordering::Relaxed)
}

impl Library {
    /// The library that this process has initialised.
    ///
    /// # Errors
    /// `CKR_CRYPTOKI_NOT_INITIALIZED`, also in a child of the process that did (PKCS#11 3.2, 2.5.2).
    #[inline]
    pub(crate) fn current() -> Result<&'static Library> {
        // SAFETY: what was published is never freed.
        match unsafe { OPENED.load(Ordering::Acquire).as_ref() } {
            Some(library) if library.generation == GENERATION.load(Ordering::Relaxed) => Ok(library),
            _ => fail(CKR_CRYPTOKI_NOT_INITIALIZED),
        }
    }

    /// Opens the mill and the tokens.
    ///
    /// # Errors
    /// `CKR_CRYPTOKI_ALREADY_INITIALIZED`; `CKR_NEED_TO_CREATE_THREADS` for attached tokens without them; `CKR_GENERAL_ERROR` for a configuration that cannot be read, with a line on standard error that
    /// says what is wrong with it, and where no mill can be opened.
    pub(crate) fn initialize(may_make_threads: bool) -> Result<()> {
        let generation = generation();
        // After a fork the parent's lock may be held for ever, by a thread that the child does not have.
        let _changing = match CHANGING.try_lock() {
            Ok(guard) => Some(guard),
            Err(_) if Library::current().is_ok() => return fail(CKR_CRYPTOKI_ALREADY_INITIALIZED),
            Err(_) => None,
        };
        if Library::current().is_ok() {
            return fail(CKR_CRYPTOKI_ALREADY_INITIALIZED);
        }
        let configuration = Configuration::read().map_err(|problem| {
            eprintln!("ciphermill-pkcs11: {problem}");
            Rv(CKR_GENERAL_ERROR)
        })?;
        if configuration.has_tokens() && !may_make_threads {
            return fail(CKR_NEED_TO_CREATE_THREADS);
        }
        let tokens = configuration.open_tokens();
        let mill = configuration.open_mill(&tokens).map_err(|problem| {
            eprintln!("ciphermill-pkcs11: {problem}");
            Rv(CKR_GENERAL_ERROR)
        })?;
        let mut slots: Vec<Slot> = configuration.keystores.iter().map(|path| Slot::new(path, &mill, None)).collect();
        if let (Some(path), false) = (configuration.keystores.first(), tokens.is_empty()) {
            slots.push(Slot::new(path, &mill, Some(Attached::new(tokens))));
        }
        let sessions = Slab::with_limit(SESSIONS_MAX);
        let library = Box::new(Library {
            generation,
            mill,
            slots,
            sessions,
            objects: Objects::default(),
            saved: Saved::default(),
        });
        OPENED.store(Box::into_raw(library), Ordering::Release);
        Ok(())
    }

    /// Ends what `C_Initialize` began: sessions and their objects are gone, and the tokens logged out. Calls of other threads that are under
    /// way end as they would have.
    ///
    /// # Errors
    /// `CKR_CRYPTOKI_NOT_INITIALIZED`.
    pub(crate) fn finalize() -> Result<()> {
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        let library = Library::current()?;
        OPENED.store(ptr::null_mut(), Ordering::Release);
        library.close();
        Ok(())
    }

    fn close(&self) {
        // The lease has ended before anything is removed.
        let all: Vec<SlotId> = self.sessions.lease().iter().map(|(id, _)| id).collect();
        for id in all {
            self.sessions.remove(id);
        }
        self.objects.clear();
        self.saved.clear();
        self.slots.iter().for_each(Slot::close);
    }

    /// # Errors
    /// `CKR_SLOT_ID_INVALID`.
    pub(crate) fn slot(&self, id: CK_SLOT_ID) -> Result<&Slot> {
        usize::try_from(id).ok().and_then(|at| self.slots.get(at)).ok_or(Rv(CKR_SLOT_ID_INVALID))
    }

    /// Keeps a session.
    ///
    /// # Errors
    /// `CKR_SESSION_COUNT` where there are [`SESSIONS_MAX`].
    pub(crate) fn add_session(&self, session: Session) -> Result<CK_SESSION_HANDLE> {
        let id = self.sessions.insert(session).map_err(|_| Rv(CKR_SESSION_COUNT))?;
        Ok(handle_of(id))
    }

    /// Works with a session, which stays until `work` ends even if another thread closes it.
    ///
    /// # Errors
    /// `CKR_SESSION_HANDLE_INVALID`; those of `work`.
    #[inline]
    pub(crate) fn with_session<T>(
        &self,
        handle: CK_SESSION_HANDLE,
        work: impl FnOnce(&Session) -> Result<T>,
    ) -> Result<T> {
        let lease = self.sessions.lease();
        match id_of(handle).and_then(|id| lease.entry(id)) {
            Some(session) => work(session),
            None => fail(CKR_SESSION_HANDLE_INVALID),
        }
    }

    /// Closes a session. What another thread does with it ends as it would have.
    ///
    /// # Errors
    /// `CKR_SESSION_HANDLE_INVALID`.
    pub(crate) fn close_session(&self, handle: CK_SESSION_HANDLE) -> Result<()> {
        let slot = self.with_session(handle, |session| Ok(session.slot))?;
        let Some(id) = id_of(handle).filter(|id| self.sessions.remove(*id)) else {
            return fail(CKR_SESSION_HANDLE_INVALID);
        };
        if self.objects.remove_of_session(handle_of(id)) {
            self.forget_spares(slot);
        }
        // With the last session the login ends (PKCS#11 3.2, 5.6.2).
        if self.sessions_of(slot).is_empty() {
            self.log_out(slot);
        }
        Ok(())
    }

    /// The sessions of a slot, and whether each may write.
    pub(crate) fn sessions_of(&self, slot: usize) -> Vec<(CK_SESSION_HANDLE, bool)> {
        let lease = self.sessions.lease();
        let of_slot = lease.iter().filter(|(_, session)| session.slot == slot);
        of_slot.map(|(id, session)| (handle_of(id), session.may_write)).collect()
    }

    /// Brings the objects of a slot up to date with its token.
    ///
    /// # Errors
    /// `CKR_SLOT_ID_INVALID`; those of [`Slot::refresh`].
    pub(crate) fn refresh(&self, slot: usize) -> Result<()> {
        if self.slot(slot as CK_SLOT_ID)?.refresh(slot, &self.mill, &self.objects)? {
            self.forget_spares(slot);
        }
        Ok(())
    }

    /// Logs a slot out: its private objects are gone for this application.
    pub(crate) fn log_out(&self, slot: usize) {
        if let Some(held) = self.slots.get(slot) {
            held.log_out();
        }
        self.objects.remove_private_of_slot(slot);
        self.forget_spares(slot);
    }

    /// Has the sessions of a slot let go of keys that no operation is under way with: some of their objects have gone.
    pub(crate) fn forget_spares(&self, slot: usize) {
        for (_, session) in self.sessions.lease().iter().filter(|(_, session)| session.slot == slot) {
            session.forget_spares();
        }
    }
}

fn handle_of(id: SlotId) -> CK_SESSION_HANDLE {
    CK_SESSION_HANDLE::from(id.generation) << 32 | CK_SESSION_HANDLE::from(id.slot)
}

fn id_of(handle: CK_SESSION_HANDLE) -> Option<SlotId> {
    let slot = (handle & CK_SESSION_HANDLE::from(u32::MAX)) as u32;
    let generation = u32::try_from(handle >> 32).ok()?;
    (generation != 0).then_some(SlotId { slot, generation })
}
