//! What is said about resources of every kind: get, describe, apply, delete.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{
    ListArgs, Output,
    noun::{Noun, NounParser},
    parse_label,
};

/// What can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GetNoun {
    /// Jobs
    #[value(alias = "job", alias = "j")]
    Jobs,
    /// Servers
    #[value(alias = "node", alias = "no")]
    Nodes,
    /// Tenants
    #[value(alias = "tenant")]
    Tenants,
    /// Queues
    #[value(alias = "queue", alias = "q")]
    Queues,
    /// Reservations
    #[value(alias = "reservation")]
    Reservations,
    /// Schedules
    #[value(alias = "schedule")]
    Schedules,
    /// Service classes
    #[value(alias = "service-class", alias = "sc")]
    ServiceClasses,
    /// Licenses
    #[value(alias = "license", alias = "lic")]
    Licenses,
    /// Switches that the cluster knows
    #[value(alias = "switch", alias = "sw")]
    Switches,
    /// Secrets; their values are never shown
    #[value(alias = "secret")]
    Secrets,
    /// Configs
    #[value(alias = "config", alias = "cfg")]
    Configs,
    /// Webhooks
    #[value(alias = "webhook", alias = "wh")]
    Webhooks,
    /// What tenants and queues have used of late, and hold
    #[value(alias = "share")]
    Shares,
    /// The fabric
    Fabric,
}

/// A job's phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PhaseArg {
    Pending,
    Reserved,
    Preparing,
    Running,
    Recovering,
    Completed,
    Failed,
    Cancelled,
}

#[derive(Debug, Args)]
pub struct Get {
    /// What to list, or KIND/NAME
    #[arg(value_name = "KIND", value_parser = NounParser::<GetNoun>::new())]
    pub noun: Noun<GetNoun>,
    /// Only these; servers also as n[0-7]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Only those with this label; may be repeated
    #[arg(short = 'l', long = "label", visible_alias = "selector", value_name = "KEY=VALUE", value_parser = parse_label)]
    pub labels: Vec<(String, String)>,
    /// Only jobs in these phases
    #[arg(long, value_name = "PHASE", value_enum, value_delimiter = ',', ignore_case = true)]
    pub phase: Vec<PhaseArg>,
    /// Only jobs that this user has submitted
    #[arg(short, long, value_name = "USER")]
    pub user: Option<String>,
    /// Only jobs of this queue
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// Go on and print every change
    #[arg(short, long)]
    pub watch: bool,
    /// Jobs, queues, schedules, secrets, configs or webhooks of all tenants (administrators)
    #[arg(short = 'A', long)]
    pub all_tenants: bool,
    #[command(flatten)]
    pub list: ListArgs,
}

/// What can be described.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DescribeNoun {
    /// A job
    #[value(alias = "jobs")]
    Job,
    /// A server
    #[value(alias = "nodes")]
    Node,
    /// A tenant
    #[value(alias = "tenants")]
    Tenant,
    /// A queue
    #[value(alias = "queues")]
    Queue,
    /// A reservation
    #[value(alias = "reservations")]
    Reservation,
    /// A schedule
    #[value(alias = "schedules")]
    Schedule,
    /// A service class
    #[value(alias = "service-classes", alias = "sc")]
    ServiceClass,
    /// A license
    #[value(alias = "licenses", alias = "lic")]
    License,
    /// A switch that the cluster knows
    #[value(alias = "switches", alias = "sw")]
    Switch,
    /// A secret
    #[value(alias = "secrets")]
    Secret,
    /// A config
    #[value(alias = "configs", alias = "cfg")]
    Config,
    /// A webhook
    #[value(alias = "webhooks", alias = "wh")]
    Webhook,
}

#[derive(Debug, Args)]
pub struct Describe {
    /// What to describe, or KIND/NAME; a name alone is a job's
    #[arg(value_name = "KIND", value_parser = NounParser::or_name_of(DescribeNoun::Job))]
    pub noun: Noun<DescribeNoun>,
    /// Names; servers also as n[0-7]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "With --dry-run the documents of all files are judged together, by the controller's own rules: each as if those before it \
                  had been applied, so that a file may make a tenant, its queues and a job of them. Nothing is stored and nothing starts. \
                  All documents that are refused are told, each with its place in the file. More than 256 documents, or 10000 elements of \
                  arrays, are judged one by one."
)]
pub struct Apply {
    /// File with one or more documents (YAML or JSON); - reads standard input; may be repeated
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Only tell what would be created or changed, and what is refused; nothing is stored
    #[arg(long)]
    pub dry_run: bool,
    /// For a fabric that shall cable much fewer servers than now, or none: otherwise that is refused
    #[arg(long)]
    pub allow_shrink: bool,
    /// Take names of tenants that were deleted not long ago, which rest otherwise
    #[arg(long)]
    pub reuse_name: bool,
}

