//! `port-forward`: ports of this host that lead to ports of a running job, for example that of its TensorBoard.

use std::{net::IpAddr, time::Duration};

use proto_rpc::NOT_RUNNING;
use proto_wire::v1::{self, job_status::Phase};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};

use super::{
    allocation::Ending,
    step::pipe::{self, PIECES},
};
use crate::{
    args::PortForward,
    client::{Api, JobRef},
    error::Error,
};

/// Connections at a time: a job takes no more steps on a server.
const CONNECTIONS: usize = 32;
/// Bytes of one piece.
const PIECE: usize = 32 << 10;
/// Until a connection is accepted again, where one could not be: what is wanting (descriptors, memory) may be free then.
const PAUSE: Duration = Duration::from_millis(200);

/// A port here and the one in the job that it leads to.
struct Forward {
    listener: TcpListener,
    port: u16,
}

/// `port-forward JOB [LOCAL:]PORT...`. It goes on until it is ended, or the job has.
///
/// # Errors
/// [`Error::Usage`] if the job does not run, or a local port cannot be listened on; [`Error::Rpc`] if the controller refuses or does not
/// answer.
pub async fn run(args: &PortForward, api: &Api) -> Result<(), Error> {
    let mut ending = Ending::listen()?;
    let job = api.job_ref(&args.job);
    let phase = api.get_job(&job).await?.status.unwrap_or_default().phase();
    if phase != Phase::Running {
        let name = phase.as_str_name();
        return Err(Error::Usage(format!("job `{job}` is {name}; ports of a job are reached while it runs")));
    }
    let (sender, mut accepted) = mpsc::channel(CONNECTIONS);
    let mut listening = JoinSet::new();
    for (local, port) in &args.ports {
        let forward = listen(args.address, *local, *port).await?;
        let own = forward.listener.local_addr().map_err(|error| Error::Config(error.to_string()))?;
        eprintln!("{own} leads to port {port} of job {job}");
        listening.spawn(forward.accept(sender.clone()));
    }
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = ending.next() => return Ok(()),
            Some((stream, port)) = accepted.recv(), if connections.len() < CONNECTIONS => {
                connections.spawn(connection(api.clone(), stream, start(args, &job, port)));
            }
            Some(done) = connections.join_next() => {
                match done {
                    Ok(Err(error)) if is_over(&error) => return Err(error),
                    // One connection that fails is no reason to end the others.
                    Ok(Err(error)) => error.lines().iter().for_each(|line| eprintln!("{line}")),
                    Ok(Ok(())) | Err(_) => {}
                }
            }
        }
    }
}

/// The job has ended, or waits to run again elsewhere: no connection will be made any more.
fn is_over(error: &Error) -> bool {
    matches!(error, Error::Rpc { error, .. } if error.reason == NOT_RUNNING)
}

async fn listen(address: IpAddr, local: u16, port: u16) -> Result<Forward, Error> {
    let listener = TcpListener::bind((address, local)).await;
    let listener = listener.map_err(|error| {
        Error::Usage(format!(
            "cannot listen on {address}, port {local}: {error}; write another one, as LOCAL:{port}, or 0:{port} for any"
        ))
    })?;
    Ok(Forward { listener, port })
}

impl Forward {
    async fn accept(self, to: mpsc::Sender<(TcpStream, u16)>) {
        let mut failing = false;
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    failing = false;
                    if to.send((stream, self.port)).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    if !failing {
                        eprintln!("warning: a connection to port {} cannot be accepted: {error}", self.port);
                    }
                    failing = true;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

fn start(args: &PortForward, job: &JobRef, port: u16) -> v1::StepStart {
    v1::StepStart {
        job: job.name.clone(),
        tenant: job.tenant.clone(),
        nodes: args.node.iter().cloned().collect(),
        ranks_per_node: 1,
        stdin: true,
        one: true,
        port: port.into(),
        ..v1::StepStart::default()
    }
}

/// Carries one connection to its end.
async fn connection(api: Api, stream: TcpStream, start: v1::StepStart) -> Result<(), Error> {
    let (mut read, mut write) = stream.into_split();
    let (up, from) = mpsc::channel(PIECES);
    let (to, mut down) = mpsc::channel::<Vec<u8>>(PIECES);
    let reader = tokio::spawn(async move {
        let mut buffer = vec![0; PIECE];
        loop {
            // A connection that breaks has ended.
            let length = read.read(&mut buffer).await.unwrap_or(0);
            let piece = buffer.get(..length).unwrap_or_default().to_vec();
            if length == 0 || up.send(Ok(piece)).await.is_err() {
                return;
            }
        }
    });
    let writer = tokio::spawn(async move {
        while let Some(piece) = down.recv().await {
            if write.write_all(&piece).await.is_err() {
                return;
            }
        }
        let _ = write.shutdown().await;
    });
    // How the other end ended, it has said on standard error.
    let done = pipe::carry(&api, start, from, to).await.map(drop);
    let _ = writer.await;
    reader.abort();
    done
}
