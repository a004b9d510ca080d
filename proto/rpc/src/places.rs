//! Who holds which connection, and who must go for whom: shares, reserves, and the order in which anonymous peers are shed.

use crate::caps::{Limits, ServerMetrics};
use crate::identity::Identity;
use crate::listen::PeerAddress;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a handshake may take before it is cut for another one.
const GRACE: Duration = Duration::from_secs(1);
/// The same for a peer that has not sent a whole ClientHello. An honest one sends it with the last packet of its TCP handshake,
/// so what is still missing after this is lost or was never sent, and costs nobody a turn of a second.
const HELLO_GRACE: Duration = Duration::from_millis(150);

/// Who is at the other end of a connection, as far as its place depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Of an unencrypted listener on this machine.
    Plain,
    /// Has not said anything whole yet.
    Handshake,
    /// The peer has finished its handshake without an identity.
    Anonymous,
    Tenant,
    Admin,
    Agent,
    Controller,
}

const KINDS: [Kind; 7] =
    [Kind::Plain, Kind::Handshake, Kind::Anonymous, Kind::Tenant, Kind::Admin, Kind::Agent, Kind::Controller];
/// Those with an identity.
const KNOWN: [Kind; 4] = [Kind::Tenant, Kind::Admin, Kind::Agent, Kind::Controller];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Plain => "plain",
            Kind::Handshake => "handshake",
            Kind::Anonymous => "anonymous",
            Kind::Tenant => "tenant",
            Kind::Admin => "admin",
            Kind::Agent => "agent",
            Kind::Controller => "controller",
        }
    }

    fn reserve(self, limits: &Limits) -> usize {
        match self {
            Kind::Admin => limits.reserved_admins,
            Kind::Agent => limits.reserved_agents,
            Kind::Controller => limits.reserved_controllers,
            Kind::Plain | Kind::Handshake | Kind::Anonymous | Kind::Tenant => 0,
        }
    }
}

/// Whose connections are counted together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Tenant(String),
    Node(String),
    Switch(String),
}

fn class(identity: &Identity) -> (Kind, Option<Owner>) {
    match identity {
        Identity::Anonymous => (Kind::Anonymous, None),
        Identity::Controller => (Kind::Controller, None),
        Identity::Admin { .. } => (Kind::Admin, None),
        Identity::Node { name } => (Kind::Agent, Some(Owner::Node(name.clone()))),
        Identity::Switch { name } => (Kind::Agent, Some(Owner::Switch(name.clone()))),
        Identity::User { tenant, .. } => (Kind::Tenant, Some(Owner::Tenant(tenant.clone()))),
    }
}

/// What an anonymous connection does.
#[derive(Debug)]
struct Doing {
    calls: usize,
    /// When the last one ended, or the connection began.
    since: Instant,
}

#[derive(Debug)]
struct One {
    kind: Kind,
    key: Option<IpAddr>,
    owner: Option<Owner>,
    begun: Instant,
    /// Its ClientHello was whole.
    hello_received: bool,
    doing: Doing,
    strikes: u32,
    /// Cancelled when the connection has to end at once.
    cut: CancellationToken,
}

impl One {
    /// When it may be cut for another handshake, if it is one.
    fn may_be_cut_at(&self) -> Instant {
        self.begun + if self.hello_received { GRACE } else { HELLO_GRACE }
    }
}

#[derive(Debug, Default)]
struct Counts {
    next: u64,
    all: BTreeMap<u64, One>,
    /// Of `all`, those that can be shed, oldest first: handshakes and anonymous peers.
    sheddable: BTreeMap<u64, Kind>,
    by_kind: BTreeMap<Kind, usize>,
    by_ip: BTreeMap<(Kind, IpAddr), usize>,
    by_owner: BTreeMap<Owner, usize>,
    by_listener: BTreeMap<&'static str, i64>,
}

/// The connections that are open now, counted by kind, owner and address.
#[derive(Debug)]
pub(crate) struct Open {
    counts: Mutex<Counts>,
    limits: Limits,
    metrics: ServerMetrics,
    /// Notified when a handshake has ended.
    room: Notify,
}

/// One connection's place; given back when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    open: Arc<Open>,
    listener: &'static str,
    id: u64,
    /// It is to end at once: somebody else needs its place.
    pub(crate) cut: CancellationToken,
}

