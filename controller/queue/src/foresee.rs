//! The queue's own rule in virtual time, on counts of GPUs: who starts when if everything takes as long as is likely.
//!
//! It is gone through several times, each with other lengths out of those that jobs took of late: the forecast is the middle
//! of the starts, and its band the first and the last of them, within which four of five starts should lie.
//!
//! A plan of all starts from one moment overrates how long small jobs wait: jobs end long before their limits, and at each
//! end whoever fits beside what is promised starts. So each probable end is gone through in its order, and what is promised
//! at that moment reckons with limits, as in a real pass. Places, kinds of nodes and preemption are left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use proto_model::{Backfill, JobUid, LicenseName, QueueName, TenantName, Timestamp};
use proto_random::mix;
use rooms::Rooms;

use crate::{
    entry::Entry,
    foresee::rooms::{Fore, Licenses, Run},
    grid::Grid,
    ground::Ground,
    measure::Measure,
    plan::signed,
    tables::QueueState,
};

mod rooms;

/// Waiting jobs whose starts are promised at each end; those behind them start where that takes nothing of it.
const PROMISED: usize = 16;

/// Waiting jobs that are looked at at each end.
const DEPTH: usize = 400;

/// How often it is gone through.
const DRAWS: u64 = 9;

/// Looks at jobs in one forecast at most; those who have no start by then keep that of the plan.
const WORK: usize = 2_000_000;

/// What a look at a promised job costs more than one at another.
const DEAR: usize = 64;

/// The cluster in virtual time.
#[derive(Clone)]
pub(crate) struct Foresight<'a> {
    queue_state: &'a QueueState,
    measure: Measure,
    /// By their place in the order.
    waiting: BTreeMap<usize, Fore<'a>>,
    /// Those that come later, by the time.
    coming: BTreeMap<(Timestamp, usize), Fore<'a>>,
    /// Those that run now.
    runs: Vec<Fore<'a>>,
    running: BTreeMap<usize, Run>,
    ends: BTreeSet<(Timestamp, usize)>,
    /// GPUs that are free.
    free: i32,
    total: i32,
    /// GPUs that each limit of a tenant, a queue or long small jobs leaves; below 0 where more is held than it allows.
    left: Vec<i32>,
    quota_of: BTreeMap<(TenantName, Option<QueueName>), usize>,
    /// Which of them is that of long small jobs.
    long_jobs: Option<usize>,
    /// Licenses that are free.
    licenses: Vec<i32>,
    license_of: BTreeMap<LicenseName, usize>,
    next: usize,
    /// Which lengths are drawn.
    draw: u64,
}

