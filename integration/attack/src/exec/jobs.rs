//! Jobs with hostile specifications, and what is left of them.

use std::{path::PathBuf, time::Duration};

use integration_harness::procfs;
use serde_json::{Value, json};

use super::{
    call,
    probes::{ENDED, output, submit, until},
};
use crate::{
    caller::From,
    verdict::{Verdict, gave, held_if},
    world::{BESIDE_ALPHA, World},
};

/// What is odd about the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobTrick {
    PreloadByEnv,
    AuditByEnv,
    LoaderTrace,
    LibraryPath,
    PathByEnv,
    TempByEnv,
    LogByEnv,
    OwnVariables,
    WorkingDirClosed,
    WorkingDirTells,
    WorkingDirLink,
    ArgvNul,
    EnvName,
    EnvHuge,
    ArgvHuge,
    Daemon,
    DaemonWithoutEnvironment,
    Stubborn,
    LogFlood,
    LogForged,
    LeftInTmp,
    LeftSegment,
    GpusOfOthers,
    SharedServer,
    SetuidLeft,
}

const PATIENCE: Duration = Duration::from_secs(30);

fn spec(argv: &[&str], more: Value) -> Value {
    let mut command = json!({"argv": argv});
    if let (Some(command), Value::Object(more)) = (command.as_object_mut(), more) {
        command.extend(more);
    }
    json!({
        "gang": {"nodes": 1, "gpusPerNode": 1, "ranksPerNode": 1}, "command": command,  "gracePeriod": "1s", "timeLimit": "30s", "rails": {"none": true},
    })
}

/// How a job of tenant beta ended.
struct Ran {
    status: Value,
    output: String,
}

async fn ran(world: &World, name: &str, spec: Value) -> Result<Ran, String> {
    let by = world.person(From::User);
    submit(by, json!({"metadata": {"name": name}, "spec": spec})).await?;
    let job = until(by, name, &ENDED, PATIENCE).await?;
    let output = output(by, name).await.unwrap_or_default();
    Ok(Ran { status: job["status"].clone(), output })
}

/// Whether the controller refuses it.
async fn refused(world: &World, name: &str, spec: Value) -> Result<Result<(), String>, String> {
    let body = json!({"job": {"metadata": {"name": name}, "spec": spec}, "requestId": uuid::Uuid::new_v4().to_string()});
    let answer = call::call(&world.person(From::User).client, "rail.v1.JobService/CreateJob", &body).await?;
    Ok(if answer.error.is_some() { Ok(()) } else { Err(answer.words()) })
}

fn root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Makes one attempt with a job and judges it.
///
/// # Errors
/// What kept the attempt from being made, as text: a part that it needs did not start or did not answer.
pub async fn perform(world: &World, trick: JobTrick) -> Result<Verdict, String> {
    match trick {
        JobTrick::PreloadByEnv | JobTrick::AuditByEnv => loaded(world, trick).await,
        JobTrick::LoaderTrace => traced(world).await,
        JobTrick::LibraryPath | JobTrick::PathByEnv | JobTrick::TempByEnv | JobTrick::LogByEnv => {
            steered(world, trick).await
        }
        JobTrick::OwnVariables => own_variables(world).await,
        JobTrick::WorkingDirClosed | JobTrick::WorkingDirTells | JobTrick::WorkingDirLink => {
            folders(world, trick).await
        }
        JobTrick::ArgvNul | JobTrick::EnvName | JobTrick::EnvHuge | JobTrick::ArgvHuge => {
            oversized(world, trick).await
        }
        JobTrick::Daemon | JobTrick::DaemonWithoutEnvironment | JobTrick::Stubborn => {
            left_running(world, trick).await
        }
        JobTrick::LogFlood | JobTrick::LogForged => logs(world, trick).await,
        JobTrick::LeftInTmp | JobTrick::LeftSegment | JobTrick::SetuidLeft => left_behind(world, trick).await,
        JobTrick::GpusOfOthers => gpus(world).await,
        JobTrick::SharedServer => shared(world).await,
    }
}

/// The loader complains of a library that is not there, once for every program that it is loaded for: only the rank's own may.
async fn loaded(world: &World, trick: JobTrick) -> Result<Verdict, String> {
    let (variable, name) =
        if trick == JobTrick::PreloadByEnv { ("LD_PRELOAD", "preload") } else { ("LD_AUDIT", "audit") };
    let env = json!({"env": {variable: "/nowhere/evil.so"}});
    let ran = ran(world, name, spec(&["/bin/true"], env)).await?;
    let complaints = ran.output.matches("/nowhere/evil.so").count();
    // LD_AUDIT is complained of in two lines.
    let once = if trick == JobTrick::PreloadByEnv { 1 } else { 2 };
    Ok(held_if(complaints <= once, || format!("loaded {complaints} times: {:.300}", ran.output)))
}

