//! The command line; every option also as `RAIL_CONTROLLER_*` in the environment.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand};
use controller_keys::ProviderSpec;
use proto_model::{Backfill, Cidr, LongJobLimit, Objective};
use proto_rpc::{Endpoint, Listen, telemetry::LogFormat};

use crate::{
    arg_values::{
        Wait, advertised, duration, duration_or_never, duration_or_none, kept_or_never, listen, log_format,
        long_jobs, objective, rest,
    },
    backup_args::BackupArgs,
    key_args::{CaLife, CaRenewals, KeyArgs},
    limit_args::LimitArgs,
    oidc_args::OidcArgs,
    sealing::StoreKeys,
    store_args::{Kind, StoreArgs},
};

/// The brain of a Railyard cluster: API, scheduler, state.
#[derive(Debug, Parser)]
#[command(name = "rail-controller", version, about, propagate_version = true)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serves a cluster until SIGTERM or SIGINT.
    #[command(after_help = proto_rpc::otlp::HELP)]
    Run(Box<Run>),
    /// Makes the cluster's certificate authority and its first administrator; works once.
    Init(Init),
    /// Looks after the cluster's store while no controller runs on it: backup, restore, migrate, verify, drill.
    Store(StoreCommand),
    /// Looks after the cluster's certificate authority in the data folder.
    Ca(CaCommand),
    /// Asks the controller of this machine, or of this container, whether it lives or is ready; exit 1 where it is not.
    Probe(Probe),
}

/// `ca`.
#[derive(Debug, clap::Args)]
pub struct CaCommand {
    /// What to do with it.
    #[command(subcommand)]
    pub action: CaAction,
}

/// What to do with the authority.
#[derive(Debug, Subcommand)]
pub enum CaAction {
    /// Encrypts the authority's key, with the passphrase where one is given, else with the key provider; or changes either.
    Encrypt {
        /// Folder of the controller's state.
        #[arg(long, env = "RAIL_CONTROLLER_DATA_DIR")]
        data_dir: PathBuf,
        /// With what.
        #[command(flatten)]
        keys: KeyArgs,
        /// The passphrase that it is encrypted with now, where that is another one: a file, its first line.
        #[arg(long)]
        old_passphrase_file: Option<PathBuf>,
        /// The provider that wraps it now, where that is another one.
        #[arg(long)]
        old_key_provider: Option<ProviderSpec>,
    },
    /// Makes another authority and trusts both; the old one issues still. Running controllers take it over by themselves.
    Rotate {
        /// Where it is.
        #[command(flatten)]
        at: CaPlace,
        /// How long the new one lives.
        #[command(flatten)]
        life: CaLife,
    },
    /// The new authority issues from now on, and nodes renew; the old one is still trusted.
    Activate {
        /// Where it is.
        #[command(flatten)]
        at: CaPlace,
    },
    /// The old authority is trusted no more; refused while certificates of it are in use.
    Retire {
        /// Where it is.
        #[command(flatten)]
        at: CaPlace,
        /// Whoever still uses a certificate of the old one, and though no controller says who does.
        #[arg(long)]
        force: bool,
    },
    /// One step back: what was activated issues no more, what was only prepared is gone.
    Abort {
        /// Where it is.
        #[command(flatten)]
        at: CaPlace,
    },
    /// Who issues, who is trusted, and who still uses certificates of the one that does not issue.
    Status {
        /// Where it is.
        #[command(flatten)]
        at: CaPlace,
    },
}

/// The authority that is meant.
#[derive(Debug, clap::Args)]
pub struct CaPlace {
    /// Folder of the controller's state.
    #[arg(long, env = "RAIL_CONTROLLER_DATA_DIR")]
    pub data_dir: PathBuf,
    /// What protects its key.
    #[command(flatten)]
    pub keys: KeyArgs,
}

/// `probe`.
#[derive(Debug, clap::Args)]
pub struct Probe {
    /// What is asked.
    #[arg(value_enum)]
    pub what: ProbeArg,
    /// Where it serves /livez and /readyz (`run --metrics`): a loopback address.
    #[arg(long, env = "RAIL_CONTROLLER_METRICS", default_value = "127.0.0.1:7444")]
    pub metrics: SocketAddr,
}

/// What a controller is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ProbeArg {
    /// Whether it answers.
    Live,
    /// Whether calls can be done: it leads, or knows who does, and its store takes writes.
    Ready,
}

