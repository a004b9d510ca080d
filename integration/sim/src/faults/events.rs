//! Faults as they strike, and as they end.

use controller_core::{Event as Core, NodeChange};
use node_agent_core::{Key, supervisor::EngineEnd};
use proto_model::{Quota, TenantName};

use crate::{
    calls::{Call, Cut},
    furnish::name,
    network::ToController,
    plant::Bug,
    rng::Rng,
    world::{Event, World},
};

use super::{Fault, Kind, Planned};

/// A process stops for so long. One that is stopped stays so until it was to go on: what came for it waits for that moment, and
/// another would let what comes later in before it.
fn stop(frozen_until: &mut u64, now: u64, pause: u64) {
    if *frozen_until <= now {
        *frozen_until = now + pause;
    }
}

impl World {
    /// A fault of the plan happens.
    pub fn strike(&mut self, at: usize) {
        let Planned { kind, mut rng, .. } = self.plan[at].clone();
        self.notify(|| format!("FAULT {at}: {kind:?}"));
        self.report.faults += 1;
        let rng = &mut rng;
        let node = rng.below(self.nodes.len());
        if self.config.prove && rng.chance(600) {
            self.falls_ill(node, rng);
        }
        if self.config.lie && rng.chance(600) {
            self.lies(node, rng);
        }
        match kind {
            Kind::KillAgent => {
                let long = rng.chance(300);
                let wait = if long { rng.range(5_000..60_000) } else { rng.range(100..5000) };
                self.agent_dies(node, Some(wait));
            }
            Kind::PauseAgent => stop(&mut self.nodes[node].frozen_until, self.now, rng.range(200..60_000)),
            Kind::CutAgent => {
                if let Some(connection) = self.nodes[node].connection {
                    self.cut(connection);
                    let away = rng.chance(400);
                    self.nodes[node].cut_until = self.now + if away { rng.range(1000..60_000) } else { 0 };
                }
            }
            Kind::FillDisk => self.nodes[node].disk_full_until = self.now + rng.range(1000..20_000),
            Kind::KillEngine => self.kill_something(rng, true),
            Kind::KillSupervisor => self.kill_something(rng, false),
            Kind::PowerOff => self.power_fails(node, rng),
            Kind::NicDown => self.nic_fails(node, rng),
            Kind::Drain => self.drain(node, rng),
            Kind::Cordon => self.cordon(node, rng),
            Kind::Storm => self.storm_until = self.now + rng.range(2000..30_000),
            Kind::LowerQuota => self.lower_quota(rng),
            Kind::EtcdLeader => self.etcd_down(rng.range(200..3000)),
            Kind::EtcdQuorum => self.etcd_down(rng.range(3000..40_000)),
            Kind::EtcdSlow => self.etcd.slow_until = self.now + rng.range(2000..30_000),
            Kind::Compact => self.etcd.compact(self.etcd.revision),
            Kind::NoSpace => {
                self.etcd.foreign = crate::etcd::SPACE;
                self.etcd.alarm = true;
            }
            _ => self.strike_controllers(kind, rng),
        }
    }

