//! How this agent runs ranks: as which user, and how kept apart. Found once, when it starts.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use node_agent_attempt::{layout::DataDir, supervisor_config::SupervisorConfig};
use node_agent_core::Key;
use node_agent_os::files;
use node_agent_rank::{
    cgroup::cpus,
    ids::Ids,
    isolation::{
        Isolation, devices,
        plan::{Identity, plan},
        view::{Access, view},
    },
    privileges::RankLimits,
    probe::{Trial, probe},
    program,
    uids::UidRange,
    user::{RankUser, RankUserError},
};
use proto_model::{Inventory, IsolationState};

use super::recover;
use crate::{agent::error::AgentError, rank_arguments::RankArguments};

/// A rank shares no more with its engine unless it is said.
const ENGINE_MEMORY_MAX: u64 = 8 << 30;
/// What is taken for a server's memory where it is not known.
const MEMORY_UNKNOWN: u64 = 8 << 30;

/// The user that ranks run as.
#[derive(Debug, Clone)]
pub(crate) enum Whom {
    /// The agent's own user.
    Agent,
    /// One user for the ranks of all attempts.
    Shared(RankUser),
    /// A user of its own for each attempt, with an id of this range.
    PerAttempt(UidRange),
}

/// How ranks are run here.
#[derive(Debug)]
pub(crate) struct RankSetup {
    whom: Whom,
    /// How they are kept apart.
    pub isolation: Isolation,
    /// What of that is absent, and why.
    pub features: Vec<IsolationState>,
    /// What their processes may use.
    pub limits: RankLimits,
    engine_memory: Option<u64>,
    /// The program that starts them, where it is not the agent's own.
    pub starter: Option<PathBuf>,
}

impl RankSetup {
    /// Whom the ranks of an attempt run as that has this id of its own, and these device files of GPUs: it is in the groups that those
    /// belong to.
    pub(crate) fn user(&self, uid: Option<u32>, gpu_files: &[PathBuf]) -> Option<RankUser> {
        match (&self.whom, uid) {
            (Whom::Shared(user), _) => Some(user.clone()),
            (Whom::PerAttempt(_), Some(uid)) => {
                let mut groups: BTreeSet<u32> = devices::groups(gpu_files);
                groups.extend(&self.isolation.device_groups);
                Some(own_user(uid, &groups.into_iter().collect::<Vec<_>>()))
            }
            (Whom::PerAttempt(_), None) | (Whom::Agent, _) => None,
        }
    }

    /// Bytes of buffers that a rank may share with its engine.
    pub(crate) fn engine_memory(&self, inventory: &Inventory) -> u64 {
        let ranks = inventory.gpus.len().max(1) as u64;
        self.engine_memory.unwrap_or_else(|| engine_memory(inventory.memory_bytes, ranks))
    }
}

/// A rank's part of half of the memory.
fn engine_memory(memory: u64, ranks: u64) -> u64 {
    let memory = if memory == 0 { MEMORY_UNKNOWN } else { memory };
    (memory / 2 / ranks.max(1)).min(ENGINE_MEMORY_MAX)
}

fn own_user(uid: u32, groups: &[u32]) -> RankUser {
    let groups = std::iter::once(uid).chain(groups.iter().copied()).collect();
    RankUser { ids: Ids { uid, gid: uid, groups }, name: format!("rail-{uid}"), home: "/".into() }
}

/// Finds out which user ranks run as, and how they can be kept apart on this server.
///
/// # Errors
/// Ranks cannot run as it was asked.
pub(crate) fn arrange(
    arguments: &RankArguments,
    data: &DataDir,
    program: &Path,
    engine: &Path,
) -> Result<RankSetup, AgentError> {
    let (whom, identity) = whom(arguments)?;
    let starter = starter(program);
    let sample = match &whom {
        Whom::Agent => None,
        Whom::Shared(user) => {
            data.admit(&user.ids)?;
            Some(user.clone())
        }
        Whom::PerAttempt(range) => {
            data.admit_all()?;
            Some(own_user(range.first(), &arguments.rank_groups))
        }
    };
    if data.has_guests() {
        data.admit_guests()?;
    }
    let policy = arguments.policy(memory());
    let ids = sample.as_ref().map(|user| user.ids.clone());
    let needed = [engine.to_owned(), data.jobs_dir()];
    let trial = Trial {
        view: view(data.root(), &needed, ids.as_ref(), Access::of),
        ids,
        argv: vec![engine.display().to_string(), "--version".to_owned()],
        starter: starter.clone(),
        ..Trial::default()
    };
    let facts = probe(program, identity, &policy, &trial);
    let (isolation, features) = plan(&facts, &policy);
    if let Some(user) = sample.filter(|_| !isolation.namespaces.mount) {
        user.check(starter.as_deref().unwrap_or(program), engine, &data.jobs_dir())?;
    }
    say(&whom, &features);
    let engine_memory = arguments.rank_engine_memory;
    Ok(RankSetup { whom, isolation, features, limits: arguments.limits(), engine_memory, starter })
}

