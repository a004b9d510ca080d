//! Probes of rails that are out of use: this server's part in them, each on a thread of its own, and what they show.

use std::{
    collections::BTreeSet,
    sync::{Arc, mpsc::SyncSender},
    thread,
    time::{Duration, Instant, SystemTime},
};

use node_agent_probe::{Config, Limits, PairReport, Peer, Prober, Rail, Report, RoundPart, device_of};
use node_agent_qos::DataClass;
use node_agent_qos_apply::data_class::DataClasses;
use proto_model::{Nic, NicProbe, ProbeOutcome, RailProof, Timestamp, proof::MAX_PROBE_TEXT};

use super::health::Note;

/// Probes at once: as many as a server has rails, with some to spare.
const AT_ONCE: usize = 16;
/// None takes longer, whatever is asked for.
const LONGEST: Duration = Duration::from_secs(10);
/// Of this many small packets one may be lost: a busy server answers some of them late.
const LOSS: u32 = 250;
/// More than before a job, for there is time: some 8 MB each way, and less than the 8 s that the controller gives, even where most is lost.
const LIMITS: Limits = Limits {
    warm: Duration::from_millis(1200),
    turn: Duration::from_secs(5),
    answer: Duration::from_millis(100),
    burst: Duration::from_millis(120),
    probes: 512,
    burst_bytes: 288 << 10,
    bursts: 8,
    bursts_max: 8,
};

/// The ends of a rail.
const FIRST: u16 = 0;
const OTHER: u16 = 1;

/// What this server has taken part in.
#[derive(Debug, Default)]
pub struct Provers {
    /// Of the last message: what it names once more is not begun again.
    begun: BTreeSet<u64>,
    /// One count for each that is under way, and one.
    running: Arc<()>,
}

impl Provers {
    /// Begins what was not begun yet, as jobs would send on each rail. What becomes of probes that this server begins goes to `health`.
    pub fn take(
        &mut self,
        proofs: Vec<RailProof>,
        nics: &[Nic],
        data_classes: &DataClasses,
        health: Option<&SyncSender<Note>>,
    ) {
        let before = std::mem::replace(&mut self.begun, proofs.iter().map(|proof| proof.id).collect());
        for proof in proofs.into_iter().filter(|proof| !before.contains(&proof.id)) {
            let health = health.filter(|_| proof.first).cloned();
            let netdev = nics.iter().find(|nic| nic.device == proof.device).map(|nic| nic.netdev.clone());
            let (running, data_class) = (Arc::clone(&self.running), data_classes.of(proof.rail));
            // This count, its own, and those of threads.
            if Arc::strong_count(&running) > AT_ONCE + 1 {
                tracing::warn!(rail = proof.rail, "too many probes at once; one is not made");
                continue;
            }
            let run = move || {
                make(&proof, netdev.as_deref(), data_class, health.as_ref());
                drop(running);
            };
            if let Err(error) = thread::Builder::new().name("prove".into()).spawn(run) {
                tracing::warn!(%error, "no thread for a probe");
            }
        }
    }
}

/// Makes one probe, and reports its outcome.
fn make(proof: &RailProof, netdev: Option<&str>, data_class: DataClass, health: Option<&SyncSender<Note>>) {
    let note = |note| health.is_none_or(|health| health.send(note).is_ok());
    // Only the end of the agent ends that thread.
    if !note(Note::Probing(proof.device.clone())) {
        return;
    }
    let (outcome, message) = match probe(proof, netdev, data_class) {
        Ok(report) => judge(&report, data_class),
        Err(why) => (ProbeOutcome::Unable, why),
    };
    let message: String = message.chars().filter(|c| matches!(c, ' '..='~')).take(MAX_PROBE_TEXT).collect();
    tracing::info!(rail = proof.rail, peer = %proof.peer, first = proof.first, %outcome, "a probe of a rail is over: {message}");
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
    let probe = NicProbe { id: proof.id, peer: proof.peer.clone(), outcome, message, time };
    note(Note::Probed(proof.device.clone(), probe));
}

