//! Starts a guest, shows its console, and takes its verdict.

use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use super::{Trouble, image::Base, packages};

/// The guest's memory, MiB.
const MEMORY: &str = "1536";
/// Lines of the console that are shown of a guest that gave no verdict, and that are kept in all.
const SHOWN: usize = 40;
const KEPT: usize = 100_000;

/// The result of a guest.
#[derive(Debug, PartialEq)]
pub struct Verdict {
    /// What the suite exited with.
    pub status: i32,
    /// From the start of the emulator to its end.
    pub seconds: f64,
    /// What the console said.
    pub said: Vec<String>,
}

/// Boots and waits for the end; the console is reported line by line.
///
/// # Errors
/// The emulator cannot be had or started.
pub fn boot(
    base: &Base,
    guest: &Path,
    suite: &str,
    limit: Duration,
    report: &dyn Fn(&str),
) -> Result<Verdict, Trouble> {
    let mut command = Command::new(packages::emulator()?);
    // Without ERMS: a kernel that has it copies byte by byte, which an emulator takes literally. It halves the time of copies.
    command.args(["-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max,-erms", "-m", MEMORY, "-smp", "2"]);
    command.args(["-nodefaults", "-nographic", "-no-reboot", "-serial", "stdio", "-monitor", "none"]);
    // Where the guest says how it ended: the emulator exits with twice the number and one.
    command.args(["-device", "isa-debug-exit,iobase=0x501,iosize=2"]);
    command.arg("-kernel").arg(&base.kernel).arg("-initrd").arg(guest);
    // Without the check, a kernel that gets no processor while it waits for the first ticks of its timer takes it for broken.
    let append =
        format!("console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable no_timer_check suite={suite}");
    command.args(["-append", &append]);
    let begin = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = Guest(child.map_err(|error| Trouble::Failed(format!("the emulator: {error}")))?);
    let lines = console(&mut child.0);
    let mut said = Vec::new();
    loop {
        match lines.recv_timeout(limit.saturating_sub(begin.elapsed())) {
            Ok(line) => {
                report(&line);
                if said.len() < KEPT {
                    said.push(line);
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let last = said.last().map_or("nothing", String::as_str);
                let why = format!("suite {suite} is not done within {limit:?}; the guest said last: {last}");
                return Err(Trouble::Failed(why));
            }
        }
    }
    let code = child.0.wait().map_err(Trouble::failed)?.code();
    let seconds = begin.elapsed().as_secs_f64();
    match verdict(code) {
        Some(status) => Ok(Verdict { status, seconds, said }),
        None => {
            let tail = said[said.len().saturating_sub(SHOWN)..].join("\n      ");
            Err(Trouble::Failed(format!("the guest of suite {suite} died without a verdict:\n      {tail}")))
        }
    }
}

/// The suite's exit status, of the emulator's; a guest that merely stops gives none.
fn verdict(code: Option<i32>) -> Option<i32> {
    code.filter(|code| code % 2 == 1).map(|code| code >> 1)
}

/// Ended with whoever waits for it.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines that the guest and the emulator print.
fn console(child: &mut Child) -> Receiver<String> {
    let (sender, lines) = channel();
    let pipes: [Option<Box<dyn Read + Send>>; 2] = [
        child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
        child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
    ];
    for pipe in pipes.into_iter().flatten() {
        let sender = sender.clone();
        thread::spawn(move || {
            for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                let Some(line) = shown(&line) else { continue };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
    }
    lines
}

/// A line of the console as it is shown: without what the firmware says of itself, and without what moves a cursor.
fn shown(line: &str) -> Option<String> {
    const FIRMWARE: &str = "Booting from ROM..";
    let line = line.split_once(FIRMWARE).map_or(line, |(_, rest)| rest);
    let line: String = line.chars().filter(|c| !c.is_control() || *c == '\t').collect();
    (!line.trim().is_empty() && !line.contains("SeaBIOS")).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_is_shown_without_the_firmware() {
        assert_eq!(shown("\x1bc\x1b[?7l\x1b[2J\x1b[0mSeaBIOS (version 1.16.2)\r"), None);
        assert_eq!(shown("Booting from ROM..\x07linux 6.1, up 3 s\r").unwrap(), "linux 6.1, up 3 s");
        assert_eq!(shown(" \r"), None);
        assert_eq!(shown("{\"row\":\"E1\"}\r").unwrap(), "{\"row\":\"E1\"}");
    }

    #[test]
    fn a_guest_that_only_stops_gives_no_verdict() {
        assert_eq!(
            [Some(1), Some(3), Some(255), Some(0), Some(2), None].map(verdict),
            [Some(0), Some(1), Some(127), None, None, None]
        );
    }
}
