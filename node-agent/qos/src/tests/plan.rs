//! Plans: E5, and what holds for any port.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::{
    DcbAgent, Item, Observed, Reading,
    diff::diff,
    model,
    plan::{Options, Plan, plan},
    settings::DcbxMode,
    trial::{self, Case, Dice},
    vendor::AppStyle,
    wanted::trust_follows,
    words::{PrioritySet, Trust},
};

const ANY: Options = Options { force: true, take_dcbx: true };

/// As many as E5 asks for; a longer run is the bench's.
const CASES: u64 = 1000;

#[test]
fn every_mutation_is_named_and_mended() {
    let mut seen = BTreeSet::new();
    for seed in 0..CASES {
        let case = trial::wrong(seed);
        seen.insert(case.name.clone());
        let outcome = trial::judge(&case);
        assert!(
            outcome.named && outcome.remediated,
            "seed {seed} ({}, {}, {}): {}",
            case.vendor.name,
            case.profile.spec().name,
            case.name,
            outcome.trouble
        );
    }
    let all: BTreeSet<String> = trial::mutation_names().into_iter().map(str::to_owned).collect();
    assert_eq!(seen, all, "each mutation comes up");
}

#[test]
fn noise_is_no_deviation() {
    for seed in 0..CASES {
        let case = trial::right(seed);
        let outcome = trial::judge(&case);
        assert!(
            outcome.named && outcome.remediated,
            "seed {seed} ({}): {}",
            case.vendor.name,
            outcome.trouble
        );
        let plan = plan(&case.profile, &case.observed, case.vendor, ANY).unwrap();
        assert!(plan.edits.is_empty() && plan.withheld.is_empty());
    }
}

/// A port of any driver that the driver itself could have come to: several mutations, and no entry twice where the driver
/// keeps one.
pub(super) fn any(seed: u64) -> Case {
    let mut case = trial::wrong(seed);
    let more = trial::mutations(&case);
    let mut dice = Dice::new(seed ^ 0x5eed);
    for _ in 0..dice.below(6) {
        let (name, mutate) = dice.pick(&more);
        mutate(&mut case.observed, &case.profile, case.vendor, &mut dice);
        case.name = format!("{}, {name}", case.name);
    }
    case.observed.drained = true;
    case
}

/// Whether the driver itself could have come to this.
pub(super) fn reachable(case: &Case) -> bool {
    let set = &case.observed.settings;
    let table = set.app.known().cloned().unwrap_or_default();
    let dscps: Vec<u16> = table.iter().filter(|entry| entry.is_dscp()).map(|entry| entry.protocol).collect();
    let once = dscps.iter().collect::<BTreeSet<_>>().len() == dscps.len();
    let trust = !trust_follows(case.vendor)
        || set.trust.known().is_none_or(|trust| (*trust == Trust::Dscp) != dscps.is_empty());
    let lldp = set
        .firmware_lldp
        .known()
        .is_none_or(|on| set.dcbx.known().is_some_and(|mode| mode.has(DcbxMode::LLD_MANAGED) == *on));
    let fed = !case.vendor.starving_refused || set.ets.known().is_none_or(|ets| !ets.starves_a_class());
    (once || case.vendor.app == AppStyle::AddThenDelete) && trust && lldp && fed
}

fn apply_all(case: &Case, at: &Observed, plan: &Plan) -> Observed {
    plan.edits.iter().fold(at.clone(), |at, edit| model::apply(&at, &edit.change, case.vendor))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_port_is_mended_from_any_prefix(seed: u64) {
        let case = any(seed);
        let of = |at: &Observed| plan(&case.profile, at, case.vendor, ANY).unwrap();
        let first = of(&case.observed);
        let end = apply_all(&case, &case.observed, &first);
        let remediated = |at: &Observed| diff(&case.profile, at, case.vendor).deviations.is_empty();
        prop_assert!(remediated(&end), "{} {}: {:?}", case.vendor.name, case.name, diff(&case.profile, &end, case.vendor).deviations);
        prop_assert!(of(&end).edits.is_empty());
        let mut at = case.observed.clone();
        for edit in &first.edits {
            at = model::apply(&at, &edit.change, case.vendor);
            let from_here = apply_all(&case, &at, &of(&at));
            prop_assert!(remediated(&from_here));
        }
    }

    #[test]
    fn undos_in_reverse_bring_back_what_was(seed: u64) {
        let case = any(seed);
        prop_assume!(reachable(&case));
        let plan = plan(&case.profile, &case.observed, case.vendor, ANY).unwrap();
        let mut states = vec![case.observed.clone()];
        for edit in &plan.edits {
            states.push(model::apply(states.last().unwrap(), &edit.change, case.vendor));
        }
        let mut at = states.pop().unwrap();
        for (edit, before) in plan.edits.iter().zip(&states).rev() {
            at = model::apply(&at, &edit.undo, case.vendor);
            prop_assert_eq!(&at, before, "{} {}: undo of {:?}", case.vendor.name, case.name, edit.commands);
        }
    }

    #[test]
    fn a_server_that_is_not_drained_gets_nothing_that_harms(seed: u64) {
        let mut case = any(seed);
        case.observed.drained = false;
        let options = Options { force: false, take_dcbx: true };
        let held = plan(&case.profile, &case.observed, case.vendor, options).unwrap();
        prop_assert!(held.edits.iter().all(|edit| edit.blast.is_harmless()));
        let all = plan(&case.profile, &case.observed, case.vendor, ANY).unwrap();
        prop_assert_eq!(held.edits.len() + held.withheld.len(), all.edits.len() + all.withheld.len());
    }
}

