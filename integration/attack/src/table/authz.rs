//! Every RPC by every caller who may not call it. The table is written by hand, from what each role is for, and not taken from
//! the code under test; a test compares its rows with the descriptors.

use serde_json::json;

use crate::model::{Attempt, Expect, Finding, From, Step, Trace};

/// What the ids of its cells begin with.
pub const PREFIX: &str = "roles/";

/// Columns of the table.
pub const CALLERS: [From; 5] = [From::Anonymous, From::Node, From::Viewer, From::User, From::TenantAdmin];

/// Columns: anonymous, node, viewer, user, tenant-admin. `x` may call.
pub const TABLE: &[(&str, &str)] = &[
    ("rail.v1.FabricService/ApplyFabric", "....."),
    ("rail.v1.FabricService/GetFabric", "..xxx"),
    ("rail.v1.FabricService/DeleteFabric", "....."),
    ("rail.v1.FabricService/GetTopology", "..xxx"),
    ("rail.v1.NodeService/GetNode", "..xxx"),
    ("rail.v1.NodeService/ListNodes", "..xxx"),
    ("rail.v1.NodeService/WatchNodes", "..xxx"),
    ("rail.v1.NodeService/UpdateNode", "....."),
    ("rail.v1.NodeService/DeleteNode", "....."),
    ("rail.v1.NodeService/ReturnNode", "....."),
    ("rail.v1.NodeService/CreateJoinToken", "....."),
    ("rail.v1.NodeService/ListNodeUsage", "..xxx"),
    ("rail.v1.QosService/GetQos", "....."),
    ("rail.v1.QosService/ApplyQos", "....."),
    ("rail.v1.QosService/PlanQos", "....."),
    ("rail.v1.QosService/ControlRollout", "....."),
    ("rail.v1.RailService/ListRails", "..xxx"),
    ("rail.v1.RailService/DrainRail", "....."),
    ("rail.v1.RailService/UndrainRail", "....."),
    ("rail.v1.QueueService/ApplyQueue", "....x"),
    ("rail.v1.QueueService/GetQueue", "..xxx"),
    ("rail.v1.QueueService/ListQueues", "..xxx"),
    ("rail.v1.QueueService/DeleteQueue", "....x"),
    ("rail.v1.QueueService/GetQueueOrder", "..xxx"),
    ("rail.v1.QueueService/ListShares", "..xxx"),
    ("rail.v1.ReservationService/ApplyReservation", "....."),
    ("rail.v1.ReservationService/GetReservation", "..xxx"),
    ("rail.v1.ReservationService/ListReservations", "..xxx"),
    ("rail.v1.ReservationService/DeleteReservation", "....."),
    ("rail.v1.ScheduleService/ApplySchedule", "...xx"),
    ("rail.v1.ScheduleService/GetSchedule", "..xxx"),
    ("rail.v1.ScheduleService/ListSchedules", "..xxx"),
    ("rail.v1.ScheduleService/DeleteSchedule", "...xx"),
    ("rail.v1.ServiceClassService/ApplyServiceClass", "....."),
    ("rail.v1.ServiceClassService/GetServiceClass", "..xxx"),
    ("rail.v1.ServiceClassService/ListServiceClasses", "..xxx"),
    ("rail.v1.ServiceClassService/DeleteServiceClass", "....."),
    ("rail.v1.LicenseService/ApplyLicense", "....."),
    ("rail.v1.LicenseService/GetLicense", "..xxx"),
    ("rail.v1.LicenseService/ListLicenses", "..xxx"),
    ("rail.v1.LicenseService/DeleteLicense", "....."),
    ("rail.v1.WebhookService/ApplyWebhook", "....x"),
    ("rail.v1.WebhookService/GetWebhook", "..xxx"),
    ("rail.v1.WebhookService/ListWebhooks", "..xxx"),
    ("rail.v1.WebhookService/DeleteWebhook", "....x"),
    ("rail.v1.WebhookService/TestWebhook", "....x"),
    ("rail.v1.SecretService/ApplySecret", "....x"),
    ("rail.v1.SecretService/GetSecret", "..xxx"),
    ("rail.v1.SecretService/ListSecrets", "..xxx"),
    ("rail.v1.SecretService/DeleteSecret", "....x"),
    ("rail.v1.ConfigService/ApplyConfig", "....x"),
    ("rail.v1.ConfigService/GetConfig", "..xxx"),
    ("rail.v1.ConfigService/ListConfigs", "..xxx"),
    ("rail.v1.ConfigService/DeleteConfig", "....x"),
    ("rail.v1.TenantService/ApplyTenant", "....."),
    ("rail.v1.TenantService/GetTenant", "..xxx"),
    ("rail.v1.TenantService/ListTenants", "..xxx"),
    ("rail.v1.TenantService/DeleteTenant", "....."),
    ("rail.v1.TenantService/IssueCertificate", "....x"),
    ("rail.v1.TenantService/IssueToken", "....x"),
    ("rail.v1.TenantService/Revoke", "....x"),
    ("rail.v1.TenantService/ListRevocations", "....x"),
    ("rail.v1.TenantService/WhoAmI", "..xxx"),
    ("rail.v1.TenantService/ListTokens", "....x"),
    ("rail.v1.JobService/CreateJob", "...xx"),
    ("rail.v1.JobService/GetJob", "..xxx"),
    ("rail.v1.JobService/ListJobs", "..xxx"),
    ("rail.v1.JobService/WatchJobs", "..xxx"),
    ("rail.v1.JobService/CancelJob", "...xx"),
    ("rail.v1.JobService/DeleteJob", "...xx"),
    ("rail.v1.JobService/HoldJob", "...xx"),
    ("rail.v1.JobService/ReleaseJob", "...xx"),
    ("rail.v1.JobService/SuspendJob", "...xx"),
    ("rail.v1.JobService/ResumeJob", "...xx"),
    ("rail.v1.JobService/RequeueJob", "...xx"),
    ("rail.v1.JobService/UpdateJob", "...xx"),
    ("rail.v1.JobService/PlanJob", "..xxx"),
    ("rail.v1.JobService/ExplainJob", "..xxx"),
    ("rail.v1.JobService/StreamLogs", "..xxx"),
    ("rail.v1.JobService/ListJobUsage", "..xxx"),
    ("rail.v1.StepService/RunStep", "...xx"),
    ("rail.v1.DeletedService/ListDeleted", "....."),
    ("rail.v1.DeletedService/Undelete", "....."),
    ("rail.v1.DocumentService/PlanDocuments", "...xx"),
    ("rail.v1.AuditService/ListAuditRecords", "....x"),
    ("rail.v1.AuditService/ExportAuditRecords", "....."),
    ("rail.v1.HealthService/GetHealth", "..xxx"),
    ("rail.v1.EnrollService/Join", "xxxxx"),
    ("rail.v1.AgentService/Connect", ".x..."),
    ("rail.v1.AgentService/UploadLogs", ".x..."),
    ("rail.v1.AgentService/AttachStep", ".x..."),
    ("rail.v1.AgentService/RenewCertificate", ".x..."),
    ("rail.v1.ControllerService/Follow", "....."),
    ("grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "..xxx"),
    ("grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "..xxx"),
    ("grpc.health.v1.Health/Check", "xxxxx"),
    ("grpc.health.v1.Health/Watch", "xxxxx"),
];

/// RPCs that the table does not hold yet: what a later version adds is refused to all but administrators until it is listed.
pub fn all() -> Vec<Attempt> {
    let mut attempts = Vec::new();
    for (rpc, cells) in TABLE {
        for (from, cell) in CALLERS.into_iter().zip(cells.chars()) {
            if cell == 'x' {
                continue;
            }
            let follows = *rpc == "rail.v1.ControllerService/Follow";
            let short = rpc.rsplit('/').next().unwrap_or_default();
            let kind = if rpc.contains("v1alpha") { "Alpha" } else { "" };
            attempts.push(Attempt {
                id: format!("{PREFIX}{short}{kind}/{}", from.name()),
                title: format!("call {short} as {}", from.name()),
                finding: Finding::Held,
                from,
                step: Step::Call { rpc, body: json!({}) },
                expect: Expect::Reason(match from {
                    // Where there is one controller there is nobody to follow, and no such method.
                    _ if follows => &["UNKNOWN_METHOD", "ROLE_NOT_ALLOWED", "NO_CREDENTIALS"],
                    From::Anonymous => &["NO_CREDENTIALS"],
                    _ => &["ROLE_NOT_ALLOWED"],
                }),
                trace: if follows { Trace::None } else { Trace::Audited },
            });
        }
    }
    attempts
}
