//! The engine's figures B1 to B11: ours and other libraries side by side on the same shaped rails, in the same minute.
//!
//! All programs that are compared live through the whole bench and wait without using a processor; their repetitions
//! alternate, so that a noisy moment hits all alike. Ratios are taken within one repetition.

mod bandwidth;
mod children;
mod faults;
mod group;
mod lab;
mod latency;
mod meter;
mod ours;
mod peers;
mod plot;
mod roof;
mod series;
mod simulated;
mod training;

use std::{
    cell::{OnceCell, RefCell},
    collections::BTreeMap,
};

use clap::Subcommand;

use crate::report;
use group::Group;
use lab::Lab;

pub use plot::plot;

/// A function that measures one row.
pub type Row = fn(&report::Row<'_>, &Bench) -> Result<(), String>;

/// The rows of this bench.
pub const ROWS: [(&str, Row); 11] = [
    ("B1", bandwidth::large),
    ("B2", bandwidth::small),
    ("B3", bandwidth::unequal),
    ("B4", faults::cuts),
    ("B5", faults::degraded),
    ("B6", faults::back),
    ("B7", latency::small),
    ("B8", latency::server),
    ("B9", simulated::same_bits),
    ("B10", training::training),
    ("B11", simulated::deadlines),
];

/// What the command line chose.
pub struct Settings {
    /// Two repetitions in place of five.
    pub quick: bool,
    /// Rate of one rail in Mbit/s.
    pub rate: u32,
}

/// Programs that the bench starts of itself.
#[derive(Subcommand)]
pub enum Helper {
    /// Removes the namespaces of a bench when standard input ends.
    #[command(hide = true)]
    Guard(lab::GuardArgs),
    /// One host's plain TCP streams.
    #[command(hide = true)]
    Roof(roof::HostArgs),
}

impl Helper {
    /// Runs to its end.
    ///
    /// # Errors
    /// The error of the helper.
    pub fn run(&self) -> Result<(), String> {
        match self {
            Self::Guard(args) => lab::guard(args),
            Self::Roof(args) => roof::host(args),
        }
    }
}

/// The library that is measured, with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// Ours, with so many rails, ranks through the door.
    Ours { rails: usize },
    /// Plain TCP streams, without a library: the most that the rails carry.
    Roof,
    /// Gloo through torch, all interfaces given to it.
    Gloo,
    /// Open MPI's own TCP, as it comes.
    OpenMpi,
    /// The same with the best algorithm that was found for large messages.
    OpenMpiTuned,
    /// Open MPI over UCX over TCP; with a ring for more than two.
    Ucx,
    /// The same with the best algorithm for two as well.
    UcxTuned,
    /// MPICH over UCX over TCP.
    Mpich,
}

/// Where it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Environment {
    /// One host each, on shaped rails.
    Rails,
    /// All in one namespace, TCP over loopback, not shaped.
    Loopback,
    /// All on one host, by shared memory.
    Server,
}

/// One set of programs: who, where, on how many hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The library that is measured.
    pub who: Who,
    /// Where its ranks run.
    pub place: Environment,
    /// The number of ranks.
    pub n: usize,
}

/// Everything that the rows share.
pub struct Bench {
    /// What the command line chose.
    pub settings: Settings,
    lab: OnceCell<Result<Lab, String>>,
    groups: RefCell<BTreeMap<Key, Result<Group, String>>>,
}

impl Bench {
    /// Nothing is made before the first row needs it.
    pub fn new(settings: Settings) -> Self {
        Self { settings, lab: OnceCell::new(), groups: RefCell::default() }
    }

    /// Repetitions of each measurement.
    pub fn repetitions(&self) -> usize {
        if self.settings.quick { 2 } else { 5 }
    }

    /// The namespaces; the error is the reason for void rows.
    ///
    /// # Errors
    /// Why the namespaces cannot be made, the same at every call.
    pub fn lab(&self) -> Result<&Lab, String> {
        self.lab.get_or_init(|| Lab::up(4, 4, self.settings.rate)).as_ref().map_err(Clone::clone)
    }

    /// Does something with one set of programs, which is started if it does not live yet. An error says why it is
    /// absent; a set that has failed once stays absent, since its processes may be in any state.
    ///
    /// # Errors
    /// The set cannot be started or failed before, or the error of `act`.
    pub fn with<T>(&self, key: Key, act: impl FnOnce(&mut Group) -> Result<T, String>) -> Result<T, String> {
        let lab = self.lab()?;
        let mut groups = self.groups.borrow_mut();
        let group = groups.entry(key).or_insert_with(|| {
            eprintln!("starting {key:?}");
            start(lab, key).and_then(|mut group| group.ready().map(|()| group))
        });
        let result = match group {
            Ok(group) => act(group),
            Err(error) => return Err(error.clone()),
        };
        if let Err(error) = &result {
            eprintln!("{key:?} failed: {error}");
            *group = Err(error.clone());
        }
        result
    }

    /// Ends one set of programs; the next use starts it anew.
    pub fn end(&self, key: Key) {
        self.groups.borrow_mut().remove(&key);
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // Programs before the namespaces that they live in.
        self.groups.borrow_mut().clear();
    }
}

fn start(lab: &Lab, key: Key) -> Result<Group, String> {
    match key.who {
        Who::Ours { rails } => ours::start(lab, key, rails),
        Who::Roof => roof::start(lab, key.n),
        _ => peers::start(lab, key),
    }
}
