//! Whom the ranks of a local cluster run as: the safest that works here, and what is missing where that is not much.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use super::{
    programs::Programs,
    spec::{Layout, Record},
};

/// Where ids of ranks begin, unless this process's own user namespace ends before.
const FIRST: u32 = 200_000;
/// Ids of a node: attempts at a time, and some that rest.
const PER_NODE: u32 = 64;
/// Clusters of one machine differ by their id: so many places for them.
const PLACES: u32 = 1024;
/// Whoever sets one of these has chosen for the agents, who inherit it.
const CHOSEN: [&str; 3] = ["RAIL_RANK_USER", "RAIL_RANK_UIDS", "RAIL_RANKS_AS_ROOT"];

/// Whom the ranks of the local cluster run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranks {
    /// The caller's own user, who is not root.
    Own,
    /// As the environment says, which the agents inherit.
    Chosen,
    /// A user of its own for each attempt; the first id of the cluster.
    Uids(u32),
    /// Root, because nothing better works here.
    Root(String),
}

/// What is true of this machine.
#[derive(Debug, Clone, Copy)]
struct Facts<'a> {
    root: bool,
    chosen: bool,
    /// Agents can make namespaces.
    namespaces: bool,
    /// The cluster's folder and programs, as far as they are closed to others.
    closed: Option<&'a Path>,
    /// Ids that exist for us: below this one.
    ids: u32,
    /// Ids that the cluster needs.
    needed: u32,
    /// Another one for each cluster.
    seed: u32,
}

impl Ranks {
    /// Looks at this machine and chooses.
    #[must_use]
    pub fn choose(programs: &Programs, layout: &Layout, record: &Record, nodes: usize) -> Self {
        let root = rustix::process::geteuid().is_root();
        let chosen = CHOSEN.iter().any(|name| std::env::var_os(name).is_some());
        let closed = [layout.dir.as_path(), programs.dir()].into_iter().find_map(closed);
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        choose(Facts {
            root,
            chosen,
            namespaces: root && !chosen && programs.has_namespaces(),
            closed: closed.as_deref(),
            ids: ids(&map),
            needed: nodes.saturating_mul(PER_NODE),
            seed: u32::from_str_radix(record.id.get(..8).unwrap_or_default(), 16).unwrap_or(0),
        })
    }

    /// The arguments for a node's agent.
    #[must_use]
    pub fn arguments(&self, node: u32) -> Vec<String> {
        match self {
            Self::Own | Self::Chosen => Vec::new(),
            Self::Uids(first) => {
                let first = first + node * PER_NODE;
                vec!["--rank-uids".to_owned(), format!("{first}-{}", first + PER_NODE - 1)]
            }
            Self::Root(_) => vec!["--ranks-as-root".to_owned()],
        }
    }

    /// The choice in words, for the messages of `dev up`.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Own => "jobs run as you: root gives each a user of its own".to_owned(),
            Self::Chosen => "jobs run as whom the environment says (RAIL_RANK_...)".to_owned(),
            Self::Uids(first) => format!("each job has a user of its own, from {first} on"),
            Self::Root(why) => format!("warning: jobs run as root: {why}"),
        }
    }
}

fn choose(facts: Facts<'_>) -> Ranks {
    if facts.chosen {
        return Ranks::Chosen;
    }
    if !facts.root {
        return Ranks::Own;
    }
    if let Some(closed) = facts.closed.filter(|_| !facts.namespaces) {
        return Ranks::Root(format!(
            "without namespaces other users must be able to enter {}; chmod o+x it, or give another --dir or --bin-dir",
            closed.display()
        ));
    }
    let room = facts.needed.saturating_mul(PLACES);
    let place = facts.needed * (facts.seed % PLACES);
    if facts.ids >= FIRST.saturating_add(room) {
        return Ranks::Uids(FIRST + place);
    }
    // Few ids, as in a container: above those that distributions give out, below `nobody`.
    let first = 30_000;
    if facts.ids >= 60_000 && facts.needed <= 30_000 {
        return Ranks::Uids(first + facts.needed * (facts.seed % (30_000 / facts.needed.max(1))));
    }
    Ranks::Root(format!(
        "this machine has {} user ids, {} would be needed above {first}; map more ids into this user namespace",
        facts.ids, facts.needed
    ))
}

/// The end of the first run of ids of a user namespace that begins at 0 (user_namespaces(7)).
fn ids(map: &str) -> u32 {
    let lines = map.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().map(str::parse::<u32>);
        let (inside, _, count) = (fields.next()?.ok()?, fields.next()?.ok()?, fields.next()?.ok()?);
        Some((inside, count))
    });
    let mut all: Vec<(u32, u32)> = lines.collect();
    all.sort_unstable();
    all.into_iter().fold(
        0,
        |end, (inside, count)| {
            if inside <= end { end.max(inside.saturating_add(count)) } else { end }
        },
    )
}

/// The first folder on the way to one that others may not enter.
fn closed(path: &Path) -> Option<std::path::PathBuf> {
    let mut above: Vec<&Path> = path.ancestors().collect();
    above.reverse();
    let is_closed = |path: &&Path| {
        fs::metadata(path).is_ok_and(|meta| meta.is_dir() && meta.permissions().mode() & 0o001 == 0)
    };
    above.into_iter().find(is_closed).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Facts<'_> = Facts {
        root: true,
        chosen: false,
        namespaces: true,
        closed: None,
        ids: u32::MAX,
        needed: 256,
        seed: 0x1234_5678,
    };

    #[test]
    fn the_safest_that_works_is_chosen_and_what_is_missing_is_said() {
        assert_eq!(choose(ALL), Ranks::Uids(FIRST + 256 * (0x1234_5678 % PLACES)));
        let closed = Some(Path::new("/root"));
        assert!(matches!(choose(Facts { closed, ..ALL }), Ranks::Uids(_)));
        let without = choose(Facts { closed, namespaces: false, ..ALL });
        assert!(without.words().contains("/root") && without.words().contains("chmod"), "{without:?}");
        assert_eq!(without.arguments(0), ["--ranks-as-root"]);
        assert!(matches!(choose(Facts { namespaces: false, ..ALL }), Ranks::Uids(_)));
        assert_eq!(choose(Facts { root: false, ..ALL }), Ranks::Own);
        assert_eq!(choose(Facts { chosen: true, ..ALL }), Ranks::Chosen);
        let few = choose(Facts { ids: 65_536, ..ALL });
        assert!(matches!(few, Ranks::Uids(first) if (30_000..60_000).contains(&first)), "{few:?}");
        assert!(matches!(choose(Facts { ids: 1000, ..ALL }), Ranks::Root(_)));
    }

    #[test]
    fn nodes_of_a_cluster_never_share_an_id() {
        let ranks = Ranks::Uids(200_000);
        assert_eq!(ranks.arguments(0), ["--rank-uids", "200000-200063"]);
        assert_eq!(ranks.arguments(2), ["--rank-uids", "200128-200191"]);
    }

    #[test]
    fn ids_are_counted_from_the_map() {
        assert_eq!(ids("         0          0 4294967295\n"), u32::MAX);
        assert_eq!(ids("0 100000 65536\n"), 65_536);
        assert_eq!(ids("1 100000 65536\n0 1000 1\n"), 65_537);
        assert_eq!(ids("1000 1000 1\n"), 0);
        assert_eq!(ids(""), 0);
    }
}
