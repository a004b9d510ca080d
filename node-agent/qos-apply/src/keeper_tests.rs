//! The keeper on a kernel in memory: convergence, foreign changes, flaps, reloads, and an end at every step.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use node_agent_netlink::{
    Channel, Errno, Family, Files, Kernel,
    dcb::{App, Change as DcbChange, Dcb, Ets, Pfc, tsa},
    ethtool::{Ethtool, Pause},
    fake::{FakeKernel, Style},
    route::Route,
};
use node_agent_qos::{Observed, Options, QosProfile, Stage, diff, journal::Asker, plan, vendor};

use super::{
    AuditLine, Journal, Keeper, MemoryJournal, Record,
    checks::{CheckTrigger, Timing},
    keeper::{Aim, Verdict},
    run::{Asked, Outlook, RunError, confirm, now, roll_back, run},
    tests::{PCI, check, server},
};

pub(super) const QUICK: Timing =
    Timing { poll: Duration::from_millis(20), settle: Duration::ZERO, retry: Duration::from_millis(1) };
pub(super) const SOON: Duration = Duration::from_secs(5);

/// A journal that outlives its keeper, and whose writes count as steps.
#[derive(Clone)]
pub(super) struct Disk {
    kernel: FakeKernel,
    pub(super) held: Arc<Mutex<MemoryJournal>>,
}

impl Disk {
    pub(super) fn new(kernel: &FakeKernel) -> Self {
        Self { kernel: kernel.clone(), held: Arc::default() }
    }

    pub(super) fn record(&self) -> Option<Record> {
        self.held.lock().unwrap().records.get(PCI).cloned()
    }

    pub(super) fn stage(&self) -> Option<Stage> {
        self.record().map(|record| record.apply.stage)
    }

    pub(super) fn in_service(&self) -> bool {
        self.record().is_none_or(|record| record.in_service())
    }

    pub(super) fn lines(&self) -> Vec<AuditLine> {
        self.held.lock().unwrap().lines.clone()
    }
}

impl Journal for Disk {
    fn load(&mut self) -> io::Result<Vec<Record>> {
        self.held.lock().unwrap().load()
    }

    fn save(&mut self, record: &Record) -> io::Result<()> {
        self.kernel.spend("journal")?;
        self.held.lock().unwrap().save(record)
    }

    fn audit(&mut self, line: &AuditLine) -> io::Result<()> {
        self.kernel.spend("audit")?;
        self.held.lock().unwrap().audit(line)
    }
}

pub(super) fn keeper(kernel: &FakeKernel, disk: &Disk, timing: Timing) -> Keeper {
    let profile = QosProfile::default();
    let kernel = Arc::new(kernel.clone());
    Keeper::new(kernel, Box::new(disk.clone()), profile, Options::default(), "alice", timing).unwrap()
}

pub(super) fn deviations(seen: &Observed) -> usize {
    diff(&QosProfile::default(), seen, vendor::of(seen)).deviations.len()
}

/// Turns until a look at everything finds nothing.
pub(super) fn settle(keeper: &mut Keeper) -> Vec<String> {
    let mut reported = Vec::new();
    for _ in 0..200 {
        let outcomes = keeper.turn(SOON, true).unwrap();
        let clean = outcomes.iter().any(|outcome| {
            matches!(outcome.verdict, Verdict::Clean)
                && matches!(outcome.cause, CheckTrigger::Poll | CheckTrigger::Lost)
        });
        reported.extend(outcomes.iter().map(|outcome| format!("{:?}", outcome.verdict)));
        if clean {
            return reported;
        }
    }
    panic!("does not settle: {reported:?}");
}

