//! Traces replayed without a cluster: told, refused, logged, decided again.

use std::{fmt::Write as _, fs};

use crate::run;

fn philly(jobs: usize) -> String {
    let mut text = "timestamp,duration,num_gpus,gpu_time,cluster\n".to_owned();
    for at in 0..jobs {
        let (hour, minute, gpus) = (at / 60 % 24, at % 60, [1, 2, 8, 16][at % 4]);
        let run = 600 + at * 37 % 3000;
        let time = run * gpus;
        let _ = writeln!(
            text,
            "2017-10-0{} {hour:02}:{minute:02}:00,{run}.0,{gpus},{time}.0,vc{}",
            1 + at % 2,
            at % 3
        );
    }
    text.push('\n');
    text
}

#[test]
fn servers_that_differ_are_simulated_logged_and_decided_again() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let (trace, servers, log) = (path("pods.csv"), path("servers.csv"), path("day.log"));
    let mut pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n".to_owned();
    for at in 0..60 {
        let (gpus, model) = [(1, ""), (2, "P100|T4"), (8, "V100M32"), (8, "")][at % 4];
        let _ = writeln!(
            pods,
            "p{at},{},16384,{gpus},1000,{model},LS,Running,{},{},{}",
            500 * at,
            at * 60,
            at * 60 + 900,
            at * 60
        );
    }
    fs::write(&trace, pods).unwrap();
    let list = "sn,cpu_milli,memory_mib,gpu,model\n\
        a,96000,786432,8,V100M32\nb,96000,786432,8,V100M32\nc,64000,524288,8,G2\nd,16000,65536,2,P100\ne,32000,262144,0,\n";
    fs::write(&servers, list).unwrap();
    let sizes = "rails=4,radix=16,pod=4";
    let args = ["simulate", "--fabric", sizes, "--servers", &servers, "--trace", &trace, "--log", &log];
    let (code, reported, err) = run(home.path(), &args);
    assert_eq!(code, 0, "{err}");
    let line = "its servers: 2 x 8 GPUs V100M32, 96 CPUs, 768 GiB; 1 x 2 GPUs P100, 16 CPUs, 64 GiB; 1 x 8 GPUs G2, 64 CPUs, 512 GiB";
    let folded = reported.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(folded.contains(line), "{reported}");
    assert!(folded.contains("1 server of the list has no GPU"), "{reported}");
    assert!(folded.contains("4 servers") && folded.contains("26 GPUs"), "{reported}");
    let (code, reported, err) = run(home.path(), &["replay", &log]);
    assert_eq!(code, 0, "{err}");
    assert!(reported.contains("decisions are the same"), "{reported}");
    let wrong =
        ["simulate", "--fabric", "nodes=3,rails=4,radix=16", "--servers", &servers, "--trace", &trace];
    let (code, _, err) = run(home.path(), &wrong);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("the list has 4 servers and the fabric 3"), "{err}");
    fs::write(&servers, "sn,gpu\na,x\n").unwrap();
    let (code, _, err) = run(home.path(), &args);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("servers.csv: line 2, gpu: 'x'"), "{err}");
}

