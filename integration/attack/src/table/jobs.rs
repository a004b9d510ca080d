//! What a user of tenant beta tries by the specification of a job.

use crate::{
    caller::From,
    exec::jobs::JobTrick,
    model::{Attempt, Expect, Finding, Step, Trace},
};

fn job(id: &str, title: &str, finding: Finding, trick: JobTrick, expect: Expect) -> Attempt {
    Attempt {
        id: format!("jobs/{id}"),
        title: title.to_owned(),
        finding,
        from: From::User,
        step: Step::Job(trick),
        expect,
        trace: Trace::None,
    }
}

/// All attempts of this part of the table.
pub fn all() -> Vec<Attempt> {
    let (one, two, ten, thirteen, held, low) = (
        Finding::Number(1),
        Finding::Number(2),
        Finding::Number(10),
        Finding::Number(13),
        Finding::Held,
        Finding::Low,
    );
    let (none, absent, bound) = (Expect::NoEffect, Expect::Absent, Expect::Bounded);
    vec![
        job(
            "ld-preload",
            "load a library into what starts the rank, by LD_PRELOAD",
            one,
            JobTrick::PreloadByEnv,
            none,
        ),
        job("ld-audit", "the same by LD_AUDIT", one, JobTrick::AuditByEnv, none),
        job(
            "ld-debug",
            "have what starts the rank write files, by LD_DEBUG_OUTPUT",
            one,
            JobTrick::LoaderTrace,
            none,
        ),
        job(
            "ld-library-path",
            "change what it loads, by LD_LIBRARY_PATH and GLIBC_TUNABLES",
            one,
            JobTrick::LibraryPath,
            none,
        ),
        job("path", "change what it runs, by PATH", one, JobTrick::PathByEnv, none),
        job("tmpdir", "change where it writes, by TMPDIR and HOME", one, JobTrick::TempByEnv, none),
        job("rust-log", "have it tell more than it should, by RUST_LOG", one, JobTrick::LogByEnv, none),
        job(
            "own-variables",
            "pretend to be of another tenant, by RAIL_TENANT",
            held,
            JobTrick::OwnVariables,
            none,
        ),
        job("working-dir", "enter a closed folder by workingDir", ten, JobTrick::WorkingDirClosed, absent),
        job(
            "working-dir-tells",
            "learn what is in a closed folder by workingDir",
            ten,
            JobTrick::WorkingDirTells,
            absent,
        ),
        job(
            "working-dir-link",
            "enter root's home through /proc by workingDir",
            ten,
            JobTrick::WorkingDirLink,
            absent,
        ),
        job("argv-nul", "hide a NUL in an argument", held, JobTrick::ArgvNul, none),
        job("env-name", "hide a NUL in the name of a variable", held, JobTrick::EnvName, none),
        job("env-huge", "set a variable of 900 kB", held, JobTrick::EnvHuge, bound),
        job("argv-huge", "give an argument of 900 kB", held, JobTrick::ArgvHuge, bound),
        job("daemon", "leave a daemon by a double fork", held, JobTrick::Daemon, absent),
        job(
            "daemon-no-env",
            "leave a daemon without environment",
            low,
            JobTrick::DaemonWithoutEnvironment,
            absent,
        ),
        job("stubborn", "leave a process that ignores signals", held, JobTrick::Stubborn, absent),
        job("log-flood", "print 100 MB", held, JobTrick::LogFlood, bound),
        job("log-forged", "print what looks like a note of Railyard", held, JobTrick::LogForged, none),
        job("left-tmp", "leave files in /tmp, /var/tmp and /dev/shm", thirteen, JobTrick::LeftInTmp, absent),
        job("left-segment", "leave System V memory", thirteen, JobTrick::LeftSegment, absent),
        job("left-setuid", "leave a setuid program for others", thirteen, JobTrick::SetuidLeft, absent),
        job("gpus", "open GPUs that are another job's", thirteen, JobTrick::GpusOfOthers, absent),
        job(
            "shared-server",
            "be the same user as another tenant's rank on one server",
            two,
            JobTrick::SharedServer,
            absent,
        ),
    ]
}
