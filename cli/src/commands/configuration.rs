//! Showing and changing railctl's own configuration.

use crate::{
    args::ConfigCommand,
    config::{ConfigFile, Environment},
    error::Error,
    output::print,
};

/// `config view` and `config use`.
pub fn run(command: &ConfigCommand, env: &Environment) -> Result<(), Error> {
    let path = env.config_path();
    let file = ConfigFile::load(path.as_deref())?;
    match (command, path) {
        (ConfigCommand::View, path) => {
            match path.filter(|path| path.exists()) {
                Some(path) => eprintln!("# {}", path.display()),
                None => eprintln!("# there is no configuration file yet"),
            }
            print(&file.redacted().to_yaml())
        }
        (ConfigCommand::Use { name }, Some(path)) => {
            if !file.contexts.contains_key(name) {
                return Err(Error::NotFound(file.unknown_context(name)));
            }
            ConfigFile::update(&path, |file| file.current_context = Some(name.clone()))?;
            eprintln!("context `{name}` is current");
            Ok(())
        }
        (ConfigCommand::Use { .. }, None) => {
            Err(Error::Config("neither HOME nor RAIL_CONFIG is set".to_owned()))
        }
    }
}
