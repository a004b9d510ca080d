//! Servers that were proposed for jobs of Slurm and are not held yet: they are proposed to nobody else for a while.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// No more proposals are remembered; the oldest is forgotten first.
const MOST: usize = 4096;

/// Servers that were proposed, the oldest first.
#[derive(Debug, Default)]
pub struct Promises(Vec<Promise>);

#[derive(Debug)]
struct Promise {
    servers: BTreeSet<String>,
    made: Instant,
    until: Instant,
}

impl Promises {
    /// Remembers servers for that long.
    pub fn add(&mut self, servers: &[String], now: Instant, lasts: Duration) {
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push(Promise { servers: servers.iter().cloned().collect(), made: now, until: now + lasts });
    }

    /// Keeps those for which Slurm has a job that waits for just these servers, given what it had when it was asked at `asked`. Whatever was
    /// proposed before and has no such job was refused, only tried, or is held by now.
    pub fn keep(&mut self, waiting: &[BTreeSet<String>], asked: Instant) {
        self.0.retain(|one| one.made >= asked || waiting.contains(&one.servers));
    }

    /// All servers that are promised at this time.
    pub fn servers(&self, now: Instant) -> BTreeSet<String> {
        self.0.iter().filter(|one| one.until > now).flat_map(|one| &one.servers).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split(',').map(str::to_owned).collect()
    }

    fn shown(all: &Promises, now: Instant) -> String {
        all.servers(now).into_iter().collect::<Vec<_>>().join(",")
    }

    #[test]
    fn servers_are_promised_while_their_job_waits_and_not_too_long() {
        let (mut all, begin) = (Promises::default(), Instant::now());
        let (lasts, second) = (Duration::from_secs(60), Duration::from_secs(1));
        all.add(&names("n0,n1"), begin, lasts);
        all.add(&names("n2"), begin + 2 * second, lasts);
        all.add(&names("n3,n4"), begin + 4 * second, lasts);
        // Slurm was asked after the first two: one of them still waits; another job has some of the other's servers.
        let waiting = [names("n1,n0"), names("n2,n3")].map(|list| list.into_iter().collect());
        all.keep(&waiting, begin + 3 * second);
        assert_eq!(shown(&all, begin + 5 * second), "n0,n1,n3,n4");
        assert_eq!(shown(&all, begin + lasts), "n3,n4");
        all.keep(&[], begin + 5 * second);
        assert_eq!(shown(&all, begin + 5 * second), "");
    }

    #[test]
    fn there_is_a_bound() {
        let mut all = Promises::default();
        let begin = Instant::now();
        for number in 0..=MOST {
            all.add(&[format!("n{number}")], begin, Duration::from_secs(1));
        }
        let servers = all.servers(begin);
        assert!(servers.len() == MOST && !servers.contains("n0"));
    }
}
