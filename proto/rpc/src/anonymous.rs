//! Calls on connections without an identity: how many may be at work and how fast they may begin, in all and of one address;
//! and the service that holds them to it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header;
use axum::response::Response;
use axum::{BoxError, Router};
use http_body_util::Limited;
use hyper::body::{Frame, SizeHint};
use tokio::time::Instant;
use tower::Service;

use crate::caps::{AnonymousLimits, ServerMetrics};
use crate::identity::Identity;
use crate::places::{Due, Standing};
use crate::refusal::{is_grpc, refuse};
use crate::status::{ErrorClass, RpcError};

/// Addresses that are counted one by one; beyond it, they share a budget.
const ADDRESSES: usize = 4096;
/// Seconds' worth of calls that may begin at once after a rest.
const BURST: u32 = 4;

/// So many calls a second in the long run, and some more at once after a rest (GCRA).
#[derive(Debug, Default)]
struct Bucket(Option<Instant>);

impl Bucket {
    fn interval(rate: u32) -> Duration {
        Duration::from_secs(1) / rate.max(1)
    }

    /// When it would be full again.
    fn full_at(&self, now: Instant) -> Instant {
        self.0.map_or(now, |at| at.max(now))
    }

    fn has(&self, rate: u32, now: Instant) -> bool {
        let ahead = Self::interval(rate) * (rate.max(1) * BURST - 1);
        self.full_at(now).duration_since(now) <= ahead
    }

    fn take(&mut self, rate: u32, now: Instant) {
        self.0 = Some(self.full_at(now) + Self::interval(rate));
    }
}

#[derive(Debug, Default)]
struct Address {
    bucket: Bucket,
    calls: usize,
}

type Key = Option<IpAddr>;

#[derive(Debug, Default)]
struct Counts {
    bucket: Bucket,
    calls: usize,
    addresses: BTreeMap<Key, Address>,
}

impl Counts {
    /// The address under which a caller is counted.
    fn key(&mut self, key: Key, now: Instant) -> Key {
        if self.addresses.len() >= ADDRESSES && !self.addresses.contains_key(&key) {
            let busy = |address: &Address| address.calls > 0 || address.bucket.full_at(now) > now;
            self.addresses.retain(|_, address| busy(address));
            if self.addresses.len() >= ADDRESSES {
                return None;
            }
        }
        key
    }

    fn begin(&mut self, key: Key, limits: &AnonymousLimits, now: Instant) -> Result<(), &'static str> {
        let address = self.addresses.entry(key).or_default();
        if address.calls >= limits.calls_per_ip {
            return Err("calls-per-ip");
        }
        if !address.bucket.has(limits.rate_per_ip, now) {
            return Err("rate-per-ip");
        }
        if self.calls >= limits.calls {
            return Err("calls");
        }
        if !self.bucket.has(limits.rate, now) {
            return Err("rate");
        }
        address.bucket.take(limits.rate_per_ip, now);
        address.calls += 1;
        self.bucket.take(limits.rate, now);
        self.calls += 1;
        Ok(())
    }

    fn end(&mut self, key: Key) {
        self.calls = self.calls.saturating_sub(1);
        if let Some(address) = self.addresses.get_mut(&key) {
            address.calls = address.calls.saturating_sub(1);
        }
    }
}

/// The budget of all anonymous peers of a server.
#[derive(Debug)]
pub(crate) struct Budget {
    counts: Mutex<Counts>,
    limits: AnonymousLimits,
    metrics: ServerMetrics,
}

/// A call at work; counted until it is dropped.
#[derive(Debug)]
struct Call {
    budget: Arc<Budget>,
    key: Key,
}

impl Budget {
    pub(crate) fn new(limits: AnonymousLimits, metrics: ServerMetrics) -> Arc<Self> {
        Arc::new(Self { counts: Mutex::default(), limits, metrics })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(self: &Arc<Self>, key: Key) -> Result<Call, &'static str> {
        let now = Instant::now();
        let mut counts = self.counts();
        let key = counts.key(key, now);
        counts.begin(key, &self.limits, now)?;
        self.report(counts.calls);
        Ok(Call { budget: Arc::clone(self), key })
    }

    fn report(&self, calls: usize) {
        self.metrics.at_work.set(["all"], i64::try_from(calls).unwrap_or(i64::MAX));
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut counts = self.budget.counts();
        counts.end(self.key);
        self.budget.report(counts.calls);
    }
}

/// What a call on a connection without an identity can prove: in the extensions of its request.
#[derive(Debug, Clone)]
pub struct Unproved {
    standing: Standing,
    /// The call that the proof belongs to; `None` outside of one.
    call: Arc<Mutex<Option<Call>>>,
}

impl Unproved {
    /// The call has shown a good token of this identity: its connection counts as that identity's from now on, where there is
    /// room for one more.
    pub fn proved(&self, identity: &Identity) {
        if self.standing.proved(identity) {
            self.release();
        }
    }

