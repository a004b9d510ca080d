//! What a site is, as its inputs say it: nodes, partitions, accounts, users, QOS, reservations, licenses and the queue.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::Names;

use super::{
    columns::Row,
    dump::Record,
    fate::Fate,
    known::Section,
    ledger::{Id, Ledger, Token},
    queue::Queue,
    values,
};

/// Nodes of a cluster at most.
pub const MAX_NODES: usize = 131_072;

/// What the inputs are, read but not understood.
#[derive(Debug, Default)]
pub struct Inputs {
    /// Lines of `slurm.conf`.
    pub conf: Vec<Vec<Token>>,
    /// `sacctmgr dump`; absent where it was not given.
    pub accounts: Option<Vec<Record>>,
    /// `sacctmgr show qos -P`.
    pub qos: Option<Vec<Row>>,
    /// `scontrol show reservation -o`.
    pub reservations: Option<Vec<Row>>,
    /// `squeue`.
    pub queue: Option<Queue>,
    /// Batch scripts by the numbers of their jobs, each with the name of its file.
    pub scripts: BTreeMap<String, (String, Vec<u8>)>,
}

/// Something with a name, and what is said of it, by lower-case name.
#[derive(Debug, Clone)]
pub struct Thing {
    /// What it is called.
    pub name: String,
    /// Where it is named.
    pub head: Token,
    /// The same in the ledger.
    pub id: Id,
    /// Its settings, those of `DEFAULT` lines before it too.
    pub settings: BTreeMap<String, (Id, Token)>,
}

impl Thing {
    /// The setting of this lower-case name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<(Id, &Token)> {
        self.settings.get(name).map(|(id, token)| (*id, token))
    }

    /// Its value; empty where it is not given.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", |(_, token)| token.value.as_str())
    }

    /// The value as `read` reads it. One that it cannot read is an error of the input.
    pub fn read<T>(
        &self,
        name: &str,
        ledger: &mut Ledger,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let (_, token) = self.get(name)?;
        read(&token.value).map_err(|why| ledger.wrong(token, why)).ok()
    }
}

/// Whose jobs are stopped for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preempts {
    /// Nobody's.
    #[default]
    Never,
    /// By the ranks of partitions.
    ByPartition,
    /// By lists of QOS.
    ByQos,
}

/// A user in an account.
#[derive(Debug, Clone)]
pub struct User {
    /// The user with the settings of the association.
    pub of: Thing,
    /// Name of the account.
    pub account: String,
}

/// An account.
#[derive(Debug, Clone)]
pub struct Account {
    /// The account with its settings.
    pub of: Thing,
    /// Name of the account that it is within; `root` at the top.
    pub parent: String,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Site {
    /// Name of the cluster.
    pub cluster: String,
    /// GPUs of each node.
    pub nodes: BTreeMap<String, u32>,
    /// Nodes with each feature.
    pub features: BTreeMap<String, BTreeSet<String>>,
    /// Sets of nodes.
    pub sets: Vec<Thing>,
    /// Partitions, without `DEFAULT`.
    pub partitions: Vec<Thing>,
    /// Settings of the whole cluster; of one that is given twice the last.
    pub settings: BTreeMap<String, (Id, Token)>,
    /// Accounts, without `root`.
    pub accounts: Vec<Account>,
    /// Users in their accounts.
    pub users: Vec<User>,
    /// The account `root` and the cluster itself.
    pub roots: Vec<Thing>,
    /// Whether accounts were given at all.
    pub has_accounts: bool,
    /// QOS.
    pub qos: Vec<Thing>,
    /// Whether QOS were given at all.
    pub has_qos: bool,
    /// Reservations.
    pub reservations: Vec<Thing>,
    /// Jobs.
    pub jobs: Vec<Thing>,
    /// Batch scripts of jobs.
    pub scripts: BTreeMap<String, (String, Vec<u8>)>,
    /// Whose jobs are stopped for others.
    pub preempts: Preempts,
}

impl Site {
    /// All inputs together; each setting is noted in the ledger.
    pub fn of(inputs: Inputs, ledger: &mut Ledger) -> Self {
        let mut site = Self { scripts: inputs.scripts, ..Self::default() };
        site.take_conf(&inputs.conf, ledger);
        site.has_accounts = inputs.accounts.is_some();
        site.take_accounts(inputs.accounts.unwrap_or_default(), ledger);
        site.has_qos = inputs.qos.is_some();
        site.qos = things(inputs.qos, Section::Qos, "Name", "QOS", ledger);
        site.reservations =
            things(inputs.reservations, Section::Reservation, "ReservationName", "reservation", ledger);
        let queue = inputs.queue.unwrap_or_default();
        for (token, why) in queue.misfits {
            let id = ledger.add(Section::Queue, "", &token);
            ledger.settle(id, Fate::Lost, why);
        }
        site.jobs = things(Some(queue.rows), Section::Queue, "JOBID", "job", ledger);
        site
    }

