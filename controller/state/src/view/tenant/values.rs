//! Secrets and configs, and a job's environment made of those that it refers to.

use std::{ops::Bound, sync::Arc};

use proto_model::{
    Authority, EnvSource, HiddenEnv, JobId, JobUid, Role, TenantName, Value, Values, ValuesId, ValuesKind,
    ValuesName, Work, values::is_variable,
};

use crate::{
    error::{
        nearest::nearest,
        refusal::CoreError,
        values::{EnvFlaw, ValuesError},
    },
    tables::state::State,
};

/// The field of a job that a source is.
fn field(work: &Work, at: usize, source: &EnvSource, below: &str) -> String {
    let work = match work {
        Work::Allocation(_) => "allocation",
        Work::Command(_) | Work::Collective(_) => "command",
    };
    format!("spec.{work}.envFrom[{at}].{}.{below}", source.kind.reference())
}

impl State {
    /// The one of a tenant that is called nearly so.
    pub fn nearest_values(&self, id: &ValuesId) -> Option<ValuesName> {
        let same = |kind: ValuesKind| self.values_of(&id.tenant).filter(move |one| one.id.kind == kind);
        let names: Vec<&ValuesName> = same(id.kind).map(|one| &one.id.name).collect();
        nearest(id.name.as_str(), names.into_iter())
    }

    /// Whether the environment of a job can be made.
    ///
    /// # Errors
    /// [`ValuesError`] with the first source that gives nothing.
    pub fn check_env(&self, tenant: &TenantName, work: &Work) -> Result<(), ValuesError> {
        self.env_of(tenant, work).map(drop)
    }

    /// The same for whoever asks what would become of a job: viewers learn nothing of keys.
    ///
    /// # Errors
    /// The same as of [`State::check_env`].
    pub fn check_env_for(&self, by: &Authority, tenant: &TenantName, work: &Work) -> Result<(), ValuesError> {
        let checked = self.check_env(tenant, work);
        checked
            .or_else(|error| if by.role == Role::Viewer && error.is_of_keys() { Ok(()) } else { Err(error) })
    }

    /// What of a job's environment secrets and configs hold; later sources win.
    ///
    /// # Errors
    /// [`ValuesError`] with the first source that gives nothing.
    pub fn env_of(&self, tenant: &TenantName, work: &Work) -> Result<HiddenEnv, ValuesError> {
        let mut env = HiddenEnv::new();
        for (at, source) in work.env_from().iter().enumerate() {
            self.add_source(tenant, source, &mut env).map_err(|flaw| {
                let below = if matches!(flaw, EnvFlaw::NoKey { .. }) { "key" } else { "name" };
                ValuesError::EnvSource { field: field(work, at, source, below), flaw }
            })?;
        }
        Ok(env)
    }

    fn add_source(
        &self,
        tenant: &TenantName,
        source: &EnvSource,
        env: &mut HiddenEnv,
    ) -> Result<(), EnvFlaw> {
        let id = ValuesId { tenant: tenant.clone(), kind: source.kind, name: source.object.clone() };
        let Some(values) = self.values(&id) else {
            let nearest = self.nearest_values(&id);
            return Err(EnvFlaw::NoObject { id, nearest });
        };
        let mut take = |name: &str, value: &Value| env.insert(name.to_owned(), value.text.clone());
        if source.key.is_empty() {
            for (key, value) in &values.data {
                if !is_variable(key) {
                    return Err(EnvFlaw::NoVariable { id, key: key.clone() });
                }
                take(key, value);
            }
        } else {
            let key = &source.key;
            let Some(value) = values.data.get(key) else {
                let nearest = nearest(key, values.data.keys());
                return Err(EnvFlaw::NoKey { id, key: key.clone(), nearest });
            };
            take(if source.variable.is_empty() { key } else { &source.variable }, value);
        }
        let bytes = env.iter().map(|(name, value)| name.len() + value.expose().len()).sum();
        if bytes > Values::MAX_ENV { Err(EnvFlaw::TooLarge { bytes }) } else { Ok(()) }
    }
}

impl State {
    /// Some values.
    #[must_use]
    pub fn values(&self, id: &ValuesId) -> Option<&Arc<Values>> {
        self.base.values.get(id)
    }

    /// All of a tenant, secrets first, in name order.
    pub fn values_of<'a>(&'a self, tenant: &'a TenantName) -> impl Iterator<Item = &'a Arc<Values>> {
        // Every name is behind "0", the first that there can be.
        let first = ValuesName::new("0").ok();
        let first = first.map(|name| ValuesId { tenant: tenant.clone(), kind: ValuesKind::Secret, name });
        let all = first.into_iter().flat_map(|first| self.base.values.range(first..));
        all.take_while(move |(id, _)| id.tenant == *tenant).map(|(_, values)| values)
    }
}

impl State {
    /// That there is no such secret or config, with the name that may have been meant.
    #[must_use]
    pub fn values_missing(&self, id: &ValuesId) -> CoreError {
        ValuesError::NotFound { id: id.clone(), nearest: self.nearest_values(id) }.into()
    }

    /// Jobs that have not ended and refer to a secret or config.
    pub fn referring(&self, id: &ValuesId) -> Vec<JobUid> {
        let from = proto_model::JobName::new("0").ok().map(|name| JobId { tenant: id.tenant.clone(), name });
        let all = from
            .into_iter()
            .flat_map(|from| self.index.names.range((Bound::Included(from), Bound::Unbounded)));
        let own = all.take_while(|(job, _)| job.tenant == id.tenant).map(|(_, uid)| *uid);
        let refers = |uid: &JobUid| {
            self.base.jobs.get(uid).is_some_and(|entry| {
                let sources = entry.job.spec.work.env_from();
                !entry.job.status.phase.is_terminal()
                    && sources.iter().any(|source| source.kind == id.kind && source.object == id.name)
            })
        };
        own.filter(refers).collect()
    }
}
