//! `rail-yang MODELS`: config_db.json against SONiC's own YANG models, in the folder `src/sonic-yang-models` of its sources.
//!
//! Reads a configuration a line, `{"name": NAME, "config": {TABLE: {KEY: {FIELD: VALUE}}}}`, and answers each with a line, `{"name": NAME, "faults":
//! [TEXT]}`: what the models have no place for, or else the first thing that they refuse. It begins with `{"models": COUNT}`. Exit status: 0 all was
//! answered, 1 the models cannot be loaded, or a line is none of these.

mod models;
mod translate;

use std::{
    collections::BTreeMap,
    io::{BufRead as _, Write as _},
    path::Path,
    process::ExitCode,
};

use serde_json::{Map, Value, json};
use yang3::{
    context::Context,
    data::{DataFormat, DataParserFlags, DataTree, DataValidationFlags},
    schema::SchemaNode,
};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let (Some(folder), None) = (args.next(), args.next()) else {
        eprintln!(
            "usage: rail-yang MODELS < CONFIGURATIONS; MODELS is src/sonic-yang-models of sonic-net/sonic-buildimage"
        );
        return ExitCode::from(2);
    };
    match run(Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("rail-yang: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(folder: &Path) -> Result<(), String> {
    let context = models::load(folder)?;
    let tables = models::tables(&context);
    let mut output = std::io::stdout().lock();
    let mut answer = |answer: &Value| {
        writeln!(output, "{answer}")
            .and_then(|()| output.flush())
            .map_err(|error| format!("nobody reads the answers: {error}"))
    };
    answer(&json!({"models": context.modules(true).count()}))?;
    for (at, line) in (1..).zip(std::io::stdin().lock().lines()) {
        let line = line.map_err(|error| format!("line {at}: {error}"))?;
        let (name, config) = configuration(&line).map_err(|why| format!("line {at}: {why}"))?;
        answer(&json!({"name": name, "faults": faults(&context, &tables, &config)}))?;
    }
    Ok(())
}

fn configuration(line: &str) -> Result<(Value, Map<String, Value>), String> {
    let mut value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    match value["config"].take() {
        Value::Object(config) => Ok((value["name"].take(), config)),
        _ => Err("a configuration is {\"name\": NAME, \"config\": {TABLE: ROWS}}".to_owned()),
    }
}

/// What is wrong with a configuration; nothing if it is valid.
fn faults(
    context: &Context,
    tables: &BTreeMap<String, SchemaNode<'_>>,
    config: &Map<String, Value>,
) -> Vec<String> {
    let translated = translate::config_db(tables, config);
    if !translated.faults.is_empty() {
        return translated.faults;
    }
    let (strict, all) = (DataParserFlags::STRICT | DataParserFlags::NO_STATE, DataValidationFlags::NO_STATE);
    match DataTree::parse_string(context, &translated.xml, DataFormat::XML, strict, all) {
        Ok(_) => Vec::new(),
        Err(error) => {
            let at = error.path.as_deref().map_or_else(String::new, |path| format!("{path}: "));
            vec![format!("{at}{error}")]
        }
    }
}
