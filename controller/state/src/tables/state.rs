//! The state: what is stored, what agents have told since they connected, and indices made from both.
//!
//! A table of rows that are shared (`Arc`) is one declaration in [`tables!`]: its field of [`Base`], the old values of its rows in the journal,
//! how they are put back, what they mean for the store and whether their change is one for the audit log all follow from that. What else follows from
//! a row is told by a method of [`State`] that the declaration names (`=>`). Tables of another kind, and single values, are [`Own`]: their
//! setters, and what takes them back, are written by hand.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use controller_queue::Marks;
use proto_audit::Log;
use proto_model::{
    Drain, DrainTarget, Fabric, JobUid, License, LicenseName, Node, NodeName, QosRollout, Queue, QueueName,
    RequestId, Reservation, ReservationName, ServiceClass, ServiceClassName, SwitchConfig, SwitchName,
    SwitchRollout, Tenant, TenantName, Timestamp, Values, ValuesId, Webhook,
};

use crate::{
    config::Config,
    index::all::Index,
    rows::{
        audit::{Chain, Chains, RowSummary},
        decisions::DecisionRow,
        deleted::{DeletedKey, Tombstone},
        job::{JobEntry, NodeView, Schedule},
        node::Link,
        proving::Proving,
        records::{RequestRecord, RestingName, TokenRecord},
        rollout::{NicKey, Run},
        schedules::{ScheduleEntry, ScheduleKey},
        switch_rollout::SwitchContact,
        usage::{UsageKey, UsageRecord},
        webhooks::{Delivery, DeliveryKey, WebhookKey},
        write::{Key, Write},
    },
    tables::table::Table,
};

/// Everything the controller decides from.
///
/// Base tables hold what is stored, and beside it what can be learned again: connections and views. Indices are a
/// function of the base tables. All changes go through the setters in `tables`, which note how to undo them.
#[derive(Debug, Clone)]
pub struct State {
    /// The limits and times by which it decides.
    pub config: Config,
    /// This controller's fencing number.
    pub epoch: u64,
    /// The tables: what is stored, and what agents have told.
    pub base: Base,
    /// What follows from them.
    pub index: Index,
    /// The store's revision of the last change of each resource.
    pub versions: BTreeMap<Key, u64>,
    /// What has changed since the last commit.
    pub journal: Journal,
}

/// Everything since the last commit, in one order over all tables: changes are taken back in the opposite one.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    /// The old values of rows, in the order of the changes.
    pub undo: Vec<Undo>,
    /// Keys that the steps since the last commit have written, and whether they are gone.
    pub written: Vec<(Key, bool)>,
}

impl Journal {
    /// Whether a key waits for its commit, and if so whether it is gone.
    pub fn pending(&self, key: &Key) -> Option<bool> {
        self.written.iter().rev().find(|(written, _)| written == key).map(|(_, deleted)| *deleted)
    }
}

/// What makes values rows of a table; the declaration in [`tables!`] says all of it.
pub trait Row: Sized {
    /// What tells rows apart.
    type Key: Ord + Clone;
    /// A change of it by authority leaves a record in the audit log.
    const AUDITED: bool;

    /// Its own key.
    fn key(&self) -> Self::Key;
    /// The table of all of them.
    fn table(base: &Base) -> &Table<Self::Key, Self>;
    /// The same, to be changed.
    fn table_mut(base: &mut Base) -> &mut Table<Self::Key, Self>;
    /// What takes a change back.
    fn undo(key: Self::Key, old: Option<Arc<Self>>) -> Undo;
    /// What the store is told of a row.
    fn put(row: Arc<Self>) -> Write;
    /// What the store is told of the end of one.
    fn delete(key: &Self::Key) -> Write;
    /// Indices follow a change that has been made.
    fn follow(state: &mut State, key: &Self::Key, old: Option<&Arc<Self>>, new: Option<&Arc<Self>>);
}

