//! Ranks that come, ask and go.

use std::collections::{BTreeMap, VecDeque};
use std::os::{fd::OwnedFd, unix::fs::MetadataExt};
use std::sync::Arc;

use node_agent_collective::units::Time;
use node_agent_ipc::{
    Channel, Failure as RankFailure, FailureCode, PeerIdentity, Presence, Pushed, RailBytes, Region, Reply,
    Request, SocketError, Welcome,
};
use tracing::{debug, info, warn};

use crate::deadline::after;
use crate::engine::Engine;
use crate::failure::{about_rank, plain};
use crate::gpus::{Came, Offer};
use crate::ranks::{
    Connection, HELLO_TIMEOUT, Late, RankBuffer, SPARE_CONNECTIONS, SPARE_REPLIES, send_waiting, taken,
};
use crate::tokens::{unwatch, watch};

impl Engine {
    /// Takes all waiting connections.
    pub(crate) fn accept_ranks(&mut self) {
        loop {
            match self.ranks.listener.accept() {
                Ok(Some((channel, peer))) => self.admit(channel, peer),
                Ok(None) => return,
                Err(error) => {
                    warn!(%error, "cannot accept a rank");
                    return;
                }
            }
        }
    }

    fn admit(&mut self, channel: Channel, peer: PeerIdentity) {
        let own = rustix::process::geteuid().as_raw();
        // Root alone gives files away: tasks of another scheduler get the socket so, after it was made.
        let owner = std::fs::metadata(&self.config.socket).map(|about| about.uid());
        if !may_attach(peer.uid, own, self.config.rank_uid) && !owner.is_ok_and(|owner| owner == peer.uid) {
            let text = format!("user {} may not attach to the engine of job {}", peer.uid, self.config.job);
            warn!(pid = peer.pid, "{text}");
            refuse(&channel, plain(FailureCode::Denied, text));
            return;
        }
        let most = self.local_ranks.len() + SPARE_CONNECTIONS;
        if self.ranks.connections.len() >= most {
            let text = format!("the engine has {most} connections already");
            warn!(pid = peer.pid, "{text}");
            refuse(&channel, plain(FailureCode::Exhausted, text));
            return;
        }
        let token = self.tokens.take();
        if let Err(error) = watch(&self.rails, &channel, token, mio::Interest::READABLE) {
            warn!(%error, "cannot watch a rank");
            self.tokens.give_back(token);
            return;
        }
        let connection = Connection {
            channel,
            peer,
            rank: None,
            hello_by: after(self.clock.now(), HELLO_TIMEOUT),
            buffers: BTreeMap::new(),
            buffer_bytes: 0,
            gpu_bytes: 0,
            next_buffer: 1,
            calls: 0,
            operand_bytes: 0,
            late: VecDeque::new(),
            spare: SPARE_REPLIES,
            subscribed: false,
            stuck: None,
            behind: VecDeque::new(),
        };
        self.ranks.connections.insert(token, connection);
        // What it sent before it was watched would give no event.
        self.serve_rank(token);
    }

    /// Takes all packets of a connection, as long as what is in them finds room.
    pub(crate) fn serve_rank(&mut self, token: usize) {
        while let Some(connection) = self.ranks.connections.get_mut(&token) {
            if connection.stuck.is_some() {
                if let Some(error) = connection.ended_while_stuck() {
                    self.close_rank(token, &error.to_string());
                }
                return;
            }
            let received = match connection.receive() {
                Ok(None) => return,
                Ok(Some(received)) => received,
                Err(error) => return self.close_rank(token, &error.to_string()),
            };
            let came = match (received.descriptor, received.lost) {
                (Some(file), _) => Came::File(file),
                (None, true) => Came::Lost,
                (None, false) => Came::Nothing,
            };
            let request = match Request::decode(&received.packet) {
                Ok(request) if request.1.has_descriptor() || matches!(came, Came::Nothing) => request,
                Ok(_) => return self.expel(token, "a request came with a file descriptor"),
                Err(error) => return self.expel(token, &error.to_string()),
            };
            // What is in the queue was put there before this was sent.
            self.serve_queue(token);
            self.answer(token, request.0, request.1, came);
        }
    }