    /// The controller to which the call was handed on has let it in by its token.
    pub fn vouched(&self) {
        if self.standing.vouched() {
            self.release();
        }
    }

    fn release(&self) {
        self.call.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// A call of a connection; it is idle between them.
struct Busy(Standing);

impl Busy {
    fn begin(standing: &Standing) -> Self {
        standing.begin();
        Self(standing.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Answers one request of a connection that began without an identity.
pub(crate) async fn answer(
    budget: Arc<Budget>,
    standing: Standing,
    key: Key,
    mut router: Router,
    mut request: Request,
) -> Response {
    let busy = Busy::begin(&standing);
    if !standing.is_anonymous() {
        return held(call_router(&mut router, request).await, busy, None);
    }
    let call = match budget.begin(key) {
        Ok(call) => Arc::new(Mutex::new(Some(call))),
        Err(cause) => {
            budget.metrics.anonymous.inc([cause]);
            let grpc = is_grpc(request.headers());
            // Nothing of it is kept while it waits for its answer.
            drop(request);
            return too_many(&budget, &standing, grpc).await;
        }
    };
    budget.metrics.anonymous.inc(["begun"]);
    if !request.headers().contains_key(header::AUTHORIZATION) {
        let most = budget.limits.body_bytes;
        request = request.map(|body| Body::new(Limited::new(body, most)));
    }
    request.extensions_mut().insert(Unproved { standing, call: Arc::clone(&call) });
    held(call_router(&mut router, request).await, busy, Some(call))
}

async fn call_router(router: &mut Router, request: Request) -> Response {
    match router.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Told late, so that who asks again at once asks slowly: its connection has one call less meanwhile.
async fn too_many(budget: &Budget, standing: &Standing, grpc: bool) -> Response {
    // The watch over the connection sees that it has had its last.
    if !standing.strike() {
        tokio::time::sleep(budget.limits.pause).await;
    }
    let text = "too many calls without an identity; show a certificate or a token, or try again later";
    let error = RpcError::new(ErrorClass::Overloaded, "TOO_MANY_ANONYMOUS_CALLS", text);
    refuse(grpc, &error.with_retry_after(budget.limits.pause))
}

/// Returns when a connection that began without an identity is to end, and says why.
pub(crate) async fn over(standing: Standing, check: Duration) -> &'static str {
    loop {
        let now = Instant::now();
        match standing.due(now) {
            Due::Over(cause) => return cause,
            // Looked at again sooner: calls that begin and end, and strikes, tell nobody.
            Due::Later(at) => tokio::time::sleep_until(at.min(now + check)).await,
        }
    }
}

fn held(response: Response, busy: Busy, call: Option<Arc<Mutex<Option<Call>>>>) -> Response {
    response.map(|body| Body::new(CountedBody { body, _busy: busy, _call: call }))
}

/// A body that counts as a call until it is sent.
struct CountedBody {
    body: Body,
    _busy: Busy,
    _call: Option<Arc<Mutex<Option<Call>>>>,
}

impl hyper::body::Body for CountedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use std::time::SystemTime;

    fn key(n: u32) -> Key {
        Some(IpAddr::from(n.to_be_bytes()))
    }

    #[tokio::test(start_paused = true)]
    async fn calls_are_bounded_in_all_and_of_one_address_by_number_and_rate() {
        let metrics = ServerMetrics::new(&Metrics::new("test", "0", SystemTime::UNIX_EPOCH));
        let limits = AnonymousLimits {
            calls: 40,
            calls_per_ip: 8,
            rate: 100,
            rate_per_ip: 10,
            ..AnonymousLimits::default()
        };
        let budget = Budget::new(limits, metrics);
        let mut held: Vec<Call> = (0..8).map(|_| budget.begin(key(1)).unwrap()).collect();
        assert_eq!(budget.begin(key(1)).err(), Some("calls-per-ip"));
        for n in 2..6 {
            held.extend((0..8).map(|_| budget.begin(key(n)).unwrap()));
        }
        assert_eq!(budget.begin(key(9)).err(), Some("calls"), "of all addresses");
        drop(held);
        let begun = (0..1000).filter(|_| budget.begin(key(1)).is_ok()).count();
        assert_eq!(begun, 40 - 8, "four seconds' worth at once");
        assert_eq!(budget.begin(key(1)).err(), Some("rate-per-ip"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((0..1000).filter(|_| budget.begin(key(1)).is_ok()).count(), 10);
        let all = (0..10_000_u32).filter(|n| budget.begin(key(100 + n)).is_ok()).count();
        assert!((300..=430).contains(&all), "{all}");
        assert_eq!(budget.begin(key(77)).err(), Some("rate"));
        assert!(budget.counts().addresses.len() <= ADDRESSES + 1);
        assert_eq!(budget.counts().calls, 0);
    }
}