    fn strike_controllers(&mut self, kind: Kind, rng: &mut Rng) {
        let standbys: Vec<usize> = (0..self.controllers.len())
            .filter(|at| self.controllers[*at].alive && self.controllers[*at].state.is_none())
            .collect();
        let standby = standbys.get(rng.below(standbys.len())).copied();
        match (kind, self.leader(), standby) {
            (Kind::KillStandby, _, Some(standby)) => {
                self.controller_dies(standby, Some(rng.range(100..6000)));
            }
            (Kind::CutStandby, _, Some(standby)) => {
                self.controllers[standby].cut = Cut::Requests;
                self.controllers[standby].cut_until = self.now + rng.range(1000..40_000);
            }
            (Kind::LagWatch, _, Some(standby)) => {
                let lag = rng.range(500..30_000);
                self.break_watch(standby, lag);
                // What it missed is gone when it comes back, or is not.
                if rng.chance(500) {
                    self.call(standby, Call::Compact(self.etcd.revision + rng.range(0..6)));
                }
            }
            (Kind::KillLeader, Some(leader), _) => {
                self.controller_dies(leader, Some(rng.range(100..15_000)));
            }
            (Kind::KillBeforeCommit | Kind::KillAfterCommit, Some(leader), _) => {
                self.controllers[leader].crash_at_commit = Some(kind == Kind::KillAfterCommit);
            }
            (Kind::PauseLeader, Some(leader), _) => {
                let pause = rng.range(100..60_000);
                stop(&mut self.controllers[leader].frozen_until, self.now, pause);
                if pause > 5000 {
                    self.raise_evidence(self.controllers[leader].epoch, 5000);
                }
            }
            (Kind::ReplacePaused | Kind::FalseEvidence, Some(leader), _) => {
                if kind == Kind::ReplacePaused {
                    stop(&mut self.controllers[leader].frozen_until, self.now, rng.range(100..15_000));
                }
                self.raise_evidence(self.controllers[leader].epoch, 500);
            }
            (Kind::HandOver, Some(leader), _) => {
                let epoch = self.controllers[leader].epoch;
                self.call(leader, Call::Remove(epoch));
                self.controller_dies(leader, Some(rng.range(500..5000)));
            }
            (Kind::CutLeader | Kind::MuteLeader, Some(leader), _) => {
                self.controllers[leader].cut =
                    if kind == Kind::CutLeader { Cut::Requests } else { Cut::Replies };
                let long = rng.chance(300);
                let wait = if long { rng.range(5_000..40_000) } else { rng.range(10..3000) };
                self.controllers[leader].cut_until = self.now + wait;
            }
            _ => {}
        }
    }

    /// The members have no leader for a while. Leases live on from its end.
    fn etcd_down(&mut self, wait: u64) {
        self.etcd.down_until = self.now + wait;
        let until = self.etcd.down_until + crate::etcd::LEASE_MS;
        self.etcd.leases.values_mut().for_each(|lease| *lease = until.max(*lease));
    }

    fn kill_something(&mut self, rng: &mut Rng, engine: bool) {
        let living: Vec<(usize, Key)> = (0..self.nodes.len())
            .flat_map(|node| {
                let all = self.nodes[node].supervised.iter().filter(|(_, supervised)| supervised.alive);
                all.map(move |(key, _)| (node, *key))
            })
            .collect();
        let Some((node, key)) = living.get(rng.below(living.len())).copied() else { return };
        if engine {
            let fault = Fault::EngineEnds { node, key, number: 0, end: EngineEnd::Failed };
            self.after(0, Event::Fault(fault));
        } else {
            self.kill_supervisor(node, key);
        }
    }

    fn power_fails(&mut self, node: usize, rng: &mut Rng) {
        if !self.nodes[node].powered {
            return;
        }
        self.power_off(node);
        let down = rng.range(2000..60_000);
        if rng.chance(150) {
            // Its disk is gone too.
            let server = &mut self.nodes[node];
            server.records.clear();
            server.supervised.clear();
            server.spawned.clear();
            (server.epoch, server.applied) = (0, 0);
        }
        if rng.chance(250) {
            let wait = rng.range(500..down);
            self.after(wait, Event::Fault(Fault::GiveUp(node)));
        }
        self.after(down, Event::Fault(Fault::PowerOn(node)));
    }

    fn nic_fails(&mut self, node: usize, rng: &mut Rng) {
        let rail = u32::try_from(rng.below(self.nodes[node].rails as usize)).unwrap_or(0);
        self.nodes[node].down |= 1 << rail;
        self.report_inventory(node);
        let wait = rng.range(2000..60_000);
        self.after(wait, Event::Fault(Fault::NicUp(node, rail)));
    }

