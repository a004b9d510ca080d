//! Reservations: servers kept for somebody, or for maintenance.

use proto_wire::v1;

use super::{
    cancel::duration,
    list::{Asked, Found},
};
use crate::{
    args::{Output, Reserve, ReserveCommand},
    client::{Api, once, repeat},
    error::Error,
    output::{now, print},
    render::{self, Kind},
};

/// `reserve create|ls|delete`: servers that are kept for a time to come.
///
/// # Errors
/// [`Error::Usage`] if there is a reservation of that name already; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn run(command: &ReserveCommand, api: &Api) -> Result<(), Error> {
    match command {
        ReserveCommand::Create(args) => create(args, api).await,
        ReserveCommand::Ls(args) => list(&Asked { list: args, names: &[] }, api).await,
        ReserveCommand::Delete { names } => {
            for name in names {
                let request = v1::DeleteReservationRequest { name: name.clone() };
                let doing = format!("delete reservation `{name}`");
                once(doing, api.reservations().delete_reservation(request)).await?;
                eprintln!("reservation {name} is deleted");
            }
            Ok(())
        }
    }
}

async fn create(args: &Reserve, api: &Api) -> Result<(), Error> {
    let known = get(&args.name, api).await;
    if known.is_ok() && !args.dry_run {
        return Err(Error::Usage(format!(
            "there is a reservation `{}` already; `railctl apply -f` changes one",
            args.name
        )));
    }
    let spec = v1::ReservationSpec {
        nodes: args.nodes.clone(),
        count: args.count.unwrap_or(0),
        pods_at_most: args.pods.unwrap_or(0),
        start: Some(args.start.time(now())),
        duration: Some(duration(args.duration)?),
        tenants: args.tenants.clone(),
        maintenance: args.maint,
        reason: args.reason.clone(),
    };
    let metadata = v1::Metadata { name: args.name.clone(), ..v1::Metadata::default() };
    let document = v1::Reservation { metadata: Some(metadata), spec: Some(spec), ..Default::default() };
    let made = apply(format!("reserve `{}`", args.name), document, args.dry_run, api).await?;
    if args.output == Output::Table {
        let done = if args.dry_run { " (dry run)" } else { "" };
        return print(&format!("reservation/{}{done}\n", args.name));
    }
    show(&made, args.output)
}

/// Makes a reservation of a document.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn apply(
    doing: String,
    reservation: v1::Reservation,
    dry_run: bool,
    api: &Api,
) -> Result<v1::Reservation, Error> {
    let request = v1::ApplyReservationRequest { reservation: Some(reservation), dry_run };
    repeat(doing, |_| {
        let (mut client, request) = (api.reservations(), request.clone());
        async move { client.apply_reservation(request).await }
    })
    .await
}

/// Asks for one reservation as it is now.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn get(name: &str, api: &Api) -> Result<v1::Reservation, Error> {
    repeat(format!("get reservation `{name}`"), |_| {
        let request = v1::GetReservationRequest { name: name.to_owned() };
        let mut client = api.reservations();
        async move { client.get_reservation(request).await }
    })
    .await
}

/// One reservation as it was asked for.
///
/// # Errors
/// [`Error::Config`] if it cannot be shown in the format; [`Error::Output`] if standard output cannot be written to.
pub fn show(one: &v1::Reservation, output: Output) -> Result<(), Error> {
    let table = |_| render::reservations(std::slice::from_ref(one), now()).render("");
    print(&render::render(output, one, "rail.v1.Reservation", || vec![name_of(one)], table)?)
}

fn name_of(one: &v1::Reservation) -> String {
    format!("reservation/{}", one.metadata.clone().unwrap_or_default().name)
}

/// `get reservations [NAME...]`: the reservations of the cluster.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn list(asked: &Asked<'_>, api: &Api) -> Result<(), Error> {
    let kind = Kind {
        message: "rail.v1.Reservation",
        name: &name_of,
        table: &|all: &[v1::Reservation], _| render::reservations(all, now()),
        columns: &[],
        slurm: None,
    };
    let one = async |name: &str| get(name, api).await.map(Found::One);
    asked.show(&kind, "reservations", one, async || api.list_reservations().await).await
}
