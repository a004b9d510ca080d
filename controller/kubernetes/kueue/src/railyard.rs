//! The controller of Railyard, as far as it is asked.

use std::{sync::Arc, time::Duration};

use proto_rpc::{Client, ErrorClass, Jitter, MAX_FABRIC_BYTES, RetryPolicy, RpcError, retry};
use proto_wire::v1::{
    self, fabric_service_client::FabricServiceClient, job_service_client::JobServiceClient,
};
use thiserror::Error;
use tonic::{Response, Status, Streaming};

use crate::{decide::Plan, hold};

/// The largest answer that is taken, in bytes: a job has the rank map of its gang.
const ANSWER_MAX: usize = 64 << 20;
/// A controller that has not answered one call within this time is away.
const CALL: Duration = Duration::from_secs(10);
/// What a watch is for.
const WATCH: &str = "watch allocations";
/// A call is repeated so often and for so long; what fails then is tried again by whoever wanted it.
const REPEATS: RetryPolicy = RetryPolicy {
    attempts: 3,
    first: Duration::from_millis(100),
    longest: Duration::from_secs(1),
    within: Duration::from_secs(5),
};

/// Why a call came to nothing.
#[derive(Debug, Error)]
pub enum RailError {
    /// Nobody has said no.
    #[error("{doing}: no controller of Railyard answers: {source}")]
    Away {
        /// What was to be done.
        doing: &'static str,
        /// What was heard last.
        source: Box<RpcError>,
    },
    /// The controller refuses.
    #[error("{doing}: {source}")]
    Refused {
        /// What was to be done.
        doing: &'static str,
        /// What it says.
        source: Box<RpcError>,
    },
}

impl RailError {
    fn of(doing: &'static str, status: &Status) -> Self {
        let source = Box::new(RpcError::from_status(status));
        match source.class {
            ErrorClass::Unavailable | ErrorClass::Timeout | ErrorClass::Overloaded => {
                Self::Away { doing, source }
            }
            _ => Self::Refused { doing, source },
        }
    }

    /// Nobody has said no.
    #[must_use]
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Away { .. })
    }

    /// What the refusal of a plan or a submit says of the workload; none where it is not the workload that is refused.
    #[must_use]
    pub fn verdict(&self) -> Option<Plan> {
        let Self::Refused { source, .. } = self else { return None };
        let fields = source.violations.iter().map(|one| format!("; {}: {}", one.field, one.message));
        let causes = std::iter::once(source.message.clone()).chain(fields).collect();
        match source.class {
            // A tenant or a queue that is not there may be made.
            ErrorClass::Quota | ErrorClass::NotFound => Some(Plan::Waits { causes, start: None }),
            ErrorClass::Infeasible => Some(Plan::Infeasible { causes }),
            ErrorClass::Invalid | ErrorClass::TooLarge => Some(Plan::Invalid { causes }),
            // Whoever may change that need not be quick.
            ErrorClass::Denied | ErrorClass::Unauthenticated => Some(Plan::Refused { causes }),
            _ => None,
        }
    }

    fn has_class(&self, class: ErrorClass) -> bool {
        matches!(self, Self::Refused { source, .. } if source.class == class)
    }
}

/// Gives the connection to the controller, by the credentials that there are now: tokens end, and files are replaced while this runs.
pub type Connect = Arc<dyn Fn() -> Result<Client, RpcError> + Send + Sync>;

/// The controller.
#[derive(Clone)]
pub struct Railyard {
    connect: Connect,
}

impl Railyard {
    /// By connections of this kind, whose credentials say as whom.
    #[must_use]
    pub fn new(connect: Connect) -> Self {
        Self { connect }
    }

    fn client(&self, doing: &'static str) -> Result<Client, RailError> {
        // Credentials that cannot be read are nobody's refusal.
        (self.connect)().map_err(|error| RailError::Away { doing, source: Box::new(error) })
    }

    fn jobs(&self, doing: &'static str) -> Result<JobServiceClient<Client>, RailError> {
        let client = self.client(doing)?.with_timeout(CALL);
        Ok(JobServiceClient::new(client).max_decoding_message_size(ANSWER_MAX))
    }

    /// What would become of this job if it were submitted now.
    ///
    /// # Errors
    /// [`RailError`].
    pub async fn plan(&self, job: &v1::Job, tenant: &str) -> Result<Plan, RailError> {
        let request = v1::PlanJobRequest { job: Some(job.clone()), on_behalf_of: tenant.to_owned() };
        let doing = "plan a workload";
        let jobs = self.jobs(doing)?;
        let planned = repeat(doing, || {
            let (mut client, request) = (jobs.clone(), request.clone());
            async move { client.plan_job(request).await }
        })
        .await?;
        let causes = hold::causes(&planned.reasons);
        Ok(match planned {
            _ if planned.placement.is_some() => Plan::Fits,
            planned if planned.infeasible => Plan::Infeasible { causes },
            planned => {
                let start =
                    planned.eta.and_then(|eta| eta.start).and_then(|time| u64::try_from(time.seconds).ok());
                Plan::Waits { causes, start }
            }
        })
    }

