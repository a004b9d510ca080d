//! A provider that is a program of the site: the way to a KMS, an HSM or a TPM without a change here.
//!
//! For each operation the program is started anew, without arguments. It reads one JSON object from standard input and writes
//! one to standard output, both in one line, and ends with 0:
//!
//! ```text
//! {"version":1,"operation":"wrap","purpose":"ca-key","key":"<base64 of 32 bytes>"}  -> {"version":1,"wrapped":"<base64>"}
//! {"version":1,"operation":"unwrap","purpose":"ca-key","wrapped":"<base64>"}         -> {"version":1,"key":"<base64>"}
//! {"version":1,"operation":"health"}                                                 -> {"version":1}
//! ```
//!
//! `{"version":1,"error":"..."}` refuses. It has [`TIME_LIMIT`], and 64 KiB for what it says; beyond either it is killed with
//! everything that it started. What it writes to standard error is in the error where it fails. Its environment is the controller's
//! without `RAIL_*`.

use std::{
    io::{Read, Write},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proto_rpc::files::FileError;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{
    envelope::MOST_WRAPPED,
    error::KeyError,
    provider::{DataKey, KeyProvider, Purpose},
};

/// How long one operation may take.
pub const TIME_LIMIT: Duration = Duration::from_secs(15);
const VERSION: u32 = 1;
const MOST_OUTPUT: u64 = 64 * 1024;
/// Bytes of what it says when it fails that are in the error.
const REPORTED: usize = 500;
const CHECK: Duration = Duration::from_millis(5);

#[derive(Serialize)]
struct Request<'a> {
    version: u32,
    operation: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    purpose: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wrapped: Option<&'a str>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    version: u32,
    key: Option<Zeroizing<String>>,
    wrapped: Option<String>,
    error: Option<String>,
}

/// Wraps by running a program.
#[derive(Debug)]
pub struct ProgramProvider {
    program: PathBuf,
    limit: Duration,
}

impl ProgramProvider {
    /// The program at `program`, which nobody but its owner may change.
    ///
    /// # Errors
    /// It is not there, or others can change it.
    pub fn new(program: &Path) -> Result<Self, KeyError> {
        let failed = |source| FileError::Io { action: "read", path: program.to_owned(), source };
        let mode = std::fs::metadata(program).map_err(failed)?.permissions().mode();
        let this = Self { program: program.to_owned(), limit: TIME_LIMIT };
        if mode & 0o022 != 0 {
            return Err(this.fails("others can change it; chmod go-w it"));
        }
        Ok(this)
    }

