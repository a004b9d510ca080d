//! Whoever uses a cluster all the time: programs that submit, read, list, cancel and watch, each call tried again as railctl does; `railctl` of both
//! releases; and jobs of two servers whose sums are checked. Every call that fails for good is kept.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use integration_harness::Users;
use proto_rpc::{Client, ErrorClass, Jitter, RetryPolicy, RpcError, retry};
use proto_wire::v1::{
    self, job_service_client::JobServiceClient, job_status::Phase, node_service_client::NodeServiceClient,
};
use tokio::{runtime::Runtime, task::JoinHandle};
use tonic::{Response, Status};

use crate::command_job::{command_job, text};

/// The tenant that all jobs are of.
const TENANT: &str = "default";
/// Failures whose words are kept.
const KEPT: usize = 8;
/// Between two rounds of a caller, so that there is time for others on this machine.
const PAUSE: Duration = Duration::from_millis(250);
/// Longest time until a job of two servers has ended, and until a watch has seen what was stored. Other load on this machine may be heavy.
const PATIENCE: Duration = Duration::from_secs(180);
/// A watch that cannot be had again for so long has failed, as for railctl.
const AWAY: Duration = Duration::from_secs(60);

/// What became of calls.
#[derive(Debug, Default)]
pub struct Tally {
    /// Calls that were answered or failed for good, and `railctl` that was run to its end.
    pub calls: u64,
    /// Those that failed.
    pub failed: u64,
    /// The first failures, in words.
    pub failures: Vec<String>,
    /// The longest time from a call to its answer.
    pub slowest: Duration,
    /// Jobs that were acknowledged, by uid: name, and when.
    pub made: BTreeMap<String, (String, Instant)>,
    /// Jobs of two servers that ended well, with sums that were right.
    pub verified: u64,
    /// Those that did not.
    pub unverified: u64,
    /// Watches that went on behind a lost connection.
    pub resumed: u64,
    /// Uids that the watch has brought.
    seen: BTreeSet<String>,
}

impl Tally {
    fn fail(&mut self, what: &str) {
        self.failed += 1;
        if self.failures.len() < KEPT {
            self.failures.push(what.to_owned());
        }
    }

    /// Jobs that were acknowledged and that the watch has not brought.
    pub fn missed(&self) -> u64 {
        self.made.keys().filter(|uid| !self.seen.contains(*uid)).count() as u64
    }
}

/// What all callers share.
#[derive(Clone)]
struct Shared {
    over: Arc<AtomicBool>,
    tally: Arc<Mutex<Tally>>,
}

impl Shared {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn ended(&self, doing: &str, begun: Instant, failure: Option<String>) {
        let mut tally = self.tally();
        tally.calls += 1;
        tally.slowest = tally.slowest.max(begun.elapsed());
        if let Some(failure) = failure {
            tally.fail(&format!("{doing}: {failure}"));
        }
    }

    /// A call as railctl makes it.
    async fn call<T, F, Fut>(&self, doing: &str, call: F) -> Option<T>
    where
        F: FnMut(u32) -> Fut,
        Fut: Future<Output = Result<Response<T>, Status>>,
    {
        let begun = Instant::now();
        let answer = retry(&RetryPolicy::default(), &mut Jitter::from_os(), call).await;
        self.ended(doing, begun, answer.as_ref().err().map(text));
        answer.ok().map(Response::into_inner)
    }
}

/// Callers that are at work.
pub struct Load {
    shared: Shared,
    tasks: Vec<JoinHandle<()>>,
    watch: JoinHandle<()>,
    threads: Vec<thread::JoinHandle<()>>,
    screens: Vec<Screen>,
}

/// `railctl get jobs --watch`, of one release.
struct Screen {
    release: &'static str,
    child: Child,
    file: PathBuf,
}

