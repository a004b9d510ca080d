//! The wait for a confirmation: of somebody who has to be able to reach this server still, and does so by pressing enter here or by
//! `qos confirm`. A terminal that goes away is no answer: the time goes on.

use std::{
    io::{self, BufRead},
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::Duration,
};

use crate::{Record, run::now};
use proto_model::Timestamp;
use tokio::signal::unix::{SignalKind, signal};

use crate::file_journal::FileJournal;

/// How often it is looked whether another process has confirmed.
const CHECK: Duration = Duration::from_millis(200);

/// How a trial has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Somebody has confirmed it: it stays.
    Confirmed,
    /// It is not to stay.
    Rejected,
    /// The time for a confirmation has passed.
    Late,
    /// Another process has ended it, either way.
    Others,
}

/// What somebody at this terminal says: `true` for enter, `false` for an interrupt or an order to end.
pub(super) struct Answers(Receiver<bool>);

impl Answers {
    /// Listens to standard input and to signals; from here on a terminal that hangs up does not end this process.
    pub(super) fn listen() -> io::Result<Self> {
        let (report, answers) = sync_channel(4);
        let signals = report.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (mut interrupt, mut terminate, mut hangup) = {
            let _inside = runtime.enter();
            (
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
                signal(SignalKind::hangup())?,
            )
        };
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => break,
                        _ = terminate.recv() => break,
                        Some(()) = hangup.recv() => {}
                    }
                }
            });
            let _ = signals.try_send(false);
        })?;
        thread::Builder::new().name("enter".to_owned()).spawn(move || read(io::stdin().lock(), &report))?;
        Ok(Self(answers))
    }
}

/// A line is an answer; the end of the input is none.
fn read(mut input: impl BufRead, report: &SyncSender<bool>) {
    let mut line = String::new();
    if matches!(input.read_line(&mut line), Ok(read) if read > 0) {
        let _ = report.try_send(true);
    }
}

/// Waits for an answer, for another process to have ended it, or for `until`.
pub(super) fn wait(data_dir: &Path, until: Timestamp, answers: &Answers) -> io::Result<End> {
    let Answers(answers) = answers;
    let mut silent = false;
    loop {
        let left = until.since(now());
        if left.is_zero() {
            return Ok(End::Late);
        }
        let pause = left.min(CHECK);
        match if silent { Err(RecvTimeoutError::Timeout) } else { answers.recv_timeout(pause) } {
            Ok(true) => return Ok(End::Confirmed),
            Ok(false) => return Ok(End::Rejected),
            Err(RecvTimeoutError::Disconnected) => silent = true,
            Err(RecvTimeoutError::Timeout) if silent => thread::sleep(pause),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let records = FileJournal::read(data_dir)?;
        if !records.iter().any(|record: &Record| record.waits_until().is_some()) {
            return Ok(End::Others);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enter_is_an_answer_and_the_end_of_the_input_is_none() {
        for (input, answer) in [("\n", Some(true)), ("yes\nno\n", Some(true)), ("", None)] {
            let (report, answers) = sync_channel(4);
            read(input.as_bytes(), &report);
            assert_eq!(answers.try_recv().ok(), answer, "{input:?}");
        }
    }

    #[test]
    fn the_time_and_other_processes_end_a_trial() {
        let room = tempfile::tempdir().unwrap();
        let (report, answers) = sync_channel(4);
        let answers = Answers(answers);
        assert_eq!(wait(room.path(), now(), &answers).unwrap(), End::Late);
        let later = now().plus(Duration::from_secs(60));
        assert_eq!(wait(room.path(), later, &answers).unwrap(), End::Others, "nothing waits");
        report.try_send(false).unwrap();
        assert_eq!(wait(room.path(), later, &answers).unwrap(), End::Rejected);
    }
}
