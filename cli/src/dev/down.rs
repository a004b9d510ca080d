//! Ending a cluster: its processes and their jobs, its namespaces, its files. Bounded, and the same when repeated.

use std::{
    collections::BTreeSet,
    fs::{self, File, TryLockError},
    time::{Duration, Instant},
};

use rustix::process::Signal;

use super::{
    attempts::Attempts,
    launch::MARK,
    network,
    process::{self, Identity},
    programs,
    spec::{Layout, Record},
};
use crate::{
    config::{ConfigFile, Environment},
    error::Error,
};

/// Agents and the controller may close their files in this time.
const POLITE: Duration = Duration::from_secs(3);
/// Whoever is left is killed again and again for so long.
const KILLING: Duration = Duration::from_secs(10);
/// Another railctl may hold the cluster for so long.
const LOCK: Duration = Duration::from_secs(20);
/// Roles of our own helpers; everything else is the cluster.
pub const UP: &str = "up";
/// The guard of an owned cluster.
pub const GUARD: &str = "guard";

/// What taking a cluster down has removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    /// Processes that were ended.
    pub processes: usize,
    /// Network namespaces that were removed.
    pub namespaces: usize,
    /// The folder was there, and was removed.
    pub folder: bool,
}

/// Holds the cluster against other railctls until it is dropped. The folder must exist.
///
/// # Errors
/// [`Error::File`] if the lock cannot be made; [`Error::Timeout`] if another railctl holds it for too long.
pub fn lock(layout: &Layout) -> Result<File, Error> {
    let path = layout.lock();
    let file = File::create(&path).map_err(|error| Error::file("create", &path, error))?;
    let end = Instant::now() + LOCK;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(10))
            }
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Timeout {
                    what: "another railctl that works on this cluster".to_owned(),
                    limit: LOCK,
                });
            }
            Err(TryLockError::Error(error)) => return Err(Error::file("lock", path, error)),
        }
    }
}

/// Ends the cluster, whatever state it is in, and an unfinished `up` first. `known` is the last record that the
/// caller has seen: somebody may have removed the folder, or half of it, under the running cluster.
///
/// # Errors
/// An error if the folder was not made by `dev up`, or a process or a namespace cannot be removed.
pub fn down(layout: &Layout, env: &Environment, known: Option<Record>) -> Result<Removed, Error> {
    if !layout.dir.exists() {
        let Some(record) = known else { return Ok(Removed::default()) };
        let processes = end_processes(layout, Some(&record), &record.namespaces)?;
        network::remove(&record.namespaces)?;
        return Ok(Removed { processes, namespaces: record.namespaces.len(), folder: false });
    }
    if !layout.is_ours() && known.is_none() {
        let text = format!("{} was not made by `railctl dev up`: nothing is removed", layout.dir.display());
        return Err(Error::Dev(text));
    }
    stop_up(layout);
    let lock = lock(layout)?;
    let removed = down_locked(layout, env, known);
    drop(lock);
    removed
}

/// An unfinished `up` would start more while we end things.
fn stop_up(layout: &Layout) {
    let Some(up) = process::recorded(&layout.process(UP)) else { return };
    if process::myself().is_ok_and(|me| me == up) {
        return;
    }
    let complete = layout.read().ok().flatten().is_some_and(|record| record.complete);
    if complete {
        // It only stays in the foreground; when it is signalled, it finds nothing left to do.
        up.signal(Signal::TERM);
    } else {
        up.signal(Signal::KILL);
        let _ = process::wait_gone(&BTreeSet::from([up]), POLITE);
    }
}

/// The same for whoever holds the lock.
///
/// # Errors
/// An error if a process or a namespace cannot be removed.
pub fn down_locked(layout: &Layout, env: &Environment, known: Option<Record>) -> Result<Removed, Error> {
    // A damaged record must not keep the rest from being removed.
    let record = layout.read().ok().flatten().or(known);
    let namespaces = record.as_ref().map(|record| record.namespaces.clone()).unwrap_or_default();
    let processes = end_processes(layout, record.as_ref(), &namespaces)?;
    let present = namespaces.iter().filter(|name| network::exists(name)).count();
    network::remove(&namespaces)?;
    forget_context(layout, record.as_ref(), env)?;
    Attempts::read(&layout.dir).remove_groups();
    // A folder that only a guard's memory says is ours may be somebody's who came after.
    if !layout.is_ours() && !record.as_ref().is_some_and(|record| record.complete) {
        return Ok(Removed { processes, namespaces: present, folder: false });
    }
    fs::remove_dir_all(&layout.dir).map_err(|error| Error::file("remove", &layout.dir, error))?;
    Ok(Removed { processes, namespaces: present, folder: true })
}

