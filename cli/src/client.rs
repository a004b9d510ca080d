//! The way to the controller: one connection, typed clients, deadlines, and retries where they are safe.

use std::time::Duration;

use proto_rpc::{Client, ClientOptions, Jitter, RetryPolicy, retry};
use proto_wire::v1::{
    self, audit_service_client::AuditServiceClient, config_service_client::ConfigServiceClient,
    deleted_service_client::DeletedServiceClient, document_service_client::DocumentServiceClient,
    fabric_service_client::FabricServiceClient, health_service_client::HealthServiceClient,
    job_service_client::JobServiceClient, license_service_client::LicenseServiceClient,
    node_service_client::NodeServiceClient, qos_service_client::QosServiceClient,
    queue_service_client::QueueServiceClient, rail_service_client::RailServiceClient,
    reservation_service_client::ReservationServiceClient, schedule_service_client::ScheduleServiceClient,
    secret_service_client::SecretServiceClient, service_class_service_client::ServiceClassServiceClient,
    step_service_client::StepServiceClient, switch_service_client::SwitchServiceClient,
    tenant_service_client::TenantServiceClient, usage_service_client::UsageServiceClient,
    webhook_service_client::WebhookServiceClient,
};
use tonic::{Response, Status};

use crate::{config::Settings, error::Error};

/// A connection to the controller, made with the first call.
#[derive(Debug, Clone)]
pub struct Api {
    client: Client,
    /// The tenant to act for; empty for the caller's own (or all, for an administrator).
    pub tenant: String,
}

/// The largest answer that is taken, in bytes. Requests are small; an answer may hold the rank maps of many large gangs.
const MAX_ANSWER: usize = 64 << 20;
/// Pages are asked for in this size; the server may give smaller ones.
pub const PAGE: u32 = 200;
/// Usage records are small and many: larger pages.
const RECORDS: u32 = 1000;
/// No list of ours is longer than this many pages; a server that never ends one is wrong.
const MAX_PAGES: usize = 100_000;

macro_rules! clients {
    ($($name:ident: $type:ident),*) => {$(
        /// A typed client on this connection.
        #[must_use]
        pub fn $name(&self) -> $type<Client> {
            $type::new(self.client.clone()).max_decoding_message_size(MAX_ANSWER)
        }
    )*};
}