impl<'a> Foresight<'a> {
    /// `list` are the waiting jobs in their order.
    pub(crate) fn new(
        queue_state: &'a QueueState,
        ground: &Ground,
        rails: u32,
        list: &[&'a Arc<Entry>],
        now: Timestamp,
    ) -> Self {
        let open = ground.plots.iter().filter(|plot| plot.open);
        let total = signed(open.map(|plot| plot.gpus).fold(0, u32::saturating_add));
        let mut this = Self {
            queue_state,
            measure: ground.measure(rails),
            waiting: BTreeMap::new(),
            coming: BTreeMap::new(),
            runs: Vec::new(),
            running: BTreeMap::new(),
            ends: BTreeSet::new(),
            free: total,
            total,
            left: Vec::new(),
            quota_of: BTreeMap::new(),
            long_jobs: None,
            licenses: Vec::new(),
            license_of: BTreeMap::new(),
            next: 0,
            draw: 0,
        };
        for entry in queue_state.running.values() {
            let nodes = entry.run().map_or(0, |run| run.placement.nodes.len() + run.placement.spares.len());
            let fore = this.fore(entry, u32::try_from(nodes).unwrap_or(u32::MAX));
            this.runs.push(fore);
        }
        for (at, entry) in list.iter().enumerate() {
            let waits =
                entry.hold.is_empty() && entry.reservation.is_none() && queue_state.path(entry).is_some();
            let fore = this.fore(entry, entry.min_nodes.saturating_add(entry.need.spares));
            let licensed =
                entry.licenses.iter().all(|(name, count)| *count <= queue_state.licenses.total(name));
            if !waits || fore.gpus > total || !licensed {
                continue;
            }
            match entry.not_before.filter(|begin| *begin > now) {
                Some(begin) => this.coming.insert((begin, at), fore),
                None => this.waiting.insert(at, fore),
            };
        }
        this
    }

    fn fore(&mut self, entry: &'a Arc<Entry>, nodes: u32) -> Fore<'a> {
        let measure = &self.measure;
        let gpus = measure.gpus_in_all(&entry.need, nodes);
        let mut quotas = Vec::new();
        for queue in self.queue_state.path(entry).into_iter().flatten() {
            let Some(limit) = self.queue_state.limit(&entry.id.tenant, queue.as_ref()) else { continue };
            if signed(limit) < self.total {
                let new = self.left.len();
                let at = *self.quota_of.entry((entry.id.tenant.clone(), queue)).or_insert(new);
                if at == new {
                    self.left.push(signed(limit));
                }
                quotas.push(at);
            }
        }
        quotas.extend(self.long_job_limit(entry));
        let licenses = self.licenses_of(entry);
        Fore {
            entry,
            gpus: signed(gpus),
            limit: self.queue_state.length(entry),
            quotas: quotas.into(),
            licenses,
        }
    }

    /// The limit of long small jobs, if a job is one.
    fn long_job_limit(&mut self, entry: &Entry) -> Option<usize> {
        let limit = self.queue_state.long_limit(entry)?;
        let new = self.left.len();
        let at = *self.long_jobs.get_or_insert(new);
        if at == new {
            self.left.push(signed(limit.gpus));
        }
        Some(at)
    }

    fn licenses_of(&mut self, entry: &Entry) -> Licenses {
        let numbered = entry.licenses.iter().map(|(name, count)| {
            let new = self.licenses.len();
            let at = *self.license_of.entry(name.clone()).or_insert(new);
            if at == new {
                self.licenses.push(signed(self.queue_state.licenses.total(name)));
            }
            (at, signed(*count))
        });
        numbered.collect()
    }

    fn begin(&mut self, fore: Fore<'a>, likely: Timestamp, end: Timestamp) {
        self.free -= fore.gpus;
        for quota in fore.quotas.iter() {
            self.left[*quota] -= fore.gpus;
        }
        for (license, count) in fore.licenses.iter() {
            self.licenses[*license] -= count;
        }
        self.ends.insert((likely, self.next));
        let Fore { gpus, quotas, licenses, .. } = fore;
        self.running.insert(self.next, Run { gpus, end, quotas, licenses });
        self.next += 1;
    }

    /// Of each waiting job the first, the middle and the last of its starts; nothing of those that found none.
    pub(crate) fn starts(&self, now: Timestamp) -> BTreeMap<JobUid, [Timestamp; 3]> {
        let mut starts: BTreeMap<JobUid, Vec<Timestamp>> = BTreeMap::new();
        let mut last = BTreeMap::new();
        for draw in 0..DRAWS {
            let found = Self { draw, ..self.clone() }.go(now);
            // Nothing is uncertain.
            if draw == 1 && found == last {
                break;
            }
            for (uid, start) in &found {
                starts.entry(*uid).or_default().push(*start);
            }
            last = found;
        }
        let parts = |mut list: Vec<Timestamp>| {
            list.sort_unstable();
            let part = |at: usize| list[at.min(list.len() - 1)];
            [part(0), part(list.len() / 2), part(list.len() - 1)]
        };
        starts.into_iter().map(|(uid, list)| (uid, parts(list))).collect()
    }

    /// A number that belongs to a job and a draw.
    fn dice(&self, uid: JobUid) -> u64 {
        let (high, low) = uid.0.as_u64_pair();
        mix(self.draw ^ mix(low ^ mix(high)))
    }

    /// How long a job takes of what its limit allows, given that it has not ended by its age.
    fn length(&self, fore: &Fore<'a>, age: Duration) -> Duration {
        let entry = fore.entry;
        let (age, whole) = (age.as_millis(), fore.limit.as_millis());
        if entry.expected.is_none() && entry.limit.is_none() || whole == 0 || age >= whole {
            return fore.limit;
        }
        let part = u32::try_from(age * 1000 / whole).unwrap_or(1000);
        let gpus = entry.gpus(entry.need.nodes);
        let ledger = &self.queue_state.marks.ledger;
        let part = ledger.draw(&entry.id.tenant, gpus, part, self.dice(entry.uid)).unwrap_or(1000);
        fore.limit.checked_mul(part).map_or(fore.limit, |length| length / 1000)
    }

    /// When each of the waiting jobs starts that do not start at once, as far as the work allows.
    fn go(mut self, now: Timestamp) -> BTreeMap<JobUid, Timestamp> {
        for fore in std::mem::take(&mut self.runs) {
            let end = self.queue_state.end(fore.entry, now);
            let likely = match fore.entry.run().filter(|run| run.ending.is_none()) {
                Some(run) => run.started.plus(self.length(&fore, now.since(run.started))).min(end),
                None => end,
            };
            self.begin(fore, likely.max(now.plus(Duration::from_millis(1))), end);
        }
        let (mut starts, mut time, mut work) = (BTreeMap::new(), now, WORK / DRAWS as usize);
        while !(self.waiting.is_empty() && self.coming.is_empty()) {
            let spent = self.start(time, &mut starts);
            let end = self.ends.first().map(|(time, _)| *time);
            // Who comes while something is free may start then.
            let comes = self.coming.first_key_value().map(|((begin, _), _)| *begin);
            let comes = comes.filter(|_| self.free > 0 || end.is_none());
            let Some(next) = [end, comes].into_iter().flatten().min() else { break };
            let Some(rest) = work.checked_sub(spent + 1) else { break };
            work = rest;
            time = next.max(time);
            self.pass_to(time);
        }
        starts.retain(|_, start| *start > now);
        starts
    }

    /// What ends by a time has ended, and what comes has come.
    fn pass_to(&mut self, time: Timestamp) {
        while let Some((end, at)) = self.ends.first().copied().filter(|(end, _)| *end <= time) {
            self.ends.remove(&(end, at));
            if let Some(run) = self.running.remove(&at) {
                self.free += run.gpus;
                run.quotas.iter().for_each(|quota| self.left[*quota] += run.gpus);
                run.licenses.iter().for_each(|(license, count)| self.licenses[*license] += count);
            }
        }
        while let Some(first) = self.coming.first_entry().filter(|first| first.key().0 <= time) {
            let ((_, at), fore) = first.remove_entry();
            self.waiting.insert(at, fore);
        }
    }

    fn fits(&self, fore: &Fore<'_>) -> bool {
        fore.gpus <= self.free
            && fore.quotas.iter().all(|quota| fore.gpus <= self.left[*quota])
            && fore.licenses.iter().all(|(license, count)| *count <= self.licenses[*license])
    }

    /// One look at the queue. How much work it was.
    fn start(&mut self, now: Timestamp, starts: &mut BTreeMap<JobUid, Timestamp>) -> usize {
        if self.free <= 0 || !self.waiting.values().take(DEPTH).any(|fore| self.fits(fore)) {
            return if self.free <= 0 { 1 } else { DEPTH.min(self.waiting.len()) };
        }
        let grid = Grid::exact(now, std::iter::empty());
        let ends = self.running.values().map(|run| (grid.floor(run.end.max(now)).max(1), run));
        let mut rooms = Rooms::new(self.free, &self.licenses, ends);
        let most = if self.queue_state.policy.backfill == Backfill::Easy { 1 } else { PROMISED };
        let (mut promised, mut checked) = (0, 0);
        let places: Vec<usize> = self.waiting.keys().take(DEPTH).copied().collect();
        for at in places {
            let Some(fore) = self.waiting.get(&at) else { continue };
            checked += 1;
            let end = grid.end_now(fore.limit);
            if self.fits(fore) && rooms.last_miss(fore, 0, end).is_none() {
                rooms.take(fore, 0, end);
                let Some(fore) = self.waiting.remove(&at) else { continue };
                starts.insert(fore.entry.uid, now);
                let likely = now.plus(self.length(&fore, Duration::ZERO));
                let end = now.plus(fore.limit);
                self.begin(fore, likely.max(now.plus(Duration::from_millis(1))), end);
                continue;
            }
            // What only its limit keeps back takes nothing from others.
            let quota = fore.quotas.iter().all(|quota| fore.gpus <= self.left[*quota]);
            if promised < most && quota {
                promised += 1;
                rooms.promise(&grid, fore);
            }
            if self.free <= 0 {
                break;
            }
        }
        checked + promised * DEAR
    }
}