/// Who is to be ended, and when.
struct Crowd {
    /// The controller and the agents: asked first.
    polite: BTreeSet<Identity>,
    /// Supervisors end by themselves when what they started has ended.
    supervisors: BTreeSet<Identity>,
    /// Everybody who runs, those included.
    all: BTreeSet<Identity>,
}

/// Everybody of the cluster who runs: by record, by mark, by namespace, by control group, and their children.
fn crowd(layout: &Layout, record: Option<&Record>, namespaces: &[String]) -> Crowd {
    let everyone = process::everyone();
    let mut polite = process::all_recorded(&layout.run());
    polite.remove(UP);
    let guard = polite.remove(GUARD);
    let polite: BTreeSet<Identity> = polite.into_values().collect();
    let attempts = Attempts::read(&layout.dir);
    let mut all: BTreeSet<Identity> = polite.iter().copied().chain(guard).collect();
    all.extend(attempts.supervisors.iter().chain(&attempts.others).filter(|one| one.alive()));
    all.extend(attempts.members());
    // Agents and supervisors carry the mark, ranks the folder of their attempt.
    let mark = record.map(|record| format!("{MARK}={}", record.id));
    let folder = fs::canonicalize(&layout.dir).unwrap_or_else(|_| layout.dir.clone());
    let job_dir = format!("RAIL_JOB_DIR={}/", folder.display());
    let is_marked = |entry: &[u8]| {
        mark.as_ref().is_some_and(|mark| entry == mark.as_bytes()) || entry.starts_with(job_dir.as_bytes())
    };
    all.extend(process::marked(&everyone, is_marked));
    for dir in [&layout.dir, &folder] {
        all.extend(process::reported_of(&everyone, &programs::ALL, dir));
    }
    all.extend(network::inhabitants(namespaces));
    all.extend(process::descendants(&everyone, &all));
    // Neither we nor those who wait for us: a guard runs this itself.
    let mut pid = process::myself().map(|me| me.pid).unwrap_or_default();
    while let Some(one) = everyone.iter().find(|one| one.identity.pid == pid) {
        all.remove(&one.identity);
        pid = one.parent;
    }
    let polite = polite.intersection(&all).copied().collect();
    Crowd { polite, supervisors: attempts.supervisors, all }
}

/// Agents and the controller are asked to end, so that nothing is started again; ranks and engines are killed, and
/// their supervisors, to whom their orphans fall, only when nobody else is left.
fn end_processes(layout: &Layout, record: Option<&Record>, namespaces: &[String]) -> Result<usize, Error> {
    let mut seen = BTreeSet::new();
    let begun = Instant::now();
    let mut asked = false;
    loop {
        let crowd = crowd(layout, record, namespaces);
        if crowd.all.is_empty() {
            return Ok(seen.len());
        }
        seen.extend(crowd.all.iter().copied());
        if !asked {
            crowd.polite.iter().for_each(|process| process.signal(Signal::TERM));
            asked = true;
        }
        let impatient = begun.elapsed() >= POLITE;
        let spared =
            |one: &&Identity| !impatient && (crowd.polite.contains(one) || crowd.supervisors.contains(one));
        let mut now: BTreeSet<Identity> = crowd.all.iter().filter(|one| !spared(one)).copied().collect();
        if now.is_empty() && crowd.polite.is_empty() {
            now.clone_from(&crowd.all);
        }
        now.iter().for_each(|process| process.signal(Signal::KILL));
        if begun.elapsed() >= KILLING {
            let pids: Vec<String> = crowd.all.iter().map(|process| process.pid.to_string()).collect();
            return Err(Error::Dev(format!(
                "processes {} do not end although they were killed; `railctl dev down` may be repeated",
                pids.join(", ")
            )));
        }
        let waited = if now.is_empty() { &crowd.polite } else { &now };
        let _ = process::wait_gone(waited, Duration::from_millis(if now.is_empty() { 50 } else { 500 }));
    }
}

fn forget_context(layout: &Layout, record: Option<&Record>, env: &Environment) -> Result<(), Error> {
    let Some(record) = record else { return Ok(()) };
    let Some(path) = record.config.clone().or_else(|| env.config_path()).filter(|path| path.exists()) else {
        return Ok(());
    };
    let name = &record.spec.name;
    let ours = |file: &ConfigFile| {
        let ca = file.contexts.get(name).and_then(|context| context.ca.as_ref());
        ca.is_some_and(|ca| ca.starts_with(&layout.dir))
    };
    if !ConfigFile::load(Some(&path)).is_ok_and(|file| ours(&file)) {
        return Ok(());
    }
    ConfigFile::update(&path, |file| {
        if !ours(file) {
            return;
        }
        file.contexts.remove(name);
        if file.current_context.as_deref() == Some(name) {
            file.current_context =
                record.previous_context.clone().filter(|old| file.contexts.contains_key(old));
        }
    })
}