    /// The same provider with another time limit for each operation.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    fn fails(&self, detail: impl Into<String>) -> KeyError {
        KeyError::Program { program: self.program.clone(), detail: detail.into() }
    }

    fn ask(&self, request: &Request<'_>) -> Result<Answer, KeyError> {
        let line = serde_json::to_vec(request).map_err(|_| KeyError::Failed)?;
        let line = Zeroizing::new([&line[..], b"\n"].concat());
        let output = self.run(&line)?;
        let answer: Answer = serde_json::from_slice(&output)
            .map_err(|error| self.fails(format!("its answer is not the JSON that is expected: {error}")))?;
        if answer.version != VERSION {
            return Err(self.fails(format!("its answer is of version {}, not {VERSION}", answer.version)));
        }
        match answer.error {
            Some(error) => Err(self.fails(format!("it says: {}", printable(error.as_bytes())))),
            None => Ok(answer),
        }
    }

    /// What the program answers, in bounded time and bytes.
    fn run(&self, line: &[u8]) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("RAIL_") {
                command.env_remove(name);
            }
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child =
            command.spawn().map_err(|error| self.fails(format!("it cannot be started: {error}")))?;
        let until = Instant::now() + self.limit;
        let said = child.stdout.take().map(collected);
        let complaint = child.stderr.take().map(collected);
        if let Some(mut input) = child.stdin.take() {
            let line = Zeroizing::new(line.to_vec());
            // A program that does not read what it is asked says so by its answer. 64 KiB fit into a pipe without a reader.
            thread::spawn(move || input.write_all(&line));
        }
        let outcome = self.wait(&mut child, until, said, complaint);
        end(&mut child);
        outcome
    }

    fn wait(
        &self,
        child: &mut Child,
        until: Instant,
        said: Option<Receiver<Zeroizing<Vec<u8>>>>,
        complaint: Option<Receiver<Zeroizing<Vec<u8>>>>,
    ) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let late = || self.fails(format!("no answer within {} s", self.limit.as_secs_f32()));
        let left = || until.saturating_duration_since(Instant::now());
        let output = said.and_then(|said| said.recv_timeout(left()).ok()).ok_or_else(late)?;
        if output.len() as u64 > MOST_OUTPUT {
            return Err(self.fails(format!("it answers with more than {MOST_OUTPUT} bytes")));
        }
        let status = loop {
            match child.try_wait().map_err(|error| self.fails(error.to_string()))? {
                Some(status) => break status,
                None if left().is_zero() => return Err(late()),
                None => thread::sleep(CHECK),
            }
        };
        if status.success() {
            return Ok(output);
        }
        let complaint = complaint.and_then(|complaint| complaint.recv_timeout(left()).ok());
        Err(self.fails(ended(status, &complaint.unwrap_or_default())))
    }
}

/// All that comes until the end, or one byte more than is allowed.
fn collected(from: impl Read + Send + 'static) -> Receiver<Zeroizing<Vec<u8>>> {
    let (report, reported) = channel();
    thread::spawn(move || {
        let mut bytes = Zeroizing::new(Vec::new());
        // What was read before an error is passed on; it will not be what is expected.
        let _ = from.take(MOST_OUTPUT + 1).read_to_end(&mut bytes);
        let _ = report.send(bytes);
    });
    reported
}

/// The program and all that it started.
fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // Nobody is left in it where all went well.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

fn ended(status: ExitStatus, complaint: &[u8]) -> String {
    let complaint = printable(complaint.trim_ascii());
    if complaint.is_empty() { format!("it ended with {status}") } else { format!("{status}: {complaint}") }
}

fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(REPORTED)]).into_owned();
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

impl KeyProvider for ProgramProvider {
    fn name(&self) -> &str {
        "exec"
    }

    fn wrap_key(&self, purpose: Purpose, key: &DataKey) -> Result<Vec<u8>, KeyError> {
        let key = Zeroizing::new(STANDARD.encode(key.bytes()));
        let (operation, purpose) = ("wrap", Some(purpose.as_str()));
        let request = Request { version: VERSION, operation, purpose, key: Some(&key), wrapped: None };
        let wrapped = self.ask(&request)?.wrapped.ok_or_else(|| self.fails("its answer has no 'wrapped'"))?;
        match STANDARD.decode(wrapped.trim()) {
            Ok(wrapped) if (1..=MOST_WRAPPED).contains(&wrapped.len()) => Ok(wrapped),
            Ok(_) => Err(self.fails(format!("'wrapped' must have 1 to {MOST_WRAPPED} bytes"))),
            Err(_) => Err(self.fails("'wrapped' is no base64")),
        }
    }

    fn unwrap_key(&self, purpose: Purpose, wrapped: &[u8]) -> Result<DataKey, KeyError> {
        let wrapped = STANDARD.encode(wrapped);
        let (operation, purpose) = ("unwrap", Some(purpose.as_str()));
        let request = Request { version: VERSION, operation, purpose, key: None, wrapped: Some(&wrapped) };
        let key = self.ask(&request)?.key.ok_or_else(|| self.fails("its answer has no 'key'"))?;
        let bytes = STANDARD.decode(key.trim()).map(Zeroizing::new);
        let key = bytes.ok().and_then(|bytes| DataKey::of(&bytes));
        key.ok_or_else(|| self.fails("'key' is not the base64 of 32 bytes"))
    }

