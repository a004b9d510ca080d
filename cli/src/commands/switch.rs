//! Switches, planned and checked here; a cluster is asked only for what it renders itself.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use controller_switch::{
    asic::Asic,
    bgp, buffer,
    check::{Facts, Verdict, check},
    deadlock::{self, Answer, Limits, Routing},
    explain::explain,
    fabric::Hardware,
    model::{Nos, Peer, Switch},
    read, render,
    state::SwitchState,
};
use serde_json::json;

use super::{
    qos, switch_diff,
    switch_site::{named, of_document, several, site, states, system},
};
use crate::{
    args::{QosOutput, SwitchCommand, SwitchRender, SwitchRouting, SwitchSource},
    error::Error,
    output::print,
    render::Table,
};

/// `switch list|render|explain|check|diff|prove`; `None` for what a controller is to be asked for.
///
/// # Errors
/// [`Error::File`] or [`Error::Document`] if an input cannot be read or has faults; [`Error::NotFound`] for a switch that the document has not;
/// [`Error::Infeasible`] if no configuration can be right; [`Error::Differs`] if what was read, or the fabric, is not.
pub fn offline(command: &SwitchCommand) -> Option<Result<(), Error>> {
    Some(match command {
        SwitchCommand::List { source, output } => list(source, *output),
        SwitchCommand::Render(args) => render(args, args.file.as_deref()?),
        SwitchCommand::Explain { name, source, output } => explained(name, source, *output),
        SwitchCommand::Check { source, read } => checked(source, read),
        SwitchCommand::Diff { name, source, read, output } => {
            switch_diff::run(name.as_deref(), source, read, *output)
        }
        SwitchCommand::Prove { file, routing, failures } => prove(file, *routing, *failures),
        SwitchCommand::Token(_)
        | SwitchCommand::Apply(_)
        | SwitchCommand::Status { .. }
        | SwitchCommand::Pause(_)
        | SwitchCommand::Resume(_)
        | SwitchCommand::Rollback(_)
        | SwitchCommand::Cancel(_) => return None,
    })
}

fn list(source: &SwitchSource, output: QosOutput) -> Result<(), Error> {
    let site = site(&source.file, &source.hardware)?;
    let routing = bgp::plan(&site.switches).map_err(|all| Error::Infeasible(several("routing", &all)))?;
    let mut rows = Vec::new();
    let mut values = Vec::new();
    for switch in &site.switches {
        let Some(bgp) = routing.get(&switch.name) else { continue };
        let rails: Vec<String> = switch.rails.iter().map(ToString::to_string).collect();
        let pod = switch.pod.as_ref().map(ToString::to_string).unwrap_or_default();
        let (asn, loopback) = (bgp.asn.value.to_string(), bgp.loopback.value.to_string());
        values.push(json!({
            "name": switch.name.to_string(), "role": switch.role.to_string(), "rails": switch.rails, "pod": pod,
            "plane": switch.plane, "ports": switch.ports.len(), "loopback": loopback, "asn": bgp.asn.value,
            "asic": switch.asic.to_string(),
        }));
        rows.push(vec![
            switch.name.to_string(),
            switch.role.to_string(),
            rails.join(","),
            pod,
            switch.ports.len().to_string(),
            loopback,
            asn,
            switch.asic.to_string(),
        ]);
    }
    match output {
        QosOutput::Json => print(&qos::json(&values)?),
        QosOutput::Table => {
            let mut table = Table::new(["NAME", "ROLE", "RAILS", "POD", "PORTS", "LOOPBACK", "ASN", "ASIC"]);
            rows.into_iter().for_each(|row: Vec<String>| table.row(row));
            print(&table.render(""))
        }
    }
}

/// Writes the files of a switch into a folder of its own.
///
/// # Errors
/// [`Error::File`] if one cannot be written.
pub fn put(out: &Path, name: &str, files: &[(impl AsRef<str>, String)]) -> Result<(), Error> {
    let folder = out.join(name);
    fs::create_dir_all(&folder).map_err(|error| Error::file("create", &folder, error))?;
    for (file, text) in files {
        let path = folder.join(file.as_ref());
        fs::write(&path, text).map_err(|error| Error::file("write", &path, error))?;
    }
    Ok(())
}

/// What is printed of the files of a switch: the last one is routing.
pub fn shown(files: &[(impl AsRef<str>, String)], routing: bool) -> Option<&str> {
    let shown = if routing { files.last() } else { files.first() };
    shown.map(|(_, text)| text.as_str())
}

fn render(args: &SwitchRender, file: &Path) -> Result<(), Error> {
    let site = site(file, &args.hardware)?;
    if let Some(name) = &args.name {
        named(&site, name)?;
    }
    let states = states(&site)?;
    let wanted = states.iter().filter(|(name, _)| args.name.as_ref().is_none_or(|wanted| wanted == *name));
    let mut written = 0;
    for (name, state) in wanted {
        let files = render::files::files(system(args.hardware.nos), state);
        let files = files.map_err(|error| Error::Document(error.to_string()))?;
        let Some(out) = &args.out else {
            return shown(&files, args.frr).map_or(Ok(()), print);
        };
        put(out, name, &files)?;
        written += 1;
    }
    eprintln!("{written} switches written");
    Ok(())
}