/// When an anonymous connection is to end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// It is over now; the text says why.
    Over(&'static str),
    /// It may stay until this moment, when it is looked at again.
    Later(Instant),
}

/// All with an identity share a limit per address, and so do anonymous peers: but not with each other.
fn shares(kind: Kind) -> Kind {
    if KNOWN.contains(&kind) { Kind::Tenant } else { kind }
}

fn add<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K) {
    *counts.entry(key).or_insert(0) += 1;
}

fn take<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

impl Counts {
    fn of(&self, kind: Kind) -> usize {
        self.by_kind.get(&kind).copied().unwrap_or(0)
    }

    fn of_ip(&self, kind: Kind, key: Option<IpAddr>) -> usize {
        key.and_then(|key| self.by_ip.get(&(shares(kind), key)).copied()).unwrap_or(0)
    }

    fn put(&mut self, id: u64, one: One) {
        add(&mut self.by_kind, one.kind);
        if let Some(key) = one.key {
            add(&mut self.by_ip, (shares(one.kind), key));
        }
        if let Some(owner) = &one.owner {
            add(&mut self.by_owner, owner.clone());
        }
        if matches!(one.kind, Kind::Handshake | Kind::Anonymous) {
            self.sheddable.insert(id, one.kind);
        }
        self.all.insert(id, one);
    }

    fn remove(&mut self, id: u64) -> Option<One> {
        let one = self.all.remove(&id)?;
        take(&mut self.by_kind, &one.kind);
        if let Some(key) = one.key {
            take(&mut self.by_ip, &(shares(one.kind), key));
        }
        if let Some(owner) = &one.owner {
            take(&mut self.by_owner, owner);
        }
        self.sheddable.remove(&id);
        Some(one)
    }

    /// Ends a connection; it counts no more from now on.
    fn shed(&mut self, id: u64) -> bool {
        let one = self.remove(id);
        one.inspect(|one| one.cut.cancel()).is_some()
    }

    /// The handshake that may be cut first, of one address or of all, and when.
    fn next_to_cut(&self, key: Option<Option<IpAddr>>) -> Option<(u64, Instant)> {
        let all = self.sheddable.iter().filter(|(_, kind)| **kind == Kind::Handshake);
        let all = all.filter_map(|(id, _)| Some((*id, self.all.get(id)?)));
        let all = all.filter(|(_, one)| key.is_none_or(|key| one.key == key));
        all.map(|(id, one)| (id, one.may_be_cut_at())).min_by_key(|(id, when)| (*when, *id))
    }

    /// The anonymous connection that has been idle for the longest, of one address or of all.
    fn idlest(&self, key: Option<Option<IpAddr>>) -> Option<u64> {
        let found = self.sheddable.iter().filter(|(_, kind)| **kind == Kind::Anonymous);
        let found = found.filter_map(|(id, _)| Some((*id, self.all.get(id)?)));
        let idle = found.filter(|(_, one)| one.doing.calls == 0 && key.is_none_or(|key| one.key == key));
        idle.min_by_key(|(_, one)| one.doing.since).map(|(id, _)| id)
    }

    /// Somebody without an identity goes: whoever is idle for the longest, else the handshake that may be cut first, else the
    /// oldest anonymous connection.
    fn shed_one(&mut self, but: u64) -> bool {
        let handshake = || self.next_to_cut(None).map(|(id, _)| id).filter(|id| *id != but);
        let any = || self.sheddable.keys().copied().find(|id| *id != but);
        let found = self.idlest(None).or_else(handshake).or_else(any);
        found.is_some_and(|id| self.shed(id))
    }

    /// Whether one more of a kind leaves the others what is reserved for them.
    fn leaves_reserves(&self, kind: Kind, limits: &Limits) -> bool {
        let used: usize = KNOWN.iter().map(|kind| self.of(*kind)).sum();
        let others = KNOWN.iter().filter(|other| **other != kind);
        let kept: usize = others.map(|other| other.reserve(limits).saturating_sub(self.of(*other))).sum();
        used + kept < limits.connections
    }

