//! What people type all day, against the real programs where they have been built beside railctl.

use std::fs;

use crate::{railctl, real::Cluster, reported};

#[test]
fn what_people_type_all_day() {
    let Some(cluster) = Cluster::up("y", &["--nodes", "2", "--rails", "2", "--gpus", "2"]) else { return };
    every_attempt_of_a_job_can_be_read(&cluster);
    the_end_of_what_failed_is_told(&cluster);
    lists_are_cut_ordered_and_written_as_asked(&cluster);
    servers_are_named_in_ranges_and_drained(&cluster);
    errors_are_json_where_json_is_asked_for(&cluster);
    what_would_change_is_shown_and_edited(&cluster);
    what_has_happened_is_told(&cluster);
    contexts_are_made_tried_and_removed(&cluster);
}

/// What earlier attempts wrote is told by number, and what was written lately by time.
fn every_attempt_of_a_job_can_be_read(cluster: &Cluster) {
    let script = "echo attempt $RAIL_ATTEMPT of rank $RANK; test $RAIL_ATTEMPT -ge 3";
    let file = cluster.job("again", script);
    let text = fs::read_to_string(&file).unwrap();
    // One rank: of several that fail, one may be ended before it has written.
    let text = text.replace("spec:\n", "spec:\n  failure: {requeue: ON_ANY, maxRestarts: 5}\n");
    fs::write(&file, text.replace("nodes: 2", "nodes: 1")).unwrap();
    cluster.ok(&["submit", &file, "--wait", "--timeout", "120s"]);
    let (code, out, err) = cluster.run(&["logs", "again"]);
    assert_eq!((code, out.as_str()), (0, "attempt 3 of rank 0\n"), "{err}");
    for (args, attempt) in [(&["--previous"][..], 2), (&["--attempt", "1"], 1), (&["--attempt=3"], 3)] {
        let out = cluster.ok(&[&["logs", "job/again", "--rank", "0"], args].concat());
        assert_eq!(out, format!("attempt {attempt} of rank 0\n"), "{args:?}");
    }
    let (code, _, err) = cluster.run(&["logs", "again", "--attempt", "9"]);
    assert!(code == 2 && err.contains("attempt 9 is not known; there are 1, 2, 3"), "{code} {err}");
    let reported = cluster.ok(&["describe", "job/again"]);
    assert!(reported.contains("Attempts before") && reported.contains("RankFailed"), "{reported}");
    let (code, timed, err) = cluster.run(&["logs", "again", "--rank", "0", "--timestamps"]);
    let (stamp, rest) = timed.split_once(' ').unwrap();
    let stamped = stamp.starts_with("20") && stamp.ends_with('Z');
    assert!(code == 0 && stamped && rest == "attempt 3 of rank 0\n", "{code} {timed} {err}");
    assert_eq!(cluster.ok(&["logs", "again", "--since", stamp, "--rank", "0"]), "attempt 3 of rank 0\n");
    assert_eq!(cluster.ok(&["logs", "again", "--since", "2100-01-01T00:00:00Z"]), "");
    assert_eq!(
        cluster.ok(&["get", "job/again", "-o", "jsonpath=$.status.pastAttempts[*].attempt"]),
        "1\n2\n"
    );
}

/// Whoever waits for a job that fails sees why, without asking again.
fn the_end_of_what_failed_is_told(cluster: &Cluster) {
    let file = cluster.job("broken", "echo before; echo no such dataset >&2; exit $((RANK + 3))");
    let (code, _, err) = cluster.run(&["submit", &file, "--wait", "--timeout", "60s"]);
    assert!(
        code == 1 && err.contains("last lines of rank ") && err.contains("  no such dataset"),
        "{code} {err}"
    );
    let (code, _, err) = cluster.run(&["submit", &file, "--name", "quiet", "--wait", "--tail", "0"]);
    assert!(code == 1 && !err.contains("last lines"), "{code} {err}");
    assert!(cluster.ok(&["describe", "job", "broken"]).contains("  no such dataset"));
    let (code, _, err) = cluster.run(&["wait", "job/broken", "--for", "completed"]);
    assert!(code == 1 && err.contains("ended as Failed"), "{code} {err}");
    cluster.ok(&["wait", "job", "broken", "quiet", "--for", "failed"]);
    cluster.ok(&["delete", "job/quiet"]);
    cluster.ok(&["wait", "job/quiet", "--for", "deleted", "--timeout", "10s"]);
    let (code, _, err) = cluster.run(&["wait", "node/n0", "--for", "completed"]);
    assert!(code == 2 && err.contains("ready, drained or deleted"), "{code} {err}");
}

