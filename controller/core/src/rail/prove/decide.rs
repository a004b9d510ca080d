//! Which rails that are out of use are probed now, and with whom.
//!
//! What ends most conditions of a NIC is traffic (`node-agent/health`, `Condition::proof`), and a rail that no job may use has none. Once
//! its agent says that it was quiet for long enough, the server and a well one on the same rail measure the way between them, and what
//! they find counts as proof or not. Another partner each time, so that none of them can keep a rail from coming back.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use controller_state::{
    rows::proving::{Pair, PortName, Proving, Trial},
    view::rail::proving::{LIMIT, PortLocation, Ports, Sick},
};
use proto_model::{JobKey, NodeName, Timestamp};

/// Probes that are under way at once: each takes two servers' NICs for some seconds.
pub(super) const AT_ONCE: usize = 32;
/// A rail that was probed is probed again after the first, doubled each time up to the second: a rail that stays bad must not keep others
/// busy.
const AGAIN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(600));

/// What follows: all of it as it is from now on, and when to look again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Decision {
    pub(super) proving: Proving,
    pub(super) check: Option<Timestamp>,
}

/// Decides anew. Of ports that are due those that wait longest come first. `random` makes names and keys of what begins.
pub(super) fn decide(
    ports: &Ports<'_>,
    before: &Proving,
    now: Timestamp,
    random: &mut dyn FnMut(&mut [u8]),
) -> Decision {
    let fresh = Trial { attempts: 0, next: now };
    let trial = |name: &PortName| before.trials.get(name).copied().unwrap_or(fresh);
    let trials = ports.sick.keys().map(|name| (name.clone(), trial(name)));
    let mut proving = Proving { trials: trials.collect(), pairs: BTreeMap::new() };
    for (name, pair) in &before.pairs {
        // One whose partner is gone may find out that the way is not; it has so long and no longer.
        let over = |sick: &Sick| sick.reported == Some(pair.id) || pair.until <= now;
        if ports.sick.get(name).is_some_and(|sick| !over(sick)) {
            proving.pairs.insert(name.clone(), pair.clone());
        }
    }
    begin(ports, &mut proving, now, random);
    // Whoever is due now has found nobody: others may be free then.
    let due = |trial: &Trial| if trial.next > now { trial.next } else { now.plus(LIMIT) };
    let check = ports.sick.iter().filter_map(|(name, sick)| match proving.pairs.get(name) {
        Some(pair) => Some(pair.until),
        None => proving.trials.get(name).filter(|_| sick.wants).map(due),
    });
    Decision { check: check.min(), proving }
}

/// Begins what is due, as far as partners and limits allow.
fn begin(ports: &Ports<'_>, proving: &mut Proving, now: Timestamp, random: &mut dyn FnMut(&mut [u8])) {
    let ends = |(name, pair): (&PortName, &Pair)| [name.clone(), (pair.partner.clone(), name.1)];
    let mut busy: BTreeSet<PortName> = proving.pairs.iter().flat_map(ends).collect();
    let waits = |name: &&PortName| !proving.pairs.contains_key(*name);
    let wanting = ports.sick.iter().filter(|(_, sick)| sick.wants).map(|(name, _)| name).filter(waits);
    let mut due: Vec<(Timestamp, PortName)> = wanting
        .filter_map(|name| Some((proving.trials.get(name)?.next, name.clone())))
        .filter(|(next, _)| *next <= now)
        .collect();
    due.sort();
    for (_, name) in due {
        if proving.pairs.len() >= AT_ONCE {
            break;
        }
        let Some(trial) = proving.trials.get_mut(&name).filter(|_| !busy.contains(&name)) else { continue };
        let Some(partner) = partner(ports, &busy, &name, trial.attempts) else { continue };
        let pause = AGAIN.0.saturating_mul(1 << trial.attempts.min(8)).min(AGAIN.1);
        trial.attempts = trial.attempts.saturating_add(1);
        trial.next = now.plus(LIMIT + pause);
        let (mut id, mut key) = ([0; 8], [0; 32]);
        random(&mut id);
        random(&mut key);
        busy.extend([name.clone(), (partner.clone(), name.1)]);
        let (id, key) = (u64::from_le_bytes(id), JobKey::new(key));
        proving.pairs.insert(name, Pair { id, key, partner, until: now.plus(LIMIT) });
    }
}