#[test]
fn a_fresh_nic_becomes_what_the_profile_says() {
    let kernel = server(Style::Mlx5, "6.12.0");
    let disk = Disk::new(&kernel);
    assert!(deviations(&check(&kernel)) > 0);
    let mut keeper = keeper(&kernel, &disk, QUICK);
    let first = keeper.turn(SOON, true).unwrap();
    assert!(matches!(&first[0].verdict, Verdict::Mended(plan) if plan.edits.len() > 5), "{first:?}");
    settle(&mut keeper);
    let seen = check(&kernel);
    assert_eq!(deviations(&seen), 0);
    assert_eq!((disk.stage(), keeper.out_of_service().len()), (Some(Stage::Confirmed), 0));
    let lines = disk.lines();
    assert_eq!((lines.len(), lines[0].who.as_str(), lines[0].result.as_str()), (1, "alice", "done"));
    assert!(lines[0].changes.iter().any(|line| line.contains("pfc")), "{lines:?}");
}

#[test]
fn without_a_drain_nothing_harmful_is_done() {
    let kernel = server(Style::Mlx5, "6.12.0");
    let disk = Disk::new(&kernel);
    let mut keeper = keeper(&kernel, &disk, QUICK);
    let outcome = keeper.turn(SOON, false).unwrap().remove(0);
    let Verdict::Withheld(plan) = outcome.verdict else { panic!("{outcome:?}") };
    assert!(plan.edits.is_empty() && plan.withheld.iter().any(|held| held.reason.contains("drain")));
    let changes = kernel.change(|world| world.devices["eth0"].link.carrier_changes);
    assert_eq!(changes, Some(1), "no flap");
    assert_eq!(keeper.out_of_service().len(), 0);
}

#[test]
fn a_running_agent_is_not_fought() {
    let kernel = server(Style::Mlx5, "6.12.0");
    kernel.change(|world| world.files.put("proc/77/comm", "lldpad\n"));
    let disk = Disk::new(&kernel);
    let mut keeper = keeper(&kernel, &disk, QUICK);
    let outcome = keeper.turn(SOON, true).unwrap().remove(0);
    assert!(matches!(&outcome.verdict, Verdict::Refused(why) if why.to_string().contains("lldpad (pid 77)")));
    assert_eq!(kernel.done(), [""; 0]);
}

#[test]
fn an_edit_that_fails_takes_all_back() {
    let kernel = server(Style::Mlx5, "6.12.0");
    let before = check(&kernel);
    let disk = Disk::new(&kernel);
    let mut keeper = keeper(&kernel, &disk, QUICK);
    kernel.change(|world| world.devices.get_mut("eth0").unwrap().failures.insert("mtu", vec![Errno::BUSY]));
    let outcome = keeper.turn(SOON, true).unwrap().remove(0);
    let Verdict::Failed(RunError::TakenBack { why, .. }) = &outcome.verdict else { panic!("{outcome:?}") };
    assert!(why.contains("EBUSY"), "{why}");
    assert_eq!(check(&kernel), before);
    assert!(matches!(disk.stage(), Some(Stage::RolledBack { .. })), "{:?}", disk.stage());
    assert!(disk.lines()[0].result.contains("everything was taken back"));
    // The next look mends it.
    settle(&mut keeper);
    assert_eq!(deviations(&check(&kernel)), 0);
}

#[test]
fn the_last_apply_can_be_taken_back() {
    let kernel = server(Style::Mlx5, "6.12.0");
    let before = check(&kernel);
    let mut disk = Disk::new(&kernel);
    settle(&mut keeper(&kernel, &disk, QUICK));
    let now = check(&kernel);
    let busy = Observed { drained: false, ..now.clone() };
    let refused = roll_back(&kernel, &mut disk, &busy, "bob", false).unwrap_err();
    assert!(matches!(refused, RunError::Harmful { .. }), "{refused}");
    assert_eq!(check(&kernel), now);
    roll_back(&kernel, &mut disk, &now, "bob", false).unwrap();
    assert_eq!((check(&kernel), disk.stage()), (before, Some(Stage::Confirmed)));
    let last = disk.lines().pop().unwrap();
    assert_eq!((last.who.as_str(), last.action.as_str(), last.result.as_str()), ("bob", "rollback", "done"));
    // What was taken back was an apply itself, and can be taken back.
    roll_back(&kernel, &mut disk, &check(&kernel), "bob", false).unwrap();
    assert_eq!(deviations(&check(&kernel)), 0);
    disk.held.lock().unwrap().records.clear();
    let none = roll_back(&kernel, &mut disk, &check(&kernel), "bob", false).unwrap_err();
    assert!(matches!(none, RunError::NothingToUndo { .. }), "{none}");
}