/// This server's part; who answers reports nothing.
fn probe(proof: &RailProof, netdev: Option<&str>, data_class: DataClass) -> Result<Report, String> {
    let netdev = netdev.ok_or_else(|| format!("there is no NIC '{}' any more", proof.device))?;
    let end = Instant::now() + proof.limit.min(LONGEST);
    let rail = u16::try_from(proof.rail).map_err(|_| format!("there is no rail {}", proof.rail))?;
    let (node, other) = if proof.first { (FIRST, OTHER) } else { (OTHER, FIRST) };
    // As RDMA has it: what comes in on another device is not for this rail.
    let device = device_of(proof.own.ip()).filter(|device| device == netdev);
    let config = Config {
        node,
        key: *proof.key.expose(),
        job_uid: format!("{:016x}", proof.id),
        attempt: 0,
        traffic_class: data_class.traffic_class,
        rails: vec![Rail { rail, address: proof.own, device }],
        limits: LIMITS,
    };
    let mut prober = Prober::bind(config).map_err(|error| error.to_string())?;
    let peers = [Peer { node: other, rails: vec![proof.there] }];
    Ok(prober.run(0, &peers, &[RoundPart { round: 0, peer: other, first: proof.first }], end))
}

/// What a probe shows: the whole way is as jobs need it, both ways, or what of it is not.
fn judge(report: &Report, data_class: DataClass) -> (ProbeOutcome, String) {
    let [pair] = &report.pairs[..] else {
        return (ProbeOutcome::Unable, "the other server did not take part".to_owned());
    };
    let mtu = report.ports.first().and_then(|port| port.mtu);
    match fault(pair, mtu, data_class.dscp().get()) {
        Some(fault) => (ProbeOutcome::Failed, fault),
        None => {
            let PairReport { there, back, rtt_us, .. } = pair;
            let rtt = rtt_us.map(|rtt| format!(", {rtt} us there and back")).unwrap_or_default();
            let (sent, lost) = (there.sent, there.lost + back.lost);
            let bytes = there.mtu.unwrap_or_default();
            (ProbeOutcome::Passed, format!("{sent} packets each way, {lost} lost, {bytes} bytes pass{rtt}"))
        }
    }
}

