//! Bringing back what was deleted.

use proto_wire::v1;

use crate::{
    args::{Undelete, UndeleteNoun},
    client::{Api, once, repeat},
    error::Error,
    output::print,
    render,
};

/// `undelete KIND NAME...`, `undelete --list`.
///
/// # Errors
/// [`Error::Usage`] if nothing is named; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn run(args: &Undelete, api: &Api) -> Result<(), Error> {
    let Some(noun) = &args.noun else { return list(args, api).await };
    let names = noun.names(&args.names)?;
    if names.is_empty() {
        return Err(noun.which());
    }
    for name in names {
        one(noun.kind, name, args, api).await?;
    }
    Ok(())
}

async fn list(args: &Undelete, api: &Api) -> Result<(), Error> {
    let all = repeat("list what was deleted", |_| {
        let mut client = api.deleted();
        async move { client.list_deleted(v1::ListDeletedRequest {}).await }
    })
    .await?;
    let names = || all.deleted.iter().map(|one| format!("{}/{}", one.kind, one.name)).collect();
    let table = |_| render::deleted(&all.deleted);
    print(&render::render(args.output, &all, "rail.v1.ListDeletedResponse", names, table)?)
}

async fn one(noun: UndeleteNoun, name: String, args: &Undelete, api: &Api) -> Result<(), Error> {
    let kind = match noun {
        UndeleteNoun::Tenant => "tenant",
        UndeleteNoun::Fabric => "fabric",
    };
    let (doing, what) = (format!("bring {kind} `{name}` back"), format!("{kind}/{name}"));
    let request = v1::UndeleteRequest { kind: kind.to_owned(), name, dry_run: args.dry_run };
    let back = once(doing, api.deleted().undelete(request)).await?;
    let restored = back.restored.unwrap_or_default();
    let with = render::deleted_content(&restored);
    let with = if with.is_empty() { String::new() } else { format!(" with {}", with.join(", ")) };
    let done = if args.dry_run { "would be back" } else { "is back" };
    print(&format!("{what} {done}{with}{}\n", if args.dry_run { " (dry run)" } else { "" }))?;
    for note in back.notes {
        eprintln!("note: {note}");
    }
    if restored.schedules > 0 {
        eprintln!("note: its schedules come back suspended; whoever applies one lets it go on");
    }
    if noun == UndeleteNoun::Tenant && !args.dry_run {
        eprintln!(
            "note: credentials that were issued before it was deleted stay refused; give its people new ones"
        );
    }
    Ok(())
}