/// Where the cluster's state is.
#[derive(Debug, clap::Args)]
pub struct Cluster {
    /// Folder of the controller's state: store, certificate authority, and controller.json while it runs.
    #[arg(long, env = "RAIL_CONTROLLER_DATA_DIR")]
    pub data_dir: PathBuf,
    /// The cluster's name, part of every identity. Fixed by the first start; until then "rail".
    #[arg(long, env = "RAIL_CONTROLLER_CLUSTER")]
    pub cluster: Option<String>,
}

/// `init`.
#[derive(Debug, clap::Args)]
pub struct Init {
    /// The cluster.
    #[command(flatten)]
    pub cluster: Cluster,
    /// Where ca.pem, admin.pem and admin.key are written; default: the data folder.
    #[arg(long, env = "RAIL_CONTROLLER_ADMIN_OUT")]
    pub admin_out: Option<PathBuf>,
    /// The administrator's name.
    #[arg(long, env = "RAIL_CONTROLLER_ADMIN_USER", default_value = "admin")]
    pub admin_user: String,
    /// How long the administrator's certificate lives, in days.
    #[arg(long, env = "RAIL_CONTROLLER_ADMIN_DAYS", default_value_t = 365,
          value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub admin_days: u32,
    /// The file of keys that seal secret values in the store, which is made where it is not there; default: store.keys in
    /// the data folder. `none`: they are to be stored as they are.
    #[arg(long, env = "RAIL_CONTROLLER_STORE_KEYS")]
    pub store_keys: Option<StoreKeys>,
    /// What protects secret files.
    #[command(flatten)]
    pub keys: KeyArgs,
    /// How long the authority lives.
    #[command(flatten)]
    pub ca_life: CaLife,
    /// Logs.
    #[command(flatten)]
    pub logs: Logs,
}

/// What certification does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CertificationArg {
    /// Nothing is measured.
    Off,
    /// What is found is told.
    Warn,
    /// What is found keeps an attempt from starting.
    Require,
}

/// What is done to what goes over rails between servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ProtectionArg {
    /// Nothing.
    None,
    /// It is verified.
    Integrity,
    /// It is verified and encrypted.
    Encrypted,
}

impl From<ProtectionArg> for proto_model::RailProtection {
    fn from(arg: ProtectionArg) -> Self {
        match arg {
            ProtectionArg::None => Self::None,
            ProtectionArg::Integrity => Self::Integrity,
            ProtectionArg::Encrypted => Self::Encrypted,
        }
    }
}

impl From<CertificationArg> for controller_leader::Certification {
    fn from(arg: CertificationArg) -> Self {
        match arg {
            CertificationArg::Off => Self::Off,
            CertificationArg::Warn => Self::Warn,
            CertificationArg::Require => Self::Require,
        }
    }
}

/// How much isolation jobs must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum IsolationArg {
    /// What servers can give.
    BestEffort,
    /// All that keeps tenants apart.
    Required,
}

impl From<IsolationArg> for controller_leader::IsolationPolicy {
    fn from(arg: IsolationArg) -> Self {
        match arg {
            IsolationArg::BestEffort => Self::BestEffort,
            IsolationArg::Required => Self::Required,
        }
    }
}

/// `store`.
#[derive(Debug, clap::Args)]
pub struct StoreCommand {
    /// What to do with it.
    #[command(subcommand)]
    pub action: StoreAction,
}

