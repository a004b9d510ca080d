//! Who may call what: one table, RPC x role. Whatever it does not name is denied.

use std::{collections::BTreeSet, fmt};

use proto_rpc::{ErrorClass, Identity, Role, RpcError};

/// Who may call an RPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anybody who reaches the port: the caller has no identity yet, or the answer says nothing.
    Anybody,
    /// The cluster's own controllers, and nobody else. Answered before the table is asked, since also one that does not lead
    /// answers.
    Controllers,
    /// Callers with one of these roles.
    Roles(&'static [Role]),
}

const ADMIN: &[Role] = &[Role::Admin];
const MANAGERS: &[Role] = &[Role::Admin, Role::TenantAdmin];
const SUBMITTERS: &[Role] = &[Role::Admin, Role::TenantAdmin, Role::User];
const PEOPLE: &[Role] = &[Role::Admin, Role::TenantAdmin, Role::User, Role::Viewer];
const NODE: &[Role] = &[Role::Node];
const SWITCH: &[Role] = &[Role::Switch];

macro_rules! rpcs {
    ($($variant:ident = $path:literal),+ $(,)?) => {
        /// Every RPC of the controller's port; a test compares this list with the descriptors.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "each variant is documented at its rpc in proto/rail/v1")]
        pub enum Rpc { $($variant),+ }

        impl Rpc {
            /// All calls, in the order of the enumeration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The HTTP/2 path, `/package.Service/Method`.
            #[must_use]
            pub fn path(self) -> &'static str {
                match self { $(Self::$variant => $path),+ }
            }
        }
    };
}

