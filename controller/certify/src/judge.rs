//! What measurements show, and what is to be done.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use proto_model::{PathMeasurement, PortGid, PortReport, Reason, ReasonCode, many};

use crate::{
    blame::{Ballot, blame},
    crossing::{Crossing, crossing},
    finding::{Certificate, Finding, Kind, Remap, Subject, Verdict},
    limits::Limits,
    plan::{Gang, Plan},
    robust::{NORMAL, level, scatter},
    sums::{NodeReport, Sum, Sums, number},
};

/// Pairs named in one reason.
const NAMED: usize = 3;

/// Judges a gang by what its nodes have reported; who has not reported is silent.
#[must_use]
pub fn judge(gang: &Gang, plan: &Plan, reports: &[NodeReport], limits: &Limits) -> Certificate {
    check(gang, plan, &Sums::of(gang, plan, reports), limits)
}

/// Judges two series of the same pairs, after a first one that was doubtful ([`Certificate::is_doubtful`]). Of what was measured
/// twice, what is better counts: a rail that is slow or lossy is so both times, one that loses packets both times is judged by the
/// packets of both. What was measured once counts as it is.
#[must_use]
pub fn judge_again(
    gang: &Gang,
    plan: &Plan,
    reports: &[NodeReport],
    limits: &Limits,
    first: &Certificate,
) -> Certificate {
    let sums = |series| Sums::of(gang, &plan.clone().series(series), reports);
    let mut certificate = check(gang, plan, &sums(0).again(sums(1), limits.loss_packets), limits);
    let found = &certificate.findings;
    let passed =
        |finding: &&Finding| finding.kind.may_pass() && !found.iter().any(|other| other.is_like(finding));
    certificate.unconfirmed = first.findings.iter().filter(passed).cloned().collect();
    certificate
}

fn check(gang: &Gang, plan: &Plan, sums: &Sums, limits: &Limits) -> Certificate {
    let summaries: Vec<_> = gang.rails.iter().map(|rail| sums.summary(*rail)).collect();
    let mut table = Table::default();
    silent(gang, sums, plan, &mut table);
    let crossed = crossing(gang, sums);
    miswired(gang, &crossed, &mut table);
    let wrong: BTreeSet<u32> = table.nodes_of(Kind::Miswired);
    let bounds = bounds(sums, gang, limits);
    for rail in &gang.rails {
        ballots(gang, sums, *rail, limits, &bounds, &wrong, &mut table);
    }
    ports(gang, sums, limits, &mut table);
    swapped(gang, &crossed, &mut table);
    let remaps: Vec<Remap> =
        crossed.remaps.into_iter().filter(|remap| !wrong.contains(&remap.node)).collect();
    let findings = table.findings(gang);
    Certificate {
        verdict: verdict(&findings, remaps),
        findings,
        unconfirmed: Vec::new(),
        unobserved: unobserved(gang, plan, sums, limits),
        rails: summaries,
        planned: sums.planned,
        measured: sums.measured,
    }
}

fn verdict(findings: &[Finding], remaps: Vec<Remap>) -> Verdict {
    let named = findings.iter().filter(|finding| finding.kind != Kind::Swapped);
    let nodes: BTreeSet<u32> = named
        .filter_map(|finding| match finding.place {
            Subject::Node(node) => Some(node),
            _ => None,
        })
        .collect();
    if !nodes.is_empty() {
        Verdict::Replace(nodes.into_iter().collect())
    } else if !remaps.is_empty() {
        Verdict::Remap(remaps)
    } else if findings.is_empty() {
        Verdict::Certified
    } else {
        Verdict::Warn
    }
}

/// What was found so far: rails and evidence by kind and place.
#[derive(Debug, Default)]
struct Table {
    rows: BTreeMap<(Kind, Subject), (BTreeSet<u32>, Vec<String>)>,
}