/// What to do with the store.
#[derive(Debug, Subcommand)]
pub enum StoreAction {
    /// Writes all of it, as of one revision, to one file with checksums. In etcd also while a controller runs.
    Backup {
        /// Which.
        #[command(flatten)]
        which: Which,
        /// The file; it must not be there. It holds secrets, sealed where the store's are (--store-keys).
        #[arg(long)]
        out: PathBuf,
    },
    /// Fills a store from a backup; a store that is there is refused.
    Restore {
        /// Which.
        #[command(flatten)]
        which: Which,
        /// The backup.
        #[arg(long)]
        from: PathBuf,
        /// Replace the store that is there. An embedded one is kept beside it; what etcd has under the prefix is deleted.
        #[arg(long)]
        force: bool,
    },
    /// Copies the store from the data folder to etcd, or from etcd to the data folder, and compares.
    Migrate {
        /// The data folder and etcd.
        #[command(flatten)]
        which: Which,
        /// Where to.
        #[arg(long, value_enum)]
        to: Kind,
        /// Replace the store that is there.
        #[arg(long)]
        force: bool,
    },
    /// Makes a file of keys for --store-keys, or puts a new key in front of its keys; those behind it still open.
    Key {
        /// The file.
        file: PathBuf,
        /// Make no new key, but protect the file as --key-provider says.
        #[arg(long)]
        rewrap: bool,
        /// What protects it.
        #[command(flatten)]
        keys: KeyArgs,
        /// The provider that wraps the file now, where that is another one.
        #[arg(long)]
        old_key_provider: Option<ProviderSpec>,
    },
    /// Writes every secret value anew with the first key of --store-keys, while no controller runs on the store.
    Reseal {
        /// Which.
        #[command(flatten)]
        which: Which,
        /// Write them as they are, so that no keys are needed any more.
        #[arg(long)]
        plain: bool,
    },
    /// Reads and decodes everything, as a starting controller would, and lists what is wrong.
    Verify {
        /// Which.
        #[command(flatten)]
        which: Which,
        /// A backup instead of the store.
        #[arg(long)]
        file: Option<PathBuf>,
    },
    /// Proves a backup: restores it into a folder of its own, which is gone afterwards, and leads on it as a starting controller would. Exit 1 where
    /// none would start from it. Tells what it holds and, where the store that is meant can be read, what a restore would lose.
    Drill {
        /// The store that it would replace, and the keys.
        #[command(flatten)]
        which: Which,
        /// The backup.
        #[arg(long)]
        file: PathBuf,
        /// How the report is written, on standard output.
        #[arg(short, long, value_enum, default_value_t = DrillOutput::Text)]
        output: DrillOutput,
    },
}

/// How the report of a drill is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum DrillOutput {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

/// The store that is meant.
#[derive(Debug, Clone, clap::Args)]
pub struct Which {
    /// Folder of the controller's state; not needed for etcd alone.
    #[arg(long, env = "RAIL_CONTROLLER_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// Its store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// What protects secret files.
    #[command(flatten)]
    pub keys: KeyArgs,
}

/// How logs are written.
#[derive(Debug, clap::Args)]
pub struct Logs {
    /// Level, or a filter such as `info,controller_leader=debug`.
    #[arg(long, env = "RAIL_CONTROLLER_LOG_LEVEL", default_value = "info")]
    pub log_level: String,
    /// `text` or `json`, on standard error.
    #[arg(long, env = "RAIL_CONTROLLER_LOG_FORMAT", default_value = "text", value_parser = log_format)]
    pub log_format: LogFormat,
}

