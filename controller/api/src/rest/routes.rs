//! REST as data: which method and path means which RPC, and what of the RPC the body is.
//!
//! Path parameters and query parameters are fields of the request message, named as in canonical JSON.

use axum::http::Method;

use crate::authz::Rpc;

/// What the body of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// The request has no body.
    None,
    /// One field of the RPC's request; the others are parameters.
    Field(&'static str),
    /// The whole request, less what the path says.
    Whole,
}

/// One row of the table.
#[derive(Debug, Clone)]
pub struct Route {
    /// The HTTP method of the request.
    pub method: Method,
    /// The path; `{field}` or `{field.of.a.field}` is one segment, `:verb` may end the last one.
    pub path: &'static str,
    /// The call that the request is made into.
    pub rpc: Rpc,
    /// What the body is.
    pub body: Body,
}

const fn route(method: Method, path: &'static str, rpc: Rpc, body: Body) -> Route {
    Route { method, path, rpc, body }
}

/// Where the document is that describes all this.
pub const OPENAPI: &str = "/v1/openapi.json";

/// The table. The agents' own services are gRPC only.
pub const ROUTES: &[Route] = &[
    route(Method::GET, "/v1/fabric", Rpc::GetFabric, Body::None),
    route(Method::PUT, "/v1/fabric", Rpc::ApplyFabric, Body::Field("fabric")),
    route(Method::DELETE, "/v1/fabric", Rpc::DeleteFabric, Body::None),
    route(Method::GET, "/v1/topology", Rpc::GetTopology, Body::None),
    route(Method::GET, "/v1/nodes", Rpc::ListNodes, Body::None),
    route(Method::GET, "/v1/nodes:watch", Rpc::WatchNodes, Body::None),
    route(Method::GET, "/v1/nodes:usage", Rpc::ListNodeUsage, Body::None),
    route(Method::GET, "/v1/nodes/{name}", Rpc::GetNode, Body::None),
    route(Method::DELETE, "/v1/nodes/{name}", Rpc::DeleteNode, Body::None),
    route(Method::PUT, "/v1/nodes/{name}/spec", Rpc::UpdateNode, Body::Field("spec")),
    route(Method::POST, "/v1/nodes/{name}:return", Rpc::ReturnNode, Body::Whole),
    route(Method::POST, "/v1/nodes/{node}:createJoinToken", Rpc::CreateJoinToken, Body::Whole),
    route(Method::GET, "/v1/rails", Rpc::ListRails, Body::None),
    route(Method::POST, "/v1/rails:drain", Rpc::DrainRail, Body::Whole),
    route(Method::POST, "/v1/rails:undrain", Rpc::UndrainRail, Body::Whole),
    route(Method::GET, "/v1/qos", Rpc::GetQos, Body::None),
    route(Method::POST, "/v1/qos:apply", Rpc::ApplyQos, Body::Whole),
    route(Method::POST, "/v1/qos:plan", Rpc::PlanQos, Body::Whole),
    route(Method::POST, "/v1/qos:steer", Rpc::ControlRollout, Body::Whole),
    route(Method::GET, "/v1/tenants", Rpc::ListTenants, Body::None),
    route(Method::POST, "/v1/tenants", Rpc::ApplyTenant, Body::Field("tenant")),
    route(Method::GET, "/v1/tenants/{name}", Rpc::GetTenant, Body::None),
    route(Method::DELETE, "/v1/tenants/{name}", Rpc::DeleteTenant, Body::None),
    route(Method::GET, "/v1/queues", Rpc::ListQueues, Body::None),
    route(Method::POST, "/v1/queues", Rpc::ApplyQueue, Body::Field("queue")),
    route(Method::GET, "/v1/queues:order", Rpc::GetQueueOrder, Body::None),
    route(Method::GET, "/v1/shares", Rpc::ListShares, Body::None),
    route(Method::GET, "/v1/queues/{name}", Rpc::GetQueue, Body::None),
    route(Method::DELETE, "/v1/queues/{name}", Rpc::DeleteQueue, Body::None),
    route(Method::GET, "/v1/reservations", Rpc::ListReservations, Body::None),
    route(Method::POST, "/v1/reservations", Rpc::ApplyReservation, Body::Field("reservation")),
    route(Method::GET, "/v1/reservations/{name}", Rpc::GetReservation, Body::None),
    route(Method::DELETE, "/v1/reservations/{name}", Rpc::DeleteReservation, Body::None),
    route(Method::GET, "/v1/schedules", Rpc::ListSchedules, Body::None),
    route(Method::POST, "/v1/schedules", Rpc::ApplySchedule, Body::Field("schedule")),
    route(Method::GET, "/v1/schedules/{name}", Rpc::GetSchedule, Body::None),
    route(Method::DELETE, "/v1/schedules/{name}", Rpc::DeleteSchedule, Body::None),
    route(Method::GET, "/v1/service-classes", Rpc::ListServiceClasses, Body::None),
    route(Method::POST, "/v1/service-classes", Rpc::ApplyServiceClass, Body::Field("service_class")),
    route(Method::GET, "/v1/service-classes/{name}", Rpc::GetServiceClass, Body::None),
    route(Method::DELETE, "/v1/service-classes/{name}", Rpc::DeleteServiceClass, Body::None),
    route(Method::GET, "/v1/licenses", Rpc::ListLicenses, Body::None),
    route(Method::POST, "/v1/licenses", Rpc::ApplyLicense, Body::Field("license")),
    route(Method::GET, "/v1/licenses/{name}", Rpc::GetLicense, Body::None),
    route(Method::DELETE, "/v1/licenses/{name}", Rpc::DeleteLicense, Body::None),
    route(Method::GET, "/v1/switches", Rpc::ListSwitches, Body::None),
    route(Method::POST, "/v1/switches", Rpc::ApplySwitch, Body::Field("switch")),
    route(Method::POST, "/v1/switches:join", Rpc::JoinSwitch, Body::Whole),
    route(Method::GET, "/v1/switches/{name}", Rpc::GetSwitch, Body::None),
    route(Method::DELETE, "/v1/switches/{name}", Rpc::DeleteSwitch, Body::None),
    route(Method::GET, "/v1/switches/{name}:render", Rpc::RenderSwitch, Body::None),
    route(Method::POST, "/v1/switches/{name}:createToken", Rpc::CreateSwitchToken, Body::Whole),
    route(Method::GET, "/v1/switch-rollout", Rpc::GetSwitchRollout, Body::None),
    route(Method::POST, "/v1/switch-rollout:apply", Rpc::RollOutSwitches, Body::Whole),
    route(Method::POST, "/v1/switch-rollout:plan", Rpc::PlanSwitches, Body::Whole),
    route(Method::POST, "/v1/switch-rollout:steer", Rpc::ControlSwitchRollout, Body::Whole),
    route(Method::GET, "/v1/webhooks", Rpc::ListWebhooks, Body::None),
    route(Method::POST, "/v1/webhooks", Rpc::ApplyWebhook, Body::Field("webhook")),
    route(Method::GET, "/v1/webhooks/{name}", Rpc::GetWebhook, Body::None),
    route(Method::DELETE, "/v1/webhooks/{name}", Rpc::DeleteWebhook, Body::None),
    route(Method::POST, "/v1/webhooks/{name}:test", Rpc::TestWebhook, Body::Whole),
    route(Method::GET, "/v1/secrets", Rpc::ListSecrets, Body::None),
    route(Method::POST, "/v1/secrets", Rpc::ApplySecret, Body::Field("secret")),
    route(Method::GET, "/v1/secrets/{name}", Rpc::GetSecret, Body::None),
    route(Method::DELETE, "/v1/secrets/{name}", Rpc::DeleteSecret, Body::None),
    route(Method::GET, "/v1/configs", Rpc::ListConfigs, Body::None),
    route(Method::POST, "/v1/configs", Rpc::ApplyConfig, Body::Field("config")),
    route(Method::GET, "/v1/configs/{name}", Rpc::GetConfig, Body::None),
    route(Method::DELETE, "/v1/configs/{name}", Rpc::DeleteConfig, Body::None),
    route(Method::POST, "/v1/certificates", Rpc::IssueCertificate, Body::Whole),
    route(Method::POST, "/v1/tokens", Rpc::IssueToken, Body::Whole),
    route(Method::GET, "/v1/tokens", Rpc::ListTokens, Body::None),
    route(Method::POST, "/v1/revocations", Rpc::Revoke, Body::Whole),
    route(Method::GET, "/v1/revocations", Rpc::ListRevocations, Body::None),
    route(Method::GET, "/v1/whoami", Rpc::WhoAmI, Body::None),
    route(Method::POST, "/v1/jobs", Rpc::CreateJob, Body::Field("job")),
    route(Method::GET, "/v1/jobs", Rpc::ListJobs, Body::None),
    route(Method::GET, "/v1/jobs:watch", Rpc::WatchJobs, Body::None),
    route(Method::POST, "/v1/jobs:plan", Rpc::PlanJob, Body::Field("job")),
    route(Method::GET, "/v1/jobs:usage", Rpc::ListJobUsage, Body::None),
    route(Method::GET, "/v1/usage", Rpc::ListUsageRecords, Body::None),
    route(Method::GET, "/v1/usage:sum", Rpc::SumUsage, Body::None),
    route(Method::GET, "/v1/jobs/{name}", Rpc::GetJob, Body::None),
    route(Method::DELETE, "/v1/jobs/{name}", Rpc::DeleteJob, Body::None),
    route(Method::POST, "/v1/jobs/{name}:cancel", Rpc::CancelJob, Body::Whole),
    route(Method::POST, "/v1/jobs/{name}:hold", Rpc::HoldJob, Body::Whole),
    route(Method::POST, "/v1/jobs/{name}:release", Rpc::ReleaseJob, Body::Whole),
    route(Method::POST, "/v1/jobs/{name}:suspend", Rpc::SuspendJob, Body::Whole),
    route(Method::POST, "/v1/jobs/{name}:resume", Rpc::ResumeJob, Body::Whole),
    route(Method::POST, "/v1/jobs/{name}:requeue", Rpc::RequeueJob, Body::Whole),
    route(Method::POST, "/v1/jobs/{name}:update", Rpc::UpdateJob, Body::Whole),
    route(Method::GET, "/v1/jobs/{name}:explain", Rpc::ExplainJob, Body::None),
    route(Method::GET, "/v1/jobs/{name}/logs", Rpc::StreamLogs, Body::None),
    route(Method::GET, "/v1/deleted", Rpc::ListDeleted, Body::None),
    route(Method::POST, "/v1/deleted:undelete", Rpc::Undelete, Body::Whole),
    route(Method::POST, "/v1/documents:plan", Rpc::PlanDocuments, Body::Whole),
    route(Method::GET, "/v1/audit", Rpc::ListAuditRecords, Body::None),
    route(Method::GET, "/v1/audit:export", Rpc::ExportAuditRecords, Body::None),
    route(Method::GET, "/v1/health", Rpc::GetHealth, Body::None),
    route(Method::POST, "/v1/join", Rpc::Join, Body::Whole),
];

