//! Links of the OpenAPI document: from what makes an object to what can be done with it, and from a page to the next.

use axum::http::Method;
use prost_reflect::MessageDescriptor;
use serde_json::{Map, Value as Json, json};

use crate::rest::{
    routes::{Body, ROUTES, Route},
    transcode::{self, operation_id},
};

/// Where an answer says an object's name and its tenant.
const NAME: &str = "$response.body#/metadata/name";
const TENANT: &str = "$response.body#/metadata/tenant";

/// The links of a route's answer, by the operations that they lead to.
pub fn of(route: &Route, output: &MessageDescriptor) -> Map<String, Json> {
    let mut links = Map::new();
    let is_list = route.method == Method::GET && output.get_field_by_name("next_page_token").is_some();
    if let (true, Some(method)) = (is_list, transcode::method(route.rpc)) {
        let link = json!({
            "operationId": operation_id(&method),
            "parameters": {"query.pageToken": "$response.body#/nextPageToken"},
        });
        links.insert("nextPage".to_owned(), link);
    }
    let makes_one = route.method == Method::POST && matches!(route.body, Body::Field(_));
    if !makes_one || output.get_field_by_name("metadata").is_none() {
        return links;
    }
    let below = format!("{}/{{name}}", route.path);
    for other in ROUTES.iter().filter(|other| other.path.starts_with(&below)) {
        let Some(method) = transcode::method(other.rpc) else { continue };
        let mut link = json!({"operationId": operation_id(&method), "parameters": {"path.name": NAME}});
        let tenant = method.input().get_field_by_name("tenant").is_some();
        match (tenant, other.body) {
            (true, Body::None) => link["parameters"]["query.tenant"] = TENANT.into(),
            (true, _) => link["requestBody"] = json!({"tenant": TENANT}),
            (false, _) => {}
        }
        links.insert(operation_id(&method), link);
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::Rpc;

    #[test]
    fn what_is_made_can_be_read_and_deleted() {
        let links = |rpc: Rpc| {
            let route = ROUTES.iter().find(|route| route.rpc == rpc).unwrap();
            of(route, &transcode::method(rpc).unwrap().output())
        };
        let mut license: Vec<String> = links(Rpc::ApplyLicense).keys().cloned().collect();
        license.sort();
        assert_eq!(license, ["deleteLicense", "getLicense"]);
        let job = links(Rpc::CreateJob);
        assert_eq!(job["getJob"]["parameters"], json!({"path.name": NAME, "query.tenant": TENANT}));
        assert_eq!(job["cancelJob"]["requestBody"], json!({"tenant": TENANT}));
        assert!(links(Rpc::ListJobs).contains_key("nextPage") && links(Rpc::PlanJob).is_empty());
    }
}
