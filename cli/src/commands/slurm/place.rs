//! Asks the service which servers would be the best for a job that is being submitted.

use std::path::Path;

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
};

use super::question::{Answer, LONGEST, Question};
use crate::{args::SlurmPlace, error::Error, output::print};

/// `slurm place`.
///
/// # Errors
/// [`Error::Config`] if the service cannot be reached or does not know; [`Error::Timeout`] if it does not answer in time.
pub async fn run(args: &SlurmPlace) -> Result<(), Error> {
    let question = Question {
        nodes: args.nodes,
        among: args.among.clone(),
        exclude: args.exclude.clone(),
        account: args.account.clone(),
    };
    let late = |_| Error::Timeout { what: "railctl slurm serve".to_owned(), limit: args.timeout };
    let answer = tokio::time::timeout(args.timeout, ask(&args.socket, &question)).await.map_err(late)??;
    match &answer {
        Answer::Unknown(why) => return Err(Error::Config(why.clone())),
        Answer::Anywhere(why) => eprintln!("Slurm chooses the servers: {why}"),
        Answer::Now(_) | Answer::Together => {}
    }
    print(&answer.lines())
}

/// What the service at that socket answers.
///
/// # Errors
/// [`Error::Config`] if it cannot be reached, or answers something else.
pub async fn ask(socket: &Path, question: &Question) -> Result<Answer, Error> {
    let failed = |why: String| {
        Error::Config(format!("{}: {why}: is `railctl slurm serve` running?", socket.display()))
    };
    let broken = |error: std::io::Error| failed(error.to_string());
    let mut stream = UnixStream::connect(socket).await.map_err(broken)?;
    let mut line = serde_json::to_vec(question).map_err(|error| failed(error.to_string()))?;
    line.push(b'\n');
    stream.write_all(&line).await.map_err(broken)?;
    let mut said = Vec::new();
    BufReader::new(stream.take(LONGEST)).read_until(b'\n', &mut said).await.map_err(broken)?;
    serde_json::from_slice(&said).map_err(|error| failed(format!("what it answers is no answer ({error})")))
}
