//! What a rank finds: its environment, the rank map, its command.

use std::{collections::BTreeMap, io, path::PathBuf};

use node_agent_attempt::{
    layout::JobDir,
    supervisor_config::{Task, plain_environment},
};
use node_agent_os::files::{self, Durability};
use node_agent_rank::exec::launch::Program;
use proto_model::{NodePlace, RankPlace, StepOrder, StepWork, Work};

use crate::nccl::add_plugins;

/// Below the range of ports that the kernel gives out by itself (32768 and up on Linux).
const PORT_FIRST: u64 = 20_000;
const PORT_COUNT: u64 = 10_000;

/// The file that `RAIL_RANK_MAP` names: the placement's ranks in canonical JSON names.
///
/// # Errors
/// What the kernel answered.
pub fn write_rank_map(dir: &JobDir, task: &Task) -> io::Result<()> {
    let ranks: Vec<_> = task
        .placement
        .ranks
        .iter()
        .map(|rank| {
            serde_json::json!({
                "rank": rank.rank,
                "node": rank.node.as_str(),
                "localRank": rank.local_rank,
                "gpus": rank.gpus,
                "nic": rank.nic,
                "rail": rank.rail,
                "leaf": rank.leaf,
            })
        })
        .collect();
    files::write_json(&dir.rank_map(), &ranks, Durability::Process)?;
    match &task.supervisor_config.rank_user {
        Some(user) => user.ids.let_read(&dir.rank_map()),
        None => Ok(()),
    }
}

/// The place of a process among those that it was started with.
struct Seat<'a> {
    rank: u32,
    ranks: usize,
    local_rank: u32,
    local_ranks: usize,
    node_index: usize,
    gpus: &'a [u32],
    master: (String, u64),
}

/// The place of a rank.
fn seat<'a>(task: &Task, rank: &'a RankPlace) -> Seat<'a> {
    Seat {
        rank: rank.rank,
        ranks: task.placement.ranks.len(),
        local_rank: rank.local_rank,
        local_ranks: task.ranks.len(),
        node_index: task.node_index,
        gpus: &rank.gpus,
        master: (address_of(task, task.placement.nodes.first()), master_port(task, 0)),
    }
}

/// What a process of another scheduler is given that runs in a rank's place: nothing of this program's own environment, and neither user nor
/// GPUs, which that scheduler has chosen.
#[must_use]
pub fn of_guest(dir: &JobDir, task: &Task, rank: &RankPlace) -> BTreeMap<String, String> {
    let mut environment = of_seat(dir, task, &seat(task, rank));
    environment.insert("RAIL_ENGINE_SOCKET".to_owned(), dir.engine_socket().display().to_string());
    environment.extend(task.supervisor_config.environment.clone());
    environment.extend(variables(&task.spec.work));
    environment
}

/// One rank's whole environment. What the user set wins.
#[must_use]
pub fn of_rank(dir: &JobDir, task: &Task, rank: &RankPlace) -> BTreeMap<String, String> {
    let mut environment = of_process(dir, task, &seat(task, rank));
    let path = |path: PathBuf| path.display().to_string();
    environment.insert("RAIL_ENGINE_SOCKET".to_owned(), path(dir.engine_socket()));
    environment.insert("RAIL_RESULT_FILE".to_owned(), path(dir.result()));
    environment.extend(of_component(task, rank.rank));
    environment.extend(task.supervisor_config.environment.clone());
    environment.extend(hidden(task));
    environment.extend(variables(&task.spec.work));
    environment
}

/// What secrets and configs hold.
fn hidden(task: &Task) -> impl Iterator<Item = (String, String)> {
    task.env.iter().map(|(name, value)| (name.clone(), value.expose().to_owned()))
}

/// Of a rank of a gang of components: which one it is of, its number there, and how many ranks that has.
fn of_component(task: &Task, rank: u32) -> impl Iterator<Item = (String, String)> {
    let own = task.spec.component_places().take_while(|place| place.first_rank <= rank).last();
    let named = own.map(|place| {
        [
            ("RAIL_COMPONENT", place.component.name.to_string()),
            ("RAIL_COMPONENT_INDEX", place.index.to_string()),
            ("RAIL_COMPONENT_RANK", (rank - place.first_rank).to_string()),
            ("RAIL_COMPONENT_SIZE", place.component.ranks().to_string()),
        ]
    });
    named.into_iter().flatten().map(|(name, value)| (name.to_owned(), value))
}