rpcs! {
    ApplyFabric = "/rail.v1.FabricService/ApplyFabric",
    GetFabric = "/rail.v1.FabricService/GetFabric",
    DeleteFabric = "/rail.v1.FabricService/DeleteFabric",
    GetTopology = "/rail.v1.FabricService/GetTopology",
    GetNode = "/rail.v1.NodeService/GetNode",
    ListNodes = "/rail.v1.NodeService/ListNodes",
    WatchNodes = "/rail.v1.NodeService/WatchNodes",
    UpdateNode = "/rail.v1.NodeService/UpdateNode",
    DeleteNode = "/rail.v1.NodeService/DeleteNode",
    ReturnNode = "/rail.v1.NodeService/ReturnNode",
    CreateJoinToken = "/rail.v1.NodeService/CreateJoinToken",
    ListNodeUsage = "/rail.v1.NodeService/ListNodeUsage",
    GetQos = "/rail.v1.QosService/GetQos",
    ApplyQos = "/rail.v1.QosService/ApplyQos",
    PlanQos = "/rail.v1.QosService/PlanQos",
    ControlRollout = "/rail.v1.QosService/ControlRollout",
    ListRails = "/rail.v1.RailService/ListRails",
    DrainRail = "/rail.v1.RailService/DrainRail",
    UndrainRail = "/rail.v1.RailService/UndrainRail",
    ApplyQueue = "/rail.v1.QueueService/ApplyQueue",
    GetQueue = "/rail.v1.QueueService/GetQueue",
    ListQueues = "/rail.v1.QueueService/ListQueues",
    DeleteQueue = "/rail.v1.QueueService/DeleteQueue",
    GetQueueOrder = "/rail.v1.QueueService/GetQueueOrder",
    ListShares = "/rail.v1.QueueService/ListShares",
    ApplyReservation = "/rail.v1.ReservationService/ApplyReservation",
    GetReservation = "/rail.v1.ReservationService/GetReservation",
    ListReservations = "/rail.v1.ReservationService/ListReservations",
    DeleteReservation = "/rail.v1.ReservationService/DeleteReservation",
    ApplySchedule = "/rail.v1.ScheduleService/ApplySchedule",
    GetSchedule = "/rail.v1.ScheduleService/GetSchedule",
    ListSchedules = "/rail.v1.ScheduleService/ListSchedules",
    DeleteSchedule = "/rail.v1.ScheduleService/DeleteSchedule",
    ApplyServiceClass = "/rail.v1.ServiceClassService/ApplyServiceClass",
    GetServiceClass = "/rail.v1.ServiceClassService/GetServiceClass",
    ListServiceClasses = "/rail.v1.ServiceClassService/ListServiceClasses",
    DeleteServiceClass = "/rail.v1.ServiceClassService/DeleteServiceClass",
    ApplyLicense = "/rail.v1.LicenseService/ApplyLicense",
    GetLicense = "/rail.v1.LicenseService/GetLicense",
    ListLicenses = "/rail.v1.LicenseService/ListLicenses",
    DeleteLicense = "/rail.v1.LicenseService/DeleteLicense",
    ApplySwitch = "/rail.v1.SwitchService/ApplySwitch",
    GetSwitch = "/rail.v1.SwitchService/GetSwitch",
    ListSwitches = "/rail.v1.SwitchService/ListSwitches",
    DeleteSwitch = "/rail.v1.SwitchService/DeleteSwitch",
    RenderSwitch = "/rail.v1.SwitchService/RenderSwitch",
    CreateSwitchToken = "/rail.v1.SwitchService/CreateSwitchToken",
    GetSwitchRollout = "/rail.v1.SwitchService/GetSwitchRollout",
    RollOutSwitches = "/rail.v1.SwitchService/RollOutSwitches",
    PlanSwitches = "/rail.v1.SwitchService/PlanSwitches",
    ControlSwitchRollout = "/rail.v1.SwitchService/ControlSwitchRollout",
    ApplyWebhook = "/rail.v1.WebhookService/ApplyWebhook",
    GetWebhook = "/rail.v1.WebhookService/GetWebhook",
    ListWebhooks = "/rail.v1.WebhookService/ListWebhooks",
    DeleteWebhook = "/rail.v1.WebhookService/DeleteWebhook",
    TestWebhook = "/rail.v1.WebhookService/TestWebhook",
    ApplySecret = "/rail.v1.SecretService/ApplySecret",
    GetSecret = "/rail.v1.SecretService/GetSecret",
    ListSecrets = "/rail.v1.SecretService/ListSecrets",
    DeleteSecret = "/rail.v1.SecretService/DeleteSecret",
    ApplyConfig = "/rail.v1.ConfigService/ApplyConfig",
    GetConfig = "/rail.v1.ConfigService/GetConfig",
    ListConfigs = "/rail.v1.ConfigService/ListConfigs",
    DeleteConfig = "/rail.v1.ConfigService/DeleteConfig",
    ApplyTenant = "/rail.v1.TenantService/ApplyTenant",
    GetTenant = "/rail.v1.TenantService/GetTenant",
    ListTenants = "/rail.v1.TenantService/ListTenants",
    DeleteTenant = "/rail.v1.TenantService/DeleteTenant",
    IssueCertificate = "/rail.v1.TenantService/IssueCertificate",
    IssueToken = "/rail.v1.TenantService/IssueToken",
    Revoke = "/rail.v1.TenantService/Revoke",
    ListRevocations = "/rail.v1.TenantService/ListRevocations",
    WhoAmI = "/rail.v1.TenantService/WhoAmI",
    ListTokens = "/rail.v1.TenantService/ListTokens",
    CreateJob = "/rail.v1.JobService/CreateJob",
    GetJob = "/rail.v1.JobService/GetJob",
    ListJobs = "/rail.v1.JobService/ListJobs",
    WatchJobs = "/rail.v1.JobService/WatchJobs",
    CancelJob = "/rail.v1.JobService/CancelJob",
    DeleteJob = "/rail.v1.JobService/DeleteJob",
    HoldJob = "/rail.v1.JobService/HoldJob",
    ReleaseJob = "/rail.v1.JobService/ReleaseJob",
    SuspendJob = "/rail.v1.JobService/SuspendJob",
    ResumeJob = "/rail.v1.JobService/ResumeJob",
    RequeueJob = "/rail.v1.JobService/RequeueJob",
    UpdateJob = "/rail.v1.JobService/UpdateJob",
    PlanJob = "/rail.v1.JobService/PlanJob",
    ExplainJob = "/rail.v1.JobService/ExplainJob",
    StreamLogs = "/rail.v1.JobService/StreamLogs",
    ListJobUsage = "/rail.v1.JobService/ListJobUsage",
    RunStep = "/rail.v1.StepService/RunStep",
    ListUsageRecords = "/rail.v1.UsageService/ListUsageRecords",
    SumUsage = "/rail.v1.UsageService/SumUsage",
    ListDeleted = "/rail.v1.DeletedService/ListDeleted",
    Undelete = "/rail.v1.DeletedService/Undelete",
    PlanDocuments = "/rail.v1.DocumentService/PlanDocuments",
    ListAuditRecords = "/rail.v1.AuditService/ListAuditRecords",
    ExportAuditRecords = "/rail.v1.AuditService/ExportAuditRecords",
    GetHealth = "/rail.v1.HealthService/GetHealth",
    Join = "/rail.v1.EnrollService/Join",
    Connect = "/rail.v1.AgentService/Connect",
    UploadLogs = "/rail.v1.AgentService/UploadLogs",
    AttachStep = "/rail.v1.AgentService/AttachStep",
    RenewCertificate = "/rail.v1.AgentService/RenewCertificate",
    JoinSwitch = "/rail.v1.SwitchAgentService/JoinSwitch",
    ReportSwitch = "/rail.v1.SwitchAgentService/ReportSwitch",
    RenewSwitchCertificate = "/rail.v1.SwitchAgentService/RenewSwitchCertificate",
    Follow = "/rail.v1.ControllerService/Follow",
    HealthCheck = "/grpc.health.v1.Health/Check",
    HealthWatch = "/grpc.health.v1.Health/Watch",
    Reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    ReflectionAlpha = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    OpenApi = "/v1/openapi.json",
}

