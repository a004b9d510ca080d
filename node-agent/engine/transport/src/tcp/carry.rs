//! Links whose frames a carrier carries: joining channels, and taking over what the carrier reports.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Instant;

use aws_lc_rs::rand::SecureRandom;
use node_agent_collective::RailCause;
use node_agent_collective::units::{Node, Rail};
use node_agent_ipc::Region;

use super::carriage::{Carriage, GIVE_UP, Joining, READY, Step, opened, sealed, watch};
use super::connection::{Conn, State};
use super::handshake::Side;
use super::rails::TcpRails;
use super::sealed::Protection;
use super::wire_up::Miss;
use super::{Refusals, SetupError};
use crate::carrier::{Carrier, ChannelId, ENTROPY, News};

impl TcpRails {
    /// Has a carrier carry the frames of links, wherever it can at both ends; with `only`, links that it cannot carry are
    /// refused. To be called before [`TcpRails::connect`].
    ///
    /// # Errors
    /// Its files cannot be watched; or the links are protected, which a device that reads and writes the ranks' memory itself cannot do.
    pub fn carry(&mut self, carrier: Box<dyn Carrier>, only: bool) -> Result<(), SetupError> {
        if self.local.party.protection != Protection::None {
            return Err(SetupError::Unprotected { carrier: carrier.name() });
        }
        watch(&*carrier, self.turns.poll.registry()).map_err(SetupError::Poll)?;
        let (failures, unheard, channels, news) = Default::default();
        self.carriage = Some(Carriage { carrier, only, failures, unheard, channels, news });
        Ok(())
    }

    /// Has all rails send from memory of a GPU, as long as somebody else holds it. The kernel cannot: from now on links that
    /// cannot be carried are refused, as with `only`.
    ///
    /// # Errors
    /// Why rails cannot send from it.
    pub fn lend(&mut self, memory: &Arc<Region>) -> Result<(), String> {
        let rails = self.local.config.rails.len() as Rail;
        if self.carriage.is_none() {
            return Err("rails go over TCP, which sends from the processor's memory only".into());
        }
        if let Some(rail) = (0..rails).find(|rail| !self.would_carry(*rail)) {
            return Err(format!("rail {rail} goes over TCP, which sends from the processor's memory only"));
        }
        let plain = |at: &usize| matches!(&self.conns[*at], Some(Conn { channel: None, .. }));
        if let Some(((rail, peer), _)) = self.links.iter().find(|(_, at)| plain(at)) {
            return Err(format!("node {peer} is reached over TCP on rail {rail}"));
        }
        let Some(carriage) = &mut self.carriage else { return Ok(()) };
        carriage.carrier.lend(memory)?;
        if !std::mem::replace(&mut carriage.only, true) {
            tracing::info!("memory of GPUs is sent from: from now on no rail falls back to TCP");
        }
        Ok(())
    }