impl Route {
    /// The path without its verb: what an HTTP router sees.
    #[must_use]
    pub fn mount(&self) -> &'static str {
        match (self.path.rfind(':'), self.path.rfind('/')) {
            // A verb after a parameter shares the parameter's route; after a word it is a word of its own.
            (Some(colon), Some(slash)) if colon > slash && self.path[slash..].contains('{') => {
                &self.path[..colon]
            }
            _ => self.path,
        }
    }

    /// The verb that shares a parameter's route, if there is one.
    #[must_use]
    pub fn verb(&self) -> Option<&'static str> {
        self.path.strip_prefix(self.mount()).and_then(|rest| rest.strip_prefix(':'))
    }

    /// The fields that the path carries, in order.
    #[must_use]
    pub fn parameters(&self) -> Vec<&'static str> {
        let named = |segment: &'static str| segment.strip_prefix('{')?.split_once('}').map(|(name, _)| name);
        self.path.split('/').filter_map(named).collect()
    }

    /// The values of `parameters` in a request's path (still percent-encoded); `None` if it is not this route.
    #[must_use]
    pub fn matches<'a>(&self, path: &'a str) -> Option<Vec<&'a str>> {
        let (mut ours, mut theirs) = (self.path.split('/'), path.split('/'));
        let mut values = Vec::new();
        loop {
            match (ours.next(), theirs.next()) {
                (None, None) => return Some(values),
                (Some(our), Some(their)) => match our.strip_prefix('{').and_then(|rest| rest.split_once('}'))
                {
                    None if our == their => {}
                    None => return None,
                    Some((_, verb)) => {
                        let value = their.strip_suffix(verb)?;
                        if value.is_empty() || value.contains(':') {
                            return None;
                        }
                        values.push(value);
                    }
                },
                _ => return None,
            }
        }
    }
}