impl Api {
    /// Reads the credentials; does not connect yet. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Config`] if no controller is known, or an address or a credential cannot be used.
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        let endpoints = settings.endpoints()?;
        let credentials = settings.credentials()?;
        let mut options = ClientOptions::default();
        if let Some(limit) = settings.request_timeout {
            options.timeout = Some(limit);
            options.connect_timeout = options.connect_timeout.min(limit);
        }
        let client = Client::new(&endpoints, &credentials, &options)
            .map_err(|error| Error::Config(error.to_string()))?;
        Ok(Self { client, tenant: settings.tenant.clone() })
    }

    clients!(
        audit: AuditServiceClient,
        deleted: DeletedServiceClient,
        documents: DocumentServiceClient,
        fabrics: FabricServiceClient,
        health: HealthServiceClient,
        jobs: JobServiceClient,
        nodes: NodeServiceClient,
        queues: QueueServiceClient,
        qos: QosServiceClient,
        rails: RailServiceClient,
        reservations: ReservationServiceClient,
        schedules: ScheduleServiceClient,
        service_classes: ServiceClassServiceClient,
        steps: StepServiceClient,
        licenses: LicenseServiceClient,
        switches: SwitchServiceClient,
        tenants: TenantServiceClient,
        usage: UsageServiceClient,
        webhooks: WebhookServiceClient,
        secrets: SecretServiceClient,
        configs: ConfigServiceClient
    );

    /// The same connection, without a limit on how long a stream lives.
    #[must_use]
    pub fn streaming(&self) -> Self {
        Self { client: self.client.without_timeout(), tenant: self.tenant.clone() }
    }

    /// The same connection, acting for a tenant.
    #[must_use]
    pub fn of_tenant(&self, tenant: &str) -> Self {
        Self { client: self.client.clone(), tenant: tenant.to_owned() }
    }

    /// The same connection with a limit of its own on every call.
    #[must_use]
    pub fn within(&self, limit: Duration) -> Self {
        Self { client: self.client.with_timeout(limit), tenant: self.tenant.clone() }
    }

    /// TENANT/JOB, or JOB of the tenant that is set; also with `job/` or `array/` before it, as names are printed.
    #[must_use]
    pub fn job_ref(&self, text: &str) -> JobRef {
        let bare = text.strip_prefix("job/").or_else(|| text.strip_prefix("array/"));
        let text = bare.filter(|bare| !bare.is_empty()).unwrap_or(text);
        match text.split_once('/') {
            Some((tenant, name)) => JobRef { tenant: tenant.to_owned(), name: name.to_owned() },
            None => JobRef { tenant: self.tenant.clone(), name: text.to_owned() },
        }
    }

    /// Asks for one job as it is now.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the controller refuses or does not answer; a job that is not there is such a refusal.
    pub async fn get_job(&self, job: &JobRef) -> Result<v1::Job, Error> {
        let request = v1::GetJobRequest { name: job.name.clone(), tenant: job.tenant.clone() };
        repeat(format!("get job `{job}`"), |_| {
            let (mut client, request) = (self.jobs(), request.clone());
            async move { client.get_job(request).await }
        })
        .await
    }

    /// Lists all jobs of a tenant, page by page; `phases` empty: in any phase. An empty tenant: of all tenants.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the controller refuses or does not answer.
    pub async fn list_jobs(&self, tenant: &str, phases: &[i32]) -> Result<v1::ListJobsResponse, Error> {
        self.pages_of_jobs(v1::ListJobsRequest {
            tenant: tenant.to_owned(),
            phases: phases.to_vec(),
            ..v1::ListJobsRequest::default()
        })
        .await
    }

    /// The elements of an array.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the controller refuses or does not answer.
    pub async fn list_elements(&self, array: &JobRef) -> Result<v1::ListJobsResponse, Error> {
        self.pages_of_jobs(v1::ListJobsRequest {
            tenant: array.tenant.clone(),
            array: array.name.clone(),
            ..v1::ListJobsRequest::default()
        })
        .await
    }

    async fn pages_of_jobs(&self, request: v1::ListJobsRequest) -> Result<v1::ListJobsResponse, Error> {
        pages("list jobs", |page_token| {
            let request = v1::ListJobsRequest { page_size: PAGE, page_token, ..request.clone() };
            let mut client = self.jobs();
            async move { client.list_jobs(request).await }
        })
        .await
    }

    /// All queues of a tenant.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the controller refuses or does not answer.
    pub async fn list_queues(&self, tenant: &str) -> Result<v1::ListQueuesResponse, Error> {
        pages("list queues", |page_token| {
            let request = v1::ListQueuesRequest { tenant: tenant.to_owned(), page_size: PAGE, page_token };
            let mut client = self.queues();
            async move { client.list_queues(request).await }
        })
        .await
    }

    /// Lists all reservations of the cluster, page by page.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the controller refuses or does not answer.
    pub async fn list_reservations(&self) -> Result<v1::ListReservationsResponse, Error> {
        pages("list reservations", |page_token| {
            let mut client = self.reservations();
            let request = v1::ListReservationsRequest { page_size: PAGE, page_token };
            async move { client.list_reservations(request).await }
        })
        .await
    }

    /// All schedules of a tenant.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the controller refuses or does not answer.
    pub async fn list_schedules(&self, tenant: &str) -> Result<v1::ListSchedulesResponse, Error> {
        pages("list schedules", |page_token| {
            let request = v1::ListSchedulesRequest { tenant: tenant.to_owned(), page_size: PAGE, page_token };
            let mut client = self.schedules();
            async move { client.list_schedules(request).await }
        })
        .await
    }

    /// All webhooks of a tenant.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the controller refuses or does not answer.
    pub async fn list_webhooks(&self, tenant: &str) -> Result<v1::ListWebhooksResponse, Error> {
        pages("list webhooks", |page_token| {
            let request = v1::ListWebhooksRequest { tenant: tenant.to_owned(), page_size: PAGE, page_token };
            let mut client = self.webhooks();
            async move { client.list_webhooks(request).await }
        })
        .await
    }

    /// All secrets of a tenant.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the controller refuses or does not answer.
    pub async fn list_secrets(&self, tenant: &str) -> Result<v1::ListSecretsResponse, Error> {
        pages("list secrets", |page_token| {
            let request = v1::ListSecretsRequest { tenant: tenant.to_owned(), page_size: PAGE, page_token };
            let mut client = self.secrets();
            async move { client.list_secrets(request).await }
        })
        .await
    }

    /// All configs of a tenant.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the controller refuses or does not answer.
    pub async fn list_configs(&self, tenant: &str) -> Result<v1::ListConfigsResponse, Error> {
        pages("list configs", |page_token| {
            let request = v1::ListConfigsRequest { tenant: tenant.to_owned(), page_size: PAGE, page_token };
            let mut client = self.configs();
            async move { client.list_configs(request).await }
        })
        .await
    }

    /// Lists all service classes of the cluster, page by page.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the controller refuses or does not answer.
    pub async fn list_service_classes(&self) -> Result<v1::ListServiceClassesResponse, Error> {
        pages("list service classes", |page_token| {
            let mut client = self.service_classes();
            let request = v1::ListServiceClassesRequest { page_size: PAGE, page_token };
            async move { client.list_service_classes(request).await }
        })
        .await
    }

    /// Lists all licenses of the cluster, page by page.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the controller refuses or does not answer.
    pub async fn list_licenses(&self) -> Result<v1::ListLicensesResponse, Error> {
        pages("list licenses", |page_token| {
            let mut client = self.licenses();
            async move { client.list_licenses(v1::ListLicensesRequest { page_size: PAGE, page_token }).await }
        })
        .await
    }

    /// Lists all switches that the cluster knows, page by page.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the controller refuses or does not answer.
    pub async fn list_switches(&self) -> Result<v1::ListSwitchesResponse, Error> {
        pages("list switches", |page_token| {
            let mut client = self.switches();
            async move { client.list_switches(v1::ListSwitchesRequest { page_size: PAGE, page_token }).await }
        })
        .await
    }

    /// Lists all nodes of the cluster, page by page.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the controller refuses or does not answer.
    pub async fn list_nodes(&self) -> Result<v1::ListNodesResponse, Error> {
        pages("list nodes", |page_token| {
            let mut client = self.nodes();
            async move { client.list_nodes(v1::ListNodesRequest { page_size: PAGE, page_token }).await }
        })
        .await
    }

    /// What all servers use now.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the controller refuses or does not answer.
    pub async fn list_node_usage(&self) -> Result<v1::ListNodeUsageResponse, Error> {
        pages("ask what servers use", |page_token| {
            let mut client = self.nodes();
            let request = v1::ListNodeUsageRequest { page_size: PAGE, page_token };
            async move { client.list_node_usage(request).await }
        })
        .await
    }

    /// What running jobs use now.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the controller refuses or does not answer.
    pub async fn list_job_usage(&self, tenant: &str) -> Result<v1::ListJobUsageResponse, Error> {
        pages("ask what jobs use", |page_token| {
            let mut client = self.jobs();
            let request = v1::ListJobUsageRequest { tenant: tenant.to_owned(), page_size: PAGE, page_token };
            async move { client.list_job_usage(request).await }
        })
        .await
    }

    /// Lists what attempts of jobs held, page by page, up to a number of them.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the controller refuses or does not answer.
    pub async fn list_usage_records(
        &self,
        request: v1::ListUsageRecordsRequest,
        most: usize,
    ) -> Result<v1::ListUsageRecordsResponse, Error> {
        let mut all = v1::ListUsageRecordsResponse::default();
        for _ in 0..MAX_PAGES {
            let page_size = u32::try_from(most - all.records.len()).unwrap_or(RECORDS).min(RECORDS);
            let page_token = std::mem::take(&mut all.next_page_token);
            let asked = v1::ListUsageRecordsRequest { page_size, page_token, ..request.clone() };
            let page = repeat("list what was used", |_| {
                let (mut client, asked) = (self.usage(), asked.clone());
                async move { client.list_usage_records(asked).await }
            });
            let page = page.await?;
            all.records.extend(page.records);
            (all.next_page_token, all.as_of) = (page.next_page_token, page.as_of);
            if all.next_page_token.is_empty() || all.records.len() >= most {
                break;
            }
        }
        Ok(all)
    }

    /// Lists all tenants of the cluster, page by page.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the controller refuses or does not answer.
    pub async fn list_tenants(&self) -> Result<v1::ListTenantsResponse, Error> {
        pages("list tenants", |page_token| {
            let mut client = self.tenants();
            async move { client.list_tenants(v1::ListTenantsRequest { page_size: PAGE, page_token }).await }
        })
        .await
    }
}

