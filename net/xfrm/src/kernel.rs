//! What stands behind the messages: whoever keeps associations and policies.

use crate::association::{AssociationKey, AssociationState, ListFilter, ReplayUpdate, SecurityAssociation, SpiRequest};
use crate::message::Event;
use crate::policy::{Policy, PolicyKey, PolicyState};
use crate::refusal::Refusal;

/// How many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Associations, larval ones among them.
    pub associations: u32,
    /// Policies by their directions: in, out, forward.
    pub policies: [u32; 3],
}

/// Keeps associations and policies for daemons, as the kernel would. The server calls it from its own thread, one request after
/// another; a call that waits holds up every daemon.
///
/// Each function names the numbers that a refusal should have where daemons decide by them. Words of a refusal are logged, and
/// must have nothing of a key.
pub trait Kernel {
    /// Adds an association. `EEXIST` if its SPI is in use, by a larval one too; `ENOSYS` for an algorithm that is not there;
    /// `EINVAL` for a key of a wrong length.
    ///
    /// # Errors
    /// The refusal.
    fn add(&mut self, association: SecurityAssociation) -> Result<AssociationState, Refusal>;

    /// Puts an association in the place of a larval one, or gives one that is there the new one's lifetimes, encapsulation and
    /// marks, but neither keys nor replay service. `ESRCH` if there is none.
    ///
    /// # Errors
    /// The refusal.
    fn update(&mut self, association: SecurityAssociation) -> Result<AssociationState, Refusal>;

    /// Ends an association, and says what it has been. `ESRCH` if there is none.
    ///
    /// # Errors
    /// The refusal.
    fn delete(&mut self, key: &AssociationKey) -> Result<AssociationState, Refusal>;

    /// An association with what it has carried so far. `ESRCH` if there is none.
    ///
    /// # Errors
    /// The refusal.
    fn query(&mut self, key: &AssociationKey) -> Result<AssociationState, Refusal>;

    /// Makes a larval association with an SPI of the range that nobody uses; it goes by itself after a while. `ENOENT` if all
    /// are in use.
    ///
    /// # Errors
    /// The refusal.
    fn allocate_spi(&mut self, request: SpiRequest) -> Result<AssociationState, Refusal>;

    /// Ends all associations of a protocol, with 0 all; says how many.
    fn flush(&mut self, protocol: u8) -> usize;

    /// At most `most` associations behind `position`, in an order that stays, each with its position, which is greater than 0.
    /// Those that come or go meanwhile may be missing, others may not.
    fn list(&mut self, filter: &ListFilter, position: u64, most: usize) -> Vec<(u64, AssociationState)>;

    /// Sets where a replay service stands, and what was counted. `ESRCH` if there is no such association, `EINVAL` if it is
    /// larval or its window has another length.
    ///
    /// # Errors
    /// The refusal.
    fn set_replay(&mut self, update: ReplayUpdate) -> Result<AssociationState, Refusal>;

    /// Adds a policy and gives it an index. `EEXIST` if there is one with its selector, direction, mark and interface.
    ///
    /// # Errors
    /// The refusal.
    fn add_policy(&mut self, policy: Policy) -> Result<PolicyState, Refusal>;

    /// Adds a policy, in the place of the one that it would collide with if there is one.
    ///
    /// # Errors
    /// The refusal.
    fn update_policy(&mut self, policy: Policy) -> Result<PolicyState, Refusal>;

    /// Removes a policy. `ENOENT` if there is none.
    ///
    /// # Errors
    /// The refusal.
    fn delete_policy(&mut self, key: &PolicyKey) -> Result<PolicyState, Refusal>;

    /// A policy. `ENOENT` if there is none.
    ///
    /// # Errors
    /// The refusal.
    fn query_policy(&mut self, key: &PolicyKey) -> Result<PolicyState, Refusal>;

    /// Removes all policies of a table: 0 for the main one.
    fn flush_policies(&mut self, kind: u8);

    /// At most `most` policies behind `position`, as [`Kernel::list`] has associations.
    fn list_policies(&mut self, position: u64, most: usize) -> Vec<(u64, PolicyState)>;

    /// How many associations and policies there are.
    fn counts(&mut self) -> Counts;

    /// Events since the last call; the server asks after each round, so that one waits as long as a round does.
    fn take_events(&mut self) -> Vec<Event> {
        Vec::new()
    }
}
