//! Licenses: shown, made and removed.

use proto_wire::v1;

use super::list::{Asked, Found};
use crate::{
    client::{Api, once, repeat},
    error::Error,
    render::{self, Kind},
};

/// Makes a license of a document.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn apply(
    doing: String,
    license: v1::License,
    dry_run: bool,
    api: &Api,
) -> Result<v1::License, Error> {
    let request = v1::ApplyLicenseRequest { license: Some(license), dry_run };
    repeat(doing, |_| {
        let (mut client, request) = (api.licenses(), request.clone());
        async move { client.apply_license(request).await }
    })
    .await
}

/// Asks for one license as it is now.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn get(name: &str, api: &Api) -> Result<v1::License, Error> {
    repeat(format!("get license `{name}`"), |_| {
        let (mut client, request) = (api.licenses(), v1::GetLicenseRequest { name: name.to_owned() });
        async move { client.get_license(request).await }
    })
    .await
}

/// `delete license NAME`; gives what was deleted, for the message.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn delete(name: &str, api: &Api) -> Result<String, Error> {
    let request = v1::DeleteLicenseRequest { name: name.to_owned() };
    once(format!("delete license `{name}`"), api.licenses().delete_license(request)).await?;
    Ok(format!("license {name}"))
}

fn name_of(license: &v1::License) -> String {
    format!("license/{}", license.metadata.clone().unwrap_or_default().name)
}

/// `get licenses [NAME...]`: the licenses of the cluster.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn show(asked: &Asked<'_>, api: &Api) -> Result<(), Error> {
    let kind = Kind {
        message: "rail.v1.License",
        name: &name_of,
        table: &|all: &[v1::License], _| render::licenses(all),
        columns: &[],
        slurm: None,
    };
    let one = async |name: &str| get(name, api).await.map(Found::One);
    asked.show(&kind, "licenses", one, async || api.list_licenses().await).await
}
