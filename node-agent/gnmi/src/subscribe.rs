//! Subscribe: what stands at paths now, and what changes.

use std::time::Duration;

use tokio_stream::StreamExt as _;
use tonic::Streaming;

use crate::client::Gnmi;
use crate::convert;
use crate::error::{Call, Error};
use crate::path::Path;
use crate::value::Update;
use crate::wire;
use crate::wire::subscribe_response::Response;

/// When the switch tells of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Whenever its value changes.
    OnChange,
    /// Every so often; SONiC takes a second at least.
    Sample(Duration),
}

/// What to follow.
#[derive(Debug, Clone, PartialEq)]
pub struct Subscription {
    /// The database behind the server, where it has several (SONiC: `COUNTERS_DB`, `CONFIG_DB`, `STATE_DB`); else empty.
    pub target: String,
    /// The paths; everything below them is told.
    pub paths: Vec<Path>,
    /// When.
    pub mode: Mode,
    /// A switch that says nothing for so long is given up. With [`Mode::OnChange`] it is asked to say something in a third of that.
    pub silence: Duration,
}

/// What a switch tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Values of now, and paths at which nothing stands any more.
    Values {
        /// Nanoseconds since the epoch by the switch's clock; 0 where it does not say.
        at: i64,
        /// What stands there.
        updates: Vec<Update>,
        /// What is gone.
        gone: Vec<Path>,
    },
    /// Everything that stood there when the subscription began has been told.
    Synced,
}

/// The stream of one subscription. It ends with the connection; whoever needs more subscribes again, and is told everything anew.
#[derive(Debug)]
pub struct Updates {
    stream: Streaming<wire::SubscribeResponse>,
    silence: Duration,
    message_bytes: usize,
}

impl Gnmi {
    /// Begins to follow; the first values are everything that stands there.
    ///
    /// # Errors
    /// [`Error`] if the switch cannot be reached, does not let us in, or does not take the subscription.
    pub async fn subscribe(&self, wanted: &Subscription) -> Result<Updates, Error> {
        let first = wire::subscribe_request::Request::Subscribe(list(wanted));
        let first = wire::SubscribeRequest { request: Some(first) };
        // The switch ends the subscription when our side of the stream ends.
        let requests = tokio_stream::once(first).chain(tokio_stream::pending());
        let request = self.logged_in(requests);
        let mut client = self.open.clone();
        let begun = tokio::time::timeout(self.limits.read, client.subscribe(request)).await;
        let stream = match begun {
            Ok(Ok(answer)) => answer.into_inner(),
            Ok(Err(status)) => return Err(self.read(&status)),
            Err(_) => return Err(Error::Late(self.limits.read)),
        };
        Ok(Updates { stream, silence: wanted.silence, message_bytes: self.limits.message_bytes })
    }
}

fn list(wanted: &Subscription) -> wire::SubscriptionList {
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let (mode, sample_interval, heartbeat_interval) = match wanted.mode {
        Mode::OnChange => (wire::SubscriptionMode::OnChange, 0, nanos(wanted.silence / 3)),
        Mode::Sample(every) => (wire::SubscriptionMode::Sample, nanos(every), 0),
    };
    let one = |path: &Path| wire::Subscription {
        path: Some(convert::to_wire(path)),
        mode: mode.into(),
        sample_interval,
        suppress_redundant: false,
        heartbeat_interval,
    };
    let prefix = wire::Path { target: wanted.target.clone(), ..Default::default() };
    wire::SubscriptionList {
        prefix: (!wanted.target.is_empty()).then_some(prefix),
        subscription: wanted.paths.iter().map(one).collect(),
        mode: wire::subscription_list::Mode::Stream.into(),
        encoding: wire::Encoding::JsonIetf.into(),
        ..Default::default()
    }
}

impl Updates {
    /// What the switch tells next; `None` when it has ended the stream. May be dropped while it waits: nothing is lost.
    ///
    /// # Errors
    /// [`Error`] if the connection breaks, nothing comes for too long, or what comes cannot be. The stream is over then.
    pub async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            let Ok(next) = tokio::time::timeout(self.silence, self.stream.message()).await else {
                return Err(Error::Late(self.silence));
            };
            let error =
                |status: tonic::Status| Error::of(&status, Call::Read, self.silence, self.message_bytes);
            let Some(message) = next.map_err(error)? else { return Ok(None) };
            match message.response {
                Some(Response::Update(message)) => {
                    let at = message.timestamp;
                    let (updates, gone) = convert::notification(message)?;
                    return Ok(Some(Event::Values { at, updates, gone }));
                }
                Some(Response::SyncResponse(true)) => return Ok(Some(Event::Synced)),
                // An old server's error, or what a newer one sends beyond this.
                Some(Response::SyncResponse(false)) | None => {}
            }
        }
    }
}