    fn admit(&mut self, kind: Kind, key: Option<IpAddr>, owner: Option<&Owner>, limits: &Limits) -> Admitted {
        if kind == Kind::Anonymous {
            let most = &limits.anonymous;
            let mut shed = 0;
            if self.of_ip(kind, key) >= most.connections_per_ip {
                let idlest = self.idlest(Some(key)).ok_or("anonymous-per-ip")?;
                shed += usize::from(self.shed(idlest));
            }
            if self.of(kind) >= most.connections {
                let idlest = self.idlest(None).ok_or("anonymous")?;
                shed += usize::from(self.shed(idlest));
            }
            return Ok(shed);
        }
        if self.of_ip(kind, key) >= limits.connections_per_ip {
            return Err("per-ip");
        }
        let (most, cause) = match owner {
            Some(Owner::Tenant(_)) => (limits.connections_per_tenant, "tenant"),
            Some(Owner::Node(_)) => (limits.connections_per_node, "node"),
            Some(Owner::Switch(_)) => (limits.connections_per_node, "switch"),
            None => (usize::MAX, ""),
        };
        if owner.is_some_and(|owner| self.by_owner.get(owner).is_some_and(|held| *held >= most)) {
            return Err(cause);
        }
        if self.leaves_reserves(kind, limits) { Ok(0) } else { Err("total") }
    }
}

/// How many others went for it, or why it gets no place.
type Admitted = Result<usize, &'static str>;

impl Open {
    pub(crate) fn new(limits: Limits, metrics: ServerMetrics) -> Arc<Self> {
        let (counts, room) = (Mutex::default(), Notify::new());
        Arc::new(Self { counts, limits: limits.consistent(), metrics, room })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, counts: &Counts) {
        for kind in KINDS {
            let count = i64::try_from(counts.of(kind)).unwrap_or(i64::MAX);
            self.metrics.held.set([kind.name()], count);
        }
    }

    /// Waits until another connection may be accepted.
    pub(crate) async fn room(&self) {
        loop {
            let wait = {
                let counts = self.counts();
                if counts.of(Kind::Handshake) < self.limits.handshakes {
                    return;
                }
                let now = Instant::now();
                let when = counts.next_to_cut(None).map_or(now, |(_, when)| when);
                match when.checked_duration_since(now) {
                    // `arrive` cuts it.
                    None | Some(Duration::ZERO) => return,
                    Some(wait) => wait,
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.room.notified() => {}
            }
        }
    }

    /// A place for a connection that has just come; `plain`: of an unencrypted listener.
    pub(crate) fn arrive(
        self: &Arc<Self>,
        address: &PeerAddress,
        listener: &'static str,
        plain: bool,
    ) -> Result<ConnectionSlot, &'static str> {
        let (key, limits) = (address.cap_key(), &self.limits);
        let mut counts = self.counts();
        let kind = if plain { Kind::Plain } else { Kind::Handshake };
        if plain && counts.of_ip(kind, key) >= limits.connections_per_ip {
            return Err("per-ip");
        }
        if counts.all.len() >= limits.connections && !counts.shed_one(u64::MAX) {
            return Err("total");
        }
        if !plain {
            let ours = key.is_some() && counts.of_ip(kind, key) >= limits.handshakes_per_ip;
            let first = if ours {
                counts.next_to_cut(Some(key))
            } else if counts.of(kind) >= limits.handshakes {
                counts.next_to_cut(None)
            } else {
                None
            };
            if first.is_some_and(|(id, _)| counts.shed(id)) {
                self.metrics.refused.inc(["handshake-shed"]);
            }
        }
        let (now, cut) = (Instant::now(), CancellationToken::new());
        let doing = Doing { calls: 0, since: now };
        counts.next += 1;
        let id = counts.next;
        let hello_received = false;
        counts.put(
            id,
            One { kind, key, owner: None, begun: now, hello_received, doing, strikes: 0, cut: cut.clone() },
        );
        let here = counts.by_listener.entry(listener).or_insert(0);
        *here += 1;
        self.metrics.open.set([listener], *here);
        self.report(&counts);
        Ok(ConnectionSlot { open: Arc::clone(self), listener, id, cut })
    }

