//! The upgrade itself: the standbys, the leader, then one agent after the other, while jobs run and callers call.

use std::{
    fs,
    path::Path,
    time::{Instant, SystemTime},
};

use integration_harness::{Agents, Servers, eventually};
use proto_wire::v1::{
    self, job_service_client::JobServiceClient, job_status::Phase, node_service_client::NodeServiceClient,
};
use serde_json::{Value, json};

use super::{
    judge,
    load::{self, Load},
    rank,
    world::{PATIENCE, Releases, World},
};
use crate::{
    command_job::text,
    report::{Cpu, Goal, Line, Row, Sample, round},
};

/// Controllers of the cluster.
const CONTROLLERS: usize = 3;
/// Each server has one for a job that outlives the upgrade, and one for the others.
const HAS: Servers = Servers { gpus: 2, rails: 2, first: 41 };

/// An upgrade that is under way.
struct Roll<'a> {
    world: World,
    releases: &'a Releases,
    load: Load,
    begun: Instant,
    /// Each step and the seconds that it took.
    steps: Vec<Value>,
}

/// Calls that fail, ranks that are disturbed, and what logs and records lack after it.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn measure(row: &Row<'_>, releases: &Releases, quick: bool) -> Result<(), String> {
    let servers = if quick { 4 } else { 8 };
    let cpu = Cpu::start();
    let dir = tempfile::tempdir().map_err(text)?;
    let ranks = dir.path().join("ranks");
    fs::create_dir(&ranks).map_err(text)?;
    let world = World::start(&releases.old, CONTROLLERS, &vec![&*releases.old; servers], HAS)?;
    let long = begin_long(&world, &ranks, servers)?;
    let clients = [world.another_client()?, world.another_client()?, world.another_client()?];
    let both = [("old", releases.old.clone()), ("new", releases.new.clone())];
    let load = Load::start(&world.runtime, clients, &world.controllers.users(), &both, dir.path())?;
    let mut roll = Roll { world, releases, load, begun: Instant::now(), steps: Vec::new() };
    roll.pair("a job of two servers, all as it was")?;
    roll.controllers()?;
    let led = Instant::now();
    roll.pair("a job of two servers, agents as they were")?;
    roll.agents(servers)?;
    roll.pair("a job of two servers, all upgraded")?;
    let Roll { world, load, steps, begun, .. } = roll;
    let taken = begun.elapsed();
    fs::write(ranks.join("stop"), "").map_err(text)?;
    let restarted = end_long(&world, &long)?;
    let tally = load.finish(&world.runtime, &world.client);
    let seen = rank::read(&ranks, true)?;
    judge::calls(row, &tally, (servers, taken), &steps, cpu.cores());
    disturbed(row, &seen, restarted, cpu.cores());
    judge::watched(row, &tally, cpu.cores());
    world.wait_idle()?;
    judge::records(row, &world, releases, &tally, (led, &long), cpu.cores());
    judge::audited(row, &world, releases, &tally, cpu.cores());
    back(row, world, releases, cpu.cores())
}

impl Roll<'_> {
    fn step(&mut self, what: &str, begun: Instant) {
        let (seconds, failed) = (round(begun.elapsed().as_secs_f64()), self.load.failed());
        eprintln!(
            "{:6.1} s: {what}, {seconds} s, {failed} calls have failed",
            self.begun.elapsed().as_secs_f64()
        );
        self.steps.push(json!({"step": what, "seconds": seconds, "failed": failed}));
    }

    /// Waits until another job of two servers has ended well, which was not under way before.
    fn pair(&mut self, what: &str) -> Result<(), String> {
        let (begun, before) = (Instant::now(), self.load.pairs());
        eventually(what, PATIENCE, || (self.load.pairs() >= before + 2).then_some(()))?;
        self.step(what, begun);
        Ok(())
    }

    /// Those that do not lead first.
    fn controllers(&mut self) -> Result<(), String> {
        let leader = self.world.leader()?;
        let order = (0..CONTROLLERS).filter(|which| *which != leader).chain([leader]);
        for which in order {
            let begun = Instant::now();
            self.world.controllers.replace(which, &self.releases.new)?;
            if which == leader {
                self.world.ready()?;
            }
            self.step(if which == leader { "the leader" } else { "a standby" }, begun);
        }
        Ok(())
    }

    fn agents(&mut self, servers: usize) -> Result<(), String> {
        for which in 0..servers {
            let begun = Instant::now();
            let gone = SystemTime::now();
            self.world.agents.replace(which, &self.releases.new)?;
            self.world.back_since(which, gone)?;
            self.step(&format!("the agent of {}", Agents::name(which)), begun);
            if which + 1 == servers / 2 {
                self.pair("a job of two servers, half of the agents upgraded")?;
            }
        }
        Ok(())
    }
}

