//! What a rank is started with: a memory file that only the supervisor and `rank-exec` hold. Its first line is the supervisor's own
//! words, what follows is the tenant's; `rank-exec` reads the second part only when it has given up every privilege.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Write},
    os::unix::fs::FileExt,
    path::PathBuf,
    process::Stdio,
};

use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{ids::Ids, isolation::room::Join, privileges::RankLimits};

/// The kernel takes no more arguments and environment by default (a quarter of an 8 MiB stack).
const PROGRAM_MAX: usize = 2 << 20;
/// 65,536 groups and some paths fit.
const CONFINEMENT_MAX: usize = 1 << 20;
/// A refusal is a line or two.
const REFUSAL_MAX: usize = 4096;

/// What a program finds as its standard input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// Nothing: the program reads from `/dev/null`.
    #[default]
    Nothing,
    /// What the process has inherited under this number.
    Inherited(i32),
    /// The terminal that is its standard output; it becomes the one that controls the program.
    Terminal,
}

impl Input {
    fn is_nothing(&self) -> bool {
        *self == Self::Nothing
    }
}

/// How a rank is held: decided by the supervisor alone, nothing of it comes from the job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confinement {
    /// The supervisor's pid as the rank sees it, none from inside a PID namespace: the rank dies with it.
    pub parent: Option<i32>,
    /// Control groups to enter.
    pub cgroups: Vec<PathBuf>,
    /// Whom to become; the agent's own user if none.
    pub ids: Option<Ids>,
    /// Resource limits (`setrlimit`) of the rank.
    pub limits: RankLimits,
    /// Namespaces of the attempt.
    pub join: Option<Join>,
    /// Refuse the list of system calls.
    pub seccomp: bool,
    /// What the rank finds as its standard input.
    #[serde(default, skip_serializing_if = "Input::is_nothing")]
    pub input: Input,
}

/// What the job says is to be run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Program and arguments; the program is looked for in the job's own `PATH`.
    pub argv: Vec<String>,
    /// All environment variables that the program gets.
    pub environment: BTreeMap<String, String>,
    /// The directory in which the program begins.
    pub working_dir: PathBuf,
}

/// Why a launch cannot be used.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The kernel refused to make or read the file that carries the launch.
    #[error("the launch cannot be passed on: {0}")]
    Io(#[from] io::Error),
    /// More than the kernel would take.
    #[error(
        "the job's command and environment have {0} bytes; at most {PROGRAM_MAX} can be passed to a program"
    )]
    TooLong(usize),
    /// The launch is no JSON of this form.
    #[error("the launch is damaged: {0}")]
    Damaged(#[from] serde_json::Error),
    /// The first line does not end, or is too long.
    #[error("the launch has no confinement")]
    NoConfinement,
    /// The command has no program.
    #[error("the job's command is empty")]
    NoCommand,
    /// No kernel passes this to a program.
    #[error("the job's {0} holds a NUL byte")]
    Nul(&'static str),
    /// No shell could read such a variable.
    #[error("a variable's name in the job's environment is empty or holds `=`")]
    Name,
}

impl Program {
    /// Reads it strictly.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, LaunchError> {
        if bytes.len() > PROGRAM_MAX {
            return Err(LaunchError::TooLong(bytes.len()));
        }
        let program: Self = serde_json::from_slice(bytes)?;
        program.check()?;
        Ok(program)
    }

    fn check(&self) -> Result<(), LaunchError> {
        if self.argv.first().is_none_or(String::is_empty) {
            return Err(LaunchError::NoCommand);
        }
        if self.argv.iter().any(|one| one.contains('\0')) {
            return Err(LaunchError::Nul("command"));
        }
        if self.environment.iter().any(|(name, value)| name.contains('\0') || value.contains('\0')) {
            return Err(LaunchError::Nul("environment"));
        }
        if self.environment.keys().any(|name| name.is_empty() || name.contains('=')) {
            return Err(LaunchError::Name);
        }
        if self.working_dir.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(LaunchError::Nul("working directory"));
        }
        Ok(())
    }
}

/// Divides a launch into the supervisor's part and the tenant's, which stays unread.
///
/// # Errors
/// The first part is missing or damaged.
pub fn divide(bytes: &[u8]) -> Result<(Confinement, &[u8]), LaunchError> {
    let end = bytes.iter().take(CONFINEMENT_MAX).position(|byte| *byte == b'\n');
    let (first, rest) = end.and_then(|end| bytes.split_at_checked(end)).ok_or(LaunchError::NoConfinement)?;
    Ok((serde_json::from_slice(first)?, rest.get(1..).unwrap_or_default()))
}

/// A launch as its supervisor holds it.
#[derive(Debug)]
pub struct Launch {
    file: File,
    length: u64,
}