#[test]
fn a_running_agent_is_not_fought() {
    let mut case = trial::wrong(4);
    let lldpad = DcbAgent { name: "lldpad".into(), pid: Some(812) };
    case.vendor = crate::vendor::named("mlx5").unwrap();
    case.observed = trial::right_port(&case.profile, case.vendor);
    case.observed.agents = Reading::Known(vec![lldpad.clone()]);
    let of = |case: &Case, take_dcbx| {
        plan(&case.profile, &case.observed, case.vendor, Options { force: true, take_dcbx })
    };
    // Nothing to set: nothing to fight about, but it is told.
    let quiet = of(&case, false).unwrap();
    assert!(quiet.edits.is_empty());
    assert!(
        quiet.findings.iter().any(|finding| finding.matters && finding.text.contains("lldpad (pid 812)"))
    );
    case.observed.settings.pfc.known_mut().unwrap().enabled = PrioritySet::EMPTY;
    let refusal = of(&case, false).unwrap_err();
    assert!(refusal.to_string().contains("lldpad (pid 812) sets class of service"), "{refusal}");
    let taken = of(&case, true).unwrap();
    assert_eq!((taken.stop_agents, taken.edits.len()), (vec![lldpad], 1));
    // What no agent sets is not its business.
    case.observed = trial::right_port(&case.profile, case.vendor);
    case.observed.agents = Reading::Known(vec![DcbAgent { name: "lldpad".into(), pid: None }]);
    case.observed.settings.mtu = Reading::Known(1500);
    assert_eq!(of(&case, false).unwrap().edits.len(), 1);
}

#[test]
fn firmware_that_keeps_dcbx_is_told_and_nothing_is_half_done() {
    let vendor = crate::vendor::named("bnxt_re").unwrap();
    let profile = crate::QosProfile::default();
    let mut observed = trial::right_port(&profile, vendor);
    observed.settings.dcbx = Reading::Known(DcbxMode(DcbxMode::LLD_MANAGED | DcbxMode::VER_IEEE));
    observed.settings.pfc.known_mut().unwrap().enabled = PrioritySet(0x18);
    observed.settings.default_tos = Reading::Known(104);
    let plan = plan(&profile, &observed, vendor, ANY).unwrap();
    assert!(plan.edits.is_empty(), "{:?}", plan.edits);
    assert_eq!(plan.withheld.len(), 2);
    assert!(plan.withheld.iter().all(|held| held.reason.contains("niccli")), "{:?}", plan.withheld);
}

#[test]
fn what_cannot_be_read_or_set_is_told() {
    let vendor = crate::vendor::named("mlx5").unwrap();
    let profile = crate::QosProfile::default();
    let mut observed = trial::right_port(&profile, vendor);
    observed.settings.pfc = Reading::Unreadable("EIO".into());
    observed.settings.app = Reading::Unsupported;
    observed.settings.ets = Reading::Unreadable("EPERM".into());
    let plan = plan(&profile, &observed, vendor, ANY).unwrap();
    assert!(plan.edits.is_empty() && plan.deviations.is_empty());
    let reported: Vec<Option<Item>> = plan.findings.iter().filter(|f| f.matters).map(|f| f.item).collect();
    for item in [Item::Pfc, Item::Dscp(profile.spec().data_dscp), Item::Tsa(0)] {
        assert!(reported.contains(&Some(item)), "{item} is not in {reported:?}");
    }
}
