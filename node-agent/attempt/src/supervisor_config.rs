//! What the agent gives a supervisor besides the desired state, and what both make of it.

use std::{collections::BTreeMap, env, io, path::PathBuf, sync::Arc};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use node_agent_os::files;
use node_agent_qos::DataClass;
use node_agent_rank::{cgroup::limits::Limits, isolation::Isolation, privileges::RankLimits, user::RankUser};
use proto_model::{
    Assignment, DesiredState, Gpu, GpuPath, HiddenEnv, JobKey, JobSpec, NodeName, NodePlace, Placement,
    RankPlace,
};
use proto_wire::{
    convert::{env_values, env_values_to_wire},
    v1,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::layout::JobDir;

/// What the agent gives a supervisor in the file `supervisor_config.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SupervisorConfig {
    /// Name of this server.
    pub node: String,
    /// Path of the program `rail-engine`.
    pub engine: PathBuf,
    /// The program that starts ranks, where it is not the agent's own.
    #[serde(default)]
    pub starter: Option<PathBuf>,
    /// `librail.so`, where there is one.
    pub library: Option<PathBuf>,
    /// Environment variables for NCCL, for all ranks.
    pub environment: BTreeMap<String, String>,
    /// Bytes of one log file; a rank has two.
    pub log_bytes: u64,
    /// Whether ranks get control groups of their own.
    pub cgroups: bool,
    /// What the ranks may use of this server.
    #[serde(default)]
    pub limits: Limits,
    /// The CPUs of the limits are this attempt's alone.
    #[serde(default)]
    pub own_cpus: bool,
    /// Whom ranks run as; the agent's own user if none.
    #[serde(default)]
    pub rank_user: Option<RankUser>,
    /// That user is this attempt's alone: whatever runs as it belongs to the attempt.
    #[serde(default)]
    pub own_uid: bool,
    /// What the ranks' processes may use.
    #[serde(default)]
    pub rank_limits: RankLimits,
    /// How the attempt is kept apart.
    #[serde(default)]
    pub isolation: Isolation,
    /// The agent's folder, which ranks do not see.
    #[serde(default)]
    pub data: PathBuf,
    /// Device files of the job's GPUs.
    #[serde(default)]
    pub gpu_files: Vec<PathBuf>,
    /// Bytes of buffers that a rank may share with its engine; the engine's own bound if none.
    #[serde(default)]
    pub engine_memory: Option<u64>,
    /// What was found of this server's GPUs that the job holds.
    #[serde(default)]
    pub gpus: Vec<GpuSummary>,
    /// CUDA's names of the job's GPUs by their indices, on a server with MIG instances, which have no numbers there.
    #[serde(default)]
    pub gpu_names: BTreeMap<u32, String>,
    /// Rails of this server that are drained when the attempt begins.
    #[serde(default)]
    pub drained: Vec<u32>,
    /// As which data class each of the job's rails is kept here when the attempt begins.
    #[serde(default)]
    pub data_classes: BTreeMap<u32, DataClass>,
}

impl SupervisorConfig {
    /// The data class that the job sends in for as long as it runs.
    #[must_use]
    pub fn data_class(&self) -> DataClass {
        DataClass::of_most(self.data_classes.values().copied()).unwrap_or_default()
    }
}

/// How memory of a GPU reaches NICs, as the engine gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuSummary {
    /// PCI address of the GPU.
    pub gpu: String,
    /// NICs can register its dma-bufs, as far as that shows.
    pub dma_buf: bool,
    /// Why that is so; where they cannot, also what would change it.
    pub why: String,
}

impl GpuSummary {
    /// What the engine gets to know of a GPU; nothing where nothing was found.
    #[must_use]
    pub fn of(gpu: &Gpu) -> Option<Self> {
        let found = gpu.facts.as_deref()?.gpu_direct.as_ref()?;
        let dma_buf = found.engine() == GpuPath::DmaBuf;
        let against = found.causes.iter().filter(|cause| !dma_buf && cause.path == GpuPath::DmaBuf);
        let against: Vec<String> =
            against.map(|cause| format!("{} ({})", cause.message, cause.fix)).collect();
        let why = if against.is_empty() { found.reason.clone() } else { against.join("; ") };
        Some(Self { gpu: gpu.pci_address.to_lowercase(), dma_buf, why })
    }
}

/// Why a supervisor cannot begin.
#[derive(Debug, Error)]
pub enum SupervisorConfigError {
    /// A file or the key is missing or unreadable.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The assignment does not decode.
    #[error("the assignment in {} is damaged: {detail}", dir.display())]
    Damaged {
        /// The attempt's directory.
        dir: PathBuf,
        /// How decoding failed.
        detail: String,
    },
    /// The key is not 64 hexadecimal digits.
    #[error("no job key of 64 hexadecimal digits on standard input")]
    Key,
    /// Values of variables are missing or damaged.
    #[error("not all values of the job's environment came on standard input")]
    Environment,
    /// The placement does not name this server.
    #[error("the placement does not name this server, {0}")]
    NotHere(String),
}

