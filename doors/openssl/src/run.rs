//! Runs public-key operations: with those of other connections when the caller is an asynchronous job, else on the caller's thread.

use ciphermill_contract::OpStatus;

use crate::backend::Backend;
use crate::counts;
use crate::job::Job;
use crate::operation::Operation;

/// Runs an operation, and cuts its output and signature to their lengths. `None` when the mill could not do it, whatever the reason:
/// the caller has `default` do it then, which has errors of its own that applications know.
pub(crate) fn run(backend: &'static Backend, operation: Operation) -> Option<Operation> {
    let done = run_uncounted(backend, operation);
    counts::count(done.is_some());
    done
}

fn run_uncounted(backend: &'static Backend, mut operation: Operation) -> Option<Operation> {
    let done;
    match Job::current() {
        Some(job) => (operation, done) = job.run(backend, operation)?,
        None => {
            let (suite, direction, one) = operation.as_one();
            done = backend.mill.run_one(suite, direction, one).ok()?;
        }
    }
    if done.status != OpStatus::Done {
        return None;
    }
    operation.data.truncate(done.output_len);
    operation.tag.truncate(done.tag_len);
    Some(operation)
}
