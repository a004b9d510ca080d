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

/// Ids that [`find`] gives, without those whose parent is among them: a shell that starts a program has, until the
/// program's image is there, a child with its own command line.
#[must_use]
pub fn find_parents(words: &[&str]) -> Vec<i32> {
    let found = find(words);
    found.iter().copied().filter(|id| parent(*id).is_some_and(|parent| !found.contains(&parent))).collect()
}

/// Process id of the parent; `None` if the process is not there.
fn parent(id: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // After the name, which may have blanks and brackets: state, parent.
    stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()
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

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_child_with_the_same_command_line_is_not_a_second_one() {
        let mark = format!("procfs-{}", std::process::id());
        // A subshell is a child that has the command line of its parent for as long as it lives.
        let script = format!(": {mark}; (echo ready; read -r line)");
        let mut shell = Command::new("/bin/sh")
            .args(["-c", &format!("{script}; exit 0")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let id = i32::try_from(shell.id()).unwrap();
        let mut ready = [0; 6];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut ready).unwrap();
        assert_eq!(find(&["/bin/sh -c", &mark]).len(), 2);
        assert_eq!(find_parents(&["/bin/sh -c", &mark]), [id]);
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!(find_parents(&["/bin/sh -c", &mark]), Vec::<i32>::new());
    }
}
