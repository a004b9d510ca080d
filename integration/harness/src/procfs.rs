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

/// Memory of a process that is not swapped out, in MiB; 0 if it is not there.
#[must_use]
pub fn rss_mib(id: u32) -> u64 {
    rss_kib(id) / 1024
}

/// The same in KiB.
#[must_use]
pub fn rss_kib(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default()
}

/// Seconds that a process has been at work, as the kernel counts them (hundredths, USER_HZ); 0 if it is not there.
#[must_use]
pub fn cpu_seconds(id: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // After the name: state is the first, user and system time the 12th and 13th.
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Ends a process at once, as a crash would.
///
/// # Errors
/// The process is not there, or not ours.
pub fn kill(id: i32) -> Result<(), String> {
    let pid = Pid::from_raw(id).ok_or("0 is not a process")?;
    kill_process(pid, Signal::KILL).map_err(|error| format!("cannot kill {id}: {error}"))
}
