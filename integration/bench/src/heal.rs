//! Row E4: the real keeper on the kernel in memory: how long after a flap, a driver's reload or a foreign change a NIC is as its profile says
//! again, what 1,000 changes by another tool leave, and what an end at every step of an apply leaves in service.
//!
//! No job uses the NICs here. On a server with jobs, what harms traffic (flow control, trust, MTU, all of it after a driver's reload on mlx5)
//! waits until none runs, and ten seconds more so that the controller starts none meanwhile.
//!
//! The kernel in memory answers the same bytes as Linux, through the same codec; what a NIC's firmware takes for a change is not in
//! these figures. On a real server: change something with `dcb` or `ethtool` and look at the time of the next line of
//! `audit.jsonl` below the agent's data directory.

use std::{
    io,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use node_agent_netlink::{
    Files, Kernel,
    dcb::{App, Change, Dcb, Ets, Pfc, tsa},
    ethtool::{Ethtool, Pause},
    fake::{FakeKernel, Style},
    rdma,
    route::Route,
};
use node_agent_qos::{Options, QosProfile, diff, vendor};
use node_agent_qos_apply::{
    AuditLine, Journal, Keeper, MemoryJournal, Record, agents, checks::Timing, devices, keeper::Verdict,
    observe,
};
use proto_random::Random;
use serde_json::json;

use crate::report::{Cpu, Goal, Line, Row, Sample};

/// The seed of the changes by another tool.
const SEED: u64 = 6;
const PCI: &str = "0000:18:00.0";
/// The agent's own timing.
const GOAL_MS: f64 = 250.0;
/// The longest wait for a NIC to be as its profile says.
const LIMIT: Duration = Duration::from_secs(30);

/// Measures row E4, with fewer rounds if `quick`.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn row(row: &Row<'_>, quick: bool) -> Result<(), String> {
    let rounds = if quick { 20 } else { 200 };
    for (case, disturb) in CASES {
        times(row, case, rounds, disturb);
    }
    residual(row, if quick { 100 } else { 1000 });
    ends(row);
    Ok(())
}

/// A journal whose writes count as steps, and that outlives its keeper.
#[derive(Clone)]
struct Disk {
    kernel: FakeKernel,
    held: Arc<Mutex<MemoryJournal>>,
}

impl Disk {
    fn with<T>(&self, act: impl FnOnce(&mut MemoryJournal) -> io::Result<T>) -> io::Result<T> {
        let mut held = self.held.lock().map_err(|_| io::Error::other("the journal is broken"))?;
        act(&mut held)
    }

    fn in_service(&self) -> bool {
        self.with(|held| Ok(held.records.values().all(Record::in_service))).unwrap_or(false)
    }
}

impl Journal for Disk {
    fn load(&mut self) -> io::Result<Vec<Record>> {
        self.with(Journal::load)
    }

    fn save(&mut self, record: &Record) -> io::Result<()> {
        self.kernel.spend("journal")?;
        self.with(|held| held.save(record))
    }

    fn audit(&mut self, line: &AuditLine) -> io::Result<()> {
        self.kernel.spend("audit")?;
        self.with(|held| held.audit(line))
    }
}

fn server() -> FakeKernel {
    let kernel = FakeKernel::new();
    kernel.add("eth0", Style::Mlx5);
    kernel.change(|world| {
        let port = rdma::Port { number: 1, state: Some(4), physical: Some(5), netdev: Some("eth0".into()) };
        let ports = vec![port];
        world.rdma.push(rdma::Device { index: Some(0), name: "mlx5_0".into(), ports, ..Default::default() });
        world.files.link("sys/class/net/eth0/device", PCI);
        world.files.manage("mlx5_0", 1);
        for name in ["np_cnp_dscp", "np_cnp_prio"] {
            world.files.put(&cc(name), "0\n");
        }
        world.files.put("proc/1/comm", "init\n");
    });
    kernel
}

fn cc(name: &str) -> String {
    format!("sys/kernel/debug/mlx5/{PCI}/cc_params/{name}")
}

fn keeper(kernel: &FakeKernel, disk: &Disk, timing: Timing) -> io::Result<Keeper> {
    let (kernel, disk) = (Arc::new(kernel.clone()), Box::new(disk.clone()));
    Keeper::new(kernel, disk, QosProfile::default(), Options::default(), "bench", timing)
        .map_err(io::Error::other)
}

