//! Class of service kept by the agent, over a kernel in memory and a journal on disk.

use node_agent_host::counters::recorded;
use node_agent_netlink::fake::Style;
use node_agent_qos::{journal::Asker, plan, vendor};
use proto_model::QosState;

use super::*;
use crate::{Modelled, agents, modelled, observe, run};

fn nic(rail: u32) -> Nic {
    recorded::nic(rail, &format!("mlx5_{rail}"), &format!("rail{rail}"))
}

fn desired(trial: &[u32], kept: &[u32]) -> Arc<DesiredQos> {
    Arc::new(DesiredQos {
        generation: 1,
        document: "{}".into(),
        before: None,
        confirm_within: Duration::from_secs(60),
        trial: trial.iter().copied().collect(),
        kept: kept.iter().copied().collect(),
        number: 1,
    })
}

async fn becomes(keeping: &mut Keeping, device: &str, state: QosState) {
    let is = |ports: &Vec<QosPort>| ports.iter().any(|port| port.device == device && port.state == state);
    let found = tokio::time::timeout(Duration::from_secs(30), keeping.ports.wait_for(is)).await;
    assert!(matches!(found, Ok(Ok(_))), "{device} is never {state:?}");
}

/// Also where the NIC was away, and where the agent ended in the middle: both leave the trial alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_trial_outlives_a_nic_that_is_away_and_the_agent() {
    let room = tempfile::tempdir().unwrap();
    let modelled_nic = |rail: u32| Modelled {
        netdev: format!("rail{rail}"),
        device: format!("mlx5_{rail}"),
        pci: format!("0000:1{rail}:00.0"),
    };
    let kernel: Arc<dyn Kernel> = Arc::new(modelled(&[0, 1].map(modelled_nic), Style::Mlx5, "6.12.0"));
    let start = || {
        let (faults, _) = watch::channel(Faults::new());
        Keeping::start(room.path(), Arc::clone(&kernel), &[nic(0)], None, faults).unwrap()
    };
    let waits = || {
        let records = FileJournal::read(room.path()).unwrap();
        records.iter().any(|record| record.netdev() == "rail0" && record.waits_until().is_some())
    };
    let mut keeping = start();
    keeping.desired(desired(&[0], &[]));
    becomes(&mut keeping, "mlx5_0", QosState::Trial).await;
    keeping.nics(&[nic(1)]);
    keeping.desired(desired(&[0, 1], &[]));
    becomes(&mut keeping, "mlx5_1", QosState::Trial).await;
    drop(keeping);
    assert!(waits(), "it was away");
    let mut keeping = start();
    becomes(&mut keeping, "mlx5_0", QosState::Trial).await;
    assert!(waits(), "the next agent has not taken it back");
    keeping.desired(desired(&[], &[0]));
    becomes(&mut keeping, "mlx5_0", QosState::Kept).await;
    assert!(!waits());
}

#[test]
fn half_a_nic_serves_nobody_and_one_that_differs_is_named() {
    let map = |rows: &[(&str, &str)]| -> BTreeMap<String, String> {
        rows.iter().map(|(netdev, text)| ((*netdev).to_owned(), (*text).to_owned())).collect()
    };
    let reported = map(&[
        ("eth0", ""),
        ("eth1", "2 edit(s) are withheld"),
        ("eth2", "EIO"),
        ("eth3", "1 edit(s) are withheld"),
    ]);
    let out = map(&[("eth2", "edit 3 of 9 was begun and not completed")]);
    let faults = wrong(&reported, &BTreeSet::from(["eth3"]), &out);
    let fault = |severity, text: &str| (severity, text.to_owned());
    let expected = [
        ("eth1".to_owned(), fault(Severity::Degraded, "2 edit(s) are withheld")),
        ("eth2".to_owned(), fault(Severity::Drain, "edit 3 of 9 was begun and not completed")),
        ("eth3".to_owned(), fault(Severity::Drain, "1 edit(s) are withheld")),
    ];
    assert_eq!(faults, BTreeMap::from(expected));
}

fn one_nic() -> Arc<dyn Kernel> {
    let nic = Modelled { netdev: "rail0".into(), device: "mlx5_0".into(), pci: "0000:10:00.0".into() };
    Arc::new(modelled(&[nic], Style::Mlx5, "6.12.0"))
}

async fn fault_is(faults: &mut watch::Receiver<Faults>, wanted: Option<Severity>) {
    let is = |faults: &Faults| faults.get("rail0").map(|fault| fault.0) == wanted;
    let found = tokio::time::timeout(Duration::from_secs(30), faults.wait_for(is)).await;
    assert!(matches!(found, Ok(Ok(_))), "never {wanted:?}");
}

