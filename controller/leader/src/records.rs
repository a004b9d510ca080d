//! The controller's own records as they are stored: small protobuf messages that no client ever reads.
//!
//! Resources are stored as rail.v1 messages. A field number here is never reused: stores outlive releases.

use proto_wire::v1;

/// Who leads, for people; the fence is the key's create revision and not this value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Leader {
    /// The leader's host and process, as text for people.
    #[prost(string, tag = "1")]
    pub holder: String,
    /// When it took the lead, in milliseconds since 1970.
    #[prost(uint64, tag = "2")]
    pub since_ms: u64,
    /// 16 random bytes of one life of one process, by which it knows a key of its own again.
    #[prost(bytes = "vec", tag = "3")]
    pub life: Vec<u8>,
    /// Where other controllers reach it.
    #[prost(string, repeated, tag = "4")]
    pub endpoints: Vec<String>,
    /// What names one data folder of one machine: at most one process runs on it.
    #[prost(bytes = "vec", tag = "5")]
    pub place: Vec<u8>,
}

/// A running attempt of a job, as [`controller_core::Attempt`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Attempt {
    /// The uid of the job.
    #[prost(string, tag = "1")]
    pub job_uid: String,
    /// The number of the attempt, from 1.
    #[prost(uint32, tag = "2")]
    pub attempt: u32,
    /// 32 bytes, a secret.
    #[prost(bytes = "vec", tag = "3")]
    pub job_key: Vec<u8>,
    /// Where every engine listens, in rank order of the nodes; empty before the phase Running.
    #[prost(message, repeated, tag = "4")]
    pub peers: Vec<v1::NodeEndpoints>,
    /// Set once it is to end.
    #[prost(message, optional, tag = "5")]
    pub ending: Option<Ending>,
    /// When it got its place, in milliseconds since 1970.
    #[prost(uint64, tag = "6")]
    pub since_ms: u64,
    /// Its ranks may start.
    #[prost(bool, tag = "7")]
    pub released: bool,
    /// Its rails are measured a second time.
    #[prost(bool, tag = "8")]
    pub again: bool,
}

/// Why and how an attempt is to end, as [`controller_core::Ending`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Ending {
    /// 2 requeue, 3 fail, 4 cancel, 5 preempt, 6 move.
    #[prost(uint32, tag = "1")]
    pub outcome: u32,
    /// Between SIGTERM and SIGKILL.
    #[prost(uint64, tag = "2")]
    pub grace_ms: u64,
    /// When it was decided, in milliseconds since 1970.
    #[prost(uint64, tag = "3")]
    pub since_ms: u64,
    /// The reasons why the attempt is to end.
    #[prost(message, repeated, tag = "4")]
    pub causes: Vec<v1::Reason>,
    /// What the ranks get first; 0 is SIGTERM.
    #[prost(int32, tag = "5")]
    pub signal: i32,
}

/// A request id that made a job, as [`controller_core::RequestRecord`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Request {
    /// The tenant that sent the request.
    #[prost(string, tag = "1")]
    pub tenant: String,
    /// The request id that the client chose.
    #[prost(string, tag = "2")]
    pub request: String,
    /// Digest of the request's body, 32 bytes.
    #[prost(bytes = "vec", tag = "3")]
    pub digest: Vec<u8>,
    /// The job that it made.
    #[prost(string, tag = "4")]
    pub job_uid: String,
    /// The name of the job that it made.
    #[prost(string, tag = "5")]
    pub job: String,
    /// When it was taken, in milliseconds since 1970.
    #[prost(uint64, tag = "6")]
    pub time_ms: u64,
}

/// A join token, as [`controller_core::TokenRecord`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct JoinToken {
    /// Hash of the token, 32 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub hash: Vec<u8>,
    /// Who may use it.
    #[prost(string, tag = "2")]
    pub node: String,
    /// When the token expires, in milliseconds since 1970.
    #[prost(uint64, tag = "3")]
    pub expires_ms: u64,
    /// 32 bytes; empty if it was not used.
    #[prost(bytes = "vec", tag = "4")]
    pub used_by: Vec<u8>,
}

/// [`controller_core::RestingName`]; the name stands in the key.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RestingName {
    /// The uid of the tenant that had it.
    #[prost(string, tag = "1")]
    pub uid: String,
    /// When that was deleted, in milliseconds since 1970.
    #[prost(uint64, tag = "2")]
    pub deleted_ms: u64,
}

/// [`controller_core::Tombstone`]; what it is of stands in the key.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Tombstone {
    /// When it was deleted, in milliseconds since 1970.
    #[prost(uint64, tag = "1")]
    pub deleted_ms: u64,
    /// Who has asked for it.
    #[prost(string, tag = "2")]
    pub by: String,
    /// The fabric document, as it is stored.
    #[prost(bytes = "vec", tag = "3")]
    pub fabric: Vec<u8>,
    /// The tenant as it was stored; absent if a fabric was deleted.
    #[prost(message, optional, tag = "4")]
    pub tenant: Option<v1::Tenant>,
    /// The queues that the tenant had.
    #[prost(message, repeated, tag = "5")]
    pub queues: Vec<v1::Queue>,
    /// The schedules that the tenant had.
    #[prost(message, repeated, tag = "6")]
    pub schedules: Vec<v1::Schedule>,
    /// Its webhooks, with their secrets.
    #[prost(message, repeated, tag = "7")]
    pub webhooks: Vec<v1::Webhook>,
    /// Its shares in reservations.
    #[prost(message, repeated, tag = "8")]
    pub reservations: Vec<v1::Reservation>,
    /// Its places in service classes.
    #[prost(message, repeated, tag = "9")]
    pub classes: Vec<v1::ServiceClass>,
    /// Documents that were too many to be kept.
    #[prost(uint32, tag = "10")]
    pub left_out: u32,
}

