//! `upgrade plan` and `upgrade status`: asks each controller and all of them together, and prints what follows from it.

use std::{collections::BTreeSet, future::poll_fn, path::Path, pin::pin, time::Duration};

use clap::CommandFactory as _;
use proto_rpc::{CaPin, Client, ClientOptions, Credentials, Endpoint, Identity};
use proto_wire::v1::{self, get_qos_response, switch_rollout};
use tonic::{
    Status,
    body::Body,
    codegen::{Body as _, Service as _, http},
};

use super::lookup::identity;
use crate::{
    args::{Cli, Global, UpgradeCommand, UpgradeOutput, UpgradePlan},
    client::{Api, repeat},
    config::{ConfigFile, Environment, Settings, resolve},
    error::Error,
    output::{now, print},
    upgrade::{self, Agent, Backup, Controller, Facts, Switch, Target, Version},
};

/// Longest wait for one controller.
const PATIENCE: Duration = Duration::from_secs(5);
/// The document in which each controller, also one that does not lead, says of which release it is; its length at most, in bytes.
const DOCUMENT: (&str, usize) = ("/v1/openapi.json", 16 << 20);
/// Names of files that are read in a folder of backups.
const FILES: usize = 100_000;
/// Digits of an authority's pin that the name of a backup has.
const DIGITS: usize = 8;
/// What a certificate ends with, in PEM.
const LAST_LINE: &str = "-----END CERTIFICATE-----";

/// Runs it.
///
/// # Errors
/// [`Error::Rpc`] if nobody leads or answers: a status is printed as far as it is known; [`Error::Differs`] if the upgrade is not to be begun.
pub async fn run(
    command: &UpgradeCommand,
    global: &Global,
    env: &Environment,
    api: impl Fn() -> Result<Api, Error>,
) -> Result<(), Error> {
    let railctl = own()?;
    match command {
        UpgradeCommand::Status { output } => {
            let (facts, failed) = seen(global, env, &api()?).await?;
            print(&match output {
                UpgradeOutput::Table => upgrade::status_text(&facts, railctl),
                UpgradeOutput::Json => upgrade::status_json(&facts, railctl),
            })?;
            failed.map_or(Ok(()), Err)
        }
        UpgradeCommand::Plan(args) => {
            let target = target(args, railctl)?;
            // Before the store is asked for its revision, which is not behind that of any backup of it then.
            let files = args.backup.as_deref().map(names).transpose()?;
            let api = api()?;
            let backup = match files {
                Some(files) => backup(&files, &Owner::of(&identity(&api).await?)),
                None if args.without_backup => Backup::Waived,
                None => Backup::Unknown,
            };
            let facts = facts(&settings(global, env)?, &api, health(&api).await?, backup).await?;
            let plan = upgrade::plan(&facts, &target);
            print(&match args.output {
                UpgradeOutput::Table => upgrade::plan_text(&plan),
                UpgradeOutput::Json => upgrade::plan_json(&plan),
            })?;
            match plan.refusals.len() {
                0 => Ok(()),
                count => Err(Error::Differs(format!(
                    "not to be begun: {}",
                    proto_model::reason::many(count, "reason")
                ))),
            }
        }
    }
}

/// The release of this program.
fn own() -> Result<Version, Error> {
    let text = Cli::command().get_version().unwrap_or_default().to_owned();
    Version::parse(&text).ok_or_else(|| Error::Config(format!("`{text}` is no version of a release")))
}

fn target(args: &UpgradePlan, railctl: Version) -> Result<Target, Error> {
    let version = match &args.to {
        None => railctl,
        Some(text) => Version::parse(text)
            .ok_or_else(|| Error::Usage(format!("`{text}` is no version: write it as 1.2.3")))?,
    };
    let backup_within = i64::try_from(args.backup_within.as_secs()).unwrap_or(i64::MAX);
    Ok(Target { version, railctl, backup_within })
}

