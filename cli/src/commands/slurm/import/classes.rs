//! Partitions become queues of the tenants that may use them, and service classes with their limits; QOS become service classes.

use std::collections::{BTreeMap, BTreeSet};

use proto_wire::v1;

use super::{
    fate::Fate,
    ledger::{Id, Ledger},
    limits::{self, Limits},
    site::{Site, Thing, User},
    tenants::{Spot, Tenants, Within, inherited, queue, renamed, within},
    users::is_user,
    values::{self, Labels},
};

/// Service classes that a cluster has at most.
pub const MAX_CLASSES: usize = 1000;
/// Members that one list of a class has at most.
const MAX_MEMBERS: usize = 4096;
/// The QOS of jobs where nobody says another.
const USUAL: &str = "normal";

/// What partitions and QOS have become.
#[derive(Debug, Default)]
pub struct Classes {
    /// Queues of partitions.
    pub queues: Vec<v1::Queue>,
    /// Service classes.
    pub documents: Vec<v1::ServiceClass>,
    /// Name of the queue by tenant and partition.
    pub queue_of: BTreeMap<(String, String), String>,
    /// Name of the class by QOS.
    pub class_of: BTreeMap<String, String>,
}

/// Whom a class is for; empty lists leave it open.
#[derive(Debug, Clone, Default)]
struct Members {
    tenants: BTreeSet<String>,
    queues: BTreeSet<String>,
    users: BTreeSet<String>,
}

/// Makes them.
pub fn make(site: &Site, tenants: &mut Tenants, ledger: &mut Ledger) -> Classes {
    let mut maker = Maker {
        site,
        made: Classes::default(),
        names: Labels::default(),
        qos: BTreeMap::new(),
        members: BTreeMap::new(),
        singled: BTreeMap::new(),
    };
    let queues = maker.partition_queues(tenants, ledger);
    for qos in &site.qos {
        let limits = limits::qos(site, qos, ledger);
        let key = qos.name.to_ascii_lowercase();
        maker.qos.insert(key.clone(), limits);
        if let Some(members) = maker.members(qos, tenants, ledger) {
            let name = maker.names.take(&qos.name);
            renamed(qos, &name, "service class", ledger);
            maker.made.class_of.insert(key.clone(), name);
            maker.members.insert(key, members);
            continue;
        }
        let of = site.partitions.iter().find(|one| one.text("qos").eq_ignore_ascii_case(&qos.name));
        let (fate, here) =
            of.map_or((Fate::Lost, "no account has it: no service class is made".to_owned()), |of| {
                let here = format!(
                    "no account has it: its limits are in the service class of partition {}",
                    of.name
                );
                (Fate::Differs, here)
            });
        ledger.settle(qos.id, fate, here);
    }
    maker.singled = maker.singled(tenants, ledger);
    for partition in &site.partitions {
        maker.partition(partition, tenants, ledger);
    }
    maker.account_queues(tenants, ledger);
    maker.all_qos();
    maker.said_of_associations(ledger);
    maker.made.queues = queues;
    maker.made
}

struct Maker<'a> {
    site: &'a Site,
    made: Classes,
    names: Labels,
    /// Limits by QOS in lower case.
    qos: BTreeMap<String, Limits>,
    /// Who has it, by QOS in lower case.
    members: BTreeMap<String, Members>,
    /// By tenant, the users that have a class of their own without a queue.
    singled: BTreeMap<String, BTreeSet<&'a str>>,
}

