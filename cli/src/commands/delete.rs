//! Deleting resources.

use proto_wire::v1;

use crate::{
    args::{Delete, DeleteNoun},
    client::{Api, elements, once},
    error::Error,
};

/// `delete KIND NAME...`: all are tried, the first error is given.
pub async fn run(args: &Delete, api: &Api) -> Result<(), Error> {
    if args.noun == DeleteNoun::Fabric {
        once("delete the fabric", api.fabrics().delete_fabric(v1::DeleteFabricRequest {})).await?;
        eprintln!("the fabric is deleted");
        return Ok(());
    }
    if args.names.is_empty() {
        return Err(Error::Usage(
            "name what is to be deleted, for example `railctl delete job NAME`".to_owned(),
        ));
    }
    let mut first = None;
    for name in &args.names {
        match one(args.noun, name, args.force, api).await {
            Ok(what) => eprintln!("{what} is deleted"),
            Err(error) => {
                if let Some(earlier) = first.replace(error) {
                    earlier.lines().iter().for_each(|line| eprintln!("{line}"));
                }
            }
        }
    }
    first.map_or(Ok(()), Err)
}

async fn one(noun: DeleteNoun, name: &str, force: bool, api: &Api) -> Result<String, Error> {
    let name_owned = name.to_owned();
    match noun {
        DeleteNoun::Job => {
            let (name, elements) = elements(name)?;
            let job = api.job_ref(name);
            let request =
                v1::DeleteJobRequest { name: job.name.clone(), tenant: job.tenant.clone(), elements };
            once(format!("delete job `{job}`"), api.jobs().delete_job(request)).await?;
            Ok(format!("job {job}"))
        }
        DeleteNoun::ServiceClass => super::service_class::delete(name, api).await,
        DeleteNoun::Webhook => super::webhook::delete(name, api).await,
        DeleteNoun::License => super::license::delete(name, api).await,
        DeleteNoun::Schedule => super::schedule::delete(name, api).await,
        DeleteNoun::Queue => super::queue::delete(name, api).await,
        DeleteNoun::Reservation => {
            let request = v1::DeleteReservationRequest { name: name_owned };
            let doing = format!("delete reservation `{name}`");
            once(doing, api.reservations().delete_reservation(request)).await?;
            Ok(format!("reservation {name}"))
        }
        DeleteNoun::Tenant => {
            let request = v1::DeleteTenantRequest { name: name_owned };
            once(format!("delete tenant `{name}`"), api.tenants().delete_tenant(request)).await?;
            Ok(format!("tenant {name}"))
        }
        DeleteNoun::Node | DeleteNoun::Fabric => {
            // Forced, it must be this server and not one that joins under its name meanwhile.
            let uid = if force {
                let request = v1::GetNodeRequest { name: name_owned.clone() };
                let node = once(format!("get node `{name}`"), api.nodes().get_node(request)).await?;
                node.metadata.unwrap_or_default().uid
            } else {
                String::new()
            };
            let request = v1::DeleteNodeRequest { name: name_owned, force, uid };
            once(format!("delete node `{name}`"), api.nodes().delete_node(request)).await?;
            Ok(format!("node {name}"))
        }
    }
}