    pub(crate) fn answer(&mut self, token: usize, id: u64, request: Request, came: Came) {
        let Some(connection) = self.ranks.connections.get(&token) else { return };
        if connection.rank.is_none() && !matches!(request, Request::Hello { .. }) {
            return self.expel(token, "the first request must be hello");
        }
        let reply = match request {
            Request::Hello { rank, job_uid, .. } => self.hello(token, rank, &job_uid),
            Request::Alloc { bytes } => return self.alloc(token, id, bytes),
            Request::Free { buffer } => self.free(token, buffer),
            Request::Post(post) => match self.post(token, id, &post) {
                Ok(()) => return,
                Err(failure) => Err(failure),
            },
            Request::Counters => Ok(self.counters()),
            Request::Board => return self.board(token, id),
            Request::Queues => return self.queues(token, id),
            Request::Doorbell => return,
            Request::Map { rank, buffer } => return self.map(token, id, rank, buffer),
            Request::Report(failure) => Ok(self.report(token, failure)),
            Request::Cause => Ok(self.board_cause()),
            Request::Subscribe => self.subscribe(token),
            Request::Agree { key } => return self.agree(token, id, key),
            Request::Notify { to, words } => return self.notify(token, to, words),
            Request::Lend { offset, bytes, gpu } => {
                self.register(token, &Offer { offset, bytes, gpu: &gpu }, came)
            }
            Request::Detach => return self.detach(token, id),
        };
        self.reply(token, id, &reply.unwrap_or_else(Reply::Failed));
    }

    fn hello(&mut self, token: usize, rank: u32, job_uid: &str) -> Result<Reply, RankFailure> {
        let denied = |text: String| about_rank(FailureCode::Denied, rank, text);
        let Some(local_rank) = self.local_ranks.iter().position(|local| *local == rank) else {
            let text =
                format!("rank {rank} does not run here: this engine serves ranks {:?}", self.local_ranks);
            return Err(denied(text));
        };
        if !job_uid.is_empty() && job_uid != self.config.uid {
            return Err(denied(format!(
                "this engine serves job {}, not the one with uid {job_uid}",
                self.config.job
            )));
        }
        if let Some(text) = self.ranks.lost.get(&rank) {
            return Err(denied(format!("rank {rank} cannot come back: {text}")));
        }
        if self.ranks.attached.contains_key(&rank) {
            return Err(denied(format!("rank {rank} is attached already")));
        }
        let Some(connection) = self.ranks.connections.get_mut(&token) else {
            return Err(denied("the connection is gone".into()));
        };
        if let Some(other) = connection.rank {
            return Err(denied(format!("this connection is rank {other} already")));
        }
        connection.rank = Some(rank);
        info!(rank, pid = connection.peer.pid, "rank attached");
        self.ranks.attached.insert(rank, token);
        self.certifier.end();
        self.ranks.detached.remove(&rank);
        self.note_presence(rank, Presence::Present);
        let limits = self.config.limits;
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Ok(Reply::Welcome(Welcome {
            size: count(self.config.ranks.len()),
            local_rank: count(local_rank),
            local_size: count(self.local_ranks.len()),
            node: count(self.config.node),
            nodes: count(self.config.nodes.len()),
            max_buffers: limits.buffers,
            max_bytes: limits.bytes,
            max_outstanding: limits.outstanding,
            op_timeout_ms: u32::try_from(self.config.op_timeout_ms).unwrap_or(u32::MAX),
        }))
    }

    fn alloc(&mut self, token: usize, id: u64, bytes: u64) {
        let limits = self.config.limits;
        let Some(connection) = self.ranks.connections.get_mut(&token) else { return };
        let total = connection.buffer_bytes.saturating_add(bytes);
        let held = u32::try_from(connection.buffers.len()).unwrap_or(u32::MAX);
        if held >= limits.buffers || total > limits.bytes {
            let text = format!(
                "{bytes} bytes more than the {} in {held} buffers: a rank may hold {} bytes in {} buffers (--rank-engine-memory of this server's agent)",
                connection.buffer_bytes, limits.bytes, limits.buffers
            );
            return self.reply(token, id, &Reply::Failed(plain(FailureCode::Exhausted, text)));
        }
        let (region, file) = match Region::create(bytes) {
            Ok(made) => made,
            Err(error) => {
                let failure = plain(FailureCode::InvalidArgument, error.to_string());
                return self.reply(token, id, &Reply::Failed(failure));
            }
        };
        let buffer = connection.name();
        let file = Arc::new(file);
        connection.keep(buffer, RankBuffer { region: Arc::new(region), file: Some(file.clone()) });
        self.hand_out(token, id, &Reply::Buffer { buffer, bytes }, file);
    }

