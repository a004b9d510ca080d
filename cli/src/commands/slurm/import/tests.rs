//! Whole sites: the inputs are files beside this one, and every document goes through the reader of documents.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;

use super::{
    columns, conf,
    decide::{Made, decide},
    dump,
    fate::Fate,
    jobs,
    ledger::{Entry, Token},
    report,
    shared::Clock,
    site::Inputs,
    yaml,
};
use crate::{args::SlurmAccounts, documents::Source, error::Error};

const CONF: &str = include_str!("tests/site/slurm.conf");
const NODES: &str = include_str!("tests/site/nodes.conf");
const ACCOUNTS: &str = include_str!("tests/site/accounts.dump");
const QOS: &str = include_str!("tests/site/qos.txt");
const RESERVATIONS: &str = include_str!("tests/site/reservations.txt");
const QUEUE: &str = include_str!("tests/site/queue.txt");
/// 2029-06-01.
const CLOCK: Clock = Clock { now: 1_874_966_400, offset: time::UtcOffset::UTC };

fn lines(text: &str) -> Vec<Vec<Token>> {
    let mut open = |name: &str| match name {
        "nodes.conf" => Ok((name.to_owned(), NODES.as_bytes().to_vec())),
        _ => Err(format!("there is no {name}")),
    };
    conf::read("slurm.conf", text.as_bytes(), &mut open).unwrap()
}

fn site() -> Inputs {
    let script = |number: &str, text: &str| {
        (number.to_owned(), (format!("slurm-{number}.sh"), text.as_bytes().to_vec()))
    };
    Inputs {
        conf: lines(CONF),
        accounts: Some(dump::read("accounts.dump", ACCOUNTS.as_bytes()).unwrap()),
        qos: Some(columns::table("qos.txt", QOS.as_bytes(), &["Name"]).unwrap()),
        reservations: Some(
            columns::records("reservations.txt", RESERVATIONS.as_bytes(), "ReservationName").unwrap(),
        ),
        queue: Some(columns::table("queue.txt", QUEUE.as_bytes(), &jobs::COLUMNS).unwrap()),
        scripts: [
            script("101", include_str!("tests/site/scripts/slurm-101.sh")),
            script("102", include_str!("tests/site/scripts/slurm-102.sh")),
        ]
        .into(),
    }
}

/// What is made, once its documents have been read as `railctl apply` reads them.
fn made(inputs: Inputs, how: SlurmAccounts) -> Made {
    let made = decide(inputs, how, CLOCK).unwrap();
    for file in &made.files {
        let read = Source::of(&file.name, yaml(file).into_bytes()).documents();
        let read = read.unwrap_or_else(|error| panic!("{error}\n{}", yaml(file)));
        assert_eq!(read.len(), file.documents.len(), "{}", file.name);
    }
    made
}

/// Documents of a file by `TENANT/NAME`, or by their names.
fn documents(made: &Made, name: &str) -> BTreeMap<String, Value> {
    let key = |one: &Value| {
        let text = |field: &str| one["metadata"][field].as_str().map(str::to_owned);
        let name = text("name").unwrap();
        text("tenant").map_or(name.clone(), |tenant| format!("{tenant}/{name}"))
    };
    let files = made.files.iter().filter(|file| file.name == name);
    files.flat_map(|file| &file.documents).map(|one| (key(one), one["spec"].clone())).collect()
}

fn entry<'a>(made: &'a Made, place: &str) -> &'a Entry {
    made.entries
        .iter()
        .find(|entry| format!("{}:", entry.token.place).starts_with(place))
        .unwrap_or_else(|| panic!("{place}: {}", report::text(&made.entries, &made.notes, true)))
}

#[test]
fn accounts_with_users_are_tenants() {
    let made = made(site(), SlurmAccounts::Each);
    let tenants = documents(&made, "tenants.yaml");
    assert_eq!(tenants.keys().collect::<Vec<_>>(), ["chem-1", "physics", "vision"]);
    let quota = |name: &str, field: &str| tenants[name]["quota"][field].clone();
    assert_eq!(
        (quota("vision", "gpus"), quota("vision", "jobs"), quota("vision", "weight")),
        (128.into(), 500.into(), 40.into())
    );
    assert_eq!(quota("physics", "gpus"), 96, "as many as science may have");
    assert_eq!(quota("chem-1", "gpus"), 16);
    assert_eq!(tenants["vision"]["description"], "computer vision, lab");
    assert_eq!(entry(&made, "accounts.dump:5:").fate, Fate::Differs);
    assert!(
        made.commands
            .contains(&"railctl --tenant physics tenant issue-cert ada --role tenant-admin".to_owned())
    );
    assert!(made.commands.contains(&"railctl tenant issue-cert root --role admin".to_owned()));
    assert!(
        made.commands.contains(&"railctl label 'node/gpu[015-016]' debug=yes".to_owned()),
        "{:?}",
        made.commands
    );
}

