//! Jobs that wait become job documents: by their batch scripts, as Slurm has kept them, and what the queue says of them.

use std::collections::BTreeMap;

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
use crate::documents::script;

/// Columns that must be there.
pub const COLUMNS: [&str; 7] = ["JOBID", "STATE", "ACCOUNT", "USER", "PARTITION", "QOS", "NAME"];
/// What prints the queue so, from Slurm 22.05 to 24.11.
pub const FORMAT: &str = "%i|%T|%a|%u|%P|%q|%Q|%D|%b|%f|%l|%V|%E|%W|%v|%j";

/// Jobs by tenant, in the order of the queue.
pub type Jobs = BTreeMap<String, Vec<v1::Job>>;

/// Makes the documents of jobs that wait.
pub fn make(
    site: &Site,
    tenants: &Tenants,
    classes: &Classes,
    reservations: &BTreeMap<String, String>,
    ledger: &mut Ledger,
) -> Jobs {
    let mut maker =
        Maker { site, tenants, classes, reservations, names: BTreeMap::new(), called: BTreeMap::new() };
    let mut jobs = Jobs::new();
    let mut waits: Vec<(&Thing, String, v1::Job)> = Vec::new();
    for one in &site.jobs {
        match maker.job(one, ledger) {
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
    jobs
}

struct Maker<'a> {
    site: &'a Site,
    tenants: &'a Tenants,
    classes: &'a Classes,
    /// Names of reservations here, by those in Slurm.
    reservations: &'a BTreeMap<String, String>,
    names: BTreeMap<String, Labels>,
    /// Tenant and name by number.
    called: BTreeMap<String, (String, String)>,
}

/// The number of a job, without its elements.
#[must_use]
pub fn number(id: &str) -> &str {
    id.split(['_', '+']).next().unwrap_or(id)
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
        let script = script::read(file, text).map_err(|error| error.to_string().replace('\n', "; "))?;
        let mut job = script.job;
        let given = if one.text("name").is_empty() { "job" } else { one.text("name") };
        let name = self.names.entry(tenant.clone()).or_default().take(given);
        let labels = [
            ("slurm/job".to_owned(), number.clone()),
            ("slurm/user".to_owned(), one.text("user").to_owned()),
        ];
        job.metadata =
            Some(v1::Metadata { name: name.clone(), labels: labels.into(), ..v1::Metadata::default() });
        let spec = job.spec.get_or_insert_default();
        self.queue(one, &tenant, spec, ledger);
        Self::sizes(one, spec, ledger);
        self.names_of(one, spec, ledger);
        let is_array = one
            .name
            .strip_prefix(&number)
            .and_then(|rest| rest.strip_prefix("_["))
            .and_then(|rest| rest.strip_suffix(']'));
        if let Some(elements) = is_array {
            spec.array = elements.to_owned();
        } else if one.name.contains('_') {
            spec.array.clear();
        }
        proto_model::JobSpec::try_from(spec.clone()).map_err(|wrong| {
            let wrong = wrong.to_string().replace('\n', "; ");
            format!("its script and the queue do not agree: {wrong}")
        })?;
        let notes = script.notes.iter().map(|note| format!("; {note}")).collect::<String>();
        let here = format!(
            "job {name} of tenant {tenant}, with the label slurm/job; it belongs to whoever applies it, and options of the command line that the queue does not show are lost{notes}"
        );
        ledger.settle(one.id, Fate::Differs, here);
        if let Some((id, token)) = one.get("name") {
            let fate = if token.value == name { Fate::Carried } else { Fate::Differs };
            ledger.settle(id, fate, format!("job {name}"));
        }
        self.called.insert(number, (tenant.clone(), name));
        Ok((tenant, job))
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

    fn sizes(one: &Thing, spec: &mut v1::JobSpec, ledger: &mut Ledger) {
        if let Some(seconds) = one
            .read("time_limit", ledger, |text| if text == "INVALID" { Ok(None) } else { values::time(text) })
        {
            spec.time_limit = seconds.map(duration);
        }
        let nodes = |text: &str| values::number::<u32>(text.split('-').next_back().unwrap_or(text));
        let nodes = one.read("nodes", ledger, nodes).flatten();
        // 22.05 writes gres:gpu:8, later ones gres/gpu:8.
        let gpus = |text: &str| values::gpus(&text.replace("gres:", "").replace("gres/", ""));
        let gpus = one.read("tres_per_node", ledger, gpus).map(|(gpus, _)| gpus);
        let Some(gang) = &mut spec.gang else { return };
        gang.nodes = gang.nodes.max(nodes.unwrap_or(0));
        gang.gpus_per_node = gpus.filter(|gpus| *gpus > 0).unwrap_or(gang.gpus_per_node);
        if (gang.nodes > 1 || gang.gpus_per_node > 0) && spec.rails.as_ref().is_some_and(|rails| rails.none) {
            spec.rails = None;
        }
    }

    /// Its QOS, reservation and licenses.
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
            match self.reservations.get(&token.value) {
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
        let licenses = spec.licenses.len();
        if let Some((id, _)) = one.get("licenses") {
            let fate = if licenses > 0 { Fate::Carried } else { Fate::Lost };
            ledger.settle(id, fate, "`licenses`, as its script says them");
        }
    }

    /// Jobs that it waits for, where they are made here as well.
    fn dependency(&self, one: &Thing, tenant: &str, job: &mut v1::Job, ledger: &mut Ledger) {
        let Some(spec) = &mut job.spec else { return };
        spec.after.clear();
        let Some((id, token)) = one.get("dependency") else { return };
        for part in token.value.split([',', '?']) {
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
            for job in words {
                let job = number(job.split('+').next().unwrap_or(job));
                match self.called.get(job).filter(|(of, _)| of == tenant) {
                    Some((_, name)) => {
                        spec.after.push(v1::Dependency { job: name.clone(), when: when.into() });
                        ledger.settle(id, Fate::Carried, format!("after {name}"));
                    }
                    None => ledger.settle(
                        id,
                        Fate::Lost,
                        format!("job {job} is not made in tenant {tenant}: nothing waits for it"),
                    ),
                }
            }
        }
    }
}