/// An apply of the default profile that has to be confirmed within `seconds`.
pub(super) fn trial(kernel: &FakeKernel, disk: &mut Disk, seconds: u64) -> Outlook {
    let seen = check(kernel);
    let plan = plan(&QosProfile::default(), &seen, vendor::of(&seen), Options::default()).unwrap();
    let asked = Asked { who: Asker::Local("bob".into()), confirm_within: Some(Duration::from_secs(seconds)) };
    run(kernel, disk, &seen, &plan, &asked).unwrap()
}

fn settle_trial(kernel: &FakeKernel, disk: &mut Disk) -> Result<Outlook, RunError> {
    let record = disk.record().unwrap();
    confirm(kernel, disk, record, "carol")
}

#[test]
fn a_trial_is_left_alone_and_stays_if_it_is_confirmed() {
    let kernel = server(Style::Mlx5, "6.12.0");
    let mut disk = Disk::new(&kernel);
    let Outlook::Waits(until) = trial(&kernel, &mut disk, 3600) else { panic!("it does not wait") };
    assert!(until > now() && !disk.in_service());
    let mut first = keeper(&kernel, &disk, QUICK);
    let made = kernel.done().len();
    let outcome = first.turn(SOON, true).unwrap().remove(0);
    assert!(matches!(outcome.verdict, Verdict::Trial(at) if at == until), "{outcome:?}");
    assert_eq!((kernel.done().len(), disk.lines().len()), (made, 1), "nothing was done");
    drop(first);
    settle_trial(&kernel, &mut disk).unwrap();
    assert!(disk.in_service());
    let again = settle_trial(&kernel, &mut disk).unwrap_err();
    assert!(matches!(again, RunError::NothingToConfirm { .. }), "{again}");
    let reported: Vec<_> = disk.lines().into_iter().map(|line| (line.who, line.action)).collect();
    let by = |who: &str, action: &str| (who.to_owned(), action.to_owned());
    assert_eq!(reported, [by("bob", "apply"), by("carol", "confirm")]);
}

#[test]
fn a_trial_that_nobody_confirms_is_taken_back() {
    let kernel = server(Style::Mlx5, "6.12.0");
    let before = check(&kernel);
    let mut disk = Disk::new(&kernel);
    trial(&kernel, &mut disk, 0);
    assert_eq!(deviations(&check(&kernel)), 0);
    let late = settle_trial(&kernel, &mut disk).unwrap_err();
    assert!(matches!(&late, RunError::TakenBack { why, .. } if why.contains("nobody confirmed")), "{late}");
    assert_eq!(check(&kernel), before);
    // The same by the agent that comes up after the time is over; what it keeps is its own profile.
    trial(&kernel, &mut disk, 0);
    let mut keeper = keeper(&kernel, &disk, QUICK);
    settle(&mut keeper);
    let back: Vec<AuditLine> = disk.lines().into_iter().filter(|line| line.action == "resume").collect();
    assert!(matches!(&back[..], [one] if one.result.contains("nobody confirmed")), "{back:?}");
    assert!(disk.in_service() && keeper.out_of_service().is_empty());
}

