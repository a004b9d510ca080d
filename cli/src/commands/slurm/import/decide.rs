//! What becomes of a site: all documents, the commands that documents cannot say, and the report. A function of the inputs.

use std::collections::BTreeMap;

use proto_model::Names;
use serde_json::Value;

use super::{
    classes, jobs,
    ledger::{Entry, Ledger},
    shared::{self, Clock},
    site::{Inputs, Site},
    tenants, users, values,
};
use crate::{args::SlurmAccounts, error::Error, render};

/// The file of reservations, which name servers that have to be there.
pub const RESERVATIONS: &str = "reservations.yaml";

/// Documents that go into one file.
#[derive(Debug, Clone, PartialEq)]
pub struct File {
    /// Its name.
    pub name: String,
    /// The tenant on whose behalf it is applied; empty where the documents say it themselves.
    pub tenant: String,
    /// The documents, in the order in which they can be applied.
    pub documents: Vec<Value>,
}

/// All that is made.
#[derive(Debug)]
pub struct Made {
    /// In the order in which they are applied; none of them is empty.
    pub files: Vec<File>,
    /// Commands for what no document says: credentials of users, then labels of servers.
    pub commands: Vec<String>,
    /// Every setting, and what has become of it.
    pub entries: Vec<Entry>,
    /// What is to be known beside.
    pub notes: Vec<String>,
}

/// Makes everything.
///
/// # Errors
/// [`Error::Document`] with all values that cannot be read, each with its place.
pub fn decide(inputs: Inputs, how: SlurmAccounts, clock: Clock) -> Result<Made, Error> {
    let mut ledger = Ledger::default();
    let site = Site::of(inputs, &mut ledger);
    twice(&site, &mut ledger);
    let mut tenants = tenants::make(&site, how, &mut ledger);
    let classes = classes::make(&site, &mut tenants, &mut ledger);
    let (licenses, license_names) = shared::licenses(&site, &mut ledger);
    let reservations = shared::reservations(&site, &tenants, clock, &mut ledger);
    let name = |metadata: &Option<proto_wire::v1::Metadata>| metadata.clone().unwrap_or_default().name;
    let names = reservations.iter().map(|(slurm, one)| (slurm.clone(), name(&one.metadata))).collect();
    let names = jobs::Names { reservations: names, licenses: license_names };
    let jobs = jobs::make(&site, &tenants, &classes, &names, &mut ledger);
    let notes = notes(&site, &classes);
    let mut commands = users::make(&site, &tenants, &mut ledger);
    commands.extend(labels(&site, &mut ledger));
    let (entries, errors) = ledger.finish();
    if !errors.is_empty() {
        return Err(Error::Document(errors.join("\n")));
    }
    let mut files = vec![
        file("tenants.yaml", "", "rail.v1.Tenant", &tenants.documents)?,
        file("queues.yaml", "", "rail.v1.Queue", &[tenants.queue_documents, classes.queues].concat())?,
        file("service-classes.yaml", "", "rail.v1.ServiceClass", &classes.documents)?,
        file("licenses.yaml", "", "rail.v1.License", &licenses)?,
    ];
    let reservations: Vec<_> = reservations.into_iter().map(|(_, one)| one).collect();
    files.push(file(RESERVATIONS, "", "rail.v1.Reservation", &reservations)?);
    for (tenant, jobs) in jobs {
        files.push(file(&format!("jobs-{tenant}.yaml"), &tenant, "rail.v1.Job", &jobs)?);
    }
    files.retain(|file| !file.documents.is_empty());
    Ok(Made { files, commands, entries, notes })
}

fn file<M: prost::Message>(
    name: &str,
    tenant: &str,
    full_name: &str,
    documents: &[M],
) -> Result<File, Error> {
    let documents = documents.iter().map(|one| render::to_value(one, full_name)).collect::<Result<_, _>>()?;
    Ok(File { name: name.to_owned(), tenant: tenant.to_owned(), documents })
}

/// Names that come twice.
fn twice(site: &Site, ledger: &mut Ledger) {
    let accounts = site.accounts.iter().map(|account| ("account", &account.of));
    let partitions = site.partitions.iter().map(|partition| ("partition", partition));
    let qos = site.qos.iter().map(|qos| ("QOS", qos));
    let mut seen = BTreeMap::new();
    for (what, thing) in accounts.chain(partitions).chain(qos) {
        if let Some(first) = seen.insert((what, thing.name.as_str()), &thing.head.place) {
            ledger.wrong(&thing.head, format!("the {what} `{}` is there already, at {first}", thing.name));
        }
    }
}

fn notes(site: &Site, classes: &classes::Classes) -> Vec<String> {
    let mut notes = vec![format!(
        "{} nodes with {} GPUs in all: what tenants without a limit of their own have as `quota.gpus`",
        site.nodes.len(),
        site.gpus()
    )];
    if !site.has_accounts {
        notes.push("no accounting dump was given: one tenant is made, for everybody".to_owned());
    }
    let count = classes.documents.len();
    if count > classes::MAX_CLASSES {
        notes.push(format!(
            "{count} service classes are made, and a cluster has {} at most: users or accounts with limits of their own are many; leave some out",
            classes::MAX_CLASSES
        ));
    }
    notes
}

/// Labels of servers for features and partitions.
fn labels(site: &Site, ledger: &mut Ledger) -> Vec<String> {
    let mut labels = Vec::new();
    let mut label = |key: &str, nodes: &mut dyn Iterator<Item = &str>| {
        let nodes = Names::of(nodes);
        if !nodes.is_empty() && values::is_label(key) {
            labels.push(format!("railctl label {} {key}=yes", values::quoted(&format!("node/{nodes}"))));
        }
    };
    for (feature, nodes) in &site.features {
        label(feature, &mut nodes.iter().map(String::as_str));
    }
    for partition in &site.partitions {
        let (nodes, _) = site.nodes_of(partition, ledger);
        let name = values::Labels::default().take(&partition.name);
        label(&format!("partition-{name}"), &mut nodes.into_iter());
    }
    labels
}
