//! The built-in benchmark of the engine itself: one rank per node inside the process, over TCP rails, without the door.
//! One process is one node, or all of them, each on a thread of its own. They find each other by files in a directory.
//!
//! Each repetition follows the one before at once, as in other libraries' benchmarks; its time is that of the slowest node.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use node_agent_collective::shape::{DEFAULT_CHUNK, Tuning};
use node_agent_collective::units::Node;
use node_agent_collective::{
    Algorithm, Call, Dtype, Failure, Machine, Memory, Operation, ReduceOp, Region, shape::Config as Shape,
};
use node_agent_engine_transport::tcp::SetupError;
use node_agent_engine_transport::{
    Bridge, Clock, JobKey, TcpConfig, TcpRails, Transport, TransportError, Wiring, drive,
};
use rustix::time::ClockId;
use serde::Serialize;

use crate::carry::CarrySetup;
use crate::config::Verbs;
use crate::memory::Operands;

/// Time that the nodes have to find each other.
const MEET: Duration = Duration::from_secs(30);
/// Time that one operation has.
const LIMIT: Duration = Duration::from_secs(120);
/// Longest wait of one turn.
const TURN: Duration = Duration::from_millis(200);
/// Sizes from here on are warmed up once.
const LARGE: u64 = 4 << 20;
/// The inputs repeat after this many elements, a prime.
const PERIOD: usize = 997;

/// What to measure, on which node.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// This node; without it, all nodes are threads of this process.
    #[arg(long)]
    pub node: Option<Node>,
    /// Number of nodes.
    #[arg(long, default_value_t = 2)]
    pub nodes: Node,
    /// Addresses of this node's rails; `%` stands for the node's number plus one.
    #[arg(long, value_delimiter = ',', default_value = "127.0.0.1")]
    pub rails: Vec<String>,
    /// Directory by which the nodes find each other, empty at the start and the same for all.
    #[arg(long)]
    pub dir: PathBuf,
    /// Sizes of the all-reduces in bytes.
    #[arg(long, value_delimiter = ',', default_value = "8,1024,65536,1048576")]
    pub bytes: Vec<u64>,
    /// Timed repetitions of each size.
    #[arg(long, default_value_t = 1000)]
    pub iterations: u32,
    /// Repetitions before those.
    #[arg(long, default_value_t = 10)]
    pub warmup: u32,
    /// Fewer repetitions for a size that takes longer than this many milliseconds in all (but no fewer than three).
    #[arg(long, default_value_t = 5000)]
    pub budget_ms: u64,
    /// Repetitions go on until this file exists, however many that are.
    #[arg(long)]
    pub until: Option<PathBuf>,
    /// Greatest payload of a frame.
    #[arg(long, default_value_t = DEFAULT_CHUNK)]
    pub chunk_bytes: usize,
    /// The algorithm, instead of the one that is predicted to be the fastest.
    #[arg(long)]
    pub algorithm: Option<Algorithm>,
    /// What carries the rails.
    #[arg(long, default_value = "tcp")]
    pub transport: crate::config::Transport,
    /// How what goes over the rails is protected.
    #[arg(long, default_value = "none")]
    pub protection: crate::config::Protection,
    /// Queue pairs of each link over verbs.
    #[arg(long, default_value_t = 1)]
    pub pairs: usize,
    /// Check every element of every result.
    #[arg(long)]
    pub verify: bool,
    /// Report the time of every repetition, and when it began.
    #[arg(long)]
    pub times: bool,
}