impl<'a> Maker<'a> {
    /// The queues of partitions in the tenants that may use them.
    fn partition_queues(&mut self, tenants: &mut Tenants, ledger: &mut Ledger) -> Vec<v1::Queue> {
        let (mut queues, all) = (Vec::new(), self.site.gpus());
        for partition in &self.site.partitions {
            let (nodes, strange) = self.site.nodes_of(partition, ledger);
            let gpus = nodes
                .iter()
                .filter_map(|node| self.site.nodes.get(*node))
                .fold(0_u32, |sum, gpus| sum.saturating_add(*gpus));
            if let Some((id, _)) = partition.get("nodes") {
                let label = Labels::default().take(&partition.name);
                let here = format!(
                    "{} nodes with {gpus} GPUs: the `limit` of its queues. A queue is not tied to servers: commands.sh labels them partition-{label}, and jobs ask for that (`placement.selector`, `#SBATCH --constraint`)",
                    nodes.len()
                );
                ledger.settle(id, Fate::Differs, here);
                if let Some(first) = strange.first() {
                    let here = format!("no NodeName has `{first}`{}: not counted", more(strange.len()));
                    ledger.settle(id, Fate::Differs, here);
                }
            }
            let limit = (gpus < all || all == 0).then_some(gpus).filter(|_| partition.get("nodes").is_some());
            let mut named = BTreeSet::new();
            for tenant in self.tenants_of(partition, tenants, ledger) {
                let name = tenants.queues.entry(tenant.clone()).or_default().take(&partition.name);
                queues.push(queue(&tenant, &name, v1::QueueSpec { limit, ..v1::QueueSpec::default() }));
                named.insert(name.clone());
                self.made.queue_of.insert((tenant, partition.name.clone()), name);
            }
            match named.first() {
                Some(name) if named.len() == 1 => renamed(partition, name, "queue", ledger),
                Some(name) => {
                    ledger.settle(partition.id, Fate::Differs, format!("queues {name}{}", more(named.len())))
                }
                None => ledger.settle(partition.id, Fate::Lost, "no tenant may use it: no queue is made"),
            }
        }
        queues
    }

    /// The tenants whose jobs may be in a partition.
    fn tenants_of(&self, partition: &Thing, tenants: &Tenants, ledger: &mut Ledger) -> BTreeSet<String> {
        let every: BTreeSet<String> = tenants.all.iter().map(|tenant| tenant.name.clone()).collect();
        let allowed = self.named(partition, "allowaccounts", tenants, ledger);
        let denied = self.named(partition, "denyaccounts", tenants, ledger);
        if let (Some(_), Some((id, _))) = (&allowed, partition.get("denyaccounts")) {
            ledger.settle(id, Fate::Meaningless, "AllowAccounts says who may use it");
            return allowed.unwrap_or_default();
        }
        let all = allowed.unwrap_or(every);
        all.into_iter()
            .filter(|tenant| !denied.as_ref().is_some_and(|denied| denied.contains(tenant)))
            .collect()
    }

    /// The tenants that a list of accounts names. One of which an account is only a part is denied with it, and not allowed with it.
    fn named(
        &self,
        partition: &Thing,
        list: &str,
        tenants: &Tenants,
        ledger: &mut Ledger,
    ) -> Option<BTreeSet<String>> {
        let (id, token) = partition.get(list)?;
        if token.value.eq_ignore_ascii_case("ALL") {
            return None;
        }
        if !self.site.has_accounts {
            let here = "all users are of one tenant, since no accounting dump was given (`--accounts`)";
            ledger.settle(id, Fate::Lost, here);
            return None;
        }
        let mut found = BTreeSet::new();
        for account in values::list(&token.value) {
            let Within { whole, parts } = within(self.site, tenants, &account.to_ascii_lowercase());
            if whole.is_empty() && parts.is_empty() {
                ledger.settle(id, Fate::Differs, format!("no tenant is made of the account `{account}`"));
            }
            if !parts.is_empty() {
                let tenants: Vec<&str> = parts.iter().map(String::as_str).collect();
                let may = if list == "denyaccounts" {
                    "the whole tenant may not use it"
                } else {
                    "by that alone the tenant may not use it"
                };
                let here = format!(
                    "`{account}` is a part of {}, and a partition is of whole tenants: {may}",
                    tenants.join(", ")
                );
                ledger.settle(id, Fate::Differs, here);
            }
            found.extend(whole);
            found.extend(parts.into_iter().filter(|_| list == "denyaccounts"));
        }
        Some(found)
    }