impl Drop for Screen {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Load {
    /// Callers with these clients, one each, and `railctl` of these releases, `(which, folder of its program)`; `dir` is for their files.
    ///
    /// # Errors
    /// A `railctl` cannot be started.
    pub fn start(
        runtime: &Runtime,
        [first, second, third]: [Client; 3],
        users: &Users,
        releases: &[(&'static str, PathBuf)],
        dir: &Path,
    ) -> Result<Self, String> {
        let shared = Shared { over: Arc::default(), tally: Arc::default() };
        let watch = runtime.spawn(watch(shared.clone(), first.clone()));
        let mut tasks = vec![runtime.spawn(pairs(shared.clone(), third))];
        for (number, client) in [first, second].into_iter().enumerate() {
            tasks.push(runtime.spawn(submits(shared.clone(), client, number)));
        }
        let (mut threads, mut screens) = (Vec::new(), Vec::new());
        for &(release, ref bin) in releases {
            screens.push(screen(release, bin, users, dir)?);
            let (shared, users, bin, release) = (shared.clone(), users.clone(), bin.clone(), release);
            threads.push(thread::spawn(move || commands(&shared, &users, &bin, release)));
        }
        Ok(Self { shared, tasks, watch, threads, screens })
    }

    /// Failures so far.
    pub fn failed(&self) -> u64 {
        self.shared.tally().failed
    }

    /// Jobs of two servers that have ended so far.
    pub fn pairs(&self) -> u64 {
        let tally = self.shared.tally();
        tally.verified + tally.unverified
    }

    /// Ends all callers, and answers what they have seen. Whoever watches gets the time to see the last job.
    pub fn finish(self, runtime: &Runtime, client: &Client) -> Tally {
        self.shared.over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            if let Err(error) = runtime.block_on(task) {
                self.shared.tally().fail(&format!("a caller: {error}"));
            }
        }
        for thread in self.threads {
            if thread.join().is_err() {
                self.shared.tally().fail("a caller of railctl ended in the middle");
            }
        }
        let last = runtime.block_on(submit(&self.shared, client, "last", short("last", &["/bin/true"])));
        let caught_up = || last.as_ref().is_some_and(|uid| self.shared.tally().seen.contains(uid));
        if let Err(error) =
            integration_harness::eventually("the watch to bring the last job", PATIENCE, || {
                caught_up().then_some(())
            })
        {
            self.shared.tally().fail(&error);
        }
        self.watch.abort();
        for screen in &mut { self.screens } {
            if let Err(error) = screen.has("last") {
                self.shared.tally().fail(&error);
            }
        }
        std::mem::take(&mut *self.shared.tally())
    }
}

impl Screen {
    /// Waits until it has printed a job.
    fn has(&mut self, job: &str) -> Result<(), String> {
        let release = self.release;
        integration_harness::eventually("railctl get jobs --watch to bring the last job", PATIENCE, || {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(Err(format!("railctl get jobs --watch ({release}) ended with {status}")));
            }
            let printed = std::fs::read_to_string(&self.file).unwrap_or_default();
            printed.lines().any(|line| line.contains(job)).then_some(Ok(()))
        })
        .and_then(|ended| ended)
        .map_err(|error| format!("{error} ({release})"))
    }
}

fn screen(release: &'static str, bin: &Path, users: &Users, dir: &Path) -> Result<Screen, String> {
    let file = dir.join(format!("watch-{release}"));
    let mut command = users.railctl(bin, &["get", "jobs", "--watch", "--tenant", TENANT]);
    command.stdout(File::create(&file).map_err(text)?);
    command.stderr(File::create(dir.join(format!("watch-{release}.err"))).map_err(text)?);
    Ok(Screen { release, child: command.spawn().map_err(text)?, file })
}

/// A job of one server, without GPU and rail, so that many can run.
fn short(name: &str, argv: &[&str]) -> v1::Job {
    let mut job = command_job(name, 1, argv);
    if let Some(spec) = job.spec.as_mut() {
        spec.rails = Some(v1::RailRequest { none: true, ..v1::RailRequest::default() });
        if let Some(gang) = spec.gang.as_mut() {
            gang.gpus_per_node = 0;
        }
    }
    job
}

/// A job of a GPU and a rail of each of so many servers.
pub fn gang(name: &str, nodes: u32, work: v1::job_spec::Work) -> v1::Job {
    let mut job = command_job(name, nodes, &[]);
    if let Some(spec) = job.spec.as_mut() {
        spec.rails = Some(v1::RailRequest { required: 1, allow_partial: true, ..v1::RailRequest::default() });
        spec.work = Some(work);
    }
    job
}

/// Some all-reduces of the job's own program, every element checked.
fn reduces() -> v1::job_spec::Work {
    v1::job_spec::Work::Collective(v1::Collective {
        op: v1::collective::Op::AllReduce.into(),
        bytes: 64 * 1024,
        iterations: 20,
        verify: true,
        ..v1::Collective::default()
    })
}

/// Submits a job, and answers its uid.
async fn submit(shared: &Shared, client: &Client, name: &str, job: v1::Job) -> Option<String> {
    let request = create(job);
    let call = |_| {
        let (mut jobs, request) = (JobServiceClient::new(client.clone()), request.clone());
        async move { jobs.create_job(request).await }
    };
    let job = shared.call(&format!("submit {name}"), call).await?;
    let uid = job.metadata.map(|metadata| metadata.uid).unwrap_or_default();
    shared.tally().made.insert(uid.clone(), (name.to_owned(), Instant::now()));
    Some(uid)
}

/// The request for a job, which may be made again.
pub fn create(job: v1::Job) -> v1::CreateJobRequest {
    v1::CreateJobRequest {
        job: Some(job),
        request_id: uuid::Uuid::new_v4().to_string(),
        on_behalf_of: TENANT.to_owned(),
        ..v1::CreateJobRequest::default()
    }
}

async fn get(shared: &Shared, client: &Client, name: &str) -> Option<v1::Job> {
    let request = v1::GetJobRequest { tenant: TENANT.to_owned(), name: name.to_owned() };
    let call = |_| {
        let (mut jobs, request) = (JobServiceClient::new(client.clone()), request.clone());
        async move { jobs.get_job(request).await }
    };
    shared.call(&format!("get {name}"), call).await
}

/// Submits, reads, lists and cancels until it is over.
async fn submits(shared: Shared, client: Client, number: usize) {
    for round in 0.. {
        if shared.is_over() {
            return;
        }
        let name = format!("s{number}-{round}");
        submit(&shared, &client, &name, short(&name, &["/bin/true"])).await;
        get(&shared, &client, &name).await;
        let list = |_| {
            let request =
                v1::ListJobsRequest { tenant: TENANT.to_owned(), page_size: 50, ..Default::default() };
            let mut jobs = JobServiceClient::new(client.clone());
            async move { jobs.list_jobs(request).await }
        };
        shared.call("list jobs", list).await;
        let nodes = |_| {
            let mut nodes = NodeServiceClient::new(client.clone());
            async move { nodes.list_nodes(v1::ListNodesRequest::default()).await }
        };
        shared.call("list nodes", nodes).await;
        let name = format!("c{number}-{round}");
        submit(&shared, &client, &name, short(&name, &["/bin/sleep", "600"])).await;
        let request =
            v1::CancelJobRequest { tenant: TENANT.to_owned(), name: name.clone(), ..Default::default() };
        let cancel = |_| {
            let (mut jobs, request) = (JobServiceClient::new(client.clone()), request.clone());
            async move { jobs.cancel_job(request).await }
        };
        shared.call(&format!("cancel {name}"), cancel).await;
        tokio::time::sleep(PAUSE).await;
    }
}

/// One job of two servers after the other; what they sum up is checked.
async fn pairs(shared: Shared, client: Client) {
    for round in 0.. {
        if shared.is_over() {
            return;
        }
        let name = format!("p-{round}");
        if submit(&shared, &client, &name, gang(&name, 2, reduces())).await.is_none() {
            continue;
        }
        let begun = Instant::now();
        let ended = loop {
            let status = get(&shared, &client, &name).await.and_then(|job| job.status).unwrap_or_default();
            match status.phase() {
                Phase::Completed | Phase::Failed | Phase::Cancelled => break Ok(status),
                _ if begun.elapsed() > PATIENCE => break Err(status),
                _ => tokio::time::sleep(PAUSE).await,
            }
        };
        let mut tally = shared.tally();
        match ended {
            Ok(status) if status.result.as_ref().is_some_and(|result| result.verified) => tally.verified += 1,
            Ok(status) | Err(status) => {
                tally.unverified += 1;
                let (phase, reasons) = (status.phase().as_str_name(), &status.reasons);
                tally.fail(&format!("job {name} of two servers: {phase}, {reasons:?}"));
            }
        }
    }
}

/// Follows all jobs until it is dropped, from where the stream before ended.
async fn watch(shared: Shared, client: Client) {
    let (mut after, mut away): (u64, Option<Instant>) = (0, None);
    let mut jitter = Jitter::from_os();
    loop {
        let Err(status) = follow(&shared, &client, &mut after, &mut away).await else {
            shared.tally().resumed += 1;
            continue;
        };
        match RpcError::from_status(&status).class {
            ErrorClass::Unavailable
            | ErrorClass::Overloaded
            | ErrorClass::Internal
            | ErrorClass::Cancelled
            | ErrorClass::Timeout
                if away.get_or_insert_with(Instant::now).elapsed() < AWAY =>
            {
                shared.tally().resumed += 1;
            }
            _ => return shared.tally().fail(&format!("a watch from {after}: {}", text(status))),
        }
        tokio::time::sleep(Duration::from_millis(50) + jitter.up_to(PAUSE)).await;
    }
}

async fn follow(
    shared: &Shared,
    client: &Client,
    after: &mut u64,
    away: &mut Option<Instant>,
) -> Result<(), Status> {
    let request =
        v1::WatchJobsRequest { tenant: TENANT.to_owned(), after_revision: *after, ..Default::default() };
    let mut jobs = JobServiceClient::new(client.without_timeout());
    let mut events = jobs.watch_jobs(request).await?.into_inner();
    let mut synced = *after > 0;
    while let Some(event) = events.message().await? {
        *away = None;
        synced |= event.r#type() == v1::job_event::Type::Synced;
        if synced {
            // The rest of this revision may be still to come: it is delivered again.
            let open = event.r#type() != v1::job_event::Type::Synced;
            let reached = event.revision.saturating_sub(u64::from(open));
            *after = (*after).max(reached);
        }
        if let Some(metadata) = event.job.and_then(|job| job.metadata) {
            shared.tally().seen.insert(metadata.uid);
        }
    }
    Ok(())
}

/// `railctl` of one release, as a script uses it.
fn commands(shared: &Shared, users: &Users, bin: &Path, release: &str) {
    for round in 0.. {
        if shared.is_over() {
            return;
        }
        let name = format!("{release}-{round}");
        let submit = ["submit", "--name", &name, "--tenant", TENANT, "--wrap", "true"];
        let jobs = ["get", "jobs", &name, "--tenant", TENANT, "-o", "json"];
        let all: [&[&str]; 4] = [&submit, &jobs, &["get", "nodes"], &["health"]];
        for arguments in all {
            let begun = Instant::now();
            let doing = format!("railctl ({release}) {}", arguments.join(" "));
            let failure = match users.railctl(bin, arguments).stdout(Stdio::null()).output() {
                Ok(output) if output.status.success() => None,
                Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
                Err(error) => Some(text(error)),
            };
            shared.ended(&doing, begun, failure);
        }
        thread::sleep(PAUSE);
    }
}