    fn take_conf(&mut self, lines: &[Vec<Token>], ledger: &mut Ledger) {
        let mut defaults: BTreeMap<Section, BTreeMap<String, (Id, Token)>> = BTreeMap::new();
        for line in lines {
            let Some(head) = line.first() else { continue };
            let (section, what) = match head.name.to_ascii_lowercase().as_str() {
                "nodename" => (Section::Node, "node"),
                "nodeset" => (Section::NodeSet, "node set"),
                "downnodes" => (Section::Down, "nodes"),
                "frontendname" => (Section::Frontend, "front end"),
                "partitionname" => (Section::Partition, "partition"),
                _ => {
                    for token in line {
                        let id = ledger.add(Section::Cluster, "", token);
                        self.settings.insert(token.name.to_ascii_lowercase(), (id, token.clone()));
                    }
                    continue;
                }
            };
            let mut thing = thing(line, head, section, what, ledger);
            if head.value.eq_ignore_ascii_case("DEFAULT") {
                ledger.settle(thing.id, Fate::Carried, "what lines after it do not say themselves");
                defaults.entry(section).or_default().extend(thing.settings);
                continue;
            }
            for (name, value) in defaults.get(&section).into_iter().flatten() {
                thing.settings.entry(name.clone()).or_insert_with(|| value.clone());
            }
            match section {
                Section::Node => self.take_nodes(&thing, ledger),
                Section::NodeSet => self.sets.push(thing),
                Section::Partition => self.partitions.push(thing),
                _ => {}
            }
        }
        if let Some((_, token)) = self.settings.get("clustername") {
            self.cluster.clone_from(&token.value);
        }
        let preempts = self.settings.get("preempttype").map_or("", |(_, token)| token.value.as_str());
        self.preempts = match preempts.rsplit('/').next() {
            Some("partition_prio") => Preempts::ByPartition,
            Some("qos") => Preempts::ByQos,
            _ => Preempts::Never,
        };
    }

    fn take_nodes(&mut self, thing: &Thing, ledger: &mut Ledger) {
        let gpus = match thing.read("gres", ledger, values::gpus) {
            Some((gpus, models)) => {
                if let (Some((id, token)), false) = (thing.get("gres"), models.is_empty()) {
                    let here = format!(
                        "agents find the GPUs of their server themselves; jobs may ask for a model (`placement.gpuModel`); `{}` is counted for quotas and limits",
                        token.value
                    );
                    ledger.settle(id, Fate::Differs, here);
                }
                gpus
            }
            None => 0,
        };
        let Some(names) = names(&thing.head, &thing.head.value, MAX_NODES - self.nodes.len(), ledger) else {
            return;
        };
        let features: Vec<&str> =
            ["feature", "features"].iter().flat_map(|name| values::list(thing.text(name))).collect();
        for name in ["feature", "features"] {
            if let Some((id, token)) = thing.get(name) {
                let (fate, here) = feature(&token.value);
                ledger.settle(id, fate, here);
            }
        }
        for name in names {
            for feature in &features {
                self.features.entry((*feature).to_owned()).or_default().insert(name.clone());
            }
            self.nodes.insert(name, gpus);
        }
    }

    fn take_accounts(&mut self, records: Vec<Record>, ledger: &mut Ledger) {
        let mut parent = "root".to_owned();
        for Record { head, settings } in records {
            let of = match head.name.as_str() {
                "User" => format!("user {} in account {parent}", head.value),
                "Account" => format!("account {}", head.value),
                "Cluster" => "cluster".to_owned(),
                _ => String::new(),
            };
            let id = ledger.add(Section::Accounts, &of, &head);
            let noted = settings.into_iter().map(|token| {
                let id = ledger.add(Section::Accounts, &of, &token);
                (long_name(&token.name), (id, token))
            });
            let settings = noted.collect();
            let thing = Thing { name: head.value.to_ascii_lowercase(), head: head.clone(), id, settings };
            match head.name.as_str() {
                "Parent" => parent = thing.name,
                "Account" if thing.name == "root" => self.roots.push(thing),
                "Account" => self.accounts.push(Account { of: thing, parent: parent.clone() }),
                "User" => {
                    let of = Thing { name: head.value.clone(), ..thing };
                    self.users.push(User { of, account: parent.clone() });
                }
                _ => self.roots.push(thing),
            }
        }
        let known: BTreeSet<&str> = self.accounts.iter().map(|account| account.of.name.as_str()).collect();
        let accounts = self.accounts.iter().map(|account| (&account.of, &account.parent));
        let users = self.users.iter().map(|user| (&user.of, &user.account));
        for (of, parent) in accounts.chain(users) {
            if parent != "root" && !known.contains(parent.as_str()) {
                ledger.wrong(&of.head, format!("is within `{parent}`, which is no account of the dump"));
            }
        }
    }

    /// The account of this name.
    #[must_use]
    pub fn account(&self, name: &str) -> Option<&Account> {
        self.accounts.iter().find(|account| account.of.name == name)
    }