/// The small program that starts ranks; without it the agent's own does.
fn starter(agent: &Path) -> Option<PathBuf> {
    let found = program::beside(agent);
    if let Err(why) = &found {
        tracing::info!("ranks are started by rail-node-agent itself, which takes longer: {why}");
    }
    found.ok()
}

/// `rail-node-agent isolation`: for people. What a rank would run is `/bin/true`.
///
/// # Errors
/// Ranks cannot run as it is asked.
pub fn print(arguments: &RankArguments) -> Result<(), AgentError> {
    let (whom, identity) = whom(arguments)?;
    let ids = match whom {
        Whom::Agent => None,
        Whom::Shared(user) => Some(user.ids),
        Whom::PerAttempt(range) => Some(own_user(range.first(), &arguments.rank_groups).ids),
    };
    let policy = arguments.policy(memory());
    let trial = Trial { ids, argv: vec!["/bin/true".to_owned()], ..Trial::default() };
    let (_, features) = plan(&probe(&std::env::current_exe()?, identity, &policy, &trial), &policy);
    for state in features {
        let mark = if state.active { "active" } else { "absent" };
        let fix = if state.fix.is_empty() { String::new() } else { format!(" ({})", state.fix) };
        println!("{:18} {mark}  {}{fix}", state.feature.as_str(), state.reason);
    }
    Ok(())
}

fn whom(arguments: &RankArguments) -> Result<(Whom, Identity), AgentError> {
    let root = rustix::process::geteuid().is_root();
    if let Some(range) = arguments.rank_uids {
        if !root {
            return Err(RankUserError::RangeNotRoot(range).into());
        }
        let etc = Path::new("/etc");
        range.check_accounts(etc).map_err(RankUserError::Range)?;
        for owner in range.subordinate_owners(etc, &["rail", "railyard", "root"]) {
            tracing::warn!(%range, owner, "/etc/subuid or /etc/subgid lets somebody else make processes of these ids");
        }
        return Ok((Whom::PerAttempt(range), Identity::PerAttempt));
    }
    if let Some(asked) = &arguments.rank_user {
        return Ok(match RankUser::find(asked)? {
            Some(user) => (Whom::Shared(user), Identity::Shared),
            None => (Whom::Agent, Identity::Agent),
        });
    }
    match (root, arguments.ranks_as_root) {
        (false, _) => Ok((Whom::Agent, Identity::Agent)),
        (true, true) => Ok((Whom::Agent, Identity::Root)),
        (true, false) => Err(RankUserError::AsRoot.into()),
    }
}

fn say(whom: &Whom, features: &[IsolationState]) {
    match whom {
        Whom::Agent if rustix::process::geteuid().is_root() => {
            tracing::warn!("jobs run as root, as --ranks-as-root says: every tenant owns this server");
        }
        Whom::Agent => tracing::info!("jobs run as the agent's own user"),
        Whom::Shared(user) => {
            tracing::info!(user = user.name, uid = user.ids.uid, gid = user.ids.gid, "jobs run as this user");
        }
        Whom::PerAttempt(range) => tracing::info!(%range, "each attempt has a user of its own"),
    }
    for absent in features.iter().filter(|feature| !feature.active && !feature.fix.is_empty()) {
        tracing::warn!(
            feature = absent.feature.as_str(),
            reason = absent.reason,
            fix = absent.fix,
            "ranks are not kept apart by this"
        );
    }
}

/// This server's memory in bytes.
fn memory() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram.saturating_mul(u64::from(info.mem_unit).max(1))
}

/// The users that attempts have of their own. What an attempt's brief says is what counts: it is written before anything of the attempt is
/// started, and stays until nothing of it is left.
#[derive(Debug, Default)]
pub(crate) struct GivenUids {
    by_attempt: BTreeMap<Key, u32>,
    last: Option<u32>,
}

impl GivenUids {
    /// Those that an agent before this one gave.
    pub(crate) fn read(data: &DataDir) -> Self {
        let given = data.jobs().into_iter().filter_map(|(key, dir)| Some((key, recover::own_uid(&dir)?)));
        let by_attempt: BTreeMap<Key, u32> = given.collect();
        let last = by_attempt.values().copied().max();
        Self { by_attempt, last }
    }

