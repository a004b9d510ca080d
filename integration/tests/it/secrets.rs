//! A secret of a tenant on a cluster of real processes: ranks and steps see it, nobody and nothing else does, and a change is for the next attempt.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use integration_harness::{Answer, Cluster, Shape, eventually, procfs};

const SOON: Duration = Duration::from_secs(60);
const VALUES: [&str; 2] = ["first-of-the-tenant", "second-of-the-tenant"];
/// Says the value without saying it.
const REPORT: &str = "printf %s \"$TOKEN\" | tr a-y b-z";

/// What [`REPORT`] makes of a value.
fn reported(value: &str) -> String {
    value.bytes().map(|byte| char::from(if byte.is_ascii_lowercase() { byte + 1 } else { byte })).collect()
}

fn ok(cluster: &Cluster, args: &[&str]) -> String {
    let answer = cluster.railctl(args);
    assert_eq!(answer.code, 0, "{args:?}: {}{}", answer.stdout, answer.stderr);
    answer.stdout
}

fn create(cluster: &Cluster, value: &str) {
    let file = cluster.home().join("token");
    fs::write(&file, value).unwrap();
    let mut command = cluster.command(&["create", "secret", "s3", "--from-file", "TOKEN=-"]);
    let output = command.stdin(fs::File::open(file).unwrap()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Waits until an attempt runs whose rank says so.
fn says(cluster: &Cluster, attempt: u64, value: &str) {
    let said = eventually(&format!("attempt {attempt}"), SOON, || {
        let job = cluster.job("uses").ok()?;
        let status = &job["status"];
        let now = status["phase"] == "RUNNING" && status["attempt"] == attempt;
        (now && cluster.railctl(&["logs", "uses"]).stdout.contains(&reported(value))).then_some(())
    });
    said.unwrap_or_else(|error| panic!("{error}: {:#}\n{}", cluster.job("uses").unwrap(), cluster.logs()));
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&entry.path(), found),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
}

/// Looks for the values in every file of the cluster, in arguments of its processes, and in what can be asked for.
fn nowhere(cluster: &Cluster, runs: bool) {
    let mut places = Vec::new();
    files(&cluster.dir(), &mut places);
    let named = |end: &str| places.iter().any(|path| path.to_string_lossy().contains(end));
    let known = ["controller.log", "agent-n0.log", "state.db"].into_iter().all(named);
    assert!(known && named("assignment.pb") == runs, "{places:?}");
    let pids = procfs::find(&[&cluster.dir().display().to_string()]);
    places.extend(pids.iter().map(|pid| format!("/proc/{pid}/cmdline").into()));
    let holds = |content: &[u8]| {
        VALUES.iter().any(|value| content.windows(value.len()).any(|part| part == value.as_bytes()))
    };
    for place in &places {
        assert!(!holds(&fs::read(place).unwrap_or_default()), "{} holds a value", place.display());
    }
    for args in [
        &["get", "jobs", "uses", "-o", "json"][..],
        &["get", "jobs", "-o", "yaml"],
        &["describe", "job", "uses"],
        &["explain", "uses"],
        &["get", "secrets", "-o", "yaml"],
        &["get", "secrets", "s3", "-o", "json"],
        &["describe", "secret/s3"],
        &["audit", "ls", "-o", "json"],
        &["history", "export"],
    ] {
        let Answer { code, stdout, stderr } = cluster.railctl(args);
        assert_eq!(code, 0, "{args:?}: {stderr}");
        assert!(!holds(stdout.as_bytes()) && !holds(stderr.as_bytes()), "{args:?} tells a value: {stdout}");
    }
}

#[test]
fn a_secret_is_seen_by_ranks_and_steps_and_by_nobody_else() {
    let env = ["RAIL_LOG", "RAIL_CONTROLLER_LOG_LEVEL"].map(|name| (name.to_owned(), "trace".to_owned()));
    let shape = Shape { nodes: 2, rails: 1, gpus: 1, env: env.to_vec(), ..Shape::default() };
    let cluster = Cluster::up(&shape).unwrap();
    create(&cluster, VALUES[0]);
    let spec = format!(
        "gang: {{nodes: 2, gpusPerNode: 1}}\ncommand:\n  argv: [sh, -c, '{REPORT}; echo; exec sleep 600']\n  \
         envFrom: [{{secretRef: {{name: s3}}}}]"
    );
    cluster.submit("uses", &spec).unwrap();
    says(&cluster, 1, VALUES[0]);
    assert!(
        ok(&cluster, &["exec", "uses", "--", "sh", "-c", REPORT]).contains(&reported(VALUES[0])),
        "a step"
    );
    let alone = [
        "run",
        "--nodes",
        "1",
        "--no-rails",
        "--env-from",
        "TOKEN=secret/s3:TOKEN",
        "--",
        "sh",
        "-c",
        REPORT,
    ];
    assert!(ok(&cluster, &alone).contains(&reported(VALUES[0])), "a step of an allocation");
    nowhere(&cluster, true);

    // Rotation is for the next attempt: what runs goes on.
    create(&cluster, VALUES[1]);
    assert_eq!(cluster.job("uses").unwrap()["status"]["attempt"], 1);
    ok(&cluster, &["requeue", "job", "uses"]);
    says(&cluster, 2, VALUES[1]);
    nowhere(&cluster, true);
    differs(&cluster);
    others(&cluster, &spec);

    // Without it the job waits, and goes on by itself once it is there again.
    ok(&cluster, &["delete", "secret", "s3"]);
    assert_eq!(cluster.job("uses").unwrap()["status"]["phase"], "RUNNING");
    ok(&cluster, &["requeue", "job", "uses"]);
    let held = eventually("the job is held", SOON, || {
        let text = cluster.job("uses").ok()?["status"]["reasons"].to_string();
        (text.contains("HeldForEnvironment") && text.contains("no secret 's3'")).then_some(())
    });
    held.unwrap_or_else(|error| panic!("{error}: {:#}", cluster.job("uses").unwrap()));
    create(&cluster, VALUES[0]);
    says(&cluster, 3, VALUES[0]);
    ok(&cluster, &["cancel", "uses", "--grace", "0s"]);
    cluster.wait_for("uses", &["CANCELLED"], SOON).unwrap();
    nowhere(&cluster, false);
}

/// `diff` says which values would change, and no more.
fn differs(cluster: &Cluster) {
    let file = cluster.home().join("secret.yaml");
    let text = format!(
        "apiVersion: rail/v1\nkind: Secret\nmetadata: {{name: s3}}\ndata: {{TOKEN: {}, MORE: x}}\n",
        VALUES[0]
    );
    fs::write(&file, text).unwrap();
    let answer = cluster.railctl(&["diff", "-f", &file.display().to_string()]);
    assert_eq!(answer.code, 1, "{}{}", answer.stdout, answer.stderr);
    let reported = &answer.stdout;
    assert!(reported.contains("TOKEN: \"(changed)\"") && reported.contains("MORE: \"(new)\""), "{reported}");
    assert!(!reported.contains(VALUES[0]) && !reported.contains(VALUES[1]), "{reported}");
}

/// Another tenant cannot refer to it, and a viewer sees no more than that it is there.
fn others(cluster: &Cluster, spec: &str) {
    ok(cluster, &["tenant", "create", "blue", "--gpus", "2"]);
    let file = cluster.home().join("theirs.yaml");
    let spec = spec.replace('\n', "\n  ");
    let text = format!("apiVersion: rail/v1\nkind: Job\nmetadata: {{name: theirs}}\nspec:\n  {spec}\n");
    fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    for command in ["submit", "plan"] {
        let refused = cluster.railctl(&["--tenant", "blue", command, &file]);
        let reported = &refused.stderr;
        assert!(
            reported.contains("envFrom") && reported.contains("no secret 's3' in tenant 'blue'"),
            "{reported}"
        );
        assert_eq!(refused.code, 2, "{reported}");
    }
    let issued = ok(cluster, &["tenant", "issue-token", "vera", "--role", "viewer"]);
    let token = issued.split_whitespace().find(|word| word.starts_with("rail-user-")).unwrap();
    let by_viewer = |args: &[&str]| cluster.railctl(&[&["--token", token], args].concat());
    let seen = by_viewer(&["get", "secrets", "s3", "-o", "yaml"]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    assert!(seen.stdout.contains("name: s3") && !seen.stdout.contains("TOKEN"), "{}", seen.stdout);
    let refused = by_viewer(&["create", "secret", "s3", "--from-literal", "TOKEN=x"]);
    assert_eq!(refused.code, 4, "{}", refused.stderr);
}