/// Its data class is off. While jobs run here that is told, and keeps new ones away; then it is mended.
#[tokio::test(flavor = "multi_thread")]
async fn what_harms_traffic_waits_for_jobs_and_is_done_after_them() {
    let room = tempfile::tempdir().unwrap();
    let (report, mut faults) = watch::channel(Faults::new());
    let profile = Some(QosProfile::default());
    let soon = Duration::from_millis(100);
    let keeping = Keeping::start_after(soon, room.path(), one_nic(), &[nic(0)], profile, report).unwrap();
    fault_is(&mut faults, Some(Severity::Drain)).await;
    // For longer than a poll takes.
    let remediated = faults.wait_for(Faults::is_empty);
    assert!(tokio::time::timeout(Duration::from_secs(6), remediated).await.is_err(), "a job may run");
    keeping.busy(false);
    fault_is(&mut faults, None).await;
    drop(keeping);
}

/// Who tried something at this server was killed: it is taken back when its time is over, and nobody trusts the NIC until then.
#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_has_left_is_ended_without_a_profile() {
    let room = tempfile::tempdir().unwrap();
    let kernel = one_nic();
    let device = crate::device::find(&*kernel, "rail0").unwrap();
    let seen = observe(&*kernel, &device, true, agents::find(kernel.files()));
    let found = plan(&QosProfile::default(), &seen, vendor::of(&seen), Options::default()).unwrap();
    let asked =
        run::Asked { who: Asker::Local("alice".into()), confirm_within: Some(Duration::from_secs(3)) };
    let mut journal = FileJournal::open(room.path()).unwrap();
    run::run(&*kernel, &mut journal, &seen, &found, &asked).unwrap();
    drop(journal);
    let (report, mut faults) = watch::channel(Faults::new());
    let keeping = Keeping::start(room.path(), Arc::clone(&kernel), &[nic(0)], None, report).unwrap();
    fault_is(&mut faults, Some(Severity::Drain)).await;
    drop(FileJournal::open(room.path()).expect("who wants to confirm it can"));
    fault_is(&mut faults, None).await;
    let now = observe(&*kernel, &device, true, agents::find(kernel.files()));
    assert_eq!(now.settings.pfc, seen.settings.pfc, "it is as it was");
    drop(keeping);
    let records = FileJournal::read(room.path()).unwrap();
    assert!(records.iter().all(Record::in_service), "{records:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nic_under_another_name_is_told_once() {
    let room = tempfile::tempdir().unwrap();
    let (report, _faults) = watch::channel(Faults::new());
    let mut keeping = Keeping::start(room.path(), one_nic(), &[nic(0)], None, report).unwrap();
    keeping.desired(desired(&[], &[0]));
    let one = |ports: &Vec<QosPort>| ports.len() == 1;
    tokio::time::timeout(Duration::from_secs(30), keeping.ports.wait_for(one)).await.unwrap().unwrap();
    let renamed = Nic { netdev: "eth7".into(), ..nic(0) };
    keeping.nics(&[renamed]);
    let other = |ports: &Vec<QosPort>| ports.iter().any(|port| port.message.contains("eth7"));
    let ports = tokio::time::timeout(Duration::from_secs(30), keeping.ports.wait_for(other)).await;
    let ports = ports.unwrap().unwrap().clone();
    assert_eq!(ports.len(), 1, "{ports:?}");
}

/// A record of a newer agent, or half of one: its NIC serves nobody, and the others are kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_cannot_be_read_is_one_nic_s_trouble() {
    let room = tempfile::tempdir().unwrap();
    let file = room.path().join("qos/nic-0000:10:00.0.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, r#"{"version": 9}"#).unwrap();
    let nics = [0, 1].map(|rail: u32| Modelled {
        netdev: format!("rail{rail}"),
        device: format!("mlx5_{rail}"),
        pci: format!("0000:1{rail}:00.0"),
    });
    let kernel: Arc<dyn Kernel> = Arc::new(modelled(&nics, Style::Mlx5, "6.12.0"));
    let (report, mut faults) = watch::channel(Faults::new());
    let (profile, soon) = (Some(QosProfile::default()), Duration::from_millis(100));
    let nics = [nic(0), nic(1)];
    let keeping =
        Keeping::start_after(soon, room.path(), Arc::clone(&kernel), &nics, profile, report).unwrap();
    keeping.busy(false);
    let wanted = |faults: &Faults| {
        faults.len() == 1
            && faults
                .get("rail0")
                .is_some_and(|fault| fault.0 == Severity::Drain && fault.1.contains("nic-0000"))
    };
    let found =
        matches!(tokio::time::timeout(Duration::from_secs(30), faults.wait_for(wanted)).await, Ok(Ok(_)));
    assert!(found, "one is out of use, and the other is kept");
    drop(keeping);
    // What was made whole there has a new record. An agent without a profile knows one that cannot be read, too.
    std::fs::write(&file, r#"{"version": 9}"#).unwrap();
    let (report, mut faults) = watch::channel(Faults::new());
    let keeping = Keeping::start(room.path(), kernel, &[nic(0), nic(1)], None, report).unwrap();
    fault_is(&mut faults, Some(Severity::Drain)).await;
    std::fs::remove_file(&file).unwrap();
    fault_is(&mut faults, None).await;
    drop(keeping);
}