impl Table {
    fn add(&mut self, kind: Kind, place: Subject, rail: Option<u32>, evidence: String) {
        let (rails, words) = self.rows.entry((kind, place)).or_default();
        rails.extend(rail);
        words.extend(Some(evidence).filter(|evidence| !evidence.is_empty()));
    }

    fn nodes_of(&self, wanted: Kind) -> BTreeSet<u32> {
        let node = |(kind, place): &(Kind, Subject)| match place {
            Subject::Node(node) if *kind == wanted => Some(*node),
            _ => None,
        };
        self.rows.keys().filter_map(node).collect()
    }

    fn findings(self, gang: &Gang) -> Vec<Finding> {
        let finding = |((kind, place), (rails, words)): ((Kind, Subject), (BTreeSet<u32>, Vec<String>))| {
            let rails: Vec<u32> = rails.into_iter().collect();
            let shown: Vec<String> = rails.iter().map(u32::to_string).collect();
            let (rail, of) = match shown.len() {
                0 => (String::new(), String::new()),
                1 => (format!("rail {}", shown.join("")), " on ".to_owned()),
                _ => (format!("rails {}", shown.join(", ")), " on ".to_owned()),
            };
            let who = match place {
                Subject::Node(node) => format!("{}{of}{rail}", gang.name(node)),
                Subject::Leaf(_) => format!("the leaf of {} on {rail}", leaf_nodes(gang, &place, &rails)),
                Subject::Rail => format!("{rail} of most nodes"),
                Subject::Either(a, b) => {
                    format!("{} or {}{of}{rail}, nothing shows which", gang.name(a), gang.name(b))
                }
            };
            let message = format!("{who}: packets or ports {}: {}", kind.words(), words.join("; "));
            let reason = Reason::new(kind.code(), message).count(rails.len());
            Finding { kind, place, rails, reason }
        };
        self.rows.into_iter().map(finding).collect()
    }
}

fn leaf_nodes(gang: &Gang, place: &Subject, rails: &[u32]) -> String {
    let on = |node: &u32| {
        rails.iter().any(|rail| gang.leaf(*node, *rail).is_some_and(|leaf| *place == Subject::Leaf(leaf)))
    };
    let nodes: Vec<u32> = (0..gang.nodes).filter(on).collect();
    let shown: Vec<String> = nodes.iter().take(NAMED).map(|node| gang.name(*node)).collect();
    format!("{}{}", shown.join(", "), if nodes.len() > NAMED { ", ..." } else { "" })
}

fn silent(gang: &Gang, sums: &Sums, plan: &Plan, table: &mut Table) {
    if plan.rounds.is_empty() {
        return;
    }
    for node in sums.silent.iter().filter(|node| **node < gang.nodes) {
        table.add(Kind::Silent, Subject::Node(*node), None, "it has not said what it measured".to_owned());
    }
    let begins = plan.rounds.iter().flatten().map(|pair| pair.first);
    // One that others have measured was there, and too busy for what it was to begin.
    let pairs = sums.rails.values().flatten().filter(|(_, pair)| pair.lives());
    let met: BTreeSet<u32> = pairs.flat_map(|((a, b), _)| [*a, *b]).collect();
    let met = |node: &u32| met.contains(node) && !sums.unable.contains(node);
    let reported = |node: &u32| sums.heard.contains(node) || sums.silent.contains(node) || met(node);
    let idle: BTreeSet<u32> = begins.filter(|node| !reported(node)).collect();
    for node in idle {
        table.add(Kind::Silent, Subject::Node(node), None, "it has measured nothing".to_owned());
    }
}

fn miswired(gang: &Gang, crossed: &Crossing, table: &mut Table) {
    let ballot = Ballot { pairs: crossed.pairs.clone() };
    if ballot.pairs.iter().any(|(.., bad)| *bad) {
        let evidence = |bad: u32, all: u32| {
            format!("in {bad} of {} a rail answered to another, and not one to one", many(all, "pair"))
        };
        spread(gang, Kind::Miswired, None, ballot, evidence, table);
    }
}