impl Rpc {
    /// The RPC at an HTTP/2 path.
    #[must_use]
    pub fn at(path: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rpc| rpc.path() == path)
    }

    /// The method's own name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.path().rsplit('/').next().unwrap_or_default()
    }

    /// Whether its answer comes from the store alone, and states the revision that it is of: any controller answers it.
    #[must_use]
    pub fn reads_the_store(self) -> bool {
        matches!(
            self,
            Self::GetJob
                | Self::ListJobs
                | Self::WatchJobs
                | Self::GetNode
                | Self::ListNodes
                | Self::WatchNodes
                | Self::GetReservation
                | Self::ListReservations
                | Self::WhoAmI
        )
    }

    /// Who may make the call: the table of authorisation.
    #[must_use]
    #[allow(clippy::too_many_lines, reason = "a line for each call")]
    pub fn access(self) -> Access {
        match self {
            Self::ApplyFabric
            | Self::DeleteFabric
            | Self::UpdateNode
            | Self::DeleteNode
            | Self::CreateJoinToken
            | Self::DrainRail
            | Self::UndrainRail
            | Self::GetQos
            | Self::ApplyQos
            | Self::PlanQos
            | Self::ControlRollout
            | Self::ReturnNode
            | Self::ApplyReservation
            | Self::DeleteReservation
            | Self::ApplyServiceClass
            | Self::DeleteServiceClass
            | Self::ApplyLicense
            | Self::DeleteLicense
            | Self::ApplySwitch
            | Self::DeleteSwitch
            | Self::CreateSwitchToken
            | Self::GetSwitchRollout
            | Self::RollOutSwitches
            | Self::PlanSwitches
            | Self::ControlSwitchRollout
            | Self::ApplyTenant
            | Self::DeleteTenant
            | Self::ListDeleted
            | Self::Undelete
            | Self::ExportAuditRecords => Access::Roles(ADMIN),
            Self::IssueCertificate
            | Self::IssueToken
            | Self::Revoke
            | Self::ListRevocations
            | Self::ListTokens
            | Self::ApplyQueue
            | Self::DeleteQueue
            | Self::ApplyWebhook
            | Self::DeleteWebhook
            | Self::TestWebhook
            | Self::ApplySecret
            | Self::DeleteSecret
            | Self::ApplyConfig
            | Self::DeleteConfig
            | Self::ListAuditRecords => Access::Roles(MANAGERS),
            // Each document by the row of what applies it, besides.
            Self::PlanDocuments
            | Self::CreateJob
            | Self::ApplySchedule
            | Self::DeleteSchedule
            | Self::CancelJob
            | Self::DeleteJob
            | Self::HoldJob
            | Self::ReleaseJob
            | Self::SuspendJob
            | Self::ResumeJob
            | Self::RequeueJob
            | Self::UpdateJob
            | Self::RunStep => Access::Roles(SUBMITTERS),
            Self::GetFabric
            | Self::GetTopology
            | Self::GetNode
            | Self::ListNodes
            | Self::WatchNodes
            | Self::ListRails
            | Self::GetTenant
            | Self::ListTenants
            | Self::GetQueue
            | Self::ListQueues
            | Self::GetQueueOrder
            | Self::ListShares
            | Self::ListNodeUsage
            | Self::ListJobUsage
            | Self::ListUsageRecords
            | Self::SumUsage
            | Self::GetReservation
            | Self::ListReservations
            | Self::GetSchedule
            | Self::ListSchedules
            | Self::GetWebhook
            | Self::ListWebhooks
            | Self::GetSecret
            | Self::ListSecrets
            | Self::GetConfig
            | Self::ListConfigs
            | Self::GetServiceClass
            | Self::ListServiceClasses
            | Self::GetLicense
            | Self::ListLicenses
            | Self::GetSwitch
            | Self::ListSwitches
            | Self::RenderSwitch
            | Self::WhoAmI
            | Self::GetJob
            | Self::ListJobs
            | Self::WatchJobs
            | Self::PlanJob
            | Self::ExplainJob
            | Self::StreamLogs
            | Self::GetHealth
            | Self::Reflection
            | Self::ReflectionAlpha
            | Self::OpenApi => Access::Roles(PEOPLE),
            Self::Connect | Self::UploadLogs | Self::AttachStep | Self::RenewCertificate => {
                Access::Roles(NODE)
            }
            Self::ReportSwitch | Self::RenewSwitchCertificate => Access::Roles(SWITCH),
            Self::Follow => Access::Controllers,
            // A token buys the first certificate; liveness is for probes that have none.
            Self::Join | Self::JoinSwitch | Self::HealthCheck | Self::HealthWatch => Access::Anybody,
        }
    }

    /// Whether its answer goes on for as long as the caller wants.
    #[must_use]
    pub fn is_stream(self) -> bool {
        matches!(
            self,
            Self::WatchNodes
                | Self::WatchJobs
                | Self::StreamLogs
                | Self::RunStep
                | Self::Connect
                | Self::UploadLogs
                | Self::AttachStep
                | Self::HealthWatch
                | Self::Reflection
                | Self::ReflectionAlpha
                | Self::ExportAuditRecords
        )
    }

    /// Whether the table lets a caller with these roles in.
    #[must_use]
    pub fn admits(self, roles: &BTreeSet<Role>) -> bool {
        match self.access() {
            Access::Anybody => true,
            Access::Controllers => false,
            Access::Roles(allowed) => allowed.iter().any(|role| roles.contains(role)),
        }
    }
}

