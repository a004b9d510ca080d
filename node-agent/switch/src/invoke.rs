//! A command as a value, and the one place where it is run: with a time limit, bounded output, and nobody of it left over.

use std::{
    io::{Read, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use node_agent_os::process;
use rustix::process::{Pid, Signal, kill_process_group};
use thiserror::Error;

use crate::text;

/// What is kept of what a command says to people on each of its outputs, in bytes: the end of it.
const SAID_MAX: usize = 400;
/// Once a command has ended, those that it has left behind may hold its output open for so long.
const AFTER: Duration = Duration::from_millis(500);
/// Between two tries of a command that is waited for.
const AGAIN: Duration = Duration::from_millis(500);
/// The environment of every command holds this, so that those of an agent that was killed are found.
const MARK: &str = "RAIL_SWITCH_AGENT";

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// What it reads.
    pub stdin: String,
    /// It is killed, with all of its process group, when it takes longer.
    pub limit: Duration,
    /// Most bytes of its output; more is an error.
    pub output_max: usize,
}

impl Invocation {
    /// A command that reads nothing, ends within 20 s, and says at most 1 MiB.
    #[must_use]
    pub fn new(program: impl Into<String>, arguments: &[&str]) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.iter().map(|one| (*one).to_owned()).collect(),
            stdin: String::new(),
            limit: Duration::from_secs(20),
            output_max: 1 << 20,
        }
    }

    /// The same with another limit.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// The same with more output.
    #[must_use]
    pub fn saying(self, output_max: usize) -> Self {
        Self { output_max, ..self }
    }

    /// The same with something to read.
    #[must_use]
    pub fn reading(self, stdin: impl Into<String>) -> Self {
        Self { stdin: stdin.into(), ..self }
    }

    /// As people write it, shortened.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = self.program.clone();
        for argument in &self.arguments {
            line.push(' ');
            line.push_str(argument);
        }
        text::within(&line, 200)
    }
}

/// One part of putting a configuration in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// A file is written, readable by root only.
    Write {
        /// Where.
        path: PathBuf,
        /// What.
        content: String,
    },
    /// A command is run, and has to end well.
    Run(Invocation),
    /// It is waited until a command ends well; it is run again and again.
    Until {
        /// The command.
        answers: Invocation,
        /// For how long; a last try may go on beyond that, until its own limit.
        within: Duration,
    },
}

/// Why a command has no output that could be used.
#[derive(Debug, Error)]
pub enum InvokeError {
    /// There is no such program, or it cannot be started.
    #[error("cannot start `{line}`: {source}")]
    Start {
        /// The command.
        line: String,
        /// What the kernel answered.
        source: std::io::Error,
    },
    /// It ended badly.
    #[error("`{line}` ended with {status}: {said}")]
    Status {
        /// The command.
        line: String,
        /// How.
        status: String,
        /// The end of what it said.
        said: String,
    },
    /// It took too long.
    #[error("`{line}` was ended after {} s: {said}", limit.as_secs())]
    Late {
        /// The command.
        line: String,
        /// Its limit.
        limit: Duration,
        /// The end of what it said.
        said: String,
    },
    /// It said too much.
    #[error("`{line}` said more than {max} bytes")]
    TooMuch {
        /// The command.
        line: String,
        /// Its limit.
        max: usize,
    },
}

impl InvokeError {
    /// There is no such program.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Start { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }
}

/// Runs commands, marked with the folder of the agent that they belong to.
#[derive(Debug, Clone)]
pub struct Shell {
    mark: String,
}

impl Shell {
    /// Of the agent with this state folder.
    #[must_use]
    pub fn new(state: &Path) -> Self {
        Self { mark: state.display().to_string() }
    }

    /// Ends what an agent of the same folder has left running when it was killed; says how many processes that were. What they were at
    /// is half done, and they must not go on beside its being taken back.
    #[must_use]
    pub fn end_leftovers(&self) -> usize {
        let entry = format!("{MARK}={}", self.mark);
        let (own, mut ended) = (std::process::id().cast_signed(), 0);
        // Each look may find what the last ones have started meanwhile.
        for _ in 0..100 {
            let left: Vec<_> =
                process::with_environment(&entry).into_iter().filter(|one| one.id.pid != own).collect();
            if left.is_empty() {
                break;
            }
            ended += left.iter().filter(|one| one.id.signal(Signal::KILL)).count();
            thread::sleep(Duration::from_millis(20));
        }
        ended
    }

