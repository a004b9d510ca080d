//! The rollout to switches, and their agents: declared in the schema, authorised and audited by the tables, and not served by this release.

use proto_rpc::{ErrorClass, RpcError};
use proto_wire::v1::{self, switch_agent_service_server::SwitchAgentService};
use tonic::{Request, Response, Status};

use crate::authz::Rpc;

/// The answer to a call that this release does not serve.
pub(crate) fn not_served<T>(rpc: Rpc) -> Result<Response<T>, Status> {
    let message = format!("{rpc} is not served by this release of the controller");
    Err(RpcError::new(ErrorClass::Unimplemented, "NOT_SERVED", message).into())
}

/// The handlers of `SwitchAgentService`.
#[derive(Clone, Copy)]
pub struct SwitchAgents;

#[tonic::async_trait]
impl SwitchAgentService for SwitchAgents {
    async fn join_switch(
        &self,
        _: Request<v1::JoinSwitchRequest>,
    ) -> Result<Response<v1::JoinSwitchResponse>, Status> {
        not_served(Rpc::JoinSwitch)
    }

    async fn report_switch(
        &self,
        _: Request<v1::ReportSwitchRequest>,
    ) -> Result<Response<v1::ReportSwitchResponse>, Status> {
        not_served(Rpc::ReportSwitch)
    }

    async fn renew_switch_certificate(
        &self,
        _: Request<v1::RenewSwitchCertificateRequest>,
    ) -> Result<Response<v1::JoinSwitchResponse>, Status> {
        not_served(Rpc::RenewSwitchCertificate)
    }
}