impl fmt::Display for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The table's answer for one caller, as the error that the caller gets.
///
/// # Errors
/// `Unauthenticated` for a caller without identity, `Denied` for one whose roles are not named.
pub fn authorise(rpc: Rpc, identity: &Identity) -> Result<(), RpcError> {
    let roles = identity.roles();
    if rpc.admits(&roles) {
        return Ok(());
    }
    if *identity == Identity::Anonymous {
        let message = format!("{rpc} needs a client certificate or a bearer token; none was given");
        return Err(RpcError::new(ErrorClass::Unauthenticated, "NO_CREDENTIALS", message));
    }
    let held: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
    let message = format!("{identity} (roles: {}) may not call {rpc}", held.join(", "));
    Err(RpcError::new(ErrorClass::Denied, "ROLE_NOT_ALLOWED", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_every_rpc_of_the_descriptors() {
        let mut declared: Vec<String> = proto_wire::descriptor_pool()
            .services()
            .flat_map(|service| {
                let name = service.full_name().to_owned();
                service.methods().map(move |m| format!("/{name}/{}", m.name())).collect::<Vec<_>>()
            })
            .collect();
        let mut listed: Vec<String> =
            Rpc::ALL.iter().map(|rpc| rpc.path().to_owned()).filter(|p| p.starts_with("/rail.v1.")).collect();
        declared.sort();
        listed.sort();
        assert_eq!(declared, listed);
    }

    #[test]
    fn a_node_may_call_the_agent_services_and_nothing_else() {
        let node = Identity::node("n0").unwrap();
        for rpc in Rpc::ALL {
            let agent = rpc.path().starts_with("/rail.v1.AgentService/") || rpc.access() == Access::Anybody;
            assert_eq!(authorise(*rpc, &node).is_ok(), agent, "{rpc}");
        }
    }

    #[test]
    fn nobody_and_the_controller_itself_get_only_what_is_open() {
        for rpc in Rpc::ALL {
            let open = rpc.access() == Access::Anybody;
            assert_eq!(authorise(*rpc, &Identity::Anonymous).is_ok(), open, "{rpc}");
            assert_eq!(authorise(*rpc, &Identity::Controller).is_ok(), open, "{rpc}");
        }
        let error = authorise(Rpc::GetJob, &Identity::Anonymous).unwrap_err();
        assert_eq!(error.class, ErrorClass::Unauthenticated);
    }
}
