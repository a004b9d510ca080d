//! Command line of `run` that is about ranks: whom they run as, how they are kept apart, what they may use.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use node_agent_rank::{isolation::plan::Policy, privileges::RankLimits, uids::UidRange};

/// What ranks reach beside their engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RankNetwork {
    /// This server's network.
    Host,
    /// Loopback alone; the engine's rails work all the same.
    None,
}

/// How ranks are run.
#[derive(Debug, Clone, Args)]
pub struct RankArguments {
    /// Give each attempt a user and group of its own from this range, FIRST-LAST. Needs an agent that runs as root
    ///
    /// Nobody else on this server may have these ids: enter the range in /etc/subuid and /etc/subgid for a name of its own
    /// (`railyard:200000:65536`), so that no tool gives them to anybody. An id is given again only when nothing of its attempt is left, and as
    /// late as can be. What ranks leave on file systems that servers share stays with the id: keep those to folders of jobs
    #[arg(long, env = "RAIL_RANK_UIDS", value_name = "FIRST-LAST", conflicts_with_all = ["rank_user", "ranks_as_root"])]
    pub rank_uids: Option<UidRange>,
    /// Run all ranks as this user: a name, a number, or UID:GID. Needs an agent that runs as root
    ///
    /// A job's program then can read neither this server's certificate key, nor the job's key in rail-engine, nor the
    /// agent's files and logs; its working directory and its result file are its own. Give a user that nothing else
    /// on this server uses. All jobs share it: give --rank-uids where tenants share servers.
    /// Default: the agent's own user, unless that is root
    #[arg(long, env = "RAIL_RANK_USER", value_name = "USER", conflicts_with = "ranks_as_root")]
    pub rank_user: Option<String>,
    /// Let an agent that runs as root start ranks as root. Every tenant then owns this server
    #[arg(long, env = "RAIL_RANKS_AS_ROOT")]
    pub ranks_as_root: bool,
    /// Groups that ranks of --rank-uids have beside their own and those of their GPUs' device files, by number
    #[arg(long, env = "RAIL_RANK_GROUPS", value_name = "GID", value_delimiter = ',')]
    pub rank_groups: Vec<u32>,
    /// Make no namespaces for attempts
    #[arg(long, env = "RAIL_NO_RANK_NAMESPACES")]
    pub no_rank_namespaces: bool,
    /// Refuse ranks no system calls
    #[arg(long, env = "RAIL_NO_RANK_SECCOMP")]
    pub no_rank_seccomp: bool,
    /// What ranks reach beside their engine
    #[arg(long, env = "RAIL_RANK_NETWORK", value_enum, default_value = "host")]
    pub rank_network: RankNetwork,
    /// Size of an attempt's own /tmp in bytes, and again of its /var/tmp; what is in there is memory
    #[arg(long, env = "RAIL_RANK_TMP_BYTES", value_name = "BYTES", default_value_t = 4 << 30)]
    pub rank_tmp_bytes: u64,
    /// Size of an attempt's own /dev/shm in bytes; default: half of this server's memory
    #[arg(long, env = "RAIL_RANK_SHM_BYTES", value_name = "BYTES")]
    pub rank_shm_bytes: Option<u64>,
    /// A file or folder of this server below /tmp, /var/tmp, or a folder closed to ranks, that they see all the same; may be given again
    #[arg(long, env = "RAIL_RANK_SHOW", value_name = "PATH", value_delimiter = ',')]
    pub rank_show: Vec<PathBuf>,
    /// Memory in bytes that a rank may share with rail-engine; default: its part of half of this server's memory, 8 GiB at most
    #[arg(long, env = "RAIL_RANK_ENGINE_MEMORY", value_name = "BYTES")]
    pub rank_engine_memory: Option<u64>,
    /// Open files that a process of a rank may have (RLIMIT_NOFILE)
    #[arg(long, env = "RAIL_RANK_OPEN_FILES", value_name = "COUNT", default_value_t = RankLimits::default().open_files)]
    pub rank_open_files: u64,
    /// Processes and threads that the ranks' user may have on this server (RLIMIT_NPROC)
    #[arg(long, env = "RAIL_RANK_PROCESSES", value_name = "COUNT", default_value_t = RankLimits::default().processes)]
    pub rank_processes: u64,
    /// Bytes that a process of a rank may lock in memory (RLIMIT_MEMLOCK)
    #[arg(long, env = "RAIL_RANK_LOCKED_BYTES", value_name = "BYTES", default_value_t = RankLimits::default().locked_bytes)]
    pub rank_locked_bytes: u64,
}

impl RankArguments {
    /// What the ranks' processes may use.
    #[must_use]
    pub fn limits(&self) -> RankLimits {
        RankLimits {
            open_files: self.rank_open_files,
            processes: self.rank_processes,
            locked_bytes: self.rank_locked_bytes,
        }
    }

    /// How ranks are to be kept apart on a server with so much memory.
    #[must_use]
    pub fn policy(&self, memory_bytes: u64) -> Policy {
        Policy {
            namespaces: !self.no_rank_namespaces,
            seccomp: !self.no_rank_seccomp,
            network: self.rank_network == RankNetwork::None,
            tmp_bytes: self.rank_tmp_bytes,
            shm_bytes: self.rank_shm_bytes.unwrap_or(memory_bytes / 2),
            shown: self.rank_show.clone(),
            device_groups: self.rank_groups.clone(),
        }
    }
}