    /// What the command says on its standard output.
    ///
    /// # Errors
    /// [`InvokeError`], with the command and the end of what it said.
    pub fn run(&self, invocation: &Invocation) -> Result<String, InvokeError> {
        let line = invocation.line();
        let mut command = Command::new(&invocation.program);
        command.args(&invocation.arguments).env(MARK, &self.mark).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().map_err(|source| InvokeError::Start { line: line.clone(), source })?;
        if let Some(mut stdin) = child.stdin.take() {
            let bytes = invocation.stdin.clone().into_bytes();
            // One that does not read ends without having read.
            thread::spawn(move || stdin.write_all(&bytes));
        }
        let stdout = collect(child.stdout.take(), invocation.output_max, false);
        let stderr = collect(child.stderr.take(), SAID_MAX, true);
        let status = wait(&mut child, invocation.limit);
        let hear = |limit| (stdout.recv_timeout(limit), stderr.recv_timeout(limit));
        let (mut out, mut err) = hear(if status.is_some() { AFTER } else { Duration::ZERO });
        if status.is_none() || out.is_err() || err.is_err() {
            // Also those that it has left behind, or their hands would stay on its output.
            kill(&mut child);
            out = out.or_else(|_| stdout.recv_timeout(AFTER));
            err = err.or_else(|_| stderr.recv_timeout(AFTER));
        }
        let (out, err) = (out.unwrap_or_default(), err.unwrap_or_default());
        judge(invocation, line, status, &out, &err)
    }

    fn until(&self, answers: &Invocation, within: Duration) -> Result<(), String> {
        let begin = Instant::now();
        while let Err(error) = self.run(answers) {
            if begin.elapsed() >= within {
                return Err(format!("waited {} s: {error}", within.as_secs()));
            }
            thread::sleep(AGAIN);
        }
        Ok(())
    }

    /// Carries parts out, one after the other, until one fails.
    ///
    /// # Errors
    /// What failed.
    pub fn carry_out(&self, parts: &[Part]) -> Result<(), String> {
        for part in parts {
            match part {
                Part::Write { path, content } => {
                    let folder = path.parent().unwrap_or(Path::new("/"));
                    let made = std::fs::create_dir_all(folder);
                    made.map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
                    let durability = node_agent_os::files::Durability::Process;
                    node_agent_os::files::write_atomic(path, content.as_bytes(), durability)
                        .map_err(|error| error.to_string())?;
                }
                Part::Run(invocation) => {
                    self.run(invocation).map_err(|error| error.to_string())?;
                }
                Part::Until { answers, within } => self.until(answers, *within)?,
            }
        }
        Ok(())
    }
}

/// What was read of an output.
#[derive(Debug, Default)]
struct Heard {
    bytes: Vec<u8>,
    more: bool,
}

/// Reads on a thread: to the end, but keeps so many bytes only; the first or the last ones.
fn collect(from: Option<impl Read + Send + 'static>, max: usize, last: bool) -> Receiver<Heard> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let (mut heard, mut part) = (Heard::default(), [0; 8192]);
        let mut from = from;
        while let Some(count) = from.as_mut().and_then(|from| from.read(&mut part).ok()) {
            if count == 0 {
                break;
            }
            let room = if last { count } else { count.min(max - heard.bytes.len()) };
            heard.more |= room < count;
            heard.bytes.extend_from_slice(&part[..room]);
            if last && heard.bytes.len() > max {
                heard.bytes.drain(..heard.bytes.len() - max);
            }
        }
        // Nobody waits for it any more where the command was given up.
        let _ = sender.send(heard);
    });
    receiver
}

