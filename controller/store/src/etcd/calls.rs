//! The calls of etcd that are needed, at one member, by etcd-client over a connection of ours. What they answer and how they
//! fail is etcd's; who is asked, and how often, is up to `link`.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use etcd_client::{
    AlarmAction, AlarmOptions, AlarmType, AuthClient, Channel, ConnectOptions, Error, GetResponse, KvClient,
    LeaseClient, LeaseGrantOptions, MaintenanceClient, StatusResponse, TxnResponse, WatchClient, WatchStream,
};
use proto_rpc::Client;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderValue, Request};
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

use super::ask;

/// Largest answer that is decoded: a page of a range, or all events of one revision.
const LARGEST_ANSWER: usize = 1 << 30;
/// Defragmenting a member keeps it from answering for so long at most.
const DEFRAGMENT: Duration = Duration::from_secs(120);

/// Our login, once there is one. All members take it.
pub(super) type Token = Arc<RwLock<Option<HeaderValue>>>;

/// What calls one member. Clones share its connection.
#[derive(Clone)]
pub(crate) struct Session(Arc<Clients>);

struct Clients {
    auth: AuthClient,
    kv: KvClient,
    lease: LeaseClient,
    maintenance: MaintenanceClient,
    /// For work that takes long.
    patient: MaintenanceClient,
    /// Streams that live long.
    watch: WatchClient,
}

impl Session {
    /// Over a connection that may not be open yet; nobody is called.
    ///
    /// # Errors
    /// etcd-client's, of options that cannot be.
    pub async fn new(client: &Client, token: &Token) -> Result<Self, Error> {
        let quick = connect(client.clone(), Some(token)).await?;
        let patient = connect(client.with_timeout(DEFRAGMENT), Some(token)).await?;
        let open = connect(client.without_timeout(), Some(token)).await?;
        Ok(Self(Arc::new(Clients {
            auth: connect(client.clone(), None).await?.auth_client(),
            kv: quick.kv_client().max_decoding_message_size(LARGEST_ANSWER),
            lease: quick.lease_client(),
            maintenance: quick.maintenance_client(),
            patient: patient.maintenance_client(),
            watch: open.watch_client().max_decoding_message_size(LARGEST_ANSWER),
        })))
    }

    /// The token of a login.
    ///
    /// # Errors
    /// etcd refuses the user or the password, or does not answer.
    pub async fn log_in(&self, user: &str, password: &str) -> Result<String, Status> {
        let answer = self.0.auth.clone().authenticate(user.to_owned(), password.to_owned()).await;
        answer.map(|answer| answer.token().to_owned()).map_err(status)
    }

    /// Reads a range of keys.
    ///
    /// # Errors
    /// etcd refuses it, or does not answer.
    pub async fn range(&self, ask: &ask::Range) -> Result<GetResponse, Status> {
        self.0.kv.clone().get(ask.key.to_vec(), Some(ask.options())).await.map_err(status)
    }

    /// Runs a transaction.
    ///
    /// # Errors
    /// etcd refuses it, or does not answer: then it may have run.
    pub async fn txn(&self, ask: &ask::Txn) -> Result<TxnResponse, Status> {
        self.0.kv.clone().txn(ask.words()).await.map_err(status)
    }

    /// Forgets the history before etcd's `revision`.
    ///
    /// # Errors
    /// etcd refuses it, as it does a revision that is compacted or in the future, or does not answer.
    pub async fn compact(&self, revision: i64) -> Result<(), Status> {
        self.0.kv.clone().compact(revision, None).await.map(drop).map_err(status)
    }

    /// Opens a watch. It ends when what is answered is dropped.
    ///
    /// # Errors
    /// etcd refuses it, or does not answer.
    pub async fn watch(&self, ask: &ask::Watch) -> Result<WatchStream, Status> {
        self.0.watch.clone().watch(ask.key.to_vec(), Some(ask.options())).await.map_err(status)
    }

    /// Grants a lease by the number `id`; answers its seconds.
    ///
    /// # Errors
    /// etcd refuses it, as it does a number that is in use, or does not answer.
    pub async fn lease_grant(&self, id: i64, ttl: i64) -> Result<i64, Status> {
        let options = LeaseGrantOptions::new().with_id(id);
        let granted = self.0.lease.clone().grant(ttl, Some(options)).await;
        granted.map(|granted| granted.ttl()).map_err(status)
    }

