//! Right and wrong ports by the number, and the judge of verdict and plan: what tests and the bench try them with.
//!
//! A case is a function of its seed. A right port has noise that means nothing to RDMA; a wrong one is a right one with
//! one thing changed, as another tool, an old script or a new firmware would leave it.

mod mutation;
mod port;

use std::collections::BTreeSet;

use proto_random::Random;

use crate::{
    Observed, QosProfile,
    diff::diff,
    item::Item,
    model,
    plan::{Options, plan},
    vendor::{VENDORS, Vendor},
};

#[cfg(test)]
pub(crate) use mutation::{all as mutations, names as mutation_names};
pub use port::{profile, right_port};

/// A port, its profile, and what is wrong with it.
#[derive(Debug, Clone)]
pub struct Case {
    /// What was done to it, in words.
    pub name: String,
    /// The table of the port's driver.
    pub vendor: &'static Vendor,
    /// The profile that the port should have.
    pub profile: QosProfile,
    /// What is read of the port.
    pub observed: Observed,
    /// The settings that differ from the profile: exactly these must be found.
    pub wrong: BTreeSet<Item>,
}

/// What became of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Exactly what is wrong was named.
    pub named: bool,
    /// All edits of the plan leave nothing wrong, and the next plan is empty.
    pub remediated: bool,
    /// What went otherwise; empty if nothing did.
    pub trouble: String,
}

/// Numbers that are the same in every run.
#[derive(Debug, Clone)]
pub struct Dice(Random);

impl Dice {
    /// Dice that fall as this seed decides.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// The next number of the sequence, any of 64 bits.
    pub const fn roll(&mut self) -> u64 {
        self.0.word()
    }

    /// The next number, reduced to less than `end`; 0 where `end` is 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// A byte below `end`.
    pub fn byte(&mut self, end: u8) -> u8 {
        u8::try_from(self.below(u64::from(end))).unwrap_or(0)
    }

    /// True or false, each as often as the other.
    pub const fn coin(&mut self) -> bool {
        self.roll() & 1 == 1
    }

    /// One of `all`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap_or(0)]
    }

    /// A byte below `end` that is not `other`.
    pub fn byte_but(&mut self, end: u8, other: u8) -> u8 {
        loop {
            let byte = self.byte(end);
            if byte != other {
                return byte;
            }
        }
    }
}

/// A right port with noise.
#[must_use]
pub fn right(seed: u64) -> Case {
    let mut dice = Dice::new(seed);
    let vendor = dice.pick(&VENDORS);
    let profile = profile(&mut dice);
    let mut observed = right_port(&profile, vendor);
    port::noise(&mut observed, &profile, vendor, &mut dice);
    Case { name: "right, with noise".into(), vendor, profile, observed, wrong: BTreeSet::new() }
}

/// A port with one thing wrong. Seeds that follow each other take all mutations of a driver in turn.
#[must_use]
pub fn wrong(seed: u64) -> Case {
    let mut case = right(seed);
    let all = mutation::all(&case);
    let at = usize::try_from(seed).unwrap_or(0) % all.len();
    let mut dice = Dice::new(!seed);
    let (name, mutate) = all[at];
    case.name = name.to_owned();
    case.wrong = mutate(&mut case.observed, &case.profile, case.vendor, &mut dice);
    case
}

/// Tries verdict and plan on a case.
#[must_use]
pub fn judge(case: &Case) -> Outcome {
    let Case { profile, vendor, observed, wrong, .. } = case;
    let named: BTreeSet<Item> =
        diff(profile, observed, vendor).deviations.into_iter().map(|d| d.item).collect();
    let mut outcome = Outcome { named: named == *wrong, remediated: true, trouble: String::new() };
    if !outcome.named {
        outcome.trouble = format!("wrong is {wrong:?}, named was {named:?}");
    }
    if let Err(trouble) = remediate(case) {
        outcome.remediated = false;
        outcome.trouble = trouble;
    }
    outcome
}

fn remediate(case: &Case) -> Result<(), String> {
    let options = Options { force: true, take_dcbx: true };
    let of =
        |observed: &Observed| plan(&case.profile, observed, case.vendor, options).map_err(|e| e.to_string());
    let first = of(&case.observed)?;
    let mut at = case.observed.clone();
    for edit in &first.edits {
        at = model::apply(&at, &edit.change, case.vendor);
    }
    let left: Vec<String> =
        diff(&case.profile, &at, case.vendor).deviations.iter().map(|d| d.item.to_string()).collect();
    if !left.is_empty() {
        return Err(format!("left by the plan: {}", left.join(", ")));
    }
    let again = of(&at)?;
    if !again.edits.is_empty() || !again.withheld.is_empty() {
        return Err(format!("the next plan has {} edits", again.edits.len()));
    }
    Ok(())
}