/// The attempt, as its supervisor needs it.
#[derive(Debug, Clone)]
pub struct Task {
    /// The desired state, as it came.
    pub assignment: Assignment,
    /// What the job says is to be run.
    pub spec: JobSpec,
    /// The nodes and ranks of the whole job.
    pub placement: Placement,
    /// The part of the placement that is this server's.
    pub place: NodePlace,
    /// This server's index in the placement.
    pub node_index: usize,
    /// This server's ranks, ascending.
    pub ranks: Vec<RankPlace>,
    /// What the agent wrote for the supervisor of this attempt.
    pub supervisor_config: SupervisorConfig,
    /// The job key, by which engines know each other.
    pub key: JobKey,
    /// Variables with values of secrets and configs.
    pub env: Arc<HiddenEnv>,
}

/// 64 hexadecimal digits for a key.
#[must_use]
pub fn key_to_hex(key: &JobKey) -> String {
    HEXLOWER.encode(key.expose())
}

/// The key in 64 hexadecimal digits.
#[must_use]
pub fn key_from_hex(text: &str) -> Option<JobKey> {
    let (text, mut bytes) = (text.trim(), [0; 32]);
    let whole = text.len() == 64 && HEXLOWER_PERMISSIVE.decode_mut(text.as_bytes(), &mut bytes).is_ok();
    whole.then(|| JobKey::new(bytes))
}

/// What a supervisor gets through its standard input, and what is in no file: the key, and the values of variables.
#[must_use]
pub fn whispered(key: &JobKey, env: &HiddenEnv) -> String {
    let values = serde_json::to_string(&env_values_to_wire(env)).unwrap_or_default();
    format!("{}\n{values}\n", key_to_hex(key))
}

/// The values that it was given; an agent that knows of none gives none.
///
/// # Errors
/// They are damaged. Their content is not repeated in messages.
pub fn heard(text: &str) -> Result<HiddenEnv, SupervisorConfigError> {
    if text.trim().is_empty() {
        return Ok(HiddenEnv::new());
    }
    let wire = serde_json::from_str(text).map_err(|_| SupervisorConfigError::Environment)?;
    env_values(wire).map_err(|_| SupervisorConfigError::Environment)
}

/// Writes what a supervisor reads: the desired state without its key and without the values of variables, and the brief.
///
/// # Errors
/// What the kernel answered.
pub fn write(dir: &JobDir, assignment: &Assignment, supervisor_config: &SupervisorConfig) -> io::Result<()> {
    dir.make()?;
    if let Some(RankUser { ids, .. }) = &supervisor_config.rank_user {
        ids.let_pass(dir.path())?;
        ids.own(&dir.work())?;
        ids.own(&dir.home())?;
        if dir.topology().exists() {
            ids.let_read(&dir.topology())?;
        }
    }
    let mut wire = v1::Assignment::from(assignment);
    wire.job_key.clear();
    // Their names stay, so that a supervisor that was given too few knows it.
    wire.env_values.values_mut().for_each(String::clear);
    let bytes = prost::Message::encode_to_vec(&wire);
    files::write_atomic(&dir.assignment(), &bytes, files::Durability::Process)?;
    files::write_json(&dir.supervisor_config(), supervisor_config, files::Durability::Process)
}

/// How the attempt is kept apart: what a supervisor does about itself comes before everything else.
///
/// # Errors
/// The brief is missing or unreadable.
pub fn isolation(dir: &JobDir) -> Result<Isolation, SupervisorConfigError> {
    let supervisor_config: Option<SupervisorConfig> = files::read_json(&dir.supervisor_config())?;
    let damaged =
        || SupervisorConfigError::Damaged { dir: dir.path().to_owned(), detail: "no brief".to_owned() };
    Ok(supervisor_config.ok_or_else(damaged)?.isolation)
}