/// How many things deviate, as a program apart from the keeper sees it.
fn deviations(kernel: &FakeKernel) -> usize {
    let kernel = kernel.foreign();
    let found = devices(&kernel);
    let Some(nic) = found.first() else { return usize::MAX };
    let seen = observe(&kernel, nic, true, agents::find(kernel.files()));
    diff(&QosProfile::default(), &seen, vendor::of(&seen)).deviations.len()
}

/// Turns until nothing deviates; the time that it took.
fn settle(kernel: &FakeKernel, keeper: &mut Keeper) -> io::Result<Duration> {
    let begin = Instant::now();
    while deviations(kernel) > 0 {
        keeper.turn(Duration::from_secs(1), true).map_err(io::Error::other)?;
        if begin.elapsed() > LIMIT {
            return Err(io::Error::other("it does not become what the profile says"));
        }
    }
    Ok(begin.elapsed())
}

type Disturb = fn(&FakeKernel);

const CASES: [(&str, Disturb); 5] = [
    ("PFC mask by another tool", |kernel| {
        change(kernel, &Change::Pfc(Pfc { enabled: 0, delay: 7, ..Pfc::default() }));
    }),
    ("DSCP map by another tool", |kernel| change(kernel, &Change::AddApp(vec![App::dscp(26, 0)]))),
    ("global pause by another tool", |kernel| {
        let pause = Pause { rx: true, tx: true, ..Pause::default() };
        let _ = Ethtool::open(&kernel.foreign()).and_then(|mut ethtool| ethtool.set_pause("eth0", pause));
    }),
    ("MTU lost in a flap", |kernel| {
        let _ = Route::open(&kernel.foreign()).and_then(|mut route| route.set_mtu("eth0", 1500));
        kernel.flap("eth0");
    }),
    ("driver loaded anew", |kernel| kernel.reload("eth0")),
];

fn change(kernel: &FakeKernel, change: &Change) {
    // A change that the driver refuses changes nothing, and is measured as such.
    let _ = Dcb::open(&kernel.foreign()).and_then(|mut dcb| dcb.change("eth0", change));
}