/// One page of a list.
trait Page: Default {
    /// Whence the next one is asked for; empty behind the last.
    fn token(&mut self) -> &mut String;

    /// Takes over the rows of the page behind it, and where that ended.
    fn append(&mut self, next: Self);
}

macro_rules! page {
    ($($type:ident: $rows:ident $($revision:ident)?),*) => {$(
        impl Page for v1::$type {
            fn token(&mut self) -> &mut String {
                &mut self.next_page_token
            }

            fn append(&mut self, next: Self) {
                // Not twice as much as there is: rows are large.
                self.$rows.reserve_exact(next.$rows.len());
                self.$rows.extend(next.$rows);
                self.next_page_token = next.next_page_token;
                $(self.$revision = next.$revision;)?
            }
        }
    )*};
}

page!(
    ListJobsResponse: jobs revision,
    ListQueuesResponse: queues revision,
    ListReservationsResponse: reservations revision,
    ListSchedulesResponse: schedules revision,
    ListWebhooksResponse: webhooks revision,
    ListSecretsResponse: secrets revision,
    ListConfigsResponse: configs revision,
    ListServiceClassesResponse: service_classes revision,
    ListLicensesResponse: licenses revision,
    ListSwitchesResponse: switches revision,
    ListNodesResponse: nodes revision,
    ListTenantsResponse: tenants revision,
    ListNodeUsageResponse: nodes,
    ListJobUsageResponse: jobs
);