    /// Ends a lease and deletes its keys.
    ///
    /// # Errors
    /// etcd refuses it, as it does when there is no such lease, or does not answer.
    pub async fn lease_revoke(&self, id: i64) -> Result<(), Status> {
        self.0.lease.clone().revoke(id).await.map(drop).map_err(status)
    }

    /// Renews a lease; answers its seconds, 0 when it is gone.
    ///
    /// # Errors
    /// etcd refuses it, or does not answer.
    pub async fn lease_keep_alive(&self, id: i64) -> Result<i64, Status> {
        let lost = || Status::unavailable("no answer to the keep-alive of a lease");
        let (mut keeper, mut answers) = match self.0.lease.clone().keep_alive(id).await {
            // Its word for a lease without time.
            Err(Error::LeaseKeepAliveError(text)) if text == "lease not found" => return Ok(0),
            Err(Error::WatchError(_)) => return Err(lost()),
            kept => kept.map_err(status)?,
        };
        // It keeps the first answer's seconds to itself. The next one says them again.
        keeper.keep_alive().await.map_err(status)?;
        let answer = answers.message().await.map_err(status)?;
        answer.map(|answer| answer.ttl()).ok_or_else(lost)
    }

    /// Seconds that a lease has left; less than 0 when it is gone.
    ///
    /// # Errors
    /// etcd refuses it, or does not answer.
    pub async fn lease_left(&self, id: i64) -> Result<i64, Status> {
        let left = self.0.lease.clone().time_to_live(id, None).await;
        left.map(|left| left.ttl()).map_err(status)
    }

    /// The state of the member that this session is with.
    ///
    /// # Errors
    /// etcd refuses it, or does not answer.
    pub async fn status(&self) -> Result<StatusResponse, Status> {
        self.0.maintenance.clone().status().await.map_err(status)
    }

    /// Gives back what a member's file does not use; the member answers nobody meanwhile, two minutes at most.
    ///
    /// # Errors
    /// etcd refuses it, or does not answer in time.
    pub async fn defragment(&self) -> Result<(), Status> {
        self.0.patient.clone().defragment().await.map(drop).map_err(status)
    }

    /// Members that have raised an alarm because their space is used up.
    ///
    /// # Errors
    /// etcd refuses it, or does not answer.
    pub async fn alarms(&self) -> Result<Vec<u64>, Status> {
        let alarms = self.0.maintenance.clone().alarm(AlarmAction::Get, AlarmType::Nospace, None).await;
        Ok(alarms.map_err(status)?.alarms().iter().map(etcd_client::AlarmMember::member_id).collect())
    }

    /// Takes back a member's alarm.
    ///
    /// # Errors
    /// etcd refuses it, or does not answer.
    pub async fn disarm(&self, member: u64) -> Result<(), Status> {
        let mut options = AlarmOptions::new();
        options.with_member(member);
        let (off, full) = (AlarmAction::Deactivate, AlarmType::Nospace);
        self.0.maintenance.clone().alarm(off, full, Some(options)).await.map(drop).map_err(status)
    }
}

/// etcd-client over a connection of ours: with our login on every call, once there is one, but for the call that logs in.
async fn connect(client: Client, token: Option<&Token>) -> Result<etcd_client::Client, Error> {
    let ours = token.cloned();
    let client = client.map_err(tower::BoxError::from).map_request(move |mut request: Request<Body>| {
        let token = ours.as_ref().and_then(read);
        if let Some(token) = token {
            request.headers_mut().insert("token", token);
        }
        request
    });
    // A member that is cut off from its leader shall say so instead of keeping us waiting.
    let options = ConnectOptions::new().with_require_leader(token.is_some());
    etcd_client::Client::from_channel(Channel::Custom(BoxCloneSyncService::new(client)), Some(options)).await
}

pub(super) fn read(token: &Token) -> Option<HeaderValue> {
    token.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// etcd's own words where it said some; else the call has not come to an end.
pub(super) fn status(error: Error) -> Status {
    match error {
        Error::GRpcStatus(status) => status,
        error => Status::unavailable(error.to_string()),
    }
}
