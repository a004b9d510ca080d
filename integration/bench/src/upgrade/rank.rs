//! A rank of a job that outlives an upgrade: one all-reduce after the other, each element of each result checked; and what its lines say.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use node_agent_client::{Client, ReduceOp};

use crate::{command_job::text, report::monotonic_ns};

/// Elements of one operation.
const ELEMENTS: usize = 16 * 1024;
/// Values are small enough that all sums are exact.
const VALUES: u64 = 64;
/// Between two operations, so that there is time for others on this machine.
const PAUSE: Duration = Duration::from_millis(50);

/// `upgrade-rank`.
#[derive(clap::Args)]
pub struct Rank {
    /// Where ranks write. They end, all after the same operation, when there is a file `stop`, or the folder is gone.
    #[arg(long)]
    dir: PathBuf,
}

/// What one rank adds in round `round`, as element `at`.
fn value(at: usize, rank: u32, round: u64) -> f32 {
    ((at as u64 + u64::from(rank) + round) % VALUES) as f32
}

impl Rank {
    /// Runs until it is told to stop.
    ///
    /// # Errors
    /// An operation fails, or gives what is not the sum.
    pub fn run(&self) -> Result<(), String> {
        let number = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
        let (uid, attempt, rank) = (number("RAIL_JOB_UID")?, number("RAIL_ATTEMPT")?, number("RANK")?);
        let path = self.dir.join(format!("{uid}.{rank}"));
        let mut file = File::options().create(true).append(true).open(path).map_err(text)?;
        writeln!(file, "start {attempt} {}", std::process::id()).map_err(text)?;
        let done = self.rounds(&mut file);
        let last = match &done {
            Ok(()) => "end".to_owned(),
            Err(error) => format!("error {error}"),
        };
        writeln!(file, "{last}").map_err(text)?;
        done
    }

    fn rounds(&self, file: &mut File) -> Result<(), String> {
        let client = Client::from_env().map_err(text)?;
        let (rank, size) = (client.rank(), client.size());
        for round in 0.. {
            let stop = !self.dir.exists() || self.dir.join("stop").exists();
            let mut values: Vec<f32> = (0..ELEMENTS).map(|at| value(at, rank, round)).collect();
            // All have to know it in the same round.
            values[0] = f32::from(u8::from(stop));
            client.all_reduce(&mut values, ReduceOp::Sum).map_err(text)?;
            let wrong = (1..ELEMENTS).find(|at| {
                let sum: f32 = (0..size).map(|rank| value(*at, rank, round)).sum();
                values[*at].to_bits() != sum.to_bits()
            });
            if let Some(at) = wrong {
                return Err(format!("element {at} of round {round} is {}", values[at]));
            }
            writeln!(file, "{round} {}", monotonic_ns()).map_err(text)?;
            if values[0] > 0.0 {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        client.detach().map_err(text)
    }
}

/// What the ranks of all jobs have written.
#[derive(Debug, Default)]
pub struct Seen {
    /// Ranks that have written anything.
    pub ranks: u64,
    /// Those that began more than once, did not end well, or have left a round out; with the first thing that is wrong with one.
    pub disturbed: u64,
    pub first: Option<String>,
    /// Rounds of all ranks.
    pub rounds: u64,
    /// The longest time between two rounds, in milliseconds.
    pub gap_ms: f64,
}

/// Reads all of it. `ended`: the ranks were told to stop, and their jobs have ended.
///
/// # Errors
/// The folder cannot be read.
pub fn read(dir: &Path, ended: bool) -> Result<Seen, String> {
    let mut seen = Seen::default();
    for entry in fs::read_dir(dir).map_err(text)? {
        let path = entry.map_err(text)?.path();
        if path.file_name().is_some_and(|name| name == "stop") {
            continue;
        }
        let lines = fs::read_to_string(&path).map_err(text)?;
        seen.ranks += 1;
        let (rounds, gap_ns, wrong) = judge(&lines, ended);
        seen.rounds += rounds;
        seen.gap_ms = seen.gap_ms.max(gap_ns as f64 / 1e6);
        if let Some(wrong) = wrong {
            seen.disturbed += 1;
            seen.first.get_or_insert_with(|| format!("{}: {wrong}", path.display()));
        }
    }
    Ok(seen)
}

/// Rounds, the longest time between two, and what is wrong.
fn judge(lines: &str, ended: bool) -> (u64, u64, Option<String>) {
    let (mut starts, mut ends, mut rounds, mut gap, mut last) = (0, 0, 0, 0, None::<u64>);
    let mut wrong = None;
    for line in lines.lines() {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (first, first.parse::<u64>(), rest.parse::<u64>()) {
            ("start", ..) => starts += 1,
            ("end", ..) => ends += 1,
            (_, Ok(round), Ok(ns)) if round == rounds => {
                gap = gap.max(last.map_or(0, |last| ns.saturating_sub(last)));
                (rounds, last) = (rounds + 1, Some(ns));
            }
            _ => wrong = wrong.or_else(|| Some(format!("`{line}` after {rounds} rounds"))),
        }
    }
    if starts != 1 || ends != u64::from(ended) {
        wrong = wrong.or_else(|| Some(format!("{starts} starts and {ends} ends in {rounds} rounds")));
    }
    (rounds, gap, wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_began_again_or_left_out_or_did_not_end_is_disturbed() {
        let well = "start 1 77\n0 1000\n1 4000\n2 5000\nend\n";
        assert_eq!(judge(well, true), (3, 3000, None));
        assert!(judge(well, false).2.is_some(), "it was not told to end");
        for bad in [
            "start 1 77\n0 1000\nstart 2 78\n1 2000\nend\n",
            "start 1 77\n0 1000\n2 2000\nend\n",
            "start 1 77\n0 1000\nerror the engine is gone\n",
            "start 1 77\n0 1000\n",
            "",
        ] {
            assert!(judge(bad, true).2.is_some(), "{bad}");
        }
    }

    #[test]
    fn what_ranks_add_differs_by_rank_round_and_element() {
        assert_ne!(value(1, 0, 0), value(1, 1, 0));
        assert_ne!(value(1, 0, 0), value(1, 0, 1));
        assert_ne!(value(1, 0, 0), value(2, 0, 0));
    }
}