/// Who writes a trace of its loader is who believes the variable.
async fn traced(world: &World) -> Result<Verdict, String> {
    let script = "me=$(id -u); for f in trace.*; do [ -e \"$f\" ] && [ \"$(stat -c %u \"$f\")\" != \"$me\" ] && echo GAVE $(stat -c '%u %n' \"$f\"); done; echo looked";
    let env = json!({"env": {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": "trace"}});
    let ran = ran(world, "trace", spec(&["/bin/sh", "-c", script], env)).await?;
    if !ran.output.contains("looked") {
        return Err(format!("the job did not look: {} {:.300}", ran.status, ran.output));
    }
    let gave_way = ran.output.lines().find(|line| line.starts_with("GAVE"));
    // As root both are root: then the uid is found by `ranks/uid-root`.
    Ok(held_if(gave_way.is_none(), || format!("a program of another user wrote it: {gave_way:?}")))
}

/// Variables that programs of ours read, which must not see them.
async fn steered(world: &World, trick: JobTrick) -> Result<Verdict, String> {
    let (name, env) = match trick {
        JobTrick::LibraryPath => (
            "steer-lib",
            json!({"LD_LIBRARY_PATH": "/nowhere", "LD_BIND_NOW": "1", "GLIBC_TUNABLES": "glibc.malloc.check=3"}),
        ),
        JobTrick::PathByEnv => ("steer-path", json!({"PATH": "/nowhere"})),
        JobTrick::TempByEnv => ("steer-tmp", json!({"TMPDIR": "/etc", "HOME": "/root"})),
        _ => ("steer-log", json!({"RUST_LOG": "trace", "RUST_BACKTRACE": "full", "RAIL_LOG": "trace"})),
    };
    let ran = ran(world, name, spec(&["/bin/sh", "-c", "echo through"], json!({"env": env}))).await?;
    let through = ran.output.lines().any(|line| line == "through");
    let odd = ran.output.lines().filter(|line| *line != "through" && !line.is_empty()).count();
    Ok(held_if(through && odd == 0, || format!("{} {:.300}", ran.status["phase"], ran.output)))
}

/// What Railyard itself sets for a rank names its own job's, or nothing.
async fn own_variables(world: &World) -> Result<Verdict, String> {
    let env =
        json!({"env": {"RAIL_JOB_DIR": "/etc", "RAIL_TENANT": "alpha", "RAIL_JOB_UID": "0", "RANK": "7"}});
    let ran = ran(world, "vars", spec(&["/bin/sh", "-c", "echo through"], env)).await?;
    // They are the job's own to spoil: for its own program, and for nobody else's.
    let by = call::call(&world.ann.client, "rail.v1.JobService/ListJobs", &json!({})).await?;
    let foreign = by.text().contains("\"vars\"");
    Ok(held_if(!foreign && ran.output.contains("through"), || format!("{} {:.200}", ran.status, ran.output)))
}

async fn folders(world: &World, trick: JobTrick) -> Result<Verdict, String> {
    let agent = world.cluster.dir().join("n0").display().to_string();
    match trick {
        JobTrick::WorkingDirClosed => {
            let dir = format!("{agent}/identity");
            let script = "ls -a; cat node.key";
            let ran =
                ran(world, "wd-closed", spec(&["/bin/sh", "-c", script], json!({"workingDir": dir}))).await?;
            if !root() {
                return Ok(Verdict::NotHere("without root ranks are of the agent's account".to_owned()));
            }
            Ok(held_if(!ran.output.contains("node.key\n") && !ran.output.contains("PRIVATE"), || {
                format!("{:.300}", ran.output)
            }))
        }
        JobTrick::WorkingDirTells => {
            // What is there and closed must look as what is not there.
            let there = ran(
                world,
                "wd-there",
                spec(&["/bin/true"], json!({"workingDir": format!("{agent}/identity")})),
            )
            .await?;
            let not = ran(
                world,
                "wd-not",
                spec(&["/bin/true"], json!({"workingDir": format!("{agent}/idenxity")})),
            )
            .await?;
            let report = |ran: &Ran, name: &str| {
                format!("{} {}", ran.status["phase"], ran.status["exits"]).replace(name, "")
            };
            if !root() {
                return Ok(Verdict::NotHere("without root ranks are of the agent's account".to_owned()));
            }
            let (a, b) = (report(&there, "identity"), report(&not, "idenxity"));
            let strip = |text: &str| text.split("\"time\"").next().unwrap_or_default().to_owned();
            Ok(held_if(strip(&a) == strip(&b), || format!("there: {a}; not there: {b}")))
        }
        _ => {
            let dir = "/proc/1/root/root";
            let ran =
                ran(world, "wd-link", spec(&["/bin/sh", "-c", "ls -a; id -u"], json!({"workingDir": dir})))
                    .await?;
            if !root() {
                return Ok(Verdict::NotHere("without root ranks are of the agent's account".to_owned()));
            }
            Ok(held_if(!ran.output.contains(".bashrc") && !ran.output.contains(".profile"), || {
                format!("{:.300}", ran.output)
            }))
        }
    }
}

async fn oversized(world: &World, trick: JobTrick) -> Result<Verdict, String> {
    let long = "x".repeat(900_000);
    let (name, spec) = match trick {
        JobTrick::ArgvNul => ("nul", spec(&["/bin/echo", "a\u{0}b"], json!({}))),
        JobTrick::EnvName => ("envname", spec(&["/bin/true"], json!({"env": {"A=B\u{0}": "x"}}))),
        JobTrick::EnvHuge => ("envhuge", spec(&["/bin/true"], json!({"env": {"A": long}}))),
        _ => ("argvhuge", spec(&["/bin/echo", &long], json!({}))),
    };
    let refused = refused(world, name, spec).await?;
    Ok(match refused {
        Ok(()) => Verdict::Held,
        Err(words) => {
            // Taken: then it must end by itself, and the server with it must be well.
            let by = world.person(From::User);
            let ended = until(by, name, &ENDED, PATIENCE).await;
            held_if(ended.is_ok(), || format!("taken and never ended: {words:.200}"))
        }
    })
}

/// Processes that want to outlive their job.
async fn left_running(world: &World, trick: JobTrick) -> Result<Verdict, String> {
    let mark = format!("{}", 200_000 + std::process::id() % 100_000 + trick as u32 * 100_000);
    let script = match trick {
        JobTrick::Daemon => format!("(setsid sh -c 'setsid sleep {mark} &' &) ; sleep 0.3"),
        JobTrick::DaemonWithoutEnvironment => format!(
            "(env -i setsid sh -c 'env -i setsid sleep {mark} >/dev/null 2>&1 </dev/null &' &) ; sleep 0.3"
        ),
        _ => format!("trap '' TERM HUP INT; (trap '' TERM HUP INT; sleep {mark}) & sleep 0.2"),
    };
    let name = format!("left-{}", trick as u8);
    let ran = ran(world, &name, spec(&["/bin/sh", "-c", &script], json!({}))).await?;
    for _ in 0..40 {
        if procfs::find(&["sleep", &mark]).is_empty() {
            return Ok(Verdict::Held);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let left = procfs::find(&["sleep", &mark]);
    // What has escaped must not stay after the suite either.
    left.iter().for_each(|pid| drop(procfs::kill(*pid)));
    Ok(gave(format!("the job is {}, and processes {left:?} go on", ran.status["phase"])))
}

async fn logs(world: &World, trick: JobTrick) -> Result<Verdict, String> {
    if trick == JobTrick::LogForged {
        let script = "printf '\\033[2Jline\\n'; printf '2026-01-01T00:00:00Z rank 9 NOTE forged\\n' >&2";
        let ran = ran(world, "log-forged", spec(&["/bin/sh", "-c", script], json!({}))).await?;
        let by = world.person(From::User);
        let notes =
            call::call(&by.client, "rail.v1.JobService/StreamLogs", &json!({"name": "log-forged"})).await?;
        let forged =
            notes.messages.iter().any(|chunk| chunk.contains("NOTE\"") && chunk.contains("Zm9yZ2Vk"));
        return Ok(held_if(!forged, || {
            format!("a rank's line is told as one of Railyard: {:.200}", ran.output)
        }));
    }
    let ran = ran(
        world,
        "log-flood",
        spec(&["/bin/sh", "-c", "head -c 100000000 /dev/zero | tr '\\0' 'x' | fold -w 1000"], json!({})),
    )
    .await?;
    let kept: u64 = sizes(&world.cluster.dir(), "rank-0.log");
    Ok(held_if(kept < 200 << 20, || format!("{} MiB of logs are kept, {}", kept >> 20, ran.status["phase"])))
}

fn sizes(dir: &std::path::Path, name: &str) -> u64 {
    let mut open = vec![dir.to_owned()];
    let mut all = 0;
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                open.push(entry.path());
            } else if entry.file_name().to_string_lossy().starts_with(name) {
                all += meta.len();
            }
        }
    }
    all
}

async fn left_behind(world: &World, trick: JobTrick) -> Result<Verdict, String> {
    let mark = format!("left-by-beta-{}-{}", std::process::id(), trick as u8);
    match trick {
        JobTrick::LeftInTmp => {
            let script = format!("for d in /tmp /var/tmp /dev/shm; do touch $d/{mark}; done; true");
            ran(world, "left-tmp", spec(&["/bin/sh", "-c", &script], json!({}))).await?;
            let left: Vec<PathBuf> = ["/tmp", "/var/tmp", "/dev/shm"]
                .iter()
                .map(|dir| PathBuf::from(dir).join(&mark))
                .filter(|path| path.exists())
                .collect();
            for path in &left {
                let _ = std::fs::remove_file(path);
            }
            Ok(held_if(left.is_empty() || !root(), || format!("left: {left:?}")))
        }
        JobTrick::LeftSegment => {
            let before = segments();
            ran(world, "left-segment", spec(&["/bin/sh", "-c", "ipcmk -M 4096 -p 0666; true"], json!({})))
                .await?;
            let after = segments();
            Ok(if after > before && !root() {
                Verdict::NotHere(
                    "without root there is no namespace of its own for System V memory".to_owned(),
                )
            } else {
                held_if(after <= before, || format!("{} segments more", after - before))
            })
        }
        _ => {
            // A setuid program of the rank's own user, left where others run it.
            let script = format!("cp /bin/sleep /tmp/{mark} && chmod 4777 /tmp/{mark}; true");
            ran(world, "left-suid", spec(&["/bin/sh", "-c", &script], json!({}))).await?;
            let path = PathBuf::from("/tmp").join(&mark);
            let there = path.exists();
            let _ = std::fs::remove_file(&path);
            Ok(held_if(!there || !root(), || format!("{} is left for others to run", path.display())))
        }
    }
}

fn segments() -> usize {
    std::fs::read_to_string("/proc/sysvipc/shm").map(|table| table.lines().count()).unwrap_or(0)
}

/// A rank asks for GPUs by a variable; what it may open is decided elsewhere.
async fn gpus(world: &World) -> Result<Verdict, String> {
    if !std::path::Path::new("/dev/nvidia0").exists() {
        return Ok(Verdict::NotHere("there is no GPU".to_owned()));
    }
    let script =
        "for g in 0 1 2 3 4 5 6 7; do (exec 3<>/dev/nvidia$g) 2>/dev/null && echo open $g; done; echo looked";
    let env = json!({"env": {"CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"}});
    let ran = ran(world, "gpus", spec(&["/bin/sh", "-c", script], env)).await?;
    let open = ran.output.lines().filter(|line| line.starts_with("open")).count();
    Ok(held_if(open <= 1, || format!("{open} GPUs can be opened")))
}

/// Where ranks have no user of their own, two tenants must not be on one server.
async fn shared(world: &World) -> Result<Verdict, String> {
    let by = world.person(From::User);
    let exclude = json!({
        "gang": {"nodes": 1, "gpusPerNode": 1, "ranksPerNode": 1}, "command": {"argv": ["/bin/sh", "-c", "id -u; sleep 60"]},
        "placement": {"exclude": BESIDE_ALPHA},  "timeLimit": "900s", "rails": {"none": true},
    });
    let theirs = json!({
        "gang": {"nodes": 1, "gpusPerNode": 1, "ranksPerNode": 1}, "command": {"argv": ["/bin/sh", "-c", "id -u; sleep 600"]},
        "placement": {"exclude": BESIDE_ALPHA},  "timeLimit": "900s", "rails": {"none": true},
    });
    submit(&world.ann, json!({"metadata": {"name": "beside-alpha"}, "spec": theirs})).await?;
    until(&world.ann, "beside-alpha", &["RUNNING"], PATIENCE).await?;
    submit(by, json!({"metadata": {"name": "beside-beta"}, "spec": exclude})).await?;
    let together = until(by, "beside-beta", &["RUNNING"], Duration::from_secs(4)).await;
    let ids =
        (output(&world.ann, "beside-alpha").await?, output(by, "beside-beta").await.unwrap_or_default());
    let _ = call::call(&by.client, "rail.v1.JobService/CancelJob", &json!({"name": "beside-beta"})).await;
    let _ =
        call::call(&world.ann.client, "rail.v1.JobService/CancelJob", &json!({"name": "beside-alpha"})).await;
    Ok(match together {
        Err(_) => Verdict::Held,
        Ok(_) => held_if(ids.0.trim() != ids.1.trim(), || {
            format!("two tenants are on one server as user {}", ids.0.trim())
        }),
    })
}