/// Waits until the process has ended; `None` if it takes too long.
fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        thread::sleep(pause.min(left));
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Ends the whole process group.
fn kill(child: &mut Child) {
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        // Fails where all of it has ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

fn judge(
    invocation: &Invocation,
    line: String,
    status: Option<ExitStatus>,
    out: &Heard,
    err: &Heard,
) -> Result<String, InvokeError> {
    let text = String::from_utf8_lossy(&out.bytes).into_owned();
    let said = || {
        let end = |bytes: &[u8]| {
            let from = bytes.len().saturating_sub(SAID_MAX);
            plain(&String::from_utf8_lossy(&bytes[from..]))
        };
        text::within(&format!("{} {}", end(&out.bytes).trim(), end(&err.bytes)), 2 * SAID_MAX)
    };
    match status {
        None => Err(InvokeError::Late { line, limit: invocation.limit, said: said() }),
        Some(status) if !status.success() => {
            let status = match (status.code(), status.signal()) {
                (Some(code), _) => format!("status {code}"),
                (None, signal) => format!("signal {}", signal.unwrap_or_default()),
            };
            Err(InvokeError::Status { line, status, said: said() })
        }
        Some(_) if out.more => Err(InvokeError::TooMuch { line, max: invocation.output_max }),
        Some(_) => Ok(text),
    }
}

/// Without the colours that tools paint errors in.
fn plain(said: &str) -> String {
    let (mut text, mut letters) = (String::new(), said.chars());
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            // `[`, numbers, and the letter that ends it.
            letters.by_ref().find(char::is_ascii_alphabetic);
        } else {
            text.push(letter);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell() -> (Shell, tempfile::TempDir) {
        let room = tempfile::tempdir().unwrap();
        (Shell::new(room.path()), room)
    }

    fn sh(script: &str) -> Invocation {
        Invocation::new("sh", &["-c", script])
    }

    #[test]
    fn a_command_is_heard_and_its_errors_name_it() {
        let (shell, _room) = shell();
        assert_eq!(shell.run(&sh("cat; echo b").reading("a")).unwrap(), "ab\n");
        let error = shell.run(&sh("echo out; echo why >&2; exit 3")).unwrap_err().to_string();
        assert!(
            error.contains("sh -c") && error.contains("status 3") && error.ends_with("out why"),
            "{error}"
        );
        let error = shell.run(&sh("echo only; kill -9 $$")).unwrap_err().to_string();
        assert!(error.contains("signal 9") && error.ends_with("only"), "{error}");
        let error = shell.run(&sh("printf '\\033[91mred\\033[0m'; exit 1")).unwrap_err().to_string();
        assert!(error.ends_with(": red"), "{error}");
        let error = shell.run(&Invocation::new("/no/such", &[])).unwrap_err();
        assert!(error.is_absent(), "{error}");
        let error = shell.run(&sh("head -c 2000000 /dev/zero")).unwrap_err().to_string();
        assert!(error.contains("more than 1048576 bytes"), "{error}");
        // One that reads nothing of a lot.
        let lot = "x".repeat(1 << 20);
        assert_eq!(shell.run(&sh("exec <&-; echo fine").reading(lot)).unwrap(), "fine\n");
    }

    #[test]
    fn a_command_is_waited_for_until_it_ends_well_and_no_longer_than_that() {
        let (shell, room) = shell();
        let tried = room.path().join("tried");
        // Well at the second try.
        let answers = sh(&format!("test -e {0} || {{ touch {0}; exit 1; }}", tried.display()));
        let wait = |answers: &Invocation, within| {
            shell.carry_out(&[Part::Until { answers: answers.clone(), within }])
        };
        wait(&answers, Duration::from_secs(60)).unwrap();
        assert!(tried.exists());
        let error = wait(&sh("echo no; exit 1"), Duration::ZERO).unwrap_err();
        assert!(error.contains("waited 0 s") && error.ends_with("no"), "{error}");
    }

    #[test]
    fn a_command_ends_with_all_that_it_has_started_when_its_time_is_over() {
        let (shell, room) = shell();
        let begin = Instant::now();
        let pid = room.path().join("pid");
        let script = format!("sleep 60 & echo $! > {}; echo slow >&2; sleep 60", pid.display());
        let error = shell.run(&sh(&script).within(Duration::from_secs(5))).unwrap_err().to_string();
        assert!(error.contains("was ended") && error.ends_with("slow"), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(50), "{:?}", begin.elapsed());
        let pid: i32 = std::fs::read_to_string(pid).unwrap().trim().parse().unwrap();
        // The kernel ends it when it gets to that.
        let deadline = begin + Duration::from_secs(50);
        while process::stat(pid).is_some_and(|stat| !stat.zombie) {
            assert!(Instant::now() < deadline, "{pid} still runs");
            thread::sleep(Duration::from_millis(5));
        }
        // One that goes on behind a command that has ended well does not hold anybody up.
        assert_eq!(shell.run(&sh("sleep 60 & echo gone")).unwrap(), "gone\n");
        assert!(begin.elapsed() < Duration::from_secs(50), "{:?}", begin.elapsed());
    }

    #[test]
    fn what_a_killed_agent_left_running_is_ended_and_nothing_else() {
        let ((shell, _room), (other, _other)) = (shell(), self::shell());
        let mark = format!("{MARK}={}", shell.mark);
        let mut left = Command::new("sleep").arg("60").env(MARK, &shell.mark).spawn().unwrap();
        let mut others = Command::new("sleep").arg("60").env(MARK, &other.mark).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(50);
        while process::with_environment(&mark).is_empty() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        let waits = thread::spawn(move || left.wait().unwrap());
        assert!(shell.end_leftovers() >= 1);
        assert_eq!(waits.join().unwrap().signal(), Some(9));
        assert!(others.try_wait().unwrap().is_none());
        others.kill().unwrap();
        others.wait().unwrap();
    }

    #[test]
    fn parts_are_carried_out_until_one_fails() {
        let (shell, room) = shell();
        let file = |name: &str| room.path().join("deep").join(name);
        let write = |name: &str| Part::Write { path: file(name), content: name.to_owned() };
        let parts = [write("a"), Part::Run(sh("exit 1")), write("b")];
        assert!(shell.carry_out(&parts).unwrap_err().contains("status 1"));
        assert!(file("a").exists() && !file("b").exists());
    }
}
