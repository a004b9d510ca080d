//! After the last fault: how long until all is as it should be, and what is stored then.

use std::{
    process::Command,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use integration_harness::procfs;
use proto_wire::v1::{
    self, audit_record::Content, audit_service_client::AuditServiceClient,
    job_service_client::JobServiceClient,
};

use crate::{
    callers::{LABEL, TENANT},
    history::What,
    members,
    setup::{World, text},
};

/// Longest wait for what should take less: the time that it took is worth more than that it was too long.
const PATIENCE: Duration = Duration::from_secs(180);
/// Calls at the end are tried for so long.
const ANSWER: Duration = Duration::from_secs(30);

/// Waits until all is well; gives the time since `last`.
pub fn converge(world: &World, last: Instant, limit: Duration) {
    // What was amiss last, for who wonders why it took so long.
    let mut amiss = String::new();
    let well = loop {
        match lacks(world) {
            None => break true,
            Some(wrong) => amiss = wrong,
        }
        if last.elapsed() > PATIENCE {
            break false;
        }
        thread::sleep(Duration::from_millis(100));
    };
    let took = last.elapsed();
    let in_time = well && took <= limit;
    let after_ms = in_time.then(|| u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    let note = match (in_time, well) {
        (true, _) => format!("at last: {amiss}"),
        (false, true) => format!("only after {:.1} s; at last: {amiss}", took.as_secs_f64()),
        (false, false) => format!("not within {:.0} s: {amiss}", took.as_secs_f64()),
    };
    world.parts.history.add(What::Converged { after_ms, note });
}

/// What is not as it should be; the first of it.
fn lacks(world: &World) -> Option<String> {
    let waiting = world.callers.at_work.load(Ordering::Relaxed);
    if waiting > 0 {
        return Some(format!("{waiting} callers wait for answers"));
    }
    if let Some(member) = (0..world.parts.members).find(|member| !members::well(*member)) {
        return Some(format!("e{member} is not well"));
    }
    let mut epochs = Vec::new();
    for which in 0..world.parts.members {
        let asked = world.runtime.block_on(async {
            let client = world.callers.only(which)?;
            world.callers.health(&client).await.map_err(|status| status.message().to_owned())
        });
        let health = match asked {
            Ok(health) => health,
            Err(error) => return Some(format!("c{which} does not tell: {error}")),
        };
        if let Some(wrong) = amiss(&health, world.parts.agents) {
            return Some(format!("c{which} tells: {wrong}"));
        }
        epochs.push(health.epoch);
    }
    epochs.dedup();
    if epochs.len() > 1 {
        return Some(format!("controllers follow leaders of the epochs {epochs:?}"));
    }
    // All jobs have ended: so has all that was started for them.
    let left = [["rail-chaos", "rank"], ["rail-node-agent", "supervise"], ["rail-engine", "run"]];
    let left = left.iter().find(|words| !procfs::find(*words).is_empty());
    left.map(|words| format!("`{}` is left of jobs that have ended", words.join(" ")))
}

fn amiss(health: &v1::ClusterHealth, agents: usize) -> Option<String> {
    let jobs = health.jobs_pending + health.jobs_running;
    match health {
        _ if !health.store_writable => Some("the store is not writable".to_owned()),
        _ if health.nodes_ready as usize != agents => {
            Some(format!("{} of {agents} nodes are ready", health.nodes_ready))
        }
        _ if jobs > 0 => Some(format!("{jobs} jobs have not ended")),
        _ if health.gpus_held > 0 => Some(format!("{} GPUs are held", health.gpus_held)),
        _ => None,
    }
}

/// Writes down what is stored, and what the audit log has.
///
/// # Errors
/// No controller answers, or one refuses.
pub fn collect(world: &World) -> Result<(), String> {
    jobs(world)?;
    records(world)?;
    let (good, said) = verify(world);
    world.parts.history.add(What::Verified { good, said });
    Ok(())
}

/// Again and again, with all controllers, until one answers.
fn asked<T>(
    world: &World,
    what: &str,
    ask: impl AsyncFn(proto_rpc::Client) -> Result<T, tonic::Status>,
) -> Result<T, String> {
    let begin = Instant::now();
    loop {
        let answer = world.runtime.block_on(async {
            let client = world.callers.client(0..world.parts.members)?;
            ask(client.with_timeout(ANSWER)).await.map_err(|status| format!("{what}: {}", status.message()))
        });
        match answer {
            Err(_) if begin.elapsed() < ANSWER => thread::sleep(Duration::from_millis(200)),
            answer => return answer,
        }
    }
}

fn jobs(world: &World) -> Result<(), String> {
    let mut page_token = String::new();
    loop {
        let request = v1::ListJobsRequest {
            tenant: TENANT.to_owned(),
            page_size: 500,
            page_token: page_token.clone(),
            ..v1::ListJobsRequest::default()
        };
        let list = asked(world, "the list of jobs", async |client| {
            JobServiceClient::new(client).list_jobs(request.clone()).await.map(tonic::Response::into_inner)
        })?;
        for job in list.jobs {
            let (metadata, status) = (job.metadata.unwrap_or_default(), job.status.unwrap_or_default());
            world.parts.history.add(What::Stored {
                uid: metadata.uid,
                name: metadata.name,
                request: metadata.labels.get(LABEL).cloned().unwrap_or_default(),
                phase: status.phase().as_str_name().to_owned(),
            });
        }
        page_token = list.next_page_token;
        if page_token.is_empty() {
            return Ok(());
        }
    }
}

fn records(world: &World) -> Result<(), String> {
    let records = asked(world, "the audit log", async |client| {
        let mut stream = AuditServiceClient::new(client)
            .export_audit_records(v1::ExportAuditRecordsRequest {})
            .await?
            .into_inner();
        let mut all = Vec::new();
        while let Some(record) = stream.message().await? {
            all.push(record);
        }
        Ok(all)
    })?;
    for record in records {
        if let Some(Content::Change(change)) = record.content {
            let actor = change.actor.unwrap_or_default();
            world.parts.history.add(What::Audited {
                seq: record.seq,
                rpc: actor.rpc,
                request: actor.request_id,
            });
        }
    }
    Ok(())
}

fn verify(world: &World) -> (bool, String) {
    let mut command = Command::new(world.parts.programs.bin.join("railctl"));
    let admin = &world.callers.admin;
    let doors: Vec<_> = world.callers.doors.iter().map(|door| format!("https://{}", door.address)).collect();
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("RAIL_")) {
        command.env_remove(name);
    }
    command
        .args(["audit", "verify"])
        .env("RAIL_CONTROLLER", doors.join(","))
        .env("RAIL_CA", admin.join("ca.pem"));
    command.env("RAIL_CERT", admin.join("admin.pem")).env("RAIL_KEY", admin.join("admin.key"));
    command.env("RAIL_CONFIG", world.parts.dir.join("railctl.yaml"));
    match command.output().map_err(text) {
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            (output.status.success(), String::from_utf8_lossy(&said).trim().to_owned())
        }
        Err(error) => (false, error),
    }
}
