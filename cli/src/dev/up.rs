//! Starting a cluster, or what of it does not run.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use proto_model::many;
use proto_wire::v1;
use serde::Deserialize;

use super::{
    down, frr,
    launch::{Launch, arg, private_dir},
    network,
    plan::{self, Machine, NodePlan, Plan},
    process,
    programs::Programs,
    ranks::Ranks,
    spec::{Layout, Record, Spec, write_json},
    switch_plan,
};
use crate::{
    args::{DevUp, Leaves},
    client::{Api, once, repeat},
    config::{ConfigFile, Context, Environment, Settings},
    error::Error,
    output::now,
    render,
};

/// From the start of the controller until it answers.
const CONTROLLER_LIMIT: Duration = Duration::from_secs(15);
/// From the start of the agents until all nodes are ready.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// The tenant that the cluster's context acts for.
const TENANT: &str = "dev";
/// How much of a log is shown when its process has failed.
const TAIL_LINES: usize = 12;

/// Starts the cluster; says on standard error what happens, and takes everything down again if it fails.
///
/// # Errors
/// [`Error::Usage`] if the folder is not that of a cluster or the shape differs; [`Error::Dev`] if something does not start in time.
pub async fn up(args: &DevUp, env: &Environment) -> Result<String, Error> {
    let layout = Layout::of(&args.target, env)?;
    let recorded = layout.read()?;
    if layout.dir.exists()
        && !layout.is_ours()
        && std::fs::read_dir(&layout.dir).is_ok_and(|mut list| list.next().is_some())
    {
        return Err(Error::Usage(format!(
            "{} exists and is no cluster: give another --dir",
            layout.dir.display()
        )));
    }
    let spec = Spec::of_flags(args, recorded.as_ref().map(|record| &record.spec))?;
    let has_switches = spec.leaves == Leaves::Frr;
    if spec.netns {
        let tools =
            [("ip", true), ("tc", spec.rail_rate_bps.is_some()), ("bridge", has_switches && spec.pods > 1)];
        network::check(
            &tools.into_iter().filter(|(_, needed)| *needed).map(|(tool, _)| tool).collect::<Vec<_>>(),
        )?;
    }
    let programs = Programs::find(args.bin_dir.as_deref(), has_switches, env)?;
    let frr = if has_switches { Some(frr::find(env)?) } else { None };
    let fresh = recorded.is_none();
    let record = recorded.unwrap_or_else(|| Record {
        spec: spec.clone(),
        id: uuid::Uuid::new_v4().to_string(),
        port: None,
        namespaces: Vec::new(),
        complete: false,
        config: env.config_path(),
        previous_context: None,
    });
    if args.owner_stdin {
        start_guard(args, &layout, &record.id)?;
    }
    private_dir(&layout.dir)?;
    private_dir(&layout.run())?;
    process::record_myself(&layout.process(down::UP))?;
    let lock = down::lock(&layout)?;
    let mut work = Up {
        layout,
        programs,
        frr,
        plan: plan::plan(&spec, machine()),
        record,
        begun: Instant::now(),
        changed: 0.0,
        children: BTreeMap::new(),
    };
    work.say(&format!("cluster `{}`: {}", spec.name, spec.words()));
    let done = tokio::select! {
        done = work.all(env) => done,
        () = process::interrupted() => Err(Error::Interrupted),
    };
    if let Err(error) = done {
        if fresh {
            work.say("taking it down again");
            down::down_locked(&work.layout, env, None)?;
        }
        return Err(error);
    }
    let text = work.words();
    finish(args, work, lock, env, text).await
}

/// Leaves the cluster running, or stays with it.
async fn finish(
    args: &DevUp,
    work: Up,
    lock: File,
    env: &Environment,
    text: String,
) -> Result<String, Error> {
    drop(lock);
    if !args.foreground {
        let _ = std::fs::remove_file(work.layout.process(down::UP));
        return Ok(text);
    }
    eprint!("{text}");
    eprintln!("Ctrl-C takes it down.");
    process::interrupted().await;
    down::down(&work.layout, env, None)?;
    Ok(String::new())
}

fn start_guard(args: &DevUp, layout: &Layout, mark: &str) -> Result<(), Error> {
    if process::recorded_to_stay(&layout.process(down::GUARD)).is_some() {
        return Ok(());
    }
    let me = process::myself()?;
    let exe = std::env::current_exe().map_err(|error| Error::file("find", "/proc/self/exe", error))?;
    let mut command = vec![arg(exe)];
    command.extend(["dev", "guard", "--name", &args.target.name, "--dir"].map(arg));
    command.push(arg(&layout.dir));
    command.extend([arg("--up-pid"), arg(me.pid.to_string()), arg("--up-start"), arg(me.start.to_string())]);
    let launch = Launch { role: down::GUARD, command, env: Vec::new(), mark, stdin: Stdio::inherit() };
    launch.start(layout).map(drop)
}

