//! A slurmctld of Debian with a munged of its own: state in a fresh folder, all jobs held. Nothing of it is deleted while it is
//! measured: ext4 is slow where it has just deleted many folders.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use integration_harness::{etcd::tied, eventually};
use tempfile::TempDir;

use crate::command_job::text;

const PROGRAM: &str = include_str!("../peers/slurm_submit.c");
const NEEDED: [&str; 5] = ["slurmctld", "munged", "sbatch", "scontrol", "gcc"];
/// Longest wait for it to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where all of them have their folders, and the program that submits.
pub struct Ground {
    /// Kept to the end.
    dir: TempDir,
    program: PathBuf,
    mounted: bool,
    made: u32,
}

impl Ground {
    /// A file system of its own where this machine lets us, and the program.
    ///
    /// # Errors
    /// What is missing.
    pub fn new() -> Result<Self, String> {
        for program in NEEDED {
            let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
            if !found.is_ok_and(|found| found.status.success()) {
                let install = "Debian: apt install slurmctld slurm-client munge libslurm-dev gcc";
                return Err(format!("there is no {program} ({install})"));
            }
        }
        let dir = TempDir::with_prefix("railyard-slurm-").map_err(text)?;
        let (source, program) = (dir.path().join("submit.c"), dir.path().join("submit"));
        fs::write(&source, PROGRAM).map_err(text)?;
        run(Command::new("gcc").arg("-O2").arg(&source).arg("-o").arg(&program).arg("-lslurm"))?;
        let (image, state) = (dir.path().join("image"), dir.path().join("state"));
        fs::create_dir(&state).map_err(text)?;
        let mounted = run(Command::new("truncate").args(["-s", "2G"]).arg(&image))
            .and_then(|()| run(Command::new("mkfs.ext4").args(["-q", "-F", "-N", "500000"]).arg(&image)))
            .and_then(|()| run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&state)))
            .is_ok();
        Ok(Self { dir, program, mounted, made: 0 })
    }

    /// Where the state is, for people.
    pub fn place(&self) -> &'static str {
        if self.mounted { "a fresh ext4 on a loop device" } else { "the temporary folder" }
    }

    /// A controller of an empty queue.
    ///
    /// # Errors
    /// The folder cannot be made, or slurmctld does not come up.
    pub fn start(&mut self) -> Result<Slurm, String> {
        self.made += 1;
        let dir = self.dir.path().join("state").join(self.made.to_string());
        fs::create_dir_all(dir.join("save")).map_err(text)?;
        Slurm::start(dir, self.program.clone())
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if self.mounted {
            // What stays behind is in the temporary folder.
            let _ = run(Command::new("umount").arg(self.dir.path().join("state")));
        }
    }
}

/// A slurmctld that runs, with its munged.
pub struct Slurm {
    dir: PathBuf,
    program: PathBuf,
    running: Vec<Child>,
}

impl Slurm {
    fn start(dir: PathBuf, program: PathBuf) -> Result<Self, String> {
        fs::write(dir.join("munge.key"), [7; 128]).map_err(text)?;
        run(Command::new("chmod").arg("600").arg(dir.join("munge.key")))?;
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).map_err(text)?;
        fs::write(dir.join("slurm.conf"), config(&dir, port.port())).map_err(text)?;
        fs::write(dir.join("job.sh"), "#!/bin/sh\ntrue\n").map_err(text)?;
        let mut slurm = Self { dir, program, running: Vec::new() };
        let at = |name: &str, file: &str| format!("--{name}={}", slurm.dir.join(file).display());
        let munge = [
            at("key-file", "munge.key"),
            at("socket", "munge.socket"),
            at("pid-file", "munge.pid"),
            at("log-file", "munge.log"),
            at("seed-file", "munge.seed"),
        ];
        let mut munged = tied(Path::new("munged"));
        munged.args(["--foreground", "--force"]).args(munge);
        slurm.spawn(munged)?;
        let socket = slurm.dir.join("munge.socket");
        eventually("munged to listen", PATIENCE, || socket.exists().then_some(()))?;
        let mut slurmctld = tied(Path::new("slurmctld"));
        slurmctld.arg("-D").arg("-f").arg(slurm.dir.join("slurm.conf"));
        slurm.spawn(slurmctld)?;
        let answers = || slurm.client("scontrol").arg("ping").output().ok();
        let up = || answers().filter(|said| String::from_utf8_lossy(&said.stdout).contains("is UP"));
        eventually("slurmctld to answer", PATIENCE, up)?;
        Ok(slurm)
    }

    fn spawn(&mut self, mut command: Command) -> Result<(), String> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.running.push(command.spawn().map_err(|error| format!("{command:?}: {error}"))?);
        Ok(())
    }

    fn client(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.dir.join("slurm.conf")).current_dir(&self.dir);
        command
    }

    /// Submits through the library; answers the seconds, and each submit's milliseconds.
    ///
    /// # Errors
    /// The program that submits fails; its standard error is the text.
    pub fn submit(&self, processes: usize, seconds: u64, rate: u32) -> Result<(f64, Vec<f64>), String> {
        let args = [processes.to_string(), seconds.to_string(), rate.to_string()];
        let output = self.client(&self.program).args(args).output().map_err(text)?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stdout);
        let mut numbers = said.lines().filter_map(|line| line.parse::<f64>().ok());
        Ok((numbers.next().ok_or("it said nothing")?, numbers.collect()))
    }

    /// The command line of one submit, and where it runs.
    pub fn sbatch(&self, shell: &str) -> Command {
        let mut command = self.client("sh");
        command.arg("-c").arg(shell.replace("SUBMIT", "sbatch -Q -H -N1 -t 5 -o /dev/null job.sh"));
        command
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        while let Some(mut child) = self.running.pop() {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn config(dir: &Path, port: u16) -> String {
    let dir = dir.display();
    format!(
        "ClusterName=rail\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort={port}\nSlurmUser=root\n\
         AuthType=auth/munge\nAuthInfo=socket={dir}/munge.socket\nCredType=cred/munge\n\
         StateSaveLocation={dir}/save\nSlurmdSpoolDir={dir}/spool\nSlurmctldPidFile={dir}/ctld.pid\n\
         SlurmctldLogFile={dir}/ctld.log\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
         JobAcctGatherType=jobacct_gather/none\nMpiDefault=none\nReturnToService=2\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nMaxJobCount=1000000\n\
         NodeName=n[0-3] NodeAddr=127.0.0.1 Port=[17001-17004] CPUs=8 RealMemory=1000\n\
         PartitionName=down Nodes=n[0-3] Default=YES MaxTime=INFINITE State=DOWN\n"
    )
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}
