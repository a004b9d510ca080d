//! Jobs that wait become job documents: by their batch scripts, as Slurm has kept them, and what the queue says of them.

use std::collections::{BTreeMap, BTreeSet};

use proto_wire::v1;

use super::{
    classes::Classes,
    fate::Fate,
    ledger::Ledger,
    limits::duration,
    site::{Site, Thing},
    tenants::Tenants,
    values::{self, Labels},
};
use crate::documents::script::{self, Sizes};

/// Jobs by tenant: in the order of the queue, but behind those that they wait for.
pub type Jobs = BTreeMap<String, Vec<v1::Job>>;

/// What things of the cluster are called here, by their names in Slurm.
#[derive(Debug, Default)]
pub struct Names {
    /// Reservations.
    pub reservations: BTreeMap<String, String>,
    /// Licenses.
    pub licenses: BTreeMap<String, String>,
}

/// Makes the documents of jobs that wait.
pub fn make(site: &Site, tenants: &Tenants, classes: &Classes, called: &Names, ledger: &mut Ledger) -> Jobs {
    let mut maker = Maker { site, tenants, classes, called, names: BTreeMap::new(), made: BTreeMap::new() };
    let doubtful = doubtful(&site.jobs);
    let mut jobs = Jobs::new();
    let mut waits: Vec<(&Thing, String, v1::Job)> = Vec::new();
    for one in &site.jobs {
        let made = match doubtful.get(number(&one.name)) {
            Some(why) => Err((*why).to_owned()),
            None => maker.job(one, ledger),
        };
        match made {
            Ok((tenant, job)) => waits.push((one, tenant, job)),
            Err(why) => {
                let here = format!("no job is made: {why}");
                ledger.settle(one.id, Fate::Lost, here.clone());
                for (id, _) in one.settings.values() {
                    ledger.settle(*id, Fate::Lost, here.clone());
                }
            }
        }
    }
    for (one, tenant, mut job) in waits {
        maker.dependency(one, &tenant, &mut job, ledger);
        jobs.entry(tenant).or_default().push(job);
    }
    jobs.into_iter().map(|(tenant, jobs)| (tenant, ordered(jobs))).collect()
}

/// Numbers of which the queue says what cannot be: one of the rows may be a name with a line break in it, and nobody knows which.
fn doubtful(jobs: &[Thing]) -> BTreeMap<&str, &'static str> {
    let (mut ids, mut first, mut doubtful) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
    for one in jobs {
        let number = number(&one.name);
        let own = (one.text("user"), one.name == number);
        if !ids.insert(&one.name) {
            doubtful.insert(number, "its number comes twice in the queue");
        } else if *first.entry(number).or_insert(own) != own {
            doubtful.insert(
                number,
                "rows of its number do not go together: they are of two users, or an array and no array",
            );
        }
    }
    doubtful
}

/// The same jobs, each behind those that it waits for, otherwise in their order.
fn ordered(jobs: Vec<v1::Job>) -> Vec<v1::Job> {
    let name = |job: &v1::Job| job.metadata.as_ref().map(|one| one.name.clone()).unwrap_or_default();
    let places: BTreeMap<String, usize> = jobs.iter().enumerate().map(|(at, job)| (name(job), at)).collect();
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); jobs.len()];
    let mut waits: Vec<usize> = vec![0; jobs.len()];
    for (at, job) in jobs.iter().enumerate() {
        let after = job.spec.iter().flat_map(|spec| &spec.after);
        let before: BTreeSet<usize> = after.filter_map(|one| places.get(&one.job).copied()).collect();
        waits[at] = before.len();
        for one in before {
            behind[one].push(at);
        }
    }
    let mut ready: BTreeSet<usize> = (0..jobs.len()).filter(|at| waits[*at] == 0).collect();
    let mut order = Vec::new();
    while let Some(at) = ready.pop_first() {
        order.push(at);
        for next in &behind[at] {
            waits[*next] -= 1;
            if waits[*next] == 0 {
                ready.insert(*next);
            }
        }
    }
    // Those that wait for each other, which Slurm allows nobody, come last.
    order.extend((0..jobs.len()).filter(|at| waits[*at] > 0));
    let mut jobs: Vec<Option<v1::Job>> = jobs.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| jobs[at].take()).collect()
}