/// From the disturbance (after which the link is up again) until nothing deviates, with the agent's own timing.
fn times(row: &Row<'_>, case: &str, rounds: usize, disturb: Disturb) {
    let measured = || -> io::Result<Vec<f64>> {
        let kernel = server();
        let disk = Disk { kernel: kernel.clone(), held: Arc::default() };
        let mut keeper = keeper(&kernel, &disk, Timing::default())?;
        settle(&kernel, &mut keeper)?;
        let mut all = Vec::new();
        for _ in 0..rounds {
            // From another thread, while the keeper waits as it does in the agent.
            let (ready, kernel_there) = (Arc::new(std::sync::Barrier::new(2)), kernel.clone());
            let there = Arc::clone(&ready);
            let other = thread::spawn(move || {
                there.wait();
                let begin = Instant::now();
                disturb(&kernel_there);
                (begin, deviations(&kernel_there))
            });
            ready.wait();
            let began = Instant::now();
            while !other.is_finished() && began.elapsed() < LIMIT {
                keeper.turn(Duration::from_millis(1), true).map_err(io::Error::other)?;
            }
            let (begin, _) = other.join().map_err(|_| io::Error::other("the other tool failed"))?;
            settle(&kernel, &mut keeper)?;
            all.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        Ok(all)
    };
    let cpu = Cpu::start();
    match measured() {
        Ok(all) => {
            let sample = Sample::new(all);
            let peers = json!({"median": crate::report::round(sample.median()), "p99": crate::report::round(sample.quantile(0.99))});
            let value = sample.quantile(1.0);
            let goal = Goal::AtMost(GOAL_MS);
            row.line(&Line { case, value, unit: "ms", goal, sample: &sample, cpu: cpu.cores(), peers });
        }
        Err(error) => row.failed(case, &error.to_string()),
    }
}

/// One change by another tool, of any kind, also of files whose changes no event reports.
fn foreign(kernel: &FakeKernel, random: &mut Random) {
    let (pick, small) = (random.word() % 9, (random.word() % 64) as u8);
    match pick {
        0 => change(kernel, &Change::Pfc(Pfc { enabled: small, delay: 7, ..Pfc::default() })),
        1 => change(kernel, &Change::AddApp(vec![App::dscp(small, small % 8)])),
        2 => {
            let held = Dcb::open(&kernel.foreign()).and_then(|mut dcb| dcb.read("eth0"));
            let held = held.ok().and_then(|table| table.app).unwrap_or_default();
            change(kernel, &Change::DeleteApp(held.into_iter().skip(small.into()).take(3).collect()));
        }
        3 => change(
            kernel,
            &Change::Ets(Ets { tsa: [tsa::STRICT; 8], class_of: [small % 8; 8], ..Ets::default() }),
        ),
        4 => CASES[2].1(kernel),
        5 => CASES[3].1(kernel),
        6 => {
            let _ = kernel.foreign().write(&cc("np_cnp_dscp"), small.to_string().as_bytes());
        }
        7 => {
            let folder = "sys/kernel/config/rdma_cm/mlx5_0";
            let files = kernel.foreign();
            let _ = files.make(folder);
            let _ = files.write(&format!("{folder}/ports/1/default_roce_tos"), small.to_string().as_bytes());
            let _ = files.remove(folder);
        }
        _ => kernel.reload("eth0"),
    }
}

/// Changes while the keeper works; then it is left alone once.
fn residual(row: &Row<'_>, changes: usize) {
    let timing = Timing { poll: Duration::from_millis(50), ..Timing::default() };
    let measured = || -> io::Result<usize> {
        let kernel = server();
        let disk = Disk { kernel: kernel.clone(), held: Arc::default() };
        let mut keeper = keeper(&kernel, &disk, timing)?;
        settle(&kernel, &mut keeper)?;
        let mut random = Random::new(SEED);
        let mut residual = 0;
        for number in 0..changes {
            foreign(&kernel, &mut random);
            // Sometimes several before the keeper looks.
            if number % 4 != 0 {
                settle(&kernel, &mut keeper)?;
                residual += deviations(&kernel);
            }
        }
        settle(&kernel, &mut keeper)?;
        Ok(residual + deviations(&kernel))
    };
    let cpu = Cpu::start();
    let case = format!("drift left after {changes} changes by another tool");
    match measured() {
        Ok(left) => {
            let (value, sample) = (left as f64, Sample::new(vec![left as f64]));
            let peers = json!({"seed": SEED, "changes": changes});
            let goal = Goal::AtMost(0.0);
            row.line(&Line {
                case: &case,
                value,
                unit: "things",
                goal,
                sample: &sample,
                cpu: cpu.cores(),
                peers,
            });
        }
        Err(error) => row.failed(&case, &error.to_string()),
    }
}

/// An apply that is ended after each of its steps; how often a NIC was half of one and half of the other and yet in service.
fn ends(row: &Row<'_>) {
    let case = "half-applied and in service, end at every step";
    let mut seen = (0, 0, 0);
    let mut measured = || -> io::Result<()> {
        for steps in 0.. {
            let kernel = server();
            let old = deviations(&kernel);
            let disk = Disk { kernel: kernel.clone(), held: Arc::default() };
            let mut first = keeper(&kernel, &disk, Timing::default())?;
            kernel.die_after(steps);
            let turned = first.turn(Duration::from_secs(1), true);
            let left = deviations(&kernel);
            let half = left != 0 && left != old;
            seen = (seen.0 + 1, seen.1 + usize::from(half), seen.2 + usize::from(half && disk.in_service()));
            kernel.revive();
            settle(&kernel, &mut keeper(&kernel, &disk, Timing::default())?)?;
            let done =
                turned.is_ok_and(|all| all.iter().any(|one| matches!(one.verdict, Verdict::Mended(_))));
            if done && disk.in_service() {
                return Ok(());
            }
        }
        Ok(())
    };
    let cpu = Cpu::start();
    match measured() {
        Ok(()) => {
            let (runs, halves, bad) = seen;
            let (value, sample) =
                (f64::from(u32::try_from(bad).unwrap_or(u32::MAX)), Sample::new(vec![bad as f64]));
            let peers = json!({"ends": runs, "in the middle of the edits": halves});
            let goal = Goal::AtMost(0.0);
            row.line(&Line { case, value, unit: "times", goal, sample: &sample, cpu: cpu.cores(), peers });
        }
        Err(error) => row.failed(case, &error.to_string()),
    }
}
