//! Whole sites: the inputs are files beside this one, and every document goes through the reader of documents.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;

use super::{
    columns, conf,
    decide::{Made, decide},
    dump,
    fate::Fate,
    ledger::{Entry, Token},
    queue, report, script,
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
        queue: Some(queue::read("queue.txt", QUEUE.as_bytes()).unwrap()),
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
    let credentials = [
        "railctl tenant issue-cert root --role admin --out credentials/administrators",
        "railctl --tenant physics tenant issue-cert ada --role tenant-admin --out credentials/tenants/physics",
        "railctl --tenant physics tenant issue-cert bob --role user --out credentials/tenants/physics",
    ];
    assert_eq!(made.commands[..3], credentials, "before all labels");
    let labels: Vec<&String> = made.commands.iter().filter(|one| one.contains(" label ")).collect();
    assert!(labels.contains(&&"railctl label 'node/gpu[015-016]' debug=yes".to_owned()), "{labels:?}");
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
    let single = serde_json::json!({"users": ["physics/bob"]});
    assert_eq!(classes["z-batch-bob"]["members"], single, "also for jobs that name no queue");
    assert_eq!(classes["debug-bob"]["members"]["queues"][0], "physics/debug");
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
    assert_eq!(reservations["course-1"]["tenants"], serde_json::json!(["physics"]), "ada's, within science");
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
        + cells(&inputs.queue.as_ref().map(|queue| queue.rows.clone()));
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

const TOP: &str = "Parent - 'root'\nAccount - 'science':Fairshare=1\nAccount - 'arts':Fairshare=1\nParent - 'science'\n\
                   Account - 'physics':Fairshare=1\nAccount - 'chem':Fairshare=1\n";
const NODES_OF_FOUR: &str = "NodeName=n[0-3] Gres=gpu:4\n";

fn of(conf: &str, accounts: &str) -> Inputs {
    let accounts = (!accounts.is_empty()).then(|| dump::read("d", accounts.as_bytes()).unwrap());
    Inputs { conf: lines(&format!("{NODES_OF_FOUR}{conf}")), accounts, ..Inputs::default() }
}

/// Jobs of one tenant by the queue and their scripts.
fn queued(conf: &str, rows: &str, scripts: &[(&str, &str)]) -> Made {
    let header =
        "JOBID|STATE|ACCOUNT|USER|PARTITION|QOS|NODES|TRES_PER_NODE|TIME_LIMIT|DEPENDENCY|LICENSES|NAME";
    let text = format!("{header}\n{rows}");
    let scripts = scripts.iter().map(|(number, options)| {
        let text = format!("#!/bin/sh\n{options}\ntrue\n");
        ((*number).to_owned(), (format!("slurm-{number}.sh"), text.into_bytes()))
    });
    let queue = Some(queue::read("q", text.as_bytes()).unwrap());
    made(Inputs { queue, scripts: scripts.collect(), ..of(conf, "") }, SlurmAccounts::Each)
}

fn refused(inputs: Inputs) -> String {
    decide(inputs, SlurmAccounts::Each, CLOCK).unwrap_err().to_string()
}

#[test]
fn administrators_are_those_of_this_level_alone() {
    let accounts = "Parent - 'root'\nUser - 'root':AdminLevel='Administrator'\nUser - 'eve':Fairshare=1\nUser - 'op':AdminLevel='Operator'\n\
                    Account - 'a':Fairshare=1\nParent - 'a'\nUser - 'eve':Fairshare=1\nUser - 'boss':AdminLevel='Administrator'\n";
    let made = made(of("", accounts), SlurmAccounts::Each);
    assert_eq!(
        made.commands,
        [
            "railctl tenant issue-cert root --role admin --out credentials/administrators",
            "railctl --tenant a tenant issue-cert eve --role user --out credentials/tenants/a",
            "railctl tenant issue-cert boss --role admin --out credentials/administrators",
            "railctl --tenant a tenant issue-cert boss --role user --out credentials/tenants/a",
        ]
    );
    assert_eq!((entry(&made, "d:3:1:").fate, entry(&made, "d:4:1:").fate), (Fate::Lost, Fate::Lost));
    let operator = made.entries.iter().find(|entry| entry.token.value == "Operator").unwrap();
    assert_eq!(operator.fate, Fate::Lost, "{}", operator.here);
    let wrong = refused(of(
        "",
        "Parent - 'root'\nAccount - 'a':Fairshare=1\nParent - 'b'\nUser - 'eve':Fairshare=1\n",
    ));
    assert!(wrong.contains("d:4:1: User: is within `b`, which is no account of the dump"), "{wrong}");
    let circle = "Parent - 'b'\nAccount - 'a':Fairshare=1\nParent - 'a'\nAccount - 'b':Fairshare=1\nUser - 'eve':Fairshare=1\n";
    let wrong = decide(of("", circle), SlurmAccounts::Top, CLOCK).unwrap_err().to_string();
    assert!(wrong.contains("the account `a` of this user is within none at the top"), "{wrong}");
}

#[test]
fn coordinators_are_admins_of_the_tenants_that_they_manage() {
    let accounts = format!(
        "{TOP}Parent - 'physics'\nUser - 'ada':Coordinator='physics,arts':Fairshare=1\nUser - 'sol':Coordinator='science'\n\
         Parent - 'chem'\nUser - 'ada':Coordinator='physics,arts'\nUser - 'sol':Coordinator='science'\nParent - 'arts'\nUser - 'cy':Fairshare=1\n"
    );
    let roles = |made: &Made| {
        let commands = made.commands.iter().filter(|one| !one.contains(" cy "));
        let words = commands.map(|one| one.split(' ').collect::<Vec<_>>());
        words.map(|words| format!("{} {} {}", words[2], words[5], words[7])).collect::<Vec<_>>()
    };
    let each = made(of("", &accounts), SlurmAccounts::Each);
    assert_eq!(
        roles(&each),
        ["physics ada tenant-admin", "physics sol tenant-admin", "chem ada user", "chem sol tenant-admin"]
    );
    let said = each.entries.iter().find(|entry| entry.token.name == "Coordinator").unwrap();
    assert_eq!(said.fate, Fate::Differs);
    assert!(said.here.contains("tenant-admin of physics; of arts no tenant-admin"), "{}", said.here);
    let top = made(of("", &accounts), SlurmAccounts::Top);
    assert_eq!(roles(&top), ["science ada user", "science sol tenant-admin"], "physics is a part of it");
}

#[test]
fn commands_are_quoted_and_one_that_fails_keeps_none_from_being_done() {
    let made = made(of("NodeName=it's Feature=ib\n", ""), SlurmAccounts::Each);
    assert_eq!(made.commands, ["railctl label 'node/it'\\''s' ib=yes"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("commands.sh");
    let commands = ["echo one", "false", "echo \"$(pwd)\" > two"].map(str::to_owned);
    std::fs::write(&path, script(&commands)).unwrap();
    let ran = std::process::Command::new("sh").arg(&path).current_dir("/").output().unwrap();
    assert_eq!((ran.status.code(), String::from_utf8_lossy(&ran.stdout).trim()), (Some(1), "one"));
    assert!(folder.path().join("two").exists(), "in the folder of the script");
}

#[test]
fn rows_that_cannot_be_are_left_out_with_a_finding() {
    let rows = "7|PENDING||ada|p|normal|1|N/A|10|(null)|(null)|two\nlines\n8|PENDING||ada|p|normal|1|N/A|10|(null)|(null)|a\n\
                8|PENDING||eve|p|normal|1|N/A|10|(null)|(null)|b\n9_[0-3]|PENDING||ada|p|normal|1|N/A|10|(null)|(null)|c\n\
                9_4|PENDING||eve|p|normal|1|N/A|10|(null)|(null)|d\n10|PENDING||ada|p|normal|1|N/A|soon|(null)|(null)|e\n\
                11|PENDING||ada|p|normal|few|N/A|10|(null)|(null)|f\n";
    let scripts = ["7", "8", "9", "10", "11"].map(|number| (number, ""));
    let made = queued("PartitionName=p Nodes=ALL Default=YES\n", rows, &scripts);
    assert_eq!(documents(&made, "jobs-slurm.yaml").keys().collect::<Vec<_>>(), ["two"]);
    for (place, why) in [
        ("q:3:1:", "it is no record: it has 1 columns"),
        ("q:4:1:", "its number comes twice in the queue"),
        ("q:5:1:", "its number comes twice in the queue"),
        ("q:6:1:", "they are of two users"),
        ("q:7:1:", "they are of two users"),
        ("q:8:1:", "TIME_LIMIT: `SOON` is no time"),
        ("q:9:1:", "NODES: `few` is no number of nodes"),
    ] {
        let entry = entry(&made, place);
        assert!(entry.fate == Fate::Lost && entry.here.contains(why), "{place} {}", entry.here);
    }
}

#[test]
fn jobs_have_the_sizes_elements_and_licenses_of_the_queue() {
    let conf = "Licenses=Ansys@flex:4\nPartitionName=p Nodes=ALL Default=YES\n";
    let rows = "1|PENDING||ada|p|normal|4|N/A|10|(null)|Ansys@flex:2|sized\n2_3|PENDING||ada|p|normal|1|gres/gpu:1|10|(null)|(null)|single\n\
                3|PENDING||ada|p|normal|2|gres/gpu:4|10|(null)|other|less\n";
    let scripts = [
        ("1", "#SBATCH --ntasks=8 --gpus=16 --licenses=Ansys@flex:2"),
        ("2", "#SBATCH --array=0-9"),
        ("3", "#SBATCH --nodes=8 --gpus-per-node=1 --cpus-per-gpu=2 --licenses=other"),
    ];
    let made = queued(conf, rows, &scripts);
    let jobs = documents(&made, "jobs-slurm.yaml");
    let gang = |name: &str, field: &str| jobs[name]["gang"][field].as_u64();
    assert_eq!(
        (gang("sized", "nodes"), gang("sized", "ranksPerNode"), gang("sized", "gpusPerNode")),
        (Some(4), Some(2), Some(4))
    );
    assert_eq!(jobs["sized"]["licenses"], serde_json::json!({"ansys-flex": 2}));
    assert_eq!(documents(&made, "licenses.yaml").keys().collect::<Vec<_>>(), ["ansys-flex"]);
    assert_eq!(jobs["single"]["array"], "3");
    assert_eq!(
        (gang("less", "nodes"), gang("less", "gpusPerNode"), gang("less", "cpusPerNode")),
        (Some(2), Some(4), Some(8))
    );
    let other = made.entries.iter().find(|entry| entry.token.value == "other").unwrap();
    assert!(other.fate == Fate::Differs && other.here.contains("no `Licenses` has other"), "{}", other.here);
}

#[test]
fn jobs_stand_behind_those_that_they_wait_for() {
    let row = |id: &str, dependency: &str, name: &str| {
        format!("{id}|PENDING||ada|p|normal|1|N/A|10|{dependency}|(null)|{name}\n")
    };
    let rows = [
        row("1", "afterok:3(unfulfilled),afterany:2_5(unfulfilled)", "last"),
        row("3", "afterok:2_*(unfulfilled)", "middle"),
        row("2_[0-4]", "(null)", "part"),
        row("2_5", "(null)", "single"),
        row("4", "afterok:1(unfulfilled)?afterok:3(unfulfilled)", "any"),
    ]
    .concat();
    let scripts =
        ["1", "2", "3", "4"].map(|number| (number, if number == "2" { "#SBATCH --array=0-5" } else { "" }));
    let made = queued("PartitionName=p Nodes=ALL Default=YES\n", &rows, &scripts);
    let file = made.files.iter().find(|file| file.name == "jobs-slurm.yaml").unwrap();
    let names: Vec<&str> =
        file.documents.iter().map(|one| one["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["part", "single", "middle", "last", "any"]);
    let jobs = documents(&made, "jobs-slurm.yaml");
    let after = |name: &str| {
        let all = jobs[name]["after"].as_array().into_iter().flatten();
        all.map(|one| one["job"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(after("last"), ["middle", "single"]);
    assert_eq!(after("middle"), ["part", "single"], "all of the array");
    assert!(after("any").is_empty());
    let any = made.entries.iter().find(|entry| entry.token.value.contains('?')).unwrap();
    assert!(any.fate == Fate::Lost && any.here.contains("any one of several"), "{}", any.here);
}

#[test]
fn a_user_has_one_class_in_each_queue() {
    let conf = "PartitionName=b Nodes=ALL Default=YES\nPartitionName=z Nodes=ALL\n";
    let accounts = "Parent - 'root'\nAccount - 'a':Fairshare=1\nParent - 'a'\nUser - 'bob':MaxJobs=2\n\
                    User - 'bob':Partition='z':MaxJobs=5\nUser - 'cy':Partition='b':MaxJobs=3\n";
    let made = made(of(conf, accounts), SlurmAccounts::Each);
    let classes = documents(&made, "service-classes.yaml");
    let of = |name: &str| (classes[name]["members"].clone(), classes[name]["user"]["jobsRunning"].as_u64());
    assert_eq!(of("zz-b-bob"), (serde_json::json!({"users": ["a/bob"]}), Some(2)), "in no queue too");
    assert_eq!(of("zz-b-cy"), (serde_json::json!({"users": ["a/cy"]}), Some(3)));
    assert_eq!(of("z-bob"), (serde_json::json!({"queues": ["a/z"], "users": ["a/bob"]}), Some(5)));
    assert_eq!(
        of("z-cy"),
        (serde_json::json!({"queues": ["a/z"], "users": ["a/cy"]}), None),
        "that of b ends there"
    );
    assert_eq!(classes.len(), 6, "{:?}", classes.keys());
}

#[test]
fn no_access_becomes_wider() {
    let conf = "PartitionName=some Nodes=ALL AllowAccounts=physics,arts\nPartitionName=most Nodes=ALL DenyAccounts=physics\n\
                PartitionName=q Nodes=ALL AllowQos=a DenyQos=a,b\n";
    let accounts = format!(
        "{TOP}Parent - 'physics'\nUser - 'ada':Fairshare=1\nParent - 'arts'\nUser - 'cy':Fairshare=1\n"
    );
    let reservation = |accounts: &str, users: &str| {
        let text = format!(
            "ReservationName=r StartTime=2030-01-01T00:00:00 EndTime=2030-01-02T00:00:00 Nodes=n0 Users={users} Accounts={accounts}\n"
        );
        Some(columns::records("r", text.as_bytes(), "ReservationName").unwrap())
    };
    let qos = Some(columns::table("q", b"Name|Priority\na|0\nb|0\n", &["Name"]).unwrap());
    let accounts = accounts.replace("Account - 'arts':", "Account - 'arts':QOS='a,b':");
    let top = made(Inputs { qos, ..of(conf, &accounts) }, SlurmAccounts::Top);
    let queues: Vec<String> = documents(&top, "queues.yaml").into_keys().collect();
    assert_eq!(queues, ["arts/most", "arts/q", "arts/some", "science/chem", "science/physics", "science/q"]);
    for name in ["AllowAccounts", "DenyAccounts"] {
        let entry = top.entries.iter().find(|entry| entry.token.name == name).unwrap();
        assert!(
            entry.fate == Fate::Differs && entry.here.contains("`physics` is a part of science"),
            "{}",
            entry.here
        );
    }
    let classes = documents(&top, "service-classes.yaml");
    assert_eq!(classes["a"]["members"]["tenants"][0], "arts", "AllowQos alone counts");
    assert_eq!(classes["b"]["members"]["queues"], serde_json::json!(["arts/most", "arts/some"]));
    let whose = |accounts_of: &str, users: &str| {
        let inputs = Inputs { reservations: reservation(accounts_of, users), ..of("", &accounts) };
        documents(&made(inputs, SlurmAccounts::Each), "reservations.yaml")
            .get("r")
            .map(|one| one["tenants"].clone())
    };
    assert_eq!(whose("science", "(null)"), Some(serde_json::json!(["physics"])), "with those within it");
    assert_eq!(whose("science", "ada,cy"), Some(serde_json::json!(["physics"])), "of both lists");
    assert_eq!(whose("arts", "ada"), None);
    assert_eq!(whose("(null)", "cy"), Some(serde_json::json!(["arts"])));
}

#[test]
fn a_limit_of_no_jobs_is_not_no_limit() {
    let accounts = "Parent - 'root'\nAccount - 'a':GrpSubmitJobs=0\nAccount - 'b':GrpSubmitJobs=7:GrpTRES=gres/gpu:h100=8\nParent - 'a'\nUser - 'ada':Fairshare=1\n\
                    Parent - 'b'\nUser - 'bob':Fairshare=1\n";
    let made = made(of("", accounts), SlurmAccounts::Each);
    let tenants = documents(&made, "tenants.yaml");
    assert_eq!((&tenants["a"]["quota"]["jobs"], &tenants["b"]["quota"]["jobs"]), (&1.into(), &7.into()));
    let none = made.entries.iter().find(|entry| entry.token.name == "GrpSubmitJobs").unwrap();
    assert!(none.fate == Fate::Lost && none.here.contains("no job at all"), "{}", none.here);
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
