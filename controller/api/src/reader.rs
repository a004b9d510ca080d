//! Who reads an answer, and what of it is for them.

use controller_leader::codec;
use controller_store::KeyValue;
use proto_model::{Authority, TenantName};
use proto_rpc::RpcError;
use proto_wire::v1::{self, job_spec::Work};

use crate::{changes, fault, guard::Caller, views};

/// What a reader sees of a thing: readers with equal views see the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct View {
    only: Option<TenantName>,
    whole: bool,
}

/// Somebody who reads an answer, with what of it they may see.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    only: Option<TenantName>,
    by: Option<Authority>,
}

impl Reader {
    /// Whoever calls.
    ///
    /// # Errors
    /// The caller's tenant has no name that could be one.
    pub(crate) fn of(caller: &Caller) -> Result<Self, RpcError> {
        Ok(Self { only: caller.own_tenant()?, by: changes::authority(caller).ok() })
    }

    /// Somebody of a tenant who changes nothing.
    pub(crate) fn of_tenant(tenant: TenantName) -> Self {
        Self { only: Some(tenant), by: None }
    }

    /// The tenant that they are of; none for administrators.
    pub(crate) fn tenant(&self) -> Option<&TenantName> {
        self.only.as_ref()
    }

    /// What they see of a job that belongs to somebody.
    pub(crate) fn view(&self, owner: Option<&v1::Submitter>) -> View {
        View { only: self.only.clone(), whole: self.may_change(owner) }
    }

    /// What they see of what belongs to nobody.
    pub(crate) fn view_without_owner(&self) -> View {
        View { only: self.only.clone(), whole: false }
    }

    /// Whether they may change what belongs to somebody: then they see all of it.
    fn may_change(&self, owner: Option<&v1::Submitter>) -> bool {
        let owner = owner.and_then(|owner| Authority::try_from(owner.clone()).ok());
        self.by.as_ref().is_some_and(|by| by.may_change(owner.as_ref()))
    }

    /// A job as they may see it: others' jobs are named in words of their tenant, and what its environment holds, which may be
    /// secrets, only whoever may change the job.
    pub(crate) fn report_job(&self, job: &mut v1::Job) {
        views::report_job(job, self.tenant());
        let owner = job.status.as_ref().and_then(|status| status.submitter.as_ref());
        if !self.may_change(owner)
            && let Some(spec) = job.spec.as_mut()
        {
            hide(spec);
        }
    }

    /// The same for the jobs that a schedule makes.
    pub(crate) fn report_schedule(&self, schedule: &mut v1::Schedule) {
        let reason = schedule.status.as_mut().and_then(|status| status.last_left_out.as_mut());
        reason.into_iter().for_each(|reason| views::report(reason, self.tenant()));
        let owner = schedule.status.as_ref().and_then(|status| status.owner.as_ref());
        let template = schedule.spec.as_mut().and_then(|spec| spec.job_template.as_mut());
        if !self.may_change(owner)
            && let Some(spec) = template.and_then(|template| template.spec.as_mut())
        {
            hide(spec);
        }
    }
}

/// Names stay, values go; and that they did is said, so that nobody submits what is left for the whole.
fn hide(spec: &mut v1::JobSpec) {
    let (env, hidden) = match spec.work.as_mut() {
        Some(Work::Command(command)) => (&mut command.env, &mut command.env_hidden),
        Some(Work::Allocation(held)) => (&mut held.env, &mut held.env_hidden),
        Some(Work::Collective(_)) | None => return,
    };
    if !env.is_empty() {
        env.values_mut().for_each(String::clear);
        *hidden = true;
    }
}

/// A stored job as the API shows it to somebody.
pub(crate) fn stored_job(kv: &KeyValue, reader: &Reader) -> Result<v1::Job, RpcError> {
    let mut job = v1::Job::from(&codec::job(kv).map_err(|error| fault::refused(&error.into()))?);
    job.metadata.get_or_insert_default().resource_version = kv.mod_revision;
    reader.report_job(&mut job);
    Ok(job)
}

/// A stored node as the API shows it to a tenant, or to an administrator.
pub(crate) fn stored_node(kv: &KeyValue, only: Option<&TenantName>) -> Result<v1::Node, RpcError> {
    let mut node = v1::Node::from(&codec::node(kv).map_err(|error| fault::refused(&error.into()))?);
    node.metadata.get_or_insert_default().resource_version = kv.mod_revision;
    views::report_node(&mut node, only);
    Ok(node)
}
