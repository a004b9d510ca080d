//! Floods of denials: what is recorded of them one by one, and what is counted. Whoever was denied waits for the record. No
//! clock, no IO.
//!
//! Of somebody who has shown an identity, the first few of a call and reason in a second have a record each; one record at the
//! end of the second, with their number, stands for the rest. All who have shown none share one budget, whatever they call,
//! from wherever, and why it is refused: an address or a connection more costs nothing. Beyond it, one record a second tells how many
//! there were, of how many addresses, and when.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use proto_audit::{ANONYMOUS, Actor};
use proto_model::Timestamp;

use crate::event::DenialRecord;

/// How long alike denials are counted together.
const WINDOW: Duration = Duration::from_secs(1);
/// Records of their own, of each caller, call and reason within it.
const ALONE: u32 = 8;
/// Kinds of denials that are counted at once; beyond it, callers are not told apart.
const KINDS: usize = 1024;
/// Who may wait; whoever is beyond is told to come again, which is no denial.
const WAITING: usize = 4096;
/// Records of their own that all anonymous callers together may cause: one in so many milliseconds in the long run (8 a
/// second), and so many at once after a rest.
const ANONYMOUS_EVERY: u64 = 125;
const ANONYMOUS_BURST: u64 = 32;
/// Anonymous callers that may wait for the record of their number.
pub const ANONYMOUS_WAITING: usize = 256;
/// Their addresses that are told apart.
const ADDRESSES: usize = 256;
/// Of these, how many the record names.
const NAMED: usize = 4;

/// Who, which call, and why.
type Kind = (String, String, String);

/// What a record is to say, and who waits for it.
#[derive(Debug, PartialEq, Eq)]
pub struct Due<T> {
    /// Who was denied.
    pub actor: Arc<Actor>,
    /// Why, and how often.
    pub denied: DenialRecord,
    /// To whom it is told.
    pub waiting: Vec<T>,
}

#[derive(Debug)]
struct Window<T> {
    since: Timestamp,
    alone: u32,
    held: Option<Due<T>>,
}

/// Anonymous denials that are counted, until the end of a second.
#[derive(Debug)]
struct Crowd<T> {
    first: Timestamp,
    last: Timestamp,
    count: u64,
    /// The call and the reason, while they are the same of all.
    rpc: Option<String>,
    reason: Option<String>,
    addresses: BTreeSet<String>,
    waiting: Vec<T>,
}

impl<T> Crowd<T> {
    fn new(actor: &Actor, denied: &DenialRecord, now: Timestamp) -> Self {
        let (rpc, reason) = (Some(actor.rpc.clone()), Some(denied.reason.clone()));
        let (addresses, waiting) = (BTreeSet::new(), Vec::new());
        Self { first: now, last: now, count: 0, rpc, reason, addresses, waiting }
    }

    fn add(&mut self, actor: &Actor, denied: &DenialRecord, waits: T, now: Timestamp) {
        (self.last, self.count) = (now, self.count + denied.count.max(1));
        self.rpc.take_if(|rpc| *rpc != actor.rpc);
        self.reason.take_if(|reason| *reason != denied.reason);
        if self.addresses.len() < ADDRESSES {
            // Each connection has a port of its own.
            let address = actor.source.parse::<SocketAddr>().map(|address| address.ip().to_string());
            self.addresses.insert(address.unwrap_or_else(|_| actor.source.clone()));
        }
        self.waiting.push(waits);
    }

    fn due(self) -> Due<T> {
        let several = || "several".to_owned();
        let addresses = match self.addresses.len() {
            ADDRESSES => format!("{ADDRESSES} addresses or more"),
            1 => "1 address".to_owned(),
            many => format!("{many} addresses"),
        };
        let named: Vec<&str> = self.addresses.iter().take(NAMED).map(String::as_str).collect();
        let detail = format!(
            "{} calls without an identity between {} and {} (since 1970), by {addresses}: {}",
            self.count,
            self.first,
            self.last,
            named.join(", ")
        );
        let source = self.addresses.first().filter(|_| self.addresses.len() == 1).cloned();
        let actor = Actor {
            who: ANONYMOUS.to_owned(),
            source: source.unwrap_or_else(several),
            rpc: self.rpc.unwrap_or_else(several),
            ..Actor::default()
        };
        let reason = self.reason.unwrap_or_else(|| "SEVERAL".to_owned());
        let denied = DenialRecord { reason, detail, count: self.count };
        Due { actor: Arc::new(actor), denied, waiting: self.waiting }
    }
}

/// The denials of the last second.
#[derive(Debug)]
pub struct Denials<T> {
    kinds: BTreeMap<Kind, Window<T>>,
    waiting: usize,
    /// The bucket of anonymous callers, as the time at which it would be full again (GCRA).
    full_at: Timestamp,
    crowd: Option<Crowd<T>>,
}

