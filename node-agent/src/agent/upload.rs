//! Logs for a reader: answers OpenLogs by a stream of its own, lines of the asked ranks only, nothing unbounded.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use node_agent_attempt::logs::{LogReader, Piece, Stream};
use node_agent_core::Key;
use proto_rpc::{Client, MAX_MESSAGE_BYTES};
use proto_wire::v1::{self, agent_service_client::AgentServiceClient};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    agent::{recover, setup::Setup},
    kept,
};

/// Chunks that wait for a slow reader.
const WAITING: usize = 8;
/// Bytes of one chunk, about.
const CHUNK: usize = 64 * 1024;
/// A follower looks for new output this often.
const FOLLOW: Duration = Duration::from_millis(100);

/// Sends what was asked for; ends with the reader, with the log, or with the job where it is followed.
pub async fn upload(setup: Arc<Setup>, client: Client, ask: v1::OpenLogs) {
    let id = ask.stream_id.clone();
    let (sender, receiver) = mpsc::channel(WAITING);
    let mut agent =
        AgentServiceClient::new(client.without_timeout()).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let read = tokio::spawn(read(setup, ask, sender));
    if let Err(status) = agent.upload_logs(ReceiverStream::new(receiver)).await {
        tracing::debug!(stream = id, %status, "a reader of logs has gone");
    }
    read.abort();
}

async fn read(setup: Arc<Setup>, ask: v1::OpenLogs, sender: mpsc::Sender<v1::UploadLogsRequest>) {
    // The first message names the stream.
    let first = v1::UploadLogsRequest { stream_id: ask.stream_id.clone(), chunk: None };
    if sender.send(first).await.is_err() {
        return;
    }
    let Ok(uid) = ask.job_uid.parse() else { return };
    let wanted: BTreeSet<u32> = ask.ranks.iter().copied().collect();
    let since = ask.since.as_ref().map_or(0, millis);
    let (dir, mut readers) = kept::open(&setup.data, Key { uid, attempt: ask.attempt }, |dir| {
        let ranks = local_ranks(dir).into_iter().filter(|rank| wanted.is_empty() || wanted.contains(rank));
        let readers = ranks.map(|rank| (rank, LogReader::open(&dir.rank_log(rank), ask.tail_lines, since)));
        readers.collect::<Vec<(u32, LogReader)>>()
    });
    loop {
        // Looked at before reading: what was written until the end is then read.
        let over = !ask.follow || !dir.record().exist().unwrap_or(false) || recover::has_ended(&dir);
        let mut any = false;
        for (rank, reader) in &mut readers {
            // A file that fails in the middle is a gap; the others go on.
            let pieces = reader.next(CHUNK).unwrap_or_default();
            any |= !pieces.is_empty();
            for piece in join(pieces, ask.timestamps) {
                setup.metrics.log_bytes.inc_by([], piece.data.len() as u64);
                let stream = match piece.stream {
                    Stream::Out => v1::log_chunk::Stream::Stdout,
                    Stream::Err => v1::log_chunk::Stream::Stderr,
                    Stream::Note => v1::log_chunk::Stream::Note,
                };
                let time = piece.time.filter(|_| ask.timestamps).map(timestamp);
                let chunk = v1::LogChunk { rank: *rank, stream: stream.into(), data: piece.data, time };
                let message = v1::UploadLogsRequest { stream_id: String::new(), chunk: Some(chunk) };
                if sender.send(message).await.is_err() {
                    return;
                }
            }
        }
        if !any && over {
            return;
        }
        if !any {
            tokio::time::sleep(FOLLOW).await;
        }
    }
}

/// Neighbours of one stream in one chunk, and of one time where times are sent.
fn join(pieces: Vec<Piece>, timed: bool) -> Vec<Piece> {
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        match joined.last_mut() {
            Some(last) if last.stream == piece.stream && (!timed || last.time == piece.time) => {
                last.data.extend(piece.data);
            }
            _ => joined.push(piece),
        }
    }
    joined
}

/// Milliseconds since 1970; what was before then is then.
fn millis(time: &prost_types::Timestamp) -> u64 {
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    seconds.saturating_mul(1000).saturating_add(u64::try_from(time.nanos).unwrap_or(0).div_ceil(1_000_000))
}

fn timestamp(millis: u64) -> prost_types::Timestamp {
    let seconds = i64::try_from(millis / 1000).unwrap_or(i64::MAX);
    let nanos = i32::try_from(millis % 1000 * 1_000_000).unwrap_or(0);
    prost_types::Timestamp { seconds, nanos }
}

/// The ranks that have a log here, by the names of their files.
fn local_ranks(dir: &node_agent_attempt::layout::JobDir) -> BTreeSet<u32> {
    let entries = std::fs::read_dir(dir.path()).into_iter().flatten().flatten();
    let rank = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_prefix("rank-")?.strip_suffix(".log")?.parse().ok()
    };
    entries.filter_map(rank).collect()
}