/// The whole apply, ended after each of its steps in turn, those of the journal included.
#[test]
fn an_end_at_any_step_leaves_no_half_nic_in_service() {
    let (mut steps, mut halves) = (0, 0);
    loop {
        let kernel = server(Style::Mlx5, "6.12.0");
        let old = check(&kernel.foreign());
        let disk = Disk::new(&kernel);
        let mut first = keeper(&kernel, &disk, QUICK);
        kernel.die_after(steps);
        let finished = matches!(first.turn(SOON, true).as_deref(), Ok([outcome]) if matches!(outcome.verdict, Verdict::Mended(_)));
        drop(first);
        // What another sees now, and what the next agent finds.
        let now = check(&kernel.foreign());
        let whole = now == old || deviations(&now) == 0;
        let in_service = disk.in_service();
        assert!(whole || !in_service, "after {steps} steps: half, and in service");
        halves += usize::from(!whole);
        kernel.revive();
        let mut second = keeper(&kernel, &disk, QUICK);
        assert_eq!(second.out_of_service().is_empty(), in_service, "after {steps} steps");
        settle(&mut second);
        assert_eq!(deviations(&check(&kernel)), 0, "after {steps} steps");
        assert_eq!((second.out_of_service().len(), disk.in_service()), (0, true));
        if finished && halves > 0 && in_service {
            break;
        }
        steps += 1;
        assert!(steps < 500, "the apply does not end");
    }
    assert!(steps > 10 && halves > 5, "{steps} steps, {halves} of them in the middle of the edits");
}

#[test]
fn flap_rename_and_reload_are_mended() {
    let kernel = server(Style::Mlx5, "6.12.0");
    let disk = Disk::new(&kernel);
    let mut keeper = keeper(&kernel, &disk, QUICK);
    settle(&mut keeper);
    kernel.flap("eth0");
    settle(&mut keeper);
    // The driver is loaded anew, and its RDMA device comes back later.
    let rdma = kernel.change(|world| std::mem::take(&mut world.rdma));
    kernel.reload("eth0");
    let outcome = keeper.turn(SOON, true).unwrap();
    assert!(outcome.iter().all(|outcome| matches!(outcome.verdict, Verdict::Gone)), "{outcome:?}");
    kernel.change(|world| world.rdma = rdma);
    settle(&mut keeper);
    assert_eq!(deviations(&check(&kernel)), 0);
    kernel.rename("eth0", "rail0");
    kernel.change(|world| {
        world.rdma[0].ports[0].netdev = Some("rail0".into());
        world.files.link("sys/class/net/rail0/device", PCI);
    });
    Route::open(&kernel.foreign()).unwrap().set_mtu("rail0", 1500).unwrap();
    settle(&mut keeper);
    let seen = check(&kernel);
    assert_eq!((seen.device.netdev.as_str(), deviations(&seen)), ("rail0", 0));
}

/// A change by another tool, by this number.
fn foreign_change(kernel: &FakeKernel, number: u64) {
    let kernel = kernel.foreign();
    let pick = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let small = u8::try_from(pick >> 8 & 0x3f).unwrap();
    let mut dcb = Dcb::open(&kernel).unwrap();
    // A change that changes nothing, or that the driver refuses, is one too.
    let _ = match pick % 8 {
        0 => dcb.change("eth0", &DcbChange::Pfc(Pfc { enabled: small, delay: 7, ..Pfc::default() })),
        1 => dcb.change("eth0", &DcbChange::AddApp(vec![App::dscp(small, small % 8)])),
        2 => {
            let held = dcb.read("eth0").unwrap().app.unwrap();
            dcb.change("eth0", &DcbChange::DeleteApp(held.into_iter().skip(small.into()).take(3).collect()))
        }
        3 => dcb.change(
            "eth0",
            &DcbChange::Ets(Ets { tsa: [tsa::STRICT; 8], class_of: [small % 8; 8], ..Ets::default() }),
        ),
        4 => Ethtool::open(&kernel)
            .unwrap()
            .set_pause("eth0", Pause { rx: true, tx: small % 2 == 0, ..Pause::default() }),
        5 => Route::open(&kernel).unwrap().set_mtu("eth0", 1500 + u32::from(small)),
        6 => {
            let path = format!("sys/kernel/debug/mlx5/{PCI}/cc_params/np_cnp_dscp");
            kernel.write(&path, small.to_string().as_bytes()).unwrap();
            Ok(())
        }
        _ => dcb.change("eth0", &DcbChange::Dcbx(0)),
    };
}