    /// The account, then those that it is within, the nearest first. One that is within itself ends it.
    #[must_use]
    pub fn line(&self, name: &str) -> Vec<&Account> {
        let mut line: Vec<&Account> = Vec::new();
        let mut next = self.account(name);
        while let Some(account) = next.filter(|one| !line.iter().any(|seen| seen.of.name == one.of.name)) {
            line.push(account);
            next = self.account(&account.parent);
        }
        line
    }

    /// The QOS of this name.
    #[must_use]
    pub fn qos(&self, name: &str) -> Option<&Thing> {
        self.qos.iter().find(|qos| qos.name.eq_ignore_ascii_case(name))
    }

    /// GPUs of all nodes.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.nodes.values().fold(0, |sum, gpus| sum.saturating_add(*gpus))
    }

    /// The partition of jobs that name none.
    #[must_use]
    pub fn default_partition(&self) -> Option<&Thing> {
        self.partitions.iter().rfind(|one| values::truth(one.text("default")) == Ok(true))
    }

    /// Nodes of a partition, and names in its list that are no nodes.
    pub fn nodes_of(&self, partition: &Thing, ledger: &mut Ledger) -> (BTreeSet<&str>, Vec<String>) {
        let (mut nodes, mut strange) = (BTreeSet::new(), Vec::new());
        let Some((_, token)) = partition.get("nodes") else { return (nodes, strange) };
        if token.value.eq_ignore_ascii_case("ALL") {
            nodes.extend(self.nodes.keys().map(String::as_str));
            return (nodes, strange);
        }
        for name in names(token, &token.value, MAX_NODES, ledger).into_iter().flatten() {
            let set = self.sets.iter().filter(|set| set.name == name).collect::<Vec<_>>();
            for one in &set {
                for feature in values::list(one.text("feature")) {
                    nodes.extend(self.features.get(feature).into_iter().flatten().map(String::as_str));
                }
                if let Some((_, token)) = one.get("nodes") {
                    let listed = names(token, &token.value, MAX_NODES, ledger).into_iter().flatten();
                    nodes.extend(
                        listed
                            .filter_map(|name| self.nodes.get_key_value(&name))
                            .map(|(name, _)| name.as_str()),
                    );
                }
            }
            match self.nodes.get_key_value(&name) {
                Some((name, _)) => {
                    nodes.insert(name.as_str());
                }
                None if set.is_empty() => strange.push(name),
                None => {}
            }
        }
        (nodes, strange)
    }
}

/// What becomes of features: they are labels.
fn feature(list: &str) -> (Fate, String) {
    let lost: Vec<&str> = values::list(list).filter(|one| !values::is_label(one)).collect();
    if lost.is_empty() {
        let here = "labels of these servers, by commands.sh: jobs ask for them (`placement.selector`, `#SBATCH --constraint`)";
        (Fate::Differs, here.to_owned())
    } else {
        (Fate::Lost, format!("{} cannot be the name of a label", lost.join(", ")))
    }
}

/// The names of a list; `most` of them.
fn names(token: &Token, text: &str, most: usize, ledger: &mut Ledger) -> Option<Vec<String>> {
    let read = Names::new(text).map_err(|error| error.to_string()).and_then(|names| {
        let length = names.len();
        if length > most {
            Err(format!("has {length} names; all nodes together may be {MAX_NODES}"))
        } else {
            Ok(names)
        }
    });
    read.map(|names| names.iter().collect()).map_err(|why| ledger.wrong(token, why)).ok()
}

/// Names of keys as `sacctmgr` also takes them.
fn long_name(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    match lower.as_str() {
        "shares" => "fairshare".to_owned(),
        "qoslevel" => "qos".to_owned(),
        "maxwall" => "maxwalldurationperjob".to_owned(),
        _ => lower,
    }
}

fn thing(line: &[Token], head: &Token, section: Section, what: &str, ledger: &mut Ledger) -> Thing {
    let of = format!("{what} {}", head.value);
    let id = ledger.add(section, &of, head);
    let mut settings = BTreeMap::new();
    for token in line.iter().filter(|token| token.place != head.place) {
        let id = ledger.add(section, &of, token);
        settings.insert(token.name.to_ascii_lowercase(), (id, token.clone()));
    }
    Thing { name: head.value.clone(), head: head.clone(), id, settings }
}

/// Rows as things; empty cells say nothing.
fn things(
    rows: Option<Vec<Row>>,
    section: Section,
    name: &str,
    what: &str,
    ledger: &mut Ledger,
) -> Vec<Thing> {
    let mut all = Vec::new();
    for row in rows.unwrap_or_default() {
        let Some(head) = super::columns::cell(&row, name).cloned() else { continue };
        let said: Vec<Token> = row
            .into_iter()
            .filter(|token| !matches!(token.value.as_str(), "" | "(null)" | "N/A" | "n/a"))
            .collect();
        if head.value.is_empty() {
            ledger.wrong(&head, "is empty");
            continue;
        }
        all.push(thing(&said, &head, section, what, ledger));
    }
    all
}