impl<T> Default for Denials<T> {
    fn default() -> Self {
        Self { kinds: BTreeMap::new(), waiting: 0, full_at: Timestamp::default(), crowd: None }
    }
}

impl<T> Denials<T> {
    /// One denial: to be recorded at once, or held.
    ///
    /// # Errors
    /// Too many wait; who asked is given back, and must not be told of the denial.
    pub fn take(
        &mut self,
        actor: Arc<Actor>,
        denied: DenialRecord,
        waits: T,
        now: Timestamp,
    ) -> Result<Option<Due<T>>, T> {
        if actor.is_anonymous() {
            return self.take_anonymous(actor, denied, waits, now);
        }
        let mut kind = (actor.who.clone(), actor.rpc.clone(), denied.reason.clone());
        if self.kinds.len() >= KINDS && !self.kinds.contains_key(&kind) {
            kind = (String::new(), String::new(), String::new());
        }
        let many = kind.0.is_empty();
        let fresh = || Window { since: now, alone: 0, held: None };
        let window = self.kinds.entry(kind).or_insert_with(fresh);
        if now.since(window.since) >= WINDOW && window.held.is_none() {
            *window = fresh();
        }
        if !many && window.alone < ALONE && window.held.is_none() {
            window.alone += 1;
            return Ok(Some(Due { actor, denied, waiting: vec![waits] }));
        }
        if self.waiting >= WAITING {
            return Err(waits);
        }
        self.waiting += 1;
        match window.held.as_mut() {
            Some(held) => {
                held.denied.count += denied.count;
                held.waiting.push(waits);
            }
            None if many => {
                let who = Actor { who: "several".to_owned(), rpc: "several".to_owned(), ..Actor::default() };
                let denied = DenialRecord { reason: "SEVERAL".to_owned(), ..denied };
                window.held = Some(Due { actor: Arc::new(who), denied, waiting: vec![waits] });
            }
            None => window.held = Some(Due { actor, denied, waiting: vec![waits] }),
        }
        Ok(None)
    }

    fn take_anonymous(
        &mut self,
        actor: Arc<Actor>,
        denied: DenialRecord,
        waits: T,
        now: Timestamp,
    ) -> Result<Option<Due<T>>, T> {
        // A clock that was set back must not close the bucket for as long.
        let most = now.plus(Duration::from_millis(ANONYMOUS_EVERY * ANONYMOUS_BURST));
        let full_at = self.full_at.clamp(now, most);
        let next = full_at.plus(Duration::from_millis(ANONYMOUS_EVERY));
        if self.crowd.is_none() && next <= most {
            self.full_at = next;
            return Ok(Some(Due { actor, denied, waiting: vec![waits] }));
        }
        let crowd = self.crowd.get_or_insert_with(|| Crowd::new(&actor, &denied, now));
        if crowd.waiting.len() >= ANONYMOUS_WAITING {
            return Err(waits);
        }
        crowd.add(&actor, &denied, waits, now);
        Ok(None)
    }

