//! Right and wrong ports by the number, and the judge of verdict and plan: what tests and the bench try them with.
//!
//! A case is a function of its seed. A right port has noise that means nothing to RDMA; a wrong one is a right one with
//! one thing changed, as another tool, an old script or a new firmware would leave it.

mod case;
mod dice;
mod mutation;
mod port;

use std::collections::BTreeSet;

use crate::{
    Observed,
    diff::diff,
    item::Item,
    model,
    plan::{Options, plan},
    vendor::VENDORS,
};

pub use case::Case;
pub use dice::Dice;
#[cfg(test)]
pub(crate) use mutation::{all as mutations, names as mutation_names};
pub use port::{profile, right_port};

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