    /// What carries a rail's links from this end.
    #[must_use]
    pub fn carried_by(&self, rail: Rail) -> &'static str {
        match &self.carriage {
            Some(carriage) if self.would_carry(rail) => carriage.carrier.name(),
            _ => "tcp",
        }
    }

    /// Whether this end can carry a rail's links.
    pub(super) fn would_carry(&self, rail: Rail) -> bool {
        self.carriage.as_ref().is_some_and(|carriage| {
            let failures = carriage.failures.get(&rail).copied().unwrap_or(0);
            (carriage.only || failures < GIVE_UP) && carriage.carrier.carries(rail).is_ok()
        })
    }

    /// Whether a device still reads payloads of frames that were handed to it.
    #[must_use]
    pub fn is_reading(&self) -> bool {
        let reads = |at: &usize| matches!(&self.conns[*at], Some(Conn { state: State::Open { sender, .. }, .. }) if sender.is_read());
        self.carriage.is_some() && self.links.values().any(reads)
    }

    /// Ends all links on which a device still reads payloads, and so the reading.
    pub fn end_reading(&mut self, now: Instant) {
        let reads = |at: &usize| matches!(&self.conns[*at], Some(Conn { state: State::Open { sender, .. }, .. }) if sender.is_read());
        let links: Vec<_> = self.links.iter().filter(|(_, at)| reads(at)).map(|(&link, _)| link).collect();
        for (rail, peer) in links {
            self.end(rail, peer, RailCause::Withdrawn, now);
        }
    }

    /// Whether a link that is not carried is refused.
    pub(super) fn must_carry(&self) -> bool {
        self.carriage.as_ref().is_some_and(|carriage| carriage.only)
    }

    /// The peer has proved the key and both ends can carry: offers a channel.
    pub(super) fn begin_join(&mut self, at: usize, peer: Node, generation: u32) -> Result<(), String> {
        let mut entropy = [0; ENTROPY];
        self.local.random.fill(&mut entropy).map_err(|_| "the system gives no random numbers")?;
        let (Some(carriage), Some(Conn { rail, channel: slot, state, .. })) =
            (&mut self.carriage, &mut self.conns[at])
        else {
            return Ok(());
        };
        let State::Meeting { handshake, outbox, dialed, joining, .. } = state else { return Ok(()) };
        let (channel, offer) = match carriage.carrier.open(*rail, peer, &entropy) {
            Ok(opened) => opened,
            Err(why) => {
                tracing::warn!(rail, peer, why, "a link cannot be carried");
                carriage.count_failure(*rail);
                return Err(why);
            }
        };
        *slot = Some(channel);
        carriage.unheard.insert(channel);
        carriage.channels.insert(channel, at);
        let side = if dialed.is_some() { Side::Dialer } else { Side::Listener };
        outbox.extend(sealed(handshake, &self.local.party, side, &offer));
        *joining = Some(Joining { peer, generation, channel, side, joined: false });
        Ok(())
    }

    /// A whole message of a peer that joins a channel.
    pub(super) fn join(&mut self, at: usize, message: &[u8]) -> Result<Step, String> {
        let (Some(carriage), Some(Conn { state, .. })) = (&mut self.carriage, &mut self.conns[at]) else {
            return Ok(Step::More);
        };
        let State::Meeting { handshake, outbox, joining: Some(joining), .. } = state else {
            return Ok(Step::More);
        };
        if joining.joined {
            if message != READY {
                return Err("no answer of this protocol".into());
            }
            return Ok(Step::Done(joining.peer, joining.generation));
        }
        let offer = opened(handshake, &self.local.party, joining.side.other(), message)?;
        carriage.carrier.join(joining.channel, offer)?;
        joining.joined = true;
        outbox.extend(READY);
        Ok(Step::More)
    }

    /// Ends the channel of a connection, if it has one.
    pub(super) fn end_channel(&mut self, at: usize) {
        if let (Some(carriage), Some(Conn { channel, .. })) = (&mut self.carriage, &mut self.conns[at])
            && let Some(channel) = channel.take()
        {
            carriage.channels.remove(&channel);
            carriage.unheard.remove(&channel);
            carriage.carrier.end(channel);
        }
    }

    /// Takes over what the carrier reports; `now` is the time.
    pub(super) fn on_carrier(&mut self, now: Instant) {
        let Some(carriage) = &mut self.carriage else { return };
        carriage.carrier.check(now, &mut carriage.news);
        let mut news = std::mem::take(&mut carriage.news);
        for news in news.drain(..) {
            self.take_news(news, now);
        }
        if let Some(carriage) = &mut self.carriage {
            // Kept for its memory only.
            carriage.news = news;
        }
    }

    fn take_news(&mut self, news: News, now: Instant) {
        let conn_of = |channel| self.carriage.as_ref().and_then(|c| c.channels.get(channel)).copied();
        match &news {
            News::Readable(channel) => {
                if let Some(at) = conn_of(channel) {
                    self.work.ready.insert(at);
                }
            }
            News::Writable(channel) => {
                if let Some(at) = conn_of(channel)
                    && let Some(Conn { state: State::Open { sender, .. }, .. }) = &mut self.conns[at]
                {
                    sender.unblock();
                    self.work.dirty.insert(at);
                }
            }
            News::LetGo(channel) => {
                // Its next turn of writing reports it.
                if let Some(at) = conn_of(channel) {
                    self.work.dirty.insert(at);
                }
            }
            News::Broken(channel, cause) => {
                if let Some(at) = conn_of(channel) {
                    self.break_channel(at, *channel, cause.clone(), now);
                }
            }
            News::Port(rail, up) => self.on_port(*rail, *up),
            News::Carries(rail) => self.carry_again(*rail, now),
            News::Files => {
                if let Some(carriage) = &self.carriage
                    && let Err(error) = watch(&*carriage.carrier, self.turns.poll.registry())
                {
                    // It is looked at in every turn, but nothing ends a sleep for it.
                    tracing::warn!(%error, "a device's events cannot be watched");
                }
            }
        }
    }

    /// A rail can be carried again: links that went over their connections meanwhile are made again.
    fn carry_again(&mut self, rail: Rail, now: Instant) {
        if let Some(carriage) = &mut self.carriage {
            carriage.failures.remove(&rail);
        }
        let plain = |at: &usize| matches!(&self.conns[*at], Some(Conn { channel: None, .. }));
        let links = self.links.iter().filter(|((on, _), at)| *on == rail && plain(at));
        let peers: Vec<Node> = links.map(|((_, peer), _)| *peer).collect();
        for peer in peers {
            self.end(rail, peer, RailCause::Io("it can be carried again".into()), now);
        }
    }

    fn break_channel(&mut self, at: usize, channel: ChannelId, cause: RailCause, now: Instant) {
        if let (Some(carriage), Some(Conn { rail, .. })) = (&mut self.carriage, &self.conns[at])
            && carriage.unheard.remove(&channel)
            && cause != RailCause::NoCarrier
        {
            carriage.count_failure(*rail);
        }
        match &self.conns[at] {
            Some(Conn { rail, state: State::Open { peer, .. }, .. }) => {
                let (rail, peer) = (*rail, *peer);
                self.end(rail, peer, cause, now);
            }
            Some(_) => self.refuse(at, |r| r.closed += 1, Miss::NoWay, &cause.to_string(), now),
            None => {}
        }
    }

    /// A device says that the port of a rail went up or down. Where the ports are watched, the kernel is asked: it knows of
    /// everything that stands between the device and the interface.
    fn on_port(&mut self, rail: Rail, up: bool) {
        if let Some(carriage) = self.carriage.as_mut().filter(|_| up) {
            carriage.failures.remove(&rail);
        }
        match &mut self.ports.watch {
            Some(watch) => {
                watch.ask_about(&[rail]);
                self.check_ports();
            }
            None => self.set_port(rail, up),
        }
    }

    /// The connection beside a channel has something: its end, for nothing else is ever sent on it.
    pub(super) fn read_beside(&mut self, at: usize) -> Result<(), RailCause> {
        let Some(Conn { stream, .. }) = &mut self.conns[at] else { return Ok(()) };
        match stream.read(&mut [0; 64]) {
            Ok(0) => Err(RailCause::Closed),
            Ok(_) => Err(RailCause::Io("bytes on the connection beside a channel".into())),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(())
            }
            Err(error) => Err(super::conn::cause(&error)),
        }
    }

    /// Refuses a connection that did not become a channel.
    pub(super) fn refuse_channel(&mut self, at: usize, why: &str, now: Instant) {
        let count = |r: &mut Refusals| r.closed += 1;
        self.refuse(at, count, Miss::Refused, why, now);
    }
}