    fn health(&self) -> Result<(), KeyError> {
        let request =
            Request { version: VERSION, operation: "health", purpose: None, key: None, wrapped: None };
        self.ask(&request).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of shell, in a folder of its own.
    fn program(script: &str) -> (tempfile::TempDir, ProgramProvider) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kms");
        // Written by another process: a file that this one holds open for writing while a test beside it forks cannot be run.
        let mut copy = Command::new("sh");
        copy.args(["-c", "umask 022; cat > \"$0\" && chmod 755 \"$0\""]).arg(&path).stdin(Stdio::piped());
        let mut copy = copy.spawn().unwrap();
        let text = format!("#!/bin/sh\n{script}\n");
        copy.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(copy.wait().unwrap().success());
        let provider = ProgramProvider::new(&path).unwrap();
        (folder, provider)
    }

    /// Wraps by encoding once more; enough to see that both sides are spoken to.
    const TURNS: &str = r#"
read line
field() { printf '%s' "$line" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
case "$(field operation)" in
wrap) printf '{"version":1,"wrapped":"%s"}\n' "$(field key | tr -d '\n' | base64 -w0)" ;;
unwrap) printf '{"version":1,"key":"%s"}\n' "$(field wrapped | base64 -d)" ;;
health) printf '{"version":1}\n' ;;
esac"#;

    #[test]
    fn a_program_wraps_and_unwraps() {
        let (_keep, provider) = program(TURNS);
        provider.health().unwrap();
        let key = DataKey::generate().unwrap();
        let wrapped = provider.wrap_key(Purpose::StoreKeys, &key).unwrap();
        assert_ne!(wrapped, key.bytes());
        assert_eq!(provider.unwrap_key(Purpose::StoreKeys, &wrapped).unwrap().bytes(), key.bytes());
    }

    /// Asserts that the script fails in time, with this reason.
    fn fails(script: &str, reported: &str, limit: Duration) {
        let (_keep, provider) = program(script);
        let provider = provider.with_limit(limit);
        let begin = Instant::now();
        let key = DataKey::generate().unwrap();
        let error = provider.wrap_key(Purpose::CaKey, &key).unwrap_err().to_string();
        assert!(error.contains(reported) && error.contains("kms"), "{script}: {error}");
        // No script was waited for to its end, nor the longer limit.
        assert!(begin.elapsed() < Duration::from_secs(50), "{script}: {:?}", begin.elapsed());
    }

    #[test]
    fn whatever_a_program_does_ends_in_time_with_its_reason() {
        for (script, reported) in [
            ("exit 3", "3"),
            ("echo denied by policy >&2; exit 1", "denied by policy"),
            ("echo nonsense", "not the JSON"),
            (r#"echo '{"version":2}'"#, "version 2"),
            (r#"echo '{"version":1,"error":"no such key"}'"#, "no such key"),
            (r#"echo '{"version":1}'"#, "no 'wrapped'"),
            (r#"echo '{"version":1,"wrapped":"%%"}'"#, "no base64"),
            (r#"echo '{"version":1,"wrapped":""}'"#, "bytes"),
            ("yes", "more than"),
        ] {
            fails(script, reported, Duration::from_secs(60));
        }
        for script in ["sleep 60", "sleep 60 & exit 0", "exec >&-; sleep 60"] {
            fails(script, "no answer", Duration::from_millis(1500));
        }
    }

    #[test]
    fn a_program_that_others_can_change_is_refused() {
        let (keep, _) = program("exit 0");
        let path = keep.path().join("kms");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o775)).unwrap();
        assert!(ProgramProvider::new(&path).unwrap_err().to_string().contains("chmod go-w"));
        assert!(matches!(ProgramProvider::new(&keep.path().join("none")), Err(KeyError::File(_))));
    }
}
