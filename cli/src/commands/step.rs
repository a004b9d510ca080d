//! A step while it goes on: input, signals and the window's size go up, output and ends come down.

mod ends;
mod output;
pub mod pipe;
mod terminal;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use proto_model::StepRequest;
use proto_wire::v1::{self, run_step_request, step_event::What, step_input};
use tokio::{
    io::AsyncReadExt as _,
    signal::unix::{Signal, SignalKind},
    sync::{Semaphore, mpsc},
};
use tokio_stream::wrappers::ReceiverStream;

use self::{output::Writer, terminal::Terminal};
use super::{
    allocation::{Ending, code_of, listen_to},
    step::ends::{Ends, WAITING, input},
};
use crate::{client::Api, error::Error};

/// A second Ctrl-C within this time ends the step.
const TWICE: Duration = Duration::from_secs(1);
/// A step that was asked to end has ended after this long, or is left to the controller.
const END_LIMIT: Duration = Duration::from_secs(15);

/// What is to be run, and how it is shown.
#[derive(Debug, Clone, Default)]
pub struct Step {
    /// The request with which the step begins.
    pub start: v1::StepStart,
    /// Lines begin with the name of their server.
    pub label: bool,
    /// The step gets a terminal.
    pub tty: bool,
}

/// What a Ctrl-C does.
#[derive(Debug, PartialEq, Eq)]
enum Pressed {
    Forward,
    End,
}

/// Ctrl-C, by when it was pressed last.
#[derive(Debug, Default)]
struct Interrupts(Option<Instant>);

impl Interrupts {
    fn press(&mut self, now: Instant) -> Pressed {
        match self.0.replace(now) {
            Some(before) if now.duration_since(before) <= TWICE => Pressed::End,
            _ => Pressed::Forward,
        }
    }
}

/// Runs it; gives the highest exit code of its processes, 128 and the signal's number for a signal.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer; [`Error::Config`] if the terminal cannot be used.
pub async fn run(api: &Api, mut step: Step) -> Result<u8, Error> {
    let doing = match step.start.argv.first() {
        Some(program) => format!("run `{program}` in job `{}`", step.start.job),
        None => format!("reach the ranks of job `{}`", step.start.job),
    };
    let terminal = step.tty.then(Terminal::open).transpose()?;
    step.start.terminal = terminal.as_ref().map(Terminal::reported);
    let stdin = step.start.stdin;
    let several = step.start.ranks_per_node > 1;
    let (up, receiver) = mpsc::channel(WAITING);
    let first = v1::RunStepRequest { body: Some(run_step_request::Body::Start(step.start)) };
    // The queue is empty.
    let _ = up.send(first).await;
    let mut signals = Signals::listen()?;
    let mut steps = api.streaming().steps();
    let answer = tokio::select! {
        answer = steps.run_step(ReceiverStream::new(receiver)) => answer,
        // Whoever waits for a controller that does not answer can still end it; the step ends with its stream.
        kind = signals.ending.next() => return Ok(code_of(kind)),
    };
    let mut events = answer.map_err(|status| Error::rpc(&doing, &status))?.into_inner();
    let credit = Arc::new(Semaphore::new(StepRequest::WINDOW));
    if stdin {
        tokio::spawn(read_input(up.clone(), Arc::clone(&credit)));
    }
    let mut session = Session {
        up,
        credit,
        taken: 0,
        writer: Writer::new(step.label, several),
        ends: Ends::default(),
        interrupts: Interrupts::default(),
        ended_by: None,
    };
    let end = tokio::time::sleep(Duration::from_secs(u32::MAX.into()));
    tokio::pin!(end);
    loop {
        tokio::select! {
            event = events.message() => match event {
                Ok(Some(event)) => session.event(event)?,
                Ok(None) => break,
                Err(status) => {
                    session.writer.rest()?;
                    return Err(Error::rpc(&doing, &status));
                }
            },
            number = signals.next() => {
                if session.signal(number, terminal.as_ref()).await {
                    end.as_mut().reset(tokio::time::Instant::now() + END_LIMIT);
                }
            }
            () = &mut end => break,
        }
    }
    session.finish()
}

