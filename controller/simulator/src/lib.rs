//! Traces of real clusters replayed through the production scheduler, in virtual time. No IO, no clock: bytes and values
//! in, values, texts and pictures out.
//!
//! Contracts:
//! 1. No row of a trace is dropped in silence: it is kept, repaired and counted, or refused with its line and field.
//! 2. Ours is `controller-scheduler`'s own code; the baselines see the same jobs at the same times on the same servers.
//! 3. Every placement of every scheduler is proved by [`controller_scheduler::prove`], and where the job's document can say
//!    what it asks for by [`controller_scheduler::check_placement`] as well, before it is held.
//! 4. The same input gives the same output, to the byte.
//! 5. The log of a run, decided again by the same code, gives the same placements; the first difference is named.

pub mod bound;
pub mod cut;
pub mod dice;
pub mod log;
pub mod plot;
pub mod policy;
pub mod proof;
pub mod replay;
pub mod report;
pub mod run;
pub mod series;
pub mod servers;
pub mod site;
mod span;
pub mod summary;
pub mod sweep;
#[cfg(test)]
mod tests;
pub mod trace;
pub mod workload;

pub use policy::{Act, Policy, Rules, Scheduler};
pub use replay::{Replay, ReplayError, Replayed};
pub use run::{Outcome, Row, Watch, run};
pub use servers::{Kind, Servers, ServersError};
pub use site::{Site, SiteError};
pub use trace::{Decoder, Trace, TraceError, TraceJob};
pub use workload::{Mapping, Settings, SimJob, Workload, WorkloadError};