/// A process of a step: it finds what ranks find, but for the engine, whose ranks are the job's own.
///
/// # Errors
/// There is no engine, whose program carries connections.
pub fn step_program(dir: &JobDir, task: &Task, order: &StepOrder, local: u32) -> Result<Program, String> {
    let argv = match &order.work {
        StepWork::Run(argv) => argv.clone(),
        StepWork::Connect(port) => vec![engine(task)?, "connect".to_owned(), port.to_string()],
        StepWork::Signal(_) => return Err("a signal is no program".to_owned()),
    };
    let first = task.placement.nodes.iter().find(|place| place.node == order.first_node);
    let mut environment = of_process(
        dir,
        task,
        &Seat {
            rank: order.first_rank + local,
            ranks: order.ranks as usize,
            local_rank: local,
            local_ranks: order.ranks_here as usize,
            node_index: order.node_index as usize,
            gpus: &order.gpus_of(local, &task.place.gpus),
            master: (address_of(task, first), master_port(task, order.id)),
        },
    );
    environment.insert("RAIL_STEP".to_owned(), format!("{:016x}", order.id));
    environment.extend(task.supervisor_config.environment.clone());
    environment.extend(hidden(task));
    environment.extend(variables(&task.spec.work));
    if let Some(terminal) = order.terminal.as_ref().filter(|terminal| !terminal.kind.is_empty()) {
        environment.insert("TERM".to_owned(), terminal.kind.clone());
    }
    environment.extend(order.env.clone());
    let working_dir = match order.working_dir.as_str() {
        "" => working_dir(dir, &task.spec.work),
        named => PathBuf::from(named),
    };
    Ok(Program { argv, environment, working_dir })
}

/// NCCL's network plugin, where it lies beside `librail.so`.
pub fn nccl_plugin(task: &Task) -> Option<PathBuf> {
    let library = task.supervisor_config.library.as_ref()?;
    Some(library.with_file_name("librail_nccl_net.so")).filter(|plugin| plugin.is_file())
}

/// What every process of the job finds, but for what the user set.
fn of_process(dir: &JobDir, task: &Task, seat: &Seat<'_>) -> BTreeMap<String, String> {
    let mut environment = plain_environment();
    if let Some(user) = &task.supervisor_config.rank_user {
        // Ours would name folders that are closed to it.
        environment.remove("TMPDIR");
        let home = if task.supervisor_config.own_uid { dir.home() } else { user.home.clone() };
        environment.insert("HOME".to_owned(), home.display().to_string());
        environment.extend(["USER", "LOGNAME"].map(|name| (name.to_owned(), user.name.clone())));
    }
    if task.supervisor_config.isolation.namespaces.mount {
        environment.remove("TMPDIR");
    }
    environment.extend(of_seat(dir, task, seat));
    environment.extend(of_gpus(task, seat.gpus));
    environment
}

/// What follows from its place.
fn of_seat(dir: &JobDir, task: &Task, seat: &Seat<'_>) -> BTreeMap<String, String> {
    let mut environment = BTreeMap::new();
    let mut set = |name: &str, value: String| environment.insert(name.to_owned(), value);
    let path = |path: PathBuf| path.display().to_string();
    set("RANK", seat.rank.to_string());
    set("WORLD_SIZE", seat.ranks.to_string());
    set("LOCAL_RANK", seat.local_rank.to_string());
    set("LOCAL_WORLD_SIZE", seat.local_ranks.to_string());
    set("NODE_RANK", seat.node_index.to_string());
    set("MASTER_ADDR", seat.master.0.clone());
    set("MASTER_PORT", seat.master.1.to_string());
    set("RAIL_JOB", task.assignment.id.to_string());
    set("RAIL_JOB_UID", task.assignment.uid.to_string());
    set("RAIL_TENANT", task.assignment.id.tenant.to_string());
    set("RAIL_ATTEMPT", task.assignment.attempt.to_string());
    if let Some([index]) = task.spec.array.as_ref().map(|array| array.indices.as_slice()) {
        set("RAIL_ARRAY_INDEX", index.to_string());
    }
    set("RAIL_NODE", task.supervisor_config.node.clone());
    set("RAIL_JOB_DIR", path(dir.path().to_owned()));
    set("RAIL_RANK_MAP", path(dir.rank_map()));
    if let Some(library) = &task.supervisor_config.library {
        set("RAIL_LIBRARY", path(library.clone()));
    }
    if let Some(plugin) = nccl_plugin(task) {
        set("RAIL_NCCL_PLUGIN", path(plugin));
    }
    if !task.assignment.trace_parent.is_empty() {
        set("TRACEPARENT", task.assignment.trace_parent.clone());
    }
    environment
}

