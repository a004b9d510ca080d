//! Changing jobs: all that plans depend on while they wait, their time limit while they run, their labels always.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use controller_state::{
    CoreError, JobEntry, Key,
    view::{
        job::check::check_spec,
        tenant::classes::{set_priority, within_limits},
    },
};
use proto_model::{Authority, Job, JobSpec, JobUid, Phase, Role, label::MAX_LABELS};

use crate::{
    context::Step,
    event::{
        Reply,
        orders::{JobChange, JobOrder, JobUpdate},
    },
};

type Labels = BTreeMap<String, String>;

/// What became of one job.
enum Updated {
    /// It is as it was asked for.
    Done,
    /// It does not wait, or has ended.
    Passed,
}

impl Step<'_> {
    /// Changes the jobs that a name means, all or none. A single job for which the change comes too late is refused; such elements
    /// are left out.
    pub(crate) fn update_job(&mut self, update: &JobUpdate) -> Result<Reply, CoreError> {
        let JobUpdate { order, change, if_version } = update;
        if change.is_empty() {
            let message = "give a priority, a time limit, a queue, a number of nodes, or labels".to_owned();
            return Err(CoreError::Invalid { field: "priority", message });
        }
        if let Some(reply) = self.repeated_order(order)? {
            return Ok(reply);
        }
        let uids = self.state.changeable(&order.id, &order.indices, Some(&order.by))?;
        self.is_version(order, &uids, *if_version)?;
        let (mut first, mut checked) = (None, None);
        for uid in &uids {
            if matches!(self.update_one(*uid, order, change, &mut checked)?, Updated::Done) {
                first = first.or(Some(*uid));
            }
        }
        let Some(first) = first else { return Err(self.not_waiting(order, &uids)) };
        // Who was behind may be ahead now.
        self.request_scheduling_pass();
        self.reply_to(order, first)
    }

    fn update_one(
        &mut self,
        uid: JobUid,
        order: &JobOrder,
        change: &JobChange,
        checked: &mut Option<JobSpec>,
    ) -> Result<Updated, CoreError> {
        let Some(entry) = self.entry(uid) else { return Ok(Updated::Passed) };
        let phase = entry.job.status.phase;
        let labels = self.relabelled(&entry.job, change)?;
        if change.only_labels() {
            self.respecify(entry, None, labels);
            return Ok(Updated::Done);
        }
        if phase == Phase::Pending {
            let spec = changed(&entry.job.spec, change);
            self.check_class(&entry.job, &order.by, &spec)?;
            self.check_changed(&entry.job, &spec, &labels, checked)?;
            self.respecify(entry, Some(spec), labels);
            return Ok(Updated::Done);
        }
        if phase.is_terminal() || !change.only_time_limit() {
            return Ok(Updated::Passed);
        }
        let limit = change.time_limit.flatten();
        self.check_limit(&entry, order.by.role, limit)?;
        let spec = changed(&entry.job.spec, change);
        spec.check().map_err(|flaw| CoreError::Contradiction { flaw })?;
        self.respecify(entry, Some(spec), labels);
        Ok(Updated::Done)
    }

    /// The job's labels after the change: not too many, and with room for them in the tenant's quota.
    fn relabelled(&self, job: &Job, change: &JobChange) -> Result<Labels, CoreError> {
        let labels = change.labels_of(&job.labels);
        if labels.len() > MAX_LABELS.max(job.labels.len()) {
            let message =
                format!("the job would have {} labels; at most {MAX_LABELS} are allowed", labels.len());
            return Err(CoreError::Invalid { field: "setLabels", message });
        }
        let (before, after) = (job.footprint(), job.spec.footprint(&labels));
        let quota = self.tenant_quota(&job.id.tenant)?;
        self.state.has_bytes(&job.id.tenant, quota, after.saturating_sub(before))?;
        Ok(labels)
    }

    /// What the job's class, or without one the role of who asks, says of what is changed.
    fn check_class(&self, job: &Job, by: &Authority, spec: &JobSpec) -> Result<(), CoreError> {
        if by.role == Role::Admin {
            return Ok(());
        }
        let name = spec.service_class.as_ref();
        let class = name.and_then(|name| self.state.service_class(name)).map(Arc::as_ref);
        if spec.priority != job.spec.priority {
            self.state.check_priority(by, class, spec.priority)?;
        }
        if let Some(class) = class {
            within_limits(class, spec, Some(&job.spec))?;
        }
        if let Some(owner) = job.status.submitter.as_ref().filter(|_| spec.queue != job.spec.queue) {
            self.state.class_of(&job.id.tenant, owner, spec)?;
        }
        Ok(())
    }

    /// What a submit of the changed job would be checked for. `checked`: what was found right already, for elements that are alike.
    fn check_changed(
        &self,
        job: &Job,
        spec: &JobSpec,
        labels: &Labels,
        checked: &mut Option<JobSpec>,
    ) -> Result<(), CoreError> {
        let alike = JobSpec { array: None, ..spec.clone() };
        if checked.as_ref() != Some(&alike) {
            check_spec(spec, &self.state.config)?;
            self.state.check_documents(&job.id.tenant, spec, self.now)?;
            if spec.gang != job.spec.gang {
                self.state.feasible(&job.id, spec, self.now)?;
            }
            *checked = Some(alike);
        }
        let (before, after) = (job.footprint(), spec.footprint(labels));
        let quota = self.tenant_quota(&job.id.tenant)?;
        self.state.has_bytes(&job.id.tenant, quota, after.saturating_sub(before))
    }

    /// Users shorten the limit of what runs, since others wait by it; administrators set it as they like.
    fn check_limit(&self, entry: &JobEntry, role: Role, limit: Option<Duration>) -> Result<(), CoreError> {
        let job = &entry.job;
        let longer = match (job.spec.time_limit, limit) {
            (_, Some(new)) if job.spec.time_limit.is_none_or(|old| new <= old) => false,
            (old, new) => old != new,
        };
        if longer && role != Role::Admin {
            return Err(CoreError::LimitExtended { id: job.id.clone() });
        }
        let ran = job.status.started.filter(|_| job.status.phase == Phase::Running);
        let ran = ran.map_or(Duration::ZERO, |started| self.now.since(started));
        match limit {
            Some(limit) if limit < ran && Some(limit) != job.spec.time_limit => {
                let message = format!(
                    "the job has run for {} s already, so {} s would end it at once; cancel it instead",
                    ran.as_secs(),
                    limit.as_secs()
                );
                Err(CoreError::Invalid { field: "timeLimit", message })
            }
            _ => Ok(()),
        }
    }

    /// Gives a job another spec, and labels; labels alone are no new generation.
    fn respecify(&mut self, mut entry: JobEntry, spec: Option<JobSpec>, labels: Labels) {
        let spec = spec.filter(|spec| *spec != *entry.job.spec);
        if spec.is_none() && labels == entry.job.labels {
            return;
        }
        let job = Arc::make_mut(&mut entry.job);
        job.labels = labels;
        if let Some(spec) = spec {
            (job.spec, job.generation) = (Arc::new(spec), job.generation + 1);
        }
        let ending = entry.attempt.as_ref().is_some_and(|attempt| attempt.ending.is_some());
        if let (Phase::Running, Some(started), false) = (job.status.phase, job.status.started, ending) {
            entry.due = job.spec.ends_at(started);
        }
        self.state.set_job(entry.job.uid, Some(entry));
    }
}

