//! Looking through a store without leading it: every value decoded, every key known, the whole sound. For `verify`.

use std::collections::BTreeMap;

use controller_core::{Config, Stored};
use controller_rows::format::CURRENT;
use controller_store::{RangeRequest, Store, StoreError};
use proto_model::Timestamp;

use crate::{error::StartError, keys, leader, migrate, rows::Row};

/// Faults that are listed one by one; more are only counted.
const LISTED: usize = 100;
/// What keys are, by their prefix.
const KINDS: [(&str, &str); 32] = [
    (keys::JOBS, "jobs"),
    (keys::ATTEMPTS, "attempts"),
    (keys::NODES, "nodes"),
    (keys::TENANTS, "tenants"),
    (keys::RESTING_NAMES, "names of deleted tenants"),
    (keys::TOMBSTONES, "deleted tenants and fabrics"),
    (keys::QUEUES, "queues"),
    (keys::SERVICE_CLASSES, "service classes"),
    (keys::LICENSES, "licenses"),
    (keys::SWITCHES, "switches"),
    (keys::RESERVATIONS, "reservations"),
    (keys::SCHEDULES, "schedules"),
    (keys::SECRETS, "secrets"),
    (keys::CONFIGS, "configs"),
    (keys::WEBHOOKS, "webhooks"),
    (keys::DELIVERIES, "deliveries of webhooks"),
    (keys::USAGE, "usage records"),
    (keys::REQUESTS, "request ids"),
    (keys::JOIN_TOKENS, "join tokens"),
    (keys::USER_TOKENS, "API tokens"),
    (keys::REVOCATIONS, "revocations"),
    (keys::FABRIC, "fabric"),
    (keys::DRAINS, "drains"),
    (keys::QOS, "rollout of class of service"),
    (keys::SWITCH_ROLLOUT, "rollout to switches"),
    (keys::DECISIONS, "decisions"),
    (keys::AUDIT, "audit rows"),
    (keys::DENIALS, "audit rows of denials"),
    (keys::BOOTSTRAP, "bootstrap"),
    (keys::SEAL, "seal"),
    (keys::FORMAT, "version of the rows"),
    (keys::PAGE_KEY, "key of page tokens"),
];

/// What a key is one of, in the words of [`Inspection::counts`]; `None` for what belongs to a process.
#[must_use]
pub fn kind_of(key: &[u8]) -> Option<&'static str> {
    KINDS.iter().find(|(prefix, _)| key.starts_with(prefix.as_bytes())).map(|(_, kind)| *kind)
}

/// What a store holds, and what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inspection {
    /// The revision that was looked at.
    pub revision: u64,
    /// The version of its rows; 0 where it cannot be read.
    pub version: u32,
    /// They are on their way to the next version.
    pub is_between: bool,
    /// How many keys there are of each kind.
    pub counts: BTreeMap<&'static str, u64>,
    /// What is wrong, in words that name the key.
    pub faults: Vec<String>,
    /// How much else is wrong.
    pub more_faults: u64,
    /// What is wrong with the audit log. A controller starts all the same, and goes on with it.
    pub audit: Option<String>,
}

impl Inspection {
    /// Whether a controller would start on it.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }

    /// The version of its rows in words, with what a controller of this program does about it.
    #[must_use]
    pub fn rows(&self) -> String {
        let version = self.version;
        match (version < CURRENT, self.is_between) {
            (false, _) => format!("rows of version {version}"),
            (true, false) => {
                format!(
                    "rows of version {version}, which a controller of this release brings to {CURRENT} when it leads"
                )
            }
            (true, true) => {
                format!(
                    "rows between version {version} and the next, which a controller of this release goes on with when it leads"
                )
            }
        }
    }

    fn fault(&mut self, what: String) {
        if self.faults.len() < LISTED { self.faults.push(what) } else { self.more_faults += 1 }
    }
}

/// Reads and decodes everything, as a controller would that starts.
///
/// # Errors
/// The store cannot be read; what is wrong with its content is in the answer.
pub async fn inspect(store: &dyn Store, now: Timestamp) -> Result<Inspection, StoreError> {
    let (mut found, mut stored) = (Inspection::default(), Stored::default());
    let format = match migrate::read(store).await {
        Ok((_, format)) => format,
        Err(StartError::Store(error)) => return Err(error),
        // Its rows are not this program's to judge.
        Err(error) => {
            found.fault(error.to_string());
            return Ok(found);
        }
    };
    (found.version, found.is_between) = (format.version(), format.is_between());
    let mut request = RangeRequest::default();
    loop {
        let page = store.range(request.clone()).await?;
        for kv in &page.items {
            if let Some(kind) = kind_of(&kv.key) {
                *found.counts.entry(kind).or_default() += 1;
            }
            if let Err(error) = Row::of(kv, &format).sort_in(kv.mod_revision, &mut stored) {
                found.fault(error.to_string());
            }
        }
        found.revision = page.revision;
        if !page.more {
            break;
        }
        request.revision = Some(page.revision);
        request.after = page.items.last().map(|kv| kv.key.clone());
    }
    if found.is_sound() {
        match leader::build(&Config::default(), found.revision + 1, now, stored) {
            Ok(state) => found.audit = state.audit_fault().map(str::to_owned),
            Err(error) => found.fault(error.to_string()),
        }
    }
    Ok(found)
}