    /// No fault: a rail or a server's port leaves service, or comes back.
    fn drain(&mut self, node: usize, rng: &mut Rng) {
        let rail = rng.below(self.nodes[node].rails as usize);
        let target = if rng.chance(500) { format!("{rail}") } else { format!("n{node}:{rail}") };
        self.administrator(if rng.chance(600) {
            let (reason, by) = ("upgrade".to_owned(), "simulator".to_owned());
            Core::DrainRail { target, reason, by, force: true }
        } else {
            Core::UndrainRail { target }
        });
    }

    fn cordon(&mut self, node: usize, rng: &mut Rng) {
        let Some(name) = name(node) else { return };
        let change = NodeChange::unschedulable(true, "repair");
        self.administrator(Core::UpdateNode { name, change, if_version: 0 });
        let wait = rng.range(1000..60_000);
        self.after(wait, Event::Fault(Fault::Schedulable(node)));
    }

    fn lower_quota(&mut self, rng: &mut Rng) {
        let Ok(name) = TenantName::new(["red", "blue"][rng.below(2)]) else { return };
        let quota = u32::try_from(rng.range(1..5)).unwrap_or(1);
        self.apply_quota(name, quota);
        let wait = rng.range(2000..90_000);
        self.after(wait, Event::Fault(Fault::QuotaBack));
    }

    fn apply_quota(&mut self, name: TenantName, gpus: u32) {
        let (description, quota) = (String::new(), Quota::new(gpus, 0));
        self.administrator(Core::ApplyTenant {
            name,
            description,
            quota,
            isolation: proto_model::IsolationPolicy::BestEffort,
            dry_run: false,
        });
    }

    /// A server says what it has.
    pub fn report_inventory(&mut self, node: usize) {
        if let Some(connection) = self.nodes[node].connection {
            self.send_to_controller(connection, ToController::Inventory);
        }
    }

    /// What comes later of a fault.
    pub fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::EngineEnds { node, key, number, end } => {
                let present = self.nodes[node].supervised.get(&key).map_or(0, |s| s.engine.number());
                self.engine_ends(node, key, if number == 0 { present } else { number }, end);
            }
            Fault::PowerOn(node) => {
                self.nodes[node].powered = true;
                self.agent_start(node);
            }
            Fault::Reap(node, key) if self.bug(Bug::ReapNothing) => self.reaped_nothing(node, key),
            Fault::Reap(node, key) => self.reaped(node, key),
            Fault::NicUp(node, rail) => {
                self.nodes[node].down &= !(1 << rail);
                self.report_inventory(node);
            }
            Fault::Schedulable(node) => self.return_node(node),
            Fault::Honest(node) => self.is_honest(node),
            Fault::ProbeEnds(node, life, probe) => self.probe_ends(node, life, &probe),
            Fault::QuotaBack => {
                let all: Vec<_> =
                    self.checks.quotas.iter().map(|(name, quota)| (name.clone(), *quota)).collect();
                all.into_iter().for_each(|(name, quota)| self.apply_quota(name, quota));
            }
            Fault::GiveUp(node) => {
                let away = !self.nodes[node].powered && self.nodes[node].joined;
                let Some(name) = name(node).filter(|_| away) else { return };
                self.nodes[node].joined = false;
                // Its hardware is whoever's comes with it next.
                self.nodes[node].suspect |= self.nodes.iter().any(|other| other.poses_as(node));
                self.administrator(Core::DeleteNode { name: name.clone(), force: true, uid: None });
                self.join_events(node, &name).into_iter().for_each(|event| self.administrator(event));
            }
        }
    }

    /// An administrator lets a node take jobs again, where it does not.
    fn return_node(&mut self, node: usize) {
        let Some(name) = name(node) else { return };
        let state = self.leader().and_then(|leader| self.controllers[leader].state.as_deref());
        let well = state
            .and_then(|state| state.node(&name))
            .is_some_and(|node| !node.unschedulable && node.quarantined.is_none());
        if well && self.calm {
            return;
        }
        let change = NodeChange::unschedulable(false, "");
        self.administrator(Core::UpdateNode { name: name.clone(), change, if_version: 0 });
        self.administrator(Core::ReturnNode { name });
    }
}