impl Launch {
    /// Writes it into a memory file.
    ///
    /// # Errors
    /// It cannot be passed to a program, or the kernel gives no memory.
    pub fn write(confinement: &Confinement, program: &Program) -> Result<Self, LaunchError> {
        program.check()?;
        let mut bytes = serde_json::to_vec(confinement)?;
        if bytes.len() >= CONFINEMENT_MAX {
            return Err(LaunchError::NoConfinement);
        }
        bytes.push(b'\n');
        let first = bytes.len();
        serde_json::to_writer(&mut bytes, program)?;
        if bytes.len() - first > PROGRAM_MAX {
            return Err(LaunchError::TooLong(bytes.len() - first));
        }
        let memory = memfd_create(c"rail-launch", MemfdFlags::CLOEXEC).map_err(io::Error::from)?;
        let mut file = File::from(memory);
        file.write_all(&bytes)?;
        Ok(Self { file, length: bytes.len() as u64 })
    }

    /// What `rank-exec` gets as its standard input.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn stdin(&self) -> io::Result<Stdio> {
        Ok(Stdio::from(self.file.try_clone()?))
    }

    /// Why the rank's program was never begun, if `rank-exec` said so.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        let mut bytes = vec![0; REFUSAL_MAX];
        let length = self.file.read_at(&mut bytes, self.length).ok()?;
        let text = String::from_utf8_lossy(bytes.get(..length)?).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

/// A launch as `rank-exec` holds it.
#[derive(Debug)]
pub struct Received {
    file: File,
    bytes: Vec<u8>,
}

impl Received {
    /// Reads what stands on standard input, all of it and no more than there may be.
    ///
    /// # Errors
    /// The kernel's answer, or that it is too long.
    pub fn read(file: File) -> Result<Self, LaunchError> {
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        if length > CONFINEMENT_MAX + PROGRAM_MAX {
            return Err(LaunchError::TooLong(length));
        }
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Self { file, bytes })
    }

    /// All bytes of the launch, as they were received.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Tells the supervisor why nothing was begun.
    pub fn refuse(&self, why: &str) {
        let end = why.char_indices().map(|(at, _)| at).take_while(|at| *at < REFUSAL_MAX).last().unwrap_or(0);
        let text = if why.len() <= REFUSAL_MAX { why } else { why.get(..end).unwrap_or_default() };
        // Where this fails the exit code is all that the supervisor learns.
        let _ = self.file.write_all_at(text.as_bytes(), self.bytes.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolation::Namespaces;

    fn program() -> Program {
        Program {
            argv: vec!["sh".into(), "-c".into(), "true\n".into()],
            environment: [("LD_PRELOAD".to_owned(), "/work/evil.so\nx".to_owned())].into(),
            working_dir: "/work".into(),
        }
    }

    #[test]
    fn a_launch_arrives_as_it_was_written_and_a_refusal_comes_back() {
        let confinement = Confinement {
            parent: Some(7),
            cgroups: vec!["/sys/fs/cgroup/x".into()],
            ids: Some(Ids { uid: 7, gid: 8, groups: vec![9] }),
            join: Some(Join { holder: 1, namespaces: Namespaces { pid: true, ..Namespaces::default() } }),
            seccomp: true,
            input: Input::Inherited(5),
            ..Confinement::default()
        };
        let launch = Launch::write(&confinement, &program()).unwrap();
        assert_eq!(launch.refusal(), None);
        let received = Received::read(launch.file.try_clone().unwrap()).unwrap();
        let (own, rest) = divide(received.bytes()).unwrap();
        assert_eq!((own, Program::decode(rest).unwrap()), (confinement, program()));
        received.refuse("it is closed");
        assert_eq!(launch.refusal().as_deref(), Some("it is closed"));
        received.refuse(&"é".repeat(REFUSAL_MAX));
        assert!(launch.refusal().is_some_and(|text| text.len() <= REFUSAL_MAX && !text.contains('\u{fffd}')));
    }

    #[test]
    fn what_no_program_could_be_given_is_refused_on_both_sides() {
        let changed = |change: fn(&mut Program)| {
            let mut program = program();
            change(&mut program);
            let written = Launch::write(&Confinement::default(), &program).unwrap_err().to_string();
            let read = Program::decode(&serde_json::to_vec(&program).unwrap()).unwrap_err().to_string();
            assert_eq!(written, read);
            written
        };
        assert!(changed(|program| program.argv.clear()).contains("empty"));
        assert!(changed(|program| program.argv[0].clear()).contains("empty"));
        assert!(changed(|program| program.argv.push("a\0b".into())).contains("NUL"));
        assert!(
            changed(|program| drop(program.environment.insert("A=B".into(), String::new()))).contains("`=`")
        );
        assert!(
            changed(|program| drop(program.environment.insert(String::new(), String::new())))
                .contains("empty")
        );
        assert!(changed(|program| drop(program.environment.insert("A".into(), "\0".into()))).contains("NUL"));
        assert!(changed(|program| program.working_dir = "a\0b".into()).contains("NUL"));
        assert!(changed(|program| program.argv.push("x".repeat(PROGRAM_MAX))).contains("bytes"));
        for bad in [&b""[..], b"{}", b"[]", br#"{"argv":["a"],"environment":{},"working_dir":"","more":1}"#] {
            Program::decode(bad).unwrap_err();
        }
        for bad in [&b""[..], b"{}", b"\n", b"{}\n{}", br#"{"parent":1}"#] {
            divide(bad).unwrap_err();
        }
    }
}