/// Whose backups count. Clusters often have the same name, and never the same authority.
struct Owner {
    /// What the caller is called by a certificate of the cluster, which has the cluster's name.
    identity: String,
    /// Pins of the authorities that the cluster trusts.
    authorities: Vec<CaPin>,
}

impl Owner {
    fn of(me: &v1::WhoAmIResponse) -> Self {
        let authorities = me.ca_pem.split_inclusive(LAST_LINE).filter_map(CaPin::of_pem).collect();
        Self { identity: me.identity.clone(), authorities }
    }

    fn has(&self, stamp: &Stamp<'_>) -> bool {
        let issued = |pin: &CaPin| {
            let text = pin.to_string();
            text.split(':').next_back().is_some_and(|digits| digits.get(..DIGITS) == Some(stamp.authority))
        };
        Identity::from_uri(&self.identity, stamp.cluster).is_ok() && self.authorities.iter().any(issued)
    }
}

/// The newest backup of this cluster among files of these names.
fn backup(names: &[String], owner: &Owner) -> Backup {
    let stamps: Vec<Stamp<'_>> = names.iter().filter_map(|name| stamp(name)).collect();
    let ours = stamps.iter().filter(|stamp| owner.has(stamp)).map(|stamp| (stamp.at, stamp.revision)).max();
    match ours {
        Some((at, revision)) => Backup::Newest { at, revision },
        None if stamps.is_empty() => Backup::Absent,
        None => Backup::OfOthers,
    }
}

/// The file's name, or those of the folder.
fn names(path: &Path) -> Result<Vec<String>, Error> {
    let failed = |error| Error::file("read", path, error);
    if std::fs::metadata(path).map_err(failed)?.is_dir() {
        let entries = std::fs::read_dir(path).map_err(failed)?.take(FILES);
        return Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect());
    }
    Ok(path.file_name().and_then(|name| name.to_str()).map(str::to_owned).into_iter().collect())
}

/// What the name of a backup says: `CLUSTER-20261130T175729Z-REVISION-AUTHORITY.rail`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp<'a> {
    /// The cluster's name.
    cluster: &'a str,
    /// When it was begun, in seconds since 1970.
    at: i64,
    /// The revision of the store that it has.
    revision: u64,
    /// The first digits of the pin of the cluster's authority.
    authority: &'a str,
}

fn stamp(name: &str) -> Option<Stamp<'_>> {
    let mut parts = name.strip_suffix(".rail")?.rsplitn(4, '-');
    let (authority, revision, time) = (parts.next()?, parts.next()?, parts.next()?);
    let cluster = parts.next()?;
    let (date, clock) = time.strip_suffix('Z')?.split_once('T')?;
    if !(date.len() == 8
        && clock.len() == 6
        && [date, clock].iter().all(|text| text.bytes().all(|b| b.is_ascii_digit())))
    {
        return None;
    }
    let month = time::Month::try_from(date[4..6].parse::<u8>().ok()?).ok()?;
    let date =
        time::Date::from_calendar_date(date[..4].parse().ok()?, month, date[6..].parse().ok()?).ok()?;
    let time =
        date.with_hms(clock[..2].parse().ok()?, clock[2..4].parse().ok()?, clock[4..].parse().ok()?).ok()?;
    Some(Stamp {
        cluster,
        at: time.assume_utc().unix_timestamp(),
        revision: revision.parse().ok()?,
        authority,
    })
}

fn settings(global: &Global, env: &Environment) -> Result<Settings, Error> {
    resolve(global, env, &ConfigFile::load(env.config_path().as_deref())?)
}

async fn health(api: &Api) -> Result<v1::ClusterHealth, Error> {
    repeat("ask for the health", |_| {
        let mut client = api.health();
        async move { client.get_health(v1::GetHealthRequest {}).await }
    })
    .await
}

