//! Every cell of the table of roles, by gRPC and by REST, against a table written by hand.

use http_body_util::BodyExt;
use proto_rpc::{Client, ErrorClass, Identity, Role, RpcError};
use proto_wire::v1::{self, job_service_client::JobServiceClient};
use tonic::{Code, Status, body::Body};
use tower::Service;

use controller_api::{
    authz::{Access, Rpc},
    rest::routes::{OPENAPI, ROUTES},
};

use crate::{rest::Rest, world::World};

/// Columns: nobody, node, switch, viewer, user, tenant-admin, admin. `x` may call.
const TABLE: &str = "
ApplyFabric          . . . . . . x
GetFabric            . . . x x x x
DeleteFabric         . . . . . . x
GetTopology          . . . x x x x
GetNode              . . . x x x x
ListNodes            . . . x x x x
WatchNodes           . . . x x x x
UpdateNode           . . . . . . x
DeleteNode           . . . . . . x
ReturnNode           . . . . . . x
CreateJoinToken      . . . . . . x
ListNodeUsage        . . . x x x x
GetQos               . . . . . . x
ApplyQos             . . . . . . x
PlanQos              . . . . . . x
ControlRollout       . . . . . . x
ListRails            . . . x x x x
DrainRail            . . . . . . x
UndrainRail          . . . . . . x
ApplyQueue           . . . . . x x
GetQueue             . . . x x x x
ListQueues           . . . x x x x
DeleteQueue          . . . . . x x
GetQueueOrder        . . . x x x x
ListShares           . . . x x x x
ApplyReservation     . . . . . . x
GetReservation       . . . x x x x
ListReservations     . . . x x x x
DeleteReservation    . . . . . . x
ApplySchedule        . . . . x x x
GetSchedule          . . . x x x x
ListSchedules        . . . x x x x
DeleteSchedule       . . . . x x x
ApplyServiceClass    . . . . . . x
GetServiceClass      . . . x x x x
ListServiceClasses   . . . x x x x
DeleteServiceClass   . . . . . . x
ApplyLicense         . . . . . . x
GetLicense           . . . x x x x
ListLicenses         . . . x x x x
DeleteLicense        . . . . . . x
ApplySwitch          . . . . . . x
GetSwitch            . . . x x x x
ListSwitches         . . . x x x x
DeleteSwitch         . . . . . . x
RenderSwitch         . . . x x x x
CreateSwitchToken    . . . . . . x
GetSwitchRollout     . . . . . . x
RollOutSwitches      . . . . . . x
PlanSwitches         . . . . . . x
ControlSwitchRollout . . . . . . x
ApplyWebhook         . . . . . x x
GetWebhook           . . . x x x x
ListWebhooks         . . . x x x x
DeleteWebhook        . . . . . x x
TestWebhook          . . . . . x x
ApplySecret          . . . . . x x
GetSecret            . . . x x x x
ListSecrets          . . . x x x x
DeleteSecret         . . . . . x x
ApplyConfig          . . . . . x x
GetConfig            . . . x x x x
ListConfigs          . . . x x x x
DeleteConfig         . . . . . x x
ApplyTenant          . . . . . . x
GetTenant            . . . x x x x
ListTenants          . . . x x x x
DeleteTenant         . . . . . . x
IssueCertificate     . . . . . x x
IssueToken           . . . . . x x
Revoke               . . . . . x x
ListRevocations      . . . . . x x
WhoAmI               . . . x x x x
ListTokens           . . . . . x x
CreateJob            . . . . x x x
GetJob               . . . x x x x
ListJobs             . . . x x x x
WatchJobs            . . . x x x x
CancelJob            . . . . x x x
DeleteJob            . . . . x x x
HoldJob              . . . . x x x
ReleaseJob           . . . . x x x
SuspendJob           . . . . x x x
ResumeJob            . . . . x x x
RequeueJob           . . . . x x x
UpdateJob            . . . . x x x
PlanJob              . . . x x x x
ExplainJob           . . . x x x x
StreamLogs           . . . x x x x
ListJobUsage         . . . x x x x
RunStep              . . . . x x x
ListUsageRecords     . . . x x x x
SumUsage             . . . x x x x
ListDeleted          . . . . . . x
Undelete             . . . . . . x
PlanDocuments        . . . . x x x
ListAuditRecords     . . . . . x x
ExportAuditRecords   . . . . . . x
GetHealth            . . . x x x x
Join                 x x x x x x x
JoinSwitch           x x x x x x x
ReportSwitch         . . x . . . .
RenewSwitchCertificate . . x . . . .
Connect              . x . . . . .
UploadLogs           . x . . . . .
AttachStep           . x . . . . .
RenewCertificate     . x . . . . .
Check                x x x x x x x
Watch                x x x x x x x
ServerReflectionInfo . . . x x x x
openapi.json         . . . x x x x
";

