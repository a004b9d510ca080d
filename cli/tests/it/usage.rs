//! What can be said without a cluster, and what is answered to nonsense.

use std::{io::Write as _, net::TcpListener, process::Stdio};

use crate::{railctl, reported, run};

const JOB: &str = "apiVersion: rail/v1\nkind: Job\nmetadata: {name: a}\nspec:\n  gang: {nodes: 1}\n  command: {argv: [\"true\"]}\n";

/// None of these says what a command could do.
const WRONG: &[&[&str]] = &[
    &["frobnicate"],
    &["submit"],
    &["submit", "a", "-f", "b"],
    &["submit", "a", "--timeout", "1s"],
    &["submit", "a", "--gpu-model", "-"],
    &["submit", "a", "--cpus-per-node", "many"],
    &["plan", "a", "--memory-per-node", "64 gigs"],
    &["submit", "a", "--select", "a100|"],
    &["plan", "a", "--select", "zone=a b"],
    &["get", "frobs"],
    &["get", "jobs", "-o", "xml"],
    &["logs", "a", "--rank", "x"],
    &["cancel", "a", "--grace", "soon"],
    &["hold", "job"],
    &["hold", "a"],
    &["release", "job"],
    &["suspend", "job"],
    &["suspend", "a"],
    &["resume", "job"],
    &["requeue", "job"],
    &["requeue", "job", "a", "--reason"],
    &["update", "job", "a"],
    &["update", "job", "a", "--nodes", "8-2"],
    &["update", "job", "a", "--time-limit", "soon"],
    &["usage", "--by", "rack"],
    &["usage", "--since", "soon"],
    &["usage", "--limit", "0"],
    &["usage", "list", "--by", "user"],
    &["rail"],
    &["rail", "drain"],
    &["rail", "drain", "1", "2"],
    &["rail", "drain", "1", "--timeout", "1s"],
    &["rail", "drain", "1", "--wait", "--timeout", "soon"],
    &["rail", "undrain"],
    &["rail", "ls", "-o", "xml"],
    &["dev", "up", "--nodes", "0"],
    &["dev", "up", "--rail-rate", "400mbit"],
    &["dev", "up", "--nodes", "2", "--pods", "3"],
    &["dev", "up", "--name", "A/B"],
    &["--context", "none", "get", "jobs"],
    &["--controller", "http://x", "get", "jobs"],
    &["get", "nodes"],
    &["get", "nodes", "--phase", "running"],
    &["get", "reservations", "-A"],
    &["get", "queues", "-l", "a=b"],
    &["get", "schedules", "-l", "a=b"],
    &["get", "schedules", "-w"],
    &["get", "licenses", "-l", "a=b"],
    &["get", "licenses", "-A"],
    &["submit", "a", "--license", "matlab:0"],
    &["submit", "a", "--license", "Mat_lab"],
    &["delete", "license"],
    &["get", "switches", "-l", "a=b"],
    &["delete", "switch"],
    &["switch", "render"],
    &["switch", "render", "leaf0", "--nos", "eos"],
    &["switch", "render", "--all", "--out", "x"],
    &["delete", "fabric"],
    &["delete", "queue", "q", "--dry-run"],
    &["delete", "tenant", "a", "b", "--uid", "1"],
    &["get", "webhooks", "-l", "a=b"],
    &["webhook", "test"],
    &["create", "secret"],
    &["create", "secret", "s3"],
    &["create", "secret", "s3", "--from-literal", "TOKEN"],
    &["create", "config", "s3", "--from-file", "A=/nowhere/x"],
    &["edit", "secret/s3"],
    &["delete", "webhook"],
    &["reserve"],
    &["reserve", "create", "r"],
    &["reserve", "create", "r", "--nodes", "a", "--start", "soon", "--duration", "1h", "--for", "t"],
    &[
        "reserve",
        "create",
        "r",
        "--nodes",
        "a",
        "--count",
        "2",
        "--start",
        "now",
        "--duration",
        "1h",
        "--maint",
    ],
    &["reserve", "create", "r", "--count", "0", "--start", "now", "--duration", "1h", "--maint"],
    &["reserve", "create", "r", "--nodes", "a", "--start", "now", "--duration", "1h"],
    &[
        "reserve",
        "create",
        "r",
        "--nodes",
        "a",
        "--start",
        "now",
        "--duration",
        "1h",
        "--for",
        "t",
        "--maint",
    ],
    &[
        "reserve",
        "create",
        "r",
        "--nodes",
        "a",
        "--pods",
        "1",
        "--start",
        "now",
        "--duration",
        "1h",
        "--maint",
    ],
    &["reserve", "delete"],
    &["revoke"],
    &["revoke", "node"],
    &["revoke", "job", "a"],
    &["revoke", "ls", "-o", "xml"],
    &["node", "label"],
    &["node", "taint"],
    &["node", "return"],
    &["tenant", "set-quota", "t", "--guaranteed", "racks=1"],
    &["tenant", "set-quota", "t", "--weight", "0"],
];