fn lists_are_cut_ordered_and_written_as_asked(cluster: &Cluster) {
    let by_time = ["get", "jobs", "--sort-by", "-.status.submitTime", "-o", "name"];
    assert_eq!(cluster.ok(&by_time), "job/dev/broken\njob/dev/again\n");
    let columns = ["get", "jobs", "--columns", "phase,JOB,N=.spec.gang.nodes", "--no-headers"];
    assert_eq!(cluster.ok(&columns), "Completed  again   1\nFailed     broken  2\n");
    let csv = cluster.ok(&["get", "jobs", "-o", "csv", "--columns", "JOB,PHASE"]);
    assert_eq!(csv, "JOB,PHASE\nagain,Completed\nbroken,Failed\n");
    let slurm = cluster.ok(&["get", "jobs", "-o", "slurm"]);
    assert!(slurm.lines().any(|line| line.contains(" CD ")) && slurm.contains("JOBID"), "{slurm}");
    let sinfo = cluster.ok(&["get", "nodes", "-o", "slurm"]);
    assert!(sinfo.contains("idle") && sinfo.contains("n[0-1]"), "{sinfo}");
    let (code, _, err) = cluster.run(&["get", "jobs", "--sort-by", "AGEE"]);
    assert!(code == 2 && err.contains("AGE"), "{code} {err}");
    // What a program looks for is there, also where there is nothing of it.
    let empty = cluster.ok(&["get", "reservations", "-o", "json"]);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&empty).unwrap()["reservations"],
        serde_json::json!([])
    );
    let job: serde_json::Value =
        serde_json::from_str(&cluster.ok(&["get", "job/again", "-o", "json"])).unwrap();
    assert_eq!(
        (&job["status"]["exits"][0]["code"], &job["status"]["exits"][0]["rank"]),
        (&0.into(), &0.into())
    );
    let two = cluster.ok(&["get", "jobs", "broken", "again", "-o", "name"]);
    assert_eq!(two, "job/dev/broken\njob/dev/again\n");
}

fn servers_are_named_in_ranges_and_drained(cluster: &Cluster) {
    cluster.ok(&["node", "label", "n[0-1]", "kind=fast"]);
    assert_eq!(cluster.ok(&["get", "nodes", "-l", "kind=fast", "-o", "name"]), "node/n0\nnode/n1\n");
    assert_eq!(cluster.ok(&["get", "nodes", "n[0-1]", "-o", "name"]), "node/n0\nnode/n1\n");
    let (code, _, err) = cluster.run(&["node", "cordon", "n[0-7]", "--reason", "x"]);
    assert!(code == 3 && err.contains("n7"), "{code} {err}");
    cluster.ok(&["node", "uncordon", "n[0-1]"]);
    let file = cluster.job("holds", "echo begun; exec sleep 1000");
    cluster.ok(&["submit", &file]);
    cluster.ok(&["wait", "job/holds", "--for", "started", "--timeout", "60s"]);
    let (code, _, err) = cluster.run(&["node", "drain", "n0", "--timeout", "8s"]);
    assert!(code == 7 && err.contains("1 job (dev/holds)"), "{code} {err}");
    // It is queued again, and waits: both servers are needed.
    cluster.ok(&["node", "drain", "n0", "--reason", "fan", "--requeue", "--timeout", "60s"]);
    cluster.ok(&["wait", "node", "n0", "--for", "drained", "--timeout", "10s"]);
    assert!(cluster.ok(&["node", "ls"]).contains("fan"));
    cluster.ok(&["cancel", "job/holds", "--wait", "--timeout", "60s"]);
    cluster.ok(&["node", "undrain", "n[0-1]"]);
    cluster.ok(&["wait", "node", "n[0-1]", "--timeout", "60s"]);
}

fn errors_are_json_where_json_is_asked_for(cluster: &Cluster) {
    for (args, reason, code) in [
        (&["get", "jobs", "nobody", "-o", "json"][..], "JOB_NOT_FOUND", 3),
        (&["get", "jobz", "-o=json"], "USAGE", 2),
        (&["get", "jobs", "--phase", "running", "--sort-by", "X", "-ojson"], "USAGE", 2),
    ] {
        let (exit, out, err) = cluster.run(args);
        let value: serde_json::Value =
            serde_json::from_str(&err).map_err(|error| format!("{args:?}: {error}: {err}")).unwrap();
        assert_eq!((exit, out.as_str()), (code, ""), "{args:?}: {err}");
        assert_eq!(
            (&value["error"]["reason"], &value["error"]["exitCode"]),
            (&reason.into(), &code.into()),
            "{err}"
        );
    }
}

