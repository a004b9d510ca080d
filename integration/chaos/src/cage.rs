//! What holds the run: namespaces of its own for processes, mounts and the network. When their first process ends, however it
//! does, the kernel ends all others, and mounts, links and loop devices go with them.

use std::{
    env, fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, WaitOptions, wait};

/// `init`: the first process of the cage.
#[derive(Debug, clap::Args)]
pub struct Init {
    /// What the run is told.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// `guard`: stays outside, and wakes frozen file systems when the run is over.
#[derive(Debug, clap::Args)]
pub struct Guard {
    /// The run's folder.
    #[arg(long)]
    dir: PathBuf,
    /// The cage's first process.
    #[arg(long)]
    init: i32,
}

/// Why there can be no run here; `None` if there can.
pub fn lacks() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("network namespaces and mounts need root".to_owned());
    }
    let works = |program: &str, args: &[&str]| {
        let status = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let needed: [(&str, &[&str]); 7] = [
        ("ip", &["-V"]),
        ("nsenter", &["--version"]),
        ("setpriv", &["--version"]),
        ("mkfs.ext4", &["-V"]),
        ("fsfreeze", &["--version"]),
        ("losetup", &["--find"]),
        ("unshare", &["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "true"]),
    ];
    let absent = needed.iter().find(|(program, args)| !works(program, args));
    absent.map(|(program, args)| format!("`{program} {}` does not work here", args.join(" ")))
}

/// Runs this program again inside, with these arguments, and waits for its end. Its exit code.
///
/// # Errors
/// The cage cannot be made.
pub fn enter(dir: &Path, args: &[String]) -> Result<i32, String> {
    let me = env::current_exe().map_err(|error| format!("cannot find this executable: {error}"))?;
    let mut command = Command::new("setpriv");
    command.args([
        "--pdeathsig",
        "KILL",
        "--",
        "unshare",
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
    ]);
    command.args(["--mount-proc", "--"]).arg(&me).arg("init").args(args);
    let mut caged = command.spawn().map_err(|error| format!("cannot start unshare: {error}"))?;
    let guard = guard(&me, dir, &caged);
    let status = caged.wait().map_err(|error| error.to_string())?;
    if let Ok(mut guard) = guard {
        drop(guard.stdin.take());
        // It says itself what it could not do.
        let _ = guard.wait();
    }
    Ok(status.code().unwrap_or(1))
}

/// In a session of its own, so that Ctrl-C does not reach it.
fn guard(me: &Path, dir: &Path, caged: &Child) -> Result<Child, String> {
    let init = first_child(caged.id()).ok_or("unshare started nothing")?;
    let mut command = Command::new("setsid");
    command.arg(me).arg("guard").arg("--dir").arg(dir).args(["--init", &init.to_string()]);
    command.stdin(Stdio::piped());
    command.spawn().map_err(|error| format!("cannot start the guard: {error}"))
}

fn first_child(pid: u32) -> Option<i32> {
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        if let Some(child) = children.split_whitespace().next().and_then(|pid| pid.parse().ok()) {
            return Some(child);
        }
        thread::sleep(Duration::from_millis(5));
    }
    None
}

impl Init {
    /// Starts the run and buries whoever ends, until the run itself does.
    pub fn run(&self) -> ExitCode {
        let started =
            env::current_exe().and_then(|me| Command::new(me).arg("inside").args(&self.args).spawn());
        let run = match started {
            Ok(child) => Pid::from_child(&child),
            Err(error) => {
                eprintln!("error: cannot start the run: {error}");
                return ExitCode::FAILURE;
            }
        };
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) if pid == run => {
                    let code = status.exit_status().and_then(|code| u8::try_from(code).ok());
                    return ExitCode::from(code.unwrap_or(1));
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return ExitCode::FAILURE,
            }
        }
    }
}

impl Guard {
    /// A process that waits for a frozen file system cannot even be killed: they are woken until the cage is empty.
    pub fn run(&self) -> ExitCode {
        let Ok(mounts) = fs::File::open(format!("/proc/{}/ns/mnt", self.init)) else {
            return ExitCode::FAILURE;
        };
        let here = format!("/proc/{}/fd/{}", std::process::id(), std::os::fd::AsRawFd::as_raw_fd(&mounts));
        // It ends when the run's outer process does.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            for entry in fs::read_dir(self.dir.join("disks")).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    let mut thaw = Command::new("nsenter");
                    thaw.arg(format!("--mount={here}"))
                        .args(["--", "fsfreeze", "--unfreeze"])
                        .arg(entry.path());
                    // What is not frozen cannot be woken.
                    let _ = thaw.stdout(Stdio::null()).stderr(Stdio::null()).status();
                }
            }
            if !Path::new(&format!("/proc/{}", self.init)).exists() {
                return ExitCode::SUCCESS;
            }
            thread::sleep(Duration::from_millis(100));
        }
        eprintln!("error: the run's processes do not end");
        ExitCode::FAILURE
    }
}