/// The spec with what is changed in it.
fn changed(old: &JobSpec, change: &JobChange) -> JobSpec {
    let mut spec = old.clone();
    if let Some(priority) = change.priority {
        set_priority(&mut spec, priority);
    }
    if let Some(limit) = change.time_limit {
        // It does not run longer than it may.
        spec.expected = spec.expected.map(|expected| limit.map_or(expected, |limit| expected.min(limit)));
        spec.time_limit = limit;
    }
    if let Some(queue) = &change.queue {
        spec.queue.clone_from(queue);
    }
    if let Some(nodes) = change.nodes {
        (spec.gang.nodes, spec.gang.min_nodes) = (nodes, nodes);
    }
    spec.gang.min_nodes = change.min_nodes.unwrap_or(spec.gang.min_nodes);
    spec
}

impl Step<'_> {
    /// Whether the job is the one that the caller has read.
    fn is_version(&self, order: &JobOrder, uids: &[JobUid], asked: u64) -> Result<(), CoreError> {
        if asked == 0 {
            return Ok(());
        }
        let [uid] = uids else {
            let message = "several jobs are meant, and each has a version of its own; name one".to_owned();
            return Err(CoreError::Invalid { field: "ifVersion", message });
        };
        let id = self.state.base.jobs.get(uid).map_or(&order.id, |entry| &entry.job.id);
        let current = self.state.version(&Key::Job(id.clone())).unwrap_or(0);
        if asked == current {
            return Ok(());
        }
        Err(CoreError::Conflict { what: format!("job '{id}'"), asked, current })
    }
}
