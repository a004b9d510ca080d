//! What a rank finds: its environment, the rank map, its command.

use std::{collections::BTreeMap, io, path::PathBuf};

use proto_model::{RankPlace, Work};

use crate::{
    files::{self, Durability},
    layout::JobDir,
    rank_exec::launch::Program,
    supervisor::brief::{Task, plain_environment},
};

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
    match &task.brief.rank_user {
        Some(user) => user.ids.let_read(&dir.rank_map()),
        None => Ok(()),
    }
}

/// One rank's whole environment. What the user set wins.
#[must_use]
pub fn of_rank(dir: &JobDir, task: &Task, rank: &RankPlace) -> BTreeMap<String, String> {
    let mut environment = plain_environment();
    if let Some(user) = &task.brief.rank_user {
        // Ours would name folders that are closed to it.
        environment.remove("TMPDIR");
        let home = if task.brief.own_uid { dir.home() } else { user.home.clone() };
        environment.insert("HOME".to_owned(), home.display().to_string());
        environment.extend(["USER", "LOGNAME"].map(|name| (name.to_owned(), user.name.clone())));
    }
    if task.brief.isolation.namespaces.mount {
        environment.remove("TMPDIR");
    }
    let mut set = |name: &str, value: String| environment.insert(name.to_owned(), value);
    let path = |path: PathBuf| path.display().to_string();
    set("RANK", rank.rank.to_string());
    set("WORLD_SIZE", task.placement.ranks.len().to_string());
    set("LOCAL_RANK", rank.local_rank.to_string());
    set("LOCAL_WORLD_SIZE", task.ranks.len().to_string());
    set("NODE_RANK", task.node_index.to_string());
    set("MASTER_ADDR", master_address(task));
    set("MASTER_PORT", master_port(task).to_string());
    set("RAIL_JOB", task.assignment.id.to_string());
    set("RAIL_JOB_UID", task.assignment.uid.to_string());
    set("RAIL_TENANT", task.assignment.id.tenant.to_string());
    set("RAIL_ATTEMPT", task.assignment.attempt.to_string());
    if let Some([index]) = task.spec.array.as_ref().map(|array| array.indices.as_slice()) {
        set("RAIL_ARRAY_INDEX", index.to_string());
    }
    set("RAIL_NODE", task.brief.node.clone());
    set("RAIL_JOB_DIR", path(dir.path().to_owned()));
    set("RAIL_RANK_MAP", path(dir.rank_map()));
    set("RAIL_ENGINE_SOCKET", path(dir.engine_socket()));
    set("RAIL_RESULT_FILE", path(dir.result()));
    if let Some(library) = &task.brief.library {
        set("RAIL_LIBRARY", path(library.clone()));
    }
    if !task.assignment.trace_parent.is_empty() {
        set("TRACEPARENT", task.assignment.trace_parent.clone());
    }
    if !rank.gpus.is_empty() {
        let named: Option<Vec<&str>> =
            rank.gpus.iter().map(|gpu| task.brief.gpu_names.get(gpu).map(String::as_str)).collect();
        let numbered = || visible(task, &rank.gpus).iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let gpus = named.map_or_else(numbered, |names| names.join(","));
        // Our numbers are in PCI order; CUDA's own default is by speed.
        set("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned());
        set("CUDA_VISIBLE_DEVICES", gpus.clone());
        set("ROCR_VISIBLE_DEVICES", gpus);
    }
    environment.extend(task.brief.environment.clone());
    if let Work::Command(command) = &task.spec.work {
        environment.extend(command.env.clone());
    }
    environment
}

/// A rank's GPUs by the numbers that drivers give them: where the attempt sees the job's GPUs alone, they are counted from 0.
fn visible(task: &Task, gpus: &[u32]) -> Vec<u32> {
    if !task.brief.isolation.namespaces.mount || task.brief.gpu_files.is_empty() {
        return gpus.to_vec();
    }
    let mut here = task.place.gpus.clone();
    here.sort_unstable();
    let number = |gpu: &u32| here.iter().position(|one| one == gpu).and_then(|at| u32::try_from(at).ok());
    gpus.iter().filter_map(number).collect()
}

/// Where rank 0 can be reached: its node's address on the first rail, or its name.
fn master_address(task: &Task) -> String {
    let first = task.placement.nodes.first();
    let address = first.and_then(|place| place.nics.iter().find_map(|nic| nic.address));
    match (address, first) {
        (Some(address), _) => address.to_string(),
        (None, Some(place)) if task.placement.nodes.len() > 1 => place.node.to_string(),
        _ => "127.0.0.1".to_owned(),
    }
}

/// The same on every node of the try, another for the next job and the next try.
fn master_port(task: &Task) -> u64 {
    let uid = task.assignment.uid.0.as_u128();
    let mixed = (uid ^ (uid >> 64)) as u64;
    PORT_FIRST + mixed.wrapping_add(u64::from(task.assignment.attempt)) % PORT_COUNT
}

/// One rank's program, environment and working directory.
///
/// # Errors
/// A path of ours cannot be passed on.
pub fn program(dir: &JobDir, task: &Task, rank: &RankPlace) -> Result<Program, String> {
    let working_dir = match &task.spec.work {
        Work::Command(command) if !command.working_dir.is_empty() => PathBuf::from(&command.working_dir),
        _ => dir.work(),
    };
    Ok(Program { argv: command(task)?, environment: of_rank(dir, task, rank), working_dir })
}

/// One rank's program and arguments.
fn command(task: &Task) -> Result<Vec<String>, String> {
    Ok(match &task.spec.work {
        Work::Command(command) => command.argv.clone(),
        Work::Collective(spec) => {
            let engine = task.brief.engine.to_str().ok_or("the path of rail-engine is not UTF-8")?;
            let mut argv = vec![engine.to_owned(), "bench-rank".to_owned()];
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