#[test]
fn accounts_at_the_top_are_tenants_and_the_others_their_queues() {
    let made = made(site(), SlurmAccounts::Top);
    assert_eq!(documents(&made, "tenants.yaml").keys().collect::<Vec<_>>(), ["science", "vision"]);
    let queues = documents(&made, "queues.yaml");
    assert_eq!(
        (&queues["science/chem-1"]["limit"], &queues["science/physics"]["weight"]),
        (&16.into(), &2.into())
    );
    let classes = documents(&made, "service-classes.yaml");
    assert_eq!(classes["chem-1"]["members"]["queues"][0], "science/chem-1");
    assert_eq!(classes["chem-1"]["job"]["timeLimitMax"], "172800s");
    assert_eq!(classes["physics-bob"]["user"]["jobsRunning"], 2);
    assert_eq!(classes["physics-bob"]["members"]["users"][0], "science/bob");
}

#[test]
fn partitions_are_queues_and_classes() {
    let made = made(site(), SlurmAccounts::Each);
    let queues = documents(&made, "queues.yaml");
    assert_eq!(queues["vision/debug"]["limit"], 16, "the GPUs of its node set");
    assert!(!queues.contains_key("vision/cpu"), "DenyAccounts");
    assert_eq!(queues["physics/cpu"]["limit"], 0);
    assert!(queues["physics/batch"]["limit"].is_null(), "it has all GPUs");
    let classes = documents(&made, "service-classes.yaml");
    assert_eq!(classes["batch"]["members"]["tenants"][0], "physics");
    assert_eq!(
        (&classes["batch"]["job"]["timeLimitMax"], &classes["batch"]["job"]["timeLimitDefault"]),
        (&"604800s".into(), &"86400s".into())
    );
    assert_eq!(classes["batch-chem-1"]["job"]["timeLimitMax"], "172800s", "the account's own limit");
    assert_eq!(classes["batch-vision"]["user"]["jobsRunning"], 20);
    assert_eq!(classes["batch-bob"]["members"]["users"][0], "physics/bob");
    let debug = &classes["debug"];
    assert_eq!(
        (&debug["job"]["nodesMax"], &debug["job"]["priorityDefault"], &debug["job"]["timeLimitDefault"]),
        (&2.into(), &100.into(), &"600s".into())
    );
    assert_eq!((&debug["user"]["gpus"], &debug["user"]["jobsRunning"]), (&4.into(), &1.into()), "QOS=debug");
    assert_eq!(debug["defaultClass"], true);
}

#[test]
fn qos_are_classes_of_those_that_have_them() {
    let made = made(site(), SlurmAccounts::Each);
    let classes = documents(&made, "service-classes.yaml");
    let high = &classes["high"];
    assert_eq!(high["members"]["tenants"], serde_json::json!(["vision"]));
    assert_eq!(
        (&high["job"]["gpusMax"], &high["job"]["priorityMax"], &high["user"]["jobsWaiting"]),
        (&32.into(), &100.into(), &10.into())
    );
    assert_eq!(
        classes["scavenger"]["preemption"],
        serde_json::json!({"preempts": false, "preemptible": true, "gracePeriod": "120s"})
    );
    assert_eq!(
        classes["scavenger"]["members"]["queues"],
        serde_json::json!(["physics/batch", "physics/debug"]),
        "AllowQos of cpu"
    );
    assert!(classes["normal"]["members"].is_null() && classes["normal"]["defaultClass"].is_null());
    let user = entry(&made, "accounts.dump:16:50:");
    assert!(
        user.fate == Fate::Differs && user.here.contains("of scavenger, this user may not use it"),
        "{}",
        user.here
    );
}