fn swapped(gang: &Gang, crossed: &Crossing, table: &mut Table) {
    for (node, other) in &crossed.doubtful {
        let place = Subject::Either(*node.min(other), *node.max(other));
        let words = "some pairs say that rails are swapped, and others that they are not".to_owned();
        table.add(Kind::Swapped, place, None, words);
    }
    for remap in &crossed.remaps {
        let words: Vec<String> =
            remap.rails.iter().map(|(own, on)| format!("rail {own} is on rail {on}")).collect();
        let place = match crossed.undecided {
            true if gang.nodes == 2 => Subject::Either(0, 1),
            _ => Subject::Node(remap.node),
        };
        let tie = if crossed.undecided { "; as many nodes have it the other way round" } else { "" };
        table.add(Kind::Swapped, place.clone(), None, words.join(", ") + tie);
        for (own, _) in &remap.rails {
            table.add(Kind::Swapped, place.clone(), Some(*own), String::new());
        }
    }
}

/// Whether a pair is bad; `None` where that was not observed.
type IsBad<'a> = dyn Fn(&(u32, u32), &Sum) -> Option<bool> + 'a;

/// All ballots of one rail.
fn ballots(
    gang: &Gang,
    sums: &Sums,
    rail: u32,
    limits: &Limits,
    bounds: &Bounds,
    wrong: &BTreeSet<u32>,
    table: &mut Table,
) {
    let Some(pairs) = sums.rails.get(&rail) else { return };
    let pairs: Vec<(&(u32, u32), &Sum)> = pairs
        .iter()
        .filter(|((a, b), pair)| pair.crossed.is_empty() && !wrong.contains(a) && !wrong.contains(b))
        .collect();
    let mut vote = |kind: Kind, bad: &IsBad<'_>, what: &str| {
        let vote = |(ends, pair): &(&(u32, u32), &Sum)| Some((ends.0, ends.1, bad(ends, pair)?));
        let ballot = Ballot { pairs: pairs.iter().filter_map(vote).collect() };
        let evidence = |bad: u32, all: u32| format!("{bad} of {} {what}", many(all, "pair"));
        spread(gang, kind, Some(rail), ballot, evidence, table);
    };
    vote(Kind::Dead, &|_, pair| Some(!pair.answered), "get no answer");
    let either = |pair: &Sum, ways: [Option<bool>; 2]| {
        let known = pair.answered && ways.iter().any(Option::is_some);
        known.then(|| ways.contains(&Some(true)))
    };
    let both = |pair: &Sum, test: &dyn Fn(&PathMeasurement) -> Option<bool>| {
        either(pair, [test(&pair.up), test(&pair.down)])
    };
    let expected = expected_mtu(sums, rail);
    let small = |ends: &(u32, u32), pair: &Sum| {
        let port = |node: u32| sums.ports.get(&(node, rail)).and_then(|port| port.mtu);
        let expected = port(ends.0).zip(port(ends.1)).map(|(a, b)| a.min(b)).or(expected)?;
        both(pair, &|way| way.mtu.map(|mtu| mtu < expected))
    };
    vote(Kind::Mtu, &small, "do not pass the largest packet that both ports allow");
    let lossy = |_: &(u32, u32), pair: &Sum| {
        let (sent, lost) = pair.packets();
        let share = f64::from(lost) >= f64::from(sent) * limits.loss_share;
        pair.answered.then_some(lost >= limits.loss_packets && share)
    };
    vote(Kind::Lossy, &lossy, "lose packets");
    let dscp = |ends: &(u32, u32), pair: &Sum| {
        let asked = limits.dscp?;
        let other = |sender: u32, way: &PathMeasurement| {
            let sent = sums.ports.get(&(sender, rail)).and_then(|port| port.dscp).unwrap_or(asked);
            way.dscp.map(|dscp| dscp != sent)
        };
        either(pair, [other(ends.0, &pair.up), other(ends.1, &pair.down)])
    };
    vote(Kind::Dscp, &dscp, "arrive with another DSCP than was sent");
    let bound = bounds.of(rail);
    let what = format!("are below {} Mbit/s, the rail's bound", bound.unwrap_or_default());
    let slow = |way: &PathMeasurement| {
        let below = way.mbps? < bound?;
        (!below || !way.at_least).then_some(below)
    };
    vote(Kind::Slow, &|_, pair| both(pair, &slow), &what);
    if let Some((own, best)) = bounds.slow_rails.get(&rail) {
        let place = if gang.nodes == 2 { Subject::Either(0, 1) } else { Subject::Rail };
        let evidence = format!("its good ways carry {own} Mbit/s, those of the best rail {best}");
        table.add(Kind::Slow, place, Some(rail), evidence);
    }
}

