//! One run: hosts, their network, the faults, and the end.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, SystemTime},
};

use controller_leader::Refusal;
use integration_sim::rng::Rng;
use turmoil::Sim;

use crate::{
    check,
    client::{ReportedState, Script},
    config::Config,
    controller::{ETCD_PORT, Posts, Setting, live},
    etcd::{Etcd, calls},
    faults::{Hosts, plan},
    net,
    record::Record,
    report::Report,
    vacancy::Vacancy,
    weather::Weather,
};

/// Longest way of a packet while nothing is slow.
pub const LATENCY: Duration = Duration::from_millis(8);
/// Faults begin so many milliseconds after the start.
const FIRST_FAULT_MS: u64 = 600;
/// Clients that share a host.
const PER_HOST: u64 = 6;
/// A controller's wall clock may be so far ahead, in seconds.
const AHEAD_S: u64 = 3600;
/// How often it is looked whether all has settled.
const LOOK_EVERY_MS: u64 = 40;

type Rows = Pin<Box<dyn Future<Output = Result<Vec<check::Row>, Refusal>>>>;

/// Runs one seed to its end and reports what was found.
#[must_use]
pub fn run(seed: u64, config: &Config) -> Report {
    align_tasks();
    let record = Record::new(config.story);
    let outcome = catch_unwind(AssertUnwindSafe(|| World::new(seed, config, &record).run()));
    net::set_weather(std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    let mut report = outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("of no words");
        record.fail(format!("a panic: {text}"));
        Report::of(seed)
    });
    let mut noted = record.noted();
    report.digest = noted.digest.0;
    report.events = noted.events;
    report.simulated_ms = noted.now_ms;
    report.violation.clone_from(&noted.violation);
    report.story = noted.story.take().unwrap_or_default();
    report
}

/// The runtime drops tasks of a process that is killed in an order that depends on their numbers, which it counts up for the
/// whole process: every run begins with the same remainder. So runs must not share a process at the same time.
fn align_tasks() {
    const SHARDS: u64 = 64;
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
    let mut left = 2 * SHARDS;
    loop {
        let id = runtime.block_on(async { tokio::spawn(async {}).id() }).to_string().parse::<u64>();
        left -= 1;
        if left == 0 || id.is_ok_and(|id| id.is_multiple_of(SHARDS)) {
            return;
        }
    }
}

/// A run at work.
struct World<'a> {
    sim: Sim<'a>,
    seed: u64,
    config: Config,
    hosts: Hosts,
    clients: usize,
    etcd: Arc<Etcd>,
    posts: Posts,
    reported: ReportedState,
    record: Record,
    weather: Weather,
    vacancy: Vacancy,
}