    /// Hands out a buffer of another rank, for collectives that the ranks do themselves.
    fn map(&mut self, token: usize, id: u64, rank: u32, buffer: u32) {
        let holder = self.ranks.attached.get(&rank).and_then(|holder| self.ranks.connections.get(holder));
        let held = holder.and_then(|holder| holder.buffers.get(&buffer));
        let Some((held, file)) = held.and_then(|held| Some((held, held.file.as_ref()?))) else {
            let text = format!("rank {rank} holds no buffer {buffer}");
            let failure = about_rank(FailureCode::InvalidArgument, rank, text);
            return self.reply(token, id, &Reply::Failed(failure));
        };
        let (reply, file) = (Reply::Buffer { buffer, bytes: held.region.len() as u64 }, file.clone());
        self.hand_out(token, id, &reply, file);
    }

    fn free(&mut self, token: usize, buffer: u32) -> Result<Reply, RankFailure> {
        let connection = self.ranks.connections.get_mut(&token);
        let freed = connection.and_then(|c| c.buffers.remove(&buffer).map(|held| (c, held)));
        let Some((connection, held)) = freed else {
            return Err(plain(FailureCode::InvalidArgument, format!("there is no buffer {buffer}")));
        };
        // Calls under way hold the memory itself, so this takes nothing from them.
        let bytes = connection.bytes_like(&held);
        *bytes = bytes.saturating_sub(held.region.len() as u64);
        Ok(Reply::Done)
    }

    fn counters(&self) -> Reply {
        let stats = self.stats();
        let rails = stats.rails.iter().take(node_agent_ipc::MAX_RAILS).map(|rail| RailBytes {
            rail: rail.rail,
            tx_bytes: rail.tx_bytes,
            rx_bytes: rail.rx_bytes,
            chunks: rail.chunks,
        });
        Reply::Counters { rails: rails.collect(), operations: stats.ops }
    }

    /// A clean leave: what the rank has contributed stays, and nothing is reported unless somebody waits for more.
    fn detach(&mut self, token: usize, id: u64) {
        let Some(connection) = self.forget(token) else { return };
        let Connection { channel, mut late, calls, rank, .. } = connection;
        let unfinished = calls > 0;
        // A process that is ending does not wait for the answer; one that waits has it behind all that it has not read.
        late.push_back(Late { packet: Reply::Done.encode(id), file: None });
        self.ranks.leave(channel, late, self.clock.now());
        let Some(rank) = rank else { return };
        info!(rank, "rank detached");
        let returns = self.config.ranks_return;
        self.note_presence(rank, if returns { Presence::Absent } else { Presence::Left });
        if unfinished || self.ranks.is_awaited(rank) {
            self.lose(rank, format!("rank {rank} detached while others waited for it"));
        } else if !returns {
            self.ranks.detached.insert(rank);
        }
    }

    /// Sends a reply, by the queue if that can hold it; a rank that does not take it is given up.
    pub(crate) fn reply(&mut self, token: usize, id: u64, reply: &Reply) {
        let Some(connection) = self.ranks.connections.get(&token) else { return };
        if *reply == Reply::Done {
            match self.ranks.callers.complete(token, id) {
                Pushed::Done => return,
                Pushed::Wake => {
                    // A full socket is not empty, so it wakes as well.
                    let _ = connection.channel.send(&Reply::Doorbell.encode(0), None);
                    return;
                }
                Pushed::Full => {}
            }
        }
        self.send_in_turn(token, Late { packet: reply.encode(id), file: None });
    }

    /// Sends a reply with a memory file; a rank that does not take it is given up.
    pub(crate) fn hand_out(&mut self, token: usize, id: u64, reply: &Reply, file: Arc<OwnedFd>) {
        self.send_in_turn(token, Late { packet: reply.encode(id), file: Some(file) });
    }

