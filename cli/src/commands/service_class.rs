//! Service classes: shown, made and removed.

use proto_wire::v1;

use super::list::{Asked, Found};
use crate::{
    client::{Api, once, repeat},
    error::Error,
    render::{self, Kind},
};

/// Makes a service class of a document.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn apply(
    doing: String,
    class: v1::ServiceClass,
    dry_run: bool,
    api: &Api,
) -> Result<v1::ServiceClass, Error> {
    let request = v1::ApplyServiceClassRequest { service_class: Some(class), dry_run };
    repeat(doing, |_| {
        let (mut client, request) = (api.service_classes(), request.clone());
        async move { client.apply_service_class(request).await }
    })
    .await
}

/// Asks for one service class as it is now.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn get(name: &str, api: &Api) -> Result<v1::ServiceClass, Error> {
    repeat(format!("get service class `{name}`"), |_| {
        let request = v1::GetServiceClassRequest { name: name.to_owned() };
        let mut client = api.service_classes();
        async move { client.get_service_class(request).await }
    })
    .await
}

/// `delete service-class NAME`; gives what was deleted, for the message.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn delete(name: &str, api: &Api) -> Result<String, Error> {
    let request = v1::DeleteServiceClassRequest { name: name.to_owned() };
    let doing = format!("delete service class `{name}`");
    once(doing, api.service_classes().delete_service_class(request)).await?;
    Ok(format!("service class {name}"))
}

fn name_of(class: &v1::ServiceClass) -> String {
    format!("service-class/{}", class.metadata.clone().unwrap_or_default().name)
}

/// `get service-classes [NAME...]`: the service classes of the cluster.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn show(asked: &Asked<'_>, api: &Api) -> Result<(), Error> {
    let kind = Kind {
        message: "rail.v1.ServiceClass",
        name: &name_of,
        table: &|all: &[v1::ServiceClass], _| render::service_classes(all),
        columns: &[],
        slurm: None,
    };
    let one = async |name: &str| get(name, api).await.map(Found::One);
    asked.show(&kind, "service classes", one, async || api.list_service_classes().await).await
}