#[test]
fn a_wrong_command_line_is_exit_2_and_talk() {
    let home = tempfile::tempdir().unwrap();
    for args in WRONG.iter().copied() {
        let (code, out, err) = run(home.path(), args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(!err.is_empty(), "{args:?}");
    }
}

#[test]
fn bad_files_are_exit_2_with_their_place_before_anybody_is_asked() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("job.yaml");
    let name = file.to_str().unwrap();
    let deep = format!("{JOB}x: {}", "[".repeat(100_000));
    let bomb = format!("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n{JOB}");
    let large = format!("{JOB}# {}", "x".repeat(17 << 20));
    for (text, reported) in [
        (JOB.replace("nodes: 1", "nodes: 0"), "spec.gang.nodes"),
        (JOB.replace("nodes: 1", "nodes: -3"), ":5:"),
        (JOB.replace("nodes: 1", "nodez: 1"), "nodes"),
        (JOB.replace("nodes: 1", "nodes: many"), "spec.gang.nodes"),
        (JOB.replace("true", "a\0b"), ":6:"),
        (deep, ":7:"),
        (bomb, ":1:"),
        (large, "16777216"),
        (String::new(), ":1:1:"),
    ] {
        std::fs::write(&file, &text).unwrap();
        for verb in [
            &["submit", name][..],
            &["plan", "-f", name],
            &["apply", "-f", name],
            &["submit", "--dry-run", name],
        ] {
            let (code, out, err) = run(home.path(), verb);
            assert_eq!((code, out.as_str()), (2, ""), "{verb:?}: {err}");
            assert!(err.starts_with(name) && err.contains(reported), "{reported}: {err}");
        }
    }
}

#[test]
fn what_contradicts_itself_is_told_at_its_place() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("job.yaml");
    let name = file.to_str().unwrap();
    let head = "apiVersion: rail/v1\nkind: Job\nmetadata: {name: a}\nspec:\n  gang: {nodes: 8}\n  command: {argv: [x]}\n";
    for (line, reported) in [
        ("placement: {groups: [{size: 3}]}", "7:31: spec.placement.groups[0].size"),
        ("placement: {spares: 9}", "spec.placement.spares"),
        ("placement: {arrange: SPREAD, within: POD}", "spec.placement.arrange"),
        ("placement: {selector: [{key: a}, {key: a, operator: ABSENT}]}", "spec.placement.selector[1]"),
        ("placement: {exclude: [\"n[1-\"]}", "spec.placement.exclude[0]"),
        ("placement: {within: RACK}", "LEAVES"),
        ("placement: {spare: 1}", "did you mean \"spares\"?"),
        ("array: 9-0", "spec.array: '9-0'"),
        ("array: 0-99999", "10000"),
        ("after: [{job: a}]", "spec.after[0].job: 'a' would wait for itself"),
        ("after: [{job: b}, {job: b}]", "spec.after[1]"),
        ("expectedDuration: 0s", "spec.expectedDuration"),
        ("failure: {replace: SPARES}", "spec.failure.replace"),
        ("preemption: {signal: KILL}", "spec.preemption.signal"),
        ("rails: {none: true}", "spec.rails.none"),
    ] {
        std::fs::write(&file, format!("{head}  {line}\n")).unwrap();
        let (code, out, err) = run(home.path(), &["submit", name]);
        assert_eq!((code, out.as_str()), (2, ""), "{line}: {err}");
        assert!(err.contains(&format!("{name}:7:")) && err.contains(reported), "{line}: {err}");
    }
    let of = |kind: &str, spec: &str| {
        format!("apiVersion: rail/v1\nkind: {kind}\nmetadata: {{name: a}}\nspec:\n  {spec}\n")
    };
    let time = "start: \"2030-01-01T00:00:00Z\"";
    for (text, reported) in [
        (of("Queue", "weight: 0"), "spec.weight"),
        (of("Queue", "parent: a"), "spec.parent"),
        (of("Queue", "{guaranteed: {gpus: 4}, limit: 3}"), "spec.limit"),
        (of("Schedule", "{cron: '61 * * * *'}"), "spec.cron: minute: '61' is not from 0 to 59"),
        (of("Schedule", "{cron: '@daily', timeZone: Berlin}"), "did you mean Europe/Berlin?"),
        (of("Schedule", "{cron: '@daily'}"), "spec.jobTemplate"),
        (
            of("Schedule", "{cron: '@daily', jobTemplate: {spec: {gang: {nodes: 0}, command: {argv: [x]}}}}"),
            "spec.jobTemplate.spec.gang.nodes",
        ),
        (of("Webhook", "{url: 'https://a:b@c/', events: [ENDED]}"), "spec.url"),
        (of("Webhook", "{url: 'http://a.example/', events: [ENDED]}"), "spec.url: is http"),
        (of("Webhook", "url: https://a.example/"), "spec.events"),
        (
            of("Job", "{gang: {nodes: 1}, command: {argv: [x], envFrom: [{name: A}]}}"),
            "spec.command.envFrom[0]: needs a secretRef or a configRef",
        ),
        (
            of(
                "Job",
                "{gang: {nodes: 1}, command: {argv: [x], envFrom: [{name: A, secretRef: {name: s3}}]}}",
            ),
            "spec.command.envFrom[0].secretRef.key",
        ),
        (of("Reservation", &format!("{{{time}, duration: 3600s, count: 2}}")), "spec.tenants"),
        (
            of("Reservation", &format!("{{{time}, duration: 0s, count: 2, maintenance: true}}")),
            "spec.duration",
        ),
        (of("Reservation", &format!("{{{time}, duration: 1s, maintenance: true}}")), "spec.nodes"),
        (of("Reservation", "{duration: 1s, count: 1, maintenance: true}"), "spec.start"),
    ] {
        std::fs::write(&file, &text).unwrap();
        let (code, out, err) = run(home.path(), &["apply", "-f", name]);
        assert_eq!((code, out.as_str()), (2, ""), "{text}: {err}");
        assert!(err.starts_with(name) && err.contains(reported), "{text}: {err}");
    }
}

