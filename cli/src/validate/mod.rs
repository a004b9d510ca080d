//! `railctl validate`: the whole fabric tried out by ordinary jobs, judged, compared with what was measured before, and reported.
//!
//! `plan` says which tests, `rails` over which rails, `measure` their results, `judge` where that falls short, `report` and `html` how it
//! is read: values and functions, without IO. `run` has the jobs run, `clean` leaves nothing behind.

mod clean;
mod html;
mod judge;
mod measure;
mod plan;
mod rails;
mod report;
mod run;

pub use plan::Phase;
pub use run::run;
