//! How rails take over what becomes of this node's own ports.

use std::os::fd::AsRawFd;
use std::time::Instant;

use mio::Interest;
use mio::unix::SourceFd;
use node_agent_collective::RailCause;
use node_agent_collective::units::{Node, Rail};

use super::TcpConfig;
use super::port::Watch;
use super::rails::{Change, PORTS, TcpRails};

/// Opens the watch on the ports, if there may be one. Without it a rail's end is known by its silence.
pub(super) fn watch(config: &TcpConfig, registry: &mio::Registry) -> Option<Watch> {
    let opened = Watch::open(&config.rails).and_then(|watch| {
        registry.register(&mut SourceFd(&watch.fd().as_raw_fd()), PORTS, Interest::READABLE)?;
        Ok(watch)
    });
    opened.inspect_err(|error| tracing::warn!(%error, "the own ports cannot be watched")).ok()
}

impl TcpRails {
    /// Takes the ports' states over from the watch.
    pub(super) fn check_ports(&mut self) {
        let states = self.watch.as_ref().map(Watch::states).unwrap_or_default();
        states.into_iter().for_each(|(rail, up)| self.set_port(rail, up));
    }

    /// Reads what the kernel says of the ports, and asks for those that are quiet.
    pub(super) fn watch_ports(&mut self, turn_began: Instant) {
        let Some(watch) = &mut self.watch else { return };
        let mut changed = false;
        if self.watched {
            self.watched = watch.read();
            changed = true;
        }
        if self.quiet.due(turn_began).is_some() {
            let asked = self.quiet.check(Instant::now());
            if !asked.is_empty() {
                watch.ask_about(&asked);
                changed = true;
            }
        }
        if changed {
            self.check_ports();
        }
    }

    /// This node's own port on a rail went up or down. The watch on the ports calls it by itself; for callers that know
    /// it from elsewhere.
    pub fn set_port(&mut self, rail: Rail, up: bool) {
        if usize::from(rail) >= self.config.rails.len() || self.dark.contains(&rail) != up {
            return;
        }
        let now = Instant::now();
        if up {
            tracing::info!(rail, "port up");
            self.dark.remove(&rail);
            self.quiet.port_up(rail);
            self.changes.push_back(Change::PortUp(rail));
            for peer in self.dial.port_up(rail, now) {
                self.give_up_try(rail, peer);
            }
            return;
        }
        tracing::warn!(rail, "port down");
        self.dark.insert(rail);
        self.quiet.port_down(rail, now);
        self.changes.push_back(Change::PortDown(rail));
        self.dial.port_down(rail);
        for peer in 0..self.config.nodes as Node {
            self.end(rail, peer, RailCause::NoCarrier, now);
        }
        self.give_up_meetings(rail);
    }
}
