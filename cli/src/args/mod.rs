//! What can be said on the command line: one file per noun, nothing but shapes.

mod asked;
mod audit;
mod auth;
mod changes;
mod cluster;
mod color;
mod dev;
mod events;
mod fabric;
mod history;
mod interactive;
mod jobs;
mod kubernetes;
mod label;
mod list;
mod noun;
mod qos;
mod queue;
mod rails;
mod resources;
mod revoke;
mod secret;
mod sharing;
mod simulate;
mod slurm;
mod slurm_import;
mod switch;
mod switch_rollout;
mod timeline;
mod top;
mod upgrade;
mod usage;
mod validate;
mod values;
mod wait;
mod webhook;

pub use asked::Asked;
pub use audit::{AuditCommand, AuditList, Decision};
pub use auth::{AuthCommand, CanI, TokenCommand};
pub use changes::{Hold, Limit, Release, Requeue, Resume, Suspend, Update};
pub use cluster::{ConfigCommand, DrainNodes, Login, NodeCommand, RoleArg, TenantCommand};
pub use color::Color;
pub use dev::{DevCommand, DevGuard, DevLaunch, DevSwitch, DevTarget, DevUp, Leaves};
pub use events::{EventNoun, EventOutput, Events};
pub use fabric::{DocumentFormat, ExportFormat, FabricCommand, Generate, Show, TopologyCommand, Verify};
pub use history::{HistoryCommand, HistoryExport};
pub use interactive::{Alloc, Copy, Exec, PortForward, Run, SignalJob, Sizing};
pub use jobs::{Attach, Cancel, Explain, InPlace, Logs, Plan, Source as JobSource, Submit};
pub use kubernetes::{AddressManagement, KubernetesCommand, KubernetesNetworks, NetworkType};
pub use label::{Label, LabelNoun};
pub use list::{ListArgs, ListOutput};
pub use noun::jobs as job_names;
pub use qos::{QosApply, QosCommand, QosOffline, QosOutput, QosSteer};
pub use queue::{QueueCommand, ScheduleCommand};
pub use rails::{Drain, RailCommand};
pub use resources::{
    Apply, Delete, DeleteNoun, Describe, DescribeNoun, Diff, Edit, EditNoun, Get, GetNoun, PhaseArg,
    Undelete, UndeleteNoun,
};
pub use revoke::RevokeCommand;
pub use secret::{CreateCommand, CreateValues, parse_env_from};
pub use sharing::{Reserve, ReserveCommand};
pub use simulate::{PartArg, PolicyArg, ReplayLog, Simulate, SimulationOutput, WithinArg};
pub use slurm::{SlurmCommand, SlurmEpilog, SlurmNames, SlurmPlace, SlurmProlog, SlurmServe, WhenAway};
pub use slurm_import::{SlurmAccounts, SlurmImport, SlurmReport};
pub use switch::{
    SwitchAsic, SwitchBuffers, SwitchCommand, SwitchHardware, SwitchNos, SwitchRender, SwitchRouting,
    SwitchSource,
};
pub use switch_rollout::{SwitchApply, SwitchControl, SwitchToken};
pub use timeline::{Timeline, TimelineOutput};
pub use top::{Efficiency, Top, TopNoun};
pub use upgrade::{UpgradeCommand, UpgradeOutput, UpgradePlan};
pub use usage::{Usage, UsageBy, UsageCommand, UsageFilter, UsageList, UsageSum};
pub use validate::Validate;
pub use values::{
    Moment, Output, Rate, parse_duration, parse_label, parse_long_jobs, parse_moment, parse_objective,
    parse_ranks, parse_size, parse_speed,
};
pub use wait::{Condition, Wait, WaitNoun};
pub use webhook::WebhookCommand;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

const AFTER_HELP: &str = "Settings come from flags, then RAIL_CONTROLLER, RAIL_CA, RAIL_CERT, RAIL_KEY, RAIL_TOKEN, \
RAIL_TENANT and RAIL_CONTEXT, then the context of ~/.config/railyard/config.yaml (or $RAIL_CONFIG).\n\n\
Exit codes: 0 ok, 1 error, 2 usage or a bad file, 3 not found, 4 denied, 5 conflict, 6 infeasible, \
7 timeout or unavailable.";