#[test]
fn reservations_licenses_and_jobs_are_made() {
    let made = made(site(), SlurmAccounts::Each);
    let reservations = documents(&made, "reservations.yaml");
    assert_eq!(reservations.keys().collect::<Vec<_>>(), ["course-1", "maint"]);
    assert_eq!(
        reservations["maint"],
        serde_json::json!({"nodes": ["gpu[001-004]"], "start": "2030-01-15T08:00:00Z", "duration": "7200s", "maintenance": true})
    );
    assert_eq!(reservations["course-1"]["tenants"], serde_json::json!(["physics", "vision"]));
    assert!(entry(&made, "reservations.txt:3:1:").here.contains("it is over"));
    assert!(entry(&made, "reservations.txt:2:179:").here.starts_with("WEEKLY"));
    let licenses = documents(&made, "licenses.yaml");
    assert_eq!((&licenses["matlab"]["total"], &licenses["ansys-flex"]["total"]), (&40.into(), &2.into()));
    let jobs = documents(&made, "jobs-physics.yaml");
    let train = &jobs["train-v2"];
    assert_eq!(
        (&train["timeLimit"], &train["queue"], &train["licenses"]["matlab"]),
        (&"172800s".into(), &"batch".into(), &2.into())
    );
    let sweep = &jobs["sweep"];
    assert_eq!(
        (&sweep["array"], &sweep["after"][0]["job"], &sweep["serviceClass"]),
        (&"0-9%2".into(), &"train-v2".into(), &"scavenger".into())
    );
    assert_eq!(sweep["gang"]["gpusPerNode"], 1, "given on the command line of sbatch alone");
    assert!(entry(&made, "queue.txt:4:1:").here.contains("it ends in Slurm"));
    assert!(entry(&made, "queue.txt:5:1:").here.contains("scontrol write batch_script 104"));
}

#[test]
fn every_setting_is_in_the_report() {
    let inputs = site();
    let cells = |rows: &Option<Vec<Vec<Token>>>| {
        rows.iter()
            .flatten()
            .flatten()
            .filter(|cell| !matches!(cell.value.as_str(), "" | "(null)" | "n/a" | "N/A"))
            .count()
    };
    let dumped: usize = inputs.accounts.iter().flatten().map(|record| 1 + record.settings.len()).sum();
    let all = inputs.conf.iter().flatten().count()
        + dumped
        + cells(&inputs.qos)
        + cells(&inputs.reservations)
        + cells(&inputs.queue);
    let made = made(inputs, SlurmAccounts::Each);
    assert_eq!(made.entries.len(), all);
    for entry in &made.entries {
        assert!(!entry.here.is_empty() && (entry.is_unknown || !entry.there.is_empty()), "{entry:?}");
    }
    let unknown: Vec<&Entry> = made.entries.iter().filter(|entry| entry.is_unknown).collect();
    assert_eq!(unknown.len(), 1, "{unknown:?}");
    assert_eq!(unknown[0].here, "`MaxJobCnt` is not known in slurm.conf; did you mean MaxJobCount?");
    let json = report::json(&made.entries, &made.notes);
    assert_eq!(json["settings"].as_array().unwrap().len(), all);
    let text = report::text(&made.entries, &made.notes, true);
    assert_eq!(text.lines().filter(|line| line.starts_with("  ")).count(), all);
    let short = report::text(&made.entries, &made.notes, false);
    assert!(short.lines().count() < text.lines().count() && short.contains(" more: "), "{short}");
}

#[test]
fn without_an_accounting_dump_all_are_of_one_tenant() {
    let made = made(Inputs { conf: lines(CONF), ..Inputs::default() }, SlurmAccounts::Each);
    assert_eq!(documents(&made, "tenants.yaml").keys().collect::<Vec<_>>(), ["alpha"]);
    assert_eq!(documents(&made, "queues.yaml").len(), 3);
    assert!(made.notes.iter().any(|note| note.contains("no accounting dump")));
    let allowed = entry(&made, "slurm.conf:26:52:");
    assert_eq!((allowed.token.name.as_str(), allowed.fate), ("DenyAccounts", Fate::Lost));
}

