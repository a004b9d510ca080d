//! Accounts become tenants and queues within them.

use std::collections::{BTreeMap, BTreeSet};

use proto_wire::v1;

use super::{
    fate::Fate,
    ledger::{Id, Ledger, Token},
    site::{Account, Site, Thing},
    values::{self, Labels},
};
use crate::args::SlurmAccounts;

/// The largest weight that a tenant or queue may have.
const MAX_WEIGHT: u64 = 1_000_000;
/// GPUs by their name in lists of resources.
pub const GPU: &str = "gres/gpu";

/// A tenant that is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    /// Its name here.
    pub name: String,
    /// The account that it was.
    pub account: String,
}

/// Where the jobs of an account go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// The tenant.
    pub tenant: String,
    /// The queue in it, where the account is one.
    pub queue: Option<String>,
}

/// What accounts have become.
#[derive(Debug, Default)]
pub struct Tenants {
    /// In the order of the dump.
    pub all: Vec<Tenant>,
    /// By account.
    pub spots: BTreeMap<String, Spot>,
    /// Names of queues that each tenant has, so that no two are called alike.
    pub queues: BTreeMap<String, Labels>,
    /// The documents.
    pub documents: Vec<v1::Tenant>,
    /// Queues of accounts, those further up first.
    pub queue_documents: Vec<v1::Queue>,
}

/// Makes tenants, and queues of accounts within them.
pub fn make(site: &Site, how: SlurmAccounts, ledger: &mut Ledger) -> Tenants {
    let mut made = Tenants::default();
    if !site.has_accounts {
        only_one(site, &mut made);
        return made;
    }
    let mut names = Labels::default();
    for account in &site.accounts {
        let has_users = site.users.iter().any(|user| user.account == account.of.name);
        let is_tenant = match how {
            SlurmAccounts::Each => has_users,
            SlurmAccounts::Top => account.parent == "root",
        };
        if is_tenant {
            let name = names.take(&account.of.name);
            renamed(&account.of, &name, "tenant", ledger);
            let document = tenant(site, account, &name, how, ledger);
            made.documents.push(document);
            made.spots.insert(account.of.name.clone(), Spot { tenant: name.clone(), queue: None });
            made.all.push(Tenant { name, account: account.of.name.clone() });
        } else if how == SlurmAccounts::Each {
            let here = "no user is in it: its limits hold for each tenant within it singly, and `--accounts-as top` makes it a tenant with queues";
            ledger.settle(account.of.id, Fate::Differs, here);
            unused(&account.of, &["fairshare", "description", "organization", "grpsubmitjobs"], here, ledger);
        }
    }
    if how == SlurmAccounts::Top {
        account_queues(site, &mut made, ledger);
    }
    for root in &site.roots {
        let here = "said of the whole cluster: the cluster has the limits of its tenants";
        unused(
            root,
            &[
                "fairshare",
                "grpsubmitjobs",
                "maxjobs",
                "maxsubmitjobs",
                "maxwalldurationperjob",
                "maxtresperjob",
                "qos",
                "defaultqos",
            ],
            here,
            ledger,
        );
    }
    made
}

/// Without an accounting dump all users are of one tenant, which is called as the cluster is.
fn only_one(site: &Site, made: &mut Tenants) {
    let name = Labels::default().take(if site.cluster.is_empty() { "slurm" } else { &site.cluster });
    made.documents.push(document(&name, format!("of Slurm's cluster {}", site.cluster), site.gpus(), 0, 0));
    made.all.push(Tenant { name, account: String::new() });
}

fn document(name: &str, description: String, gpus: u32, jobs: u32, weight: u32) -> v1::Tenant {
    v1::Tenant {
        api_version: "rail/v1".to_owned(),
        kind: "Tenant".to_owned(),
        metadata: Some(v1::Metadata { name: name.to_owned(), ..v1::Metadata::default() }),
        spec: Some(v1::TenantSpec {
            description,
            quota: Some(v1::Quota { gpus, jobs, weight, ..v1::Quota::default() }),
            ..v1::TenantSpec::default()
        }),
        status: None,
    }
}