    /// Moves a connection to the class of who is at the other end.
    fn settle(&self, id: u64, kind: Kind, owner: Option<Owner>) -> Result<(), &'static str> {
        let mut counts = self.counts();
        // Shed meanwhile.
        let Some(one) = counts.all.get(&id) else { return Err("shed") };
        let (key, was) = (one.key, one.kind);
        if KNOWN.contains(&was) || was == kind {
            return Ok(());
        }
        let mut shed = counts.admit(kind, key, owner.as_ref(), &self.limits)?;
        if let Some(mut one) = counts.remove(id) {
            (one.kind, one.owner, one.doing.since) = (kind, owner, Instant::now());
            counts.put(id, one);
        }
        if counts.all.len() > self.limits.connections {
            shed += usize::from(counts.shed_one(id));
        }
        self.report(&counts);
        drop(counts);
        self.metrics.refused.inc_by(["shed"], shed as u64);
        if was == Kind::Handshake {
            self.room.notify_one();
        }
        Ok(())
    }
}

impl ConnectionSlot {
    /// The peer's ClientHello is whole: it may take the time of a handshake now.
    pub(crate) fn hello_received(&self) {
        let mut counts = self.open.counts();
        if let Some(one) = counts.all.get_mut(&self.id) {
            one.hello_received = true;
        }
    }

    /// The peer has said who it is, or that it is nobody.
    pub(crate) fn settle(&self, identity: &Identity) -> Result<(), &'static str> {
        let (kind, owner) = class(identity);
        self.open.settle(self.id, kind, owner)
    }

    /// For requests of an anonymous connection.
    pub(crate) fn standing(&self) -> Standing {
        Standing { open: Arc::clone(&self.open), id: self.id }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut counts = self.open.counts();
        let one = counts.remove(self.id);
        let here = counts.by_listener.entry(self.listener).or_insert(0);
        *here -= 1;
        self.open.metrics.open.set([self.listener], *here);
        self.open.report(&counts);
        drop(counts);
        if one.is_none_or(|one| one.kind == Kind::Handshake) {
            self.open.room.notify_one();
        }
    }
}

/// How a connection stands that began without an identity.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    open: Arc<Open>,
    id: u64,
}

impl Standing {
    /// A call has proved who its caller is; false if there is no room for one more of its kind.
    pub(crate) fn proved(&self, identity: &Identity) -> bool {
        let (kind, owner) = class(identity);
        kind != Kind::Anonymous && self.open.settle(self.id, kind, owner).is_ok()
    }

    /// Another controller has let a call of it in, by a token: of whom it did not say.
    pub(crate) fn vouched(&self) -> bool {
        self.open.settle(self.id, Kind::Tenant, None).is_ok()
    }

    fn with<T>(&self, default: T, change: impl FnOnce(&mut One) -> T) -> T {
        self.open.counts().all.get_mut(&self.id).map_or(default, change)
    }

    /// Whether it is still an anonymous one.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.with(true, |one| one.kind == Kind::Anonymous)
    }

    pub(crate) fn begin(&self) {
        self.with((), |one| one.doing.calls += 1);
    }

    pub(crate) fn end(&self) {
        self.with((), |one| {
            one.doing.calls = one.doing.calls.saturating_sub(1);
            one.doing.since = Instant::now();
        });
    }

    /// A call beyond what anonymous callers may; true if it was one too many for this connection.
    pub(crate) fn strike(&self) -> bool {
        let most = self.open.limits.anonymous.strikes;
        self.with(true, |one| {
            one.strikes += 1;
            one.strikes > most
        })
    }

    /// Whether it is to end.
    pub(crate) fn due(&self, now: Instant) -> Due {
        let limits = self.open.limits.anonymous;
        self.with(Due::Over("shed"), |one| {
            let strange = one.kind == Kind::Anonymous;
            let idle = if strange { limits.idle } else { limits.proved_idle };
            let idle_at = if one.doing.calls > 0 { now + idle } else { one.doing.since + idle };
            let age_at = one.begun + limits.age;
            if one.strikes > limits.strikes {
                Due::Over("strikes")
            } else if strange && now >= age_at {
                Due::Over("age")
            } else if now >= idle_at {
                Due::Over("idle")
            } else {
                Due::Later(if strange { idle_at.min(age_at) } else { idle_at })
            }
        })
    }
}

#[cfg(test)]
mod tests;