    /// An id for an attempt, where attempts have ids of their own.
    ///
    /// # Errors
    /// All are in use.
    pub(crate) fn give(&mut self, setup: &RankSetup, key: Key) -> Result<Option<u32>, String> {
        let Whom::PerAttempt(range) = setup.whom else { return Ok(None) };
        // Whatever runs as one of them although no attempt is known to: a record was lost, or somebody else uses the range.
        let mut in_use: BTreeSet<u32> = range.running();
        in_use.extend(self.by_attempt.values());
        let free = range.free(&in_use, self.last).ok_or_else(|| {
            format!(
                "all {} ids of --rank-uids {range} are in use on this server; give a longer range",
                range.count()
            )
        })?;
        self.by_attempt.insert(key, free);
        self.last = Some(free);
        Ok(Some(free))
    }

    /// Nothing of the attempt is left.
    pub(crate) fn take_back(&mut self, key: Key) {
        self.by_attempt.remove(&key);
    }
}

/// The CPUs that attempts have of their own. What an attempt's brief says is what counts, as of users.
#[derive(Debug, Default)]
pub(crate) struct GivenCpus(BTreeMap<Key, BTreeSet<u32>>);

impl GivenCpus {
    /// Those that an agent before this one gave.
    pub(crate) fn read(data: &DataDir) -> Self {
        let mut given = Self::default();
        for (key, dir) in data.jobs() {
            if let Ok(Some(supervisor_config)) =
                files::read_json::<SupervisorConfig>(&dir.supervisor_config())
            {
                given.give(key, &supervisor_config);
            }
        }
        given
    }

    /// Records the CPUs that an attempt has when it begins.
    pub(crate) fn give(&mut self, key: Key, supervisor_config: &SupervisorConfig) {
        if let Some(list) = supervisor_config.limits.cpus.as_ref().filter(|_| supervisor_config.own_cpus) {
            self.0.insert(key, cpus::listed(list));
        }
    }

    /// All that are some attempt's alone.
    pub(crate) fn all(&self) -> BTreeSet<u32> {
        self.0.values().flatten().copied().collect()
    }

    /// Nothing of the attempt is left.
    pub(crate) fn take_back(&mut self, key: Key) {
        self.0.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_ranks_part_of_memory_follows_from_the_server() {
        assert_eq!(engine_memory(2 << 40, 8), 8 << 30);
        assert_eq!(engine_memory(64 << 30, 8), 4 << 30);
        assert_eq!(engine_memory(0, 1), 4 << 30);
        assert_eq!(engine_memory(16 << 30, 0), 8 << 30);
    }

    #[test]
    fn ids_are_known_after_a_restart_and_free_when_nothing_is_left() {
        let home = tempfile::tempdir().unwrap();
        let data = DataDir::open(home.path()).unwrap();
        let range: UidRange = "3000000-3000001".parse().unwrap();
        let setup = RankSetup {
            whom: Whom::PerAttempt(range),
            isolation: Isolation::default(),
            features: Vec::new(),
            limits: RankLimits::default(),
            engine_memory: None,
            starter: None,
        };
        let key = |attempt| Key { uid: proto_model::JobUid::from_random([7; 16]), attempt };
        let mut given = GivenUids::read(&data);
        assert_eq!(given.give(&setup, key(1)), Ok(Some(3_000_000)));
        let dir = data.job(key(1));
        dir.make().unwrap();
        let supervisor_config = format!(
            r#"{{"node":"n","engine":"/e","library":null,"environment":{{}},"log_bytes":1,"cgroups":false,"own_uid":true,
                "rank_user":{{"ids":{{"uid":{0},"gid":{0},"groups":[]}},"name":"x","home":"/"}}}}"#,
            3_000_000
        );
        fs::write(dir.supervisor_config(), supervisor_config).unwrap();
        let mut again = GivenUids::read(&data);
        assert_eq!(again.give(&setup, key(2)), Ok(Some(3_000_001)));
        assert!(again.give(&setup, key(3)).unwrap_err().contains("all 2 ids"));
        again.take_back(key(1));
        assert_eq!(again.give(&setup, key(3)), Ok(Some(3_000_000)));
    }

    #[test]
    fn cpus_that_an_attempt_has_alone_are_known_to_the_next_agent() {
        let home = tempfile::tempdir().unwrap();
        let data = DataDir::open(home.path()).unwrap();
        let key = |attempt| Key { uid: proto_model::JobUid::from_random([7; 16]), attempt };
        for (attempt, own) in [(1, true), (2, false)] {
            let dir = data.job(key(attempt));
            dir.make().unwrap();
            let supervisor_config = format!(
                r#"{{"node":"n","engine":"/e","library":null,"environment":{{}},"log_bytes":1,"cgroups":true,"own_cpus":{own},
                    "limits":{{"cpus":"2-3,18"}}}}"#
            );
            fs::write(dir.supervisor_config(), supervisor_config).unwrap();
        }
        let mut given = GivenCpus::read(&data);
        assert_eq!(given.all(), [2, 3, 18].into());
        given.take_back(key(1));
        assert!(given.all().is_empty());
    }
}
