//! Sends the deliveries of webhooks, beside the loop: nothing of it waits in the loop, and nothing is sent that is not durable.
//!
//! `controller_core::webhooks::dispatcher` decides what is attempted when; here is the request, its signature (Standard Webhooks: HMAC-SHA256
//! over id, time and body), and what an answer means. It ends with the loop.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use controller_core::{
    CoreError, Event, Key, State,
    webhooks::{
        Delivery, DeliveryReport, DeliveryResult, WebhookKey,
        dispatcher::{DeliveryAttempt, Dispatcher},
        retry::Outcome,
    },
};
use proto_model::{TenantName, Timestamp, Webhook, WebhookName};
use proto_rpc::{
    Outbound, PostError,
    outbound::{self, Answered, Target},
};
use proto_wire::convert::time_to_wire;
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use crate::{error::Refusal, handle::Handle};

/// Before the loop is asked again that was too busy, or could not store anything.
const AGAIN: Duration = Duration::from_secs(1);
/// Outcomes that one event counts at most.
const COUNTED: usize = 64;
/// Webhooks that are looked at in one question to the loop.
const CHECKED_AT: usize = 64;
/// Such questions in a row at most.
const CHECKS: usize = 16;
/// Pings of all callers at a time.
static PINGS: Semaphore = Semaphore::const_new(16);

/// The webhooks of which something was written since somebody looked; clones share it. At most one entry for each webhook.
#[derive(Clone, Default)]
pub(crate) struct ChangedWebhooks {
    keys: Arc<Mutex<BTreeSet<WebhookKey>>>,
    wake: Arc<Notify>,
}

impl ChangedWebhooks {
    /// Notes what of it concerns webhooks.
    pub fn by<'a>(&self, written: impl Iterator<Item = &'a Key>) {
        let of = |key: &Key| match key {
            Key::Webhook(tenant, name) | Key::Delivery(tenant, name, _) => {
                Some((tenant.clone(), name.clone()))
            }
            _ => None,
        };
        let mut written = written.filter_map(of).peekable();
        if written.peek().is_some() {
            self.add(written);
        }
    }

    fn add(&self, more: impl Iterator<Item = WebhookKey>) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).extend(more);
        self.wake.notify_one();
    }

    fn take(&self, most: usize) -> Vec<WebhookKey> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let taken: Vec<WebhookKey> = keys.iter().take(most).cloned().collect();
        keys.retain(|key| !taken.contains(key));
        taken
    }
}

/// A webhook and all that waits of it.
type Waiting = (WebhookKey, Option<Arc<Webhook>>, Vec<Arc<Delivery>>);

/// Sends until the loop has ended.
pub(crate) async fn run(handle: Handle, changed: ChangedWebhooks, stop: CancellationToken) {
    let all = handle.query(|state: &State, _| state.webhook_keys().cloned().collect::<Vec<_>>()).await;
    if let Ok(all) = all {
        changed.add(all.into_iter());
    }
    let mut sender = Sender {
        handle,
        changed,
        dispatcher: Dispatcher::default(),
        in_flight: JoinSet::new(),
        unreported: Vec::new(),
    };
    // Requests under way are dropped: the next leader sends them again.
    let _ = stop.run_until_cancelled(sender.run()).await;
}

struct Sender {
    handle: Handle,
    changed: ChangedWebhooks,
    dispatcher: Dispatcher,
    in_flight: JoinSet<(DeliveryAttempt, Outcome)>,
    /// What the core has not taken yet; at most one for each delivery that waits there.
    unreported: Vec<DeliveryReport>,
}

impl Sender {
    async fn run(&mut self) {
        loop {
            let fine = self.refresh().await && self.report().await;
            let now = self.handle.now();
            for attempt in self.dispatcher.start(now) {
                let outbound = self.handle.webhooks.clone();
                self.in_flight.spawn(async move {
                    let outcome = send(outbound.as_ref(), &attempt, now).await;
                    (attempt, outcome)
                });
            }
            let next = if fine { self.dispatcher.next().map(|at| at.since(now)) } else { Some(AGAIN) };
            tokio::select! {
                () = self.changed.wake.notified() => {}
                Some(ended) = self.in_flight.join_next() => self.completed(ended.ok()),
                () = sleep(next.unwrap_or_default()), if next.is_some() => {}
            }
            while let Some(ended) = self.in_flight.try_join_next() {
                self.completed(ended.ok());
            }
        }
    }

    fn completed(&mut self, ended: Option<(DeliveryAttempt, Outcome)>) {
        let Some((attempt, outcome)) = ended else { return };
        let report = self.dispatcher.ended(&attempt, outcome.clone(), self.handle.now(), outbound::seed());
        let word = match (&outcome, report.as_ref().map(|report| &report.what)) {
            (Outcome::Delivered, _) => "delivered",
            (Outcome::Gone, _) => "gone",
            (_, Some(DeliveryResult::GivenUp(_))) => "given-up",
            _ => "failed",
        };
        self.handle.metrics.webhook_attempts.inc([word]);
        self.unreported.extend(report);
    }