/// Says that a name is another one here.
pub fn renamed(thing: &Thing, name: &str, kind: &str, ledger: &mut Ledger) {
    if name == thing.name {
        ledger.settle(thing.id, Fate::Carried, format!("{kind} {name}"));
    } else {
        let why = "names are lower-case letters, digits and -, each once";
        ledger.settle(thing.id, Fate::Differs, format!("{kind} {name}: {why}"));
    }
}

/// Says of settings that they are lost.
pub fn unused(thing: &Thing, names: &[&str], here: &str, ledger: &mut Ledger) {
    for name in names {
        if let Some((id, _)) = thing.get(name) {
            ledger.settle(id, Fate::Lost, here);
        }
    }
}

fn tenant(site: &Site, account: &Account, name: &str, how: SlurmAccounts, ledger: &mut Ledger) -> v1::Tenant {
    let of = &account.of;
    let jobs = jobs(site, account, ledger);
    let weight = weight(of, ledger).unwrap_or(0);
    let texts: Vec<&str> = [of.text("description"), of.text("organization")]
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect();
    let mut gpus = site.gpus();
    for (at, one) in site.line(&of.name).into_iter().enumerate() {
        let Some(limit) = group_gpus(&one.of, ledger) else { continue };
        gpus = gpus.min(limit);
        if let (true, Some((id, _))) = (at > 0 && how == SlurmAccounts::Each, one.of.get("grptres")) {
            ledger.settle(
                id,
                Fate::Differs,
                "`quota.gpus` of each tenant that was within it: together they may hold more",
            );
        }
    }
    for root in &site.roots {
        if let Some(limit) = group_gpus(root, ledger) {
            gpus = gpus.min(limit);
        }
    }
    let description: String = texts.join(", ").chars().filter(|c| !c.is_control()).take(250).collect();
    document(name, description, gpus, jobs, weight)
}

/// Jobs at most; 0 is the server's own limit, so where Slurm admits none it is the least that a document says.
fn jobs(site: &Site, account: &Account, ledger: &mut Ledger) -> u32 {
    let own = account.of.read("grpsubmitjobs", ledger, values::number::<u32>).flatten();
    let above = site.line(&account.of.name).into_iter().map(|one| &one.of).chain(&site.roots);
    let mut admits_none = false;
    for (id, _) in
        above.filter_map(|one| one.get("grpsubmitjobs").filter(|(_, token)| token.value.trim() == "0"))
    {
        let here = "no job at all may be submitted there; `quota.jobs` of 0 means the server's limit, so it is 1, the least that there is";
        ledger.settle(id, Fate::Lost, here);
        admits_none = true;
    }
    if admits_none { 1 } else { own.unwrap_or(0) }
}

/// The share as a weight; absent where it is none of its own.
fn weight(of: &Thing, ledger: &mut Ledger) -> Option<u32> {
    let (id, token) = of.get("fairshare")?;
    let share = token.value.to_ascii_lowercase();
    if share == "parent" || share == "2147483647" {
        ledger.settle(id, Fate::Differs, "the share of its parent: a weight of 1 here");
        return None;
    }
    let share: u64 = match share.parse() {
        Ok(share) => share,
        Err(_) => {
            ledger.wrong(token, format!("`{}` is no share: a number, or parent", token.value));
            return None;
        }
    };
    if (1..=MAX_WEIGHT).contains(&share) {
        ledger.settle(id, Fate::Carried, format!("weight {share}"));
    } else {
        let here = format!("weight {}: weights are from 1 to {MAX_WEIGHT}", share.clamp(1, MAX_WEIGHT));
        ledger.settle(id, Fate::Differs, here);
    }
    u32::try_from(share.clamp(1, MAX_WEIGHT)).ok()
}