/// Submits jobs to a Railyard cluster, shows and explains it, and runs local clusters.
#[derive(Debug, Parser)]
#[command(name = "railctl", version, after_help = AFTER_HELP, max_term_width = 110, disable_help_subcommand = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Where the cluster is and as whom to speak; every command takes these.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub struct Global {
    /// Context of the configuration file to use
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
    /// Controller, https://HOST:PORT or unix:/PATH; several with commas
    #[arg(long, global = true, value_name = "ENDPOINT", value_delimiter = ',')]
    pub controller: Vec<String>,
    /// File with the cluster's CA certificate (PEM)
    #[arg(long, global = true, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// File with your certificate (PEM)
    #[arg(long, global = true, value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// File with your certificate's key (PEM)
    #[arg(long, global = true, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// API token, or a file with it, in place of a certificate
    #[arg(long, global = true, value_name = "TOKEN")]
    pub token: Option<String>,
    /// Tenant to act for or to look at (administrators only; others have their own)
    #[arg(long, global = true, value_name = "TENANT")]
    pub tenant: Option<String>,
    /// Limit of one request, for example 10s
    #[arg(long, global = true, value_name = "TIME", value_parser = parse_duration)]
    pub request_timeout: Option<std::time::Duration>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Submit a job file, or a batch script with #SBATCH lines
    Submit(Submit),
    /// Hold servers while a command runs here, for example a shell; `railctl run` in it runs commands on them
    ///
    /// What runs finds RAIL_JOB, RAIL_TENANT, RAIL_NODES and RAIL_NNODES in its environment. When it ends, or railctl is ended, the servers
    /// are given back; the exit code is that of the command.
    Alloc(Alloc),
    /// Run a command on the servers of a running job, as its ranks run; without a job on servers that are allocated for it
    ///
    /// Output comes as it is written. Ctrl-C goes to the command; a second one within a second ends it. The exit code is the highest of
    /// all processes, 128 and the signal's number for one that a signal ended.
    Run(Run),
    /// Run one command on one server of a running job; `railctl run --job` runs it on all of them
    Exec(Exec),
    /// Copy a file or folder into a running job, or out of it
    ///
    /// A file needs a shell and `cat` in the job, a folder `tar` as well. A file has its name only when all of it has arrived.
    #[command(name = "cp")]
    Copy(Copy),
    /// Make ports of a running job reachable from here, for example that of its TensorBoard
    PortForward(PortForward),
    /// Send a signal to the ranks of a running job
    Signal(SignalJob),
    /// Draw the life of a job: what it did from when to when, attempt by attempt, on which servers and ranks
    ///
    /// It is made of what the controller keeps of the job: its attempts, the decisions about it, exits of its ranks, and, for administrators,
    /// who changed it. What is no longer kept is said. With `-o perfetto` it is a trace that https://ui.perfetto.dev opens.
    Timeline(Timeline),
    /// Show what servers and running jobs use now
    Top(Top),
    /// Sum up what jobs held: GPU-, server- and NIC-hours by tenant, queue, user or job, also of jobs that are gone
    ///
    /// Each attempt of a job is counted from its placement until its servers have given back what it held, whether its ranks used that or not. One
    /// that runs counts up to now. `railctl usage list` shows each attempt. `-o csv` and `-o json` have exact seconds and milliseconds.
    Usage(Usage),
    /// Show what a job has used of what it had, as Slurm's seff does
    #[command(name = "seff")]
    Efficiency(Efficiency),
    /// Set labels of jobs and servers, or take them away
    Label(Label),
    /// Tell what you may do
    #[command(subcommand)]
    Auth(AuthCommand),
    /// List jobs, nodes, tenants, queues, reservations, schedules, service classes, licenses, switches, secrets, configs, webhooks, shares or the fabric
    Get(Get),
    /// Show everything about one job, node, tenant, queue, reservation, schedule, service class, license, switch, secret, config or webhook
    Describe(Describe),
    /// Print what a job's ranks wrote
    Logs(Logs),
    /// Show what has happened to jobs and servers, and what happens
    ///
    /// Events are what jobs and servers tell of themselves: when they were submitted, started, held and ended, each attempt of a job, and the causes
    /// that hold now. Who changed what is in `railctl audit ls`.
    Events(Events),
    /// Print what a running job writes from now on, until it ends; Ctrl-C leaves it as it is
    Attach(Attach),
    /// Wait until something is so of jobs or servers
    Wait(Wait),
    /// End jobs
    Cancel(Cancel),
    /// Keep a job from starting; it keeps its place in the queue. One that runs goes on, and is held if it is queued again
    Hold(Hold),
    /// Let a job go on that is held
    Release(Release),
    /// Stop a job as a preemption would, and keep it from starting until it is resumed; that is no failure, and it keeps its age in the queue
    Suspend(Suspend),
    /// Let a job go on that is suspended or held: it is queued, and starts as a new attempt
    Resume(Resume),
    /// Stop a job as a preemption would, and queue it again at once; that is no failure
    Requeue(Requeue),
    /// Change a job: priority, time limit, queue and nodes while it waits, the time limit while it runs
    Update(Update),
    /// Show where a job would run if it were submitted now
    Plan(Plan),
    /// Tell why a job is in its phase, and how it uses its rails while it runs
    Explain(Explain),
    /// Make fabric documents: from a cabling list, or from sizes
    #[command(subcommand)]
    Fabric(FabricCommand),
    /// Show the fabric, hand it on to other schedulers, and compare it with the cables that are there
    #[command(subcommand)]
    Topology(TopologyCommand),
    /// Write the jobs that have ended, to be simulated
    #[command(subcommand)]
    History(HistoryCommand),
    Simulate(Simulate),
    Replay(ReplayLog),
    /// Create or replace what a file describes: Fabric, Tenant, ServiceClass, License, Switch, Queue, Reservation, Schedule, Secret, Config, Webhook and Job documents
    Apply(Apply),
    /// Make a secret or a config of values and files
    #[command(subcommand)]
    Create(CreateCommand),
    /// Show what `apply` would change, and change nothing
    Diff(Diff),
    /// Change a tenant, queue, reservation, schedule, service class, license, switch, config, webhook or the fabric in your editor
    Edit(Edit),
    /// Delete a job that has ended, a tenant, a queue, a reservation, a schedule, a service class, a license, a switch, a secret, a config, a webhook, a node or the fabric
    Delete(Delete),
    /// Bring back a tenant or a fabric that was deleted not long ago (administrators)
    Undelete(Undelete),
    /// Manage tenants, their quotas and the credentials of their users
    #[command(subcommand)]
    Tenant(TenantCommand),
    /// Let servers join, and take them in and out of use
    #[command(subcommand)]
    Node(NodeCommand),
    /// Show what orders the waiting jobs now, factor by factor
    #[command(subcommand)]
    Queue(QueueCommand),
    /// Start what a schedule would start
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    /// Keep servers for tenants or for maintenance at a time to come
    #[command(subcommand)]
    Reserve(ReserveCommand),
    /// Try the receivers that are told what becomes of jobs
    #[command(subcommand)]
    Webhook(WebhookCommand),
    /// Show the rails, and take them out of use and back
    #[command(subcommand)]
    Rail(RailCommand),
    /// Plan class of service of NICs (PFC, ECN, DSCP, ETS, MTU), and roll a profile out over the fabric
    #[command(subcommand)]
    Qos(QosCommand),
    /// Plan, render and check switches from the same profile as NICs; no cluster is asked
    #[command(subcommand)]
    Switch(SwitchCommand),
    /// Work beside Slurm: hold the servers of its jobs, and keep both of one mind about nodes
    #[command(subcommand)]
    Slurm(SlurmCommand),
    /// Work beside Kubernetes: print what its own programs need to know of rails
    #[command(subcommand)]
    Kubernetes(KubernetesCommand),
    /// List tokens that were issued
    #[command(subcommand)]
    Token(TokenCommand),
    /// Take back certificates and tokens before their end
    #[command(subcommand)]
    Revoke(RevokeCommand),
    /// Show who changed what and who was refused, and check the log of it
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Show how the cluster is
    Health {
        /// How to print it
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Tell what is wrong with servers and what mends it, the worst first (exit 1 if something is out of use)
    Doctor {
        /// Names of servers; none for all
        #[arg(value_name = "NODE")]
        names: Vec<String>,
        /// How to print it
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    Validate(Validate),
    /// Tell how to bring the cluster to another release, and of which release its parts are (administrators)
    #[command(subcommand)]
    Upgrade(UpgradeCommand),
    /// Show who you are to the controller
    Whoami {
        /// Write the certificates of the authorities that the cluster trusts into your CA file, as after `rail-controller ca activate`
        #[arg(long)]
        save_ca: bool,
        /// How to print it
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Start, show and remove a local cluster of real processes
    #[command(subcommand)]
    Dev(DevCommand),
    /// Keep where a cluster is and who you are, as a context of the configuration file, after trying it
    Login(Login),
    /// Show or change railctl's configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a completion script for your shell
    Completion {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write man pages into a folder, one for each command
    Man {
        /// The folder; it is created if need be
        dir: PathBuf,
    },
    /// Print the versions of railctl and, if it can be reached, of the controller
    Version {
        /// Do not ask the controller
        #[arg(long)]
        client: bool,
    },
}