    /// Takes in what was written; false where the loop has not answered.
    async fn refresh(&mut self) -> bool {
        for _ in 0..CHECKS {
            let keys = self.changed.take(CHECKED_AT);
            if keys.is_empty() {
                return true;
            }
            let asked = keys.clone();
            let question =
                move |state: &State, _: Timestamp| asked.into_iter().map(|key| found(state, key)).collect();
            let found: Result<Vec<Waiting>, Refusal> = self.handle.query(question).await;
            let Ok(found) = found else {
                self.changed.keys.lock().unwrap_or_else(PoisonError::into_inner).extend(keys);
                return false;
            };
            for (key, webhook, waiting) in found {
                self.dispatcher.update(&key, webhook, waiting);
            }
        }
        // More was written meanwhile: what is known is sent first.
        self.changed.wake.notify_one();
        true
    }

    /// Has the core count what became of deliveries; false where it could not.
    async fn report(&mut self) -> bool {
        while !self.unreported.is_empty() {
            let some: Vec<DeliveryReport> = self.unreported.iter().take(COUNTED).cloned().collect();
            let count = some.len();
            if let Err(error) = self.handle.ask(Event::CountDeliveries(some)).await {
                tracing::debug!(%error, "what became of deliveries of webhooks cannot be counted yet");
                return false;
            }
            self.unreported.drain(..count);
        }
        true
    }
}

fn found(state: &State, key: WebhookKey) -> Waiting {
    let webhook = state.webhook(&key.0, &key.1).cloned();
    let waiting = state.deliveries_of(&key.0, &key.1).cloned().collect();
    (key, webhook, waiting)
}

/// The body of the request to a receiver.
#[must_use]
pub fn body(delivery: &Delivery) -> Vec<u8> {
    let reason = delivery.reason.as_ref();
    let reason = reason.map(|reason| json!({"code": reason.code.as_str(), "message": reason.message}));
    let event = delivery.event.as_str();
    let data = json!({
        "tenant": delivery.tenant.as_str(),
        "webhook": delivery.webhook.as_str(),
        "job": delivery.job.as_str(),
        "uid": delivery.uid.to_string(),
        "attempt": delivery.attempt,
        "event": event,
        "phase": delivery.phase.to_string().to_uppercase(),
        "queue": delivery.queue.as_ref().map(ToString::to_string),
        "nodes": delivery.nodes,
        "submitTime": text(delivery.submitted),
        "reason": reason,
    });
    framed(&format!("job.{}", event.to_lowercase()), delivery.time, &data)
}

fn framed(kind: &str, time: Timestamp, data: &Value) -> Vec<u8> {
    json!({"type": kind, "timestamp": text(time), "data": data}).to_string().into_bytes()
}

fn text(time: Timestamp) -> String {
    time_to_wire(time).to_string()
}

/// The value of the header `webhook-signature` (Standard Webhooks).
#[must_use]
pub fn signature(secret: &[u8], id: &str, seconds: u64, body: &[u8]) -> String {
    let mut message = format!("{id}.{seconds}.").into_bytes();
    message.extend_from_slice(body);
    format!("v1,{}", STANDARD.encode(outbound::sign(secret, &message)))
}

/// The time that stands in the signature is that of the attempt: receivers refuse what is old.
async fn post(
    outbound: &Outbound,
    webhook: &Webhook,
    id: &str,
    body: Vec<u8>,
    now: Timestamp,
) -> Result<Answered, PostError> {
    let (url, seconds) = (&webhook.spec.url, now.0 / 1000);
    let secret = webhook.spec.secret.as_ref().map(|secret| secret.expose()).unwrap_or_default();
    let headers = [
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", seconds.to_string()),
        ("webhook-signature", signature(secret, id, seconds, &body)),
    ];
    let target = Target {
        tls: url.is_tls(),
        host: url.host().to_owned(),
        port: url.port(),
        authority: url.authority(),
        path: url.path().to_owned(),
    };
    outbound.post(&target, &headers, body).await
}

async fn send(outbound: Option<&Outbound>, attempt: &DeliveryAttempt, now: Timestamp) -> Outcome {
    let Some(outbound) = outbound else { return Outcome::Failed("nothing is sent here".to_owned()) };
    let delivery = &attempt.delivery;
    meaning(post(outbound, &attempt.webhook, &delivery.id(), body(delivery), now).await)
}

/// What an answer means.
#[must_use]
pub fn meaning(answer: Result<Answered, PostError>) -> Outcome {
    match answer {
        Err(error) => Outcome::Failed(error.to_string()),
        Ok(Answered { status: 200..=299, .. }) => Outcome::Delivered,
        Ok(Answered { status: 410, .. }) => Outcome::Gone,
        Ok(Answered { status: status @ (429 | 503), retry_after: Some(after) }) => {
            Outcome::Later(after, format!("it answered {status}, and to come back in {} s", after.as_secs()))
        }
        Ok(Answered { status: status @ 300..=399, .. }) => Outcome::Failed(format!(
            "it answered {status}: redirects are not followed; write the URL it leads to"
        )),
        Ok(Answered { status, .. }) => Outcome::Failed(format!("it answered {status}")),
    }
}

