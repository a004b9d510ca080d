//! Secrets and configs made of literals and files.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use proto_wire::v1;

use super::values;

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
    #[arg(long, value_name = "KEY=VALUE", group = "values", value_parser = values::parse_variable)]
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

/// Reads `[NAME=]secret/OBJECT[:KEY]`, or the same of a config.
pub fn parse_env_from(text: &str) -> Result<v1::EnvSource, String> {
    use v1::env_source::Source;
    let wrong = || format!("`{text}`: write [NAME=]secret/OBJECT[:KEY] or [NAME=]config/OBJECT[:KEY]");
    let (name, from) = text.split_once('=').unwrap_or(("", text));
    let (kind, from) = from.split_once('/').ok_or_else(wrong)?;
    let (object, key) = from.split_once(':').unwrap_or((from, ""));
    let reference = v1::DataRef { name: object.to_owned(), key: key.to_owned() };
    let source = match kind {
        _ if object.is_empty() => return Err(wrong()),
        "secret" => Source::SecretRef(reference),
        "config" => Source::ConfigRef(reference),
        _ => return Err(wrong()),
    };
    Ok(v1::EnvSource { name: name.to_owned(), source: Some(source) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_variables_come_from_is_read() {
        use v1::env_source::Source::{ConfigRef, SecretRef};
        let of = |name: &str, key: &str| v1::DataRef { name: name.into(), key: key.into() };
        for (text, name, source) in [
            ("secret/s3", "", SecretRef(of("s3", ""))),
            ("secret/s3:KEY", "", SecretRef(of("s3", "KEY"))),
            ("MODE=config/train:wandb.mode", "MODE", ConfigRef(of("train", "wandb.mode"))),
        ] {
            let expected = v1::EnvSource { name: name.into(), source: Some(source) };
            assert_eq!(parse_env_from(text), Ok(expected));
        }
        for wrong in ["s3", "secret/", "secret/:KEY", "vault/s3", "A=s3"] {
            assert!(
                parse_env_from(wrong).unwrap_err().contains("write [NAME=]secret/OBJECT[:KEY]"),
                "{wrong}"
            );
        }
    }
}
