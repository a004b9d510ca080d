//! `rail-node-agent qos plan|apply|confirm|diff|rollback|status|read`: class of service of this server's own NICs, for somebody who is logged in here.

use std::{io, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, Subcommand};
use node_agent_netlink::{Kernel, NetlinkError, RealKernel};
use node_agent_qos::{
    Device, Finding, Observed, Options, Plan, PlanRefusal, QosProfile, Verdict, data_class, diff,
    journal::Asker, plan, render, vendor,
};

use crate::{
    Journal, Record, agents, device, devices,
    journal::key,
    observe,
    run::{Asked, Outlook, RunError, confirm, go_on, roll_back, run},
};
use crate::{
    document::{ProfileFileError, profile},
    file_journal::FileJournal,
    show,
    trial::{self, Answers},
};

/// Something differs, or was withheld; for scripts.
const DIFFERS: u8 = 3;

/// `rail-node-agent qos`.
#[derive(Debug, Clone, Args)]
pub struct QosArguments {
    #[command(subcommand)]
    action: Action,
    /// The profile (JSON); default: data DSCP 26 on priority 3, lossless, CNP DSCP 48, MTU 9000
    #[arg(long, global = true, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Only this network device; several by commas. Default: all that have RDMA
    #[arg(long, global = true, value_delimiter = ',')]
    device: Vec<String>,
    /// No job runs on this server: edits that harm traffic may be made
    #[arg(long, global = true)]
    drained: bool,
    /// Make edits that harm traffic although jobs may run
    #[arg(long, global = true)]
    force: bool,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// Where the agent keeps its journal
    #[arg(long, global = true, env = "RAIL_DATA_DIR", default_value = "/var/lib/rail-node-agent")]
    data_dir: PathBuf,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum Action {
    /// Show the edits that would make each NIC what the profile says, and what they do to traffic; exit 3 if there are any, or if
    /// the data class could not be read whole
    Plan,
    /// Make them; each is read back, and a NIC on which one fails gets back what it had
    Apply {
        /// Take everything back after this time unless it is confirmed: by the enter key here, or by `qos confirm` from anywhere
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
        confirm_within: Option<u64>,
    },
    /// Keep what `apply --confirm-within` has made
    Confirm,
    /// Show what differs from the profile and what that does to RDMA; exit 3 if anything does, or if the data class could not be read whole
    Diff,
    /// Take back the last apply of each NIC; where that harms traffic only with --drained or --force
    Rollback,
    /// Show the last apply of each NIC, and whether it is in service
    Status,
    /// Print what each NIC is now, as JSON: for `railctl qos plan --nics`, which plans from anywhere
    Read,
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
enum QosError {
    #[error(transparent)]
    Profile(#[from] ProfileFileError),
    #[error(transparent)]
    Device(#[from] NetlinkError),
    #[error("no NIC with RDMA is on this server; name one with --device")]
    NoDevice,
    #[error("the journal of class of service: {0}")]
    Journal(#[from] io::Error),
}

/// Does what the command line says.
#[must_use]
pub fn main(arguments: &QosArguments) -> ExitCode {
    match act(&RealKernel::new(), arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("rail-node-agent qos: {error}");
            ExitCode::FAILURE
        }
    }
}

fn act(kernel: &dyn Kernel, arguments: &QosArguments) -> Result<ExitCode, QosError> {
    if matches!(arguments.action, Action::Status) {
        let records = FileJournal::read(&arguments.data_dir)?;
        print(arguments.json, &records, records.iter().map(show::record));
        return Ok(code(records.iter().all(Record::in_service)));
    }
    if matches!(arguments.action, Action::Confirm) {
        return confirm_all(kernel, arguments).map(code);
    }
    let profile = profile(arguments.profile.as_deref())?;
    let nics = chosen(kernel, arguments)?;
    let seen: Vec<Observed> = nics
        .iter()
        .map(|nic| observe(kernel, nic, arguments.drained, agents::find(kernel.files())))
        .collect();
    match arguments.action {
        Action::Diff => Ok(show_diff(&seen, &profile, arguments.json)),
        Action::Plan => Ok(show_plan(&seen, &profile, arguments)),
        Action::Apply { confirm_within } => {
            let within = confirm_within.map(Duration::from_secs);
            apply(kernel, &seen, &profile, arguments, within)
        }
        Action::Rollback => rollback(kernel, &seen, arguments),
        Action::Read => {
            print(true, &seen, std::iter::empty());
            Ok(ExitCode::SUCCESS)
        }
        Action::Confirm | Action::Status => Ok(ExitCode::SUCCESS),
    }
}

fn chosen(kernel: &dyn Kernel, arguments: &QosArguments) -> Result<Vec<Device>, QosError> {
    if !arguments.device.is_empty() {
        let found = arguments.device.iter().map(|netdev| device::find(kernel, netdev));
        return Ok(found.collect::<Result<_, _>>()?);
    }
    let found = devices(kernel);
    if found.is_empty() { Err(QosError::NoDevice) } else { Ok(found) }
}

fn print<T: serde::Serialize>(json: bool, values: &T, texts: impl Iterator<Item = String>) {
    if json {
        println!("{}", serde_json::to_string_pretty(values).unwrap_or_default());
    } else {
        texts.for_each(|text| print!("{text}"));
    }
}

fn code(done: bool) -> ExitCode {
    if done { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) }
}

fn show_diff(seen: &[Observed], profile: &QosProfile, json: bool) -> ExitCode {
    let verdicts: Vec<_> = seen.iter().map(|seen| diff(profile, seen, vendor::of(seen))).collect();
    let texts =
        seen.iter().zip(&verdicts).map(|(seen, verdict)| render::verdict(&seen.device.netdev, verdict));
    print(json, &verdicts, texts);
    let whole = |(seen, verdict): (&Observed, &Verdict)| {
        verdict.deviations.is_empty() && known(seen, &verdict.findings)
    };
    code(seen.iter().zip(&verdicts).all(whole))
}

/// Whether all of the data class that the driver can set was read.
fn known(seen: &Observed, findings: &[Finding]) -> bool {
    data_class::unverified(findings, vendor::of(seen)).next().is_none()
}

fn planned(seen: &Observed, profile: &QosProfile, arguments: &QosArguments) -> Result<Plan, PlanRefusal> {
    let options = Options { force: arguments.force, ..Options::default() };
    plan(profile, seen, vendor::of(seen), options)
}

fn show_plan(seen: &[Observed], profile: &QosProfile, arguments: &QosArguments) -> ExitCode {
    let mut plans = Vec::new();
    let mut texts = Vec::new();
    let mut whole = true;
    for seen in seen {
        match planned(seen, profile, arguments) {
            Ok(plan) => {
                whole &= plan.edits.is_empty() && plan.withheld.is_empty() && known(seen, &plan.findings);
                texts.push(render::plan(&plan));
                plans.push(plan);
            }
            Err(refusal) => {
                whole = false;
                eprint!("{}", show::refusal(&seen.device.netdev, &refusal));
            }
        }
    }
    print(arguments.json, &plans, texts.into_iter());
    code(whole)
}

/// Who is asking, for the journal: by the login that `sudo` keeps, and the user that this process has.
fn who() -> String {
    let uid = rustix::process::getuid().as_raw();
    let by = std::env::var("SUDO_USER").map(|name| format!(", by sudo from {name}")).unwrap_or_default();
    format!("local user {uid}{by}")
}

fn apply(
    kernel: &dyn Kernel,
    seen: &[Observed],
    profile: &QosProfile,
    arguments: &QosArguments,
    confirm_within: Option<Duration>,
) -> Result<ExitCode, QosError> {
    let mut journal = FileJournal::open(&arguments.data_dir)?;
    let asked = Asked { who: Asker::Local(who()), confirm_within };
    let (mut whole, mut waits) = (true, None);
    for seen in seen {
        match apply_one(kernel, &mut journal, seen, profile, arguments, &asked)? {
            Some(Outlook::Stays) => {}
            Some(Outlook::Waits(until)) => waits = waits.max(Some(until)),
            None => whole = false,
        }
    }
    // While it waits, another process may confirm, or an agent may come up.
    drop(journal);
    if let Some(until) = waits {
        eprintln!(
            "press enter within {} s to keep this, or run `rail-node-agent qos confirm`; else everything is taken back",
            until.since(crate::run::now()).as_secs()
        );
        let kept = Answers::listen().and_then(|answers| trial::wait(&arguments.data_dir, until, &answers));
        let kept = kept.unwrap_or_else(|error| {
            eprintln!("rail-node-agent qos: cannot wait for a confirmation: {error}");
            trial::End::Rejected
        });
        whole &= finish(kernel, arguments, kept)?;
    }
    Ok(code(whole))
}

/// `None` where it is not as the profile says afterwards.
fn apply_one(
    kernel: &dyn Kernel,
    journal: &mut FileJournal,
    seen: &Observed,
    profile: &QosProfile,
    arguments: &QosArguments,
    asked: &Asked,
) -> Result<Option<Outlook>, QosError> {
    let netdev = &seen.device.netdev;
    let mut now = seen.clone();
    if let Some(record) = journal.load()?.iter().find(|record| record.key == key(&seen.device)) {
        match go_on(kernel, journal, record, &seen.device) {
            Ok(None) => {}
            Ok(Some(_)) => {
                eprintln!("{netdev}: it waits to be confirmed; `qos confirm` or `qos rollback` first");
                return Ok(None);
            }
            Err(error) => {
                reported(&Err(error), netdev);
                return Ok(None);
            }
        }
        now = observe(kernel, &seen.device, seen.drained, seen.agents.clone());
    }
    let plan = match planned(&now, profile, arguments) {
        Ok(plan) => plan,
        Err(refusal) => {
            eprint!("{}", show::refusal(netdev, &refusal));
            return Ok(None);
        }
    };
    print(arguments.json, &plan, std::iter::once(render::plan(&plan)));
    if !known(&now, &plan.findings) {
        eprintln!(
            "{netdev}: what of its data class could not be read cannot be verified; nothing is changed"
        );
        return Ok(None);
    }
    if plan.edits.is_empty() {
        return Ok(plan.withheld.is_empty().then_some(Outlook::Stays));
    }
    let result = run(kernel, journal, &now, &plan, asked);
    reported(&result, netdev);
    Ok(result.ok().filter(|outlook| plan.withheld.is_empty() || matches!(outlook, Outlook::Waits(_))))
}

fn reported(result: &Result<Outlook, RunError>, netdev: &str) -> bool {
    match result {
        Ok(Outlook::Stays) => eprintln!("{netdev}: done, and read back"),
        Ok(Outlook::Waits(_)) => eprintln!("{netdev}: done, and read back; it waits to be confirmed"),
        Err(error) => eprintln!("rail-node-agent qos: {error}"),
    }
    result.is_ok()
}

/// The end of a trial: what waits is confirmed, or taken back where its time is over or somebody wants it so.
fn finish(kernel: &dyn Kernel, arguments: &QosArguments, kept: trial::End) -> Result<bool, QosError> {
    match kept {
        trial::End::Others => {
            eprintln!("rail-node-agent qos: another process has settled it; see `qos status`");
            let records = FileJournal::read(&arguments.data_dir)?;
            return Ok(records.iter().all(Record::in_service));
        }
        trial::End::Confirmed => return confirm_all(kernel, arguments),
        trial::End::Late | trial::End::Rejected => {}
    }
    let mut journal = FileJournal::open(&arguments.data_dir)?;
    let why = if kept == trial::End::Late { None } else { Some("it was rejected by who asked for it") };
    for record in waiting(&mut journal, arguments)? {
        reported(&crate::run::end_trial(kernel, &mut journal, record.clone(), &who(), why), record.netdev());
    }
    Ok(false)
}

/// Records that wait to be confirmed, of the chosen NICs.
fn waiting(journal: &mut FileJournal, arguments: &QosArguments) -> Result<Vec<Record>, QosError> {
    let chosen = |record: &Record| {
        let device = &arguments.device;
        device.is_empty() || device.iter().any(|name| name == record.netdev())
    };
    let mut all = journal.load()?;
    all.retain(|record| record.waits_until().is_some() && chosen(record));
    Ok(all)
}

/// False where there is nothing, or where it came too late and was taken back.
fn confirm_all(kernel: &dyn Kernel, arguments: &QosArguments) -> Result<bool, QosError> {
    let mut journal = FileJournal::open(&arguments.data_dir)?;
    let records = waiting(&mut journal, arguments)?;
    if records.is_empty() {
        eprintln!("rail-node-agent qos: nothing here waits to be confirmed");
        return Ok(false);
    }
    let one = |record: Record| {
        let netdev = record.netdev().to_owned();
        reported(&confirm(kernel, &mut journal, record, &who()), &netdev)
    };
    Ok(records.into_iter().map(one).fold(true, |all, one| all & one))
}

fn rollback(kernel: &dyn Kernel, seen: &[Observed], arguments: &QosArguments) -> Result<ExitCode, QosError> {
    let mut journal = FileJournal::open(&arguments.data_dir)?;
    let one = |seen: &Observed| {
        reported(&roll_back(kernel, &mut journal, seen, &who(), arguments.force), &seen.device.netdev)
    };
    Ok(code(seen.iter().map(one).fold(true, |all, one| all & one)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_agent_netlink::{
        Errno,
        fake::{FakeKernel, Style},
    };

    const APPLY: Action = Action::Apply { confirm_within: None };

    fn arguments(action: Action, data_dir: &std::path::Path, drained: bool) -> QosArguments {
        QosArguments {
            action,
            profile: None,
            device: vec!["eth0".into()],
            drained,
            force: false,
            json: false,
            data_dir: data_dir.to_owned(),
        }
    }

    #[test]
    fn plan_apply_diff_rollback_status() {
        let kernel = FakeKernel::new();
        kernel.add("eth0", Style::Mlx5);
        kernel.change(|world| world.files.put("proc/1/comm", "init\n"));
        let room = tempfile::tempdir().unwrap();
        let act = |action, drained| act(&kernel, &arguments(action, room.path(), drained)).unwrap();
        let (whole, differs) = (format!("{:?}", ExitCode::SUCCESS), format!("{:?}", ExitCode::from(DIFFERS)));
        let steps = [
            (Action::Status, true, &whole),
            (Action::Plan, true, &differs),
            (Action::Diff, true, &differs),
            (Action::Confirm, true, &differs),
            (APPLY, false, &differs),
            (APPLY, true, &whole),
            (Action::Diff, true, &whole),
            (Action::Plan, true, &whole),
            (Action::Status, true, &whole),
            (Action::Rollback, false, &differs),
            (Action::Rollback, true, &whole),
            (Action::Diff, true, &differs),
        ];
        for (number, (action, drained, expected)) in steps.into_iter().enumerate() {
            assert_eq!(&format!("{:?}", act(action, drained)), expected, "step {number}, {action:?}");
        }
        let lines = std::fs::read_to_string(room.path().join("qos/audit.jsonl")).unwrap();
        assert_eq!(lines.lines().count(), 2, "{lines}");
        assert!(lines.contains("local user"), "{lines}");
    }

    #[test]
    fn a_data_class_that_cannot_be_read_is_not_right() {
        let kernel = FakeKernel::new();
        kernel.add("eth0", Style::Mlx5);
        kernel.change(|world| world.files.put("proc/1/comm", "init\n"));
        let room = tempfile::tempdir().unwrap();
        let act = |action| format!("{:?}", act(&kernel, &arguments(action, room.path(), true)).unwrap());
        assert_eq!(act(APPLY), format!("{:?}", ExitCode::SUCCESS));
        let broken = |times| {
            let failures = vec![Errno::IO; times];
            kernel.change(|world| world.devices.get_mut("eth0").unwrap().failures.insert("dcb", failures));
        };
        broken(1000);
        for action in [Action::Diff, Action::Plan, APPLY] {
            assert_eq!(act(action), format!("{:?}", ExitCode::from(DIFFERS)), "{action:?}");
        }
        broken(0);
        assert_eq!(act(Action::Diff), format!("{:?}", ExitCode::SUCCESS));
    }

    #[test]
    fn what_is_not_there_is_named() {
        let kernel = FakeKernel::new();
        let room = tempfile::tempdir().unwrap();
        let mut asked = arguments(Action::Plan, room.path(), false);
        let error = act(&kernel, &asked).unwrap_err().to_string();
        assert!(error.contains("eth0: ENODEV"), "{error}");
        asked.device.clear();
        assert!(act(&kernel, &asked).unwrap_err().to_string().contains("--device"));
        asked.profile = Some("/no/such/profile.json".into());
        assert!(act(&kernel, &asked).unwrap_err().to_string().contains("/no/such/profile.json"));
    }
}
