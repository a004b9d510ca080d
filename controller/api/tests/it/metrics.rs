//! What a controller that works tells Prometheus: by Prometheus' own tool, in both formats.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use proto_rpc::exposition::Exposition;
use proto_wire::v1::job_service_client::JobServiceClient;

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{create, job, until_it},
    world::World,
};

/// Prometheus' tool, where it is there; `cargo xtask test` brings it.
fn promtool() -> Option<Command> {
    let program = std::env::var_os("RAIL_TEST_PROMTOOL").unwrap_or_else(|| "promtool".into());
    if Command::new(&program).arg("--version").output().is_ok() {
        return Some(Command::new(program));
    }
    println!("skipped: promtool is not installed (Debian's package prometheus has it)");
    None
}

/// What the tool says of the text format.
fn check(text: &str) {
    let Some(mut promtool) = promtool() else { return };
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = promtool.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.trim().is_empty(), "{said}\n{text}");
}

/// The tool checks no OpenMetrics but reads it, with Prometheus' own parser, where every sample has a time.
fn read(open: &str, folder: &std::path::Path) {
    let Some(mut promtool) = promtool() else { return };
    let timed = open.lines().map(|line| match line.starts_with('#') {
        true => format!("{line}\n"),
        false => format!("{line} 1700000000\n"),
    });
    let (file, blocks) = (folder.join("metrics.om"), folder.join("blocks"));
    std::fs::write(&file, timed.collect::<String>()).unwrap();
    std::fs::create_dir(&blocks).unwrap();
    promtool.args(["tsdb", "create-blocks-from", "openmetrics"]).arg(&file).arg(&blocks);
    let output = promtool.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{open}");
    assert!(std::fs::read_dir(&blocks).unwrap().next().is_some(), "nothing was read: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_takes_both_formats_of_a_controller_that_works() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let _agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let client = world.user("default");
    let mut jobs = JobServiceClient::new(client.clone());
    jobs.create_job(create(job("counted", 1))).await.unwrap();
    until_it(&client, "counted", |job| job.status.as_ref().unwrap().start_time.is_some()).await;
    jobs.create_job(create(job("waits", 1))).await.unwrap();
    // Jobs are counted every other second, in a round of the loop.
    let asked = "rail_tenant_jobs{tenant=\"default\",state=\"waiting\"}";
    for _ in 0..100 {
        jobs.list_jobs(proto_wire::v1::ListJobsRequest::default()).await.unwrap();
        if world.metric(asked) > 0.0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    for (series, value) in [
        (asked, 1.0),
        ("rail_tenant_jobs{tenant=\"default\",state=\"placed\"}", 1.0),
        ("rail_queue_jobs{tenant=\"default\",queue=\"-\",state=\"placed\"}", 1.0),
        ("rail_job_starts_total{tenant=\"default\",queue=\"-\"}", 1.0),
        ("rail_job_wait_seconds_count{tenant=\"default\",queue=\"-\"}", 1.0),
        ("rail_leading", 1.0),
        ("rail_leads_total", 1.0),
    ] {
        assert!((world.metric(series) - value).abs() < 0.01, "{series} is {}", world.metric(series));
    }
    assert!(world.metric("rail_tenant_gpus_held{tenant=\"default\"}") > 0.0);
    assert!(world.metric("rail_queue_gpus_asked{tenant=\"default\",queue=\"-\"}") > 0.0);
    check(&world.metrics.encode(Exposition::Text));
    read(&world.metrics.encode(Exposition::OpenMetrics), dir.path());
}