    /// The limits of an association in a partition.
    fn limits(&self, partition: Option<&Thing>, line: &[&Thing], ledger: &mut Ledger) -> Limits {
        let named = |name: &str| self.qos.get(&name.to_ascii_lowercase()).cloned();
        let of_partition = partition.and_then(|one| named(one.text("qos"))).unwrap_or_default();
        let usual = inherited(line, "defaultqos").map_or(USUAL, |(_, token)| token.value.as_str());
        let usual = named(usual).unwrap_or_default();
        let associations = line.iter().map(|one| limits::association(one, ledger));
        let association = associations.fold(Limits::default(), Limits::or);
        let of_partition =
            Limits { priority: 0, preempts: None, preemptible: None, grace: None, ..of_partition };
        let own = of_partition.or(usual).or(association);
        match partition {
            Some(partition) => own.within(&limits::partition(self.site, partition, ledger)),
            None => own,
        }
    }

    fn line(&self, account: &str) -> Vec<&'a Thing> {
        self.site.line(account).into_iter().map(|one| &one.of).collect()
    }

    /// The service classes of one partition: one for all tenants with the same limits, and one for users with limits of their own.
    fn partition(&mut self, partition: &'a Thing, tenants: &Tenants, ledger: &mut Ledger) {
        let is_default = self.site.default_partition().is_some_and(|one| one.name == partition.name);
        self.qos_of(partition, ledger);
        let (mut groups, mut special): (BTreeMap<Limits, Members>, BTreeMap<Limits, Members>) =
            Default::default();
        for tenant in &tenants.all {
            let key = (tenant.name.clone(), partition.name.clone());
            let Some(name) = self.made.queue_of.get(&key).cloned() else { continue };
            let path = format!("{}/{name}", tenant.name);
            let base = self.limits(Some(partition), &self.line(&tenant.account), ledger);
            let group = groups.entry(base.clone()).or_default();
            if is_default {
                group.tenants.insert(tenant.name.clone());
            } else {
                group.queues.insert(path.clone());
            }
            let mut others =
                self.singled.get(&tenant.name).filter(|_| !is_default).cloned().unwrap_or_default();
            for (user, limits) in self.own_limits(&tenant.account, Some(partition), ledger) {
                let is_single = others.remove(user);
                if limits != base || is_single {
                    let members = special.entry(limits).or_default();
                    members.queues.extend((!is_default).then(|| path.clone()));
                    members.users.insert(format!("{}/{user}", tenant.name));
                }
            }
            for user in others {
                let members = special.entry(base.clone()).or_default();
                members.queues.insert(path.clone());
                members.users.insert(format!("{}/{user}", tenant.name));
            }
        }
        if let Some((id, _)) = partition.get("default").filter(|_| is_default) {
            let here = "jobs that name no queue are of the tenant itself, with the limits of this partition";
            ledger.settle(id, Fate::Differs, here);
        } else if let Some((id, _)) = partition.get("default") {
            ledger.settle(id, Fate::Carried, "not the default");
        }
        let usual = self.limits(Some(partition), &[], ledger);
        let first = if is_default { self.last(partition, tenants) } else { String::new() };
        self.write(partition, "", &usual, groups, ledger);
        self.write(partition, &first, &usual, special, ledger);
    }

    /// The users of an account with their limits in a partition: those of the association for it, or of the one for all partitions.
    fn own_limits(
        &self,
        account: &str,
        partition: Option<&Thing>,
        ledger: &mut Ledger,
    ) -> Vec<(&'a str, Limits)> {
        let users: Vec<&'a User> =
            self.site.users.iter().filter(|user| user.account == account && is_user(&user.of.name)).collect();
        let is_for = |user: &User| {
            partition.is_some_and(|one| user.of.text("partition").eq_ignore_ascii_case(&one.name))
        };
        let single: BTreeSet<&str> =
            users.iter().filter(|user| is_for(user)).map(|user| user.of.name.as_str()).collect();
        let is_own = |user: &&&User| {
            is_for(user) || user.of.text("partition").is_empty() && !single.contains(user.of.name.as_str())
        };
        let own: Vec<&'a User> = users.iter().filter(is_own).copied().collect();
        let limits = |user: &'a User| {
            let line: Vec<&Thing> = [&user.of].into_iter().chain(self.line(&user.account)).collect();
            (user.of.name.as_str(), self.limits(partition, &line, ledger))
        };
        own.into_iter().map(limits).collect()
    }

    /// Users by tenant with limits of their own in the default partition. Their class there names no queue, since jobs that name none are of it
    /// too, so they have a class of their own in each other queue as well.
    fn singled(&self, tenants: &Tenants, ledger: &mut Ledger) -> BTreeMap<String, BTreeSet<&'a str>> {
        let mut all: BTreeMap<String, BTreeSet<&'a str>> = BTreeMap::new();
        let Some(partition) = self.site.default_partition() else { return all };
        for tenant in &tenants.all {
            if !self.made.queue_of.contains_key(&(tenant.name.clone(), partition.name.clone())) {
                continue;
            }
            let base = self.limits(Some(partition), &self.line(&tenant.account), ledger);
            let own = self.own_limits(&tenant.account, Some(partition), ledger).into_iter();
            let users = own.filter(|(_, limits)| *limits != base).map(|(user, _)| user);
            all.entry(tenant.name.clone()).or_default().extend(users);
        }
        all
    }

    /// What names of classes of single users in the default partition begin with. Of two classes that fit a job equally well the first by its name
    /// counts, and one that names a queue as well is to be before one that names none.
    fn last(&self, partition: &Thing, tenants: &Tenants) -> String {
        let label = |name: &str| format!("{}-", Labels::default().take(name));
        let partitions =
            self.site.partitions.iter().map(|one| &one.name).filter(|one| **one != partition.name);
        let queues =
            tenants.spots.iter().filter(|(_, spot)| spot.queue.is_some()).map(|(account, _)| account);
        let others: Vec<String> = partitions.chain(queues).map(|name| label(name)).collect();
        let mut first = String::new();
        let own = label(&partition.name);
        while others.iter().any(|other| {
            let own = format!("{first}{own}");
            own.starts_with(other) || own < *other
        }) {
            first = format!("z{}-", first.trim_end_matches('-'));
        }
        first
    }

    /// Says which QOS of a partition are known.
    fn qos_of(&self, partition: &Thing, ledger: &mut Ledger) {
        if let Some((id, _)) = partition.get("denyqos").filter(|_| has_list(partition)) {
            ledger.settle(id, Fate::Meaningless, "AllowQos says which QOS its jobs may have");
        }
        for name in ["qos", "allowqos", "denyqos"] {
            let Some((id, token)) = partition.get(name) else { continue };
            for qos in values::list(&token.value)
                .filter(|one| !one.eq_ignore_ascii_case("ALL") && !one.eq_ignore_ascii_case("N/A"))
            {
                if self.site.qos(qos).is_none() {
                    ledger.settle(id, Fate::Lost, unknown_qos(self.site, qos));
                }
            }
        }
    }

    /// The group of those without limits of their own, or the largest, has the partition's name, others that of their first member too.
    fn write(
        &mut self,
        partition: &Thing,
        before: &str,
        usual: &Limits,
        groups: BTreeMap<Limits, Members>,
        ledger: &mut Ledger,
    ) {
        let mut groups: Vec<(Limits, Members)> = groups.into_iter().collect();
        let size = |members: &Members| members.tenants.len() + members.queues.len() + members.users.len();
        groups.sort_by_key(|(limits, members)| (limits != usual, std::cmp::Reverse(size(members))));
        for (at, (limits, members)) in groups.into_iter().enumerate() {
            let of_users = !members.users.is_empty();
            let first = members.users.first().or(members.tenants.first()).or(members.queues.first());
            let first = first.map_or("", |first| first.as_str());
            let (tenant, rest) = first.split_once('/').unwrap_or((first, ""));
            let wanted = match (at, of_users) {
                (0, false) => partition.name.clone(),
                (_, true) => format!("{before}{}-{rest}", partition.name),
                (_, false) => format!("{}-{tenant}", partition.name),
            };
            let users = if of_users { ", for users with limits of their own" } else { "" };
            let description = format!("partition {} of Slurm{users}", partition.name);
            self.push(&wanted, &description, &limits, members, partition.id, ledger);
        }
    }

    /// One default class.
    fn push(
        &mut self,
        wanted: &str,
        description: &str,
        limits: &Limits,
        members: Members,
        of: Id,
        ledger: &mut Ledger,
    ) {
        let name = self.names.take(wanted);
        let longest = members.tenants.len().max(members.queues.len()).max(members.users.len());
        if longest > MAX_MEMBERS {
            let here = format!(
                "the service class {name} would have {longest} members, and {MAX_MEMBERS} are the most"
            );
            ledger.settle(of, Fate::Lost, here);
            return;
        }
        let spec = v1::ServiceClassSpec { default_class: true, ..limits.spec() };
        self.made.documents.push(document(&name, description, members, spec));
    }

    /// Classes of the queues of accounts whose limits are not those of their tenant.
    fn account_queues(&mut self, tenants: &Tenants, ledger: &mut Ledger) {
        let partition = self.site.default_partition();
        for account in &self.site.accounts {
            let Some(Spot { tenant, queue: Some(queue) }) = tenants.spots.get(&account.of.name) else {
                continue;
            };
            let top =
                tenants.all.iter().find(|one| one.name == *tenant).map_or("", |one| one.account.as_str());
            let usual = self.limits(partition, &self.line(top), ledger);
            let own = self.limits(partition, &self.line(&account.of.name), ledger);
            let queues: BTreeSet<String> = [format!("{tenant}/{queue}")].into();
            let description = format!("account {} of Slurm", account.of.name);
            if own != usual {
                let members = Members { queues: queues.clone(), ..Members::default() };
                self.push(&account.of.name, &description, &own, members, account.of.id, ledger);
            }
            for (user, limits) in self.own_limits(&account.of.name, partition, ledger) {
                let is_single = self.singled.get(tenant).is_some_and(|users| users.contains(user));
                if limits != own || is_single {
                    let users = [format!("{tenant}/{user}")].into();
                    let members = Members { queues: queues.clone(), users, ..Members::default() };
                    let wanted = format!("{}-{user}", account.of.name);
                    self.push(&wanted, &description, &limits, members, account.of.id, ledger);
                }
            }
        }
    }

    /// The service classes of QOS, for those that have them.
    fn all_qos(&mut self) {
        for qos in &self.site.qos {
            let key = qos.name.to_ascii_lowercase();
            let (Some(name), Some(limits), Some(members)) =
                (self.made.class_of.get(&key), self.qos.get(&key), self.members.get(&key))
            else {
                continue;
            };
            let text = if qos.text("descr").is_empty() { "" } else { ": " };
            let description = format!("QOS {} of Slurm{text}{}", qos.name, qos.text("descr"));
            let document = document(name, &description, members.clone(), limits.spec());
            self.made.documents.push(document);
        }
    }

    /// Who has a QOS; `None` is nobody.
    fn members(&self, qos: &Thing, tenants: &Tenants, ledger: &mut Ledger) -> Option<Members> {
        let roots: Vec<&Thing> = self.site.roots.iter().collect();
        let has = |tenant: &&super::tenants::Tenant| {
            let line = self.line(&tenant.account);
            let list = inherited(&line, "qos").or(inherited(&roots, "qos"));
            !self.site.has_accounts || list.is_some_and(|(_, token)| has_qos(&token.value, &qos.name, false))
        };
        let having: BTreeSet<String> =
            tenants.all.iter().filter(has).map(|tenant| tenant.name.clone()).collect();
        self.single_users(qos, &having, tenants, ledger);
        let allows = |name: &str| {
            let partition = self.site.partitions.iter().find(|one| one.name == name);
            partition.is_none_or(|partition| allows(partition, &qos.name))
        };
        let own = self.made.queue_of.iter().filter(|((tenant, _), _)| having.contains(tenant));
        let (inside, outside): (Vec<_>, Vec<_>) = own.partition(|((_, partition), _)| allows(partition));
        if outside.is_empty() {
            let is_everybody = having.len() == tenants.all.len();
            let tenants = if is_everybody { BTreeSet::new() } else { having.clone() };
            return (!having.is_empty()).then(|| Members { tenants, ..Members::default() });
        }
        let queues: BTreeSet<String> =
            inside.into_iter().map(|((tenant, _), queue)| format!("{tenant}/{queue}")).collect();
        (!queues.is_empty()).then(|| Members { queues, ..Members::default() })
    }

    /// Says of users with lists of QOS of their own that classes are for their tenants.
    fn single_users(&self, qos: &Thing, having: &BTreeSet<String>, tenants: &Tenants, ledger: &mut Ledger) {
        for user in &self.site.users {
            let (Some((id, token)), Some(spot)) = (user.of.get("qos"), tenants.spots.get(&user.account))
            else {
                continue;
            };
            let tenant_has = having.contains(&spot.tenant);
            if has_qos(&token.value, &qos.name, tenant_has) != tenant_has {
                let can = if tenant_has { "may use it all the same" } else { "may not use it" };
                let here = format!("service classes are for tenants: of {}, this user {can}", qos.name);
                ledger.settle(id, Fate::Differs, here);
            }
        }
    }

    /// Says what has become of the QOS that associations name.
    fn said_of_associations(&self, ledger: &mut Ledger) {
        let things = self.site.accounts.iter().map(|one| &one.of);
        for thing in things.chain(self.site.users.iter().map(|one| &one.of)) {
            for name in ["qos", "defaultqos"] {
                let Some((id, token)) = thing.get(name) else { continue };
                for qos in values::list(&token.value).map(|one| one.trim_start_matches(['+', '-'])) {
                    if self.site.qos(qos).is_none() {
                        ledger.settle(id, Fate::Lost, unknown_qos(self.site, qos));
                    }
                }
            }
        }
    }
}