/// A job that is made, or one part of an array.
struct Called {
    /// Its element, where it is a single one.
    element: Option<String>,
    tenant: String,
    name: String,
}

struct Maker<'a> {
    site: &'a Site,
    tenants: &'a Tenants,
    classes: &'a Classes,
    called: &'a Names,
    names: BTreeMap<String, Labels>,
    /// Those that are made, by number.
    made: BTreeMap<String, Vec<Called>>,
}

/// The number of a job, without its elements.
#[must_use]
pub fn number(id: &str) -> &str {
    id.split(['_', '+']).next().unwrap_or(id)
}

/// What a column says, or why it cannot be read: then it is not known which job it is, and none is made.
fn column<T>(one: &Thing, name: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    let Some((_, token)) = one.get(name) else { return Ok(None) };
    read(&token.value).map(Some).map_err(|why| format!("{}: {why}", token.name))
}

/// Nodes at least and at most: `4`, `2-4`, `1K`.
fn nodes(text: &str) -> Result<(u32, u32), String> {
    let one = |text: &str| {
        let (digits, factor) = text.strip_suffix(['K', 'k']).map_or((text, 1), |digits| (digits, 1024));
        let number = digits.parse::<u32>().ok().and_then(|number| number.checked_mul(factor));
        number.ok_or_else(|| format!("`{text}` is no number of nodes"))
    };
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    Ok((one(least)?, one(most)?))
}

/// The sizes that the queue has of it.
fn sizes(one: &Thing) -> Result<Sizes, String> {
    // 22.05 writes gres:gpu:8, later ones gres/gpu:8.
    let gpus = |text: &str| values::gpus(&text.replace("gres:", "").replace("gres/", ""));
    Ok(Sizes {
        nodes: column(one, "nodes", nodes)?.filter(|(_, most)| *most > 0),
        gpus_per_node: column(one, "tres_per_node", gpus)?.map(|(gpus, _)| gpus).filter(|gpus| *gpus > 0),
    })
}

/// What stands behind the number: elements of an array.
fn elements(id: &str) -> Option<&str> {
    let (_, rest) = id.split_once('_')?;
    Some(rest.trim_start_matches('[').trim_end_matches(']'))
}

