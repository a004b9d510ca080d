//! Who of several operators acts: a Lease of `coordination.k8s.io`, and what its holder may still do. [pure]

use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

/// How long a lease holds after it was renewed last.
pub const HOLDS: Duration = Duration::from_secs(15);
/// How often it is renewed, and looked at.
pub const EVERY: Duration = Duration::from_secs(4);
/// Who could not renew it for so long stops, before another one may begin.
pub const STOPS: Duration = Duration::from_secs(7);
/// How long passes that are under way have to end then; what is not done is done by the next one who acts.
pub const ENDING: Duration = Duration::from_secs(3);

/// What is to be done about the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// There is none: make it.
    Create,
    /// Take it: nobody has it, or who had it is silent.
    Take,
    /// It is ours: renew it.
    Renew,
    /// Another one has it.
    Stand,
}

/// A lease as it was seen, and since when it has looked so. Clocks of different machines are not compared.
#[derive(Debug, Default)]
pub struct Watched {
    seen: Option<(String, Instant)>,
}

impl Watched {
    /// What is to be done by `me` about the lease that was read at `now`.
    pub fn choose(&mut self, lease: Option<&Json>, me: &str, now: Instant) -> Choice {
        let Some(lease) = lease else { return Choice::Create };
        let spec = &lease["spec"];
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        if holder == me {
            return Choice::Renew;
        }
        if holder.is_empty() {
            return Choice::Take;
        }
        let looks = spec.to_string();
        let since = match &self.seen {
            Some((before, since)) if *before == looks => *since,
            _ => {
                self.seen = Some((looks, now));
                now
            }
        };
        let holds = spec["leaseDurationSeconds"].as_u64().map_or(HOLDS, Duration::from_secs);
        if now.saturating_duration_since(since) >= holds { Choice::Take } else { Choice::Stand }
    }
}

/// The lease as it is to be written by `me` at this time of the wall clock (RFC 3339 with microseconds). Of an old one the version is kept: it is
/// written only if nobody else was faster. An empty `me` gives it away.
#[must_use]
pub fn write(old: Option<&Json>, name: &str, namespace: &str, me: &str, now: &str) -> Json {
    let before = old.map(|old| &old["spec"]);
    let was = before.and_then(|spec| spec["holderIdentity"].as_str()).unwrap_or_default();
    let turns = before.and_then(|spec| spec["leaseTransitions"].as_i64()).unwrap_or_default();
    let acquired =
        before.and_then(|spec| spec["acquireTime"].as_str()).filter(|_| was == me || me.is_empty());
    let mut lease =
        old.cloned().unwrap_or_else(|| json!({"metadata": {"name": name, "namespace": namespace}}));
    lease["apiVersion"] = "coordination.k8s.io/v1".into();
    lease["kind"] = "Lease".into();
    lease["spec"] = json!({
        "holderIdentity": me,
        "leaseDurationSeconds": if me.is_empty() { 1 } else { HOLDS.as_secs() },
        "acquireTime": acquired.unwrap_or(now),
        "renewTime": now,
        "leaseTransitions": if was == me || me.is_empty() { turns } else { turns + 1 },
    });
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_holder_is_followed_after_the_leases_time_and_not_before() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut watched = Watched::default();
        assert_eq!(watched.choose(None, "a", at(0)), Choice::Create);
        let other = write(None, "l", "n", "b", "t1");
        assert_eq!(watched.choose(Some(&other), "b", at(0)), Choice::Renew);
        assert_eq!(watched.choose(Some(&other), "a", at(0)), Choice::Stand);
        assert_eq!(watched.choose(Some(&other), "a", at(14)), Choice::Stand);
        // It was renewed: the time begins anew.
        let renewed = write(Some(&other), "l", "n", "b", "t2");
        assert_eq!(watched.choose(Some(&renewed), "a", at(14)), Choice::Stand);
        assert_eq!(watched.choose(Some(&renewed), "a", at(28)), Choice::Stand);
        assert_eq!(watched.choose(Some(&renewed), "a", at(29)), Choice::Take);
    }

    #[test]
    fn a_lease_that_was_given_away_is_taken_at_once() {
        let mine = write(None, "l", "n", "a", "t1");
        let given = write(Some(&mine), "l", "n", "", "t2");
        assert_eq!(Watched::default().choose(Some(&given), "b", Instant::now()), Choice::Take);
        let taken = write(Some(&given), "l", "n", "b", "t3");
        assert_eq!(
            (&taken["spec"]["leaseTransitions"], &taken["spec"]["acquireTime"]),
            (&json!(2), &json!("t3"))
        );
        let renewed = write(Some(&taken), "l", "n", "b", "t4");
        assert_eq!(
            (&renewed["spec"]["leaseTransitions"], &renewed["spec"]["acquireTime"]),
            (&json!(2), &json!("t3"))
        );
    }

    #[test]
    fn who_cannot_renew_stops_before_another_begins() {
        assert!(STOPS + EVERY + ENDING < HOLDS);
    }
}