fn what_would_change_is_shown_and_edited(cluster: &Cluster) {
    let file = cluster.home.path().join("queue.yaml");
    let write = |weight: &str| {
        let text = "apiVersion: rail/v1\nkind: Queue\nmetadata: {name: q}\nspec: {weight: W}\n";
        fs::write(&file, text.replace('W', weight)).unwrap();
    };
    let path = file.to_str().unwrap();
    write("2");
    let (code, out, err) = cluster.run(&["diff", "-f", path]);
    assert!(code == 1 && out.contains("+  weight: 2") && err.contains("1 document"), "{code} {out} {err}");
    assert_eq!(cluster.run(&["get", "queue/q"]).0, 3, "nothing is stored");
    cluster.ok(&["apply", "-f", path]);
    assert_eq!(cluster.ok(&["diff", "-f", path]), "");
    write("3");
    let (code, out, _) = cluster.run(&["diff", "-f", path]);
    assert!(code == 1 && out.contains("-  weight: 2\n+  weight: 3\n"), "{code} {out}");
    let edit = |script: &str| {
        reported(
            railctl(cluster.home.path()).env("EDITOR", script).args(["edit", "queue", "q"]).output().unwrap(),
        )
    };
    let (code, out, err) = edit("sed -i s/2/7/");
    assert!(code == 0 && out.contains("applied"), "{code} {out} {err}");
    assert!(cluster.ok(&["get", "queue/q", "-o", "jsonpath=$.spec.weight"]).contains('7'));
    assert!(edit("true").2.contains("nothing is changed"));
    let (code, _, err) = edit("sed -i s/weight/weigth/");
    let kept = err.split("what you wrote is in ").nth(1).and_then(|rest| rest.split(';').next()).unwrap();
    assert!(code == 2 && err.contains("did you mean \"weight\"") && kept.ends_with(".yaml"), "{code} {err}");
    fs::remove_file(kept).unwrap();
    assert!(edit("false").0 == 2);
    // What is shown is applied again without a change.
    let shown = cluster.home.path().join("shown.yaml");
    for kind in ["queue/q", "tenant/dev", "fabric", "job/again"] {
        fs::write(&shown, cluster.ok(&["get", kind, "-o", "yaml"])).unwrap();
        assert_eq!(cluster.ok(&["diff", "-f", shown.to_str().unwrap()]), "", "{kind}");
        cluster.ok(&["apply", "-f", shown.to_str().unwrap()]);
    }
}

fn what_has_happened_is_told(cluster: &Cluster) {
    let all = cluster.ok(&["events"]);
    for words in ["node/n0", "job/dev/again", "Submitted", "AttemptEnded", "Failed"] {
        assert!(all.contains(words), "{words}: {all}");
    }
    let one = cluster.ok(&["events", "job/broken", "-o", "json"]);
    // One that fails before all its ranks had been started has no start.
    assert!(one.lines().count() >= 2 && one.lines().all(|line| line.contains("job/dev/broken")), "{one}");
    assert_eq!(cluster.ok(&["events", "--since", "2100-01-01T00:00:00Z"]), "");
    let life = cluster.ok(&["history", "job", "again"]);
    assert!(
        life.contains("CreateJob") && life.contains("attempt 1: ") && life.contains("Completed"),
        "{life}"
    );
    let file = cluster.job("shell", "echo begun; exec sleep 1000");
    cluster.ok(&["submit", &file]);
    cluster.ok(&["wait", "job/shell", "--for", "started", "--timeout", "60s"]);
    assert_eq!(cluster.ok(&["exec", "shell", "-n", "--", "sh", "-c", "echo on $RAIL_NODE"]).trim(), "on n0");
    assert_eq!(cluster.run(&["exec", "shell", "-n", "--node", "n1", "--", "sh", "-c", "exit 9"]).0, 9);
    cluster.ok(&["cancel", "shell", "--grace", "1s", "--wait", "--timeout", "60s"]);
}

fn contexts_are_made_tried_and_removed(cluster: &Cluster) {
    let before = cluster.ok(&["config", "current-context"]);
    let file = fs::read_to_string(cluster.home.path().join("config.yaml")).unwrap();
    let value = |name: &str| {
        let line = file.lines().find(|line| line.trim().starts_with(&format!("{name}:"))).unwrap();
        line.split('"').nth(1).unwrap().to_owned()
    };
    let (controller, ca, cert, key) = (value("controller"), value("ca"), value("cert"), value("key"));
    let who = ["--controller", &controller, "--ca", &ca, "--cert", &cert, "--key", &key];
    cluster.ok(&[&["login", "mine"][..], &who].concat());
    assert_eq!(cluster.ok(&["config", "current-context"]), "mine\n");
    cluster.ok(&["config", "set-context", "mine", "--tenant", "dev"]);
    let listed = cluster.ok(&["config", "get-contexts"]);
    assert!(listed.lines().any(|line| line.starts_with("*  ") && line.contains("mine")), "{listed}");
    let (code, _, err) = cluster.run(&["login", "other", "--controller", "unix:/nowhere", "--ca", &ca]);
    assert!(code != 0 && !cluster.ok(&["config", "get-contexts"]).contains("other"), "{code} {err}");
    let (code, _, err) = cluster.run(&["config", "set-context", "x", "--ca", "/no/such.pem"]);
    assert!(code == 2 && err.contains("/no/such.pem"), "{code} {err}");
    cluster.ok(&["config", "delete-context", "mine"]);
    assert_eq!(cluster.run(&["config", "current-context"]).0, 3);
    cluster.ok(&["config", "use-context", before.trim()]);
    assert!(cluster.ok(&["whoami"]).contains("Identity:"));
}