    /// Sends a packet behind those that wait. A rank may have more calls and notifications than its socket holds packets, and
    /// takes them only when it waits for one; but what waits for it has a bound.
    fn send_in_turn(&mut self, token: usize, packet: Late) {
        let Some(connection) = self.ranks.connections.get_mut(&token) else { return };
        let most = self.config.limits.outstanding as usize + connection.spare;
        let sent = match connection.late.is_empty() {
            true => packet.send(&connection.channel),
            false => Err(SocketError::Full),
        };
        match sent {
            Err(SocketError::Full) if connection.late.len() < most => connection.late.push_back(packet),
            sent => taken(sent).unwrap_or_else(|why| self.close_rank(token, &why)),
        }
    }

    /// Tries again what sockets could not hold.
    pub(crate) fn send_late(&mut self, now: Time) {
        let mut gone = Vec::new();
        for (token, connection) in &mut self.ranks.connections {
            if let Err(why) = send_waiting(&connection.channel, &mut connection.late) {
                gone.push((*token, why));
            }
        }
        self.ranks.send_leaving(now);
        gone.into_iter().for_each(|(token, why)| self.close_rank(token, &why));
    }

    /// Closes the connection of a process that broke the protocol, after telling it why.
    pub(crate) fn expel(&mut self, token: usize, why: &str) {
        if let Some(connection) = self.ranks.connections.get(&token) {
            warn!(
                rank = connection.rank,
                pid = connection.peer.pid,
                why,
                "a rank's process broke the protocol"
            );
            // Request 0 is never made: this answers the connection as a whole.
            refuse(&connection.channel, plain(FailureCode::Protocol, why));
        }
        self.close_rank(token, why);
    }

    /// The connection is over without a detach: if it was a rank, the job has lost it.
    pub(crate) fn close_rank(&mut self, token: usize, why: &str) {
        let pid = self.ranks.connections.get(&token).map_or(0, |connection| connection.peer.pid);
        match self.forget(token).and_then(|connection| connection.rank) {
            Some(rank) => {
                self.lose(rank, format!("rank {rank} (process {pid}) ended without detaching: {why}"))
            }
            None => debug!(pid, why, "a connection that never said hello is closed"),
        }
    }

    fn forget(&mut self, token: usize) -> Option<Connection> {
        let connection = self.ranks.connections.remove(&token)?;
        self.ranks.callers.remove(token);
        self.agreements.forget(token);
        unwatch(&self.rails, &connection.channel);
        self.tokens.give_back(token);
        if let Some(rank) = connection.rank {
            self.ranks.attached.remove(&rank);
        }
        Some(connection)
    }

    /// Tells the collective core, and so all ranks everywhere, that a rank is gone.
    pub(crate) fn lose(&mut self, rank: u32, text: String) {
        warn!(rank, "{text}");
        self.end_board_for(rank, &text);
        self.ranks.detached.remove(&rank);
        self.ranks.lost.insert(rank, text);
        if self.ending.draining.is_none() {
            self.machine.rank_gone(rank, self.clock.now());
        }
    }

    /// Closes connections that never said who they are.
    pub(crate) fn expire_ranks(&mut self, now: Time) {
        let silent = self.ranks.connections.iter().filter(|(_, c)| c.rank.is_none() && c.hello_by <= now);
        let silent: Vec<usize> = silent.map(|(token, _)| *token).collect();
        for token in silent {
            self.expel(token, "said nothing for too long");
        }
    }
}

/// Whether a process of user `peer` may be a rank of an engine of user `own`: where ranks have a user, nobody else.
fn may_attach(peer: u32, own: u32, rank_uid: Option<u32>) -> bool {
    rank_uid.map_or(peer == own || peer == 0, |uid| peer == uid)
}

/// Tells a connection that is about to be closed why; whether it listens is its own affair.
fn refuse(channel: &Channel, failure: RankFailure) {
    let _ = channel.send(&Reply::Failed(failure).encode(0), None);
}

#[cfg(test)]
mod tests {
    use super::may_attach;

    #[test]
    fn only_the_ranks_user_may_attach_and_without_one_the_engines_and_root() {
        assert!(may_attach(1000, 1000, None));
        assert!(may_attach(0, 1000, None));
        assert!(!may_attach(1001, 1000, None));
        assert!(!may_attach(1001, 0, None));
        assert!(may_attach(1001, 0, Some(1001)));
        for other in [0, 1000, 1002] {
            assert!(!may_attach(other, 1000, Some(1001)), "{other}");
        }
    }
}
