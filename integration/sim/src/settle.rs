//! The end of the faults, and whether everything comes to rest after it.

use controller_core::Event as Core;

use crate::{
    agent::Node,
    faults::Fault,
    world::{Event, START_MS, World},
};

impl World {
    /// The faults end: everything that was taken away is given back.
    pub fn calm_down(&mut self, now: u64) {
        self.now = self.now.max(now);
        self.notify(|| "all faults end".to_owned());
        self.calm = true;
        self.checks.calm_since = self.now;
        (self.etcd.down_until, self.etcd.slow_until, self.storm_until) = (0, 0, 0);
        for controller in &mut self.controllers {
            controller.crash_at_commit = None;
            (controller.cut_until, controller.lag_until) = (0, 0);
        }
        for controller in 0..self.controllers.len() {
            if self.controllers[controller].watch_due {
                self.after(1, Event::Watch(controller));
            }
        }
        for slot in 0..self.slots {
            self.after(10, Event::ControllerStart(slot));
        }
        self.after(20, Event::Fault(Fault::QuotaBack));
        self.after(10_000, Event::Fault(Fault::QuotaBack));
        if self.config.prove {
            self.undrain_all();
        }
        for node in 0..self.nodes.len() {
            let server = &mut self.nodes[node];
            // Who is stopped goes on by itself, soon: what came meanwhile is not overtaken by what comes later.
            (server.cut_until, server.disk_full_until, server.down) = (0, 0, 0);
            server.powered = true;
            // What nothing ends but a probe goes on; the ways are whole.
            server.ill.values_mut().for_each(|illness| illness.broken_until = 0);
            server.pose(None);
            self.agent_start(node);
            self.report_inventory(node);
            // Again later: what the last faults did is found out only then.
            for wait in [100, 100_000, 200_000] {
                self.after(wait, Event::Fault(Fault::Schedulable(node)));
            }
        }
    }

    /// A rail that nobody else has in use cannot be proved, and jobs may wait for it.
    fn undrain_all(&mut self) {
        let ports: Vec<String> = (0..)
            .zip(&self.nodes)
            .flat_map(|(n, node)| (0..node.rails).map(move |rail| format!("n{n}:{rail}")))
            .collect();
        let rails = self.nodes.iter().map(|node| node.rails).max().unwrap_or(0);
        for target in (0..rails).map(|rail| rail.to_string()).chain(ports) {
            self.administrator(Core::UndrainRail { target });
        }
    }

    /// Whether an agent knows which rails of its server are drained.
    fn knows_drains(&self, node: &Node) -> bool {
        let leader = self.leader().and_then(|leader| self.controllers[leader].state.as_deref());
        match (&node.agent, leader) {
            (Some(agent), Some(leader)) => {
                agent.drained() == leader.drained_rails(&node.name).iter().collect()
            }
            _ => true,
        }
    }

    /// Whether a rail that is out of use can be probed: another server has it. (None is drained any more: see `undrain_all`.)
    fn can_be_proved(&self, node: &Node, rail: u32) -> bool {
        self.nodes.iter().any(|other| other.name != node.name && rail < other.rails.min(node.rails))
    }

    /// Whether nothing is left to be done.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let leader = self.leader().map(|leader| &self.controllers[leader]);
        self.clients_done()
            && self.etcd.jobs().all(|job| job.status.phase.is_terminal())
            && leader.is_some_and(|leader| {
                leader.is_idle() && !leader.state.as_ref().is_none_or(|state| state.is_dirty())
            })
            && self.nodes.iter().all(|node| {
                let empty = node.records.is_empty() && node.supervised.is_empty();
                let well = !node.ill.keys().any(|rail| self.can_be_proved(node, *rail));
                empty && well && node.connection.is_some() && self.knows_drains(node)
            })
    }

    /// What keeps the world from being settled, in words.
    #[must_use]
    pub fn unsettled(&self) -> String {
        let mut left = Vec::new();
        for job in self.etcd.jobs().filter(|job| !job.status.phase.is_terminal()) {
            let reasons: Vec<String> = job.status.reasons.iter().map(ToString::to_string).collect();
            left.push(format!(
                "job {} ({}) is {}: {}",
                job.id,
                job.uid,
                job.status.phase,
                reasons.join("; ")
            ));
        }
        for node in &self.nodes {
            for (key, record) in &node.records {
                left.push(format!(
                    "{} keeps a record of {key}: {:?} {:?}",
                    node.name, record.goal, record.seen.state
                ));
            }
            for (key, supervised) in &node.supervised {
                left.push(format!("{} keeps {key}, alive {}", node.name, supervised.alive));
            }
            for (rail, illness) in node.ill.iter().filter(|(rail, _)| self.can_be_proved(node, **rail)) {
                left.push(format!("rail {rail} of {} waits for a probe that passes: {illness:?}", node.name));
            }
            if node.connection.is_none() {
                left.push(format!("{} is not connected (joined {})", node.name, node.joined));
            }
            if !self.knows_drains(node) {
                left.push(format!("{} does not know what is drained", node.name));
            }
        }
        for client in self.clients.iter().filter(|client| !client.wants.is_empty()) {
            left.push(format!("the client of {} wants {:?}", client.id, client.wants.front()));
        }
        if self.leader().is_none() {
            left.push("no controller".to_owned());
        }
        left.join(" | ")
    }

    /// The last figures of the report.
    pub fn finish_report(&mut self) {
        self.report.simulated_ms = self.now - START_MS;
        self.report.usage = self.tally_usage();
        for (_, revision) in self.etcd.rows.values() {
            self.report.digest = (self.report.digest ^ revision).wrapping_mul(0x0000_0100_0000_01b3);
        }
        if self.config.story {
            let rows = self.etcd.rows.iter().map(|(key, row)| format!("{key:?} {row:?}"));
            self.report.rows = rows.collect();
        }
        for job in self.etcd.jobs() {
            let at = match job.status.phase {
                proto_model::Phase::Completed => 0,
                proto_model::Phase::Failed => 1,
                proto_model::Phase::Cancelled => 2,
                _ => continue,
            };
            self.report.ended[at] += 1;
        }
    }
}
