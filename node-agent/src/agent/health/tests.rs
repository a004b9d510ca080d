//! The thread's work on recorded NICs: what it tells, and what its metrics say.

use super::*;
use node_agent_health::Source;
use node_agent_host::counters::recorded::{nic, record};

/// One recorded NIC, and what is told of it.
struct Rig {
    root: tempfile::TempDir,
    nic: Nic,
    watching: Watching,
    keeper: watch::Sender<Faults>,
    flaps: watch::Sender<Flaps>,
    reported: watch::Receiver<Vec<NicHealth>>,
    notifications: watch::Receiver<Counted>,
    registry: proto_rpc::Metrics,
}

impl Rig {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let nic = nic(0, "mlx5_0", "ens0");
        record(root.path(), &nic, 7).unwrap();
        let (keeper, faults) = watch::channel(Faults::new());
        let (report_flaps, flaps) = watch::channel(Flaps::new());
        let kept = Places { now: root.path().join("health.pb"), old: root.path().join("health.json") };
        let place = CounterPaths { root: root.path().to_owned(), kept, faults, flaps };
        let registry = proto_rpc::Metrics::new("test", "0", std::time::SystemTime::UNIX_EPOCH);
        let (notify, reported) = watch::channel(Vec::new());
        let (notified, notifications) = watch::channel((Instant::now(), Vec::new()));
        let mut watching = Watching::new(place, AgentMetrics::new(&registry), notify, notified);
        watching.poller.watch(std::slice::from_ref(&nic));
        Self { root, nic, watching, keeper, flaps: report_flaps, reported, notifications, registry }
    }
}

#[test]
fn a_nic_whose_class_of_service_is_half_made_is_unfit_until_it_is_whole() {
    let Rig { root: _root, mut watching, keeper, reported, registry, .. } = Rig::new();
    let mut turn = |second: u64| {
        watching.check(Timestamp(second * 1000));
        reported.borrow().clone()
    };
    assert_eq!(turn(1), []);
    let fault = (Severity::Drain, "edit 3 of 9 was begun and not completed".to_owned());
    keeper.send_replace(Faults::from([("ens0".to_owned(), fault)]));
    let sick = turn(2);
    assert_eq!((sick[0].device.as_str(), sick[0].score), ("mlx5_0", 0));
    let reported = || registry.encode(proto_rpc::exposition::Exposition::Text);
    let says = |line: &str| reported().lines().any(|one| one == line);
    let labels = "device=\"mlx5_0\",rail=\"0\"";
    assert!(says(&format!("rail_nic_unfit{{{labels}}} 1")), "{}", reported());
    assert!(says(&format!("rail_nic_score{{{labels}}} 0")));
    assert!(says(&format!("rail_nic_condition{{{labels},condition=\"ClassOfService\"}} 3")));
    let condition = &sick[0].conditions[0];
    assert_eq!((&condition.code, condition.severity), (&CLASS_OF_SERVICE, Severity::Drain));
    assert_eq!((condition.since, turn(3).len()), (Timestamp(2000), 1));
    // Another reason, the same trouble.
    let fault = (Severity::Degraded, "2 edit(s) are withheld".to_owned());
    keeper.send_replace(Faults::from([("ens0".to_owned(), fault)]));
    let sick = turn(4);
    assert_eq!((sick[0].score, sick[0].conditions[0].since), (100, Timestamp(2000)));
    assert!(says(&format!("rail_nic_unfit{{{labels}}} 0")));
    assert!(says(&format!("rail_nic_condition{{{labels},condition=\"ClassOfService\"}} 2")));
    keeper.send_replace(Faults::new());
    assert_eq!(turn(5), []);
}