#[test]
fn standard_input_is_a_file_too() {
    let home = tempfile::tempdir().unwrap();
    let mut child = railctl(home.path())
        .args(["submit", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(JOB.replace("nodes: 1", "nodes: 0").as_bytes()).unwrap();
    let (code, _, err) = reported(child.wait_with_output().unwrap());
    assert_eq!(code, 2);
    assert!(err.starts_with("<stdin>:5:"), "{err}");
}

#[test]
fn nobody_at_the_address_is_exit_7_with_a_hint() {
    let home = tempfile::tempdir().unwrap();
    let ca = home.path().join("ca.pem");
    let made = proto_rpc::Ca::create("t", std::time::SystemTime::now(), std::time::Duration::from_secs(3600))
        .unwrap();
    std::fs::write(&ca, made.certificate_pem()).unwrap();
    // Bound and given back: nobody listens there now.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("https://127.0.0.1:{port}");
    let (code, out, err) =
        run(home.path(), &["--controller", &address, "--ca", ca.to_str().unwrap(), "get", "jobs"]);
    assert_eq!((code, out.as_str()), (7, ""), "{err}");
    assert!(err.contains(&address) && err.contains("hint:"), "{err}");
}

#[test]
fn completion_man_pages_config_and_version_need_no_cluster() {
    let home = tempfile::tempdir().unwrap();
    let (code, script, _) = run(home.path(), &["completion", "bash"]);
    assert!(code == 0 && script.contains("railctl") && script.contains("--rail-rate"));
    let man = home.path().join("man");
    assert_eq!(run(home.path(), &["man", man.to_str().unwrap()]).0, 0);
    let page = std::fs::read_to_string(man.join("railctl-submit.1")).unwrap();
    assert!(page.contains("dry") && man.join("railctl-dev-up.1").exists() && man.join("railctl.1").exists());
    assert!(!man.join("railctl-dev-guard.1").exists());
    let (code, out, _) = run(home.path(), &["version"]);
    assert!(code == 0 && out.starts_with("railctl"), "{out}");
    let (code, out, _) = run(home.path(), &["config", "view"]);
    assert!(code == 0 && out.contains("contexts: {}"), "{out}");
    assert_eq!(run(home.path(), &["config", "use", "x"]).0, 3);
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let home = tempfile::tempdir().unwrap();
    let mut child = railctl(home.path())
        .args(["completion", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let (code, _, err) = reported(child.wait_with_output().unwrap());
    assert_eq!((code, err.as_str()), (0, ""));
}
