//! K3: custom resources that the operator takes from a real API server to a controller, while both are killed in the middle. How often an object was
//! written is etcd's own count of its key, so that no write is missed whose answer was lost; the API server stores none that changes nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::{Duration, Instant},
};

use integration_harness::{Controllers, Kubernetes, Operator, kubernetes::missing, operator::Railyard};
use serde_json::{Value, json};

use super::settings::Bench;
use crate::{
    agents::Agents,
    report::{Cpu, Goal, Line, Row, Sample},
    scheduler::site::node_name,
};

/// Objects that are not there by then never will be.
const LONGEST: Duration = Duration::from_secs(900);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// Where custom resources are in etcd.
const KEYS: &str = "railyard.io/";
/// Of the jobs, and whose they are: a tenant that every controller has.
const NAMESPACE: &str = "work";
const TENANT: &str = "default";

/// Servers, so that jobs could run: no job may come to them, for each of its phases would be one more write.
const SERVERS: u32 = 2;

/// What is under test.
struct Site {
    kubernetes: Kubernetes,
    controllers: Controllers,
    operator: Operator,
    _agents: Agents,
}

/// Row K3.
///
/// # Errors
/// A part does not start, or objects do not converge.
pub fn converged(row: &Row<'_>, bench: &Bench) -> Result<(), String> {
    if let Some(missing) = missing(false) {
        row.void("all", &missing);
        return Ok(());
    }
    let count = if bench.quick { 100 } else { 1_000 };
    let (kubernetes, controllers) =
        (Kubernetes::with_controllers(&[], "")?, Controllers::start(1, &["--log-level", "warn"])?);
    let agents = Agents::start(&controllers, SERVERS, &[])?;
    for server in 0..SERVERS {
        controllers.railctl(&["node", "cordon", &node_name(server), "--reason", "row K3"])?;
    }
    Operator::install(&kubernetes)?;
    let labels = json!({"railyard.io/tenant": TENANT});
    kubernetes.create(
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}),
    )?;
    kubernetes.create(&list(count))?;
    let made: u64 = kubernetes.writes(KEYS)?.values().sum();
    let (cpu, begin) = (Cpu::start(), Instant::now());
    let railyard = Railyard::of(&controllers)?;
    let operator = Operator::start(&kubernetes, &railyard, &["--no-nodes"])?;
    let mut site = Site { kubernetes, controllers, operator, _agents: agents };
    let killed =
        [site.after(count / 3, Site::kill_api_server)?, site.after(2 * count / 3, Site::kill_controller)?];
    let said = site.until_all_are_said(count)?;
    let (seconds, cpu) = (begin.elapsed().as_secs_f64(), cpu.cores());
    let writes = site.kubernetes.writes(KEYS)?;
    let again = site.written_by_a_new_operator(count, &writes)?;
    let peers = json!({
        "objects": count, "made": made, "touched_when_killed": killed, "seconds": seconds,
        "writes": writes.values().sum::<u64>() - made, "calls": site.calls()?,
    });
    report(row, &said, &writes, again, count, (cpu, &peers));
    Ok(())
}

fn report(
    row: &Row<'_>,
    said: &Said,
    writes: &BTreeMap<String, u64>,
    again: usize,
    count: usize,
    (cpu, peers): (f64, &Value),
) {
    // Of each, its making is the owner's.
    let each = Sample::new(writes.values().map(|writes| (writes - 1) as f64).collect());
    let line = |case: &str, value: f64, unit, goal| {
        row.line(&Line { case, value, unit, goal, sample: &each, cpu, peers: peers.clone() });
    };
    line("objects that have converged", 100.0 * said.right as f64 / count as f64, "%", Goal::AtLeast(100.0));
    line("writes of one object, the most", each.quantile(1.0), "", Goal::AtMost(3.0));
    line("writes of one object, the middle", each.median(), "", Goal::None);
    line("jobs of two objects that are one", (said.jobs - said.uids.len()) as f64, "", Goal::AtMost(0.0));
    line("objects that a new operator writes again", again as f64, "", Goal::AtMost(0.0));
}

/// What objects say once all say something.
#[derive(Default)]
struct Said {
    /// Those that are as they should be.
    right: usize,
    /// Those that are jobs.
    jobs: usize,
    /// What Railyard calls these.
    uids: BTreeSet<String>,
}