/// What the change of a row means for the store: nothing where the same row is there again.
fn written<R: Row>(base: &Base, key: &R::Key, old: Option<&Arc<R>>) -> Option<Write> {
    match (old, R::table(base).get(key)) {
        (Some(old), Some(new)) if Arc::ptr_eq(old, new) => None,
        (_, Some(new)) => Some(R::put(Arc::clone(new))),
        (Some(_), None) => Some(R::delete(key)),
        (None, None) => None,
    }
}

/// Whether a row is another one than before.
fn is_other<R: Row>(base: &Base, key: &R::Key, old: Option<&Arc<R>>) -> bool {
    old.map(Arc::as_ptr) != R::table(base).get(key).map(Arc::as_ptr)
}

/// Declares tables, one line each: name, rows, keys, a row's own key, and what the store is told of a row and of its end. `=>` names the method
/// by which indices follow; `unaudited` is what no record of the audit log tells of.
macro_rules! tables {
    (
        tables { $(
            $(#[$doc:meta])*
            $table:ident: $Row:ident by $Key:ty = |$row:ident| $own:expr,
            $put:ident, |$key:pat_param| $delete:expr
            $(=> $follow:ident)? $(, $audited:ident)?;
        )* }
        own { $( $(#[$other_doc:meta])* $other:ident: $Other:ty, )* }
    ) => {
        /// The tables.
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct Base {
            $( $(#[$doc])* pub $table: Table<$Key, $Row>, )*
            $( $(#[$other_doc])* pub $other: $Other, )*
        }

        /// The old value of one row.
        #[derive(Debug, Clone)]
        pub enum Undo {
            $( $(#[$doc])* $Row($Key, Option<Arc<$Row>>), )*
            /// Of a table, or a value, whose setters are written by hand.
            Own(Own),
        }

        /// The rows that were looked at.
        #[derive(Default)]
        pub(crate) struct Seen<'a> {
            $( $table: BTreeSet<&'a $Key>, )*
        }

        impl<'a> Seen<'a> {
            /// What the change of a row means for the store, if it is the first one of that row.
            pub(crate) fn write(&mut self, base: &Base, undo: &'a Undo) -> Option<Write> {
                match undo {
                    $( Undo::$Row(key, old) => {
                        self.$table.insert(key).then(|| written(base, key, old.as_ref())).flatten()
                    } )*
                    Undo::Own(_) => None,
                }
            }
        }

        impl Undo {
            /// Puts the old value back, and says what is left to do by hand.
            pub(crate) fn take_back(self, state: &mut State) -> Option<Own> {
                match self {
                    $( Self::$Row(key, old) => drop(state.swap::<$Row>(&key, old)), )*
                    Self::Own(own) => return Some(own),
                }
                None
            }

            /// Whether something is another one now that a change by authority leaves a record of.
            #[must_use]
            pub fn is_change(&self, base: &Base) -> bool {
                match self {
                    $( Self::$Row(key, old) => $Row::AUDITED && is_other(base, key, old.as_ref()), )*
                    Self::Own(own) => own.is_change(base),
                }
            }
        }

        $( impl Row for $Row {
            type Key = $Key;
            const AUDITED: bool = tables!(@audited $($audited)?);

            fn key(&self) -> $Key {
                let $row = self;
                $own
            }

            fn table(base: &Base) -> &Table<$Key, Self> {
                &base.$table
            }

            fn table_mut(base: &mut Base) -> &mut Table<$Key, Self> {
                &mut base.$table
            }

            fn undo(key: $Key, old: Option<Arc<Self>>) -> Undo {
                Undo::$Row(key, old)
            }

            fn put(row: Arc<Self>) -> Write {
                Write::$put(row)
            }

            fn delete($key: &$Key) -> Write {
                $delete
            }

            fn follow(_state: &mut State, _key: &$Key, _old: Option<&Arc<Self>>, _new: Option<&Arc<Self>>) {
                $( _state.$follow(_key, _old, _new); )?
            }
        } )*
    };
    (@audited) => { true };
    (@audited unaudited) => { false };
}

tables! {
    tables {
        /// Rails, leaves and ports out of use.
        drains: Drain by DrainTarget = |row| row.target.clone(),
            PutDrain, |target| Write::DeleteDrain(target.clone()) => follow_drain;
        /// Servers.
        nodes: Node by NodeName = |row| row.name.clone(),
            PutNode, |name| Write::DeleteNode(name.clone()) => follow_node;
        /// Tenants.
        tenants: Tenant by TenantName = |row| row.name.clone(),
            PutTenant, |name| Write::DeleteTenant(name.clone()) => follow_tenant;
        /// Names of deleted tenants that nobody may have yet.
        resting: RestingName by TenantName = |row| row.name.clone(),
            PutRestingName, |name| Write::DeleteRestingName(name.clone());
        /// Queues.
        queues: Queue by (TenantName, QueueName) = |row| (row.tenant.clone(), row.name.clone()),
            PutQueue, |(tenant, name)| Write::DeleteQueue(tenant.clone(), name.clone()) => follow_queue;
        /// Service classes.
        classes: ServiceClass by ServiceClassName = |row| row.name.clone(),
            PutServiceClass, |name| Write::DeleteServiceClass(name.clone()) => follow_class;
        /// Licenses.
        licenses: License by LicenseName = |row| row.name.clone(),
            PutLicense, |name| Write::DeleteLicense(name.clone()) => follow_license;
        /// Switches: what the fabric document does not say of them.
        switches: SwitchConfig by SwitchName = |row| row.name.clone(),
            PutSwitch, |name| Write::DeleteSwitch(name.clone());
        /// Reservations.
        reservations: Reservation by ReservationName = |row| row.name.clone(),
            PutReservation, |name| Write::DeleteReservation(name.clone()) => follow_reservation;
        /// Request ids that made a job.
        requests: RequestRecord by (TenantName, RequestId) = |row| (row.tenant.clone(), row.request.clone()),
            PutRequest, |(tenant, id)| Write::DeleteRequest(tenant.clone(), id.clone()) => follow_request;
        /// Join tokens by their hashes.
        tokens: TokenRecord by [u8; 32] = |row| row.hash,
            PutToken, |hash| Write::DeleteToken(*hash) => follow_token;
        /// Rows of the decision log by their numbers.
        decisions: DecisionRow by u64 = |row| row.seq,
            PutDecisions, |seq| Write::DeleteDecisions(*seq) => follow_decisions, unaudited;
        /// Webhooks.
        webhooks: Webhook by WebhookKey = |row| (row.tenant.clone(), row.name.clone()),
            PutWebhook, |(tenant, name)| Write::DeleteWebhook(tenant.clone(), name.clone());
        /// What waits to be sent by webhooks.
        deliveries: Delivery by DeliveryKey = |row| row.key(),
            PutDelivery, |(tenant, name, seq)| Write::DeleteDelivery(tenant.clone(), name.clone(), *seq), unaudited;
        /// What attempts of jobs held; they outlive their jobs.
        usage: UsageRecord by UsageKey = |row| row.key(),
            PutUsage, |(uid, attempt)| Write::DeleteUsage(*uid, *attempt) => follow_usage, unaudited;
        /// Secrets and configs.
        values: Values by ValuesId = |row| row.id.clone(),
            PutValues, |id| Write::DeleteValues(id.clone());
        /// What was deleted and can be brought back.
        tombstones: Tombstone by DeletedKey = |row| row.key.clone(),
            PutTombstone, |key| Write::DeleteTombstone(key.clone());
    }
    own {
        /// The fabric document.
        fabric: Option<Arc<Fabric>>,
        /// The rollout of a profile.
        qos: Option<Arc<QosRollout>>,
        /// The rollout to switches.
        switch_rollout: Option<Arc<SwitchRollout>>,
        /// Schedules of jobs, and when each is looked at again.
        schedules: BTreeMap<ScheduleKey, ScheduleEntry>,
        /// Jobs with what belongs to them.
        jobs: BTreeMap<JobUid, JobEntry>,
        /// The heads of the audit logs.
        chains: Chains,
        /// Rows of the audit logs by their first record; what they say stays in the store.
        audit: BTreeMap<(Log, u64), RowSummary>,
        /// Not stored: connections.
        links: BTreeMap<NodeName, Link>,
        /// Not stored: what each node of a gang has reported, by position in the gang.
        views: BTreeMap<(JobUid, u32), NodeView>,
        /// Not stored: how far the queue was looked at.
        schedule: Schedule,
        /// Not stored: what of the rollout of a profile is under way, and when it is looked at again.
        qos_run: Run<NicKey>,
        /// Not stored: when the rollout is looked at again.
        qos_check: Option<Timestamp>,
        /// Not stored: the number of what switches are to have, which grows whenever that of any of them may be another one.
        switch_plans: u64,
        /// Not stored: what switches' agents have said.
        switch_views: BTreeMap<SwitchName, SwitchContact>,
        /// Not stored: what of the rollout to switches is under way.
        switch_run: Run<SwitchName>,
        /// Not stored: when the rollout to switches is looked at again.
        switch_check: Option<Timestamp>,
        /// Not stored: which rails that are out of use are being proved, and when they are looked at again.
        proving: Proving,
        /// Not stored: when the proofs are looked at again.
        prove_check: Option<Timestamp>,
    }
}

/// The old value of what is kept by hand.
#[derive(Debug, Clone)]
pub enum Own {
    /// The fabric document.
    Fabric(Option<Arc<Fabric>>),
    /// The rollout.
    Qos(Option<Arc<QosRollout>>),
    /// What of the rollout is under way, and when it is looked at again.
    QosRun(Box<(Run<NicKey>, Option<Timestamp>)>),
    /// The rollout to switches.
    SwitchRollout(Option<Arc<SwitchRollout>>),
    /// What of the rollout to switches is under way, and when it is looked at again.
    SwitchRun(Box<(Run<SwitchName>, Option<Timestamp>)>),
    /// The number of what switches are to have.
    SwitchPlans(u64),
    /// What a switch's agent has said.
    SwitchView(SwitchName, Option<Box<SwitchContact>>),
    /// Probes, and when they are looked at again.
    Proving(Box<(Proving, Option<Timestamp>)>),
    /// A job with what belongs to it.
    Job(JobUid, Option<Box<JobEntry>>),
    /// A connection.
    Link(NodeName, Option<Link>),
    /// What a node of a gang has reported.
    View((JobUid, u32), Option<Box<NodeView>>),
    /// A schedule of jobs.
    JobSchedule(ScheduleKey, Option<Box<ScheduleEntry>>),
    /// How far the queue was looked at.
    Schedule(Box<Schedule>),
    /// The head of the audit log.
    Chain(Log, Box<Chain>),
    /// What is remembered of a row of an audit log.
    Audit((Log, u64), Option<RowSummary>),
    /// What the policy remembers of past jobs.
    Marks(Box<Marks>),
}

impl Own {
    /// Whether something is another one now that a change by authority leaves a record of.
    fn is_change(&self, base: &Base) -> bool {
        fn at<T>(row: Option<&Arc<T>>) -> Option<*const T> {
            row.map(Arc::as_ptr)
        }
        match self {
            Self::Fabric(old) => at(old.as_ref()) != at(base.fabric.as_ref()),
            Self::Qos(old) => at(old.as_ref()) != at(base.qos.as_ref()),
            Self::SwitchRollout(old) => at(old.as_ref()) != at(base.switch_rollout.as_ref()),
            Self::JobSchedule(key, old) => {
                let (old, new) = (old.as_deref(), base.schedules.get(key));
                at(old.map(|old| &old.schedule)) != at(new.map(|new| &new.schedule))
            }
            Self::Job(uid, old) => {
                let (old, new) = (old.as_deref(), base.jobs.get(uid));
                let attempt = |entry: &JobEntry| entry.attempt.as_ref().map(Arc::as_ptr);
                at(old.map(|old| &old.job)) != at(new.map(|new| &new.job))
                    || old.and_then(attempt) != new.and_then(attempt)
            }
            Self::Link(..)
            | Self::View(..)
            | Self::Schedule(_)
            | Self::QosRun(_)
            | Self::SwitchRun(_)
            | Self::SwitchPlans(_)
            | Self::SwitchView(..)
            | Self::Proving(_)
            | Self::Marks(_)
            | Self::Chain(..)
            | Self::Audit(..) => false,
        }
    }
}
