//! K2: claims of rails, prepared and removed by the DRA driver over kubelet's socket, while the driver is killed and started again.

use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant},
};

use integration_harness::binaries;
use node_agent_dra_server::{Interface, Kubelet, Site};
use proto_random::Random;
use serde_json::json;

use super::settings::Bench;
use crate::report::{Cpu, Goal, Line, Row, Sample};

/// Rails of the server.
const RAILS: usize = 8;
/// Claims at a time, each of as many rails: kubelet starts pods beside one another. A divisor of the number of claims and of rails.
const AT_A_TIME: usize = 4;
/// A kill comes after about so many claims.
const BETWEEN_KILLS: usize = 250;
/// And within so many milliseconds more, so that it comes at any point of a call.
const SPREAD_MS: u64 = 30;
/// A claim that is not answered in this time never will be.
const LONGEST: Duration = Duration::from_secs(60);
const SEED: u64 = 1;

/// What was seen.
#[derive(Default)]
struct Seen {
    /// Milliseconds of calls that were answered at once.
    prepare: Vec<f64>,
    unprepare: Vec<f64>,
    /// Calls that had to be repeated, since the driver was killed.
    repeated: usize,
    /// Answers to a repeated call that were other ones.
    changed: usize,
    /// What never ended well.
    failed: Vec<String>,
}

/// Row K2.
///
/// # Errors
/// The driver does not start.
pub fn prepared(row: &Row<'_>, bench: &Bench) -> Result<(), String> {
    let claims = if bench.quick { 1_000 } else { 10_000 };
    let program = binaries::directory()?.join("rail-dra-driver");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let site = Site::new(&program, RAILS).await;
        site.start().await;
        let (cpu, seen, done) = (Cpu::start(), RefCell::new(Seen::default()), Cell::new(0));
        let work = |at| Worker { at, site: &site, seen: &seen, done: &done }.run(claims / AT_A_TIME);
        let (kills, ..) = tokio::join!(kill_often(&site, &done, claims), work(0), work(1), work(2), work(3));
        let (left, cpu) = (site.on_disk(), cpu.cores());
        report(row, &seen.borrow(), claims, kills, &left, cpu);
        Ok(())
    })
}

fn report(
    row: &Row<'_>,
    seen: &Seen,
    claims: usize,
    kills: usize,
    left: &(Vec<String>, Vec<String>),
    cpu: f64,
) {
    let peers =
        json!({"claims": claims, "kills": kills, "repeated": seen.repeated, "failed": seen.failed.first()});
    let (prepare, unprepare) = (Sample::new(seen.prepare.clone()), Sample::new(seen.unprepare.clone()));
    let line = |case, value: f64, unit, goal, sample| {
        row.line(&Line { case, value, unit, goal, sample, cpu, peers: peers.clone() });
    };
    line("records and files left", (left.0.len() + left.1.len()) as f64, "", Goal::AtMost(0.0), &prepare);
    line("answers that changed", seen.changed as f64, "", Goal::AtMost(0.0), &prepare);
    line("claims never served", seen.failed.len() as f64, "", Goal::AtMost(0.0), &prepare);
    line("prepare p99", prepare.quantile(0.99), "ms", Goal::AtMost(50.0), &prepare);
    line("unprepare p99", unprepare.quantile(0.99), "ms", Goal::AtMost(50.0), &unprepare);
}

/// Kills the driver and starts it again until all claims are done; says how often.
async fn kill_often(site: &Site, done: &Cell<usize>, claims: usize) -> usize {
    let (mut random, mut kills, mut next) = (Random::new(SEED), 0, BETWEEN_KILLS);
    while done.get() < claims {
        if done.get() >= next {
            tokio::time::sleep(Duration::from_millis(random.below(SPREAD_MS))).await;
            site.kill();
            site.start().await;
            kills += 1;
            next += BETWEEN_KILLS;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    kills
}

/// Makes claims of rails that no other worker's claims have, one after the other.
struct Worker<'a> {
    at: usize,
    site: &'a Site,
    seen: &'a RefCell<Seen>,
    done: &'a Cell<usize>,
}

impl Worker<'_> {
    async fn run(self, claims: usize) {
        let interface = if self.at.is_multiple_of(2) { Interface::V1 } else { Interface::V1Beta1 };
        let kubelet = self.site.kubelet(interface);
        let share = RAILS / AT_A_TIME;
        let rails: Vec<usize> = (self.at * share..(self.at + 1) * share).collect();
        for number in 0..claims {
            let (uid, name) = (format!("uid-{}-{number}", self.at), format!("claim-{}-{number}", self.at));
            self.site.allocate(&uid, &name, &rails);
            if let Err(error) = self.claim(&kubelet, (&uid, "ml", &name)).await {
                self.note(|seen| seen.failed.push(format!("{name}: {error}")));
            }
            self.site.delete_claim(&name);
            self.done.set(self.done.get() + 1);
        }
    }

    /// Prepares a claim twice and removes it twice, as kubelet does that was itself started again.
    async fn claim(&self, kubelet: &Kubelet, claim: (&str, &str, &str)) -> Result<(), String> {
        let (given, took) = self.until_done(async || kubelet.prepare_one(claim).await).await?;
        let (again, _) = self.until_done(async || kubelet.prepare_one(claim).await).await?;
        let ((), removing) = self.until_done(async || kubelet.unprepare_one(claim).await).await?;
        self.until_done(async || kubelet.unprepare_one(claim).await).await?;
        self.note(|seen| {
            seen.changed += usize::from(given != again);
            seen.prepare.extend(took);
            seen.unprepare.extend(removing);
        });
        Ok(())
    }

    /// Calls until it is done; says how many milliseconds that took where the first call was answered.
    async fn until_done<T>(
        &self,
        call: impl AsyncFn() -> Result<T, String>,
    ) -> Result<(T, Option<f64>), String> {
        let begin = Instant::now();
        let mut calls = 0;
        loop {
            match call().await {
                Ok(value) => {
                    let took = (calls == 0).then(|| begin.elapsed().as_secs_f64() * 1000.0);
                    return Ok((value, took));
                }
                Err(error) if begin.elapsed() > LONGEST => return Err(error),
                Err(_) => {
                    calls += 1;
                    self.note(|seen| seen.repeated += 1);
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }
    }

    fn note(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.borrow_mut());
    }
}