fn machine() -> Machine {
    let info = rustix::system::sysinfo();
    let unit = u64::from(info.mem_unit).max(1);
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Machine {
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        memory_bytes: info.totalram.saturating_mul(unit),
    }
}

/// What the controller writes when it serves.
#[derive(Debug, Deserialize)]
struct ControllerFile {
    endpoints: Vec<String>,
}

pub(super) struct Up {
    pub(super) layout: Layout,
    pub(super) programs: Programs,
    /// Where FRR is, in a cluster with switches.
    pub(super) frr: Option<PathBuf>,
    pub(super) plan: Plan,
    record: Record,
    begun: Instant,
    /// A heartbeat from before this says nothing: somebody was started since.
    pub(super) changed: f64,
    children: BTreeMap<String, Child>,
}

impl Up {
    pub(super) fn say(&self, text: &str) {
        eprintln!("{:6.2} s  {text}", self.begun.elapsed().as_secs_f64());
    }

    async fn all(&mut self, env: &Environment) -> Result<(), Error> {
        self.layout.write(&self.record)?;
        self.network()?;
        self.controller().await?;
        let api = Api::new(&self.settings())?;
        if !self.record.complete {
            self.describe(&api).await?;
            self.describe_switches(&api).await?;
        }
        self.switches(&api).await?;
        self.agents(&api).await?;
        self.ready(&api).await?;
        self.switches_ready(&api).await?;
        self.record.complete = true;
        self.contexts(env)?;
        self.layout.write(&self.record)
    }

    /// Builds the network, if there is none yet.
    fn network(&mut self) -> Result<(), Error> {
        let Some(network) = &self.plan.network else {
            let absent = if rustix::process::geteuid().is_root() {
                "no network namespaces and no shaping (--netns makes them)"
            } else {
                "without root there are no network namespaces, no shaping and no control groups"
            };
            self.say(&format!("rails are loopback addresses: {absent}"));
            return Ok(());
        };
        let there = network.namespaces.iter().filter(|name| network::exists(name)).count();
        // Of an `up` that was killed nobody knows how far it came with it.
        let whole = self.record.complete && !self.record.namespaces.is_empty();
        if whole && there == network.namespaces.len() {
            return Ok(());
        }
        if self.record.namespaces.is_empty() {
            // Only from here on they are ours to remove.
            if let Some(taken) = network.namespaces.iter().find(|name| network::exists(name)) {
                return Err(Error::Dev(format!(
                    "network namespace {taken} exists and belongs to another cluster or to what is left of one: give \
                     another --name, or remove it (`ip netns del {taken}`)"
                )));
            }
        } else {
            // Whoever runs would stay in a network that is no more.
            network::clear(&network.namespaces, self.inside())?;
            network::remove(&network.namespaces)?;
        }
        self.record.namespaces.clone_from(&network.namespaces);
        self.layout.write(&self.record)?;
        network::build(network)?;
        self.say(&format!("{} network namespaces, {} links", network.namespaces.len(), network.links.len()));
        Ok(())
    }