#[test]
fn a_day_is_simulated_logged_and_decided_again() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let (trace, log, out) = (path("jobs.csv"), path("day.log"), path("out"));
    fs::write(&trace, philly(120)).unwrap();
    let fabric = "nodes=8,rails=4,radix=16,pod=4";
    let args = ["simulate", "--fabric", fabric, "--trace", &trace, "--log", &log, "--out", &out, "-o", "csv"];
    let (code, rows, err) = run(home.path(), &args);
    assert_eq!(code, 0, "{err}");
    assert_eq!(rows.lines().count(), 1 + 4 * 120, "{err}");
    assert!(err.contains("120 rows, 120 jobs") && err.contains("1 blank line\n"), "{err}");
    assert!(err.contains("Unsorted") && err.contains("0/120"), "{err}");
    for file in [
        "summary.txt",
        "summary.json",
        "jobs.csv",
        "utilisation.svg",
        "waits.png",
        "fragmentation.png",
        "cut.svg",
    ] {
        assert!(fs::metadata(home.path().join("out").join(file)).unwrap().len() > 100, "{file}");
    }
    assert_eq!(fs::read_to_string(path("out/jobs.csv")).unwrap(), rows);
    let (_, again, _) = run(home.path(), &args);
    assert_eq!(rows, again, "a day simulated twice is the same to the byte");
    let (code, reported, err) = run(home.path(), &["replay", &log]);
    assert_eq!(code, 0, "{err}");
    assert!(reported.contains("all 120 decisions are the same, 120 placements are proved"), "{reported}");
    let (code, _, err) = run(home.path(), &["replay", &log, "--fabric", "nodes=9,rails=4,radix=16,pod=4"]);
    assert_eq!(code, 2, "{err}");
    // Another GPU than was decided; a time at which the same would be decided; the end cut off.
    let text = fs::read_to_string(&log).unwrap();
    let (head, tail) = text.split_once("\"act\":\"start\"").unwrap();
    let node = format!("{head}\"act\":\"start\"{}", tail.replacen("[\"gpu", "[\"xpu", 1));
    let end = text.rfind("{\"line\":\"end\"").unwrap();
    let (kept, rest) = text.split_at(end);
    let rest = rest.replacen(",\"uid\"", "0,\"uid\"", 1);
    let time = format!("{kept}{}", rest.lines().next().unwrap());
    let lines = text.lines().count();
    let (cut, _) = text.trim_end().rsplit_once('\n').unwrap();
    for (hand, reported) in [
        (node.as_str(), &["decision 1", "server 1", "xpu", "now it is \"gpu"][..]),
        (&time, &["the sum of this line is not right"]),
        (cut, &[&format!("ends at line {}", lines - 1), "up to there its 120 decisions are the same"]),
    ] {
        fs::write(&log, hand).unwrap();
        let (code, out, err) = run(home.path(), &["replay", &log]);
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        assert!(reported.iter().all(|reported| err.contains(reported)), "{reported:?}: {err}");
    }
}

#[test]
fn what_is_left_out_is_said_first_and_settings_are_swept() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let (trace, out) = (path("jobs.csv"), path("out"));
    fs::write(&trace, philly(120)).unwrap();
    let given = ["simulate", "--fabric", "nodes=8,rails=4,radix=16,pod=4", "--trace", &trace];
    let first = |more: &[&str]| {
        let (code, reported, err) = run(home.path(), &[&given[..], &["--policy", "ours"], more].concat());
        assert_eq!(code, 0, "{err}");
        reported.lines().next().unwrap_or_default().to_owned()
    };
    assert!(first(&[]).starts_with("Ours      as the controller by default: looks 4096 jobs deep; "));
    let some = first(&["--without", "fair-share,growth", "--objective", "mean-wait:2d"]);
    let expected = "Ours      not as the controller by default: fair-share, growth off; objective mean-wait, patience 2.0d";
    assert_eq!(some, expected);
    let (code, reported, err) = run(home.path(), &[&given[..], &["--sweep", "--out", &out]].concat());
    assert_eq!(code, 0, "{err}");
    assert!(
        reported.contains("\nAdvised   ") && reported.contains(" easy ") && reported.contains("Pareto front"),
        "{reported}"
    );
    assert_eq!(fs::read_to_string(path("out/sweep.txt")).unwrap(), reported);
    for file in ["sweep.json", "pareto.svg", "pareto.png"] {
        assert!(fs::metadata(home.path().join("out").join(file)).unwrap().len() > 100, "{file}");
    }
    let (code, reported, err) = run(home.path(), &[&given[..], &["--sweep", "-o", "json"]].concat());
    assert_eq!(code, 0, "{err}");
    let json: serde_json::Value = serde_json::from_str(&reported).unwrap();
    assert_eq!(json["schema"], "rail.sweep/v1");
    assert!(json["advice"]["flags"].is_string(), "{json}");
}

