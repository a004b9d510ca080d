//! The leader's side: heartbeats for every standby that follows it, the last of which reports that it leaves.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use controller_leader::Handle;
use proto_rpc::{ErrorClass, Identity, PeerInfo, RpcError};
use proto_wire::v1::{self, controller_service_server::ControllerService};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

/// Shortest and longest interval between two heartbeats that a standby may ask for, in milliseconds.
const INTERVALS: (u64, u64) = (20, 1000);
/// Most heartbeats that wait for a standby that does not read; further ones are left out.
const WAITING: usize = 4;
/// Longest time between taking the leader key and leading.
const BEGINS: Duration = Duration::from_millis(500);
/// Most standbys that follow at a time.
const FOLLOWERS: usize = 64;

/// The gRPC service among controllers; clones share it.
#[derive(Clone)]
pub struct Heartbeats {
    leading: watch::Receiver<Option<Handle>>,
    left: CancellationToken,
    followers: Arc<AtomicUsize>,
}

/// A standby that follows, counted while its stream is open.
struct Follower(Arc<AtomicUsize>);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Heartbeats {
    /// `leading`: the way into the leader loop while this controller leads. `left` is cancelled when it has released the lead
    /// in order to end.
    #[must_use]
    pub fn new(leading: watch::Receiver<Option<Handle>>, left: CancellationToken) -> Self {
        Self { leading, left, followers: Arc::default() }
    }

    /// Number of standbys that follow.
    #[must_use]
    pub fn followers(&self) -> usize {
        self.followers.load(Ordering::Relaxed)
    }

    fn enter(&self) -> Option<Follower> {
        let follower = Follower(Arc::clone(&self.followers));
        // One beyond the limit is counted off again when it is dropped.
        (self.followers.fetch_add(1, Ordering::Relaxed) < FOLLOWERS).then_some(follower)
    }

    /// The heartbeat to send now; `None` if this controller does not lead with this epoch.
    fn heartbeat(&self, epoch: u64) -> Option<v1::FollowResponse> {
        let leading = self.leading.borrow();
        let handle = leading.as_ref().filter(|handle| handle.epoch() == epoch)?;
        let health = handle.store_health();
        let (store_revision, store_writable) = (health.revision, health.writable);
        Some(v1::FollowResponse { epoch, store_revision, store_writable, leaving: false })
    }

    async fn send_heartbeats(
        self,
        epoch: u64,
        interval: Duration,
        to: mpsc::Sender<Result<v1::FollowResponse, Status>>,
    ) {
        while let Some(heartbeat) = self.heartbeat(epoch) {
            if let Err(mpsc::error::TrySendError::Closed(_)) = to.try_send(Ok(heartbeat)) {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                () = to.closed() => return,
                () = self.left.cancelled() => {
                    let last = v1::FollowResponse { epoch, leaving: true, ..v1::FollowResponse::default() };
                    // A standby that is gone learns it from the store.
                    let _ = to.send(Ok(last)).await;
                    return;
                }
            }
        }
    }
}

#[tonic::async_trait]
impl ControllerService for Heartbeats {
    type FollowStream = ReceiverStream<Result<v1::FollowResponse, Status>>;

    async fn follow(
        &self,
        request: Request<v1::FollowRequest>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let peer = request.extensions().get::<PeerInfo>();
        if peer.is_none_or(|peer| peer.identity != Identity::Controller) {
            let text = "only a controller of this cluster may follow this one";
            return Err(RpcError::new(ErrorClass::Denied, "NOT_A_CONTROLLER", text).into());
        }
        let request = request.into_inner();
        let epoch = request.epoch;
        // Standbys see the key of a new leader before that leader has read what it needs to begin.
        let mut leading = self.leading.clone();
        let begun = leading.wait_for(|now| now.as_ref().is_some_and(|handle| handle.epoch() >= epoch));
        // In time or not: the answer is what holds then.
        drop(tokio::time::timeout(BEGINS, begun).await);
        if self.heartbeat(epoch).is_none() {
            let text = format!("this controller does not lead with epoch {epoch}");
            return Err(RpcError::new(ErrorClass::Conflict, "NOT_LEADING", text).into());
        }
        let Some(follower) = self.enter() else {
            let text = format!("{FOLLOWERS} controllers follow this one, its limit");
            return Err(RpcError::new(ErrorClass::Overloaded, "TOO_MANY_FOLLOWERS", text).into());
        };
        let interval = u64::from(request.interval_ms).clamp(INTERVALS.0, INTERVALS.1);
        let (to, stream) = mpsc::channel(WAITING);
        let sending = self.clone().send_heartbeats(epoch, Duration::from_millis(interval), to);
        tracing::info!(follower = request.holder, "a standby follows");
        tokio::spawn(async move {
            let _follower = follower;
            sending.await;
            tracing::info!(follower = request.holder, "a standby follows no more");
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}
