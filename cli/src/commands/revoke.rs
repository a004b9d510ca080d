//! Taking back certificates and tokens.

use proto_wire::v1;

use super::list;
use crate::{
    args::{Output, RevokeCommand},
    client::{Api, repeat},
    error::Error,
    output::print,
    render,
};

/// `revoke node|user|admin|serial|ls`: takes credentials back before they end.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn run(command: &RevokeCommand, api: &Api) -> Result<(), Error> {
    let (subject, how) = match command {
        RevokeCommand::Ls { output } => return list(*output, api).await,
        RevokeCommand::Node { name, how } => (format!("node/{name}"), how),
        RevokeCommand::Admin { name, how } => (format!("admin/{name}"), how),
        RevokeCommand::Serial { serial, how } => (format!("serial/{serial}"), how),
        RevokeCommand::User { name, how } => (format!("tenant/{}/user/{name}", tenant(api).await?), how),
    };
    let request = v1::RevokeRequest { subject: subject.clone(), reason: how.reason.clone() };
    // Repeated, it only takes back a little more.
    let revoked = repeat(format!("revoke `{subject}`"), |_| {
        let (mut client, request) = (api.tenants(), request.clone());
        async move { client.revoke(request).await }
    })
    .await?;
    if how.output == Output::Table {
        eprintln!("{}", reported(command));
    }
    let names = || vec![revoked.subject.clone()];
    let table = |_| format!("{}\n", revoked.subject);
    print(&render::render(how.output, &revoked, "rail.v1.Revocation", names, table)?)
}

fn reported(command: &RevokeCommand) -> String {
    match command {
        RevokeCommand::Node { name, .. } => format!(
            "node {name} is refused from now on, its jobs are not ended; `railctl node token {name}` lets it join anew"
        ),
        _ => "refused from now on; what is issued anew is good".to_owned(),
    }
}

/// The tenant that is named, or the caller's own.
async fn tenant(api: &Api) -> Result<String, Error> {
    if !api.tenant.is_empty() {
        return Ok(api.tenant.clone());
    }
    let me = repeat("ask who we are", |_| {
        let mut client = api.tenants();
        async move { client.who_am_i(v1::WhoAmIRequest {}).await }
    })
    .await?;
    if me.tenant.is_empty() {
        return Err(Error::Usage("say of which tenant the user is: --tenant TENANT".to_owned()));
    }
    Ok(me.tenant)
}

async fn list(output: Output, api: &Api) -> Result<(), Error> {
    let list = repeat("list revocations", |_| {
        let mut client = api.tenants();
        async move { client.list_revocations(v1::ListRevocationsRequest {}).await }
    })
    .await?;
    let all = &list.revocations;
    list::nothing(all.is_empty(), output, "revocations");
    let names = || all.iter().map(|one| one.subject.clone()).collect();
    let table = |_| if all.is_empty() { String::new() } else { render::revocations(all) };
    print(&render::render(output, &list, "rail.v1.ListRevocationsResponse", names, table)?)
}
