//! How fast it is; run by hand: `cargo test -p controller-api --test it -- --ignored --nocapture pace`.

use std::time::Instant;

use proto_wire::v1::{self, job_service_client::JobServiceClient, job_status::Phase};

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{create, job, until_it},
    world::World,
};

fn percentile(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures, and asserts nothing but success"]
async fn durable_submits_per_second_with_32_clients() {
    const CLIENTS: usize = 32;
    const EACH: usize = 200;
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let _agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let clients: Vec<_> = (0..CLIENTS).map(|_| world.user("default")).collect();
    let begin = Instant::now();
    let tasks = clients.into_iter().enumerate().map(|(client, channel)| {
        tokio::spawn(async move {
            let mut jobs = JobServiceClient::new(channel);
            let mut times = Vec::with_capacity(EACH);
            for n in 0..EACH {
                let sent = Instant::now();
                let mut request = create(job(&format!("j-{client}-{n}"), 1));
                request.request_id = format!("r-{client}-{n}");
                jobs.create_job(request).await.unwrap();
                times.push(sent.elapsed().as_secs_f64() * 1e3);
            }
            times
        })
    });
    let mut times = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        times.extend(task.await.unwrap());
    }
    let rate = times.len() as f64 / begin.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    let (half, most) = (percentile(&times, 0.5), percentile(&times, 0.99));
    let commits = world.metric("rail_loop_commits_total");
    let step = world.metric("rail_loop_step_seconds_sum");
    println!(
        "submits/s {rate:.0}, p50 {half:.1} ms, p99 {most:.1} ms, events per commit {:.1}, deciding {step:.2} s, committing {:.2} s",
        world.metric("rail_loop_events_total") / commits,
        world.metric("rail_loop_commit_seconds_sum")
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures, and asserts nothing but success"]
async fn from_submit_to_all_ranks_started_on_four_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut agents = Vec::new();
    for node in ["n0", "n1", "n2", "n3"] {
        agents.push(FakeAgent::connect(world.node(node).await, node, Behaviour::Complete).await);
    }
    let client = world.user("default");
    let mut jobs = JobServiceClient::new(client.clone());
    let mut times = Vec::new();
    for n in 0..100 {
        let name = format!("j{n}");
        let sent = Instant::now();
        jobs.create_job(create(job(&name, 4))).await.unwrap();
        let started = until_it(&client, &name, |job| job.status.as_ref().unwrap().start_time.is_some()).await;
        times.push(sent.elapsed().as_secs_f64() * 1e3);
        drop(started);
        until_it(&client, &name, |job| job.status.as_ref().unwrap().phase() == Phase::Completed).await;
        jobs.delete_job(v1::DeleteJobRequest { name, tenant: String::new() }).await.unwrap();
    }
    times.sort_by(f64::total_cmp);
    println!(
        "submit to started: p50 {:.1} ms, p99 {:.1} ms",
        percentile(&times, 0.5),
        percentile(&times, 0.99)
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures, and asserts nothing but success"]
async fn durable_submits_per_second_of_the_loop_alone() {
    use controller_core::{Event, Naming, Submit};
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let _agent = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let begin = Instant::now();
    let tasks: Vec<_> = (0..32)
        .map(|client| {
            let handle = world.handle.clone();
            tokio::spawn(async move {
                for n in 0..200 {
                    let spec = proto_model::JobSpec::try_from(job("x", 1).spec.unwrap()).unwrap();
                    let submit = Submit {
                        tenant: "default".parse().unwrap(),
                        name: Naming::Name(format!("j-{client}-{n}").parse().unwrap()),
                        labels: std::collections::BTreeMap::new(),
                        spec: Box::new(spec),
                        request: proto_model::RequestId::new(&format!("r-{client}-{n}")),
                        digest: [0; 32],
                        trace_parent: String::new(),
                    };
                    handle.apply(Event::Submit(Box::new(submit))).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let commits = world.metric("rail_loop_commits_total");
    println!(
        "loop alone: submits/s {:.0}, events per commit {:.1}, per commit {:.2} ms",
        6400.0 / begin.elapsed().as_secs_f64(),
        world.metric("rail_loop_events_total") / commits,
        world.metric("rail_loop_commit_seconds_sum") * 1e3 / commits,
    );
}
