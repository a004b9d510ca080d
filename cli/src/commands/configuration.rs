//! Showing and changing railctl's own configuration.

use std::path::{Path, PathBuf};

use crate::{
    args::{ConfigCommand, Global},
    config::{ConfigFile, Environment},
    error::Error,
    output::print,
    render,
};

/// `config ...`: shows and changes railctl's configuration file.
///
/// # Errors
/// [`Error::Config`] if the file cannot be read or written, or has no such context.
pub fn run(command: &ConfigCommand, global: &Global, env: &Environment) -> Result<(), Error> {
    let path = env.config_path();
    let file = ConfigFile::load(path.as_deref())?;
    let there =
        || path.clone().ok_or_else(|| Error::Config("neither HOME nor RAIL_CONFIG is set".to_owned()));
    match command {
        ConfigCommand::View => {
            match path.filter(|path| path.exists()) {
                Some(path) => eprintln!("# {}", path.display()),
                None => eprintln!("# there is no configuration file yet"),
            }
            print(&file.redacted().to_yaml())
        }
        ConfigCommand::GetContexts => contexts(&file),
        ConfigCommand::CurrentContext => match &file.current_context {
            Some(name) => print(&format!("{name}\n")),
            None => {
                Err(Error::NotFound("no context is current; `railctl config use NAME` makes one".to_owned()))
            }
        },
        ConfigCommand::Use { name } => {
            let path = there()?;
            known(&file, name)?;
            ConfigFile::update(&path, |file| file.current_context = Some(name.clone()))?;
            eprintln!("context `{name}` is current");
            Ok(())
        }
        ConfigCommand::SetContext { name, current } => set(&there()?, name, *current, global),
        ConfigCommand::DeleteContext { name } => {
            let path = there()?;
            known(&file, name)?;
            ConfigFile::update(&path, |file| {
                file.contexts.remove(name);
                file.current_context.take_if(|current| current == name);
            })?;
            eprintln!("context `{name}` is removed");
            Ok(())
        }
    }
}

fn known(file: &ConfigFile, name: &str) -> Result<(), Error> {
    match file.contexts.contains_key(name) {
        true => Ok(()),
        false => Err(Error::NotFound(file.unknown_context(name))),
    }
}

/// A table of what is in the file.
fn contexts(file: &ConfigFile) -> Result<(), Error> {
    if file.contexts.is_empty() {
        eprintln!("no contexts; `railctl config set-context` makes one");
        return Ok(());
    }
    let mut table = render::Table::new(["CURRENT", "CONTEXT", "CONTROLLER", "AS", "TENANT"]);
    for (name, context) in &file.contexts {
        let current = file.current_context.as_ref() == Some(name);
        let who = match (&context.cert, &context.token) {
            (Some(path), _) => path.display().to_string(),
            (None, Some(_)) => "(token)".to_owned(),
            (None, None) => String::new(),
        };
        let mark = if current { "*" } else { "" };
        let tenant = context.tenant.clone().unwrap_or_default();
        table.row([mark.to_owned(), name.clone(), context.controller.join(","), who, tenant]);
    }
    print(&table.render(""))
}

/// Makes or changes a context; files are written as absolute paths, for the file is read from anywhere.
///
/// # Errors
/// [`Error::Usage`] if a file that is named is not there; [`Error::Config`] or [`Error::File`] if the configuration cannot be written.
pub fn set(path: &Path, name: &str, current: bool, global: &Global) -> Result<(), Error> {
    let absolute = |file: &Option<PathBuf>| {
        let made = file.as_ref().map(std::path::absolute).transpose();
        made.map_err(|error| Error::Usage(format!("a path of the context cannot be made absolute: {error}")))
    };
    let (ca, cert, key) = (absolute(&global.ca)?, absolute(&global.cert)?, absolute(&global.key)?);
    if let Some(file) = [&ca, &cert, &key].into_iter().flatten().find(|file| !file.exists()) {
        return Err(Error::Usage(format!("there is no file {}", file.display())));
    }
    for endpoint in &global.controller {
        endpoint
            .parse::<proto_rpc::Endpoint>()
            .map_err(|error| Error::Usage(format!("--controller `{endpoint}`: {error}")))?;
    }
    // A token is given as it is, or by the file that holds it.
    let token = match &global.token {
        Some(text) if Path::new(text).is_file() => {
            absolute(&Some(text.into()))?.map(|file| file.display().to_string())
        }
        other => other.clone(),
    };
    let mut made = false;
    ConfigFile::update(path, |file| {
        made = !file.contexts.contains_key(name);
        let context = file.contexts.entry(name.to_owned()).or_default();
        if !global.controller.is_empty() {
            context.controller.clone_from(&global.controller);
        }
        let given = |place: &mut Option<PathBuf>, file: Option<PathBuf>| *place = file.or(place.take());
        given(&mut context.ca, ca);
        // Whoever gives one kind of credential means that one.
        if cert.is_some() {
            (context.token, context.oidc) = (None, None);
        }
        given(&mut context.cert, cert);
        given(&mut context.key, key);
        if token.is_some() {
            context.token = token;
            (context.cert, context.key, context.oidc) = (None, None, None);
        }
        if global.tenant.is_some() {
            context.tenant.clone_from(&global.tenant);
        }
        if current || file.current_context.is_none() {
            file.current_context = Some(name.to_owned());
        }
    })?;
    eprintln!("context `{name}` is {}", if made { "made" } else { "changed" });
    Ok(())
}