/// Reads it back; `key` and `env` came on standard input.
///
/// # Errors
/// What is missing or damaged.
pub fn read(dir: &JobDir, key: &JobKey, env: HiddenEnv) -> Result<Task, SupervisorConfigError> {
    let damaged = |detail: String| SupervisorConfigError::Damaged { dir: dir.path().to_owned(), detail };
    let bytes = files::read(&dir.assignment())?.ok_or_else(|| damaged("it is not there".into()))?;
    let mut wire: v1::Assignment =
        prost::Message::decode(bytes.as_slice()).map_err(|e| damaged(e.to_string()))?;
    wire.job_key = key.expose().to_vec();
    if !wire.env_values.keys().all(|name| env.contains_key(name)) {
        return Err(SupervisorConfigError::Environment);
    }
    let assignment = Assignment::try_from(wire).map_err(|error| damaged(error.to_string()))?;
    let supervisor_config: SupervisorConfig =
        files::read_json(&dir.supervisor_config())?.ok_or_else(|| damaged("no brief".into()))?;
    let (spec, placement) = match &assignment.desired {
        DesiredState::Prepared { spec, placement, .. } | DesiredState::Running { spec, placement, .. } => {
            (spec.as_ref().clone(), placement.as_ref().clone())
        }
        DesiredState::Stopped { .. } => {
            return Err(damaged("its desired state is STOPPED, with which no supervisor begins".into()));
        }
    };
    let own = NodeName::new(&supervisor_config.node).map_err(|error| damaged(error.to_string()))?;
    let here = placement.nodes.iter().position(|place| place.node == own);
    let node_index = here.ok_or_else(|| SupervisorConfigError::NotHere(supervisor_config.node.clone()))?;
    let place = placement.nodes[node_index].clone();
    let mut ranks: Vec<RankPlace> = placement.ranks.iter().filter(|rank| rank.node == own).cloned().collect();
    ranks.sort_by_key(|rank| rank.rank);
    let env = Arc::new(env);
    Ok(Task { assignment, spec, placement, place, node_index, ranks, supervisor_config, key: *key, env })
}

/// By this `railctl dev` knows the processes of a local cluster, whoever started them.
const DEV_MARK: &str = "RAIL_DEV_CLUSTER";

/// What a tenant's process may see of our own environment: enough to find programs and to speak the user's language;
/// nothing of Railyard's own settings, tokens or the administrator's session.
#[must_use]
pub fn plain_environment() -> BTreeMap<String, String> {
    const NAMES: [&str; 10] =
        ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"];
    let wanted = |name: &str| NAMES.contains(&name) || name.starts_with("LC_") || name == DEV_MARK;
    let readable = env::vars_os().filter_map(|(name, value)| {
        let pair = (name.into_string().ok()?, value.into_string().ok()?);
        wanted(&pair.0).then_some(pair)
    });
    readable.collect()
}

#[cfg(test)]
mod tests {
    use proto_model::{GpuDirect, GpuFacts, PathCause, PathCauseCode};

    use super::*;

    #[test]
    fn keys_survive_their_text() {
        let key = JobKey::new(std::array::from_fn(|at| at as u8 * 7));
        assert!(key_from_hex(&format!("{}\n", key_to_hex(&key))) == Some(key));
        for bad in ["", "00", &"g".repeat(64), &"0".repeat(65), &"é".repeat(32)] {
            assert!(key_from_hex(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn values_are_heard_and_in_no_error() {
        let key = JobKey::new([7; 32]);
        let env: HiddenEnv = [("A".to_owned(), proto_model::ValueText::new("hunter2\n\"x\""))].into();
        let reported = whispered(&key, &env);
        let (first, rest) = reported.split_once('\n').unwrap();
        assert!(key_from_hex(first) == Some(key));
        assert_eq!(heard(rest).unwrap(), env);
        assert_eq!(heard("").unwrap(), HiddenEnv::new());
        let cut = heard(&rest[..rest.len() - 4]).unwrap_err();
        assert!(!cut.to_string().contains("hunter2"), "{cut}");
    }

    #[test]
    fn an_engine_is_told_why_a_gpus_memory_is_staged() {
        let cause = |path, code: &str| PathCause {
            path,
            code: PathCauseCode::from_text(code),
            message: format!("{code} is wrong"),
            fix: format!("mend {code}"),
        };
        let causes = vec![cause(GpuPath::DmaBuf, "A"), cause(GpuPath::PeerMemory, "B")];
        let reported = |path| {
            let found = GpuDirect { path, reason: "because".into(), causes: causes.clone() };
            GpuSummary::of(&gpu(Some(GpuFacts { gpu_direct: Some(found), ..GpuFacts::default() }))).unwrap()
        };
        let why = "A is wrong (mend A)";
        for (path, dma_buf, why) in [
            (GpuPath::DmaBuf, true, "because"),
            // It would need addresses of the rank's own process.
            (GpuPath::PeerMemory, false, why),
            (GpuPath::HostStaging, false, why),
        ] {
            let gpu = "0000:1b:00.0".into();
            assert_eq!(reported(path), GpuSummary { gpu, dma_buf, why: why.into() });
        }
        assert_eq!(GpuSummary::of(&gpu(None)), None, "nothing was found");
    }

    fn gpu(facts: Option<GpuFacts>) -> Gpu {
        Gpu {
            index: 0,
            uuid: String::new(),
            model: String::new(),
            pci_address: "0000:1B:00.0".into(),
            numa_node: None,
            memory_bytes: 0,
            facts: facts.map(Box::new),
        }
    }

    #[test]
    fn secrets_of_ours_are_not_in_a_rank_s_environment() {
        let environment = plain_environment();
        assert!(environment.keys().all(|name| !name.starts_with("RAIL_") || name == DEV_MARK));
        assert!(environment.contains_key("PATH"));
    }
}