/// Tenants of which half go with their objects, and as many jobs, in one list.
fn list(count: usize) -> Value {
    let object = |kind: &str, metadata: Value, spec: Value| json!({"apiVersion": "railyard.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec});
    let one = |at: usize| match at % 4 {
        0 => object(
            "RailTenant",
            json!({"name": format!("t{at}")}),
            json!({"quota": {"gpus": 8}, "deletionPolicy": "Delete"}),
        ),
        2 => object("RailTenant", json!({"name": format!("t{at}")}), json!({"quota": {"gpus": 8}})),
        _ => object(
            "RailJob",
            json!({"name": format!("j{at}"), "namespace": NAMESPACE}),
            json!({"gang": {"nodes": 1, "gpusPerNode": 8}, "command": {"argv": ["true"]}}),
        ),
    };
    json!({"apiVersion": "v1", "kind": "List", "items": (0..count).map(one).collect::<Vec<_>>()})
}

impl Site {
    /// Does this once so many objects were written by the operator; says how many were by then.
    fn after(
        &mut self,
        count: usize,
        then: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<usize, String> {
        let touched = self.until("objects are written", |site| {
            let writes = site.kubernetes.writes(KEYS)?;
            let touched = writes.values().filter(|count| **count > 1).count();
            Ok((touched >= count).then_some(touched))
        })?;
        then(self)?;
        Ok(touched)
    }

    fn kill_api_server(&mut self) -> Result<(), String> {
        self.kubernetes.restart_api_server()
    }

    fn kill_controller(&mut self) -> Result<(), String> {
        self.controllers.restart(0).map(drop)
    }

    /// Waits until every object says that Railyard has it.
    fn until_all_are_said(&self, count: usize) -> Result<Said, String> {
        self.until("all objects say that Railyard has them", |site| {
            let mut said = Said::default();
            for kind in ["railtenants", "railjobs"] {
                let all = site.kubernetes.get(&[kind, "--all-namespaces"])?;
                all["items"]
                    .as_array()
                    .map(Vec::as_slice)
                    .unwrap_or_default()
                    .iter()
                    .for_each(|one| said.add(one));
            }
            Ok((said.right == count).then_some(said))
        })
    }

    /// How many objects are written by an operator that is started anew and has looked at all.
    fn written_by_a_new_operator(
        &mut self,
        count: usize,
        before: &BTreeMap<String, u64>,
    ) -> Result<usize, String> {
        self.operator.restart()?;
        let passes = |site: &Self| site.operator.counted("rail_operator_reconciles_total");
        self.until("a new operator has looked at all", |site| {
            Ok((passes(site) >= count as u64).then_some(()))
        })?;
        let after = self.kubernetes.writes(KEYS)?;
        Ok(after.iter().filter(|(name, writes)| before.get(*name) != Some(*writes)).count())
    }

    /// Calls of the operator at the API server, by verb and answer.
    fn calls(&self) -> Result<BTreeMap<String, u32>, String> {
        let mut calls = BTreeMap::new();
        for call in self.kubernetes.audited()? {
            let (verb, code) = (call["verb"].as_str().unwrap_or_default(), &call["responseStatus"]["code"]);
            if call["objectRef"]["apiGroup"] == "railyard.io" {
                *calls.entry(format!("{verb} {code}")).or_default() += 1;
            }
        }
        Ok(calls)
    }

    fn until<T>(&self, what: &str, found: impl Fn(&Self) -> Result<Option<T>, String>) -> Result<T, String> {
        let begin = Instant::now();
        loop {
            if let Some(value) = found(self)? {
                return Ok(value);
            }
            if begin.elapsed() > LONGEST {
                return Err(format!("waited {LONGEST:?} until {what}\n{}", self.operator.log()));
            }
            thread::sleep(PAUSE);
        }
    }
}

impl Said {
    fn add(&mut self, object: &Value) {
        let status = &object["status"];
        let holds = |name: &str| {
            let all = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
            all.iter().any(|one| one["type"] == name && one["status"] == "True")
        };
        let is_new = status["observedGeneration"] == object["metadata"]["generation"];
        let is_right = match object["kind"].as_str() {
            // No server is there, so it waits.
            Some("RailJob") => {
                self.jobs += 1;
                self.uids.extend(status["job"]["uid"].as_str().map(str::to_owned));
                !status["job"]["uid"].is_null() && !holds("Degraded")
            }
            _ => holds("Ready"),
        };
        self.right += usize::from(is_right && is_new);
    }
}