/// A whole list, page by page; `ask` asks for the page at a token.
async fn pages<P, F, Fut>(doing: &str, ask: F) -> Result<P, Error>
where
    P: Page,
    F: Fn(String) -> Fut,
    Fut: Future<Output = Result<Response<P>, Status>>,
{
    let mut all = P::default();
    for _ in 0..MAX_PAGES {
        let token = std::mem::take(all.token());
        all.append(repeat(doing, |_| ask(token.clone())).await?);
        if all.token().is_empty() {
            break;
        }
    }
    Ok(all)
}

/// `sweep[3,7-9]` is the array and the elements that are meant; without brackets all of it.
///
/// # Errors
/// [`Error::Usage`] if the brackets are empty or not closed.
pub fn elements(text: &str) -> Result<(&str, String), Error> {
    let wrong = || Error::Usage(format!("`{text}` is not a job: write NAME, or NAME[3,7-9] for elements"));
    match text.split_once('[') {
        None => Ok((text, String::new())),
        Some((name, list)) => {
            let list = list.strip_suffix(']').filter(|list| !list.is_empty()).ok_or_else(wrong)?;
            Ok((name, list.to_owned()))
        }
    }
}

/// Calls until an answer comes that trying again would not change; bounded. Only for calls that may be repeated.
pub async fn repeat<T, F, Fut>(doing: impl Into<String>, call: F) -> Result<T, Error>
where
    F: FnMut(u32) -> Fut,
    Fut: Future<Output = Result<Response<T>, Status>>,
{
    match retry(&RetryPolicy::default(), &mut Jitter::from_os(), call).await {
        Ok(response) => Ok(response.into_inner()),
        Err(status) => Err(Error::rpc(doing, &status)),
    }
}

/// Makes a call once, without trying again: for calls that must not be repeated.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn once<T>(
    doing: impl Into<String>,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Error> {
    call.await.map(Response::into_inner).map_err(|status| Error::rpc(doing, &status))
}

/// A job as users name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobRef {
    /// Name of the tenant; empty for the caller's own.
    pub tenant: String,
    /// Name of the job within the tenant.
    pub name: String,
}

impl JobRef {
    /// The name of a job that the server gave.
    #[must_use]
    pub fn of(job: &v1::Job) -> Self {
        let metadata = job.metadata.clone().unwrap_or_default();
        Self { tenant: metadata.tenant, name: metadata.name }
    }
}

impl std::fmt::Display for JobRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.tenant.as_str() {
            "" => f.write_str(&self.name),
            tenant => write!(f, "{tenant}/{}", self.name),
        }
    }
}