impl World {
    /// Waits until this agent has been heard of since.
    ///
    /// # Errors
    /// It is not, in time; what it has logged.
    pub fn back_since(&self, which: usize, since: SystemTime) -> Result<(), String> {
        let since = prost_types::Timestamp::from(since);
        let request = v1::GetNodeRequest { name: Agents::name(which) };
        eventually(&format!("the agent of {}", Agents::name(which)), PATIENCE, || {
            let node = self.ask(|client| {
                let request = request.clone();
                async move { NodeServiceClient::new(client).get_node(request).await }
            });
            let heard = node.ok()?.status?.last_heartbeat?;
            ((heard.seconds, heard.nanos) >= (since.seconds, since.nanos)).then_some(())
        })
        .map_err(|error| format!("{error}\n{}", self.agents.log(which)))
    }

    /// Waits until all jobs have ended.
    fn wait_idle(&self) -> Result<(), String> {
        eventually("all jobs to end", PATIENCE, || {
            let health = self.health().ok()?;
            (health.jobs_pending + health.jobs_running == 0).then_some(())
        })
    }
}

/// Jobs of half of the servers each, which end when they are told to; their names.
fn begin_long(world: &World, ranks: &Path, servers: usize) -> Result<Vec<String>, String> {
    let me = std::env::current_exe().map_err(text)?;
    let argv = [&me.display().to_string(), "upgrade-rank", "--dir", &ranks.display().to_string()];
    let argv = argv.map(str::to_owned).to_vec();
    let names: Vec<String> = (0..2).map(|n| format!("long-{n}")).collect();
    for name in &names {
        let work = v1::job_spec::Work::Command(v1::Command { argv: argv.clone(), ..v1::Command::default() });
        let request = load::create(load::gang(name, u32::try_from(servers / 2).map_err(text)?, work));
        world.ask(|client| {
            let request = request.clone();
            async move { JobServiceClient::new(client).create_job(request).await }
        })?;
    }
    for name in &names {
        world.wait_job(name, |status| status.phase() == Phase::Running)?;
    }
    eventually("every rank to have summed up something", PATIENCE, || {
        let seen = rank::read(ranks, false).ok()?;
        (seen.ranks as usize == servers && seen.rounds > 10 * seen.ranks).then_some(())
    })?;
    Ok(names)
}

/// Waits until they have ended; how many did not end well, or in another attempt than their first.
fn end_long(world: &World, names: &[String]) -> Result<u64, String> {
    let mut bad = 0;
    for name in names {
        let ended = world.wait_job(name, |status| {
            matches!(status.phase(), Phase::Completed | Phase::Failed | Phase::Cancelled)
        })?;
        bad += u64::from(ended.phase() != Phase::Completed || ended.attempt != 1);
    }
    Ok(bad)
}

fn disturbed(row: &Row<'_>, seen: &rank::Seen, restarted: u64, cpu: f64) {
    let value = (seen.disturbed + restarted) as f64;
    row.line(&Line {
        case: "ranks that an upgrade disturbs, all-reduce after all-reduce through engines over TCP",
        value,
        unit: "ranks",
        goal: Goal::AtMost(0.0),
        sample: &Sample::new(vec![value]),
        cpu,
        peers: json!({
            "ranks": seen.ranks, "all_reduces_verified": seen.rounds, "longest_pause_ms": round(seen.gap_ms),
            "jobs_in_another_attempt": restarted, "first": seen.first,
        }),
    });
}

/// A controller of the release before on what the new one has stored.
fn back(row: &Row<'_>, mut world: World, releases: &Releases, cpu: f64) -> Result<(), String> {
    let leader = world.leader()?;
    let which = (leader + 1) % CONTROLLERS;
    let before = world.controllers.log(which).len();
    let begun = Instant::now();
    let served = world.controllers.replace(which, &releases.old).is_ok();
    let log = world.controllers.log(which);
    let said = log.get(before..).unwrap_or_default().lines().rfind(|line| !line.trim().is_empty());
    let said = said.unwrap_or_default().to_owned();
    // It names the release that would have to be run, or it does what it is for.
    let held = if served { world.ready().is_ok() } else { judge::names_a_release(&said) };
    world.controllers.replace(which, &releases.new)?;
    world.ready()?;
    let value = f64::from(u8::from(!held || world.leader()? != leader));
    row.line(&Line {
        case: "controllers of the release before that are started on the new store and neither serve nor say why",
        value,
        unit: "controllers",
        goal: Goal::AtMost(0.0),
        sample: &Sample::new(vec![value]),
        cpu,
        peers: json!({"served": served, "said": said, "seconds": round(begun.elapsed().as_secs_f64())}),
    });
    Ok(())
}