/// A delivery of a webhook that waits, as [`controller_core::webhooks::Delivery`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Delivery {
    /// The tenant of the webhook.
    #[prost(string, tag = "1")]
    pub tenant: String,
    /// The name of the webhook.
    #[prost(string, tag = "2")]
    pub webhook: String,
    /// The uid of the webhook: one that was made anew under the same name has another.
    #[prost(string, tag = "3")]
    pub webhook_uid: String,
    /// The number of the delivery, by which its webhook's deliveries are ordered.
    #[prost(uint64, tag = "4")]
    pub seq: u64,
    /// The event, by its name in the webhook.
    #[prost(string, tag = "5")]
    pub event: String,
    /// When it was, in milliseconds since 1970.
    #[prost(uint64, tag = "6")]
    pub time_ms: u64,
    /// The name of the job that the event concerns.
    #[prost(string, tag = "7")]
    pub job: String,
    /// The uid of that job.
    #[prost(string, tag = "8")]
    pub job_uid: String,
    /// The number of the job's attempt; 0 before the first one.
    #[prost(uint32, tag = "9")]
    pub attempt: u32,
    /// The phase of the job after the event, as in `rail.v1.JobStatus`.
    #[prost(int32, tag = "10")]
    pub phase: i32,
    /// Its queue; may be empty.
    #[prost(string, tag = "11")]
    pub queue: String,
    /// The number of nodes that the job held then; 0 while it had none.
    #[prost(uint32, tag = "12")]
    pub nodes: u32,
    /// When the job was submitted, in milliseconds since 1970.
    #[prost(uint64, tag = "13")]
    pub submitted_ms: u64,
    /// The first reason of the job's phase, shortened; absent if it has none.
    #[prost(message, optional, tag = "14")]
    pub reason: Option<v1::Reason>,
}

/// A bearer token of the API. Its secret is not here, only the hash.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UserToken {
    /// SHA-256 of the secret, 64 hex digits.
    #[prost(string, tag = "1")]
    pub hash: String,
    /// Whom it speaks for, as the identity's URI.
    #[prost(string, tag = "2")]
    pub identity: String,
    /// When the token expires, in milliseconds since 1970.
    #[prost(uint64, tag = "3")]
    pub expires_ms: u64,
    /// Who had it made.
    #[prost(string, tag = "4")]
    pub issued_by: String,
    /// When, in milliseconds since 1970; 0 if an older release made it.
    #[prost(uint64, tag = "5")]
    pub issued_ms: u64,
}

/// What was taken back before its end. Whose it is stands in the key.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Revocation {
    /// What was issued up to then is refused; milliseconds since 1970.
    #[prost(uint64, tag = "1")]
    pub revoked_ms: u64,
    /// Nothing that it takes back could be valid any more then; milliseconds since 1970.
    #[prost(uint64, tag = "2")]
    pub expires_ms: u64,
    /// The reason for the revocation, as text for people.
    #[prost(string, tag = "3")]
    pub reason: String,
    /// The identity that revoked it.
    #[prost(string, tag = "4")]
    pub revoked_by: String,
}

/// The key that page tokens are sealed with.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PageKey {
    /// 32 bytes, a secret.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
}

/// What the first start of a cluster has made.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Bootstrap {
    /// When the cluster was started first, in milliseconds since 1970.
    #[prost(uint64, tag = "1")]
    pub time_ms: u64,
    /// Version of the release that made it.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// A row of the decision log, as [`controller_core::DecisionRow`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Decisions {
    /// Number of the row.
    #[prost(uint64, tag = "1")]
    pub seq: u64,
    /// When the decisions were made, in milliseconds since 1970.
    #[prost(uint64, tag = "2")]
    pub time_ms: u64,
    /// The decisions of one step that are recorded.
    #[prost(message, repeated, tag = "3")]
    pub records: Vec<DecisionRecord>,
    /// Decisions that are not recorded.
    #[prost(uint32, tag = "4")]
    pub omitted: u32,
}

/// One decision about a job, as [`controller_core::DecisionRecord`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct DecisionRecord {
    /// The tenant of the job.
    #[prost(string, tag = "1")]
    pub tenant: String,
    /// The name of the job.
    #[prost(string, tag = "2")]
    pub job: String,
    /// The uid of the job.
    #[prost(string, tag = "3")]
    pub job_uid: String,
    /// The phase that the job got, a `rail.v1.JobStatus.Phase`.
    #[prost(int32, tag = "4")]
    pub phase: i32,
    /// The number of the job's attempt; 0 before the first one.
    #[prost(uint32, tag = "5")]
    pub attempt: u32,
    /// The reasons for the decision.
    #[prost(message, repeated, tag = "6")]
    pub reasons: Vec<v1::Reason>,
    /// Nodes of the placement.
    #[prost(uint32, tag = "7")]
    pub nodes: u32,
    /// Digest of the placement.
    #[prost(fixed64, tag = "8")]
    pub digest: u64,
}

/// A row of the audit log, as [`controller_core::AuditRow`].
#[derive(Clone, PartialEq, prost::Message)]
pub struct Audit {
    /// The records, in order.
    #[prost(message, repeated, tag = "1")]
    pub records: Vec<v1::AuditRecord>,
}
