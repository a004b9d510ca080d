//! Calls as they reach etcd, and answers as they come back.

use std::sync::Arc;

use crate::{
    etcd::{Body, LEASE_MS, Refused},
    plant::Bug,
    world::{Event, World},
};

use super::{Call, Cut, Outcome, Sent, TIMEOUT_MS};

impl World {
    /// Sends a call to etcd; gives its number.
    pub fn call(&mut self, controller: usize, call: Call) -> u64 {
        let number = self.number();
        let slow = self.now < self.etcd.slow_until;
        let mut wait = if slow { self.rng.range(20..900) } else { self.rng.range(1..3) };
        if slow && self.rng.chance(100) {
            wait = self.rng.range(1500..6000);
        }
        let this = &self.controllers[controller];
        let cut = (self.now < this.cut_until).then_some(this.cut);
        let mut lost = wait > TIMEOUT_MS;
        if cut == Some(Cut::Requests) {
            lost = true;
            wait = this.cut_until - self.now + self.rng.range(1..40);
            if self.rng.chance(500) {
                self.after(TIMEOUT_MS, Event::Reported(controller, number, Box::new(Outcome::Unknown)));
                return number;
            }
        }
        if lost || cut == Some(Cut::Replies) {
            self.after(TIMEOUT_MS, Event::Reported(controller, number, Box::new(Outcome::Unknown)));
        }
        let sent = Sent { from: controller, number, at: self.now, call };
        self.after(wait, Event::Etcd(Box::new(sent)));
        number
    }

    /// A call reaches etcd.
    pub fn etcd_hears(&mut self, sent: Box<Sent>) {
        if self.now < self.etcd.down_until {
            let at = self.etcd.down_until + self.rng.range(1..60);
            if self.rng.chance(400) {
                return self.etcd_says(&sent, Outcome::Unavailable);
            }
            if at > sent.at + TIMEOUT_MS {
                let unknown = Event::Reported(sent.from, sent.number, Box::new(Outcome::Unknown));
                self.at((sent.at + TIMEOUT_MS).max(self.now), unknown);
            }
            return self.at(at, Event::Etcd(sent));
        }
        let revision = self.etcd.revision;
        let outcome = match &sent.call {
            Call::Commit(body) => self.etcd_commits(&Arc::clone(body)),
            Call::Confirm(epoch) if self.etcd.leads(*epoch) => Outcome::Done(revision),
            Call::Confirm(_) => Outcome::Fenced,
            Call::Read => Outcome::Key(
                self.etcd
                    .leader
                    .map(|key| (key.created, key.holder, self.etcd.leases.contains_key(&key.holder))),
            ),
            Call::Remove(epoch) => Outcome::Removed(self.etcd.remove_leader(*epoch)),
            Call::Claim => {
                let claimed = self.etcd.claim(sent.from);
                if claimed.is_some() {
                    self.etcd.leases.insert(sent.from, self.now + LEASE_MS);
                    self.after(LEASE_MS, Event::LeaseEnds(sent.from));
                }
                Outcome::Claimed(claimed)
            }
            Call::List => Outcome::Rows(revision, self.etcd.rows.clone()),
            Call::Compact(revision) => {
                self.etcd.compact(*revision);
                self.etcd.alarm &= self.bug(Bug::KeepAlarm);
                Outcome::Done(*revision)
            }
        };
        if self.etcd.revision > revision {
            self.wake_watchers();
        }
        self.etcd_says(&sent, outcome);
    }

    fn etcd_commits(&mut self, body: &Arc<Body>) -> Outcome {
        let fence = self.fences(body);
        match self.etcd.commit(body, fence) {
            Ok((revision, replaced)) => {
                self.check_commit(body, &replaced);
                Outcome::Done(revision)
            }
            Err(Refused::Fenced) => Outcome::Fenced,
            Err(Refused::NoSpace) => Outcome::NoSpace,
        }
    }

    fn etcd_says(&mut self, sent: &Sent, outcome: Outcome) {
        let this = &self.controllers[sent.from];
        if self.now < this.cut_until && this.cut == Cut::Replies {
            let at = (sent.at + TIMEOUT_MS).max(self.now);
            return self.at(at, Event::Reported(sent.from, sent.number, Box::new(Outcome::Unknown)));
        }
        let wait = self.rng.range(1..3);
        self.after(wait, Event::Reported(sent.from, sent.number, Box::new(outcome)));
    }
}