fn explained(name: &str, source: &SwitchSource, output: QosOutput) -> Result<(), Error> {
    let site = site(&source.file, &source.hardware)?;
    let switch = named(&site, name)?;
    let infeasible = |why: &dyn ToString| Error::Infeasible(format!("{name}: {}", why.to_string()));
    let buffers = buffer::plan(switch, &site.profile).map_err(|why| infeasible(&why))?;
    let routing = bgp::plan(&site.switches).map_err(|all| Error::Infeasible(several("routing", &all)))?;
    let Some(bgp) = routing.get(&switch.name) else { return Ok(()) };
    let lines = explain(&site.profile, switch, &buffers, bgp);
    match output {
        QosOutput::Json => {
            let value = |line: &controller_switch::explain::Line| json!({"what": line.what, "value": line.value.value, "source": line.value.source.to_string()});
            print(&qos::json(&lines.iter().map(value).collect::<Vec<_>>())?)
        }
        QosOutput::Table => {
            let row = |line: &controller_switch::explain::Line| {
                vec![line.what.clone(), line.value.value.clone(), line.value.source.to_string()]
            };
            let mut table = Table::new(["WHAT", "VALUE", "SOURCE"]);
            lines.iter().for_each(|line| table.row(row(line)));
            print(&table.render(""))
        }
    }
}

/// What was read of a switch, and its routing where that was read too.
fn answer(folder: &Path, name: &str) -> Result<SwitchState, Error> {
    let places: [PathBuf; 2] =
        [folder.join(name).join("config_db.json"), folder.join(format!("{name}.json"))];
    let found = places.iter().find(|path| path.exists()).unwrap_or(&places[0]);
    let read_file = |path: &Path| fs::read_to_string(path).map_err(|error| Error::file("read", path, error));
    let config = read_file(found)?;
    let frr = folder.join(name).join("frr.conf");
    let frr = frr.exists().then(|| read_file(&frr)).transpose()?;
    let state = read::sonic(&config, frr.as_deref());
    state.map(|found| found.state).map_err(|why| Error::Document(format!("{}: {why}", found.display())))
}

fn checked(source: &SwitchSource, folder: &Path) -> Result<(), Error> {
    let site = site(&source.file, &source.hardware)?;
    let mut facts = Facts::desired(&site.profile, &site.switches, site.model)
        .map_err(|all| Error::Infeasible(several("plan", &all)))?;
    for switch in &site.switches {
        facts.switches.insert(switch.name.clone(), answer(folder, switch.name.as_str())?);
    }
    let verdict = check(&site.profile, &site.switches, &facts);
    match verdict.map_err(|why| Error::Infeasible(why.to_string()))? {
        Verdict::Proof(proof) => print(&format!("{proof}\n")),
        Verdict::Counterexample(found) => Err(Error::Differs(found.to_string().trim_end().to_owned())),
    }
}

fn prove(file: &Path, routing: SwitchRouting, failures: u8) -> Result<(), Error> {
    let hardware =
        |_| Hardware { nos: Nos::Sonic, version: String::new(), asic: Asic::Spectrum4, lanes: 4, cable_m: 5 };
    let all = of_document(file, &hardware)?;
    let fabric = buffers_of(&all).map_err(|why| Error::Document(format!("{}: {why}", file.display())))?;
    let routing = match routing {
        SwitchRouting::UpDown => Routing::UpDown,
        SwitchRouting::Shortest => Routing::Shortest,
        SwitchRouting::Bounce => Routing::Bounce,
    };
    let answer = deadlock::prove(&fabric, routing, Limits { failures, ..Limits::default() });
    match answer {
        Answer::Proof(proof) => {
            let beyond = if proof.valley_free {
                "; no route goes down and up again, so that more failures change nothing"
            } else {
                ""
            };
            print(&format!(
                "lossless traffic never waits for itself: {} sets of at most {failures} failures of {} links and {} switches, of which {} are unlike{beyond}\n",
                proof.covered,
                fabric.links().len(),
                fabric.switches().len(),
                proof.checked
            ))
        }
        Answer::Cycle(cycle) => Err(Error::Differs(cycle.describe(&fabric))),
        Answer::Undecided(proof) => Err(Error::Infeasible(format!(
            "not decided: {} sets of failures are unlike, and more are; none of them has a cycle. Ask for fewer with --failures",
            proof.checked
        ))),
    }
}

fn buffers_of(all: &[Switch]) -> Result<deadlock::Fabric, deadlock::BadFabric> {
    let index: BTreeMap<&str, usize> =
        all.iter().enumerate().map(|(index, switch)| (switch.name.as_str(), index)).collect();
    let mut links = Vec::new();
    for (from, switch) in all.iter().enumerate() {
        for port in &switch.ports {
            if let Peer::Switch { switch: to, .. } = &port.peer {
                links.extend(index.get(to.as_str()).map(|to| (from, *to)));
            }
        }
    }
    let switch = |switch: &Switch| deadlock::Switch {
        name: switch.name.to_string(),
        tier: switch.role.tier(),
        serves: switch.ports.iter().any(|port| matches!(port.peer, Peer::Nic { .. })),
    };
    deadlock::Fabric::new(all.iter().map(switch).collect(), &links, Vec::new())
}
