//! Programs that are built when they are first used: opening the engine for one suite should not wait for the kernels of
//! all others.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::device::{Result, Trouble};
use crate::program::{PROGRAMS, Program};

/// A place for each program's built form. Threads that ask for one program wait for each other, threads that ask for
/// several build side by side.
///
/// A program that did not build is built anew when it is asked for again: what failed may have been a lack of memory that
/// passes, and the router's quarantine keeps tries apart.
pub(crate) struct Lazy<T> {
    places: HashMap<Program, Place<T>>,
}

struct Place<T> {
    built: OnceLock<T>,
    /// Whoever builds.
    building: Mutex<()>,
}

impl<T> Lazy<T> {
    pub(crate) fn new() -> Lazy<T> {
        let place = |program: &Program| (*program, Place { built: OnceLock::new(), building: Mutex::default() });
        Lazy { places: PROGRAMS.iter().map(place).collect() }
    }

    /// The built program; `build` makes it when it is not there.
    ///
    /// # Errors
    /// What `build` says.
    pub(crate) fn get_or_build(&self, program: Program, build: impl FnOnce() -> Result<T>) -> Result<&T> {
        let place = self.places.get(&program).ok_or(Trouble::Absent)?;
        if let Some(built) = place.built.get() {
            return Ok(built);
        }
        // A builder that panicked has left nothing behind.
        let _building = place.building.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(built) = place.built.get() {
            return Ok(built);
        }
        let built = build()?;
        Ok(place.built.get_or_init(|| built))
    }

    /// Takes out everything that was built.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.places.drain().filter_map(|(_, place)| place.built.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_program_is_built_once_however_many_ask() {
        let (lazy, builds) = (Lazy::new(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let built = lazy.get_or_build(Program::Aes, || {
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        Ok(builds.fetch_add(1, Ordering::SeqCst))
                    });
                    assert_eq!(built, Ok(&0));
                });
            }
        });
        assert_eq!(builds.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn programs_are_built_side_by_side() {
        let (lazy, both) = (&Lazy::new(), &Barrier::new(2));
        std::thread::scope(|scope| {
            for program in [Program::Aes, Program::Rc4] {
                // Each builder waits for the other: one behind the other, neither would end.
                scope.spawn(move || lazy.get_or_build(program, || Ok(both.wait())).map(|_| ()).expect("builds"));
            }
        });
    }

    #[test]
    fn a_program_that_failed_is_built_anew() {
        let mut lazy = Lazy::new();
        assert_eq!(lazy.get_or_build(Program::Md5, || Err(Trouble::Call(-6))), Err(Trouble::Call(-6)));
        assert_eq!(lazy.get_or_build(Program::Md5, || Ok(5)), Ok(&5));
        assert_eq!(lazy.get_or_build(Program::Md5, || panic!("it is there")), Ok(&5));
        assert_eq!(lazy.drain().collect::<Vec<_>>(), [5]);
    }
}
