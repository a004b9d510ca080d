//! FRR of one switch: where it is found, and the hidden `dev switch`, which is the switch's routing as long as it runs. Its namespace is that
//! of `ip netns exec`, which has a mount namespace of its own as well: FRR finds its users, sockets and configuration where they always
//! are, and nothing of it is in the machine's own folders.

use std::{
    convert::Infallible,
    ffi::OsString,
    fs::{self, File},
    os::{fd::AsRawFd as _, unix::net::UnixStream, unix::process::CommandExt as _},
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use rustix::mount::{MountFlags, mount, mount_bind};
use tokio::process::{Child, Command};

use super::{launch::private_dir, process::interrupted};
use crate::{args::DevSwitch, config::Environment, error::Error};

/// The daemons that a switch runs.
const DAEMONS: [&str; 3] = ["zebra", "bgpd", "bfdd"];
/// From the start of the daemons until all of them answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// Daemons that are asked to end are killed after this time.
const END_LIMIT: Duration = Duration::from_secs(2);
/// Variables that name the folder below which FRR is, the first one first; else it is the system's.
const VARIABLES: [&str; 2] = ["RAIL_FRR", "RAIL_TEST_FRR"];
/// What vtysh prints where a daemon refuses its configuration (FRR, vtysh/vtysh_config.c and lib/northbound_cli.c).
const REFUSALS: [&str; 2] = ["Configuration failed", "processing failure"];
/// Settings of the kernel that make a switch of a namespace; ways of the same length are told apart by addresses and ports.
const SETTINGS: [(&str, &str); 3] = [
    ("/proc/sys/net/ipv4/ip_forward", "1"),
    ("/proc/sys/net/ipv6/conf/all/forwarding", "1"),
    ("/proc/sys/net/ipv4/fib_multipath_hash_policy", "1"),
];

/// The folder below which FRR's programs are.
///
/// # Errors
/// [`Error::Dev`] if a program is missing, with the packages to install.
pub fn find(env: &Environment) -> Result<PathBuf, Error> {
    let named = VARIABLES.into_iter().find_map(|name| env.get(name).map(PathBuf::from));
    let root = named.unwrap_or_else(|| PathBuf::from("/"));
    let daemons = DAEMONS.map(|daemon| format!("usr/lib/frr/{daemon}"));
    let others = ["usr/lib/frr/frr-reload.py", "usr/bin/vtysh"].map(str::to_owned);
    let missing: Vec<String> =
        daemons.into_iter().chain(others).filter(|file| !root.join(file).exists()).collect();
    if missing.is_empty() {
        return Ok(root);
    }
    Err(Error::Dev(format!(
        "--leaves frr needs FRR, and {} is not in {}: install the packages `frr` and `frr-pythontools`, or name the folder below which they \
         are unpacked by RAIL_FRR",
        missing.join(", "),
        root.display()
    )))
}

/// Where the libraries of an unpacked package are; none where FRR is the system's.
fn libraries(root: &Path) -> Option<OsString> {
    if root == Path::new("/") {
        return None;
    }
    let folders = ["usr/lib", "lib"].map(|folder| root.join(folder));
    let entries = folders.into_iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let of_machine = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with("-linux-gnu"));
    let paths = of_machine.flat_map(|entry| [entry.path(), entry.path().join("frr")]);
    std::env::join_paths(paths).ok()
}

/// The hidden `dev switch`: FRR until it is told to end, or another program that finds FRR's sockets.
///
/// # Errors
/// [`Error::File`] if a folder cannot be made or mounted; [`Error::Dev`] if FRR does not start, refuses its configuration, or ends.
pub async fn switch(args: &DevSwitch) -> Result<(), Error> {
    enter(args)?;
    if args.command.is_empty() { serve(args).await } else { become_other(args).map(|never| match never {}) }
}

