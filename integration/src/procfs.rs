//! Finding processes by what they were started with, through /proc.

use std::{fs, path::Path};

use rustix::process::{Pid, Signal, kill_process};

/// Ids of the live processes whose command line has all of `words` somewhere in it.
#[must_use]
pub fn find(words: &[&str]) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mut found: Vec<i32> = ids
        .filter(|id| {
            let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            !line.is_empty() && words.iter().all(|word| line.contains(word))
        })
        .filter(|id| !is_zombie(*id))
        .collect();
    found.sort_unstable();
    found
}

fn is_zombie(id: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with(['Z', 'X']))
}

/// True while the process lives.
#[must_use]
pub fn lives(id: i32) -> bool {
    Path::new(&format!("/proc/{id}")).exists() && !is_zombie(id)
}

/// Ends a process at once, as a crash would.
///
/// # Errors
/// The process is not there, or not ours.
pub fn kill(id: i32) -> Result<(), String> {
    let pid = Pid::from_raw(id).ok_or("0 is not a process")?;
    kill_process(pid, Signal::KILL).map_err(|error| format!("cannot kill {id}: {error}"))
}