#[test]
fn changes_by_another_tool_leave_nothing_behind() {
    let kernel = server(Style::Mlx5, "6.12.0");
    let disk = Disk::new(&kernel);
    let mut keeper = keeper(&kernel, &disk, QUICK);
    settle(&mut keeper);
    for number in 0..60 {
        foreign_change(&kernel, number);
        if number % 3 == 0 {
            foreign_change(&kernel, number + 1000);
        }
        settle(&mut keeper);
        assert_eq!(deviations(&check(&kernel)), 0, "after change {number}");
    }
}

/// The desired state of the one NIC in a controller's rollout.
pub(super) fn aim(keeper: &mut Keeper, profile: bool, trial: Option<Duration>, generation: u64) {
    let profile = profile.then(|| Arc::new(QosProfile::default()));
    keeper
        .aim([("eth0".to_owned(), Aim { profile, trial, who: Some(Asker::Rollout { generation }) })].into());
}

/// The last verdict after everything was looked at anew.
pub(super) fn verdict(keeper: &mut Keeper) -> Verdict {
    let mut last = None;
    for _ in 0..200 {
        for outcome in keeper.turn(SOON, false).unwrap() {
            let whole =
                matches!(outcome.cause, CheckTrigger::Poll | CheckTrigger::Lost | CheckTrigger::Again);
            last = Some(outcome.verdict);
            if whole && !matches!(last, Some(Verdict::Mended(_))) {
                return last.unwrap();
            }
        }
    }
    panic!("does not settle: {last:?}");
}

#[test]
fn a_trial_of_the_controller_is_kept_or_taken_back_as_it_desired() {
    const LONG: Duration = Duration::from_secs(60);
    let kernel = server(Style::Mlx5, "6.12.0");
    let disk = Disk::new(&kernel);
    let before = check(&kernel);
    let mut keeper = keeper(&kernel, &disk, QUICK);
    keeper.aim(BTreeMap::new());
    assert!(matches!(verdict(&mut keeper), Verdict::Clean));
    aim(&mut keeper, true, None, 1);
    assert!(matches!(verdict(&mut keeper), Verdict::Withheld(_)), "it is in use");
    let harmless = check(&kernel);
    aim(&mut keeper, true, Some(LONG), 1);
    assert!(matches!(verdict(&mut keeper), Verdict::Trial(_)));
    assert_eq!(deviations(&check(&kernel)), 0);
    // The controller does not keep it.
    aim(&mut keeper, false, None, 1);
    assert!(matches!(verdict(&mut keeper), Verdict::Clean));
    assert_eq!(check(&kernel), harmless);
    assert!(deviations(&harmless) > 0 && deviations(&before) >= deviations(&harmless));
    // It was taken back, so this rollout does not try it again; the next one does.
    aim(&mut keeper, true, Some(LONG), 1);
    assert!(matches!(verdict(&mut keeper), Verdict::Failed(RunError::TakenBack { .. })));
    aim(&mut keeper, true, Some(LONG), 2);
    assert!(matches!(verdict(&mut keeper), Verdict::Trial(_)));
    aim(&mut keeper, true, None, 2);
    assert!(matches!(verdict(&mut keeper), Verdict::Clean));
    assert_eq!((disk.stage(), deviations(&check(&kernel))), (Some(Stage::Confirmed), 0));
    let lines: Vec<(String, String)> = disk.lines().into_iter().map(|line| (line.who, line.action)).collect();
    let expected = [("1", "apply"), ("1", "rollback"), ("2", "apply"), ("2", "confirm")];
    assert_eq!(lines, expected.map(|(who, action)| (format!("rollout {who}"), action.to_owned())));
}

