//! The mill: engines, key table and router, opened. This is what an application holds.
//!
//! ```
//! use std::sync::Arc;
//! # use ciphermill::contract::*;
//! # fn engine() -> Arc<dyn Engine> { ciphermill::null::NullEngine::shared() }
//! # fn main() -> Result<()> {
//! let mill = ciphermill::Mill::builder().engine(engine()).self_test(ciphermill::SelfTest::Never).open()?;
//! let key = mill.keys().import(KeyMaterial::secret(&[7; 16]), ciphermill::KeyPolicy::default())?;
//! let mut arena = [0u8; 48];
//! let mut ops = [Op::in_place(key, Span::new(0, 48)).with_iv(&[1; 16])];
//! let suite: Suite = "aes-128-cbc".parse().expect("a known suite");
//! let report = mill.run(Batch::new(suite, Direction::Encrypt, &mut ops, &mut arena))?;
//! assert_eq!((report.done, report.failed), (1, 0));
//! println!("{}", report.route);
//! # Ok(())
//! # }
//! ```
//!
//! The way of a batch: [`Session::run`] checks it once, leases its keys, asks the router for an engine, has the keys
//! prepared for that engine (once in a key's life), runs it and accounts for every operation.
mod cell;
mod costs;
mod disabled;
mod engines;
mod generate;
mod metrics;
mod mill;
pub mod null;
pub mod panics;
mod policy;
mod prediction;
mod report;
mod run;
mod single;
mod state;
mod submit;
mod workers;

pub use ciphermill_contract as contract;
pub use ciphermill_keys::{KeyPolicy, KeyTable, KeyUsage, TRANSFORM_GROUP_LEN_MAX};
pub use ciphermill_router::{Route, RouteReason, SIZE_CLASSES, Share, Shares, Verdict, size_class};
pub use costs::{Costs, MeasuredCost};
pub use disabled::{BadRule, DISABLED_RULES_MAX, Disabled, DisabledRule, RuleProblem};
pub use engines::Trouble;
pub use generate::GeneratedPair;
pub use metrics::{Distribution, EngineMetrics, Outcomes, Routes, SharedMetrics, Snapshot, SuiteMetrics};
pub use mill::{Mill, MillBuilder};
pub use policy::{OnFull, Policy, RunOptions, SelfTest, SubmitOptions, TrustPolicy};
pub use prediction::prediction;
pub use report::{EngineReport, Report, SelfTestState, SuiteReport, TransformReport};
pub use run::{Considered, DisabledEngine, Explanation};
pub use single::{Bound, BoundOp, ComesAlone, MultiPart, One, OneDone, OneFuture, SHARED_OPS_MAX};
pub use submit::{BatchFuture, IN_FLIGHT_MAX, QUEUED_MAX, Session};