#[test]
fn a_history_is_a_trace() {
    let home = tempfile::tempdir().unwrap();
    let trace = home.path().join("site.jsonl").to_str().unwrap().to_owned();
    let mut text = "{\"line\":\"header\",\"format\":\"rail.history\",\"version\":1,\"at\":0}\n".to_owned();
    for at in 0..20_u64 {
        let (submitted, started, ended) = (at * 10_000, at * 10_000, at * 10_000 + 60_000);
        let _ = writeln!(
            text,
            "{{\"line\":\"job\",\"tenant\":\"a\",\"name\":\"j{at}\",\"submitted\":{submitted},\"started\":{started},\
             \"ended\":{ended},\"nodes\":2,\"minNodes\":2,\"gpusPerNode\":8,\"ranksPerNode\":8}}"
        );
    }
    fs::write(&trace, &text).unwrap();
    let given = ["simulate", "--fabric", "nodes=8,rails=4,radix=16,pod=4", "--trace", &trace];
    let (code, reported, err) = run(home.path(), &given);
    assert_eq!(code, 0, "{err}");
    assert!(reported.contains("(Railyard history): 20 rows, 20 jobs, 0 repaired, 0 refused"), "{reported}");
    assert!(
        reported.contains("times between submits x 1.0000"),
        "a site's history is taken as it was: {reported}"
    );
    fs::write(&trace, text.replace("\"version\":1", "\"version\":9")).unwrap();
    let (code, _, err) = run(home.path(), &given);
    assert!(code == 2 && err.contains("version 9; this reads \"rail.history\" version 1"), "{err}");
}

#[test]
fn what_cannot_be_simulated_is_exit_2() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let (good, bad) = (path("good.csv"), path("bad.csv"));
    fs::write(&good, philly(8)).unwrap();
    fs::write(&bad, "timestamp,duration,num_gpus\n2017-10-01 00:00:00,-5,1\n2017-10-01 00:00:00,5,1\n")
        .unwrap();
    let (empty, header, junk) = (path("empty.csv"), path("header.csv"), path("junk.csv"));
    fs::write(&empty, "").unwrap();
    fs::write(&header, "timestamp,duration,num_gpus\n").unwrap();
    fs::write(&junk, b"\x1b[31mPK\x03\x04\xff\xfe\x00\x00\n").unwrap();
    let fabric = "nodes=8,rails=4,radix=16,pod=4";
    for (args, reported) in [
        (&["--fabric", fabric, "--trace", &empty][..], "the trace is empty"),
        (&["--fabric", fabric, "--trace", &header], "the Philly CSV has a header and no rows"),
        (&["--fabric", fabric, "--trace", &junk], "'?[31mPK??????' begins no trace that is known"),
        (&["--fabric", &junk, "--trace", &good], "not UTF-8 text"),
        (&["--fabric", &empty, "--trace", &good], "the text is empty"),
        (&["--fabric", fabric, "--trace", "nowhere.csv"], "cannot read"),
        (&["--fabric", "nodes=8,wheels=4", "--trace", &good], "wheels=4"),
        (&["--fabric", "nodes=0,rails=4", "--trace", &good], "nodes: 0"),
        (&["--fabric", "nodes=8,rails=0", "--trace", &good], "rails: 0"),
        (&["--fabric", fabric, "--trace", &good, "--load", "0"], "load: 0"),
        (&["--fabric", fabric, "--trace", &good, "--load", "1", "--speedup", "2"], "--speedup"),
        (&["--fabric", fabric, "--trace", &good, "--cluster", "Kalos"], "--cluster"),
        (&["--fabric", fabric, "--trace", &good, "--from", "90d"], "no job is left"),
        (&["--fabric", fabric, "--trace", &bad, "--strict"], "line 2, duration: -5 s"),
        (&["--fabric", fabric, "--trace", &good, "--policy", "easy", "--log", &path("x.log")], "--log"),
    ] {
        let (code, out, err) = run(home.path(), &[&["simulate"], args].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(reported), "{args:?}: {err}");
    }
    fs::write(path("no.log"), "{}\n").unwrap();
    let (code, _, err) = run(home.path(), &["replay", &path("no.log")]);
    assert_eq!(code, 2, "{err}");
}
