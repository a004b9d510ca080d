//! What seeds have summed up to, also as a line from one process to another.

use crate::report::Report;

/// Sums over the reports of all seeds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// Seeds that were run.
    pub seeds: u64,
    /// Of these, run twice and found identical.
    pub twice: u64,
    /// Events of all runs together.
    pub events: u64,
    /// Simulated milliseconds of all runs together.
    pub simulated_ms: u64,
    /// Faults that began in all runs together.
    pub faults: u64,
    /// Submits that were acknowledged.
    pub acknowledged: u64,
    /// Calls that clients made, repeated ones too.
    pub calls: u64,
    /// Transactions that etcd committed.
    pub commits: u64,
    /// Times that a controller began to lead.
    pub take_overs: u64,
    /// Of the slowest seed, from its last fault until all had settled.
    pub slowest_ms: u64,
    /// Failing seeds, and why.
    pub failed: Vec<(u64, String)>,
}

impl Sums {
    /// Takes in a report.
    pub fn add(&mut self, report: &Report) {
        self.merge(Self {
            seeds: 1,
            twice: 0,
            events: report.events,
            simulated_ms: report.simulated_ms,
            faults: report.faults,
            acknowledged: report.acknowledged,
            calls: report.calls,
            commits: report.commits,
            take_overs: report.take_overs,
            slowest_ms: report.settled_ms,
            failed: Vec::new(),
        });
    }

    /// Takes in what others have summed up.
    pub fn merge(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.twice += other.twice;
        self.events += other.events;
        self.simulated_ms += other.simulated_ms;
        self.faults += other.faults;
        self.acknowledged += other.acknowledged;
        self.calls += other.calls;
        self.commits += other.commits;
        self.take_overs += other.take_overs;
        self.slowest_ms = self.slowest_ms.max(other.slowest_ms);
        self.failed.extend(other.failed);
    }

    fn numbers(&mut self) -> [&mut u64; 10] {
        [
            &mut self.seeds,
            &mut self.twice,
            &mut self.events,
            &mut self.simulated_ms,
            &mut self.faults,
            &mut self.acknowledged,
            &mut self.calls,
            &mut self.commits,
            &mut self.take_overs,
            &mut self.slowest_ms,
        ]
    }

    /// For another process: numbers, then a line for each failing seed.
    #[must_use]
    pub fn line(&self) -> String {
        let mut sums = self.clone();
        let mut text = sums.numbers().map(|number| number.to_string()).join(" ");
        for (seed, why) in &self.failed {
            text.push_str(&format!("\n{seed} {}", why.escape_default()));
        }
        text
    }

    /// Reads the line that [`Sums::line`] wrote; `None` if it is none.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mut sums = Self::default();
        let mut lines = text.lines();
        let mut words = lines.next()?.split(' ');
        for number in sums.numbers() {
            *number = words.next()?.parse().ok()?;
        }
        for line in lines {
            let (seed, why) = line.split_once(' ')?;
            sums.failed.push((seed.parse().ok()?, why.to_owned()));
        }
        Some(sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_read_back() {
        let failed = vec![(7, "it is lost".to_owned())];
        let sums = Sums { seeds: 3, slowest_ms: 9, failed, ..Sums::default() };
        assert_eq!(Sums::read(&sums.line()), Some(sums));
        assert_eq!(Sums::read("1 2 x"), None);
    }
}
