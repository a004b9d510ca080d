//! The decision: what keeps an upgrade from being begun, and the steps of it.

use std::collections::BTreeSet;

use super::{
    model::{Backup, Facts, Plan, Refusal, Target, What, Why},
    notes::notes,
    steps::{ended_over_rows, known, named, steps},
    version::Version,
};

/// The steps of an upgrade, or why it is not to be begun.
#[must_use]
pub fn plan(facts: &Facts, target: &Target) -> Plan {
    let to = target.version;
    let other = target_refused(target);
    if !other.is_empty() {
        // What it would do is for the other one to say.
        return Plan { to, refusals: other, notes: Vec::new(), steps: Vec::new() };
    }
    let refusals = [
        controllers_refused(facts, to),
        agents_refused(facts, to),
        cluster_refused(facts),
        backup_refused(facts, target),
    ];
    let steps = steps(facts, to);
    let mut refusals: Vec<Refusal> = refusals.into_iter().flatten().collect();
    if !steps.iter().any(|step| step.what == What::Backup) {
        // Nothing that is left to be done changes what is stored.
        refusals.retain(|refusal| refusal.why != Why::NoBackup);
    }
    let notes = notes(facts, to, refusals.is_empty() && steps.is_empty());
    Plan { to, refusals, notes, steps }
}

fn refused(why: Why, message: String) -> Refusal {
    Refusal { why, message }
}

fn target_refused(target: &Target) -> Vec<Refusal> {
    let Target { version, railctl, .. } = target;
    if version == railctl {
        return Vec::new();
    }
    let message = format!("railctl {railctl} knows the way to its own release: ask railctl {version}");
    vec![refused(Why::OtherRailctl, message)]
}

fn controllers_refused(facts: &Facts, to: Version) -> Vec<Refusal> {
    let mut all = Vec::new();
    // One that has ended over what a newer one has stored is started with the newer program: see the notes.
    let may_have_ended = ended_over_rows(facts, to);
    for one in &facts.controllers {
        if let (Err(why), false) = (&one.version, may_have_ended) {
            let message = format!(
                "the controller at {} does not say of which release it is ({why}): mend it, or leave its address out if it is gone",
                one.at
            );
            all.push(refused(Why::ControllerAway, message));
        }
    }
    let versions = known(&facts.controllers);
    if let Some(newer) = versions.last().filter(|version| **version > to && !version.same_release(to)) {
        let message = format!(
            "a controller of {newer} runs already, and {to} is older: where {newer} stores rows of another version (`rail-controller store verify` tells it), older programs end once it has led; restore the backup of before with them"
        );
        all.push(refused(Why::NoWayBack, message));
    }
    for version in versions.iter().filter(|version| !version.fits(to)) {
        let message = format!(
            "a controller of {version} and one of {to} do not work together: go from release to release, {version} to the one after it first"
        );
        all.push(refused(Why::TooFar, message));
    }
    let mut others: Vec<_> = versions.iter().filter(|version| !version.same_release(to)).collect();
    others.dedup_by(|one, other| one.same_release(**other));
    if let [first, second, ..] = others[..] {
        let message = format!(
            "controllers are of {first} and of {second}: end the upgrade that was begun before, with the railctl of {second}"
        );
        all.push(refused(Why::Mixed, message));
    }
    all
}

fn agents_refused(facts: &Facts, to: Version) -> Vec<Refusal> {
    let agents = facts.agents.iter().filter_map(|agent| Some((&agent.node, agent.version?)));
    let switches = facts.switches.iter().filter_map(|switch| Some((&switch.name, switch.version?)));
    let controllers = known(&facts.controllers);
    let mut refusals = kind_refused("agents of servers", &agents.collect::<Vec<_>>(), &controllers, to);
    refusals.extend(kind_refused("agents of switches", &switches.collect::<Vec<_>>(), &controllers, to));
    refusals
}

fn kind_refused(
    kind: &str,
    all: &[(&String, Version)],
    controllers: &BTreeSet<Version>,
    to: Version,
) -> Vec<Refusal> {
    let of = |is: &dyn Fn(Version) -> bool| -> Vec<String> {
        let found = all.iter().filter(|(_, version)| is(*version));
        found.map(|(name, version)| format!("{name} ({version})")).collect()
    };
    let mut refusals = Vec::new();
    let far = of(&|version| !version.fits(to));
    if !far.is_empty() {
        let message = format!("{kind} do not work with a controller of {to}: upgrade {} first", named(&far));
        refusals.push(refused(Why::TooFar, message));
    }
    // They are not part of this upgrade: neither of the release to go to, nor of that of a controller.
    let begun = controllers.iter().any(|one| !one.same_release(to));
    let third = of(&|version| {
        let known = version.same_release(to) || controllers.iter().any(|one| one.same_release(version));
        begun && version.fits(to) && !known
    });
    if !third.is_empty() {
        let message = format!(
            "{kind} are of a release that no controller is of: end the upgrade that was begun before with {}",
            named(&third)
        );
        refusals.push(refused(Why::Mixed, message));
    }
    refusals
}

fn cluster_refused(facts: &Facts) -> Vec<Refusal> {
    let mut all = Vec::new();
    if let Some(cause) = &facts.unwritable {
        let message = format!(
            "the store takes no writes ({cause}): an etcd without quorum or room is mended first, no controller could take the lead on it"
        );
        all.push(refused(Why::StoreUnwritable, message));
    }
    for rollout in &facts.rollouts {
        let message = format!(
            "a rollout to {rollout} has begun and not ended: let it end, pause or cancel it, so that what goes wrong has one cause"
        );
        all.push(refused(Why::RolloutUnderWay, message));
    }
    all
}

fn backup_refused(facts: &Facts, target: &Target) -> Vec<Refusal> {
    let message = match &facts.backup {
        Backup::Waived => return Vec::new(),
        Backup::Newest { revision, .. } if *revision > facts.revision => format!(
            "the newest backup is of revision {revision}, and the store is at {}: it is not of this store as it is now; make one (`rail-controller store backup`), it is the only way back",
            facts.revision
        ),
        Backup::Newest { at, .. } if facts.now - at <= target.backup_within => return Vec::new(),
        Backup::Newest { at, revision } => {
            let minutes = (facts.now - at) / 60;
            let behind = facts.revision.saturating_sub(*revision);
            format!(
                "the newest backup is {minutes} minutes old, {behind} revisions behind: make one now (`rail-controller store backup`), it is the only way back"
            )
        }
        Backup::OfOthers => "where --backup says there are backups of other clusters only: make one of this one now (`rail-controller store backup`), it is the only way back".to_owned(),
        Backup::Absent => "there is no backup where --backup says: make one now (`rail-controller store backup`), it is the only way back".to_owned(),
        Backup::Unknown => "no backup is known: say where they are by --backup, or --without-backup".to_owned(),
    };
    vec![refused(Why::NoBackup, message)]
}
