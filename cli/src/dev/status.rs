//! What runs of a cluster, and how it is.

use serde_json::json;

use super::{down, network, plan, process, spec::Layout, switch_plan};
use crate::{
    args::{DevTarget, Output},
    client::{Api, once},
    config::{ConfigFile, Environment, resolve},
    error::Error,
    render::{self, Table},
};

/// Processes by record, nodes and rails by the controller.
///
/// # Errors
/// [`Error::NotFound`] if there is no such cluster; [`Error::File`] or [`Error::Dev`] if its record cannot be read.
pub async fn status(
    target: &DevTarget,
    output: Output,
    env: &Environment,
    now: f64,
) -> Result<String, Error> {
    let layout = Layout::of(target, env)?;
    let Some(record) = layout.read()? else {
        return Err(Error::NotFound(format!(
            "there is no cluster `{}` in {}: `railctl dev up` starts one",
            target.name,
            layout.dir.display()
        )));
    };
    let running = process::all_recorded(&layout.run());
    let mut roles = vec!["controller".to_owned()];
    roles.extend((0..record.spec.nodes).map(|node| plan::agent_role(&format!("n{node}"))));
    for switch in switch_plan::switches(&record.spec) {
        roles.extend([switch_plan::frr_role(&switch), switch_plan::agent_role(&switch)]);
    }
    roles.extend(running.contains_key(down::GUARD).then(|| down::GUARD.to_owned()));
    let cluster = asked(&layout, env).await;
    if matches!(output, Output::Json | Output::Yaml) {
        let processes: Vec<_> = roles
            .iter()
            .map(|role| json!({"role": role, "pid": running.get(role).map(|one| one.pid), "log": layout.log(role)}))
            .collect();
        let value = json!({
            "name": record.spec.name, "dir": layout.dir, "spec": record.spec, "complete": record.complete,
            "processes": processes, "config": layout.config(), "port": record.port, "socket": layout.socket(),
            "namespaces": record.namespaces, "reachable": cluster.is_ok(),
        });
        return Ok(format!("{value:#}\n"));
    }
    let mut table = Table::new(["PROCESS", "PID", "STATE", "LOG"]);
    for role in &roles {
        let one = running.get(role);
        let state = if one.is_some() { "running" } else { "GONE" };
        let pid = one.map(|one| one.pid.to_string()).unwrap_or_default();
        table.row([role.clone(), pid, state.to_owned(), layout.log(role).display().to_string()]);
    }
    let made = record.namespaces.iter().filter(|name| network::exists(name)).count();
    let mut out = format!("cluster `{}`: {}\n\n{}", record.spec.name, record.spec.words(), table.render(""));
    if !record.namespaces.is_empty() {
        out.push_str(&format!("\n{made} of {} network namespaces\n", record.namespaces.len()));
    }
    match cluster {
        Ok((nodes, health)) => out.push_str(&format!(
            "\n{}\n{}",
            render::nodes(&nodes, false, now).render(""),
            render::health(&health)
        )),
        Err(error) => out.push_str(&format!("\nthe controller does not answer: {error}\n")),
    }
    if roles.iter().any(|role| !running.contains_key(role)) {
        out.push_str("\n`railctl dev up` starts again what is gone\n");
    }
    Ok(out)
}

async fn asked(
    layout: &Layout,
    env: &Environment,
) -> Result<(Vec<proto_wire::v1::Node>, proto_wire::v1::ClusterHealth), Error> {
    let file = ConfigFile::load(Some(&layout.config()))?;
    let global = crate::args::Global { context: file.current_context.clone(), ..Default::default() };
    // Only the cluster's own file counts here, not the caller's environment.
    let _ = env;
    let settings = resolve(&global, &Environment::default(), &file)?;
    let api = Api::new(&settings)?.within(std::time::Duration::from_secs(3));
    let mut health = api.health();
    let seen = once("ask for the health", health.get_health(proto_wire::v1::GetHealthRequest {})).await?;
    Ok((api.list_nodes().await?.nodes, seen))
}
