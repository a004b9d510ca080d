//! `upgrade plan` and `upgrade status`: asks each controller and all of them together, and prints what follows from it.

use std::{collections::BTreeSet, future::poll_fn, path::Path, pin::pin, time::Duration};

use clap::CommandFactory as _;
use proto_rpc::{Client, ClientOptions, Credentials, Endpoint};
use proto_wire::v1::{self, get_qos_response, switch_rollout};
use tonic::{
    Status,
    body::Body,
    codegen::{Body as _, Service as _, http},
};

use crate::{
    args::{Cli, Global, UpgradeCommand, UpgradeOutput, UpgradePlan},
    client::{Api, repeat},
    config::{ConfigFile, Environment, resolve},
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

/// Runs it.
///
/// # Errors
/// [`Error::Rpc`] if nobody leads or answers; [`Error::Differs`] if the upgrade is not to be begun.
pub async fn run(
    command: &UpgradeCommand,
    global: &Global,
    env: &Environment,
    api: impl Fn() -> Result<Api, Error>,
) -> Result<(), Error> {
    let railctl = own()?;
    match command {
        UpgradeCommand::Status { output } => {
            let facts = facts(global, env, &api()?, Backup::Unknown).await?;
            print(&match output {
                UpgradeOutput::Table => upgrade::status_text(&facts, railctl),
                UpgradeOutput::Json => upgrade::status_json(&facts, railctl),
            })
        }
        UpgradeCommand::Plan(args) => {
            let target = target(args, railctl)?;
            let facts = facts(global, env, &api()?, backup(args)?).await?;
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

/// The newest backup where the arguments say that they are.
fn backup(args: &UpgradePlan) -> Result<Backup, Error> {
    let Some(path) = &args.backup else {
        return Ok(if args.without_backup { Backup::Waived } else { Backup::Unknown });
    };
    let newest = names(path)?.iter().filter_map(|name| stamp(name)).max();
    Ok(newest.map_or(Backup::Absent, |(at, revision)| Backup::Newest { at, revision }))
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

/// When a backup was begun, in seconds since 1970, and the revision that it has: `CLUSTER-20261130T175729Z-REVISION-AUTHORITY.rail`.
fn stamp(name: &str) -> Option<(i64, u64)> {
    let mut parts = name.strip_suffix(".rail")?.rsplitn(4, '-');
    let (_authority, revision, time) = (parts.next()?, parts.next()?, parts.next()?);
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
    Some((time.assume_utc().unix_timestamp(), revision.parse().ok()?))
}

/// All that is known of the cluster.
async fn facts(global: &Global, env: &Environment, api: &Api, backup: Backup) -> Result<Facts, Error> {
    let settings = resolve(global, env, &ConfigFile::load(env.config_path().as_deref())?)?;
    let health = repeat("ask for the health", |_| {
        let mut client = api.health();
        async move { client.get_health(v1::GetHealthRequest {}).await }
    })
    .await?;
    let controllers = controllers(&settings.endpoints()?, &settings.credentials()?, &health.leader).await;
    let agents = api.list_nodes().await?.nodes.iter().map(agent).collect();
    let switches = api.list_switches().await?.switches.iter().map(switch).collect();
    let cause = health.reasons.first().map_or("no cause is told", |reason| reason.message.as_str());
    Ok(Facts {
        now: now() as i64,
        controllers,
        leader: health.leader,
        revision: health.store_revision,
        unwritable: (!health.store_writable).then(|| cause.to_owned()),
        agents,
        switches,
        rollouts: rollouts(api).await?,
        backup,
    })
}

/// What each controller says of itself.
async fn controllers(endpoints: &[Endpoint], credentials: &Credentials, leader: &str) -> Vec<Controller> {
    let mut all = Vec::new();
    // A socket here is another way to a controller of this machine, which has an address of its own.
    let by_network: Vec<&Endpoint> =
        endpoints.iter().filter(|endpoint| matches!(endpoint, Endpoint::Tcp { .. })).collect();
    let endpoints = if by_network.is_empty() { endpoints.iter().collect() } else { by_network };
    // The host at which the leader says it runs, where one address alone has it.
    let host = leader.rsplit_once(':').map_or(leader, |(host, _)| host);
    let is_there = |endpoint: &Endpoint| matches!(endpoint, Endpoint::Tcp { host: at, .. } if at == host);
    let alone = endpoints.iter().filter(|endpoint| is_there(endpoint)).count() == 1;
    let only = endpoints.len() == 1;
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
        assert_eq!(stamp(name), Some((1_796_061_449, 5219)));
        assert_eq!(stamp(&format!("of-ours-{}", &name[5..])), Some((1_796_061_449, 5219)));
        for bad in [
            "monday.rail",
            "rail-20261330T175729Z-5-3fa9c2d1.rail",
            "rail-20261130T175729Z-5-3fa9c2d1.tmp",
            "rail-2026113éT17572Z-5-3fa9c2d1.rail",
            "",
        ] {
            assert_eq!(stamp(bad), None, "{bad}");
        }
    }

    #[test]
    fn this_program_is_of_a_release() {
        assert!(own().is_ok());
    }
}