fn unknown_qos(site: &Site, qos: &str) -> String {
    if !site.has_qos {
        return format!("nothing is known of `{qos}`: no list of QOS was given (`--qos`)");
    }
    let nearest = site.qos.iter().min_by_key(|one| strsim::damerau_levenshtein(&one.name, qos));
    format!("there is no QOS `{qos}`; did you mean {}?", nearest.map_or("normal", |one| one.name.as_str()))
}

/// Whether a partition names the QOS that its jobs may have: then those that they may not have are not read.
fn has_list(partition: &Thing) -> bool {
    let list = partition.text("allowqos");
    !list.is_empty() && !values::list(list).any(|one| one.eq_ignore_ascii_case("ALL"))
}

/// Whether jobs of a partition may have a QOS.
fn allows(partition: &Thing, qos: &str) -> bool {
    let named = |list: &str| {
        let is = |one: &str| one.eq_ignore_ascii_case(qos) || one.eq_ignore_ascii_case("ALL");
        values::list(partition.text(list)).any(is)
    };
    if has_list(partition) { named("allowqos") } else { !named("denyqos") }
}

/// Whether a list of QOS has one. One of `+` and `-` changes what is there `above`.
fn has_qos(list: &str, qos: &str, above: bool) -> bool {
    let named = |sign: &str| {
        values::list(list).any(|one| one.strip_prefix(sign).is_some_and(|one| one.eq_ignore_ascii_case(qos)))
    };
    if values::list(list).any(|one| one.starts_with(['+', '-'])) {
        return (above || named("+")) && !named("-");
    }
    named("")
}

fn more(count: usize) -> String {
    if count > 1 { format!(" and {} more", count - 1) } else { String::new() }
}

fn document(name: &str, description: &str, members: Members, spec: v1::ServiceClassSpec) -> v1::ServiceClass {
    let members = v1::ServiceClassMembers {
        tenants: members.tenants.into_iter().collect(),
        queues: members.queues.into_iter().collect(),
        users: members.users.into_iter().collect(),
        ..v1::ServiceClassMembers::default()
    };
    let description: String = description.chars().filter(|c| !c.is_control()).take(250).collect();
    v1::ServiceClass {
        api_version: "rail/v1".to_owned(),
        kind: "ServiceClass".to_owned(),
        metadata: Some(v1::Metadata { name: name.to_owned(), ..v1::Metadata::default() }),
        spec: Some(v1::ServiceClassSpec {
            description,
            members: (members != v1::ServiceClassMembers::default()).then_some(members),
            ..spec
        }),
        status: None,
    }
}
