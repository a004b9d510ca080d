//! The servers that a job which is being submitted to Slurm may have, of those that Railyard knows.

use std::collections::BTreeSet;

use proto_model::Names;

use super::question::Question;

/// As many names as a job may give, of servers that it may have or may not have (`JobSpec`).
const NAMED: usize = 4096;

/// What is known of servers.
#[derive(Debug, Default)]
pub struct Servers {
    /// Those that Railyard has.
    pub ours: BTreeSet<String>,
    /// Those on which Slurm starts nothing.
    pub down: BTreeSet<String>,
}

/// Servers that a job may have.
#[derive(Debug, PartialEq, Eq)]
pub struct Candidates {
    /// At any time.
    pub ever: BTreeSet<String>,
    /// Now.
    pub now: BTreeSet<String>,
}

impl Servers {
    /// Servers for a job, without those that are promised to others. Slurm's lists may name servers that Railyard does not have, or cannot name.
    ///
    /// # Errors
    /// A list is none.
    pub fn candidates(&self, question: &Question, promised: &BTreeSet<String>) -> Result<Candidates, String> {
        let among = named(&question.among)?;
        let exclude = named(&question.exclude)?;
        let is_one =
            |name: &&String| (question.among.is_empty() || among.contains(*name)) && !exclude.contains(*name);
        let ever: BTreeSet<String> = self.ours.iter().filter(is_one).cloned().collect();
        let is_free = |name: &&String| !self.down.contains(*name) && !promised.contains(*name);
        let now = ever.iter().filter(is_free).cloned().collect();
        Ok(Candidates { ever, now })
    }

    /// The same as a job says it: the only servers that it may have, or those that it does not want, whichever are fewer; neither where it may have
    /// all. None where both are too many.
    #[must_use]
    pub fn said(&self, may: &BTreeSet<String>) -> Option<(Vec<String>, Vec<String>)> {
        let not: Vec<&String> = self.ours.difference(may).collect();
        if not.is_empty() {
            return Some((Vec::new(), Vec::new()));
        }
        if may.len() <= not.len() && may.len() <= NAMED {
            return Some((vec![Names::of(may).to_string()], Vec::new()));
        }
        (not.len() <= NAMED).then(|| (Vec::new(), vec![Names::of(not).to_string()]))
    }
}

/// The names of Slurm's lists, such as `n[0-3],n7`.
///
/// # Errors
/// A list is none.
pub fn named(lists: &[String]) -> Result<BTreeSet<String>, String> {
    let mut all = BTreeSet::new();
    for list in lists {
        let names = Names::new(list).map_err(|error| format!("`{list}`: {error}"))?;
        all.extend(names.iter());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &str) -> BTreeSet<String> {
        named(&[list.to_owned()]).unwrap()
    }

    fn asked(among: &[&str], exclude: &[&str]) -> Question {
        let owned = |lists: &[&str]| lists.iter().map(|&list| list.to_owned()).collect();
        Question { nodes: 2, among: owned(among), exclude: owned(exclude), account: None }
    }

    #[test]
    fn a_server_that_is_named_twice_foreign_down_or_promised_is_no_candidate() {
        let servers = Servers { ours: set("n[0-7]"), down: set("n1,GPU_old1") };
        // n1 is down and excluded; n9 and Login_1 are Slurm's alone.
        let question = asked(&["n[0-5],n9,Login_1"], &["n1", "n1,n2"]);
        let found = servers.candidates(&question, &set("n4")).unwrap();
        assert_eq!(found, Candidates { ever: set("n0,n[3-5]"), now: set("n0,n3,n5") });
        let all = servers.candidates(&asked(&[], &[]), &BTreeSet::new()).unwrap();
        assert_eq!((all.ever, all.now), (set("n[0-7]"), set("n0,n[2-7]")));
        assert!(servers.candidates(&asked(&["n[0-"], &[]), &BTreeSet::new()).is_err());
    }

    #[test]
    fn the_shorter_list_is_said() {
        let servers = Servers { ours: set("n[0-9999]"), down: BTreeSet::new() };
        let said = |may: &str| {
            let (only, not) = servers.said(&set(may))?;
            Some((named(&only).unwrap(), named(&not).unwrap()))
        };
        assert_eq!(said("n[0-9999]"), Some((BTreeSet::new(), BTreeSet::new())));
        assert_eq!(said("n[0-99]"), Some((set("n[0-99]"), BTreeSet::new())));
        assert_eq!(said("n[0-9989]"), Some((BTreeSet::new(), set("n[9990-9999]"))));
        assert_eq!(said("n[0-4999]"), None);
    }
}