/// Enters whom a ballot names: the rail, leaves, or nodes.
fn spread(
    gang: &Gang,
    kind: Kind,
    rail: Option<u32>,
    ballot: Ballot,
    evidence: impl Fn(u32, u32) -> String,
    table: &mut Table,
) {
    let (bad, all) = (ballot.bad(), ballot.pairs.len());
    if bad == 0 {
        return;
    }
    let overall = evidence(number(bad), number(all));
    if bad == all {
        let place = match ballot.pairs.first() {
            Some((a, b, _)) if all == 1 => Subject::Either(*a, *b),
            _ => Subject::Rail,
        };
        return table.add(kind, place, rail, overall);
    }
    let (leaves, ballot) = match rail {
        Some(rail) => whole_leaves(gang, rail, ballot),
        None => (Vec::new(), ballot),
    };
    for (leaf, pairs) in leaves {
        table.add(kind, Subject::Leaf(leaf), rail, evidence(pairs, pairs));
    }
    let blamed = blame(&ballot);
    if blamed.nodes.len() * 2 > ballot.nodes() {
        return table.add(kind, Subject::Rail, rail, overall);
    }
    for (node, (bad, all)) in &blamed.nodes {
        let words = evidence(*bad, *all);
        let on = rail.map_or_else(String::new, |rail| format!("rail {rail}: "));
        table.add(kind, Subject::Node(*node), rail, format!("{on}{words}"));
    }
    // One slow or lossy pair among good ones is noise; one that does not work at all is not.
    if !matches!(kind, Kind::Slow | Kind::Lossy) {
        for (a, b) in &blamed.open {
            table.add(kind, Subject::Either(*a, *b), rail, "the others of both are good".to_owned());
        }
    }
}

/// Leaves that serve several nodes of the gang, all pairs of which are bad: each with these pairs; and the ballot of the rest.
fn whole_leaves(gang: &Gang, rail: u32, mut ballot: Ballot) -> (Vec<(u32, u32)>, Ballot) {
    let mut found = Vec::new();
    while ballot.bad() > 0 {
        let mut leaves: BTreeMap<u32, (u32, u32, BTreeSet<u32>)> = BTreeMap::new();
        for (a, b, bad) in &ballot.pairs {
            let of = [gang.leaf(*a, rail), gang.leaf(*b, rail)];
            for (leaf, node) in of.into_iter().zip([a, b]).filter_map(|(leaf, node)| Some((leaf?, node))) {
                let (wrong, all, nodes) = leaves.entry(leaf).or_default();
                (*wrong, *all) = (*wrong + u32::from(*bad), *all + 1);
                nodes.insert(*node);
            }
        }
        let whole = leaves.iter().filter(|(_, (bad, all, nodes))| bad == all && nodes.len() > 1);
        let Some((leaf, (_, pairs, _))) =
            whole.max_by_key(|(leaf, (bad, ..))| (*bad, std::cmp::Reverse(**leaf)))
        else {
            break;
        };
        found.push((*leaf, *pairs));
        let on = |node: u32| gang.leaf(node, rail) == Some(*leaf);
        ballot.pairs.retain(|(a, b, _)| !on(*a) && !on(*b));
    }
    (found, ballot)
}