/// Why the benchmark could not be done.
#[derive(Debug, thiserror::Error)]
pub enum EngineBenchError {
    /// An address makes no sense.
    #[error("`{0}` is no address of a rail")]
    Address(String),
    /// The directory cannot be used.
    #[error("{path}: {source}")]
    Meeting {
        /// The directory or file that could not be used.
        path: PathBuf,
        /// What the operating system answered.
        source: std::io::Error,
    },
    /// A node did not come.
    #[error("not all nodes and rails were there in time: {0}")]
    Absent(String),
    /// The rails' sockets could not be opened.
    #[error(transparent)]
    Rails(#[from] SetupError),
    /// What was to carry the rails.
    #[error("{0}")]
    Carry(String),
    /// The core refused the configuration.
    #[error(transparent)]
    Shape(#[from] node_agent_collective::ConfigError),
    /// The core refused a call.
    #[error(transparent)]
    Call(#[from] node_agent_collective::CallError),
    /// A collective failed while it ran.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The system gives no memory that can be shared.
    #[error("memory for operands: {0}")]
    Memory(#[from] node_agent_ipc::RegionError),
    /// Operands are not where they were.
    #[error("the operands are gone")]
    Gone,
    /// Waiting for events of the rails failed.
    #[error(transparent)]
    Wait(#[from] TransportError),
}

/// One size's result; written by node 0, one JSON object per line.
#[derive(Debug, Serialize)]
struct Line {
    op: &'static str,
    bytes: u64,
    nodes: Node,
    rails: usize,
    iterations: usize,
    /// Time of one repetition on the slowest node, in microseconds.
    time_us: Spread,
    /// Bytes over mean time, and that times 2(n-1)/n, in 10^9 bytes per second.
    alg_bw: f64,
    bus_bw: f64,
    /// Processor time of all nodes together, in seconds, and per 10^9 bytes reduced.
    cpu_s: f64,
    cpu_s_per_gb: f64,
    /// Bytes sent by node 0 on each rail.
    tx_bytes: Vec<u64>,
    mismatches: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    times_us: Option<Vec<f64>>,
    /// When each began on node 0, in microseconds of the system's monotonic clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    began_us: Option<Vec<i64>>,
}

#[derive(Debug, Serialize)]
struct Spread {
    min: f64,
    median: f64,
    mean: f64,
    p99: f64,
    max: f64,
}

/// Runs the nodes that this process is; node 0 prints. Gives the number of wrong elements.
///
/// # Errors
/// The nodes did not meet in time, the rails or their carrier cannot be opened, or an operation failed.
pub fn run(options: &Options) -> Result<u64, EngineBenchError> {
    match options.node {
        Some(node) => Bench::new(options, node)?.run(),
        None => std::thread::scope(|scope| {
            let start = |node| scope.spawn(move || Bench::new(options, node)?.run());
            let threads: Vec<_> = (0..options.nodes).map(start).collect();
            threads.into_iter().try_fold(0, |sum, thread| {
                let wrong = thread
                    .join()
                    .unwrap_or_else(|_| Err(EngineBenchError::Absent("a thread died".into())))?;
                Ok(sum + wrong)
            })
        }),
    }
}

struct Bench<'a> {
    options: &'a Options,
    node: Node,
    machine: Machine,
    memory: Operands,
    rails: TcpRails,
    clock: Clock,
    external: Vec<usize>,
}

impl<'a> Bench<'a> {
    fn new(options: &'a Options, node: Node) -> Result<Self, EngineBenchError> {
        let nodes = usize::from(options.nodes);
        let address = |text: &String| {
            let text = text.replace('%', &(u32::from(node) + 1).to_string());
            text.parse::<IpAddr>().map_err(|_| EngineBenchError::Address(text))
        };
        let config = TcpConfig {
            node,
            nodes,
            rails: options.rails.iter().map(address).collect::<Result<_, _>>()?,
            devices: Vec::new(),
            job_uid: "bench".into(),
            attempt: 1,
            epoch: 1,
            key: JobKey::new([1; 32]),
            handshake_timeout: Duration::from_secs(5),
            protection: options.protection.into(),
        };
        let mut rails = TcpRails::bind(&config)?;
        let desired = CarrySetup {
            job: "bench",
            rails: (0..).zip(config.rails.iter().copied()).collect(),
            nodes,
            transport: options.transport,
            protection: options.protection,
            verbs: Verbs { pairs: options.pairs, ..Verbs::default() },
        };
        desired.fulfil(&mut rails).map_err(|error| EngineBenchError::Carry(error.to_string()))?;
        let mut memory = Operands::default();
        let mut shape = Shape {
            node,
            nodes,
            ranks: (0..options.nodes).collect(),
            rails: options.rails.len(),
            chunk_bytes: options.chunk_bytes,
            op_timeout: LIMIT,
            epoch: 1,
            scratch: Region::EMPTY,
            checksum: false,
            tuning: Tuning { algorithm: options.algorithm, ..Tuning::default() },
        };
        shape.scratch = memory.take(shape.scratch_bytes());
        let machine = Machine::new(shape)?;
        let mut bench =
            Bench { options, node, machine, memory, rails, clock: Clock::start(), external: Vec::new() };
        bench.wire_up()?;
        Ok(bench)
    }

    fn turn(&mut self, wait: Duration) -> Result<(), EngineBenchError> {
        let Bench { machine, memory, rails, clock, external, .. } = self;
        let mut bridge = Bridge { machine, memory, clock: *clock, external, callers: &() };
        Ok(drive(&mut bridge, rails, wait)?)
    }

    /// Writes the own endpoints, reads the others', connects.
    fn wire_up(&mut self) -> Result<(), EngineBenchError> {
        let deadline = Instant::now() + MEET;
        let text: Vec<String> = self.rails.endpoints().iter().map(ToString::to_string).collect();
        write_whole(&self.options.dir, self.node, &text.join("\n"))?;
        let mut peers: BTreeMap<Node, Vec<SocketAddr>> = BTreeMap::new();
        while peers.len() < usize::from(self.options.nodes) {
            for node in 0..self.options.nodes {
                let read = std::fs::read_to_string(self.options.dir.join(node.to_string()));
                if let Ok(text) = read {
                    peers.insert(node, text.lines().filter_map(|line| line.parse().ok()).collect());
                }
            }
            if Instant::now() > deadline {
                return Err(EngineBenchError::Absent(format!("only nodes {:?} came", peers.keys())));
            }
            // There is nothing else that shows it.
            std::thread::sleep(Duration::from_millis(5));
        }
        self.rails.connect(&peers, deadline)?;
        loop {
            match self.rails.wiring() {
                Wiring::Done => return Ok(()),
                Wiring::Failed(missing) => return Err(EngineBenchError::Absent(format!("{missing:?}"))),
                _ => self.turn(TURN)?,
            }
        }
    }

    fn call(&mut self, call: Call, buffer: Region) -> Result<(), EngineBenchError> {
        self.machine.post(self.node.into(), call, buffer, buffer, self.clock.now())?;
        loop {
            if let Some(completion) = self.machine.poll_completion() {
                return Ok(completion.result?);
            }
            self.turn(TURN)?;
        }
    }

    fn all_reduce(&mut self, count: usize, buffer: Region) -> Result<(), EngineBenchError> {
        let operation = Operation::AllReduce;
        let call = Call { operation, dtype: Dtype::F32, reduce: ReduceOp::Sum, count: count as u64 };
        self.call(call, buffer)
    }

    /// All nodes' values, reduced, where the time does not matter.
    fn agree(&mut self, values: &mut [i64], reduce: ReduceOp) -> Result<(), EngineBenchError> {
        let region = self.memory.take(values.len() * 8);
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        if let Some(to) = self.memory.bytes_mut(region) {
            to.copy_from_slice(&bytes);
        }
        let operation = Operation::AllReduce;
        self.call(Call { operation, dtype: Dtype::I64, reduce, count: values.len() as u64 }, region)?;
        let bytes = self.memory.bytes(region).unwrap_or_default();
        for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
            *value = i64::from_ne_bytes(*bytes);
        }
        self.memory.release(region);
        Ok(())
    }

    fn run(mut self) -> Result<u64, EngineBenchError> {
        let mut wrong = 0;
        for &bytes in &self.options.bytes {
            wrong += self.size(bytes)?.unsigned_abs();
        }
        self.call(Call::BARRIER, Region::EMPTY)?;
        self.machine.leave();
        let end = Instant::now() + Duration::from_secs(2);
        while !self.machine.is_quiet() && Instant::now() < end {
            self.turn(Duration::from_millis(20))?;
        }
        Ok(wrong)
    }

    /// Writes the own values over whatever is there: the buffer is a rank's again as soon as an operation on it has ended.
    fn fill(&mut self, buffer: Region) -> Result<(), EngineBenchError> {
        let value = |at| (((at % PERIOD) as f32 + 1.0) * f32::from(self.node + 1)).to_ne_bytes();
        let bytes: Vec<u8> = (0..buffer.len / 4).flat_map(value).collect();
        self.memory.write(buffer, &bytes).ok_or(EngineBenchError::Gone)
    }

    fn check(&self, buffer: Region) -> Result<i64, EngineBenchError> {
        let ranks: f32 = (1..=self.options.nodes).map(f32::from).sum();
        let mut bytes = vec![0; buffer.len];
        self.memory.read(buffer, &mut bytes).ok_or(EngineBenchError::Gone)?;
        let values = bytes.as_chunks().0.iter().enumerate();
        // All sums are whole numbers that the type holds exactly.
        let wrong =
            |(at, v): &(usize, &[u8; 4])| f32::from_ne_bytes(**v) != ((at % PERIOD) as f32 + 1.0) * ranks;
        Ok(values.filter(wrong).count() as i64)
    }

    fn tx(&self) -> Vec<u64> {
        let rail = |rail| (0..self.options.nodes).map(|p| self.rails.counters(rail, p).tx_bytes).sum();
        (0..self.options.rails.len() as u16).map(rail).collect()
    }

    /// Measures one size; gives the number of wrong elements.
    fn size(&mut self, bytes: u64) -> Result<i64, EngineBenchError> {
        let count = usize::try_from(bytes).unwrap_or(usize::MAX) / 4;
        // As ranks have it: shared with the engine, so that rails carry it from and to where it lies.
        let (memory, _file) = node_agent_ipc::Region::create(count.max(1) as u64 * 4)?;
        let buffer = self.memory.share(&Arc::new(memory), 0, count * 4);
        self.fill(buffer)?;
        let began = Instant::now();
        let warmup = if bytes >= LARGE { 1 } else { self.options.warmup.max(1) };
        for _ in 0..warmup {
            self.all_reduce(count, buffer)?;
        }
        let mut slowest = [i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX)];
        self.agree(&mut slowest, ReduceOp::Max)?;
        // The warm-up says how many repetitions the budget allows; all nodes reckon with the same time.
        let once = slowest[0].max(1) / i64::from(warmup);
        let affordable =
            i64::try_from(self.options.budget_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000) / once.max(1);
        let iterations = i64::from(self.options.iterations).min(affordable.max(3));
        let mut times = Vec::with_capacity(usize::try_from(iterations).unwrap_or(0));
        let mut starts = Vec::with_capacity(times.capacity());
        let mut mismatches = 0;
        self.call(Call::BARRIER, Region::EMPTY)?;
        let (cpu, tx) = (self.cpu(), self.tx());
        while self.goes_on(times.len(), iterations)? {
            if self.options.verify {
                self.fill(buffer)?;
            }
            starts.push(micros(ClockId::Monotonic));
            let start = Instant::now();
            self.all_reduce(count, buffer)?;
            times.push(i64::try_from(start.elapsed().as_nanos()).unwrap_or(i64::MAX));
            if self.options.verify {
                mismatches += self.check(buffer)?;
            }
        }
        let sent: Vec<u64> = self.tx().iter().zip(&tx).map(|(after, before)| after - before).collect();
        let mut sums = [mismatches, self.cpu() - cpu];
        self.agree(&mut sums, ReduceOp::Sum)?;
        self.agree(&mut times, ReduceOp::Max)?;
        self.memory.release(buffer);
        if self.node == 0 {
            self.print(bytes, (&times, starts), sums, sent);
        }
        Ok(sums[0])
    }

    /// Whether another repetition follows; all nodes find the same.
    fn goes_on(&mut self, done: usize, iterations: i64) -> Result<bool, EngineBenchError> {
        const ASKED_EVERY: usize = 16;
        let Some(file) = &self.options.until else { return Ok((done as i64) < iterations) };
        if done == 0 || !done.is_multiple_of(ASKED_EVERY) {
            return Ok(true);
        }
        let mut over = [i64::from(file.exists())];
        self.agree(&mut over, ReduceOp::Max)?;
        Ok(over[0] == 0)
    }

    /// Processor time of this node so far, in microseconds. Threads of one process share one account: node 0 has it.
    fn cpu(&self) -> i64 {
        if self.options.node.is_none() && self.node != 0 {
            return 0;
        }
        micros(ClockId::ProcessCPUTime)
    }

    fn print(
        &self,
        bytes: u64,
        (times, began): (&[i64], Vec<i64>),
        [mismatches, cpu]: [i64; 2],
        tx_bytes: Vec<u64>,
    ) {
        let us: Vec<f64> = times.iter().map(|&ns| ns as f64 / 1e3).collect();
        let mut sorted = us.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| sorted[((sorted.len() - 1) as f64 * part) as usize];
        let mean = us.iter().sum::<f64>() / us.len() as f64;
        let nodes = f64::from(self.options.nodes);
        let alg_bw = bytes as f64 / mean / 1e3;
        let cpu_s = cpu as f64 / 1e6;
        let line = Line {
            op: "all-reduce",
            bytes,
            nodes: self.options.nodes,
            rails: self.options.rails.len(),
            iterations: us.len(),
            time_us: Spread { min: at(0.0), median: at(0.5), mean, p99: at(0.99), max: at(1.0) },
            alg_bw,
            bus_bw: alg_bw * 2.0 * (nodes - 1.0) / nodes,
            cpu_s,
            cpu_s_per_gb: cpu_s / (bytes as f64 * us.len() as f64) * 1e9,
            tx_bytes,
            mismatches,
            times_us: self.options.times.then_some(us),
            began_us: self.options.times.then_some(began),
        };
        let text = serde_json::to_string(&line).unwrap_or_default();
        // A reader that has gone away is no reason to stop the others.
        let _ = writeln!(std::io::stdout(), "{text}");
    }
}

/// A clock of the system, in microseconds.
fn micros(clock: ClockId) -> i64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1000
}

/// Writes a file of the meeting so that nobody reads half of it.
fn write_whole(dir: &Path, node: Node, text: &str) -> Result<(), EngineBenchError> {
    let (part, path) = (dir.join(format!(".{node}")), dir.join(node.to_string()));
    std::fs::write(&part, text)
        .and_then(|()| std::fs::rename(&part, &path))
        .map_err(|source| EngineBenchError::Meeting { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_one_process_meet_and_find_every_element_right() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            node: None,
            nodes: 3,
            rails: vec!["127.77.1.%".into(), "127.77.2.%".into()],
            dir: dir.path().into(),
            bytes: vec![4, 100_000],
            iterations: 5,
            warmup: 1,
            budget_ms: 5000,
            until: None,
            chunk_bytes: DEFAULT_CHUNK,
            algorithm: None,
            transport: crate::config::Transport::Auto,
            protection: crate::config::Protection::None,
            pairs: 1,
            verify: true,
            times: false,
        };
        assert_eq!(run(&options).unwrap(), 0);
        // With a file that is there from the beginning it ends where the nodes first ask for it, all of them after the same repetition.
        let (meeting, until) = (tempfile::tempdir().unwrap(), Some(dir.path().join("0")));
        let options = Options { dir: meeting.path().into(), until, ..options };
        assert_eq!(run(&options).unwrap(), 0);
        let wrong = Options { rails: vec!["nowhere".into()], ..options };
        assert!(matches!(run(&wrong), Err(EngineBenchError::Address(_))));
    }
}
