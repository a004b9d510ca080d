//! What `railctl slurm import` makes of a site is what a cluster takes.

use std::{fs, path::Path, time::Duration};

use integration_harness::{
    Cluster, Shape, eventually,
    slurm::{Site, Slurm, Version, missing, programs},
};
use serde_json::Value;

const CONF: &str = "ClusterName=alpha\nPreemptType=preempt/qos\nLicenses=matlab:4\nMailProg=/bin/mail\nNodeName=n[0-2] Gres=gpu:2 Feature=ib\n\
                    PartitionName=batch Nodes=ALL Default=YES MaxTime=1-0 DefaultTime=60\nPartitionName=debug Nodes=n2 MaxTime=10 MaxNodes=1 PriorityTier=2\n";
const ACCOUNTS: &str = "Cluster - 'alpha':Fairshare=1:QOS='normal'\nParent - 'root'\n\
                        Account - 'vision':Description='computer vision':Fairshare=3:GrpTRES=gres/gpu=4:QOS='normal,high'\n\
                        Account - 'nlp':Fairshare=1\nParent - 'vision'\nUser - 'ada':MaxJobs=2\nParent - 'nlp'\nUser - 'bob':Fairshare=1\n";
const QOS: &str =
    "Name|Priority|Preempt|MaxWall|MaxTRESPU\nnormal|0|||\nhigh|10|normal|02:00:00|gres/gpu=4\n";
const RESERVATIONS: &str = "ReservationName=maint StartTime=2040-01-15T08:00:00 EndTime=2040-01-15T10:00:00 Nodes=n[0-1] NodeCnt=2 Flags=MAINT Users=root\n";
const QUEUE: &str = "JOBID|STATE|ACCOUNT|USER|PARTITION|QOS|NODES|TIME_LIMIT|DEPENDENCY|LICENSES|NAME\n\
                     7|PENDING|vision|ada|batch|high|1|30:00|(null)|matlab:1|Train\n8|RUNNING|nlp|bob|batch|normal|1|30:00|(null)|(null)|eval\n";
const SCRIPT: &str = "#!/bin/sh\n#SBATCH --qos=high --gpus-per-node=1 --licenses=matlab:1\ntrue\n";

fn import(cluster: &Cluster, folder: &Path, arguments: &[&str]) -> Value {
    let out = folder.join("out");
    let mut all = vec!["slurm", "import", "--out", out.to_str().unwrap()];
    all.extend(arguments);
    cluster.json(&all).unwrap()
}

/// Applies what the import has written, first without effect.
fn apply(cluster: &Cluster, folder: &Path, made: &Value) {
    for is_dry in [true, false] {
        for file in made["files"].as_array().unwrap() {
            let (name, tenant) = (file["name"].as_str().unwrap(), file["tenant"].as_str().unwrap());
            // Their documents name what those of the files before them make.
            if is_dry && name != "tenants.yaml" && name != "licenses.yaml" {
                continue;
            }
            let path = folder.join("out").join(name);
            let mut all = vec!["apply", "-f", path.to_str().unwrap()];
            if is_dry {
                all.push("--dry-run");
            }
            if !tenant.is_empty() {
                all.extend(["--tenant", tenant]);
            }
            let answer = cluster.railctl(&all);
            assert_eq!(answer.code, 0, "{name}: {}{}", answer.stdout, answer.stderr);
        }
    }
}