/// GPUs that all running jobs hold together.
fn group_gpus(of: &Thing, ledger: &mut Ledger) -> Option<u32> {
    let all = of.read("grptres", ledger, values::resources)?;
    let (id, _) = of.get("grptres")?;
    let others: Vec<&str> = all.keys().map(String::as_str).filter(|name| *name != GPU).collect();
    let gpus = all.get(GPU).copied();
    match (gpus, others.is_empty()) {
        (Some(gpus), true) => {
            ledger.settle(id, Fate::Carried, format!("{gpus} GPUs (`quota.gpus`, `limit`)"))
        }
        (Some(gpus), false) => {
            let here = format!("{gpus} GPUs (`quota.gpus`, `limit`); nothing limits {}", others.join(", "));
            ledger.settle(id, Fate::Differs, here);
        }
        (None, _) => ledger.settle(
            id,
            Fate::Lost,
            format!("GPUs alone are limited (`quota.gpus`, `limit`), not {}", others.join(", ")),
        ),
    }
    gpus.map(|gpus| u32::try_from(gpus).unwrap_or(u32::MAX))
}

/// Accounts within accounts as queues of the tenant, the outer ones first.
fn account_queues(site: &Site, made: &mut Tenants, ledger: &mut Ledger) {
    let mut inner: Vec<(usize, &Account, Vec<&Account>)> = Vec::new();
    for account in site.accounts.iter().filter(|account| account.parent != "root") {
        let line = site.line(&account.of.name);
        inner.push((line.len(), account, line));
    }
    inner.sort_by_key(|(depth, ..)| *depth);
    for (_, account, line) in inner {
        let Some(spot) = line.get(1).and_then(|parent| made.spots.get(&parent.of.name)).cloned() else {
            continue;
        };
        let name = made.queues.entry(spot.tenant.clone()).or_default().take(&account.of.name);
        renamed(&account.of, &name, "queue", ledger);
        let spec = v1::QueueSpec {
            parent: spot.queue.clone().unwrap_or_default(),
            limit: group_gpus(&account.of, ledger),
            weight: weight(&account.of, ledger),
            ..v1::QueueSpec::default()
        };
        let lost = "queues have a name, a limit of GPUs and a weight";
        unused(&account.of, &["description", "organization", "grpsubmitjobs"], lost, ledger);
        made.queue_documents.push(queue(&spot.tenant, &name, spec));
        made.spots.insert(account.of.name.clone(), Spot { tenant: spot.tenant, queue: Some(name) });
    }
}

/// A queue's document.
pub fn queue(tenant: &str, name: &str, spec: v1::QueueSpec) -> v1::Queue {
    v1::Queue {
        api_version: "rail/v1".to_owned(),
        kind: "Queue".to_owned(),
        metadata: Some(v1::Metadata {
            name: name.to_owned(),
            tenant: tenant.to_owned(),
            ..v1::Metadata::default()
        }),
        spec: Some(spec),
        status: None,
    }
}

/// The tenants of an account and of those within it.
#[derive(Debug, Default)]
pub struct Within {
    /// Tenants that are within it as a whole.
    pub whole: BTreeSet<String>,
    /// Tenants of which it is a part.
    pub parts: BTreeSet<String>,
}

/// What an account and those within it have become.
pub fn within(site: &Site, tenants: &Tenants, account: &str) -> Within {
    let is_in = |one: &str| site.line(one).iter().any(|above| above.of.name == account);
    let whole = tenants.all.iter().filter(|tenant| is_in(&tenant.account));
    let whole: BTreeSet<String> = whole.map(|tenant| tenant.name.clone()).collect();
    let parts = tenants.spots.iter().filter(|(one, spot)| !whole.contains(&spot.tenant) && is_in(one));
    let parts = parts.map(|(_, spot)| spot.tenant.clone()).collect();
    Within { whole, parts }
}

/// The setting of an association: its own, or the nearest of those that it is within.
pub fn inherited<'a>(line: &[&'a Thing], name: &str) -> Option<(Id, &'a Token)> {
    line.iter().find_map(|thing| thing.get(name))
}
