//! What a controller needs so that it can do what it is asked: `/readyz`.

use std::sync::Arc;

use controller_ha::LeadershipWatch;
use controller_leader::Handle;
use proto_rpc::probes::{Check, Checks};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The checks of a controller that leads, or follows where there are several (`leadership`), until it ends.
pub fn checks(
    leading: &watch::Receiver<Option<Handle>>,
    leadership: Option<&LeadershipWatch>,
    ending: &CancellationToken,
) -> Checks {
    let (leading, leadership, ending) = (leading.clone(), leadership.cloned(), ending.clone());
    Arc::new(move || {
        let handle = leading.borrow().clone();
        let remote = leadership.as_ref().and_then(LeadershipWatch::remote_epoch);
        let mut checks = vec![
            Check { name: "serving", outcome: serving(ending.is_cancelled()) },
            Check { name: "leader", outcome: leader(handle.as_ref().map(Handle::epoch), remote) },
        ];
        // The store of a leader elsewhere is that one's to judge.
        if let Some(health) = handle.map(|handle| handle.store_health()) {
            checks.push(Check { name: "store", outcome: store(health.writable, health.cause) });
        }
        checks
    })
}

fn serving(ending: bool) -> Result<String, String> {
    if ending { Err("this controller is ending".to_owned()) } else { Ok("calls are taken".to_owned()) }
}

/// `here`: the epoch in which this controller leads; `elsewhere`: that of a leader to which it hands calls on.
fn leader(here: Option<u64>, elsewhere: Option<u64>) -> Result<String, String> {
    match (here, elsewhere) {
        (Some(epoch), _) => Ok(format!("this controller leads, epoch {epoch}")),
        (None, Some(epoch)) => Ok(format!("calls are handed on to the leader of epoch {epoch}")),
        (None, None) => Err("no leader is known; calls wait for one".to_owned()),
    }
}

fn store(writable: bool, cause: Option<String>) -> Result<String, String> {
    if writable {
        return Ok("it takes writes".to_owned());
    }
    Err(cause.unwrap_or_else(|| "it takes no writes".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_ready_where_calls_can_be_done() {
        assert_eq!(leader(Some(7), None).unwrap(), "this controller leads, epoch 7");
        assert_eq!(leader(None, Some(8)).unwrap(), "calls are handed on to the leader of epoch 8");
        assert!(leader(None, None).is_err());
        assert!(serving(false).is_ok() && serving(true).is_err());
        assert!(store(true, None).is_ok());
        assert_eq!(store(false, Some("disk full".to_owned())).unwrap_err(), "disk full");
        assert!(store(false, None).is_err());
    }

    #[test]
    fn nothing_is_promised_before_there_is_a_leader() {
        let (report, leading) = watch::channel(None);
        let ending = CancellationToken::new();
        let checks = checks(&leading, Some(&controller_ha::LeadershipWatch::new()), &ending);
        let failed = |checks: &Checks| {
            let failed = checks().into_iter().filter(|check| check.outcome.is_err());
            failed.map(|check| check.name).collect::<Vec<_>>()
        };
        assert_eq!(failed(&checks), ["leader"]);
        ending.cancel();
        assert_eq!(failed(&checks), ["serving", "leader"]);
        drop(report);
    }
}