/// `run`.
#[derive(Debug, clap::Args)]
pub struct Run {
    /// The cluster.
    #[command(flatten)]
    pub cluster: Cluster,
    /// Its store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// What protects secret files.
    #[command(flatten)]
    pub keys: KeyArgs,
    /// How long the authority lives.
    #[command(flatten)]
    pub ca_life: CaLife,
    /// How nodes follow another one.
    #[command(flatten)]
    pub ca_renewals: CaRenewals,
    /// Where to serve: IP:port (port 0 takes a free one), https://IP:port, or unix:/path. May be repeated.
    #[arg(long, env = "RAIL_CONTROLLER_LISTEN", value_delimiter = ',', default_value = "127.0.0.1:7443",
          value_parser = listen)]
    pub listen: Vec<Listen>,
    /// A unix socket to serve too.
    #[arg(long, env = "RAIL_CONTROLLER_LISTEN_UNIX")]
    pub listen_unix: Option<PathBuf>,
    /// Where /metrics, /livez, /readyz and /healthz are served, unencrypted: a loopback address.
    #[arg(long, env = "RAIL_CONTROLLER_METRICS", default_value = "127.0.0.1:7444")]
    pub metrics: SocketAddr,
    /// A further DNS name or IP address under which the controller is reached. May be repeated.
    #[arg(long, env = "RAIL_CONTROLLER_SERVER_NAME", value_delimiter = ',')]
    pub server_name: Vec<String>,
    /// Where other controllers of the cluster reach this one, https://host:port; default: the addresses that it listens at,
    /// or this machine's name where it listens at all. With `--store etcd` only. May be repeated.
    #[arg(long, env = "RAIL_CONTROLLER_ADVERTISE", value_delimiter = ',', value_parser = advertised)]
    pub advertise: Vec<Endpoint>,
    /// With `--store etcd`: another controller takes over from a leader that is silent for longer.
    #[arg(long, env = "RAIL_CONTROLLER_LEADER_SILENCE", default_value = "1s", value_parser = duration)]
    pub leader_silence: Duration,
    /// How often agents speak.
    #[arg(long, env = "RAIL_CONTROLLER_HEARTBEAT_INTERVAL", default_value = "1s", value_parser = duration)]
    pub heartbeat_interval: Duration,
    /// A node that was silent for longer is not ready.
    #[arg(long, env = "RAIL_CONTROLLER_HEARTBEAT_LIMIT", default_value = "10s", value_parser = duration)]
    pub heartbeat_limit: Duration,
    /// A controller that writes nothing looks so often whether it still leads, and ends when it does not.
    #[arg(long, env = "RAIL_CONTROLLER_LEAD_CHECK", default_value = "2s", value_parser = duration)]
    pub lead_check: Duration,
    /// An elastic job that has run for so long may be stopped to go on with more nodes when nobody waits, or with fewer
    /// when a job of the same priority does; `never`: only a higher priority makes it yield.
    #[arg(long, env = "RAIL_CONTROLLER_RESIZE_AFTER", default_value = "30m", value_parser = duration_or_never)]
    pub resize_after: Wait,
    /// Jobs that have ended are deleted after this time, for example 720h, unless others still wait for them; `never`: they stay until
    /// somebody deletes them.
    #[arg(long, env = "RAIL_CONTROLLER_ENDED_JOBS_RETENTION", default_value = "never", value_parser = kept_or_never)]
    pub ended_jobs_retention: Wait,
    /// Usage records (`railctl usage`) are dropped after this time, whatever became of the job, for example 400d; `never`: while there are no
    /// more than --usage-records.
    #[arg(long, env = "RAIL_CONTROLLER_USAGE_RETENTION", default_value = "400d", value_parser = kept_or_never)]
    pub usage_retention: Wait,
    /// Usage records that are kept at most, one for each attempt of a job; beyond that the oldest of the tenant that has the most go. A
    /// million take about 0.5 GB of memory.
    #[arg(long, env = "RAIL_CONTROLLER_USAGE_RECORDS", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u32).range(1000..=20_000_000))]
    pub usage_records: u32,
    /// Measure the rails of each gang of two nodes and more before its ranks start: MTU end to end, DSCP as received, loss,
    /// bandwidth, swapped rails. `warn` starts them whatever is found, and the job says what; `require` starts none that is not
    /// certified, uses rails that are swapped as they are cabled, and replaces nodes that are named otherwise where the job lets nodes be
    /// replaced. A job may ask for more (`certification` in its file), never for less.
    #[arg(long, env = "RAIL_CONTROLLER_CERTIFICATION", value_enum, default_value_t = CertificationArg::Off)]
    pub certification: CertificationArg,
    /// Networks that webhooks may call although they are not public (loopback, private, link-local and others), such as 10.20.0.0/16;
    /// several with commas. Every tenant may then have the controller call whatever listens there.
    #[arg(long, env = "RAIL_CONTROLLER_WEBHOOK_ALLOW", value_name = "CIDR", value_delimiter = ',')]
    pub webhook_allow: Vec<Cidr>,
    /// File of the authorities (PEM) that receivers of webhooks are trusted by over https; else the system's.
    #[arg(long, env = "RAIL_CONTROLLER_WEBHOOK_CA", value_name = "FILE")]
    pub webhook_ca: Option<PathBuf>,
    /// How much isolation jobs must have on their servers. `best-effort`: what each server can give; two tenants still never share one that
    /// cannot give each attempt a user of its own. `required`: a user, namespaces, a private /tmp and /dev, a list of system
    /// calls and limits of memory and processes, or the job waits. A tenant may ask for more (`isolation` in its file), never for less.
    #[arg(long, env = "RAIL_CONTROLLER_ISOLATION", value_enum, default_value_t = IsolationArg::BestEffort)]
    pub isolation: IsolationArg,
    /// Protect what goes over the rails of every job at least so: `integrity` finds what was changed on its way before any of it is used,
    /// `encrypted` also keeps it from being read. Protected rails go over TCP, and cost processor time. A job may ask for more
    /// (`engine: {protection: ...}` in its file), never for less; see docs/rail-protection.md.
    #[arg(long, env = "RAIL_CONTROLLER_RAIL_PROTECTION", value_enum, default_value_t = ProtectionArg::None)]
    pub rail_protection: ProtectionArg,
    /// Who may start before jobs that wait ahead of it. `CONSERVATIVE`: whoever delays no planned start of any of them. `EASY`: whoever
    /// does not delay the first of them that waits for nodes, so that small jobs wait less, and large ones longer. `SLACK(30min)`: as
    /// CONSERVATIVE, but those behind a job may delay it up to so long after its submission, and no further.
    #[arg(long, env = "RAIL_CONTROLLER_BACKFILL", default_value_t = Backfill::Conservative)]
    pub backfill: Backfill,
    /// The highest priority that a user may give a job which is of no service class. Above 0 it goes ahead of other tenants' jobs.
    #[arg(long, env = "RAIL_CONTROLLER_USER_PRIORITY", default_value_t = 0, allow_negative_numbers = true,
          value_parser = clap::value_parser!(i32).range(-1000..=1000))]
    pub user_priority: i32,
    /// The same of an administrator of a tenant. Administrators of the cluster may give any.
    #[arg(long, env = "RAIL_CONTROLLER_TENANT_ADMIN_PRIORITY", default_value_t = 0, allow_negative_numbers = true,
          value_parser = clap::value_parser!(i32).range(-1000..=1000))]
    pub tenant_admin_priority: i32,
    /// Large jobs have a head start: among jobs of the same priority and share one goes as if it had been submitted
    /// earlier, by this for every doubling of its GPUs; `none`: only age counts.
    #[arg(long, env = "RAIL_CONTROLLER_HEAD_START", default_value = "none", value_parser = duration_or_none)]
    pub head_start: Wait,
    /// What the order of waiting jobs of equal priority and share is for, where no queue says it: `mean-wait` (short jobs
    /// first), `large-first` (jobs of many GPUs first), both with a patience such as `mean-wait:2d`, by which a job may have
    /// come later at most and go ahead, or `fair` (first come, first served). `mean-wait:16d:12000` puts a job of 12,000
    /// GPU-hours back by 16 days, one of fewer by the square of its part of them. Not given: by age. The head start counts for age and `mean-wait`.
    #[arg(long, env = "RAIL_CONTROLLER_OBJECTIVE", value_name = "OBJECTIVE", value_parser = objective)]
    pub objective: Option<Objective>,
    /// What small jobs that may run for long hold together at most, of all tenants, so that jobs of many GPUs start within days:
    /// `72h:8:100` for 100 GPUs for jobs of fewer than 8 GPUs whose time limit is 72 hours or more, or that have none. `railctl simulate --sweep` tries
    /// it on the site's own history. Not given: any number of GPUs.
    #[arg(long, env = "RAIL_CONTROLLER_LONG_JOBS", value_name = "TIME:BELOW:GPUS", value_parser = long_jobs)]
    pub long_jobs: Option<LongJobLimit>,
    /// Tenants that used less of late, against their weights, go first among jobs of equal priority; `false`: shares count
    /// for nothing.
    #[arg(long, env = "RAIL_CONTROLLER_FAIR_SHARE", value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub fair_share: bool,
    /// Records of changes that the audit log keeps; older ones are dropped behind a signed checkpoint.
    #[arg(long, env = "RAIL_CONTROLLER_AUDIT_RECORDS", default_value_t = 200_000,
          value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    pub audit_records: u64,
    /// MiB of records of changes that the audit log keeps.
    #[arg(long, env = "RAIL_CONTROLLER_AUDIT_MIB", default_value_t = 128,
          value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub audit_mib: u64,
    /// Records of denials that the audit log keeps beside those of changes: no number of denials pushes out a change.
    #[arg(long, env = "RAIL_CONTROLLER_AUDIT_DENIALS", default_value_t = 100_000,
          value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    pub audit_denials: u64,
    /// MiB of records of denials that the audit log keeps.
    #[arg(long, env = "RAIL_CONTROLLER_AUDIT_DENIALS_MIB", default_value_t = 64,
          value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub audit_denials_mib: u64,
    /// How long the name of a deleted tenant rests before another tenant can have it, so that nothing takes the one for the
    /// other: days (30d), hours (12h), or 0 for not at all. Administrators can take it earlier (--reuse-name).
    #[arg(long, env = "RAIL_CONTROLLER_TENANT_NAME_QUARANTINE", default_value = "30d", value_parser = rest)]
    pub tenant_name_quarantine: Duration,
    /// How long a tenant or a fabric that was deleted can be brought back (`railctl undelete`): days (7d), hours (12h), or 0 for not
    /// at all.
    #[arg(long, env = "RAIL_CONTROLLER_UNDELETE_FOR", default_value = "7d", value_parser = rest)]
    pub undelete_for: Duration,
    /// How many of them are kept at most; the oldest go for newer ones.
    #[arg(long, env = "RAIL_CONTROLLER_UNDELETE_MAX", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub undelete_max: u32,
    /// What callers may use.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Sign-on by an OpenID provider.
    #[command(flatten)]
    pub oidc: OidcArgs,
    /// Backups.
    #[command(flatten)]
    pub backups: BackupArgs,
    /// Logs.
    #[command(flatten)]
    pub logs: Logs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arg_values::interval;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
        let args = Args::try_parse_from([
            "rail-controller",
            "run",
            "--data-dir",
            "/d",
            "--listen",
            "https://127.0.0.1:0",
            "--listen",
            "unix:/s",
            "--metrics",
            "127.0.0.1:0",
            "--heartbeat-limit",
            "500ms",
            "--lead-check",
            "300ms",
            "--resize-after",
            "never",
            "--head-start",
            "720m",
            "--long-jobs",
            "3d:8:100",
            "--user-priority",
            "-5",
            "--ended-jobs-retention",
            "720h",
            "--audit-records",
            "1000",
            "--audit-denials",
            "500",
            "--backup-dir",
            "/b",
            "--backup-every",
            "6h",
        ]);
        let Command::Run(run) = args.unwrap().command else { panic!("not run") };
        assert_eq!(run.listen.len(), 2);
        assert_eq!(run.heartbeat_limit, Duration::from_millis(500));
        assert_eq!(run.lead_check, Duration::from_millis(300));
        assert_eq!(run.resize_after, Wait(None));
        assert_eq!(run.head_start, Wait(Some(Duration::from_secs(12 * 3600))));
        assert_eq!(run.long_jobs.map(|limit| limit.to_string()).as_deref(), Some("72h:8:100"));
        assert_eq!((run.user_priority, run.tenant_admin_priority), (-5, 0));
        assert_eq!(run.ended_jobs_retention, Wait(Some(Duration::from_secs(720 * 3600))));
        assert_eq!(
            (run.usage_retention, run.usage_records),
            (Wait(Some(Duration::from_secs(400 * 86_400))), 1_000_000)
        );
        assert_eq!(kept_or_never("30m"), Ok(Wait(Some(Duration::from_secs(1800)))));
        assert!(["0", "", "soon", "9999d"].iter().all(|bad| kept_or_never(bad).is_err()));
        assert_eq!((run.audit_records, run.audit_mib), (1000, 128));
        assert_eq!((run.audit_denials, run.audit_denials_mib), (500, 64));
        assert_eq!(run.tenant_name_quarantine, Duration::from_secs(30 * 86_400));
        assert_eq!((run.undelete_for, run.undelete_max), (Duration::from_secs(7 * 86_400), 100));
        assert_eq!((rest("0"), rest("36h")), (Ok(Duration::ZERO), Ok(Duration::from_secs(36 * 3600))));
        assert_eq!(run.backups.backup_dir.as_deref(), Some(std::path::Path::new("/b")));
        assert_eq!((run.backups.backup_every, run.backups.backup_keep), (Duration::from_secs(6 * 3600), 48));
        assert_eq!(
            (interval("1s"), interval("30d")),
            (Ok(Duration::from_secs(1)), Ok(Duration::from_secs(30 * 86_400)))
        );
        for bad in ["", "0", "0d", "31d", "999ms", "1", "never"] {
            assert!(interval(bad).is_err(), "{bad}");
        }
        for bad in ["", "1", "d", "-1d", "30", "3651d", "1d2h", "never"] {
            assert!(rest(bad).is_err(), "{bad}");
        }
        for bad in ["", "s", "1", "1h", "0s", "-1s", "99999999999999999999s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