/// From where on a way is slow.
#[derive(Debug, Default)]
struct Bounds {
    rails: BTreeMap<u32, u32>,
    /// Rail -> its level, and that of the best rail.
    slow_rails: BTreeMap<u32, (u32, u32)>,
}

impl Bounds {
    fn of(&self, rail: u32) -> Option<u32> {
        self.rails.get(&rail).copied()
    }
}

fn bounds(sums: &Sums, gang: &Gang, limits: &Limits) -> Bounds {
    let ways = |rail: u32, speed: fn(PathMeasurement) -> Option<u32>| -> Vec<u32> {
        let pairs = sums.rails.get(&rail).into_iter().flat_map(BTreeMap::values);
        pairs.flat_map(|pair| [pair.up, pair.down]).filter_map(speed).collect()
    };
    let known = gang.rails.iter().filter_map(|rail| {
        let mut speeds = ways(*rail, |way| way.mbps);
        level(&mut speeds).map(|level| (*rail, level, speeds))
    });
    let known: Vec<(u32, u32, Vec<u32>)> = known.collect();
    let scatter = scatter(known.iter().map(|(_, level, speeds)| (&speeds[..], *level)));
    let mut bounds = Bounds {
        rails: known.iter().map(|(rail, level, _)| (*rail, below(*level, scatter, limits))).collect(),
        ..Bounds::default()
    };
    if let Some((_, best, _)) = known.iter().max_by_key(|(_, level, _)| *level) {
        let bound = below(*best, scatter, limits);
        // A rail that may be faster than what was seen of it is not slow.
        let may = |way: PathMeasurement| if way.at_least { Some(u32::MAX) } else { way.mbps };
        let slow =
            known.iter().filter(|(rail, ..)| level(&mut ways(*rail, may)).is_some_and(|top| top < bound));
        bounds.slow_rails = slow.map(|(rail, level, _)| (*rail, (*level, *best))).collect();
    }
    bounds
}

fn below(level: u32, scatter: f64, limits: &Limits) -> u32 {
    let share = limits.slow_share.min(1.0 - scatter * NORMAL * limits.deviations);
    // From a float that is neither negative nor above a u32.
    (f64::from(level) * share).max(0.0) as u32
}

/// What the ports of a rail allow: most of them, of two the larger.
fn expected_mtu(sums: &Sums, rail: u32) -> Option<u32> {
    let ports = sums.ports.iter().filter(|((_, of), _)| *of == rail);
    let mut mtus: Vec<u32> = ports.filter_map(|(_, port)| port.mtu).collect();
    mtus.sort_unstable();
    mtus.get(mtus.len() / 2).copied()
}

/// What nodes say of their own ports, which needs no ballot.
fn ports(gang: &Gang, sums: &Sums, limits: &Limits, table: &mut Table) {
    for rail in &gang.rails {
        let expected = expected_mtu(sums, *rail);
        for ((node, _), port) in sums.ports.iter().filter(|((_, of), _)| of == rail) {
            let place = Subject::Node(*node);
            if let (Some(mtu), Some(expected)) = (port.mtu, expected)
                && mtu < expected
            {
                let words = format!("rail {rail}: the port's MTU is {mtu}, that of the others {expected}");
                table.add(Kind::Mtu, place.clone(), Some(*rail), words);
            }
            gid(gang, (*node, *rail), port, table);
            let Some(priority_bytes) = port.priority_bytes else { continue };
            // What else the NIC carries meanwhile, for storage for example, is nobody's fault.
            let own = sums.probe_bytes(*node, *rail);
            let lacks = own.saturating_sub(priority_bytes.right);
            if (priority_bytes.right as f64) < own as f64 * limits.priority_share
                && priority_bytes.wrong >= lacks
            {
                let words = format!(
                    "rail {rail}: of the probes' {own} bytes at least {lacks} are not counted in the job's priority, in others {} are",
                    priority_bytes.wrong
                );
                table.add(Kind::WrongPriority, place, Some(*rail), words);
            }
        }
    }
}

