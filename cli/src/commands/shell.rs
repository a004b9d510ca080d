//! What shells and man need; no controller is asked.

use std::path::Path;

use clap::CommandFactory as _;

use crate::{args::Cli, error::Error, output::print_bytes};

/// A completion script on standard output.
pub fn completion(shell: clap_complete::Shell) -> Result<(), Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "railctl", &mut script);
    print_bytes(&script)
}

/// One man page per command.
pub fn man(dir: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(dir).map_err(|error| Error::file("create", dir, error))?;
    let mut root = Cli::command();
    root.build();
    page(&root, "railctl", dir)
}

fn page(command: &clap::Command, name: &str, dir: &Path) -> Result<(), Error> {
    let path = dir.join(format!("{name}.1"));
    let mut text = Vec::new();
    let titled = command.clone().name(name.to_owned());
    let rendered = clap_mangen::Man::new(titled).title(name.to_uppercase()).render(&mut text);
    rendered
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|error| Error::file("write", &path, error))?;
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        page(inner, &format!("{name}-{}", inner.get_name()), dir)?;
    }
    Ok(())
}
