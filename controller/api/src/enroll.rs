//! EnrollService: a single-use token buys a server its first certificate.

use std::time::SystemTime;

use aws_lc_rs::digest;
use controller_core::Event;
use proto_model::NodeName;
use proto_rpc::{
    ErrorClass, Identity, RpcError, Token, TokenKind,
    ca::{Issued, NODE_LIFETIME},
};
use proto_wire::v1::{self, enroll_service_server::EnrollService};
use tonic::{Request, Response, Status};

use crate::{authz::Rpc, context::Context, credential::token_digest, fault, guard::Caller};

/// The handler of `EnrollService`.
#[derive(Clone)]
pub struct Enroll {
    context: Context,
}

impl Enroll {
    /// Handlers over the loop.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }
}

pub(crate) fn join_response(context: &Context, issued: &Issued) -> v1::JoinResponse {
    v1::JoinResponse {
        certificate_pem: issued.chain_pem.clone(),
        ca_pem: context.ca.certificate_pem(),
        expires: Some(issued.not_after.into()),
    }
}

#[tonic::async_trait]
impl EnrollService for Enroll {
    async fn join(&self, request: Request<v1::JoinRequest>) -> Result<Response<v1::JoinResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let node = NodeName::new(&wire.node).map_err(|error| fault::field("node", error))?;
        let bad = |text: String| RpcError::new(ErrorClass::Denied, "TOKEN_INVALID", text);
        let token = Token::parse(TokenKind::Join, &wire.token)
            .map_err(|error| self.context.guard.note(Rpc::Join, &caller, bad(error.to_string())))?;
        let identity = Identity::node(node.as_str()).map_err(|error| fault::field("node", error))?;
        // Signed before the token is spent: a faulty request must not cost the token. It leaves only after.
        let now = self.context.handle.revoked().get().issue_time(&identity, SystemTime::now());
        let issued = self.context.ca.issue(&wire.csr_pem, &identity, NODE_LIFETIME, now);
        let issued = issued.map_err(|error| fault::ca(&error))?;
        let mut csr = [0; 32];
        csr.copy_from_slice(digest::digest(&digest::SHA256, wire.csr_pem.as_bytes()).as_ref());
        let hash = token_digest(&token.hash());
        let joined =
            self.context.handle.apply(&caller.actor, Event::Join { node: node.clone(), hash, csr }).await;
        if let Err(refusal) = joined {
            let error = fault::refused(&refusal);
            if error.reason == "TOKEN_USED" {
                tracing::warn!(%node, token = token.id(), "a join token was shown a second time");
            }
            return Err(self.context.guard.note(Rpc::Join, &caller, error).into());
        }
        tracing::info!(%node, token = token.id(), serial = issued.serial, "node joined");
        Ok(Response::new(join_response(&self.context, &issued)))
    }
}