fn become_other(args: &DevSwitch) -> Result<Infallible, Error> {
    let (program, rest) = args.command.split_first().ok_or_else(|| Error::Usage("no program".to_owned()))?;
    let mut command = std::process::Command::new(program);
    command.args(rest).env("HOME", &args.dir);
    command.envs(libraries(&args.frr).map(|paths| ("LD_LIBRARY_PATH", paths)));
    Err(Error::file("run", PathBuf::from(program), command.exec()))
}

/// Puts the switch's own folders where FRR expects them, for this process and what it starts.
fn enter(args: &DevSwitch) -> Result<(), Error> {
    let (etc, run) = (args.dir.join("etc"), args.dir.join("run"));
    private_dir(&etc)?;
    private_dir(&run)?;
    // By number they are found also where their path is about to be hidden.
    let open = |path: &Path| File::open(path).map_err(|error| Error::file("open", path, error));
    let (etc, run, cluster) = (open(&etc)?, open(&run)?, open(&args.cluster)?);
    let known = ["passwd", "group", "os-release"].map(|name| (name, account(name)));
    empty("/etc")?;
    for (name, text) in known {
        write(&Path::new("/etc").join(name), &text)?;
    }
    make_dir(Path::new("/etc/pam.d"))?;
    write(Path::new("/etc/pam.d/frr"), "auth sufficient pam_permit.so\naccount sufficient pam_permit.so\n")?;
    bind(&etc, Path::new("/etc/frr"))?;
    write(Path::new("/etc/frr/vtysh.conf"), "")?;
    empty("/run")?;
    bind(&run, Path::new("/run/frr"))?;
    if !args.cluster.exists() {
        bind(&cluster, &args.cluster)?;
    }
    Ok(())
}

/// A file of accounts in which FRR's own are root: nobody else is in the switch.
fn account(name: &str) -> String {
    let text = fs::read_to_string(Path::new("/etc").join(name)).unwrap_or_default();
    let own = match name {
        "passwd" => "frr:x:0:0::/:/bin/false\n",
        "group" => "frr:x:0:\nfrrvty:x:0:\n",
        _ => return text,
    };
    let others = text.lines().filter(|line| !["frr:", "frrvty:"].iter().any(|name| line.starts_with(name)));
    let mut kept: String = others.flat_map(|line| [line, "\n"]).collect();
    kept.push_str(own);
    kept
}

fn make_dir(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(|error| Error::file("create", path, error))
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|error| Error::file("write", path, error))
}

/// An empty folder in place of one of the machine's.
fn empty(path: &str) -> Result<(), Error> {
    mount("tmpfs", path, "tmpfs", MountFlags::empty(), None)
        .map_err(|error| Error::file("mount", path, error.into()))
}

/// Shows a folder that is open at another path too.
fn bind(folder: &File, at: &Path) -> Result<(), Error> {
    make_dir(at)?;
    mount_bind(format!("/proc/self/fd/{}", folder.as_raw_fd()), at)
        .map_err(|error| Error::file("mount", at, error.into()))
}

async fn serve(args: &DevSwitch) -> Result<(), Error> {
    for (setting, value) in SETTINGS {
        write(Path::new(setting), value)?;
    }
    // Sockets of an FRR that was killed answer nobody.
    for entry in fs::read_dir("/run/frr").into_iter().flatten().flatten() {
        let _ = fs::remove_file(entry.path());
    }
    let mut daemons = Vec::new();
    for daemon in DAEMONS {
        let program = args.frr.join("usr/lib/frr").join(daemon);
        let child = command(args, &program).args(["-F", "datacenter"]).spawn();
        daemons.push((daemon, child.map_err(|error| Error::file("run", &program, error))?));
    }
    let served = async {
        answering(&mut daemons).await?;
        load(args).await?;
        println!("FRR serves");
        gone(&mut daemons).await
    };
    let ended = tokio::select! {
        ended = served => ended,
        () = interrupted() => Ok(()),
    };
    end(daemons).await;
    ended
}

fn command(args: &DevSwitch, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("HOME", &args.dir).stdin(Stdio::null()).kill_on_drop(true);
    command.envs(libraries(&args.frr).map(|paths| ("LD_LIBRARY_PATH", paths)));
    command
}