impl Maker<'_> {
    fn job(&mut self, one: &Thing, ledger: &mut Ledger) -> Result<(String, v1::Job), String> {
        let state = one.text("state");
        if !state.eq_ignore_ascii_case("PENDING") && !state.eq_ignore_ascii_case("PD") {
            return Err(format!("it is {state}: it ends in Slurm"));
        }
        if one.name.contains('+') {
            return Err("it is a heterogeneous job; write a job file with components".to_owned());
        }
        let number = number(&one.name).to_owned();
        let tenant = self.tenant(one)?;
        let Some((file, text)) = self.site.scripts.get(&number) else {
            return Err(format!(
                "its script was not given (`--scripts`; `scontrol write batch_script {number} slurm-{number}.sh`)"
            ));
        };
        let read = script::read_sized(file, text, sizes(one)?);
        let script = read.map_err(|error| error.to_string().replace('\n', "; "))?;
        let mut job = script.job;
        let spec = job.spec.get_or_insert_default();
        let limit = |text: &str| if text == "INVALID" { Ok(None) } else { values::time(text) };
        if let Some(seconds) = column(one, "time_limit", limit)? {
            spec.time_limit = seconds.map(duration);
        }
        self.queue(one, &tenant, spec, ledger);
        self.names_of(one, spec, ledger);
        self.licenses(one, spec, ledger);
        if let Some(elements) = elements(&one.name) {
            elements.clone_into(&mut spec.array);
        }
        proto_model::JobSpec::try_from(spec.clone()).map_err(|wrong| {
            let wrong = wrong.to_string().replace('\n', "; ");
            format!("its script and the queue do not agree: {wrong}")
        })?;
        let name = self.name(one, &number, &tenant, ledger);
        let labels =
            [("slurm/job".to_owned(), number), ("slurm/user".to_owned(), one.text("user").to_owned())];
        job.metadata =
            Some(v1::Metadata { name: name.clone(), labels: labels.into(), ..v1::Metadata::default() });
        let notes = script.notes.iter().map(|note| format!("; {note}")).collect::<String>();
        let here = format!(
            "job {name} of tenant {tenant}, with the label slurm/job; it belongs to whoever applies it, and options of the command line that the queue does not show are lost{notes}"
        );
        ledger.settle(one.id, Fate::Differs, here);
        Ok((tenant, job))
    }

    /// The name that it has here.
    fn name(&mut self, one: &Thing, number: &str, tenant: &str, ledger: &mut Ledger) -> String {
        let given = if one.text("name").is_empty() { "job" } else { one.text("name") };
        let name = self.names.entry(tenant.to_owned()).or_default().take(given);
        if let Some((id, token)) = one.get("name") {
            let fate = if token.value == name { Fate::Carried } else { Fate::Differs };
            ledger.settle(id, fate, format!("job {name}"));
        }
        let element = elements(&one.name).filter(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        let called =
            Called { element: element.map(str::to_owned), tenant: tenant.to_owned(), name: name.clone() };
        self.made.entry(number.to_owned()).or_default().push(called);
        name
    }

    fn tenant(&self, one: &Thing) -> Result<String, String> {
        if !self.site.has_accounts {
            return self
                .tenants
                .all
                .first()
                .map(|tenant| tenant.name.clone())
                .ok_or_else(|| "there is no tenant".to_owned());
        }
        let account = one.text("account").to_ascii_lowercase();
        let spot = self.tenants.spots.get(&account);
        spot.map(|spot| spot.tenant.clone())
            .ok_or_else(|| format!("its account `{account}` has no tenant here"))
    }

    /// The queue of its partition; the first of several.
    fn queue(&self, one: &Thing, tenant: &str, spec: &mut v1::JobSpec, ledger: &mut Ledger) {
        let Some((id, token)) = one.get("partition") else { return };
        let mut all = values::list(&token.value);
        let first = all.next().unwrap_or_default();
        let queue = self.classes.queue_of.get(&(tenant.to_owned(), first.to_owned()));
        match queue {
            Some(queue) => {
                queue.clone_into(&mut spec.queue);
                let fate = if all.next().is_some() { Fate::Differs } else { Fate::Carried };
                ledger.settle(id, fate, format!("queue {queue}: a job is in one"));
            }
            None => {
                spec.queue.clear();
                ledger.settle(
                    id,
                    Fate::Lost,
                    format!(
                        "tenant {tenant} has no queue for partition {first}: the job is of the tenant itself"
                    ),
                );
            }
        }
    }

    /// Its QOS and reservation.
    fn names_of(&self, one: &Thing, spec: &mut v1::JobSpec, ledger: &mut Ledger) {
        let explicit = !spec.service_class.is_empty();
        spec.service_class.clear();
        if let Some((id, token)) = one.get("qos") {
            match self.classes.class_of.get(&token.value.to_ascii_lowercase()).filter(|_| explicit) {
                Some(class) => {
                    class.clone_into(&mut spec.service_class);
                    ledger.settle(id, Fate::Carried, format!("service class {class}"));
                }
                None => ledger.settle(
                    id,
                    Fate::Differs,
                    "the class that fits it best: its script names no QOS that is one here",
                ),
            }
        }
        spec.reservation.clear();
        if let Some((id, token)) = one.get("reservation") {
            match self.called.reservations.get(&token.value) {
                Some(name) => {
                    name.clone_into(&mut spec.reservation);
                    ledger.settle(id, Fate::Carried, format!("reservation {name}"));
                }
                None => ledger.settle(
                    id,
                    Fate::Lost,
                    format!("the reservation `{}` is not made here", token.value),
                ),
            }
        }
    }

    /// Its licenses, as its script says them, by the names that they have here.
    fn licenses(&self, one: &Thing, spec: &mut v1::JobSpec, ledger: &mut Ledger) {
        let given: BTreeMap<String, u32> = std::mem::take(&mut spec.licenses).into_iter().collect();
        let said = one.get("licenses").map(|(id, _)| id);
        if let (true, Some(id)) = (given.is_empty(), said) {
            ledger.settle(id, Fate::Lost, "its script asks for none: `licenses`");
        }
        for (license, count) in given {
            let id = said.unwrap_or(one.id);
            let known = self.called.licenses.get(&license);
            let name = known.cloned().unwrap_or_else(|| Labels::default().take(&license));
            match known {
                None => {
                    let here = format!(
                        "no `Licenses` has {license}: the job is refused until there is a License {name}"
                    );
                    ledger.settle(id, Fate::Differs, here);
                }
                Some(_) if name != license => {
                    ledger.settle(id, Fate::Differs, format!("`{license}` is called {name} here"));
                }
                Some(_) => ledger.settle(id, Fate::Carried, "`licenses`, as its script says them"),
            }
            let all = spec.licenses.entry(name).or_default();
            *all = all.saturating_add(count);
        }
    }

    /// Jobs that it waits for, where they are made here as well.
    fn dependency(&self, one: &Thing, tenant: &str, job: &mut v1::Job, ledger: &mut Ledger) {
        let Some(spec) = &mut job.spec else { return };
        spec.after.clear();
        let Some((id, token)) = one.get("dependency") else { return };
        if token.value.contains('?') {
            let here = "any one of several is enough there, and `after` is all of them: it waits for none";
            ledger.settle(id, Fate::Lost, here);
            return;
        }
        for part in values::list(&token.value) {
            let mut words = part.split(['(', ')']).next().unwrap_or(part).split(':');
            let when = match words.next().unwrap_or_default() {
                "after" => v1::dependency::When::Started,
                "afterok" => v1::dependency::When::Succeeded,
                "afterany" => v1::dependency::When::Ended,
                "afternotok" => v1::dependency::When::Failed,
                other => {
                    ledger.settle(id, Fate::Lost, format!("`{other}` is no dependency here"));
                    continue;
                }
            };
            for word in words {
                let (job, fate, here) = self.awaited(word, tenant);
                ledger.settle(id, fate, here);
                for name in job {
                    let after = v1::Dependency { job: name.to_owned(), when: when.into() };
                    if !spec.after.contains(&after) {
                        spec.after.push(after);
                    }
                }
            }
        }
    }

    /// The jobs that one word of a dependency names.
    fn awaited(&self, word: &str, tenant: &str) -> (Vec<&str>, Fate, String) {
        let (job, delay) = word.split_once('+').map_or((word, None), |(job, delay)| (job, Some(delay)));
        let number = number(job);
        let element = elements(job).filter(|element| *element != "*");
        let all = self.made.get(number).into_iter().flatten().filter(|called| called.tenant == tenant);
        let all: Vec<&Called> = all.collect();
        let single = all.iter().find(|called| element.is_some() && called.element.as_deref() == element);
        let found: Vec<&str> = match single {
            Some(single) => vec![single.name.as_str()],
            None => all.iter().map(|called| called.name.as_str()).collect(),
        };
        if found.is_empty() {
            let here = format!("job {job} is not made in tenant {tenant}: nothing waits for it");
            return (found, Fate::Lost, here);
        }
        let names = found.join(", ");
        if element.is_some() && single.is_none() {
            return (found, Fate::Differs, format!("after all of {names}, not after one element alone"));
        }
        if let Some(delay) = delay {
            return (found, Fate::Differs, format!("after {names}, and not {delay} minutes later"));
        }
        (found, Fate::Carried, format!("after {names}"))
    }
}
