//! SONiC's own judgement of a configuration, without a switch: its YANG models ([`Yang`]), and its configuration code ([`Referee`]).
//!
//! Both are programs that answer a line of JSON with a line of JSON, and end when they are dropped. Neither is in the repository: a developer's
//! machine has the models in the folder that `RAIL_TEST_SONIC_YANG` names, and the root with SONiC's code in that of `RAIL_TEST_SONIC_ROOT`.

pub mod plan;

use std::{
    ffi::OsString,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::Duration,
};

use serde_json::{Value, json};

use crate::binaries::may_make_namespaces;

/// Longest wait for an answer: SONiC's updater takes seconds for a switch, a hundred for some, and longer beside other load.
const PATIENCE: Duration = Duration::from_secs(600);
/// The driver of SONiC's configuration code, in the root.
const DRIVER: &str = "opt/referee.py";
/// Starts redis at SONiC's place and then the driver, in namespaces of their own: `$1` is the root.
const HOLD: &str = r#"
set -e
ip link set lo up
mount -t proc proc "$1/proc"
mount -t tmpfs none "$1/run"
mkdir -p "$1/run/redis"
exec chroot "$1" sh -c 'redis-server /etc/redis/sonic.conf >/dev/null && exec python3 /opt/referee.py'
"#;

/// A program that answers lines.
#[derive(Debug)]
struct Lines {
    child: Child,
    /// Closing it ends the program.
    pipe: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Lines {
    fn start(command: &mut Command) -> Result<Self, String> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let pipe = child.stdin.take();
        let output = child.stdout.take().ok_or("the program has no output")?;
        let (sender, answers) = channel();
        // Ends with the program's output.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, pipe, answers })
    }

    fn answer(&mut self) -> Result<Value, String> {
        let line = self.answers.recv_timeout(PATIENCE).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("no answer in {PATIENCE:?}"),
            RecvTimeoutError::Disconnected => {
                "it has ended; what it says is on the standard error".to_owned()
            }
        })?;
        serde_json::from_str(&line).map_err(|error| format!("it answers '{line}': {error}"))
    }

    fn ask(&mut self, request: &Value) -> Result<Value, String> {
        let pipe = self.pipe.as_mut().ok_or("it has ended")?;
        writeln!(pipe, "{request}").map_err(|error| format!("it does not listen: {error}"))?;
        self.answer()
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn named(variable: &str, what: &str) -> Result<PathBuf, String> {
    std::env::var_os(variable)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
        .ok_or_else(|| format!("{variable} names no {what}"))
}

/// SONiC's YANG models, held by `rail-yang` (`integration/yang`).
#[derive(Debug)]
pub struct Yang {
    program: Lines,
    /// How many models there are.
    pub models: u64,
}

impl Yang {
    /// The models' folder (`RAIL_TEST_SONIC_YANG`) and the program (`RAIL_TEST_YANG`, which `cargo xtask` builds and names).
    ///
    /// # Errors
    /// What is absent.
    pub fn parts() -> Result<(PathBuf, PathBuf), String> {
        let models = named("RAIL_TEST_SONIC_YANG", "folder of SONiC's YANG models")?;
        if !models.join("yang-models").is_dir() {
            return Err(format!("{} has no folder yang-models (RAIL_TEST_SONIC_YANG)", models.display()));
        }
        let program = named("RAIL_TEST_YANG", "program rail-yang; `cargo xtask` builds it")?;
        if program.is_file() {
            Ok((models, program))
        } else {
            Err(format!("there is no {}", program.display()))
        }
    }

    /// Loads the models.
    ///
    /// # Errors
    /// The models or the program are absent, or the models cannot be loaded.
    pub fn start() -> Result<Self, String> {
        let (models, program) = Self::parts()?;
        let mut program = Lines::start(Command::new(program).arg(models))?;
        let first = program.answer()?;
        let models = first["models"].as_u64().ok_or_else(|| format!("it begins with {first}"))?;
        Ok(Self { program, models })
    }

    /// What the models refuse of a `config_db.json`; nothing if it is valid.
    ///
    /// # Errors
    /// The text is no JSON, or the program has ended.
    pub fn faults(&mut self, name: &str, config: &str) -> Result<Vec<String>, String> {
        let config: Value = serde_json::from_str(config).map_err(|error| format!("{name}: {error}"))?;
        let answer = self.program.ask(&json!({"name": name, "config": config}))?;
        let faults = answer["faults"].as_array().ok_or_else(|| format!("{name}: it answers {answer}"))?;
        Ok(faults.iter().map(|fault| fault.as_str().unwrap_or_default().to_owned()).collect())
    }
}

/// What SONiC would do to get from one configuration to another.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    /// The configuration after each of its steps; the last is where it ends.
    pub states: Vec<Value>,
}