/// Standard input, as far as the step takes it.
async fn read_input(up: mpsc::Sender<v1::RunStepRequest>, credit: Arc<Semaphore>) {
    let mut stdin = tokio::io::stdin();
    let mut buffer = vec![0; StepRequest::CHUNK];
    loop {
        // A terminal that is gone has no more input.
        let length = stdin.read(&mut buffer).await.unwrap_or(0);
        let what = match buffer.get(..length) {
            Some(data) if length > 0 => {
                let Ok(permit) = credit.acquire_many(u32::try_from(length).unwrap_or(u32::MAX)).await else {
                    return;
                };
                permit.forget();
                step_input::What::Data(data.to_vec())
            }
            _ => step_input::What::EndOfInput(step_input::EndOfInput {}),
        };
        if up.send(input(what)).await.is_err() || length == 0 {
            return;
        }
    }
}

/// What railctl hears of.
struct Signals {
    ending: Ending,
    quit: Signal,
    window: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Error> {
        Ok(Self {
            ending: Ending::listen()?,
            quit: listen_to(SignalKind::quit())?,
            window: listen_to(SignalKind::window_change())?,
        })
    }

    async fn next(&mut self) -> SignalKind {
        tokio::select! {
            kind = self.ending.next() => kind,
            _ = self.quit.recv() => SignalKind::quit(),
            _ = self.window.recv() => SignalKind::window_change(),
        }
    }
}

struct Session {
    up: mpsc::Sender<v1::RunStepRequest>,
    credit: Arc<Semaphore>,
    taken: u64,
    writer: Writer,
    ends: Ends,
    interrupts: Interrupts,
    /// The signal by which railctl itself was to end.
    ended_by: Option<u8>,
}

impl Session {
    fn event(&mut self, event: v1::StepEvent) -> Result<(), Error> {
        match event.what {
            Some(What::Stdout(data)) => self.writer.out(&event.node, event.rank, &data)?,
            Some(What::Stderr(data)) => self.writer.err(&event.node, event.rank, &data)?,
            Some(What::Started(started)) => self.ends.expected += started.ranks,
            Some(What::Exit(exit)) => self.ends.exit(exit),
            Some(What::Taken(taken)) => {
                let more = taken.saturating_sub(self.taken);
                self.taken = self.taken.max(taken);
                let room = StepRequest::WINDOW.saturating_sub(self.credit.available_permits());
                self.credit.add_permits(usize::try_from(more).unwrap_or(usize::MAX).min(room));
            }
            Some(What::Failure(failure)) => {
                self.writer.rest()?;
                eprintln!("error: node {}: {}", event.node, failure.message);
                self.ends.lost();
            }
            None => {}
        }
        Ok(())
    }

    /// True if the step is to end.
    async fn signal(&mut self, kind: SignalKind, terminal: Option<&Terminal>) -> bool {
        let what = if kind == SignalKind::window_change() {
            let Some(window) = terminal.and_then(Terminal::window) else { return false };
            step_input::What::Window(window)
        } else if kind == SignalKind::interrupt() {
            match self.interrupts.press(Instant::now()) {
                Pressed::Forward => {
                    step_input::What::Signal(SignalKind::interrupt().as_raw_value().unsigned_abs())
                }
                Pressed::End => step_input::What::End(step_input::End {}),
            }
        } else if kind == SignalKind::quit() {
            step_input::What::Signal(kind.as_raw_value().unsigned_abs())
        } else {
            self.ended_by = u8::try_from(kind.as_raw_value()).ok();
            step_input::What::End(step_input::End {})
        };
        let ends = matches!(what, step_input::What::End(_));
        // Whoever takes nothing any more has ended.
        let _ = tokio::time::timeout(END_LIMIT, self.up.send(input(what))).await;
        ends
    }

    fn finish(mut self) -> Result<u8, Error> {
        self.writer.rest()?;
        if self.ends.ended < self.ends.expected {
            self.ends.lost();
        }
        Ok(self.ended_by.map_or(self.ends.worst, |signal| 128 + signal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_interrupt_within_a_second_ends_the_step() {
        let mut interrupts = Interrupts::default();
        let now = Instant::now();
        assert_eq!(interrupts.press(now), Pressed::Forward);
        assert_eq!(interrupts.press(now + TWICE * 2), Pressed::Forward);
        assert_eq!(interrupts.press(now + TWICE * 3), Pressed::End);
    }

    #[test]
    fn the_worst_end_decides() {
        let mut ends = Ends::default();
        let exit = |code, signal| v1::StepExit { code, signal };
        ends.exit(exit(0, 0));
        assert_eq!(ends.worst, 0);
        ends.exit(exit(3, 0));
        ends.exit(exit(1, 0));
        ends.lost();
        assert_eq!(ends.worst, 3);
        ends.exit(exit(0, 9));
        assert_eq!((ends.worst, ends.ended), (137, 4));
    }
}
