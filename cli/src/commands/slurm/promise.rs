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
    until: Instant,
}

impl Promises {
    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Remembers servers for that long.
    pub fn add(&mut self, servers: &[String], now: Instant, lasts: Duration) {
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push(Promise { servers: servers.iter().cloned().collect(), until: now + lasts });
    }

    /// Forgets those whose time is over, and one for each list of servers that is held by now.
    pub fn settle(&mut self, held: &[Vec<String>], now: Instant) {
        self.0.retain(|one| one.until > now);
        for servers in held {
            let is = |one: &Promise| {
                one.servers.len() == servers.len()
                    && servers.iter().all(|server| one.servers.contains(server))
            };
            if let Some(at) = self.0.iter().position(is) {
                self.0.remove(at);
            }
        }
    }

    /// All servers that are promised.
    pub fn servers(&self) -> BTreeSet<String> {
        self.0.iter().flat_map(|one| &one.servers).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn servers_are_promised_until_they_are_held_or_too_long_ago() {
        let (mut all, begin) = (Promises::default(), Instant::now());
        let lasts = Duration::from_secs(60);
        all.add(&names("n0,n1"), begin, lasts);
        all.add(&names("n2"), begin + Duration::from_secs(30), lasts);
        // A job that has some of them, and others, is another one.
        all.settle(&[names("n0"), names("n1,n2")], begin + Duration::from_secs(31));
        assert_eq!(all.servers().into_iter().collect::<Vec<_>>(), names("n0,n1,n2"));
        all.settle(&[names("n1,n0")], begin + Duration::from_secs(32));
        assert_eq!(all.servers().into_iter().collect::<Vec<_>>(), names("n2"));
        all.settle(&[], begin + Duration::from_secs(89));
        assert!(!all.is_empty());
        all.settle(&[], begin + Duration::from_secs(90));
        assert!(all.is_empty());
    }

    #[test]
    fn there_is_a_bound() {
        let mut all = Promises::default();
        let begin = Instant::now();
        for number in 0..=MOST {
            all.add(&[format!("n{number}")], begin, Duration::from_secs(1));
        }
        assert_eq!(all.servers().len(), MOST);
        assert!(!all.servers().contains("n0"));
    }
}
