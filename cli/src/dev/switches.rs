//! The part of `dev up` that is about switches of FRR: what the controller is told of them, their routing, and their agents.

use std::{
    collections::BTreeSet,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use proto_wire::v1;
use serde::Deserialize;

use super::{
    launch::{arg, private_dir},
    network, process,
    switch_plan::{SwitchPlan, agent_role, frr_role},
    up::Up,
};
use crate::{
    client::{Api, once, repeat},
    error::Error,
    render,
};

/// From the start of the switches until every leaf has a route to every other one, and their agents are connected.
const READY_LIMIT: Duration = Duration::from_secs(90);

/// A route as `ip -j route` prints it.
#[derive(Debug, Deserialize)]
struct Route {
    dst: String,
}

/// The loopbacks that a switch should have a route to, and has none.
fn unreached(switch: &SwitchPlan) -> Vec<String> {
    let mut command = Command::new("ip");
    command.args(["-n", &switch.namespace, "-j", "route", "show", "proto", "bgp"]).stdin(Stdio::null());
    let said = command.output().map(|output| output.stdout).unwrap_or_default();
    let routes: Vec<Route> = serde_json::from_slice(&said).unwrap_or_default();
    let wanted = switch.reaches.iter().map(ToString::to_string);
    wanted.filter(|loopback| routes.iter().all(|route| route.dst != *loopback)).collect()
}

/// Connected, and heard since `changed` (in seconds since the epoch).
fn is_connected(switch: &v1::Switch, name: &str, changed: f64) -> bool {
    let named = switch.metadata.as_ref().is_some_and(|metadata| metadata.name == name);
    let status = switch.status.clone().unwrap_or_default();
    let heard = status.last_seen.as_ref().is_some_and(|at| render::seconds(at) >= changed);
    named && heard && status.connected && !status.nos_version.is_empty()
}

impl Up {
    /// Tells the controller what each switch is.
    pub(super) async fn describe_switches(&self, api: &Api) -> Result<(), Error> {
        for switch in &self.plan.switches {
            let request = v1::ApplySwitchRequest { switch: Some(switch.document.clone()), dry_run: false };
            repeat(format!("apply switch `{}`", switch.name), |_| {
                let (mut client, request) = (api.switches(), request.clone());
                async move { client.apply_switch(request).await }
            })
            .await?;
        }
        Ok(())
    }

    /// Starts the FRR and the agent of every switch that has none. A switch starts with what was kept on it, and the first time with what the
    /// controller renders.
    pub(super) async fn switches(&mut self, api: &Api) -> Result<(), Error> {
        let Some(frr) = self.frr.clone() else { return Ok(()) };
        let mut started = 0;
        for switch in self.plan.switches.clone() {
            let role = frr_role(&switch);
            if process::recorded_to_stay(&self.layout.process(&role)).is_some() {
                continue;
            }
            // What an FRR that was killed has left, its agent included, would answer in place of the new one.
            network::clear(std::slice::from_ref(&switch.namespace), BTreeSet::new())?;
            self.configuration(&switch, api).await?;
            let command = self.programs.frr(&self.layout, &switch, &frr)?;
            self.start(&role, command, Vec::new())?;
            started += 1;
        }
        for switch in self.plan.switches.clone() {
            let role = agent_role(&switch);
            if process::recorded_to_stay(&self.layout.process(&role)).is_some() {
                continue;
            }
            let request = v1::CreateSwitchTokenRequest { name: switch.name.clone(), lifetime: None };
            let token = once("create a join token", api.switches().create_switch_token(request)).await?;
            let command = self.programs.switch_agent(&self.layout, &switch, &frr, &token.ca_pin)?;
            self.start(&role, command, vec![("RAIL_JOIN_TOKEN", arg(&token.token))])?;
        }
        if started > 0 {
            self.say(&format!("{started} switches started: FRR and its agent"));
        }
        Ok(())
    }

    /// Writes what the switch starts with, unless there is something.
    async fn configuration(&self, switch: &SwitchPlan, api: &Api) -> Result<(), Error> {
        let folder = self.layout.node(&switch.name).join("etc");
        private_dir(&folder)?;
        let path = folder.join("frr.conf");
        if path.exists() {
            return Ok(());
        }
        let rendered = repeat(format!("render switch `{}`", switch.name), |_| {
            let (mut client, name) = (api.switches(), switch.name.clone());
            async move { client.render_switch(v1::RenderSwitchRequest { name }).await }
        })
        .await?;
        let file = rendered.files.iter().find(|file| file.name == "frr.conf");
        let text = file.map(|file| file.content.as_str()).unwrap_or_default();
        proto_rpc::files::write_secret(&path, text).map_err(|error| Error::Dev(error.to_string()))
    }

    /// Waits until all leaves have routes to each other, where their FRR was started, and all agents are connected.
    pub(super) async fn switches_ready(&mut self, api: &Api) -> Result<(), Error> {
        if self.plan.switches.is_empty() {
            return Ok(());
        }
        let end = Instant::now() + READY_LIMIT;
        let mut routed: BTreeSet<String> = BTreeSet::new();
        loop {
            self.check_children()?;
            let known = api.list_switches().await?.switches;
            let mut waits = None;
            for switch in &self.plan.switches {
                if self.was_started(&frr_role(switch)) && !routed.contains(&switch.name) {
                    match unreached(switch).first() {
                        None => _ = routed.insert(switch.name.clone()),
                        Some(to) => waits = Some((frr_role(switch), format!("has no route to {to}"))),
                    }
                }
                if !known.iter().any(|one| is_connected(one, &switch.name, self.changed)) {
                    waits = Some((agent_role(switch), "is not connected".to_owned()));
                }
            }
            let Some((role, what)) = waits else { break };
            if Instant::now() >= end {
                return Err(self.failed(&role, &format!("{what} after {} s", READY_LIMIT.as_secs())));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let routes = if routed.is_empty() { "" } else { ", with routes to each other" };
        self.say(&format!("{} switches connected{routes}", self.plan.switches.len()));
        Ok(())
    }
}
