//! Everything that the rows share: the namespaces, and the sets of programs that live through the whole bench.

use std::{
    cell::{OnceCell, RefCell},
    collections::BTreeMap,
};

use super::{
    group::Group,
    key::{Key, Who},
    lab::Lab,
    ours, peers, roof,
};

/// What the command line chose.
pub struct Settings {
    /// Two repetitions in place of five.
    pub quick: bool,
    /// Rate of one rail in Mbit/s.
    pub rate: u32,
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
