//! A benchmark rank that stays: it does what each line on standard input says and answers with one line of JSON.
//!
//! A bench that compares several libraries keeps their ranks alive side by side, so that their repetitions can alternate
//! within the same minute; every library's rank program speaks these lines. `bytes=1048576 iterations=10 warmup=2 verify=0
//! staged=0
//! inplace=0` asks for ten timed all-reduces of f32 sums; the answer holds the monotonic clock before and after each.
//! Unverified repetitions follow each other at once, as in a training step; verified ones are filled and checked between.

use std::io::{BufRead as _, Write as _};

use node_agent_client::{Attach, Client, Error, OpKind, ReduceOp};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::{
    error::BenchError,
    options::{MAX_REPETITIONS, Options},
    rank::Bench,
};

/// One line of standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Task {
    options: Options,
    /// Operands lie in the rank's own memory, not in shared buffers.
    staged: bool,
}

/// The outcome of a task on this rank.
#[derive(Debug, Default, Serialize)]
struct Answer {
    /// Monotonic clock at each post, in nanoseconds.
    start: Vec<u64>,
    /// Monotonic clock at each completion, in nanoseconds.
    end: Vec<u64>,
    /// Elements that were wrong.
    bad: i64,
    /// Processor time of this process during the timed repetitions, in nanoseconds.
    cpu_ns: u64,
    /// Why it did not end well; the times are those of the repetitions before.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Serves until standard input ends.
pub(super) fn serve() -> Result<(), BenchError> {
    let client = Client::attach(&Attach::from_env()?)?;
    for line in std::io::stdin().lock().lines() {
        let answer = match line.as_deref().map(parse) {
            Ok(Ok(task)) => perform(&client, &task),
            Ok(Err(text)) => Answer { error: Some(text), ..Answer::default() },
            Err(_) => break,
        };
        let text = serde_json::to_string(&answer).unwrap_or_default();
        // Whoever asked may be gone; then standard input has ended as well.
        let _ = writeln!(std::io::stdout(), "{text}");
    }
    client.detach()?;
    Ok(())
}

fn parse(line: &str) -> Result<Task, String> {
    let mut options = Options {
        op: OpKind::AllReduce,
        bytes: 0,
        dtype: node_agent_client::Dtype::F32,
        reduce: ReduceOp::Sum,
        iterations: 1,
        warmup: 0,
        verify: false,
        in_place: false,
        ordinary: false,
    };
    let mut staged = false;
    for word in line.split_whitespace() {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("'{word}' is not key=value"))?;
        let number: u64 = value.parse().map_err(|error| format!("{word}: {error}"))?;
        let count = || u32::try_from(number.min(MAX_REPETITIONS.unsigned_abs())).unwrap_or(u32::MAX);
        match key {
            "bytes" => options.bytes = number,
            "iterations" => options.iterations = count(),
            "warmup" => options.warmup = count(),
            "verify" => options.verify = number != 0,
            "staged" => staged = number != 0,
            "inplace" => options.in_place = number != 0,
            // Meant for libraries that need help to use several rails.
            "split" => {}
            _ => return Err(format!("there is no '{key}'")),
        }
    }
    Ok(Task { options, staged })
}

fn perform(client: &Client, task: &Task) -> Answer {
    let mut answer = Answer::default();
    let result =
        if task.staged { staged(client, task, &mut answer) } else { shared(client, task, &mut answer) };
    answer.error = result.err().map(|error| error.to_string());
    answer
}

fn shared(client: &Client, task: &Task, answer: &mut Answer) -> Result<(), Error> {
    let options = &task.options;
    let bench = Bench::new(client, options)?;
    for round in 0..options.warmup {
        bench.prepare(round)?;
        bench.once()?;
    }
    client.barrier()?;
    let before = now(ClockId::ProcessCPUTime);
    for round in options.warmup..options.warmup + options.iterations {
        bench.prepare(round)?;
        let start = now(ClockId::Monotonic);
        bench.once()?;
        answer.start.push(start);
        answer.end.push(now(ClockId::Monotonic));
        if options.verify {
            answer.bad += bench.check(round)?;
        }
    }
    answer.cpu_ns = now(ClockId::ProcessCPUTime).saturating_sub(before);
    Ok(())
}

/// Any memory: what a caller has who knows nothing of shared buffers.
fn staged(client: &Client, task: &Task, answer: &mut Answer) -> Result<(), Error> {
    let options = &task.options;
    let count = usize::try_from(options.bytes / 4).unwrap_or(usize::MAX);
    let input = |at: usize, rank: u32| ((at % 97 + 1) as f32) * (rank + 1) as f32;
    let mut values = vec![0.0_f32; count];
    for _ in 0..options.warmup {
        client.all_reduce(&mut values, ReduceOp::Sum)?;
    }
    client.barrier()?;
    let before = now(ClockId::ProcessCPUTime);
    for _ in 0..options.iterations {
        if options.verify {
            (0..).zip(&mut values).for_each(|(at, value)| *value = input(at, client.rank()));
        }
        let start = now(ClockId::Monotonic);
        client.all_reduce(&mut values, ReduceOp::Sum)?;
        answer.start.push(start);
        answer.end.push(now(ClockId::Monotonic));
        if options.verify {
            let expected = |at: usize| (0..client.size()).map(|rank| input(at, rank)).sum::<f32>();
            let wrong = (0..).zip(&values).filter(|(at, value)| value.to_bits() != expected(*at).to_bits());
            answer.bad += i64::try_from(wrong.count()).unwrap_or(i64::MAX);
        }
    }
    answer.cpu_ns = now(ClockId::ProcessCPUTime).saturating_sub(before);
    Ok(())
}

fn now(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood_or_refused_with_their_word() {
        let task = parse("bytes=4096 iterations=3 warmup=1 verify=1 split=4 staged=1").unwrap();
        assert_eq!((task.options.bytes, task.options.iterations, task.options.warmup), (4096, 3, 1));
        assert!(task.options.verify && task.staged);
        assert!(parse("bytes=many").unwrap_err().contains("bytes=many"));
        assert!(parse("dance=1").unwrap_err().contains("dance"));
        assert!(parse("verify").unwrap_err().contains("verify"));
    }
}