/// Waits until every daemon answers on its socket.
async fn answering(daemons: &mut [(&str, Child)]) -> Result<(), Error> {
    let deadline = Instant::now() + ANSWER_LIMIT;
    loop {
        let silent =
            DAEMONS.into_iter().find(|daemon| UnixStream::connect(format!("/run/frr/{daemon}.vty")).is_err());
        let Some(silent) = silent else { return Ok(()) };
        if let Some(ended) = ended(daemons) {
            return Err(ended);
        }
        if Instant::now() >= deadline {
            return Err(Error::Dev(format!(
                "FRR's {silent} does not answer after {} s",
                ANSWER_LIMIT.as_secs()
            )));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// An error if a daemon has ended.
fn ended(daemons: &mut [(&str, Child)]) -> Option<Error> {
    daemons.iter_mut().find_map(|(name, child)| {
        let status = child.try_wait().ok().flatten()?;
        Some(Error::Dev(format!("FRR's {name} ended ({status})")))
    })
}

/// Gives FRR its configuration. A command that FRR does not have is refused by vtysh's exit status; where a daemon refuses one that it has,
/// vtysh ends well, and only its output names it.
async fn load(args: &DevSwitch) -> Result<(), Error> {
    let failed = |why: &str| Error::Dev(format!("FRR does not take its configuration: {}", why.trim()));
    for options in [&["--dryrun", "--inputfile", "/etc/frr/frr.conf"][..], &["--boot"]] {
        let (ended_well, output) = vtysh(args, options).await?;
        let is_refused = REFUSALS.iter().any(|text| output.contains(text));
        if !ended_well || is_refused {
            return Err(failed(&output));
        }
    }
    Ok(())
}

/// Runs vtysh to its end: whether it ended well, and all that it printed.
async fn vtysh(args: &DevSwitch, options: &[&str]) -> Result<(bool, String), Error> {
    let program = args.frr.join("usr/bin/vtysh");
    let run = command(args, &program).args(options).output();
    let late = |_| Error::Dev(format!("FRR's vtysh has not ended after {} s", ANSWER_LIMIT.as_secs()));
    let output = tokio::time::timeout(ANSWER_LIMIT, run)
        .await
        .map_err(late)?
        .map_err(|error| Error::file("run", &program, error))?;
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    Ok((output.status.success(), text.concat()))
}

/// Waits for the first daemon that ends, which none should.
async fn gone(daemons: &mut [(&str, Child)]) -> Result<(), Error> {
    loop {
        if let Some(ended) = ended(daemons) {
            return Err(ended);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Ends the daemons: politely, then not.
async fn end(daemons: Vec<(&str, Child)>) {
    for (_, child) in &daemons {
        if let Some(pid) = child.id().and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed())) {
            // One that has just ended is not waited for yet, so that the number is still its own.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }
    for (_, mut child) in daemons {
        if tokio::time::timeout(END_LIMIT, child.wait()).await.is_err() {
            let _ = child.kill().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frr_that_is_missing_is_named_with_its_packages() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().display().to_string();
        let env = Environment::of(&[("RAIL_TEST_FRR", path.as_str())]);
        let error = find(&env).unwrap_err().to_string();
        assert!(
            error.contains("`frr` and `frr-pythontools`") && error.contains("usr/lib/frr/bfdd"),
            "{error}"
        );
        for file in [
            "usr/lib/frr/zebra",
            "usr/lib/frr/bgpd",
            "usr/lib/frr/bfdd",
            "usr/lib/frr/frr-reload.py",
            "usr/bin/vtysh",
        ] {
            let file = room.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        assert_eq!(find(&env).unwrap(), room.path());
        let both = Environment::of(&[("RAIL_TEST_FRR", path.as_str()), ("RAIL_FRR", "/nowhere")]);
        assert!(find(&both).unwrap_err().to_string().contains("not in /nowhere"));
        assert_eq!(libraries(Path::new("/")), None);
    }
}