#[test]
fn a_site_that_is_imported_is_taken_by_a_cluster() {
    let cluster = Cluster::up(&Shape { nodes: 3, rails: 2, gpus: 2, ..Shape::default() }).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let write = |name: &str, text: &str| {
        fs::write(at.join(name), text).unwrap();
        at.join(name).display().to_string()
    };
    let (conf, accounts, qos) = (write("slurm.conf", CONF), write("accounts", ACCOUNTS), write("qos", QOS));
    let (reservations, queue) = (write("reservations", RESERVATIONS), write("queue", QUEUE));
    write("slurm-7.sh", SCRIPT);
    let all = [
        "--conf",
        &conf,
        "--accounts",
        &accounts,
        "--qos",
        &qos,
        "--reservations",
        &reservations,
        "--queue",
        &queue,
        "--scripts",
        at.to_str().unwrap(),
    ];
    let made = import(&cluster, at, &all);
    let lost = made["settings"].as_array().unwrap().iter().find(|one| one["name"] == "MailProg").unwrap();
    assert_eq!(
        (&lost["fate"], &lost["line"], &lost["known"]),
        (&"NotCarriedOver".into(), &4.into(), &true.into())
    );

    let together: Vec<String> = ["tenants", "queues", "service-classes", "licenses", "reservations"]
        .iter()
        .flat_map(|name| ["-f".to_owned(), at.join("out").join(format!("{name}.yaml")).display().to_string()])
        .collect();
    let mut dry = vec!["apply", "--dry-run"];
    dry.extend(together.iter().map(String::as_str));
    let answer = cluster.railctl(&dry);
    assert_eq!(answer.code, 0, "{}{}", answer.stdout, answer.stderr);
    apply(&cluster, at, &made);

    let tenant = cluster.json(&["get", "tenants", "vision"]).unwrap();
    assert_eq!(
        (&tenant["spec"]["quota"]["gpus"], &tenant["spec"]["quota"]["weight"]),
        (&4.into(), &3.into())
    );
    let job = cluster.json(&["--tenant", "vision", "get", "jobs", "train"]).unwrap();
    assert_eq!(
        (&job["spec"]["queue"], &job["spec"]["serviceClass"], &job["spec"]["timeLimit"]),
        (&"batch".into(), &"high".into(), &"1800s".into())
    );
    assert_eq!(job["metadata"]["labels"]["slurm/job"], "7");

    // Files that are there are not replaced; what is not carried over is exit code 1 where that is asked for.
    let again =
        cluster.railctl(&["slurm", "import", "--conf", &conf, "--out", at.join("out").to_str().unwrap()]);
    assert!(again.code == 2 && again.stderr.contains("is there already"), "{}", again.stderr);
    let strict = cluster.railctl(&["slurm", "import", "--conf", &conf, "--strict"]);
    assert_eq!(strict.code, 1, "{}", strict.stderr);
    assert!(strict.stdout.starts_with("apiVersion: rail/v1\nkind: Tenant\n"), "{}", strict.stdout);
}

#[test]
fn a_slurm_22_05_that_runs_is_asked() {
    ask_one_that_runs(Version::V22_05);
}

#[test]
fn a_slurm_24_11_that_runs_is_asked() {
    ask_one_that_runs(Version::V24_11);
}

fn ask_one_that_runs(version: Version) {
    if programs(version).is_none() {
        println!("skipped: {}", missing(version));
        return;
    }
    let cluster = Cluster::up(&Shape { nodes: 3, rails: 2, gpus: 1, ..Shape::default() }).unwrap();
    let slurm = Slurm::up(&Site {
        version,
        nodes: &["n0", "n1", "n2"],
        lines: "Licenses=matlab:2\n",
        ..Site::default()
    })
    .unwrap();
    let reservation = [
        "create",
        "reservation",
        "ReservationName=fw",
        "StartTime=now+2hours",
        "Duration=60",
        "Nodes=n0",
        "Users=root",
        "Flags=MAINT",
    ];
    slurm.run("scontrol", &reservation).unwrap();
    let id = slurm
        .run("sbatch", &["--parsable", "--hold", "--nodes=2", "--time=10", "--job-name=Held", "--wrap=true"])
        .unwrap();
    let waits = || slurm.run("squeue", &["--noheader"]).unwrap().contains("Held").then_some(());
    eventually("the job to wait", Duration::from_secs(30), waits).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let conf = slurm.folder().join("slurm.conf");
    let arguments = [
        "slurm",
        "import",
        "--from-cluster",
        "-o",
        "json",
        "--conf",
        conf.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
    ];
    let output = cluster.command(&arguments).envs(slurm.environment()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    let unknown: Vec<&Value> =
        made["settings"].as_array().unwrap().iter().filter(|one| one["known"] == false).collect();
    let settings = made["settings"].as_array().unwrap();
    let job = settings.iter().find(|one| one["name"] == "JOBID").unwrap();
    assert_eq!(job["fate"], "CarriedOverWithDifference", "{job:#}\n{:#}", made["notes"]);
    assert!(unknown.is_empty(), "everything that this Slurm says is known: {unknown:#?}");
    apply(&cluster, folder.path(), &made);
    let job = cluster.json(&["--tenant", "rail", "get", "jobs", "held"]).unwrap();
    assert_eq!((&job["spec"]["gang"]["nodes"], &job["spec"]["timeLimit"]), (&2.into(), &"600s".into()));
    assert_eq!(job["metadata"]["labels"]["slurm/job"], id.as_str());
    let reservation = cluster.json(&["get", "reservations", "fw"]).unwrap();
    assert_eq!(
        (&reservation["spec"]["nodes"][0], &reservation["spec"]["maintenance"]),
        (&"n0".into(), &true.into())
    );
}
