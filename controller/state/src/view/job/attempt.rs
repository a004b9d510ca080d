//! What a node is desired to do for an attempt of a job.

use std::sync::Arc;

use proto_model::{Assignment, DesiredState, HiddenEnv, Observed, Phase};

use crate::{rows::job::JobEntry, tables::state::State};

impl State {
    /// What nodes that prepare an attempt are told of its environment. It is the same for the whole gang: where some of it changes before the
    /// ranks start, the attempt begins anew.
    pub fn hidden_env(&self, entry: &JobEntry) -> Arc<HiddenEnv> {
        let prepares = entry.attempt.as_ref().is_some_and(|attempt| attempt.ending.is_none())
            && entry.job.status.phase != Phase::Running;
        let env = prepares.then(|| self.env_of(&entry.job.id.tenant, &entry.job.spec.work));
        Arc::new(env.and_then(Result::ok).unwrap_or_default())
    }

    /// What a node is desired to do for a job. `None` if the node's part has ended.
    pub fn desired(&self, entry: &JobEntry, position: u32, env: &Arc<HiddenEnv>) -> Option<Assignment> {
        let attempt = entry.attempt.as_ref()?;
        let job = &entry.job;
        let view = self.base.views.get(&(job.uid, position));
        if view.is_some_and(|view| view.state == Observed::Ended) {
            return None;
        }
        let placement = || job.status.placement.clone().unwrap_or_default();
        let spec = || Arc::clone(&job.spec);
        let desired = match &attempt.ending {
            Some(ending) => {
                // It goes to the log of the job's ranks, which its own tenant reads.
                let tenant = &job.id.tenant;
                let causes: Vec<&str> = ending.causes.iter().map(|cause| cause.message_for(tenant)).collect();
                DesiredState::Stopped {
                    grace: ending.grace,
                    signal: ending.signal,
                    reason: causes.join("; "),
                }
            }
            None if job.status.phase == Phase::Running => DesiredState::Running {
                spec: spec(),
                placement: placement(),
                key: attempt.key,
                peers: attempt.peers.clone(),
                certify: self.measures(entry, position),
            },
            None => DesiredState::Prepared {
                spec: spec(),
                placement: placement(),
                key: attempt.key,
                env: Arc::clone(env),
            },
        };
        Some(Assignment {
            uid: job.uid,
            attempt: attempt.attempt,
            id: job.id.clone(),
            desired,
            trace_parent: job.status.trace_parent.clone(),
        })
    }
}
