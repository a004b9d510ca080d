//! Licenses: shown, made and removed.

use proto_wire::v1;

use crate::{
    args::Output,
    client::{Api, once, repeat},
    error::Error,
    output::print,
    render,
};

/// Makes a license of a document.
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

/// One license.
pub async fn get(name: &str, api: &Api) -> Result<v1::License, Error> {
    repeat(format!("get license `{name}`"), |_| {
        let (mut client, request) = (api.licenses(), v1::GetLicenseRequest { name: name.to_owned() });
        async move { client.get_license(request).await }
    })
    .await
}

/// `delete license NAME`.
pub async fn delete(name: &str, api: &Api) -> Result<String, Error> {
    let request = v1::DeleteLicenseRequest { name: name.to_owned() };
    once(format!("delete license `{name}`"), api.licenses().delete_license(request)).await?;
    Ok(format!("license {name}"))
}

fn name_of(license: &v1::License) -> String {
    format!("license/{}", license.metadata.clone().unwrap_or_default().name)
}

/// `get licenses [NAME]`.
pub async fn show(name: Option<&String>, output: Output, api: &Api) -> Result<(), Error> {
    if let Some(name) = name {
        let license = get(name, api).await?;
        let table = |_| render::licenses(std::slice::from_ref(&license));
        let names = || vec![name_of(&license)];
        return print(&render::render(output, &license, "rail.v1.License", names, table)?);
    }
    let list = api.list_licenses().await?;
    let all = &list.licenses;
    super::get::nothing(all.is_empty(), output, "licenses");
    let names = || all.iter().map(name_of).collect();
    let table = |_| if all.is_empty() { String::new() } else { render::licenses(all) };
    print(&render::render(output, &list, "rail.v1.ListLicensesResponse", names, table)?)
}
