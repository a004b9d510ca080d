//! A step whose input and output are not the user's but railctl's own: a copy of files, a connection that is carried.

use std::{io, sync::Arc};

use proto_model::StepRequest;
use proto_wire::v1::{self, run_step_request, step_event::What, step_input};
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use super::ends::{Ends, WAITING, input};
use crate::{client::Api, error::Error};

/// Pieces that wait for whoever takes them.
pub const PIECES: usize = 16;

/// A piece of what is sent; an error ends the step.
pub type Piece = io::Result<Vec<u8>>;

/// Runs a step of one process: what comes from `from` is its standard input, its standard output goes to `to`, its standard error to
/// railctl's. Gives its exit code.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn carry(
    api: &Api,
    start: v1::StepStart,
    from: mpsc::Receiver<Piece>,
    to: mpsc::Sender<Vec<u8>>,
) -> Result<u8, Error> {
    let doing = format!("reach job `{}`", start.job);
    let (up, receiver) = mpsc::channel(WAITING);
    let first = v1::RunStepRequest { body: Some(run_step_request::Body::Start(start)) };
    // The queue is empty.
    let _ = up.send(first).await;
    let answer = api.streaming().steps().run_step(ReceiverStream::new(receiver)).await;
    let mut events = answer.map_err(|status| Error::rpc(&doing, &status))?.into_inner();
    let credit = Arc::new(Semaphore::new(StepRequest::WINDOW));
    // The step ends with this stream, so the stream stays open behind the end of its input.
    let feed = feed(from, up.clone(), Arc::clone(&credit));
    tokio::pin!(feed);
    let (mut fed, mut taken, mut ends) = (None, 0_u64, Ends::default());
    loop {
        tokio::select! {
            done = &mut feed, if fed.is_none() => fed = Some(done),
            event = events.message() => match event {
                Ok(Some(v1::StepEvent { node, what: Some(what), .. })) => match what {
                    What::Stdout(data) => {
                        if to.send(data).await.is_err() {
                            // Whoever takes it has failed, and says so.
                            return Ok(1);
                        }
                    }
                    What::Stderr(data) => super::output::write_error(&data),
                    What::Started(started) => ends.expected += started.ranks,
                    What::Exit(exit) => ends.exit(exit),
                    What::Taken(all) => {
                        let more = all.saturating_sub(taken);
                        taken = taken.max(all);
                        let room = StepRequest::WINDOW.saturating_sub(credit.available_permits());
                        credit.add_permits(usize::try_from(more).unwrap_or(usize::MAX).min(room));
                    }
                    What::Failure(failure) => {
                        eprintln!("error: node {node}: {}", failure.message);
                        ends.lost();
                    }
                },
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(status) => return Err(Error::rpc(&doing, &status)),
            },
        }
    }
    drop(up);
    if let Some(Err(error)) = fed {
        return Err(Error::Config(format!("cannot read what is sent: {error}")));
    }
    if ends.ended < ends.expected {
        ends.lost();
    }
    Ok(ends.worst)
}

/// Sends all that comes, as far as it is taken; then its end.
async fn feed(
    mut from: mpsc::Receiver<Piece>,
    up: mpsc::Sender<v1::RunStepRequest>,
    credit: Arc<Semaphore>,
) -> io::Result<()> {
    while let Some(piece) = from.recv().await {
        let data = match piece {
            Ok(data) => data,
            Err(error) => {
                // Not its end: what has come so far is not to be taken for all.
                let _ = up.send(input(step_input::What::End(step_input::End {}))).await;
                return Err(error);
            }
        };
        for part in data.chunks(StepRequest::CHUNK) {
            let permits = u32::try_from(part.len()).unwrap_or(u32::MAX);
            let Ok(permit) = credit.acquire_many(permits).await else { return Ok(()) };
            permit.forget();
            if up.send(input(step_input::What::Data(part.to_vec()))).await.is_err() {
                return Ok(());
            }
        }
    }
    let _ = up.send(input(step_input::What::EndOfInput(step_input::EndOfInput {}))).await;
    Ok(())
}