    /// Submits a job under its own name as the request's id, so that it is one job however often that is done.
    ///
    /// # Errors
    /// [`RailError`].
    pub async fn create(&self, job: &v1::Job, tenant: &str) -> Result<v1::Job, RailError> {
        let name = job.metadata.as_ref().map(|metadata| metadata.name.clone()).unwrap_or_default();
        let request = v1::CreateJobRequest {
            job: Some(job.clone()),
            request_id: name.clone(),
            on_behalf_of: tenant.to_owned(),
            ..v1::CreateJobRequest::default()
        };
        let doing = "hold a workload's servers";
        let jobs = self.jobs(doing)?;
        let made = repeat(doing, || {
            let (mut client, request) = (jobs.clone(), request.clone());
            async move { client.create_job(request).await }
        })
        .await;
        match made {
            // It was made before, when the cluster had other nodes.
            Err(error)
                if error.has_class(ErrorClass::AlreadyExists) || error.has_class(ErrorClass::Conflict) =>
            {
                let request = v1::GetJobRequest { name, tenant: tenant.to_owned() };
                repeat("read an allocation", || {
                    let (mut client, request) = (jobs.clone(), request.clone());
                    async move { client.get_job(request).await }
                })
                .await
            }
            made => made,
        }
    }

    /// Ends an allocation. Gives it as it is then; none where it had ended before, or is not there.
    ///
    /// # Errors
    /// [`RailError`].
    pub async fn release(&self, name: &str, tenant: &str) -> Result<Option<v1::Job>, RailError> {
        let request = v1::CancelJobRequest {
            name: name.to_owned(),
            tenant: tenant.to_owned(),
            ..v1::CancelJobRequest::default()
        };
        let doing = "give back a workload's servers";
        let jobs = self.jobs(doing)?;
        let released = repeat(doing, || {
            let (mut client, request) = (jobs.clone(), request.clone());
            async move { client.cancel_job(request).await }
        })
        .await;
        match released {
            Ok(job) => Ok(Some(job)),
            Err(RailError::Refused { source, .. })
                if source.class == ErrorClass::NotFound || source.reason == "JOB_ENDED" =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// All jobs of a tenant (empty: all that may be seen), and every change of them from then on.
    ///
    /// # Errors
    /// [`RailError`].
    pub async fn watch(&self, tenant: &str) -> Result<Streaming<v1::JobEvent>, RailError> {
        let request = v1::WatchJobsRequest { tenant: tenant.to_owned(), ..v1::WatchJobsRequest::default() };
        let client = self.client(WATCH)?.without_timeout();
        let mut client = JobServiceClient::new(client).max_decoding_message_size(ANSWER_MAX);
        let opened = client.watch_jobs(request).await;
        opened.map(Response::into_inner).map_err(|status| RailError::of(WATCH, &status))
    }

    /// The next event of a watch; none at its end.
    ///
    /// # Errors
    /// [`RailError`] if it broke.
    pub async fn next(stream: &mut Streaming<v1::JobEvent>) -> Result<Option<v1::JobEvent>, RailError> {
        stream.message().await.map_err(|status| RailError::of(WATCH, &status))
    }

    /// The fabric, as it is cabled.
    ///
    /// # Errors
    /// [`RailError`].
    pub async fn fabric(&self) -> Result<v1::Topology, RailError> {
        let doing = "read the fabric";
        let fabrics =
            FabricServiceClient::new(self.client(doing)?).max_decoding_message_size(MAX_FABRIC_BYTES);
        repeat(doing, || {
            let mut client = fabrics.clone();
            async move { client.get_topology(v1::GetTopologyRequest {}).await }
        })
        .await
    }
}

async fn repeat<T, F, Fut>(doing: &'static str, mut call: F) -> Result<T, RailError>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Response<T>, Status>>,
{
    let done = retry(&REPEATS, &mut Jitter::from_os(), |_| call()).await;
    done.map(Response::into_inner).map_err(|status| RailError::of(doing, &status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_whether_the_workload_is_meant() {
        let of = |status: Status| RailError::of("plan", &status).verdict();
        let causes = |text: &str| text.to_owned();
        assert_eq!(of(Status::invalid_argument("spec")), Some(Plan::Invalid { causes: causes("spec") }));
        assert_eq!(
            of(Status::failed_precondition("no node has joined")),
            Some(Plan::Infeasible { causes: causes("no node has joined") })
        );
        for refused in [Status::permission_denied("no"), Status::unauthenticated("no")] {
            assert_eq!(of(refused), Some(Plan::Refused { causes: causes("no") }));
        }
        assert_eq!(of(Status::unavailable("away")), None);
        assert!(RailError::of("plan", &Status::unavailable("away")).is_away());
        assert!(!RailError::of("plan", &Status::internal("defect")).is_away());
    }
}
