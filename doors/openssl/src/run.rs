//! Runs public-key operations: with those of other connections when the caller is an asynchronous job, else on the caller's thread.

use ciphermill::ComesAlone;
use ciphermill_contract::suite::{Agreement, Curve, PublicEncryption, RsaSize, Signature};
use ciphermill_contract::{Direction, OpStatus, Suite};

use crate::backend::{Backend, Preference, preference};
use crate::counts;
use crate::job::Job;
use crate::operation::Operation;
use crate::stack::{is_in_job, with_room};

/// Runs an operation, and cuts its output and signature to their lengths. `None` when the mill could not do it, whatever the reason:
/// the caller has `default` do it then, which has errors of its own that applications know.
pub(crate) fn run(backend: &'static Backend, operation: Operation) -> Option<Operation> {
    let done = run_uncounted(backend, operation);
    counts::count(done.is_some());
    done
}

/// A caller whose operation is left to `default`, since it is alone and gains little here; to be kept until that has done it. A lone
/// operation in the mill goes through code that was used long ago, which takes as long as these gain.
pub(crate) fn left_alone(backend: &'static Backend, suite: Suite, input_len: usize) -> Option<ComesAlone<'static>> {
    let direction = if matches!(suite, Suite::PublicEncrypt(_)) { Direction::Decrypt } else { Direction::Encrypt };
    left_alone_in(backend, suite, direction, input_len)
}

/// The same of either direction.
pub(crate) fn left_alone_in(
    backend: &'static Backend,
    suite: Suite,
    direction: Direction,
    input_len: usize,
) -> Option<ComesAlone<'static>> {
    let gains_little = match suite {
        Suite::PublicEncrypt(PublicEncryption::RsaRaw(size)) => matches!(size, RsaSize::Rsa1024 | RsaSize::Rsa2048),
        Suite::Sign(Signature::EcdsaDigest(curve)) | Suite::Agree(Agreement::Ecdh(curve)) => curve == Curve::P256,
        Suite::Sign(Signature::Ed25519) | Suite::Agree(Agreement::X25519) | Suite::Kem(_) => true,
        _ => false,
    };
    let is_asked = match preference() {
        Preference::Mill => false,
        Preference::Faster => gains_little,
        Preference::Default => true,
    };
    let is_task = is_in_job();
    let asked = || with_room(|| backend.mill.comes_alone(suite, direction, input_len, is_task)).flatten();
    let alone = is_asked.then(asked).flatten();
    if alone.is_some() {
        counts::count(false);
    }
    alone
}

fn run_uncounted(backend: &'static Backend, mut operation: Operation) -> Option<Operation> {
    let done;
    match Job::current() {
        Some(job) => (operation, done) = job.run(backend, operation)?,
        None => {
            let (suite, direction, one) = operation.as_one();
            // A job that may not be paused has a small stack all the same.
            done = with_room(|| backend.mill.run_one(suite, direction, one))?.ok()?;
        }
    }
    if done.status != OpStatus::Done {
        return None;
    }
    operation.data.truncate(done.output_len);
    operation.tag.truncate(done.tag_len);
    Some(operation)
}
