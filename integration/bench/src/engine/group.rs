//! One set of programs that is asked again and again: a line goes to every rank, a line of JSON comes from each.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    process::Child,
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;

use super::meter::Meter;
use crate::report::Cpu;

/// Longest time until all ranks of a program are there: torch imports for many seconds on a busy machine.
const START: Duration = Duration::from_secs(90);

/// How often it is looked whether processes live: a pipe that has a name does not say so.
const CHECK: Duration = Duration::from_millis(200);

/// What every rank does.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// Bytes of the operand.
    pub bytes: u64,
    /// Repetitions that are timed.
    pub iterations: u32,
    /// Repetitions before the timed ones, which are not counted.
    pub warmup: u32,
    /// Fill before and check after each; otherwise they follow each other at once.
    pub verify: bool,
    /// Into how many calls the caller splits the operand; ours is never split.
    pub split: u32,
    /// Operands lie in any memory, not in the door's buffers; only ours knows the difference.
    pub staged: bool,
    /// How long all of it may take.
    pub limit: Duration,
}

impl Task {
    /// So many repetitions after one another.
    pub fn of(bytes: u64, iterations: u32) -> Self {
        let limit = Duration::from_secs(60);
        Self { bytes, iterations, warmup: 1, verify: false, split: 1, staged: false, limit }
    }

    /// How often the processor time is looked at: often enough for few operations, seldom enough not to disturb small ones.
    fn check_every(&self) -> Duration {
        Duration::from_millis(if self.bytes >= 1 << 20 { 20 } else { 100 })
    }

    /// In place, as a training step does.
    fn line(&self) -> String {
        format!(
            "bytes={} iterations={} warmup={} verify={} split={} staged={} inplace=1\n",
            self.bytes,
            self.iterations,
            self.warmup,
            u8::from(self.verify),
            self.split,
            u8::from(self.staged)
        )
    }
}

/// The answer of one rank, a line of JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    start: Vec<u64>,
    end: Vec<u64>,
    bad: u64,
    cpu_ns: u64,
    error: Option<String>,
}

/// One operation, all ranks together, on the monotonic clock in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// When the last rank came.
    pub start: u64,
    /// When the last rank had its result.
    pub end: u64,
}

impl Span {
    /// How long it took, in milliseconds.
    pub fn ms(self) -> f64 {
        self.end.saturating_sub(self.start) as f64 / 1e6
    }
}

/// The result of a task.
#[derive(Debug)]
pub struct Outcome {
    answers: Vec<Answer>,
    bytes: u64,
    /// Processor time of all its processes, in seconds.
    pub cpu_s: f64,
    /// Busy cores of the whole machine meanwhile.
    pub busy: f64,
}

impl Outcome {
    /// Elements that were wrong.
    pub fn bad(&self) -> u64 {
        self.answers.iter().map(|answer| answer.bad).sum()
    }

    /// Repetitions that all ranks completed.
    pub fn operations(&self) -> usize {
        self.answers.iter().map(|answer| answer.end.len()).min().unwrap_or(0)
    }

    /// What ranks said went wrong.
    pub fn errors(&self) -> Vec<String> {
        let text =
            |(rank, answer): (usize, &Answer)| Some(format!("rank {rank}: {}", answer.error.as_ref()?));
        self.answers.iter().enumerate().filter_map(text).collect()
    }

    /// An error if any rank had one or a result was wrong.
    fn checked(self) -> Result<Self, String> {
        match (self.errors().first(), self.bad()) {
            (Some(error), _) => Err(error.clone()),
            (None, 0) => Ok(self),
            (None, bad) => Err(format!("{bad} elements are wrong")),
        }
    }

    /// The span of each repetition, in their order.
    pub fn spans(&self) -> Vec<Span> {
        let latest = |times: &dyn Fn(&Answer) -> u64| self.answers.iter().map(times).max().unwrap_or(0);
        let span = |at: usize| Span { start: latest(&|a| a.start[at]), end: latest(&|a| a.end[at]) };
        (0..self.operations()).map(span).collect()
    }

    /// First start and last end.
    fn span(&self) -> Option<(u64, u64)> {
        let first = self.answers.iter().filter_map(|answer| answer.start.first()).min()?;
        let last = self.answers.iter().filter_map(|answer| answer.end.last()).max()?;
        Some((*first, *last))
    }

    /// Seconds from the first start to the last end, over the repetitions.
    pub fn mean_s(&self) -> f64 {
        let Some((first, last)) = self.span() else { return f64::NAN };
        last.saturating_sub(first) as f64 / 1e9 / self.operations() as f64
    }

    /// Median over the repetitions of what one took, mean over ranks, in microseconds.
    pub fn median_us(&self) -> f64 {
        self.quantile_us(0.5)
    }

    /// Any quantile of the same.
    pub fn quantile_us(&self, q: f64) -> f64 {
        let took = |at: usize| {
            let one = |a: &Answer| a.end[at].saturating_sub(a.start[at]) as f64 / 1e3;
            self.answers.iter().map(one).sum::<f64>() / self.answers.len() as f64
        };
        crate::report::Sample::new((0..self.operations()).map(took).collect()).quantile(q)
    }

    /// Bytes per second that each rank's links carried at least, as nccl-tests counts.
    pub fn bus(&self) -> f64 {
        let n = self.answers.len() as f64;
        self.bytes as f64 / self.mean_s() * 2.0 * (n - 1.0) / n
    }

    /// Processor seconds for each 10^9 bytes reduced.
    pub fn cpu_per_gb(&self) -> f64 {
        self.cpu_s / (self.bytes as f64 * self.operations() as f64 / 1e9)
    }
}

