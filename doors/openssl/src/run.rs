//! One public-key operation: with those of other connections when its caller is an asynchronous job, else on the caller's thread.

use ciphermill::One;
use ciphermill_contract::{Direction, KeyId, OpStatus, Suite};
use zeroize::Zeroizing;

use crate::backend::Backend;
use crate::counts;
use crate::job::Job;
use crate::stack::on_own_stack;

/// An operation and its buffers; secrets in them are wiped when it is dropped.
pub(crate) struct Operation {
    pub(crate) suite: Suite,
    pub(crate) direction: Direction,
    pub(crate) key: KeyId,
    /// Input, and where the output goes: as long as the longer of both.
    pub(crate) data: Zeroizing<Vec<u8>>,
    /// Bytes of input in `data`.
    pub(crate) input_len: usize,
    /// Where a signature goes.
    pub(crate) tag: Vec<u8>,
}

impl Operation {
    /// Runs it, and cuts output and signature to their lengths. `None` when the mill could not do it, whatever the reason: the caller
    /// has `default` do it then, which has errors of its own that applications know.
    pub(crate) fn run(self, backend: &'static Backend) -> Option<Operation> {
        let done = self.run_uncounted(backend);
        counts::count(done.is_some());
        done
    }

    fn run_uncounted(mut self, backend: &'static Backend) -> Option<Operation> {
        let done = match Job::current() {
            Some(job) => {
                let (operation, done) = job.run(backend, self)?;
                self = operation;
                done
            }
            None => {
                let (suite, direction, one) = self.as_one();
                backend.mill.run_one(suite, direction, one).ok()?
            }
        };
        if done.status != OpStatus::Done {
            return None;
        }
        self.data.truncate(done.output_len);
        self.tag.truncate(done.tag_len);
        Some(self)
    }

    /// What the mill is asked.
    pub(crate) fn as_one(&mut self) -> (Suite, Direction, One<'_>) {
        let Operation { suite, direction, key, data, input_len, tag } = self;
        let one = One { key: *key, iv: &[], aad: &[], data, input_len: *input_len, tag };
        (*suite, *direction, one)
    }
}

/// Calls a function that may need more stack than an asynchronous job has.
pub(crate) fn with_room<R>(function: impl FnOnce() -> R) -> R {
    if Job::current().is_some() { on_own_stack(function) } else { function() }
}