#[test]
fn a_trial_that_nobody_keeps_ends_and_is_not_tried_again() {
    let kernel = server(Style::Mlx5, "6.12.0");
    let disk = Disk::new(&kernel);
    let mut keeper = keeper(&kernel, &disk, QUICK);
    let before = check(&kernel);
    aim(&mut keeper, true, Some(Duration::from_millis(40)), 1);
    let mut verdicts = Vec::new();
    for _ in 0..200 {
        verdicts.extend(keeper.turn(SOON, false).unwrap().into_iter().map(|outcome| outcome.verdict));
        if matches!(verdicts.last(), Some(Verdict::Failed(_))) {
            break;
        }
    }
    let last = verdicts.last().unwrap();
    assert!(
        matches!(last, Verdict::Failed(RunError::TakenBack { why, .. }) if why.contains("confirmed")),
        "{last:?}"
    );
    assert_eq!(check(&kernel), before);
    assert!(matches!(verdict(&mut keeper), Verdict::Failed(_)), "and stays so");
    assert_eq!(disk.lines().iter().filter(|line| line.action == "apply").count(), 1);
}

#[test]
fn what_somebody_here_attempts_the_controller_leaves_alone() {
    let kernel = server(Style::Mlx5, "6.12.0");
    let mut disk = Disk::new(&kernel);
    let seen = check(&kernel);
    let plan = plan(
        &QosProfile::default(),
        &Observed { drained: true, ..seen },
        vendor::of(&check(&kernel)),
        Options::default(),
    )
    .unwrap();
    let asked =
        Asked { who: Asker::Local("local user 0".into()), confirm_within: Some(Duration::from_secs(60)) };
    let drained = Observed { drained: true, ..check(&kernel) };
    assert!(matches!(run(&kernel, &mut disk, &drained, &plan, &asked), Ok(Outlook::Waits(_))));
    let mut keeper = keeper(&kernel, &disk, QUICK);
    for (profile, trial) in [(false, None), (true, None), (true, Some(SOON))] {
        aim(&mut keeper, profile, trial, 1);
        assert!(matches!(verdict(&mut keeper), Verdict::Trial(_)));
    }
}

/// A kernel that counts how often its processes are gone through.
struct Crowd {
    kernel: FakeKernel,
    scans: AtomicU32,
}

impl Files for Crowd {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.kernel.read(path)
    }

    fn write(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.kernel.write(path, bytes)
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        self.scans.fetch_add(u32::from(path == "proc"), Ordering::Relaxed);
        self.kernel.list(path)
    }

    fn make(&self, path: &str) -> io::Result<()> {
        self.kernel.make(path)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.kernel.remove(path)
    }

    fn leads_to(&self, path: &str) -> Option<String> {
        self.kernel.leads_to(path)
    }
}

impl Kernel for Crowd {
    fn open(&self, family: Family, groups: &[u32]) -> io::Result<Box<dyn Channel>> {
        self.kernel.open(family, groups)
    }

    fn ethtool(&self, device: &str, data: &mut [u8]) -> io::Result<()> {
        self.kernel.ethtool(device, data)
    }

    fn files(&self) -> &dyn Files {
        self
    }
}

#[test]
fn processes_are_gone_through_only_where_something_is_to_be_done() {
    let kernel = server(Style::Mlx5, "6.12.0");
    let disk = Disk::new(&kernel);
    let crowd = Arc::new(Crowd { kernel: kernel.clone(), scans: AtomicU32::new(0) });
    let (journal, shared) = (Box::new(disk.clone()), Arc::clone(&crowd));
    let mut keeper =
        Keeper::new(shared, journal, QosProfile::default(), Options::default(), "alice", QUICK).unwrap();
    let mut verdict = || keeper.turn(SOON, true).unwrap().remove(0).verdict;
    assert!(matches!(verdict(), Verdict::Mended(_)));
    assert_eq!(crowd.scans.load(Ordering::Relaxed), 1, "not again to read back");
    for _ in 0..5 {
        assert!(matches!(verdict(), Verdict::Clean));
    }
    assert_eq!(crowd.scans.load(Ordering::Relaxed), 1);
}
