//! The roof: plain TCP streams in the pattern of a direct exchange, one from every host to every other on every rail.

use std::{
    io::{BufRead as _, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    process::Stdio,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::json;

use super::{
    group::{Group, Rank},
    lab::Lab,
};

/// Sets of different sizes live at once: the number of hosts is added.
const PORT: u16 = 7300;
/// One write, as large as an offloaded packet sequence likes it.
const WRITE: usize = 256 << 10;
/// Streams find their rate before the count begins.
const RAMP: Duration = Duration::from_millis(300);

/// One host's part.
#[derive(clap::Args)]
pub struct HostArgs {
    /// This host's addresses, one a rail.
    #[arg(long, value_delimiter = ',')]
    own: Vec<Ipv4Addr>,
    /// Where all hosts listen.
    #[arg(long)]
    port: u16,
    /// The other hosts' addresses.
    #[arg(long, value_delimiter = ',')]
    others: Vec<Ipv4Addr>,
}

/// Starts one process a host.
///
/// # Errors
/// A process cannot be started.
pub fn start(lab: &Lab, n: usize) -> Result<Group, String> {
    let folder = lab.folder(&format!("roof-{n}"))?;
    let program = std::env::current_exe().map_err(|error| format!("cannot find this executable: {error}"))?;
    let join = |all: Vec<Ipv4Addr>| all.iter().map(Ipv4Addr::to_string).collect::<Vec<_>>().join(",");
    let addresses = |host: usize| (0..lab.rails).map(move |rail| lab.address(host, rail));
    let mut group = Group {
        ranks: Vec::new(),
        processes: Vec::new(),
        counted: Vec::new(),
        greets: true,
        log: folder.join("log"),
        controls: Vec::new(),
    };
    for host in 0..n {
        let others = (0..n).filter(|other| *other != host).flat_map(addresses).collect();
        let mut command = lab.inside(&lab.host(host), &program);
        command.args(["roof", "--own", &join(addresses(host).collect()), "--others", &join(others)]);
        command.args(["--port", &(PORT + n as u16).to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        group.processes.push(child);
        let (Some(to), Some(from)) = (to, from) else { return Err("a host has no pipes".to_owned()) };
        group.ranks.push(Rank::new(to, from));
    }
    Ok(group)
}

/// What the rails carried.
pub struct Roof {
    /// Payload bytes per second that each host got, mean over hosts.
    pub mean: f64,
}

/// Measures the streams of all hosts once, for so many seconds.
///
/// # Errors
/// A host does not answer in time, or with something else.
pub fn measure(group: &mut Group, seconds: f64) -> Result<Roof, String> {
    #[derive(Deserialize)]
    struct Got {
        bytes_per_s: f64,
    }
    group.notify(&format!("{seconds}\n"))?;
    let deadline = Instant::now() + Duration::from_secs_f64(seconds) + Duration::from_secs(20);
    let answers = group.on_report(deadline)?;
    let got: Vec<f64> = answers
        .iter()
        .map(|line| serde_json::from_str::<Got>(line).map(|got| got.bytes_per_s))
        .collect::<Result<_, _>>()
        .map_err(|error| format!("the roof answered {answers:?}: {error}"))?;
    Ok(Roof { mean: got.iter().sum::<f64>() / got.len() as f64 })
}

/// Senders wait here between measurements.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
    received: AtomicU64,
}

impl Gate {
    fn set(&self, open: bool) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = open;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(open, |open| !*open).unwrap_or_else(PoisonError::into_inner));
    }
}

/// One host: answers each line of standard input, a number of seconds, with what it received in that time.
///
/// # Errors
/// An address cannot be bound, or another host cannot be reached.
pub fn host(args: &HostArgs) -> Result<(), String> {
    let gate = Arc::new(Gate::default());
    for address in &args.own {
        let listener =
            TcpListener::bind((*address, args.port)).map_err(|error| format!("{address}: {error}"))?;
        let gate = Arc::clone(&gate);
        thread::spawn(move || accept(&listener, &gate));
    }
    for address in &args.others {
        let stream = connect(*address, args.port)?;
        let gate = Arc::clone(&gate);
        thread::spawn(move || send(stream, &gate));
    }
    println!("ready");
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let seconds: f64 = line.trim().parse().map_err(|error| format!("'{line}': {error}"))?;
        gate.set(true);
        thread::sleep(RAMP);
        let (begin, before) = (Instant::now(), gate.received.load(Ordering::Relaxed));
        thread::sleep(Duration::from_secs_f64(seconds));
        let bytes = gate.received.load(Ordering::Relaxed) - before;
        let rate = bytes as f64 / begin.elapsed().as_secs_f64();
        gate.set(false);
        // What is under way must not run into the next measurement.
        let mut last = u64::MAX;
        while std::mem::replace(&mut last, gate.received.load(Ordering::Relaxed)) != last {
            thread::sleep(RAMP / 3);
        }
        println!("{}", json!({"bytes_per_s": rate}));
    }
    Ok(())
}

fn connect(address: Ipv4Addr, port: u16) -> Result<TcpStream, String> {
    let try_once = || TcpStream::connect((address, port)).ok();
    integration_harness::eventually(&format!("{address} listens"), Duration::from_secs(10), try_once)
}

fn accept(listener: &TcpListener, gate: &Arc<Gate>) {
    for stream in listener.incoming().flatten() {
        let gate = Arc::clone(gate);
        thread::spawn(move || receive(stream, &gate));
    }
}

fn receive(mut stream: TcpStream, gate: &Gate) {
    let mut buffer = vec![0; WRITE];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        gate.received.fetch_add(count as u64, Ordering::Relaxed);
    }
}

fn send(mut stream: TcpStream, gate: &Gate) {
    let buffer = vec![1; WRITE];
    loop {
        gate.pass();
        if stream.write_all(&buffer).is_err() {
            return;
        }
    }
}