/// What is known where nobody may lead, and why that is not all.
async fn seen(global: &Global, env: &Environment, api: &Api) -> Result<(Facts, Option<Error>), Error> {
    let settings = settings(global, env)?;
    match health(api).await {
        Ok(health) => Ok((facts(&settings, api, health, Backup::Unknown).await?, None)),
        Err(error) => {
            let controllers = controllers(&settings.endpoints()?, &settings.credentials()?, None).await;
            Ok((Facts::without_leader(controllers, error.to_string()), Some(error)))
        }
    }
}

/// All that is known of the cluster.
async fn facts(
    settings: &Settings,
    api: &Api,
    health: v1::ClusterHealth,
    backup: Backup,
) -> Result<Facts, Error> {
    let leader = Some(health.leader.as_str());
    let controllers = controllers(&settings.endpoints()?, &settings.credentials()?, leader).await;
    let agents = api.list_nodes().await?.nodes.iter().map(agent).collect();
    let switches = api.list_switches().await?.switches.iter().map(switch).collect();
    let cause = health.reasons.first().map_or("no cause is told", |reason| reason.message.as_str());
    Ok(Facts {
        now: now() as i64,
        controllers,
        leader: Ok(health.leader),
        revision: health.store_revision,
        unwritable: (!health.store_writable).then(|| cause.to_owned()),
        agents,
        switches,
        rollouts: rollouts(api).await?,
        backup,
    })
}

/// What each controller says of itself. `leader`: the host and process of the one that leads, where one does.
async fn controllers(
    endpoints: &[Endpoint],
    credentials: &Credentials,
    leader: Option<&str>,
) -> Vec<Controller> {
    let mut all = Vec::new();
    // A socket here is another way to a controller of this machine, which has an address of its own.
    let by_network: Vec<&Endpoint> =
        endpoints.iter().filter(|endpoint| matches!(endpoint, Endpoint::Tcp { .. })).collect();
    let endpoints = if by_network.is_empty() { endpoints.iter().collect() } else { by_network };
    // The host at which the leader says it runs, where one address alone has it.
    let host = leader.map(|leader| leader.rsplit_once(':').map_or(leader, |(host, _)| host));
    let is_there =
        |endpoint: &Endpoint| matches!(endpoint, Endpoint::Tcp { host: at, .. } if Some(at.as_str()) == host);
    let alone = endpoints.iter().filter(|endpoint| is_there(endpoint)).count() == 1;
    let only = leader.is_some() && endpoints.len() == 1;
    for endpoint in endpoints {
        let version = version_at(endpoint, credentials).await;
        let leads = only || (alone && is_there(endpoint));
        all.push(Controller { at: endpoint.to_string(), version, leads });
    }
    all
}

async fn version_at(endpoint: &Endpoint, credentials: &Credentials) -> Result<Version, String> {
    let options =
        ClientOptions { connect_timeout: PATIENCE, timeout: Some(PATIENCE), ..ClientOptions::default() };
    let client = Client::new(std::slice::from_ref(endpoint), credentials, &options);
    let client = client.map_err(|error| error.to_string())?;
    let document = tokio::time::timeout(PATIENCE, document(client)).await;
    let document = document.map_err(|_| "it does not answer in time".to_owned())??;
    let read: serde_json::Value = serde_json::from_slice(&document).map_err(|error| error.to_string())?;
    let text = read["info"]["version"].as_str().unwrap_or_default();
    Version::parse(text).ok_or_else(|| format!("it says that it is of version {text:?}"))
}

/// The whole answer to the question for the document.
async fn document(mut client: Client) -> Result<Vec<u8>, String> {
    let said = |status: Status| status.message().to_owned();
    poll_fn(|context| client.poll_ready(context)).await.map_err(said)?;
    let request = http::Request::get(DOCUMENT.0).body(Body::empty()).map_err(|error| error.to_string())?;
    let answer = client.call(request).await.map_err(said)?;
    if !answer.status().is_success() {
        return Err(format!("it answers {}", answer.status()));
    }
    let (mut body, mut whole) = (pin!(answer.into_body()), Vec::new());
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        let frame = frame.map_err(|error| error.to_string())?;
        whole.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
        if whole.len() > DOCUMENT.1 {
            return Err(format!("its answer is longer than {} bytes", DOCUMENT.1));
        }
    }
    Ok(whole)
}