/// How a ping went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ping {
    /// The id that it was sent with.
    pub id: String,
    /// The status, if there was an answer.
    pub status: Option<u16>,
    /// Why it does not count as delivered.
    pub error: Option<String>,
    /// How long it took.
    pub took: Duration,
}

impl Handle {
    /// Whether the controller would call what a webhook's URL names, as far as the URL alone shows.
    ///
    /// # Errors
    /// It would not, since the address is neither public nor allowed.
    pub fn check_webhook(&self, webhook: &Webhook) -> Result<(), PostError> {
        self.webhooks.as_ref().map_or(Ok(()), |outbound| outbound.check(webhook.spec.url.host()))
    }

    /// Sends one ping by a webhook, once, in use or not. Nothing is stored of it.
    ///
    /// # Errors
    /// There is no such webhook, this controller sends nothing, or too many pings are on their way.
    pub async fn ping_webhook(&self, tenant: &TenantName, name: &WebhookName) -> Result<Ping, Refusal> {
        let (owner, called) = (tenant.clone(), name.clone());
        let question = move |state: &State, _: Timestamp| {
            state.webhook(&owner, &called).cloned().ok_or_else(|| state.webhook_missing(&owner, &called))
        };
        let webhook = self.query(question).await?.map_err(Refusal::Core)?;
        let Some(outbound) = &self.webhooks else {
            return Err(Refusal::Stopped { cause: "it sends no webhooks" });
        };
        let Ok(_place) = PINGS.try_acquire() else {
            let (what, limit) = ("pings of webhooks on their way", 16);
            return Err(Refusal::Core(CoreError::Full { what, limit, remedy: "try again in some seconds" }));
        };
        let (now, begun) = (self.now(), tokio::time::Instant::now());
        let id = format!("msg_{}_ping_{:016x}", webhook.uid, outbound::seed());
        let data = json!({"tenant": tenant.as_str(), "webhook": name.as_str()});
        let answer = post(outbound, &webhook, &id, framed("ping", now, &data), now).await;
        let status = answer.as_ref().ok().map(|answered| answered.status);
        let error = match meaning(answer) {
            Outcome::Delivered => None,
            Outcome::Gone => {
                Some("it answered 410 Gone; deliveries would put the webhook out of use".to_owned())
            }
            Outcome::Later(_, error) | Outcome::Failed(error) => Some(error),
        };
        Ok(Ping { id, status, error, took: begun.elapsed() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_model::{Phase, Reason, ReasonCode, WebhookEvent};

    #[test]
    fn a_signature_is_that_of_the_specifications_example() {
        // The example of the Standard Webhooks libraries.
        let secret = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed =
            signature(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b"{\"test\": 2432232314}");
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_body_says_what_happened_and_is_never_longer_than_may_be_sent() {
        let delivery = Delivery {
            tenant: "red".parse().unwrap(),
            webhook: "chat".parse().unwrap(),
            webhook_uid: "w".into(),
            seq: 1,
            event: WebhookEvent::QueuedAgain,
            time: Timestamp(1_500),
            job: "x".repeat(63).parse().unwrap(),
            uid: proto_model::JobUid::from_random([1; 16]),
            attempt: 2,
            phase: Phase::Pending,
            queue: None,
            nodes: 0,
            submitted: Timestamp(0),
            // Each of these takes six bytes in JSON.
            reason: Some(Reason::new(ReasonCode::Preempted, "\u{1}".repeat(1024))),
        };
        let bytes = body(&delivery);
        assert!(bytes.len() < outbound::MAX_BODY, "{}", bytes.len());
        let read: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!((&read["type"], &read["data"]["attempt"]), (&json!("job.queued_again"), &json!(2)));
        assert_eq!(read["timestamp"], "1970-01-01T00:00:01.500Z");
        assert_eq!(delivery.id(), body_id(&delivery));
    }

    fn body_id(delivery: &Delivery) -> String {
        format!("msg_w_{}_2_QUEUED_AGAIN_1500", delivery.uid)
    }

    #[test]
    fn answers_mean_what_they_say() {
        let status = |status, retry_after| meaning(Ok(Answered { status, retry_after }));
        assert_eq!((status(204, None), status(410, None)), (Outcome::Delivered, Outcome::Gone));
        let minute = Duration::from_secs(60);
        assert!(matches!(status(429, Some(minute)), Outcome::Later(after, _) if after == minute));
        assert!(
            matches!(status(429, None), Outcome::Failed(_))
                && matches!(status(500, Some(minute)), Outcome::Failed(_))
        );
        assert!(matches!(status(302, None), Outcome::Failed(text) if text.contains("redirect")));
        assert!(matches!(meaning(Err(PostError::TooLong)), Outcome::Failed(_)));
    }
}