impl World<'_> {
    fn new(seed: u64, config: &Config, record: &Record) -> Self {
        let mut rng = Rng::new(seed);
        let names = |letter: char, count: u64| (0..count).map(|n| format!("{letter}{n}")).collect::<Vec<_>>();
        let controllers = if rng.chance(300) { config.controllers.clamp(1, 2) } else { config.controllers };
        let hosts = Hosts {
            controllers: names('c', controllers),
            members: names('e', 2),
            clients: names('u', config.clients.div_ceil(PER_HOST)),
        };
        let etcd = Etcd::new(hosts.members.len(), Rng::new(rng.draw()), record.clone(), config.bug);
        let to = FIRST_FAULT_MS + config.chaos_ms;
        let faults = plan(&mut rng, &hosts, config.faults, FIRST_FAULT_MS, to);
        let (posts, reported) = (Posts::default(), ReportedState::default());
        let weather = Weather::new(hosts.clone(), faults, Arc::clone(&etcd), posts.clone(), record.clone());
        let mut sim = turmoil::Builder::new()
            .tick_duration(Duration::from_millis(config.tick_ms))
            .simulation_duration(Duration::from_secs(3600))
            .epoch(SystemTime::UNIX_EPOCH)
            .min_message_latency(Duration::ZERO)
            .max_message_latency(LATENCY)
            .tcp_capacity(4096)
            .rng_seed(rng.draw())
            .enable_random_order()
            .build();
        for (at, member) in hosts.members.iter().enumerate() {
            let etcd = Arc::clone(&etcd);
            sim.host(member.as_str(), move || serve_etcd(Arc::clone(&etcd), at));
        }
        for name in &hosts.controllers {
            let mut members = hosts.members.clone();
            members.rotate_left(rng.below(hosts.members.len()));
            let setting = Setting {
                name: name.clone(),
                members,
                seed: rng.draw(),
                ahead: Duration::from_secs(rng.range(0..AHEAD_S)),
                posts: posts.clone(),
                record: record.clone(),
                bug: config.bug,
            };
            sim.host(name.as_str(), move || live(setting.clone()));
        }
        let mut world = Self {
            sim,
            seed,
            config: config.clone(),
            hosts,
            clients: 0,
            etcd,
            posts,
            reported,
            record: record.clone(),
            weather,
            vacancy: Vacancy::default(),
        };
        world.add_clients(&mut rng);
        world
    }

    fn add_clients(&mut self, rng: &mut Rng) {
        let mut left = self.config.clients;
        for host in &self.hosts.clients {
            let here = left.min(PER_HOST);
            left -= here;
            let scripts: Vec<Script> = (0..here)
                .map(|number| Script {
                    name: format!("{host}{}", char::from(b'a' + u8::try_from(number).unwrap_or(0))),
                    controllers: self.hosts.controllers.clone(),
                    rng: Rng::new(rng.draw()),
                    submits: rng.range(1..self.config.submits + 1),
                    think_ms: rng.range(50..900),
                    reported: self.reported.clone(),
                    record: self.record.clone(),
                    bug: self.config.bug,
                })
                .collect();
            self.clients += scripts.len();
            self.sim.client(host.as_str(), async move {
                let running: Vec<_> =
                    scripts.into_iter().map(|script| tokio::spawn(of_one(script))).collect();
                for script in running {
                    script.await??;
                }
                Ok(())
            });
        }
    }

    fn run(mut self) -> Report {
        let chaos_end = FIRST_FAULT_MS + self.config.chaos_ms;
        while self.now() < chaos_end && self.goes_on() {
            self.step();
        }
        let healed = self.now();
        self.weather.heal(&mut self.sim, healed);
        self.settle("");
        let settled_ms = self.now() - healed;
        if self.goes_on() {
            self.last_take_over();
        }
        let reported = self.reported.tally();
        let acknowledged = reported.jobs.len() as u64;
        Report {
            faults: self.weather.begun,
            acknowledged,
            calls: reported.calls,
            commits: self.etcd.inner().commits,
            take_overs: self.posts.terms(),
            settled_ms,
            vacancy_ms: self.vacancy.longest_ms,
            ..Report::of(self.seed)
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.sim.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn goes_on(&self) -> bool {
        self.record.noted().violation.is_none()
    }

    fn step(&mut self) {
        let now = self.now();
        self.record.noted().now_ms = now;
        self.weather.turn(&mut self.sim, now);
        if let Err(error) = self.sim.step() {
            self.record.fail(format!("a host broke: {error}"));
        }
        let led = !self.posts.leaders().is_empty();
        if let Err(vacant) = self.vacancy.observe(now, led, self.weather.somebody_could_lead()) {
            self.record.fail(vacant);
        }
    }

    /// Until all is as it should be, or too late.
    fn settle(&mut self, who_must_not_lead: &str) {
        let until = self.now() + self.config.settle_ms;
        while self.goes_on() {
            let unsettled = self.unsettled(who_must_not_lead);
            let Some(why) = unsettled else { return };
            if self.now() >= until {
                self.record
                    .fail(format!("not settled {} ms after the last fault: {why}", self.config.settle_ms));
                return;
            }
            let check = self.now() + LOOK_EVERY_MS;
            while self.now() < check && self.goes_on() {
                self.step();
            }
        }
    }

    /// What is not as it should be yet.
    fn unsettled(&mut self, who_must_not_lead: &str) -> Option<String> {
        {
            let reported = self.reported.tally();
            if reported.done < self.clients {
                return Some(format!("{} of {} clients are done", reported.done, self.clients));
            }
        }
        let leaders = self.posts.leaders();
        let [(name, leader)] = &leaders[..] else {
            return Some(format!("{} controllers lead", leaders.len()));
        };
        if name == who_must_not_lead {
            return Some(format!("{name} leads"));
        }
        if !leader.store_health().writable {
            return Some(format!("{name} leads and cannot write"));
        }
        let data = self.etcd.data();
        let jobs = match check::stored(&data) {
            Ok(jobs) => jobs,
            Err(error) => return Some(error),
        };
        let asked: Rows = Box::pin({
            let leader = leader.clone();
            async move { leader.query(|state, _| check::led(state)).await }
        });
        match self.answered(asked) {
            Some(Ok(led)) if led == check::rows(&jobs) => {}
            Some(Ok(led)) => {
                let other = check::rows(&jobs);
                let odd = led
                    .iter()
                    .find(|row| !other.contains(row))
                    .or_else(|| other.iter().find(|row| !led.contains(row)));
                return Some(format!(
                    "{name} leads with {} jobs, {} are stored; {odd:?}",
                    led.len(),
                    other.len()
                ));
            }
            Some(Err(refusal)) => return Some(format!("{name} leads and does not answer: {refusal}")),
            None => return Some(format!("{name} leads and does not answer")),
        }
        let (data, reported) = (self.etcd.data(), self.reported.tally());
        let broken = check::stored(&data).and_then(|jobs| check::promises(&reported, &jobs));
        if let Err(broken) = broken {
            self.record.fail(broken);
            return None;
        }
        drop(reported);
        self.copies(&data)
    }

    /// Which copy is not what is stored.
    fn copies(&self, data: &[crate::wire::KeyValue]) -> Option<String> {
        self.hosts.controllers.iter().find_map(|name| {
            if self.weather.is_down(name) {
                return None;
            }
            let Some(reader) = self.posts.with(name, |post| post.reader.clone()) else {
                return Some(format!("{name} has not opened its store"));
            };
            check::differs(&reader, data).map(|how| format!("the copy of {name}: {how}"))
        })
    }

    /// The answer of a leader, which needs steps to come.
    fn answered<T>(&mut self, mut asked: Pin<Box<dyn Future<Output = T>>>) -> Option<T> {
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..8 {
            if let Poll::Ready(answer) = asked.as_mut().poll(&mut context) {
                return Some(answer);
            }
            self.step();
        }
        None
    }

    /// The leader dies for good: what a standby leads with, by its copy, is what is stored.
    fn last_take_over(&mut self) {
        if self.hosts.controllers.len() < 2 {
            return;
        }
        let Some((name, _)) = self.posts.leaders().pop() else { return };
        self.record.report(&format!("{name} leads and dies for good"));
        self.weather.kill(&mut self.sim, &name, u64::MAX);
        self.settle(&name);
    }
}

async fn of_one(script: Script) -> Result<(), String> {
    script.run().await.map_err(|error| error.to_string())
}

async fn serve_etcd(etcd: Arc<Etcd>, at: usize) -> turmoil::Result {
    let router = calls::router(etcd, at);
    Ok(net::serve(ETCD_PORT, router, |_| proto_rpc::Identity::Anonymous).await?)
}