fn agent(node: &v1::Node) -> Agent {
    let name = node.metadata.as_ref().map(|metadata| metadata.name.clone()).unwrap_or_default();
    let status = node.status.clone().unwrap_or_default();
    let jobs: BTreeSet<_> = status.holds.iter().map(|hold| &hold.job_uid).collect();
    Agent {
        node: name,
        version: Version::parse(&status.agent_version),
        ready: status.phase() == v1::node_status::Phase::Ready,
        jobs: jobs.len(),
    }
}

fn switch(switch: &v1::Switch) -> Switch {
    let name = switch.metadata.as_ref().map(|metadata| metadata.name.clone()).unwrap_or_default();
    let version = switch.status.as_ref().and_then(|status| Version::parse(&status.agent_version));
    Switch { name, version }
}

/// Rollouts that go on.
async fn rollouts(api: &Api) -> Result<Vec<&'static str>, Error> {
    let nics = repeat("look at the rollout of class of service", |_| {
        let mut client = api.qos();
        async move { client.get_qos(v1::GetQosRequest {}).await }
    })
    .await?;
    let switches = repeat("look at the rollout to switches", |_| {
        let mut client = api.switches();
        async move { client.get_switch_rollout(v1::GetSwitchRolloutRequest {}).await }
    })
    .await?;
    let mut all = Vec::new();
    if nics.state() == get_qos_response::State::UnderWay {
        all.push("NICs");
    }
    if switches.state() == switch_rollout::State::UnderWay {
        all.push("switches");
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_says_by_its_name_when_and_what_it_is_of() {
        let name = "rail-20261130T175729Z-00000000000000005219-3fa9c2d1.rail";
        let stamped = Stamp { cluster: "rail", at: 1_796_061_449, revision: 5219, authority: "3fa9c2d1" };
        assert_eq!(stamp(name), Some(stamped));
        let of_ours = format!("of-ours-{}", &name[5..]);
        assert_eq!(stamp(&of_ours), Some(Stamp { cluster: "of-ours", ..stamped }));
        for bad in [
            "monday.rail",
            "20261130T175729Z-5-3fa9c2d1.rail",
            "rail-20261330T175729Z-5-3fa9c2d1.rail",
            "rail-20261130T175729Z-5-3fa9c2d1.tmp",
            "rail-2026113éT17572Z-5-3fa9c2d1.rail",
            "",
        ] {
            assert_eq!(stamp(bad), None, "{bad}");
        }
    }

    #[test]
    fn backups_of_other_clusters_do_not_count() {
        let pin = format!("sha256:3fa9c2d1{}", "0".repeat(56)).parse().unwrap();
        let owner = Owner { identity: "spiffe://rail/lab/admin/root".to_owned(), authorities: vec![pin] };
        let of = |names: &[&str]| backup(&names.iter().map(ToString::to_string).collect::<Vec<_>>(), &owner);
        let ours = "lab-20261130T175729Z-00000000000000005219-3fa9c2d1.rail";
        let renamed = "rail-20261130T185729Z-00000000000000009999-3fa9c2d1.rail";
        let same_name = "lab-20261130T185729Z-00000000000000009999-3fa9c2d2.rail";
        let newest = Backup::Newest { at: 1_796_061_449, revision: 5219 };
        assert_eq!(of(&[same_name, ours, renamed, "notes"]), newest);
        assert_eq!(of(&[same_name, renamed]), Backup::OfOthers);
        assert_eq!(of(&["notes"]), Backup::Absent);
    }

    #[test]
    fn this_program_is_of_a_release() {
        assert!(own().is_ok());
    }
}
