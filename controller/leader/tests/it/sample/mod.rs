//! Values of every kind of row, made from a seed: each field is at times at its default, at times not. What is stored of them comes back.

mod documents;
mod fabric;
mod jobs;
mod nodes;
mod records;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use controller_core::Write;
use proto_model::{JobName, JobUid, NodeName, QueueName, Reason, ReasonCode, TenantName, Timestamp};
use proto_random::Random;

/// What picks.
pub struct Pick(Random);

impl Pick {
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    pub fn below(&mut self, bound: u32) -> u32 {
        u32::try_from(self.0.below(u64::from(bound))).unwrap()
    }

    pub fn large(&mut self) -> u64 {
        // So that numbers of all lengths come.
        self.0.word() >> self.0.below(64)
    }

    pub fn flag(&mut self) -> bool {
        self.below(2) == 0
    }

    pub fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.0.index(of.len())].clone()
    }

    pub fn some<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| make(self))
    }

    pub fn list<T>(&mut self, most: u32, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| make(self)).collect()
    }

    pub fn set<T: Ord>(&mut self, most: u32, make: impl FnMut(&mut Self) -> T) -> BTreeSet<T> {
        self.list(most, make).into_iter().collect()
    }

    /// A word that every name may be.
    pub fn word(&mut self) -> String {
        format!("{}-{}", self.one(&["red", "blue", "train", "eval", "x"]), self.below(1000))
    }

    /// One printable line, which may be empty.
    pub fn line(&mut self) -> String {
        self.one(&["", "why not", "Überraschung, 12 °C", "a \"quoted\" thing", "{}"]).to_owned()
    }

    pub fn bytes(&mut self) -> [u8; 32] {
        std::array::from_fn(|_| u8::try_from(self.below(256)).unwrap())
    }

    pub fn time(&mut self) -> Timestamp {
        Timestamp(1_700_000_000_000 + self.0.below(1 << 38))
    }

    pub fn span(&mut self) -> Duration {
        Duration::from_millis(1 + self.0.below(1 << 30))
    }

    pub fn pairs(&mut self) -> BTreeMap<String, String> {
        self.list(3, |pick| (pick.word(), pick.line())).into_iter().collect()
    }

    pub fn tenant(&mut self) -> TenantName {
        TenantName::new(self.word()).unwrap()
    }

    pub fn queue_name(&mut self) -> QueueName {
        QueueName::new(self.word()).unwrap()
    }

    pub fn job_name(&mut self) -> JobName {
        JobName::new(self.word()).unwrap()
    }

    pub fn node_name(&mut self) -> NodeName {
        NodeName::new(format!("gpu{:03}.rack-{}", self.below(200), self.below(9))).unwrap()
    }

    pub fn job_uid(&mut self) -> JobUid {
        let time = self.time();
        JobUid::ordered(time, 7, self.0.word().to_be_bytes())
    }

    /// The uid of anything else.
    pub fn uid(&mut self) -> String {
        self.job_uid().to_string()
    }

    pub fn reason(&mut self) -> Reason {
        let code = self.one(&[ReasonCode::GangCapacity, ReasonCode::RankFailed, ReasonCode::QosFailed]);
        let mut reason = Reason::new(code, self.line());
        reason.count = self.below(9);
        reason.scope = self.one(&["", "node/n1", "rail/3"]).to_owned();
        reason.since = self.some(Self::time);
        reason.named = self.some(|pick| {
            let (message, scope) = (pick.line(), pick.line());
            Box::new(proto_model::Named { to: pick.list(2, Self::tenant), message, scope })
        });
        reason
    }

    pub fn reasons(&mut self) -> Vec<Reason> {
        self.list(2, Self::reason)
    }
}

/// One row of each table, and of each shape that a table's rows have.
pub fn rows(pick: &mut Pick) -> Vec<Write> {
    use Write as W;
    vec![
        W::PutJob(Arc::new(pick.job())),
        W::PutAttempt(Arc::new(pick.attempt())),
        W::PutNode(Arc::new(pick.node())),
        W::PutTenant(Arc::new(pick.tenant_row())),
        W::PutRestingName(Arc::new(pick.resting_name())),
        W::PutTombstone(Arc::new(pick.deleted_fabric())),
        W::PutTombstone(Arc::new(pick.deleted_tenant())),
        W::PutQueue(Arc::new(pick.queue())),
        W::PutServiceClass(Arc::new(pick.class())),
        W::PutLicense(Arc::new(pick.license())),
        W::PutReservation(Arc::new(pick.reservation())),
        W::PutSchedule(Arc::new(pick.schedule())),
        W::PutValues(Arc::new(pick.values(proto_model::ValuesKind::Secret))),
        W::PutValues(Arc::new(pick.values(proto_model::ValuesKind::Config))),
        W::PutWebhook(Arc::new(pick.webhook())),
        W::PutDelivery(Arc::new(pick.delivery())),
        W::PutFabric(Arc::new(pick.fabric())),
        W::PutDrain(Arc::new(pick.drain())),
        W::PutQos(Arc::new(pick.rollout())),
        W::PutSwitchRollout(Arc::new(pick.switch_rollout())),
        W::PutRequest(Arc::new(pick.request())),
        W::PutToken(Arc::new(pick.join_token())),
        W::PutDecisions(Arc::new(pick.decisions())),
        W::PutAudit(Arc::new(pick.audit(proto_audit::Log::Changes))),
        W::PutAudit(Arc::new(pick.audit(proto_audit::Log::Denials))),
        // After them what came later: what was recorded of the rows above is of these numbers.
        W::PutSwitch(Arc::new(pick.switch())),
        W::PutUsage(Arc::new(pick.usage())),
    ]
}
