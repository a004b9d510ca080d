//! How rails take over what becomes of this node's own ports.

use std::time::Instant;

use node_agent_collective::RailCause;
use node_agent_collective::units::{Node, Rail};

use super::connection::Change;
use super::port::Watch;
use super::rails::TcpRails;

impl TcpRails {
    /// Takes the ports' states over from the watch.
    pub(super) fn check_ports(&mut self) {
        let states = self.ports.watch.as_ref().map(Watch::states).unwrap_or_default();
        states.into_iter().for_each(|(rail, up)| self.set_port(rail, up));
    }

    /// Reads what the kernel says of the ports, and asks for those that are quiet.
    pub(super) fn watch_ports(&mut self, turn_began: Instant) {
        let Some(watch) = &mut self.ports.watch else { return };
        let mut changed = false;
        if self.ports.watched {
            self.ports.watched = watch.read();
            changed = true;
        }
        if self.ports.quiet.due(turn_began).is_some() {
            let asked = self.ports.quiet.check(Instant::now());
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
        if usize::from(rail) >= self.local.config.rails.len() || self.ports.dark.contains(&rail) != up {
            return;
        }
        let now = Instant::now();
        if up {
            tracing::info!(rail, "port up");
            self.ports.dark.remove(&rail);
            self.ports.quiet.port_up(rail);
            self.changes.push_back(Change::PortUp(rail));
            for peer in self.dial.port_up(rail, now) {
                self.give_up_try(rail, peer);
            }
            return;
        }
        tracing::warn!(rail, "port down");
        self.ports.dark.insert(rail);
        self.ports.quiet.port_down(rail, now);
        self.changes.push_back(Change::PortDown(rail));
        self.dial.port_down(rail);
        for peer in 0..self.local.config.nodes as Node {
            self.end(rail, peer, RailCause::NoCarrier, now);
        }
        self.give_up_meetings(rail);
    }
}