#[test]
fn a_probe_is_asked_for_when_it_helps_and_counters_have_the_last_word() {
    let Rig { root, nic, mut watching, reported, keeper: _keeper, .. } = Rig::new();
    let count = |source, name, value: u32| {
        let file = node_agent_host::counters::recorded::place(&nic, source, name);
        std::fs::write(root.path().join(file), format!("{value}\n")).unwrap();
    };
    let mut now = 1000;
    let mut check = |watching: &mut Watching| {
        now += 1;
        watching.check(Timestamp(now * 1000));
        reported.borrow().clone()
    };
    check(&mut watching);
    count(Source::Port, "local_link_integrity_errors", 8);
    let sick = check(&mut watching);
    assert_eq!((sick[0].conditions[0].code.as_str(), sick[0].wants_probe()), ("Corrupt", false));
    assert!(sick[0].conditions[0].message.ends_with("30 s and a probe that passes"), "{sick:?}");
    assert!((0..29).all(|_| !check(&mut watching)[0].wants_probe()));
    assert!(check(&mut watching)[0].wants_probe());
    let probe = |id, outcome| NicProbe {
        id,
        peer: proto_model::NodeName::new("n2").unwrap(),
        outcome,
        message: "512 packets each way".to_owned(),
        time: Timestamp(5),
    };
    let device = || "mlx5_0".to_owned();
    let result = |nics: &[NicHealth]| nics[0].probe.clone().map(|probe| (probe.id, probe.outcome));
    // One that failed is told at once.
    watching.probing(&device());
    watching.probed(&device(), probe(1, ProbeOutcome::Failed));
    assert_eq!(result(&reported.borrow()), Some((1, ProbeOutcome::Failed)));
    // One that passed when counters were read, twice; what rose meanwhile outweighs it.
    watching.probing(&device());
    count(Source::Hardware, "local_ack_timeout_err", 8);
    watching.probed(&device(), probe(2, ProbeOutcome::Passed));
    assert_eq!(result(&check(&mut watching)), Some((1, ProbeOutcome::Failed)));
    let sick = check(&mut watching);
    assert_eq!(result(&sick), Some((2, ProbeOutcome::Failed)));
    let message = &sick[0].probe.as_ref().unwrap().message;
    assert_eq!(message, "512 packets each way, but its NIC counted timeout meanwhile");
    watching.probing(&device());
    watching.probed(&device(), probe(3, ProbeOutcome::Passed));
    check(&mut watching);
    assert_eq!(check(&mut watching), []);
    let reported = ["failed", "passed"].map(|outcome| watching.metrics.nic_probes.get(["mlx5_0", outcome]));
    assert_eq!(reported, [2, 1]);
}

#[test]
fn a_link_that_is_taken_down_here_is_no_flap() {
    let Rig { root, nic, mut watching, flaps, reported, .. } = Rig::new();
    let downs = |count: u32| {
        let file = node_agent_host::counters::recorded::place(&nic, Source::Port, "link_downed");
        std::fs::write(root.path().join(file), format!("{count}\n")).unwrap();
    };
    // Past every grace.
    let booted = watching.now().0 + 3_600_000;
    watching.check(Timestamp(booted));
    watching.check(Timestamp(booted + 60_000));
    flaps.send_replace(Flaps::from([("ens0".to_owned(), Instant::now() + Duration::from_secs(60))]));
    downs(8);
    watching.check(Timestamp(booted + 61_000));
    assert_eq!(*reported.borrow(), []);
    downs(9);
    watching.check(Timestamp(booted + 180_000));
    assert_eq!(reported.borrow()[0].conditions[0].code, NicConditionCode::Flapping);
}

#[test]
fn notifications_are_told_of_every_rail_and_unknown_until_they_were_counted_for_long_enough() {
    let Rig { root: _root, mut watching, notifications, .. } = Rig::new();
    watching.count_notifications(Timestamp(500));
    assert_eq!(notifications.borrow().1, [], "no counter was read yet");
    watching.check(Timestamp(1000));
    let port = watching.state.ports().next().unwrap().1;
    assert!(port.counts(CounterKind::CnpSent) && port.counts(CounterKind::CnpGot), "mlx5 counts both");
    watching.count_notifications(Timestamp(2000));
    let unknown = proto_wire::v1::NicNotifications { rail: 0, sent: None, received: None };
    assert_eq!(notifications.borrow().1, [unknown]);
}

#[test]
fn nics_are_told_when_the_thread_is_not_behind_any_more() {
    let (notes, received) = sync_channel(1);
    let (_report, reported) = watch::channel(Vec::new());
    let (_notified, notifications) = watch::channel((Instant::now(), Vec::new()));
    let mut watcher = Watcher { notes, due: None, reported, notifications };
    watcher.note(Note::Jobs(Vec::new()));
    watcher.nics(&[nic(0, "mlx5_0", "ens0")]);
    watcher.repeat();
    assert!(matches!(received.try_recv(), Ok(Note::Jobs(_))));
    watcher.repeat();
    let Ok(Note::Nics(nics)) = received.try_recv() else { panic!("it was dropped") };
    assert_eq!(nics[0].device, "mlx5_0");
    watcher.repeat();
    assert!(received.try_recv().is_err(), "once");
}