/// One rank: where its tasks go, where its answers come from.
pub struct Rank {
    to: Box<dyn Write + Send>,
    from: Receiver<String>,
}

impl Rank {
    /// Reads answers in a thread of its own, which ends with the rank.
    pub fn new(to: impl Write + Send + 'static, from: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = sync_channel(4);
        thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { to: Box::new(to), from: receiver }
    }

    /// Sends one line to the program.
    ///
    /// # Errors
    /// The program does not read any more.
    pub fn notify(&mut self, line: &str) -> Result<(), String> {
        self.to.write_all(line.as_bytes()).and_then(|()| self.to.flush()).map_err(|e| format!("is gone: {e}"))
    }

    /// The next line, while whoever writes it lives.
    pub fn on_report(&self, deadline: Instant, mut lives: impl FnMut() -> bool) -> Result<String, String> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.from.recv_timeout(left.min(CHECK)) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err("has ended".to_owned()),
                Err(RecvTimeoutError::Timeout) if left <= CHECK => {
                    return Err("did not answer in time".to_owned());
                }
                Err(RecvTimeoutError::Timeout) if !lives() => {
                    return Err("cannot answer: a process ended".to_owned());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// A set of programs.
pub struct Group {
    /// The ranks, by their number.
    pub ranks: Vec<Rank>,
    /// What was started, ended with the group: each with all processes of its process group.
    pub processes: Vec<Child>,
    /// Processes whose threads' time counts; none: ranks count themselves.
    pub counted: Vec<u32>,
    /// Ranks say once that they are there.
    pub greets: bool,
    /// What they write to standard error.
    pub log: std::path::PathBuf,
    /// Where their control sockets are; only ours has any.
    pub controls: Vec<std::path::PathBuf>,
}

impl Group {
    /// Waits until all ranks are there.
    ///
    /// # Errors
    /// A rank is not there in time, or a program has ended.
    pub fn ready(&mut self) -> Result<(), String> {
        if !self.greets {
            return Ok(());
        }
        let deadline = Instant::now() + START;
        self.on_report(deadline).map(drop)
    }

    /// One line of each rank.
    ///
    /// # Errors
    /// A rank does not answer in time, or a program has ended; the text ends with what the programs wrote
    /// last.
    pub fn on_report(&mut self, deadline: Instant) -> Result<Vec<String>, String> {
        let processes = &mut self.processes;
        let mut lives = || processes.iter_mut().all(|child| matches!(child.try_wait(), Ok(None)));
        let named = |(at, rank): (usize, &Rank)| {
            rank.on_report(deadline, &mut lives).map_err(|error| format!("rank {at} {error}"))
        };
        let lines: Result<_, String> = self.ranks.iter().enumerate().map(named).collect();
        lines.map_err(|error| format!("{error}{}", self.said()))
    }

    /// The same line to all ranks.
    ///
    /// # Errors
    /// A rank does not read any more; the text ends with what the programs wrote last.
    pub fn notify(&mut self, line: &str) -> Result<(), String> {
        let mut ranks = self.ranks.iter_mut().enumerate();
        let reported =
            ranks.try_for_each(|(at, rank)| rank.notify(line).map_err(|error| format!("rank {at} {error}")));
        reported.map_err(|error| format!("{error}{}", self.said()))
    }

    /// The last that its programs said.
    fn said(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines.len().saturating_sub(3);
        if lines.is_empty() { String::new() } else { format!("; it said: {}", lines[last..].join(" | ")) }
    }

    /// Starts a task on all ranks.
    ///
    /// # Errors
    /// A rank does not read any more.
    pub fn begin(&mut self, task: &Task) -> Result<Running, String> {
        let running = Running {
            task: *task,
            deadline: Instant::now() + task.limit,
            cpu: Cpu::start(),
            meter: (!self.counted.is_empty()).then(|| Meter::start(self.counted.clone(), task.check_every())),
        };
        self.notify(&task.line())?;
        Ok(running)
    }

    /// Waits for all answers. Errors of ranks are part of the outcome; an error here means that the set is lost.
    ///
    /// # Errors
    /// A rank does not answer in time or answers with something else: the set is lost.
    pub fn end(&mut self, running: Running) -> Result<Outcome, String> {
        let lines = self.on_report(running.deadline)?;
        let busy = running.cpu.cores();
        let parse = |line: &String| {
            serde_json::from_str::<Answer>(line).map_err(|error| format!("answered '{line:.80}': {error}"))
        };
        let answers: Vec<Answer> = lines.iter().map(parse).collect::<Result<_, _>>()?;
        let own = answers.iter().map(|answer| answer.cpu_ns as f64 / 1e9).sum();
        let mut outcome = Outcome { answers, bytes: running.task.bytes, cpu_s: own, busy };
        if let (Some(meter), Some((start, end))) = (running.meter, outcome.span()) {
            outcome.cpu_s = meter.between(start, end);
        }
        Ok(outcome)
    }

    /// A task from start to end; wrong results and errors of ranks are errors here.
    ///
    /// # Errors
    /// As [`Self::begin`] and [`Self::end`]; also a wrong result or an error of a rank.
    pub fn run(&mut self, task: &Task) -> Result<Outcome, String> {
        let running = self.begin(task)?;
        self.end(running)?.checked()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.ranks.clear();
        for child in &mut self.processes {
            drop(child.stdin.take());
            if let Some(id) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                // Each leads its own group; one that has ended needs no end.
                let _ = kill_process_group(id, Signal::KILL);
            }
            let _ = child.wait();
        }
    }
}

/// A task under way.
pub struct Running {
    task: Task,
    deadline: Instant,
    cpu: Cpu,
    meter: Option<Meter>,
}
