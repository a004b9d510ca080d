//! Secrets and configs made of literals and files.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum CreateCommand {
    /// A secret: values that nobody reads back, for the environment of jobs (`envFrom` with a `secretRef`)
    Secret(CreateValues),
    /// A config: values that everybody of the tenant may read, for the environment of jobs (`envFrom` with a `configRef`)
    Config(CreateValues),
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("values").required(true).multiple(true))]
pub struct CreateValues {
    /// Its name, or TENANT/NAME; one that is there gets these values in place of those that it has
    pub name: String,
    /// A value; others on this machine can see it while the command runs. May be repeated
    #[arg(long, value_name = "KEY=VALUE", group = "values", value_parser = super::interactive::parse_variable)]
    pub from_literal: Vec<(String, String)>,
    /// A value that is the text of a file, under the file's name where there is no key; - reads standard input. May be repeated
    #[arg(long, value_name = "[KEY=]FILE", group = "values")]
    pub from_file: Vec<String>,
    /// A file with a line KEY=VALUE for each value; empty lines and such that begin with # are left out. May be repeated
    #[arg(long, value_name = "FILE", group = "values")]
    pub from_env_file: Vec<PathBuf>,
    /// What it is for
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub description: String,
    /// Only check; nothing is stored
    #[arg(long)]
    pub dry_run: bool,
}