/// The route of a request; what can be had by GET can be asked for by HEAD. `Err` with the methods that the path has, if it has
/// any.
///
/// # Errors
/// No route has this path, or none with this method.
pub fn find<'a>(method: &Method, path: &'a str) -> Result<(&'static Route, Vec<&'a str>), Vec<Method>> {
    let meant = if *method == Method::HEAD { &Method::GET } else { method };
    let mut others = Vec::new();
    for route in ROUTES {
        if let Some(values) = route.matches(path) {
            if route.method == *meant {
                return Ok((route, values));
            }
            others.push(route.method.clone());
            if route.method == Method::GET {
                others.push(Method::HEAD);
            }
        }
    }
    Err(others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::Access;
    use proto_rpc::Role;

    #[test]
    fn every_path_finds_its_own_route() {
        for route in ROUTES {
            let path = route.path.split('/').map(|segment| match segment.split_once('}') {
                Some((_, verb)) => format!("x-1.y{verb}"),
                None => segment.to_owned(),
            });
            let path = path.collect::<Vec<_>>().join("/");
            let (found, values) = find(&route.method, &path).unwrap();
            assert_eq!((found.rpc, found.path), (route.rpc, route.path), "{path}");
            assert!(values.iter().all(|value| *value == "x-1.y"));
            assert_eq!(values.len(), route.parameters().len());
        }
        assert_eq!(find(&Method::PATCH, "/v1/jobs").unwrap_err(), [Method::POST, Method::GET, Method::HEAD]);
        assert_eq!(find(&Method::HEAD, "/v1/jobs/a").unwrap().0.rpc, Rpc::GetJob);
        assert_eq!(find(&Method::HEAD, "/v1/jobs:plan").unwrap_err(), [Method::POST]);
        for nowhere in
            ["/v1/jobs/", "/v1/jobs/a:b", "/v1/jobs/a:cancel:cancel", "/v1/job", "/v1/jobs/a/b", "/v1"]
        {
            assert!(find(&Method::GET, nowhere).unwrap_err().is_empty(), "{nowhere}");
        }
    }

    #[test]
    fn every_call_that_people_may_make_has_a_route() {
        for rpc in Rpc::ALL.iter().filter(|rpc| rpc.path().starts_with("/rail.v1.")) {
            let agents = [Access::Roles(&[Role::Node]), Access::Roles(&[Role::Switch])];
            let others = agents.contains(&rpc.access()) || rpc.access() == Access::Controllers;
            // HTTP has no call in which both sides go on talking: a step is run by gRPC.
            let others = others || *rpc == Rpc::RunStep;
            assert_ne!(others, ROUTES.iter().any(|route| route.rpc == *rpc), "{rpc}");
        }
    }

    #[test]
    fn verbs_share_the_route_of_their_parameter() {
        let mounts =
            |path: &str| ROUTES.iter().find(|r| r.path == path).map(|r| (r.mount(), r.verb())).unwrap();
        assert_eq!(mounts("/v1/jobs/{name}:cancel"), ("/v1/jobs/{name}", Some("cancel")));
        assert_eq!(mounts("/v1/jobs:plan"), ("/v1/jobs:plan", None));
        assert_eq!(mounts("/v1/nodes/{name}/spec"), ("/v1/nodes/{name}/spec", None));
    }
}
