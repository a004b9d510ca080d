//! Changing what is there in an editor.

use std::{io::Write as _, path::Path, process::Command};

use serde_json::Value;

use super::{
    apply, diff::settled, license, lookup, queue, reserve, schedule, secret, service_class, switches, webhook,
};
use crate::{
    args::{Apply, Edit, EditNoun},
    client::Api,
    documents::Source,
    error::Error,
    output::print,
    render,
};

/// `edit KIND NAME`: what is saved is applied; what is refused is kept in its file.
///
/// # Errors
/// [`Error::Usage`] if not exactly one object is named; [`Error::Config`] if the editor fails; [`Error::Differs`] if somebody else has
/// changed it; [`Error::Rpc`] if the controller refuses or does not answer, or if what was saved is refused.
pub async fn run(args: &Edit, api: &Api) -> Result<(), Error> {
    let names = args.noun.names(&args.name.iter().cloned().collect::<Vec<_>>())?;
    let noun = args.noun.kind;
    let (name, whole) = match names.as_slice() {
        [name] => (name.as_str(), current(noun, name, api).await?),
        [] if noun == EditNoun::Fabric => ("", current(noun, "", api).await?),
        _ => return Err(args.noun.which()),
    };
    let version = version_of(&whole);
    let before = proto_manifest::yaml_of(&settled(whole));
    let failed = |error: std::io::Error| Error::Config(format!("no file can be made to be edited: {error}"));
    let mut file = tempfile::Builder::new().prefix("railctl-").suffix(".yaml").tempfile().map_err(failed)?;
    file.write_all(before.as_bytes()).map_err(failed)?;
    open(file.path())?;
    let source = Source::open(file.path())?;
    if source.text == before.as_bytes() {
        eprintln!("nothing is changed");
        return Ok(());
    }
    let done = put(&source, version, noun, name, args, api).await;
    if done.is_err() {
        // What was written is not lost with what was wrong with it.
        let kept = file.into_temp_path().keep();
        let kept = kept.map_err(|error| Error::Config(format!("the file cannot be kept: {error}")))?;
        eprintln!("what you wrote is in {}; `railctl apply -f` takes it", kept.display());
    }
    done
}

async fn put(
    source: &Source,
    version: u64,
    noun: EditNoun,
    name: &str,
    args: &Edit,
    api: &Api,
) -> Result<(), Error> {
    let documents = source.documents()?;
    if version_of(&current(noun, name, api).await?) != version {
        let text = "it was changed by somebody else meanwhile; `railctl diff -f` shows what differs now";
        return Err(Error::Differs(text.to_owned()));
    }
    let apply =
        Apply { files: Vec::new(), dry_run: false, allow_shrink: args.allow_shrink, reuse_name: false };
    for document in documents {
        let index = document.index;
        let done = apply::one(source, document, &apply, api).await;
        print(&format!("{}\n", done.map_err(|error| source.place(index, error))?))?;
    }
    Ok(())
}

fn version_of(value: &Value) -> u64 {
    value["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Runs the user's editor, and waits for it.
fn open(path: &Path) -> Result<(), Error> {
    let named = ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok());
    let editor = named.filter(|text| !text.trim().is_empty()).unwrap_or_else(|| "vi".to_owned());
    // A command line such as `code --wait`, as other programs read it.
    let status = Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(path).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            Err(Error::Config(format!("the editor `{editor}` ended with {status}: nothing is changed")))
        }
        Err(error) => Err(Error::Config(format!("the editor `{editor}` cannot be run: {error}; see EDITOR"))),
    }
}

/// The whole of what is there.
async fn current(noun: EditNoun, name: &str, api: &Api) -> Result<Value, Error> {
    match noun {
        EditNoun::Fabric => {
            let fabric = lookup::the_fabric(api).await?;
            let there = fabric.metadata.clone().unwrap_or_default().name;
            if !name.is_empty() && name != there {
                let text = format!("there is no fabric `{name}`; the cluster's fabric is `{there}`");
                return Err(Error::NotFound(text));
            }
            render::to_value(&fabric, "rail.v1.Fabric")
        }
        EditNoun::Tenant => render::to_value(&lookup::tenant(name, api).await?, "rail.v1.Tenant"),
        EditNoun::Queue => render::to_value(&queue::get(name, api).await?, "rail.v1.Queue"),
        EditNoun::Reservation => render::to_value(&reserve::get(name, api).await?, "rail.v1.Reservation"),
        EditNoun::Schedule => render::to_value(&schedule::get(name, api).await?, "rail.v1.Schedule"),
        EditNoun::ServiceClass => {
            render::to_value(&service_class::get(name, api).await?, "rail.v1.ServiceClass")
        }
        EditNoun::License => render::to_value(&license::get(name, api).await?, "rail.v1.License"),
        EditNoun::Switch => render::to_value(&switches::get(name, api).await?, "rail.v1.Switch"),
        EditNoun::Config => render::to_value(&secret::config::get(name, api).await?, "rail.v1.Config"),
        EditNoun::Webhook => render::to_value(&webhook::get(name, api).await?, "rail.v1.Webhook"),
    }
}