/// SONiC's own configuration code (`sonic-yang-mgmt`, `generic_config_updater`) over a redis of its own, in the root that `cargo xtask lab sonic` makes.
#[derive(Debug)]
pub struct Referee(Lines);

impl Referee {
    /// The root (`RAIL_TEST_SONIC_ROOT`).
    ///
    /// # Errors
    /// What is absent: the root, or the right to make namespaces.
    pub fn root() -> Result<PathBuf, String> {
        let root =
            named("RAIL_TEST_SONIC_ROOT", "root with SONiC's code; `cargo xtask lab sonic` makes one")?;
        if !root.join(DRIVER).is_file() {
            return Err(format!(
                "{} has no {DRIVER}; `cargo xtask lab sonic` makes such a root",
                root.display()
            ));
        }
        if may_make_namespaces() {
            Ok(root)
        } else {
            Err("namespaces need root, and the programs ip and unshare".into())
        }
    }

    /// Starts redis and the driver in the root.
    ///
    /// # Errors
    /// The root is absent, or what is in it does not start.
    pub fn start() -> Result<Self, String> {
        Self::inside(&Self::root()?)
    }

    /// Starts redis and the driver in this root.
    ///
    /// # Errors
    /// What is in it does not start.
    pub fn inside(root: &Path) -> Result<Self, String> {
        let options = [
            "--mount",
            "--pid",
            "--net",
            "--ipc",
            "--uts",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            HOLD,
            "sonic",
        ];
        let args = options.into_iter().map(OsString::from).chain([root.as_os_str().to_owned()]);
        let mut lines = Lines::start(Command::new("unshare").args(args))?;
        let first = lines.answer()?;
        if first["ready"] == true { Ok(Self(lines)) } else { Err(format!("the driver begins with {first}")) }
    }

    /// The answer to a request, or why SONiC refuses it.
    fn ask(&mut self, request: &Value) -> Result<Result<Value, String>, String> {
        let answer = self.0.ask(request)?;
        match answer["refused"].as_str() {
            Some(why) => Ok(Err(why.to_owned())),
            None => Ok(Ok(answer)),
        }
    }

    /// Whether a whole configuration is valid, and if not, why; with what SONiC checks beside its models.
    ///
    /// # Errors
    /// The referee has ended.
    pub fn validate(&mut self, config: &Value) -> Result<Result<(), String>, String> {
        Ok(self.ask(&json!({"do": "validate", "config": config}))?.map(drop))
    }

    /// Makes the database hold this configuration and nothing else, unchecked.
    ///
    /// # Errors
    /// The referee has ended.
    pub fn load(&mut self, config: &Value) -> Result<Result<(), String>, String> {
        Ok(self.ask(&json!({"do": "load", "config": config}))?.map(drop))
    }

    /// What the database holds.
    ///
    /// # Errors
    /// The referee has ended.
    pub fn read(&mut self) -> Result<Result<Value, String>, String> {
        Ok(self.ask(&json!({"do": "read"}))?.map(|mut answer| answer["config"].take()))
    }

    /// What a JSON patch would do to the database, which stays as it is.
    ///
    /// # Errors
    /// The referee has ended.
    pub fn dry_run(&mut self, patch: &Value) -> Result<Result<DryRun, String>, String> {
        let answer = self.ask(&json!({"do": "dry-run", "patch": patch}))?;
        Ok(answer.map(|mut answer| match answer["states"].take() {
            Value::Array(states) => DryRun { states },
            _ => DryRun { states: Vec::new() },
        }))
    }

    /// Applies a JSON patch to the database.
    ///
    /// # Errors
    /// The referee has ended.
    pub fn apply(&mut self, patch: &Value) -> Result<Result<(), String>, String> {
        Ok(self.ask(&json!({"do": "apply", "patch": patch}))?.map(drop))
    }

    /// Saves what the database holds under a name.
    ///
    /// # Errors
    /// The referee has ended.
    pub fn checkpoint(&mut self, name: &str) -> Result<Result<(), String>, String> {
        Ok(self.ask(&json!({"do": "checkpoint", "name": name}))?.map(drop))
    }

    /// Goes back to what was saved under a name.
    ///
    /// # Errors
    /// The referee has ended.
    pub fn roll_back(&mut self, name: &str) -> Result<Result<(), String>, String> {
        Ok(self.ask(&json!({"do": "roll-back", "name": name}))?.map(drop))
    }
}
