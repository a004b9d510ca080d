//! `label`: labels of jobs and servers.

use proto_wire::v1;

use super::{changes, node};
use crate::{
    args::{Label, LabelNoun},
    client::{Api, repeat},
    error::Error,
};

/// `label KIND/NAME KEY=VALUE... KEY-...`.
///
/// # Errors
/// [`Error::Usage`] if nothing is named, or a label is not valid; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn run(args: &Label, api: &Api) -> Result<(), Error> {
    let is_change = |word: &&String| word.contains('=') || word.ends_with('-');
    let (changed, named): (Vec<&String>, Vec<&String>) = args.words.iter().partition(is_change);
    let named: Vec<String> = named.into_iter().cloned().collect();
    let names = args.noun.names(&named)?;
    if names.is_empty() {
        let text = "which one? Write for example `railctl label job/train team=vision`";
        return Err(Error::Usage(text.to_owned()));
    }
    let changed: Vec<String> = changed.into_iter().cloned().collect();
    match args.noun.kind {
        LabelNoun::Node => {
            node::each(&names, async |name: &str| node::label(name, &changed, api).await).await
        }
        LabelNoun::Job => {
            let wrong =
                "write KEY=VALUE to set a label, or KEY- to take it away; `railctl describe job` shows them";
            if changed.is_empty() {
                return Err(Error::Usage(wrong.to_owned()));
            }
            for name in &names {
                job(name, &changed, api).await?;
            }
            Ok(())
        }
    }
}

async fn job(name: &str, changed: &[String], api: &Api) -> Result<(), Error> {
    let (job, elements) = changes::meant(name, api)?;
    let mut request = v1::UpdateJobRequest {
        name: job.name.clone(),
        tenant: job.tenant.clone(),
        elements,
        request_id: changes::request_id(),
        ..v1::UpdateJobRequest::default()
    };
    for text in changed {
        match node::change(text, false)? {
            node::Change::Set(key, value) => {
                drop(request.set_labels.insert(key.to_owned(), value.to_owned()));
            }
            node::Change::Remove(key) => request.remove_labels.push(key.to_owned()),
        }
    }
    repeat(format!("label job `{job}`"), |_| {
        let (mut client, request) = (api.jobs(), request.clone());
        async move { client.update_job(request).await }
    })
    .await?;
    eprintln!("job {job} is labelled");
    Ok(())
}
