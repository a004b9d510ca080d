//! The profiler: which collective a rank is in, which rank each of its messages waits for, and which rail. Only where the job asks for it; what it
//! remembers has a bound, and ends up in one file for each rank that trace viewers read.

mod event;
mod messages;
mod picture;
mod process;
mod rails;
mod recorder;

pub use event::{Beginning, Event, Member, Progress, Span, State};
pub use picture::{Subject, draw};
pub(crate) use process::{begin, end, is_asked, progress, record, start, stop};
pub use rails::{Direction, Sample, waited_for};
pub use recorder::Recorder;