/// The GID that the node uses, against the address that the others are given.
fn gid(gang: &Gang, (node, rail): (u32, u32), port: &PortReport, table: &mut Table) {
    let (kind, words) = match (port.gid, gang.address(node, rail)) {
        (Some(PortGid::Missing), _) => (Kind::Gid, format!("rail {rail}: there is none")),
        (Some(PortGid::Found { index, gid }), Some(reported)) => {
            let wanted = match reported {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            if gid == wanted {
                return;
            }
            let words = format!("rail {rail}: it has {gid} at index {index}, the others are told {wanted}");
            (Kind::OtherGid, words)
        }
        _ => return,
    };
    table.add(kind, Subject::Node(node), Some(rail), words);
}

/// What is not certified, because nobody could see it.
fn unobserved(gang: &Gang, plan: &Plan, sums: &Sums, limits: &Limits) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if plan.rounds.is_empty() {
        return vec![Reason::new(
            ReasonCode::NothingToMeasure,
            "the gang has one node or no rail: no pair can be measured",
        )];
    }
    let seen = gang.nodes as usize - sums.silent.len();
    let mut say = |code: ReasonCode, what: &str, nodes: usize| {
        if nodes > 0 {
            let message = format!("{what} on {} of {}", nodes, many(gang.nodes, "node"));
            reasons.push(Reason::new(code, message).count(nodes));
        }
    };
    let lacks = |missing: &dyn Fn(&PortReport) -> bool| {
        let whole = |node: &u32| {
            let own = |rail: &u32| sums.ports.get(&(*node, *rail)).is_none_or(missing);
            !sums.silent.contains(node) && gang.rails.iter().any(own)
        };
        (0..gang.nodes).filter(whole).count().min(seen)
    };
    say(
        ReasonCode::GidNotObserved,
        "the GID was not looked at, because a rail has no RDMA or was not asked,",
        lacks(&|port| port.gid.is_none()),
    );
    let still = |port: &PortReport| {
        port.priority_bytes
            .is_none_or(|priority_bytes| priority_bytes.right == 0 && priority_bytes.wrong == 0)
    };
    say(ReasonCode::PriorityNotObserved, "no counters of priorities were seen to move", lacks(&still));
    say(ReasonCode::PortMtuNotObserved, "the MTU of a port was not read", lacks(&|port| port.mtu.is_none()));
    let pairs = || sums.rails.values().flat_map(BTreeMap::values).filter(|pair| pair.answered);
    let blind = |test: &dyn Fn(&PathMeasurement) -> bool| {
        pairs().filter(|pair| test(&pair.up) || test(&pair.down)).count()
    };
    let mut say = |code: ReasonCode, what: &str, count: usize| {
        if count > 0 {
            reasons
                .push(Reason::new(code, format!("{what} of {}", many(count, "pair and rail"))).count(count));
        }
    };
    if limits.dscp.is_some() {
        say(
            ReasonCode::DscpNotObserved,
            "the DSCP as received was not seen by an end",
            blind(&|way| way.dscp.is_none()),
        );
    }
    say(ReasonCode::MtuNotObserved, "no large packet was tried on a way", blind(&|way| way.mtu.is_none()));
    say(
        ReasonCode::BandwidthNotObserved,
        "the bandwidth of a way was not measured",
        blind(&|way| way.mbps.is_none()),
    );
    say(
        ReasonCode::BandwidthHeldUp,
        "a server was too busy to show the bandwidth of a way",
        blind(&|way| way.at_least),
    );
    let missing = sums.planned.saturating_sub(sums.measured);
    say(ReasonCode::NotMeasured, "nothing was told", missing as usize);
    if gang.nodes == 2 && gang.rails.len() == 1 {
        let message = "of two nodes with one rail there is nothing to compare the bandwidth with";
        reasons.push(Reason::new(ReasonCode::BandwidthNotCompared, message));
    }
    reasons
}