    async fn controller(&mut self) -> Result<(), Error> {
        let role = "controller";
        if process::recorded_to_stay(&self.layout.process(role)).is_some() {
            return Ok(());
        }
        let data = self.layout.controller();
        let serving = data.join("controller.json");
        if !data.join("admin.pem").exists() {
            private_dir(&data)?;
            let name = self.record.spec.name.clone();
            self.run_once(&self.programs.controller_init(&self.layout, &name))?;
        }
        // The file of an earlier run must not be taken for this one's.
        let _ = std::fs::remove_file(&serving);
        let _ = std::fs::remove_file(self.layout.socket());
        let command = self.programs.controller_run(&self.layout, self.record.port);
        self.start(role, command, Vec::new())?;
        let end = Instant::now() + CONTROLLER_LIMIT;
        let file = loop {
            if let Ok(text) = std::fs::read_to_string(&serving)
                && let Ok(file) = serde_json::from_str::<ControllerFile>(&text)
            {
                break file;
            }
            self.check_children()?;
            if Instant::now() >= end {
                return Err(
                    self.failed(role, &format!("does not serve after {} s", CONTROLLER_LIMIT.as_secs()))
                );
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let tcp = file.endpoints.iter().find(|endpoint| endpoint.starts_with("https://"));
        if let Some(port) =
            tcp.and_then(|endpoint| endpoint.rsplit(':').next()?.trim_end_matches('/').parse().ok())
        {
            self.record.port = Some(port);
            self.layout.write(&self.record)?;
        }
        self.say(&format!("controller serves at {}", tcp.map_or("its unix socket", String::as_str)));
        Ok(())
    }

    /// Makes the tenant and the fabric of the cluster.
    async fn describe(&self, api: &Api) -> Result<(), Error> {
        let spec = &self.record.spec;
        let tenant = v1::Tenant {
            api_version: "rail/v1".to_owned(),
            kind: "Tenant".to_owned(),
            metadata: Some(v1::Metadata { name: TENANT.to_owned(), ..v1::Metadata::default() }),
            spec: Some(v1::TenantSpec {
                description: "Users of this local cluster".to_owned(),
                quota: Some(v1::Quota { gpus: spec.nodes * spec.gpus, ..v1::Quota::default() }),
                ..v1::TenantSpec::default()
            }),
            status: None,
        };
        let request = v1::ApplyTenantRequest { tenant: Some(tenant), dry_run: false, reuse_name: false };
        repeat(format!("create tenant `{TENANT}`"), |_| {
            let (mut client, request) = (api.tenants(), request.clone());
            async move { client.apply_tenant(request).await }
        })
        .await?;
        let request = v1::ApplyFabricRequest {
            fabric: Some(self.plan.fabric.clone()),
            dry_run: false,
            allow_shrink: false,
        };
        repeat("apply the fabric", |_| {
            let (mut client, request) = (api.fabrics(), request.clone());
            async move { client.apply_fabric(request).await }
        })
        .await?;
        self.say(&format!("fabric of {} applied, tenant `{TENANT}` created", many(spec.rails, "rail")));
        Ok(())
    }

    /// Starts every agent that does not run.
    async fn agents(&mut self, api: &Api) -> Result<(), Error> {
        let role = |node: &NodePlan| plan::agent_role(&node.name);
        let missing: Vec<NodePlan> = (self.plan.nodes.iter())
            .filter(|node| process::recorded_to_stay(&self.layout.process(&role(node))).is_none())
            .cloned()
            .collect();
        let tokens = missing.iter().map(|node| {
            let request = v1::CreateJoinTokenRequest { node: node.name.clone(), lifetime: None };
            let mut client = api.nodes();
            async move { once("create a join token", client.create_join_token(request)).await }
        });
        let mut given = Vec::new();
        for token in tokens {
            given.push(token.await?);
        }
        let ranks = Ranks::choose(&self.programs, &self.layout, &self.record, self.plan.nodes.len());
        if !missing.is_empty() {
            self.say(&ranks.words());
        }
        for (node, token) in missing.iter().zip(given) {
            write_json(&self.layout.inventory(&node.name), &node.inventory)?;
            private_dir(&self.layout.node(&node.name))?;
            let command = self.programs.agent(&self.layout, node, &token.ca_pin, &ranks);
            self.start(&role(node), command, vec![("RAIL_JOIN_TOKEN", token.token.into())])?;
        }
        if !missing.is_empty() {
            self.say(&format!("{} agents started", missing.len()));
        }
        Ok(())
    }

    /// Waits until every node is ready.
    async fn ready(&mut self, api: &Api) -> Result<(), Error> {
        let end = Instant::now() + READY_LIMIT;
        loop {
            let nodes = api.list_nodes().await?.nodes;
            let waiting: Vec<&str> = (self.plan.nodes.iter())
                .filter(|plan| !nodes.iter().any(|node| is_ready(node, &plan.name, self.changed)))
                .map(|plan| plan.name.as_str())
                .collect();
            if waiting.is_empty() {
                break;
            }
            let waiting = waiting.join(", ");
            self.check_children()?;
            if Instant::now() >= end {
                let role = plan::agent_role(waiting.split(',').next().unwrap_or_default());
                return Err(self.failed(
                    &role,
                    &format!("nodes {waiting} are not ready after {} s", READY_LIMIT.as_secs()),
                ));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.say(&format!("{} ready", many(self.plan.nodes.len(), "node")));
        Ok(())
    }

    /// Writes the context into the user's configuration, and one of its own into the cluster's folder.
    fn contexts(&mut self, env: &Environment) -> Result<(), Error> {
        let name = self.record.spec.name.clone();
        let settings = self.settings();
        let context = Context {
            controller: settings.controller,
            ca: settings.ca,
            cert: settings.cert,
            key: settings.key,
            token: None,
            tenant: Some(TENANT.to_owned()),
            oidc: None,
        };
        let mut own = ConfigFile { current_context: Some(name.clone()), ..ConfigFile::default() };
        own.contexts.insert(name.clone(), context.clone());
        own.save(&self.layout.config())?;
        let Some(path) = env.config_path() else { return Ok(()) };
        let mut previous = None;
        ConfigFile::update(&path, |file| {
            file.contexts.insert(name.clone(), context);
            previous = file.current_context.replace(name.clone()).filter(|old| *old != name);
        })?;
        if previous.is_some() {
            self.record.previous_context = previous;
        }
        self.record.config = Some(path);
        Ok(())
    }

    /// How to reach the controller as its administrator. The unix socket comes first: it stays the same.
    fn settings(&self) -> Settings {
        let data = self.layout.controller();
        let mut controller = vec![format!("unix:{}", self.layout.socket().display())];
        controller.extend(self.record.port.map(|port| format!("https://127.0.0.1:{port}")));
        Settings {
            controller,
            ca: Some(data.join("ca.pem")),
            cert: Some(data.join("admin.pem")),
            key: Some(data.join("admin.key")),
            token: None,
            tenant: TENANT.to_owned(),
            request_timeout: None,
            signed_on: None,
        }
    }

    pub(super) fn start(
        &mut self,
        role: &str,
        command: Vec<std::ffi::OsString>,
        env: Vec<(&'static str, std::ffi::OsString)>,
    ) -> Result<(), Error> {
        let launch = Launch { role, command, env, mark: &self.record.id, stdin: Stdio::null() };
        self.changed = now();
        let child = launch.start(&self.layout)?;
        self.children.insert(role.to_owned(), child);
        Ok(())
    }

    fn run_once(&self, command: &[std::ffi::OsString]) -> Result<(), Error> {
        let (program, args) = command.split_first().ok_or_else(|| Error::Dev("no program".to_owned()))?;
        let ran = Command::new(program).args(args).stdin(Stdio::null()).output();
        let output = ran.map_err(|error| Error::file("run", PathBuf::from(program), error))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(Error::Dev(format!("{} failed ({}):\n{}", program.display(), output.status, said.trim_end())))
    }

    /// The processes that are recorded and run in a namespace: agents of servers, and what switches have.
    fn inside(&self) -> BTreeSet<process::Identity> {
        let nodes = self.plan.nodes.iter().map(|node| plan::agent_role(&node.name));
        let switches = &self.plan.switches;
        let switches =
            switches.iter().flat_map(|one| [switch_plan::frr_role(one), switch_plan::agent_role(one)]);
        nodes.chain(switches).filter_map(|role| process::recorded(&self.layout.process(&role))).collect()
    }

    /// Whether this `up` has started it.
    pub(super) fn was_started(&self, role: &str) -> bool {
        self.children.contains_key(role)
    }

    /// An error if somebody whom we started has ended.
    pub(super) fn check_children(&mut self) -> Result<(), Error> {
        for (role, child) in &mut self.children {
            if let Ok(Some(status)) = child.try_wait() {
                let role = role.clone();
                return Err(self.failed(&role, &format!("ended ({status})")));
            }
        }
        Ok(())
    }

    /// What to say of a process that failed: the end of its log, which is about to be removed.
    pub(super) fn failed(&self, role: &str, what: &str) -> Error {
        let log = std::fs::read_to_string(self.layout.log(role)).unwrap_or_default();
        let tail = tail_of(&log).join("\n  ");
        let tail = if tail.is_empty() { String::new() } else { format!("; the end of its log:\n  {tail}") };
        Error::Dev(format!("{role}: {what}{tail}"))
    }

    fn words(&self) -> String {
        let name = &self.record.spec.name;
        format!(
            "export RAIL_CONFIG={}\n# context `{name}` is current: try `railctl get nodes`, `railctl submit FILE --wait`; \
             `railctl dev down --name {name}` ends it\n",
            self.layout.config().display()
        )
    }
}

/// The last lines of a log; where a panic is logged, from there on, without the stack.
fn tail_of(log: &str) -> Vec<&str> {
    let lines: Vec<&str> = log.lines().collect();
    let panic = lines.iter().rposition(|line| line.contains(" panicked at "));
    let from = panic.unwrap_or(lines.len().saturating_sub(TAIL_LINES));
    lines[from..]
        .iter()
        .take_while(|line| !line.starts_with("stack backtrace"))
        .take(TAIL_LINES)
        .copied()
        .collect()
}

/// Ready, and heard since `changed` (in seconds since the epoch).
fn is_ready(node: &v1::Node, name: &str, changed: f64) -> bool {
    let named = node.metadata.as_ref().is_some_and(|metadata| metadata.name == name);
    let status = node.status.clone().unwrap_or_default();
    let heard = status.last_heartbeat.as_ref().is_some_and(|at| render::seconds(at) >= changed);
    named && heard && status.phase() == v1::node_status::Phase::Ready
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_what_matters() {
        let long: String = (0..100).map(|line| format!("{line}\n")).collect();
        assert_eq!(tail_of(&long).first(), Some(&"88"));
        let panic = format!("a\nthread 'x' panicked at y:1:2:\nwhy\nstack backtrace:\n{long}");
        assert_eq!(tail_of(&panic), ["thread 'x' panicked at y:1:2:", "why"]);
    }
}