#[test]
fn ranks_of_partitions_say_who_is_stopped_for_whom() {
    let text = "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\nNodeName=n[0-3] Gres=gpu:4\n\
                PartitionName=low Nodes=ALL PriorityTier=1 GraceTime=60\nPartitionName=main Nodes=ALL Default=YES PriorityTier=5 MaxTime=0\n\
                PartitionName=top Nodes=ALL PriorityTier=9 PreemptMode=OFF\n";
    let made = made(Inputs { conf: lines(text), ..Inputs::default() }, SlurmAccounts::Each);
    let classes = documents(&made, "service-classes.yaml");
    let of = |name: &str| {
        (
            classes[name]["job"]["priorityDefault"].as_i64(),
            classes[name]["preemption"]["preemptible"].as_bool(),
        )
    };
    assert_eq!(
        (of("low"), of("main"), of("top")),
        ((Some(-100), Some(true)), (None, Some(true)), (Some(100), Some(false)))
    );
    assert_eq!(classes["low"]["preemption"]["gracePeriod"], "60s");
    assert_eq!(documents(&made, "tenants.yaml")["slurm"]["quota"]["gpus"], 16);
}

#[test]
fn values_that_make_no_sense_are_said_all_at_once_with_their_places() {
    let text = "ClusterName=a\nNodeName=n[1-1000000] Gres=gpu:8\nNodeName=m[1-2 Gres=gpu:h:x\nPartitionName=p Nodes=ALL MaxTime=soon MaxNodes=few Default=maybe\n\
                PartitionName=p Nodes=m1\nLicenses=matlab:many\n";
    let wrong =
        decide(Inputs { conf: lines(text), ..Inputs::default() }, SlurmAccounts::Each, CLOCK).unwrap_err();
    let Error::Document(said) = &wrong else { panic!("{wrong}") };
    for expected in [
        "slurm.conf:2:1: NodeName: has 1000000 names; all nodes together may be 131072",
        "slurm.conf:3:1: NodeName: the bracket at column 2 has no partner",
        "slurm.conf:3:16: Gres: `x` in `gpu:h:x`",
        "slurm.conf:4:27: MaxTime: `SOON` is no time",
        "slurm.conf:4:40: MaxNodes: `few` is no number",
        "slurm.conf:5:1: PartitionName: the partition `p` is there already, at slurm.conf:4:1",
        "slurm.conf:6:1: Licenses: `many` in `matlab:many` is no number of licenses",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    assert_eq!(wrong.exit_code(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is in the inputs, what is made can be read, and every setting is in the report.
    #[test]
    fn whatever_is_said_is_made_or_refused(
        partitions in prop::collection::vec(("[a-zA-Z_.-]{1,8}", "(UNLIMITED|[0-9]{1,7}|[0-9]-0[0-9]:00)", 0_u32..20, "(ALL|n[0-9]|n\\[0-3\\])"), 0..4),
        accounts in prop::collection::vec(("[a-zA-Z_.-]{1,8}", "(parent|[0-9]{1,8})", "(cpu=1|gres/gpu=[0-9]{1,3})", "[a-z.]{1,5}"), 0..4),
    ) {
        let mut text = "NodeName=n[0-9] Gres=gpu:2\n".to_owned();
        for (name, time, tier, nodes) in &partitions {
            text.push_str(&format!("PartitionName={name} MaxTime={time} PriorityTier={tier} Nodes={nodes}\n"));
        }
        let mut dumped = String::new();
        for (name, share, limit, user) in &accounts {
            dumped.push_str(&format!("Parent - 'root'\nAccount - '{name}':Fairshare={share}:GrpTRES={limit}\nParent - '{name}'\nUser - '{user}':MaxJobs=3\n"));
        }
        let inputs = Inputs { conf: lines(&text), accounts: Some(dump::read("d", dumped.as_bytes()).unwrap()), ..Inputs::default() };
        let all = inputs.conf.iter().flatten().count() + inputs.accounts.iter().flatten().map(|one| 1 + one.settings.len()).sum::<usize>();
        for how in [SlurmAccounts::Each, SlurmAccounts::Top] {
            let inputs = Inputs { conf: lines(&text), accounts: Some(dump::read("d", dumped.as_bytes()).unwrap()), ..Inputs::default() };
            if let Ok(made) = decide(inputs, how, CLOCK) {
                prop_assert_eq!(made.entries.len(), all);
                for file in &made.files {
                    let read = Source::of(&file.name, yaml(file).into_bytes()).documents();
                    prop_assert!(read.is_ok(), "{}\n{}", read.unwrap_err(), yaml(file));
                }
            }
        }
    }
}
