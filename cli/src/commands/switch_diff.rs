//! What a rollout would change on switches, from what was read of them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use controller_switch::{
    change::{CONFIG_DB, Change, FRR_CONF, Impact, Settings, changes, worst},
    render,
    state::SwitchState,
};
use serde_json::json;

use super::{
    qos,
    switch_site::{named, several, site, states},
};
use crate::{
    args::{QosOutput, SwitchSource},
    error::Error,
    output::print,
    render::Table,
};

/// `switch diff`.
///
/// # Errors
/// [`Error::File`] or [`Error::Document`] if an input cannot be read; [`Error::NotFound`] for a switch that the document has not;
/// [`Error::Differs`] where anything would change.
pub fn run(name: Option<&str>, source: &SwitchSource, folder: &Path, output: QosOutput) -> Result<(), Error> {
    let site = site(&source.file, &source.hardware)?;
    if let Some(name) = name {
        named(&site, name)?;
    }
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    for (switch, state) in states(&site)?.iter().filter(|(own, _)| name.is_none_or(|name| name == *own)) {
        match answer(folder, switch) {
            Ok(read) => found.push((switch.clone(), changes(&desired(state, read.routed), &read.settings))),
            Err(why) => wrong.push(why.to_string()),
        }
    }
    if !wrong.is_empty() {
        return Err(Error::Document(several(&folder.display().to_string(), &wrong)));
    }
    let differ = found.iter().filter(|(_, all)| !all.is_empty()).count();
    match output {
        QosOutput::Json => {
            print(&qos::json(&found.iter().map(|(name, all)| value(name, all)).collect::<Vec<_>>())?)?
        }
        QosOutput::Table => print(&table(&found))?,
    }
    if differ == 0 {
        return Ok(());
    }
    let most = found.iter().filter_map(|(_, all)| worst(all)).max().unwrap_or(Impact::Hitless);
    Err(Error::Differs(format!("{differ} of {} switches differ; at most: {most}", found.len())))
}

/// Routing is compared where it was read.
fn desired(state: &SwitchState, routed: bool) -> Settings {
    let routing = state.routing.clone().filter(|_| routed);
    Settings { tables: Some(render::sonic::config_db(state)), routing }
}

/// What a switch answered.
struct Answer {
    settings: Settings,
    /// Its routing was read.
    routed: bool,
}

/// What was read of a switch: `DIR/NAME/config_db.json` or `DIR/NAME.json`, and `DIR/NAME/frr.conf`.
fn answer(folder: &Path, name: &str) -> Result<Answer, Error> {
    let places: [PathBuf; 2] = [folder.join(name).join(CONFIG_DB), folder.join(format!("{name}.json"))];
    let path = places.iter().find(|path| path.exists()).unwrap_or(&places[0]);
    let read_file = |path: &Path| fs::read_to_string(path).map_err(|error| Error::file("read", path, error));
    let config = read_file(path)?;
    let frr = folder.join(name).join(FRR_CONF);
    let frr = frr.exists().then(|| read_file(&frr)).transpose()?;
    let files = [(CONFIG_DB, config.as_str())].into_iter().chain(frr.as_deref().map(|text| (FRR_CONF, text)));
    let settings = Settings::from_files(files).map_err(|why| Error::Document(format!("{name}: {why}")))?;
    Ok(Answer { settings, routed: frr.is_some() })
}

fn value(name: &str, all: &[Change]) -> serde_json::Value {
    let one = |change: &Change| {
        json!({
            "file": change.file, "path": change.path, "desired": change.desired, "found": change.found,
            "impact": change.impact.to_string(), "why": change.why,
        })
    };
    json!({
        "name": name, "impact": worst(all).map(|impact| impact.to_string()),
        "changes": all.iter().map(one).collect::<Vec<_>>(),
    })
}

fn table(found: &[(String, Vec<Change>)]) -> String {
    if found.iter().all(|(_, all)| all.is_empty()) {
        return "nothing differs\n".to_owned();
    }
    let mut table = Table::new(["SWITCH", "IMPACT", "SETTING", "DESIRED", "FOUND", "WHY"]);
    for (name, all) in found {
        // The worst first.
        for change in all.iter().rev() {
            let or = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
            table.row(vec![
                name.clone(),
                change.impact.to_string(),
                change.path.clone(),
                or(&change.desired),
                or(&change.found),
                change.why.to_owned(),
            ]);
        }
    }
    table.render("")
}