/// What can be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeleteNoun {
    /// A job that has ended
    #[value(alias = "jobs")]
    Job,
    /// A tenant without jobs
    #[value(alias = "tenants")]
    Tenant,
    /// A queue without jobs and without queues within it
    #[value(alias = "queues")]
    Queue,
    /// A reservation that no job waits for
    #[value(alias = "reservations")]
    Reservation,
    /// A schedule; its jobs stay
    #[value(alias = "schedules")]
    Schedule,
    /// A service class that no job is of
    #[value(alias = "service-classes", alias = "sc")]
    ServiceClass,
    /// A license that no job asks for
    #[value(alias = "licenses", alias = "lic")]
    License,
    /// What the cluster knows of a switch; its configuration and the fabric document stay
    #[value(alias = "switches", alias = "sw")]
    Switch,
    /// A secret
    #[value(alias = "secrets")]
    Secret,
    /// A config
    #[value(alias = "configs", alias = "cfg")]
    Config,
    /// A webhook, with what waits to be sent by it
    #[value(alias = "webhooks", alias = "wh")]
    Webhook,
    /// A server on which nothing runs
    #[value(alias = "nodes")]
    Node,
    /// The fabric document
    Fabric,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A tenant and the fabric can be brought back for a time: `railctl undelete tenant/NAME`, `railctl undelete --list`."
)]
pub struct Delete {
    /// What to delete, or KIND/NAME
    #[arg(value_name = "KIND", value_parser = NounParser::<DeleteNoun>::new(), required_unless_present = "files")]
    pub noun: Option<Noun<DeleteNoun>>,
    /// Names, the fabric's too; servers also as n[0-7]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// What the documents of a file describe, the last first; - reads standard input; may be repeated
    #[arg(short = 'f', long = "file", value_name = "FILE", conflicts_with_all = ["noun", "uid", "force"])]
    pub files: Vec<PathBuf>,
    /// For a server that is gone for good: you vouch that nothing runs there, and its jobs lose what they hold on it
    #[arg(long)]
    pub force: bool,
    /// Only tell what would go with a tenant or the fabric
    #[arg(long)]
    pub dry_run: bool,
    /// Of a tenant: refuse unless this is its uid
    #[arg(long, value_name = "UID")]
    pub uid: Option<String>,
    /// Do not ask. Without it tenants, the fabric and servers by force are deleted on a terminal only, where it asks
    #[arg(long, short = 'y')]
    pub yes: bool,
}

/// What can be brought back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UndeleteNoun {
    /// A tenant, with what went along
    #[value(alias = "tenants")]
    Tenant,
    /// A fabric document
    Fabric,
}

#[derive(Debug, Args)]
#[command(
    after_help = "What is deleted is kept for 7 days (`rail-controller run --undelete-for`), at most 100 of them (`--undelete-max`); of tenants \
                  or fabrics of one name the last. It is brought back by the rules that hold now, and refused where something else has taken \
                  the name since.\n\nA tenant comes back with its queues, its webhooks and their secrets, its shares in reservations that are \
                  not over, and its places in service classes. Its schedules come back suspended: whoever applies one lets it go on and owns \
                  it. Its secrets and configs do not come back, and its jobs neither: only ended ones went with it, and their records and logs are gone, as is what webhooks had \
                  still to tell.\n\nCredentials stay revoked: a tenant that comes back has another uid, and certificates carry the old one; \
                  API tokens went when it was deleted. Whoever deleted the tenant meant to shut its people out, and one that comes back a week \
                  later would let in everybody who still holds a key, those who have left meanwhile too. Give them new ones \
                  (`railctl tenant issue-cert`, `railctl tenant issue-token`)."
)]
pub struct Undelete {
    /// What to bring back, or KIND/NAME
    #[arg(value_name = "KIND", value_parser = NounParser::<UndeleteNoun>::new(), required_unless_present = "list")]
    pub noun: Option<Noun<UndeleteNoun>>,
    /// Its name
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Tell what can be brought back, and until when
    #[arg(long, conflicts_with_all = ["noun", "names", "dry_run"])]
    pub list: bool,
    /// Only check, and tell what would come back
    #[arg(long)]
    pub dry_run: bool,
    /// How to print the list
    #[arg(short, long, value_enum, default_value_t, requires = "list")]
    pub output: Output,
}

#[derive(Debug, Args)]
#[command(after_help = "Each document is judged as if those before it had been applied; nothing is stored. \
                  Exit codes: 0 where nothing would change, 1 where something would, 2 to 7 as everywhere.")]
pub struct Diff {
    /// File with one or more documents (YAML or JSON); - reads standard input; may be repeated
    #[arg(short = 'f', long = "file", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
}

/// What can be edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EditNoun {
    /// A tenant
    #[value(alias = "tenants")]
    Tenant,
    /// A queue
    #[value(alias = "queues")]
    Queue,
    /// A reservation
    #[value(alias = "reservations")]
    Reservation,
    /// A schedule
    #[value(alias = "schedules")]
    Schedule,
    /// A service class
    #[value(alias = "service-classes", alias = "sc")]
    ServiceClass,
    /// A license
    #[value(alias = "licenses", alias = "lic")]
    License,
    /// A switch that the cluster knows
    #[value(alias = "switches", alias = "sw")]
    Switch,
    /// A config
    #[value(alias = "configs", alias = "cfg")]
    Config,
    /// A webhook
    #[value(alias = "webhooks", alias = "wh")]
    Webhook,
    /// The fabric
    Fabric,
}

#[derive(Debug, Args)]
pub struct Edit {
    /// What to edit, or KIND/NAME; jobs are changed by `railctl update`, servers by `railctl node`
    #[arg(value_name = "KIND", value_parser = NounParser::<EditNoun>::new())]
    pub noun: Noun<EditNoun>,
    /// Its name
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// For a fabric that shall cable much fewer servers than now, or none: otherwise that is refused
    #[arg(long)]
    pub allow_shrink: bool,
}