/// What came back has the other server's DSCP, which is to be the same: a job would mix data classes else.
fn fault(pair: &PairReport, mtu: Option<u32>, own: u8) -> Option<String> {
    if pair.there.mtu.is_none() || pair.back.mtu.is_none() {
        return Some("the other server does not answer on this rail".to_owned());
    }
    let ways = [("to it", pair.there), ("from it", pair.back)];
    let each = |(way, seen): (&str, node_agent_probe::PathMeasurement)| {
        if seen.lost.saturating_mul(LOSS) > seen.sent {
            return Some(format!("{} of {} packets {way} were lost", seen.lost, seen.sent));
        }
        if let (Some(own), Some(passed)) =
            (mtu, seen.mtu.filter(|passed| mtu.is_some_and(|own| *passed < own)))
        {
            return Some(format!("packets {way} pass up to {passed} bytes, the port's MTU is {own}"));
        }
        let dscp = seen.dscp.filter(|dscp| *dscp != own)?;
        Some(format!("packets {way} arrive with DSCP {dscp} in place of {own}"))
    };
    ways.into_iter().find_map(each)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

    use node_agent_probe::{PathMeasurement, PortReport};
    use proto_model::{JobKey, NodeName};

    use super::*;

    fn pair(there: PathMeasurement, back: PathMeasurement) -> Report {
        let pair =
            PairReport { round: 0, peer: OTHER, rail: 3, there, back, rtt_us: Some(35), crossed: None };
        Report { pairs: vec![pair], ports: vec![PortReport { rail: 3, mtu: Some(4200) }] }
    }

    #[test]
    fn a_way_passes_whole_and_in_both_directions_or_not() {
        let well = PathMeasurement {
            sent: 512,
            lost: 0,
            mtu: Some(4200),
            dscp: Some(26),
            mbps: Some(2000),
            at_least: false,
        };
        let judged = |there, back| judge(&pair(there, back), DataClass::default());
        let passed = "512 packets each way, 0 lost, 4200 bytes pass, 35 us there and back";
        assert_eq!(judged(well, well), (ProbeOutcome::Passed, passed.to_owned()));
        let unseen = PathMeasurement { dscp: None, mbps: None, ..well };
        assert_eq!(
            judged(unseen, PathMeasurement { lost: 2, ..unseen }).0,
            ProbeOutcome::Passed,
            "what was not seen is no fault"
        );
        let silent = PathMeasurement { sent: 1, lost: 1, ..PathMeasurement::default() };
        for (way, word) in [
            (PathMeasurement { lost: 3, ..well }, "3 of 512 packets"),
            (PathMeasurement { mtu: Some(1500), ..well }, "up to 1500 bytes, the port's MTU is 4200"),
            (PathMeasurement { dscp: Some(0), ..well }, "DSCP 0 in place of 26"),
            (silent, "does not answer"),
        ] {
            for (there, back, direction) in [(way, well, "to it"), (well, way, "from it")] {
                let (outcome, message) = judged(there, back);
                assert_eq!(outcome, ProbeOutcome::Failed, "{way:?}");
                let reported = message.contains(word) && (way == silent || message.contains(direction));
                assert!(reported, "{message}");
            }
        }
        assert_eq!(judge(&Report::default(), DataClass::default()).0, ProbeOutcome::Unable);
        let data_class = DataClass { traffic_class: 98, ..DataClass::default() };
        assert_eq!(judge(&pair(well, well), data_class).0, ProbeOutcome::Failed, "sent with 24");
        let other = PathMeasurement { dscp: Some(24), ..well };
        assert_eq!(judge(&pair(other, other), data_class).0, ProbeOutcome::Passed);
    }

    fn free_port() -> SocketAddr {
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
    }

    fn proof(id: u64, first: bool, own: SocketAddr, there: SocketAddr) -> RailProof {
        RailProof {
            id,
            rail: 3,
            device: "lo".into(),
            peer: NodeName::new(if first { "n2" } else { "n1" }).unwrap(),
            own,
            there,
            first,
            key: JobKey::new([id as u8; 32]),
            limit: Duration::from_secs(8),
        }
    }

    fn loopback() -> Vec<Nic> {
        let mut nic = node_agent_host::counters::recorded::nic(3, "lo", "lo");
        nic.device = "lo".into();
        vec![nic]
    }

    /// Both ends on this machine's loopback, whose MTU is the longest packet that there is.
    #[test]
    fn two_servers_prove_the_way_between_them_once() {
        let (a, b) = (free_port(), free_port());
        let (health, notes) = std::sync::mpsc::sync_channel(8);
        let (mut one, mut other) = (Provers::default(), Provers::default());
        one.take(vec![proof(7, true, a, b)], &loopback(), &DataClasses::default(), Some(&health));
        other.take(vec![proof(7, false, b, a)], &loopback(), &DataClasses::default(), Some(&health));
        // Told once more, for another reason.
        one.take(vec![proof(7, true, a, b)], &loopback(), &DataClasses::default(), Some(&health));
        drop(health);
        let notes: Vec<Note> = notes.iter().collect();
        let [Note::Probing(began), Note::Probed(device, probe)] = &notes[..] else { panic!("{notes:?}") };
        assert_eq!((began.as_str(), device.as_str(), probe.id, probe.peer.as_str()), ("lo", "lo", 7, "n2"));
        assert_eq!(probe.outcome, ProbeOutcome::Passed, "{}", probe.message);
    }

    #[test]
    fn who_does_not_answer_or_is_not_there_is_told_as_such() {
        let (health, notes) = std::sync::mpsc::sync_channel(8);
        let (a, b) = (free_port(), free_port());
        let mut short = proof(1, true, a, b);
        short.limit = Duration::from_secs(4);
        let gone = RailProof { device: "lo9".into(), ..proof(2, true, free_port(), b) };
        let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let no_port = proof(3, true, taken.local_addr().unwrap(), b);
        Provers::default().take(
            vec![short, gone, no_port],
            &loopback(),
            &DataClasses::default(),
            Some(&health),
        );
        drop(health);
        let mut reported = std::collections::BTreeMap::new();
        for note in notes {
            if let Note::Probed(_, probe) = note {
                reported.insert(probe.id, (probe.outcome, probe.message));
            }
        }
        let expected = [
            (1, ProbeOutcome::Failed, "does not answer"),
            (2, ProbeOutcome::Unable, "no NIC 'lo9'"),
            (3, ProbeOutcome::Unable, "cannot probe from 127.0.0.1"),
        ];
        for (id, outcome, word) in expected {
            assert!(reported[&id].0 == outcome && reported[&id].1.contains(word), "{reported:?}");
        }
    }
}