/// Another well port of the same rail each time: first those of the same leaf, then all others. One that is busy is passed over. Where
/// nobody is well, another that waits for its proof: what passes between two of them proves one, and then there is one.
fn partner(ports: &Ports<'_>, busy: &BTreeSet<PortName>, name: &PortName, attempts: u32) -> Option<NodeName> {
    let own = ports.sick.get(name)?.place;
    let free = |(node, place): &(&NodeName, PortLocation)| {
        **node != name.0 && place.v6 == own.v6 && !busy.contains(&((*node).clone(), name.1))
    };
    let far = |place: PortLocation| own.leaf.is_none() || place.leaf != own.leaf;
    let choose = |mut all: Vec<(bool, &NodeName)>| {
        all.sort();
        let at = usize::try_from(attempts).unwrap_or(0).checked_rem(all.len())?;
        all.get(at).map(|(_, node)| (*node).clone())
    };
    let well = ports.well.get(&name.1).into_iter().flatten().copied();
    let well = choose(well.filter(free).map(|(node, place)| (far(place), node)).collect());
    let sick = || {
        let waiting = ports.sick.iter().filter(|((_, rail), sick)| *rail == name.1 && sick.wants);
        let waiting = waiting.map(|((node, _), sick)| (node, sick.place)).filter(free);
        choose(waiting.map(|(node, place)| (far(place), node)).collect())
    };
    well.or_else(sick)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn name(n: usize) -> NodeName {
        NodeName::new(format!("n{n}")).unwrap()
    }

    fn place(leaf: usize) -> PortLocation {
        PortLocation { leaf: Some(leaf), v6: false }
    }

    fn sick(leaf: usize) -> Sick {
        Sick { place: place(leaf), wants: true, reported: None }
    }

    fn at(ports: &Ports<'_>, before: &Proving, now: Timestamp) -> Decision {
        let mut seed = now.0;
        decide(ports, before, now, &mut |buffer| crate::tests::fill(&mut seed, buffer))
    }

    /// Rail 0 of server 0 is sick, the others are well: 1 on its leaf, 2 and 3 on another one.
    fn four(names: &[NodeName]) -> Ports<'_> {
        let well = names.iter().enumerate().skip(1).map(|(n, name)| (name, place(n / 2))).collect();
        Ports { sick: [((names[0].clone(), 0), sick(0))].into(), well: [(0, well)].into() }
    }

    #[test]
    fn partners_take_turns_and_pauses_grow() {
        let names: Vec<NodeName> = (0..4).map(name).collect();
        let ports = four(&names);
        let (mut proving, mut now, mut seen) = (Proving::default(), NOW, Vec::new());
        while seen.len() < 9 {
            let decision = at(&ports, &proving, now);
            for pair in decision.proving.pairs.values().filter(|pair| pair.until == now.plus(LIMIT)) {
                seen.push((pair.partner.to_string(), now.since(NOW).as_secs()));
            }
            proving = decision.proving;
            let check = decision.check.unwrap();
            assert!(check > now, "it is looked at without end");
            now = check;
        }
        let who: Vec<&str> = seen.iter().map(|(who, _)| who.as_str()).collect();
        assert_eq!(who, ["n1", "n2", "n3", "n1", "n2", "n3", "n1", "n2", "n3"]);
        let pauses: Vec<u64> = seen.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
        assert_eq!(pauses, [13, 18, 28, 48, 88, 168, 328, 608]);
    }

    #[test]
    fn nothing_is_probed_before_its_agent_wants_it_or_after_its_result() {
        let names: Vec<NodeName> = (0..4).map(name).collect();
        let mut ports = four(&names);
        let port = (names[0].clone(), 0);
        ports.sick.get_mut(&port).unwrap().wants = false;
        let idle = at(&ports, &Proving::default(), NOW);
        assert_eq!((idle.proving.pairs.len(), idle.check), (0, None), "its agent will tell");
        ports.sick.get_mut(&port).unwrap().wants = true;
        let begun = at(&ports, &idle.proving, NOW);
        let pair = begun.proving.pairs[&port].clone();
        assert_eq!(begun.check, Some(NOW.plus(LIMIT)));
        // Another's result is not its own.
        ports.sick.get_mut(&port).unwrap().reported = Some(pair.id ^ 1);
        let same = at(&ports, &begun.proving, NOW.plus(Duration::from_secs(1)));
        assert_eq!(same.proving, begun.proving);
        // Its own is the end, and the next one waits its pause.
        ports.sick.get_mut(&port).unwrap().reported = Some(pair.id);
        let over = at(&ports, &same.proving, NOW.plus(Duration::from_secs(2)));
        assert_eq!((over.proving.pairs.len(), over.proving.trials[&port].attempts), (0, 1));
        assert_eq!(over.check, Some(NOW.plus(LIMIT + AGAIN.0)));
        // A rail that is back is forgotten, with its pauses.
        let none = Ports { sick: BTreeMap::new(), ..ports };
        assert_eq!(at(&none, &over.proving, NOW), Decision::default());
    }

    #[test]
    fn where_nobody_is_well_two_that_wait_prove_each_other() {
        let port = |n: usize| (name(n), 3);
        let mut ports = Ports { sick: (0..3).map(|n| (port(n), sick(0))).collect(), well: BTreeMap::new() };
        let decision = at(&ports, &Proving::default(), NOW);
        let pairs: Vec<_> = decision.proving.pairs.iter().map(|(who, pair)| (who, &pair.partner)).collect();
        assert_eq!(pairs, [(&port(0), &name(1))], "one is probed by one at a time");
        ports.sick.remove(&port(1));
        ports.sick.remove(&port(2));
        let alone = at(&ports, &Proving::default(), NOW);
        assert_eq!((alone.proving.pairs.len(), alone.check), (0, Some(NOW.plus(LIMIT))));
    }

    #[test]
    fn one_family_of_addresses_does_not_reach_the_other() {
        let names: Vec<NodeName> = (0..4).map(name).collect();
        let mut ports = four(&names);
        ports.sick.values_mut().for_each(|sick| sick.place.v6 = true);
        assert_eq!(at(&ports, &Proving::default(), NOW).proving.pairs.len(), 0);
        ports.well.get_mut(&0).unwrap()[2].1.v6 = true;
        let decision = at(&ports, &Proving::default(), NOW);
        assert_eq!(decision.proving.pairs.values().next().unwrap().partner, names[3]);
    }

    proptest! {
        /// Whatever is sick, wants and is told, over many looks: no port is in two probes, nobody is its own partner, partners are well or
        /// waiting, few are under way at once, none lasts longer than it may, and whoever waits is looked at.
        #[test]
        fn probes_are_few_apart_and_bounded(
            sick in prop::collection::vec(prop::collection::vec((any::<bool>(), any::<bool>()), 60), 1..12),
            rails in 1_u32..3,
        ) {
            let names: Vec<NodeName> = (0..60).map(name).collect();
            let (mut proving, mut now) = (Proving::default(), NOW);
            for step in &sick {
                let mut ports = Ports::default();
                for (n, (is_sick, wants)) in step.iter().enumerate() {
                    let rail = n as u32 % rails;
                    let port = (names[n].clone(), rail);
                    if *is_sick {
                        let reported = proving.pairs.get(&port).map(|pair| pair.id).filter(|id| id % 2 == 0);
                        ports.sick.insert(port, Sick { place: place(n / 8), wants: *wants, reported });
                    } else {
                        ports.well.entry(rail).or_default().push((&names[n], place(n / 8)));
                    }
                }
                let decision = at(&ports, &proving, now);
                prop_assert_eq!(&decision, &at(&ports, &proving, now));
                let mut busy = BTreeSet::new();
                for (port, pair) in &decision.proving.pairs {
                    prop_assert!(ports.sick.contains_key(port) && pair.until > now && pair.until <= now.plus(LIMIT));
                    prop_assert!(busy.insert(port.clone()) && busy.insert((pair.partner.clone(), port.1)));
                    let fresh = !proving.pairs.contains_key(port);
                    let other = ports.sick.get(&(pair.partner.clone(), port.1));
                    prop_assert!(!fresh || other.is_none_or(|other| other.wants));
                }
                prop_assert!(decision.proving.pairs.len() <= AT_ONCE);
                prop_assert!(decision.proving.trials.keys().eq(ports.sick.keys()));
                let waits = ports.sick.values().any(|sick| sick.wants);
                prop_assert!(decision.check.is_some_and(|check| check > now) || !waits && decision.proving.pairs.is_empty());
                proving = decision.proving;
                now = now.plus(Duration::from_secs(3));
            }
        }
    }
}