pub fn callers() -> [Identity; 7] {
    let user = |role| Identity::user("default", "someone", [role]).unwrap();
    [
        Identity::Anonymous,
        Identity::node("n0").unwrap(),
        Identity::switch("leaf0").unwrap(),
        user(Role::Viewer),
        user(Role::User),
        user(Role::TenantAdmin),
        Identity::admin("root").unwrap(),
    ]
}

fn expected(name: &str) -> Vec<bool> {
    let line = TABLE.lines().find(|line| line.split_whitespace().next() == Some(name));
    let cells = line.unwrap_or_else(|| panic!("{name} is not in the table")).split_whitespace().skip(1);
    cells.map(|cell| cell == "x").collect()
}

fn refused(error: &RpcError) -> bool {
    matches!(error.reason.as_str(), "ROLE_NOT_ALLOWED" | "NO_CREDENTIALS")
}

/// Calls a path with an empty message; gives the status of the answer's head or end.
pub async fn bare(client: &mut Client, path: &'static str, body: Vec<u8>) -> Result<(), RpcError> {
    let request = axum::http::Request::post(path)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(http_body_util::Full::from(body)))
        .unwrap();
    std::future::poll_fn(|context| client.poll_ready(context)).await.unwrap();
    let response = client.call(request).await.map_err(|status| RpcError::from_status(&status))?;
    if let Some(status) = Status::from_header_map(response.headers()) {
        return if status.code() == Code::Ok { Ok(()) } else { Err(RpcError::from_status(&status)) };
    }
    // A stream that was let in: its head is enough.
    let mut body = response.into_body();
    let first = tokio::time::timeout(std::time::Duration::from_millis(200), body.frame()).await;
    if let Ok(Some(Ok(frame))) = first
        && let Some(status) = frame.trailers_ref().and_then(Status::from_header_map)
        && status.code() != Code::Ok
    {
        return Err(RpcError::from_status(&status));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_cell_by_grpc() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    for (column, identity) in callers().into_iter().enumerate() {
        let mut client = world.client(&identity).with_timeout(std::time::Duration::from_secs(10));
        for rpc in Rpc::ALL.iter().filter(|rpc| rpc.path() != OPENAPI && rpc.access() != Access::Controllers)
        {
            let may = expected(rpc.name())[column];
            let outcome = bare(&mut client, rpc.path(), vec![0, 0, 0, 0, 0]).await;
            let turned_away = outcome.as_ref().err().is_some_and(refused);
            assert_ne!(may, turned_away, "{rpc} by {identity}: {outcome:?}");
            if !may {
                let class = outcome.unwrap_err().class;
                let nobody = identity == Identity::Anonymous;
                assert_eq!(class, if nobody { ErrorClass::Unauthenticated } else { ErrorClass::Denied });
            }
        }
        // What is mounted nowhere, and what the table does not name, is not served to anybody.
        let unknown =
            bare(&mut client, "/rail.v1.JobService/DropAll", vec![0, 0, 0, 0, 0]).await.unwrap_err();
        assert_eq!(unknown.class, ErrorClass::Unimplemented);
    }
    let lines = TABLE.lines().filter(|line| !line.is_empty()).count();
    let here = Rpc::ALL.iter().filter(|rpc| rpc.access() != Access::Controllers).count();
    assert_eq!(lines + 1, here, "v1 and v1alpha of reflection share a line");
    assert!(world.metric("rail_refusals_total{rpc=\"CreateJob\",role=\"node\"") >= 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_cell_by_rest() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    for (column, identity) in callers().into_iter().enumerate() {
        let mut rest = Rest::new(world.client(&identity));
        let openapi = ("GET".to_owned(), OPENAPI.to_owned(), Rpc::OpenApi);
        let routes = ROUTES.iter().map(|route| (route.method.to_string(), route.path.to_owned(), route.rpc));
        for (method, path, rpc) in routes.chain([openapi]) {
            let path = path.replace("{name}", "absent").replace("{node}", "absent");
            let answer = rest.head(&method, &path).await;
            let reason = answer.json["error"]["reason"].as_str().unwrap_or_default().to_owned();
            let turned_away = matches!(reason.as_str(), "ROLE_NOT_ALLOWED" | "NO_CREDENTIALS");
            assert_ne!(
                expected(rpc.name())[column],
                turned_away,
                "{method} {path} by {identity}: {answer:?}"
            );
            if turned_away {
                assert_eq!(answer.status, if identity == Identity::Anonymous { 401 } else { 403 });
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_refused_and_counted_and_others_are_not_disturbed() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut node = JobServiceClient::new(world.node("n0").await);
    for _ in 0..5 {
        let status = node.list_jobs(v1::ListJobsRequest::default()).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied);
    }
    let counted = "rail_refusals_total{rpc=\"ListJobs\",role=\"node\",reason=\"ROLE_NOT_ALLOWED\"}";
    assert_eq!(world.metric(counted), 5.0);
    JobServiceClient::new(world.user("default")).list_jobs(v1::ListJobsRequest::default()).await.unwrap();
}
