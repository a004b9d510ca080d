//! Things of the cluster as they are now, by their names.

use proto_model::{Names, many};
use proto_wire::v1;

use crate::{
    client::{Api, repeat},
    error::Error,
};

/// Servers that one command names at most.
pub(crate) const NODES_MAX: usize = 10_000;

/// Names of servers, of which each may stand for many: `n[0-7]`.
///
/// # Errors
/// A list that is not one, or that is too long.
pub fn node_names(texts: &[String]) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for text in texts {
        let list = Names::new(text).map_err(|error| Error::Usage(format!("`{text}`: {error}")))?;
        if names.len() + list.len() > NODES_MAX {
            return Err(Error::Usage(format!("`{text}` names more than {}", many(NODES_MAX, "server"))));
        }
        for name in list.iter() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    Ok(names)
}

/// Asks for one node as it is now.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn node(name: &str, api: &Api) -> Result<v1::Node, Error> {
    repeat(format!("get node `{name}`"), |_| {
        let (mut client, request) = (api.nodes(), v1::GetNodeRequest { name: name.to_owned() });
        async move { client.get_node(request).await }
    })
    .await
}

/// Asks for one tenant as it is now.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn tenant(name: &str, api: &Api) -> Result<v1::Tenant, Error> {
    repeat(format!("get tenant `{name}`"), |_| {
        let (mut client, request) = (api.tenants(), v1::GetTenantRequest { name: name.to_owned() });
        async move { client.get_tenant(request).await }
    })
    .await
}

/// Asks for the fabric document of the cluster.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer; a cluster without a fabric is such a refusal.
pub async fn the_fabric(api: &Api) -> Result<v1::Fabric, Error> {
    repeat("get the fabric", |_| {
        let mut client = api.fabrics();
        async move { client.get_fabric(v1::GetFabricRequest {}).await }
    })
    .await
}

/// Who the caller is to the controller.
pub(crate) async fn identity(api: &Api) -> Result<v1::WhoAmIResponse, Error> {
    repeat("ask who we are", |_| {
        let mut client = api.tenants();
        async move { client.who_am_i(v1::WhoAmIRequest {}).await }
    })
    .await
}
