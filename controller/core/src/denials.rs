//! Floods of denials: the first few of a caller, call and reason in a second have a record each; one record at the end of
//! the second, with their number, stands for the rest. Whoever was denied waits for the record. No clock, no IO.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use proto_audit::Actor;
use proto_model::Timestamp;

use crate::event::Denied;

/// How long alike denials are counted together.
const WINDOW: Duration = Duration::from_secs(1);
/// Records of their own, of each caller, call and reason within it.
const ALONE: u32 = 8;
/// Kinds of denials that are counted at once; beyond it, callers are not told apart.
const KINDS: usize = 1024;
/// Who may wait; whoever is beyond is told to come again, which is no denial.
const WAITING: usize = 4096;

/// Who, which call, and why.
type Kind = (String, String, String);

/// What a record is to say, and who waits for it.
#[derive(Debug, PartialEq, Eq)]
pub struct Due<T> {
    /// Who was denied.
    pub actor: Arc<Actor>,
    /// Why, and how often.
    pub denied: Denied,
    /// To whom it is told.
    pub waiting: Vec<T>,
}

#[derive(Debug)]
struct Window<T> {
    since: Timestamp,
    alone: u32,
    held: Option<Due<T>>,
}

/// The denials of the last second.
#[derive(Debug)]
pub struct Denials<T> {
    kinds: BTreeMap<Kind, Window<T>>,
    waiting: usize,
}

impl<T> Default for Denials<T> {
    fn default() -> Self {
        Self { kinds: BTreeMap::new(), waiting: 0 }
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
        denied: Denied,
        waits: T,
        now: Timestamp,
    ) -> Result<Option<Due<T>>, T> {
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
                let denied = Denied { reason: "SEVERAL".to_owned(), ..denied };
                window.held = Some(Due { actor: Arc::new(who), denied, waiting: vec![waits] });
            }
            None => window.held = Some(Due { actor, denied, waiting: vec![waits] }),
        }
        Ok(None)
    }

    /// When the next record is due.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        let held = self.kinds.values().filter(|window| window.held.is_some());
        held.map(|window| window.since.plus(WINDOW)).min()
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
        ripe
    }

    /// Everybody who waits: nothing will be recorded.
    #[must_use]
    pub fn give_up(&mut self) -> Vec<T> {
        self.waiting = 0;
        let held = std::mem::take(&mut self.kinds).into_values().filter_map(|window| window.held);
        held.flat_map(|due| due.waiting).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actor(who: &str) -> Arc<Actor> {
        Arc::new(Actor { who: who.to_owned(), rpc: "GetJob".to_owned(), ..Actor::default() })
    }

    fn denied() -> Denied {
        Denied { reason: "ROLE_NOT_ALLOWED".to_owned(), detail: "no".to_owned(), count: 1 }
    }

    #[test]
    fn every_denial_is_in_exactly_one_record_and_a_flood_makes_few() {
        let mut denials = Denials::default();
        let (mut records, mut told) = (0, Vec::new());
        for n in 0..1000_u64 {
            // Three seconds of a flood.
            let now = Timestamp(10_000 + n * 3);
            for due in denials.ripe(now) {
                assert_eq!(due.denied.count as usize, due.waiting.len());
                records += 1;
                told.extend(due.waiting);
            }
            if let Some(due) = denials.take(actor("eve"), denied(), n, now).unwrap() {
                assert_eq!(due.denied.count, 1);
                records += 1;
                told.extend(due.waiting);
            }
        }
        assert!(denials.due().is_some());
        for due in denials.ripe(Timestamp(99_000)) {
            records += 1;
            told.extend(due.waiting);
        }
        told.sort_unstable();
        assert_eq!(told, (0..1000).collect::<Vec<_>>());
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
}
