//! What attempts of jobs have held: the records of those that have ended, and those that still hold, page by page.
//!
//! All pages of a list are as of one time. First come the attempts that had ended before it, in the order of their ends, then those that held
//! something at that time, by job and number, whether they have ended since or not. So each comes once, whatever happens between two pages.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use proto_model::{JobUid, QueueName, TenantName, Timestamp};

use crate::{
    index::usage::UsageOrder,
    rows::usage::{UsageEnd, UsageKey, UsageRecord},
    tables::state::State,
};

/// Before the uids of all jobs.
fn least() -> JobUid {
    JobUid::ordered(Timestamp(0), 0, [0; 8])
}

/// Which attempts are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageFilter {
    /// Only those of a tenant, by its name.
    pub tenant: Option<TenantName>,
    /// Only those of this very tenant, whoever had its name before.
    pub tenant_uid: Option<String>,
    /// Only those of this queue.
    pub queue: Option<QueueName>,
    /// Only those of jobs that this user submitted.
    pub user: Option<String>,
    /// Only those that held something then or later; one that ended at this very moment held nothing from it on.
    pub since: Timestamp,
    /// Only those that held something before.
    pub until: Timestamp,
}

impl UsageFilter {
    /// Whether it asks for an attempt.
    #[must_use]
    pub fn takes(&self, record: &UsageRecord) -> bool {
        let user = record.submitter.as_ref().map(|submitter| submitter.user.as_str());
        self.tenant.as_ref().is_none_or(|tenant| *tenant == record.id.tenant)
            && self.tenant_uid.as_ref().is_none_or(|uid| *uid == record.tenant_uid)
            && self.queue.as_ref().is_none_or(|queue| record.queue.as_ref() == Some(queue))
            && self.user.as_ref().is_none_or(|name| user == Some(name))
            && (record.ended > self.since || (record.placed == record.ended && record.ended == self.since))
            && record.placed < self.until
    }
}

/// The attempt that a list goes on behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsagePosition {
    /// One that had ended.
    Ended(UsageOrder),
    /// One that held something; `None`: the first of them comes next.
    Open(Option<UsageKey>),
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UsagePage {
    /// What was found; of an attempt that still holds, what it held up to the time that the list is of.
    pub records: Vec<Arc<UsageRecord>>,
    /// Where the list goes on; `None` at its end.
    pub next: Option<UsagePosition>,
}

/// What a part of a list may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageBudget {
    /// Attempts that are found.
    pub records: usize,
    /// Attempts that are looked at.
    pub examined: usize,
    /// Attempts that have ended since the time that the list is of: with more it is too old to go on.
    pub late: usize,
}

/// So many attempts have ended since the time that a list is of that going on with it costs too much: it is to be begun anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageTooOld;

impl State {
    /// The attempts that are asked for, as of a time that is now or was, behind a position.
    ///
    /// # Errors
    /// [`UsageTooOld`] if more attempts than the budget says have ended since that time.
    pub fn usage_page(
        &self,
        filter: &UsageFilter,
        as_of: Timestamp,
        after: Option<UsagePosition>,
        budget: UsageBudget,
    ) -> Result<UsagePage, UsageTooOld> {
        match after {
            None => Ok(self.usage_ended(filter, as_of, None, budget)),
            Some(UsagePosition::Ended(after)) => Ok(self.usage_ended(filter, as_of, Some(after), budget)),
            Some(UsagePosition::Open(after)) => self.usage_open(filter, as_of, after, budget),
        }
    }

    /// From when on no record is missing of the tenant that is asked for, or of any: the end of its oldest record, or the latest such time of
    /// all tenants. Records of what ended before may have been dropped. `None`: there is no record.
    #[must_use]
    pub fn oldest_usage(&self, filter: &UsageFilter) -> Option<Timestamp> {
        let first = |orders: &BTreeSet<UsageOrder>| orders.first().map(|(ended, ..)| *ended);
        let tenants = &self.index.usage.tenants;
        let Some(name) = &filter.tenant else { return tenants.values().filter_map(first).max() };
        // Those of an earlier tenant of the name say nothing of this one.
        let tenant = self.base.tenants.get(name).filter(|one| filter.tenant_uid.as_ref() == Some(&one.uid));
        let created = tenant.map(|tenant| tenant.created).unwrap_or_default();
        tenants.get(name).and_then(first).map(|oldest| oldest.max(created))
    }