    /// When the next record is due.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        let held = self.kinds.values().filter(|window| window.held.is_some());
        let held = held.map(|window| window.since).chain(self.crowd.as_ref().map(|crowd| crowd.first));
        held.map(|since| since.plus(WINDOW)).min()
    }

    /// Records that are due, and windows that are over.
    #[must_use]
    pub fn ripe(&mut self, now: Timestamp) -> Vec<Due<T>> {
        let mut ripe = Vec::new();
        self.kinds.retain(|_, window| {
            let over = now.since(window.since) >= WINDOW || now < window.since;
            if over {
                ripe.extend(window.held.take());
            }
            !over
        });
        self.waiting -= ripe.iter().map(|due| due.waiting.len()).sum::<usize>().min(self.waiting);
        let over = |crowd: &mut Crowd<T>| now.since(crowd.first) >= WINDOW || now < crowd.first;
        ripe.extend(self.crowd.take_if(over).map(Crowd::due));
        ripe
    }

    /// Everybody who waits: nothing will be recorded.
    #[must_use]
    pub fn give_up(&mut self) -> Vec<T> {
        self.waiting = 0;
        let crowd = self.crowd.take().map(|crowd| crowd.waiting).unwrap_or_default();
        let held = std::mem::take(&mut self.kinds).into_values().filter_map(|window| window.held);
        held.flat_map(|due| due.waiting).chain(crowd).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actor(who: &str) -> Arc<Actor> {
        Arc::new(Actor { who: who.to_owned(), rpc: "GetJob".to_owned(), ..Actor::default() })
    }

    fn denied() -> DenialRecord {
        DenialRecord { reason: "ROLE_NOT_ALLOWED".to_owned(), detail: "no".to_owned(), count: 1 }
    }

    #[test]
    fn every_denial_is_in_exactly_one_record_and_a_flood_makes_few() {
        let mut denials = Denials::default();
        let (mut records, mut reported) = (0, Vec::new());
        for n in 0..1000_u64 {
            // Three seconds of a flood.
            let now = Timestamp(10_000 + n * 3);
            for due in denials.ripe(now) {
                assert_eq!(due.denied.count as usize, due.waiting.len());
                records += 1;
                reported.extend(due.waiting);
            }
            if let Some(due) = denials.take(actor("eve"), denied(), n, now).unwrap() {
                assert_eq!(due.denied.count, 1);
                records += 1;
                reported.extend(due.waiting);
            }
        }
        assert!(denials.due().is_some());
        for due in denials.ripe(Timestamp(99_000)) {
            records += 1;
            reported.extend(due.waiting);
        }
        reported.sort_unstable();
        assert_eq!(reported, (0..1000).collect::<Vec<_>>());
        assert!(records <= 3 * (ALONE + 1) + 9, "{records}");
        assert_eq!(denials.due(), None);
        // A clock that goes back holds nobody.
        for n in 0..20 {
            drop(denials.take(actor("eve"), denied(), n, Timestamp(50_000)).unwrap());
        }
        assert_eq!(denials.ripe(Timestamp(40_000)).len(), 1);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut denials = Denials::default();
        let now = Timestamp(1000);
        for n in 0..KINDS {
            assert!(denials.take(actor(&format!("u{n}")), denied(), n, now).unwrap().is_some());
        }
        let mut held = 0;
        let away =
            (0..2 * WAITING).filter(|n| match denials.take(actor(&format!("v{n}")), denied(), *n, now) {
                Ok(None) => {
                    held += 1;
                    false
                }
                Ok(Some(_)) => panic!("more kinds than there may be"),
                Err(_) => true,
            });
        assert_eq!(away.count(), WAITING);
        assert_eq!((held, denials.kinds.len()), (WAITING, KINDS + 1));
        let ripe = denials.ripe(Timestamp(2000));
        assert_eq!((ripe.len(), ripe[0].actor.who.as_str()), (1, "several"));
        assert_eq!(ripe[0].denied.count as usize, WAITING);
        assert!(denials.take(actor("w"), denied(), 1, Timestamp(2000)).unwrap().is_some());
        assert!(denials.give_up().is_empty());
    }

    /// Whatever anonymous callers call, from wherever: few records, and none of them is lost.
    #[test]
    fn anonymous_callers_share_one_budget_over_all_calls_addresses_and_reasons() {
        let mut denials = Denials::default();
        let (mut records, mut counted, mut reported, mut away) = (0_u64, 0, Vec::new(), 0);
        let (mut now, seconds) = (Timestamp(1_000_000), 20_u64);
        let calls = 600 * seconds;
        let mut note = |due: Due<u64>| {
            assert!(due.actor.is_anonymous() && due.denied.detail.len() <= 256, "{}", due.denied.detail);
            assert_eq!(due.denied.count as usize, due.waiting.len());
            counted += due.denied.count;
            records += 1;
            reported.extend(due.waiting);
        };
        for n in 0..calls {
            now = Timestamp(1_000_000 + n * 1000 / 600);
            denials.ripe(now).into_iter().for_each(&mut note);
            let actor = Actor {
                who: ANONYMOUS.to_owned(),
                rpc: format!("Call{}", n % 50),
                source: format!("10.{}.{}.7:{}", n % 7, n % 200, 1024 + n % 60_000),
                ..Actor::default()
            };
            let denied = DenialRecord { reason: format!("R{}", n % 5), detail: "no".to_owned(), count: 1 };
            match denials.take(Arc::new(actor), denied, n, now) {
                Ok(due) => due.into_iter().for_each(&mut note),
                Err(_) => away += 1,
            }
            // Who has an identity is recorded as if nobody else were there.
            if n % 600 == 300 {
                assert!(denials.take(actor_of(n), denied_once(), n, now).unwrap().is_some());
            }
        }
        denials.ripe(now.plus(WINDOW)).into_iter().for_each(&mut note);
        assert_eq!(counted + away, calls, "each is recorded, counted, or told to come again");
        assert!(records <= ANONYMOUS_BURST + 9 * (seconds + 1), "{records} records of {calls} calls");
        reported.sort_unstable();
        reported.dedup();
        assert_eq!(reported.len() as u64, counted);
        assert!(denials.give_up().is_empty());
    }

    fn actor_of(n: u64) -> Arc<Actor> {
        actor(&format!("spiffe://rail/c/node/n{n}"))
    }

    fn denied_once() -> DenialRecord {
        denied()
    }
}