/// Which GPUs it may use.
fn of_gpus(task: &Task, gpus: &[u32]) -> BTreeMap<String, String> {
    if gpus.is_empty() {
        return BTreeMap::new();
    }
    let named: Option<Vec<&str>> =
        gpus.iter().map(|gpu| task.supervisor_config.gpu_names.get(gpu).map(String::as_str)).collect();
    let numbered = || visible(task, gpus).iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let gpus = named.map_or_else(numbered, |names| names.join(","));
    // Our numbers are in PCI order; CUDA's own default is by speed.
    let all = [
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned()),
        ("CUDA_VISIBLE_DEVICES", gpus.clone()),
        ("ROCR_VISIBLE_DEVICES", gpus),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// What the user set.
fn variables(work: &Work) -> BTreeMap<String, String> {
    match work {
        Work::Command(command) => command.env.clone(),
        Work::Allocation(held) => held.env.clone(),
        Work::Collective(_) => BTreeMap::new(),
    }
}

/// The directory in which ranks begin: the one that the command or the allocation names, else the attempt's own.
fn working_dir(dir: &JobDir, work: &Work) -> PathBuf {
    match work {
        Work::Command(command) if !command.working_dir.is_empty() => PathBuf::from(&command.working_dir),
        Work::Allocation(held) if !held.working_dir.is_empty() => PathBuf::from(&held.working_dir),
        _ => dir.work(),
    }
}

/// A rank's GPUs by the numbers that drivers give them: where the attempt sees the job's GPUs alone, they are counted from 0.
fn visible(task: &Task, gpus: &[u32]) -> Vec<u32> {
    if !task.supervisor_config.isolation.namespaces.mount || task.supervisor_config.gpu_files.is_empty() {
        return gpus.to_vec();
    }
    let mut here = task.place.gpus.clone();
    here.sort_unstable();
    let number = |gpu: &u32| here.iter().position(|one| one == gpu).and_then(|at| u32::try_from(at).ok());
    gpus.iter().filter_map(number).collect()
}

/// Where the first process can be reached: its node's address on the first rail, or its name.
fn address_of(task: &Task, first: Option<&NodePlace>) -> String {
    let address = first.and_then(|place| place.nics.iter().find_map(|nic| nic.address));
    match (address, first) {
        (Some(address), _) => address.to_string(),
        (None, Some(place)) if task.placement.nodes.len() > 1 => place.node.to_string(),
        _ => "127.0.0.1".to_owned(),
    }
}

/// The same on every node of the attempt, another for the next job, the next attempt and the next step; `step` is 0 for the job's ranks.
fn master_port(task: &Task, step: u64) -> u64 {
    let uid = task.assignment.uid.0.as_u128();
    let mixed = (uid ^ (uid >> 64)) as u64;
    PORT_FIRST + mixed.wrapping_add(u64::from(task.assignment.attempt)).wrapping_add(step) % PORT_COUNT
}

/// One rank's program, environment and working directory.
///
/// # Errors
/// A path of ours cannot be passed on, or the job asks for plugins of NCCL that there are not.
pub fn program(dir: &JobDir, task: &Task, rank: &RankPlace) -> Result<Program, String> {
    // A place where steps cannot begin must not end the job.
    let working_dir = match &task.spec.work {
        Work::Allocation(_) => dir.work(),
        work => working_dir(dir, work),
    };
    let mut environment = of_rank(dir, task, rank);
    add_plugins(&mut environment)?;
    Ok(Program { argv: command(task)?, environment, working_dir })
}

/// One rank's program and arguments.
fn command(task: &Task) -> Result<Vec<String>, String> {
    Ok(match &task.spec.work {
        Work::Command(command) => command.argv.clone(),
        Work::Allocation(_) => vec![engine(task)?, "hold".to_owned()],
        Work::Collective(spec) => {
            let mut argv = vec![engine(task)?, "bench-rank".to_owned()];
            let mut option = |name: &str, value: String| argv.extend([name.to_owned(), value]);
            option("--op", spec.op.to_string());
            option("--bytes", spec.bytes.to_string());
            option("--dtype", spec.dtype.to_string());
            option("--reduce", spec.reduce.to_string());
            option("--iterations", spec.iterations.to_string());
            option("--warmup", spec.warmup.to_string());
            if spec.verify {
                argv.push("--verify".to_owned());
            }
            argv
        }
    })
}

fn engine(task: &Task) -> Result<String, String> {
    task.supervisor_config
        .engine
        .to_str()
        .map(str::to_owned)
        .ok_or_else(|| "the path of rail-engine is not UTF-8".to_owned())
}