    /// The record that goes next because there are more than the limit; `None` where there are not.
    #[must_use]
    pub fn usage_over(&self) -> Option<UsageKey> {
        let over = self.base.usage.len() > self.config.max_usage;
        over.then(|| self.index.usage.surplus()).flatten()
    }

    /// Records of ends between two, in their order; of a tenant where one is asked for.
    fn usage_between(
        &self,
        filter: &UsageFilter,
        from: Bound<UsageOrder>,
        to: Bound<UsageOrder>,
    ) -> impl Iterator<Item = (UsageOrder, &Arc<UsageRecord>)> {
        let index = &self.index.usage;
        let orders = match &filter.tenant {
            None => Some(&index.all),
            Some(tenant) => index.tenants.get(tenant),
        };
        let orders = orders.into_iter().flat_map(move |orders| orders.range((from, to)));
        orders.filter_map(|at| Some((*at, self.base.usage.get(&(at.1, at.2))?)))
    }

    fn usage_ended(
        &self,
        filter: &UsageFilter,
        as_of: Timestamp,
        after: Option<UsageOrder>,
        budget: UsageBudget,
    ) -> UsagePage {
        let first = (filter.since, least(), 0);
        let from = after.map_or(Bound::Included(first), Bound::Excluded);
        let mut page = UsagePage::default();
        if first.0 < as_of {
            let ended = self.usage_between(filter, from, Bound::Excluded((as_of, least(), 0)));
            for (examined, (at, record)) in (1..).zip(ended) {
                page.records.extend(filter.takes(record).then(|| Arc::clone(record)));
                if page.records.len() >= budget.records || examined >= budget.examined {
                    page.next = Some(UsagePosition::Ended(at));
                    return page;
                }
            }
        }
        page.next = Some(UsagePosition::Open(None));
        page
    }

    fn usage_open(
        &self,
        filter: &UsageFilter,
        as_of: Timestamp,
        after: Option<UsageKey>,
        budget: UsageBudget,
    ) -> Result<UsagePage, UsageTooOld> {
        let behind = |key: &UsageKey| after.is_none_or(|after| *key > after);
        let held =
            |record: &UsageRecord| record.placed < as_of && behind(&record.key()) && filter.takes(record);
        let late = self.usage_between(filter, Bound::Included((as_of, least(), 0)), Bound::Unbounded);
        let mut found: BTreeMap<UsageKey, Arc<UsageRecord>> = BTreeMap::new();
        for (examined, (_, record)) in (1..).zip(late) {
            if examined > budget.late {
                return Err(UsageTooOld);
            }
            found.extend(held(record).then(|| (record.key(), Arc::clone(record))));
        }
        let from = after.map_or(Bound::Unbounded, |(uid, _)| Bound::Included(uid));
        let mut seen_to = None;
        for (examined, uid) in (1..).zip(self.index.holding.range((from, Bound::Unbounded))) {
            let record = self.open_usage(uid, as_of).filter(|record| held(record));
            found.extend(record.map(|record| (record.key(), Arc::new(record))));
            if examined >= budget.examined.max(2) {
                seen_to = Some((*uid, u32::MAX));
                break;
            }
        }
        if let Some(seen_to) = seen_to {
            found.retain(|key, _| *key <= seen_to);
        }
        let more = found.len() > budget.records;
        let records: Vec<Arc<UsageRecord>> = found.into_values().take(budget.records).collect();
        let last = records.last().map(|record| record.key());
        let next = if more { last } else { seen_to };
        Ok(UsagePage { records, next: next.map(|key| UsagePosition::Open(Some(key))) })
    }

    /// What the present attempt of a job has held up to a time.
    fn open_usage(&self, uid: &JobUid, until: Timestamp) -> Option<UsageRecord> {
        let entry = self.base.jobs.get(uid)?;
        let attempt = entry.attempt.as_ref()?;
        let tenant = self.tenant_uid(&entry.job.id.tenant);
        Some(UsageRecord::of(&entry.job, attempt, tenant, until, UsageEnd::Running))
    }

    /// The uid of a tenant; empty where there is none of the name.
    #[must_use]
    pub fn tenant_uid(&self, name: &TenantName) -> String {
        self.base.tenants.get(name).map(|tenant| tenant.uid.clone()).unwrap_or_default()
    }
}
