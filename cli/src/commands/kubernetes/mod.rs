//! `kubernetes`: Railyard beside Kubernetes. `networks` makes the definitions by which Multus brings rails into pods, `names` judges what
//! they are made of, `ranges` the addresses; all three are pure.

mod names;
mod networks;
mod ranges;
#[cfg(test)]
mod tests;

use crate::{
    args::{DocumentFormat, KubernetesCommand},
    client::Api,
    commands::topology,
    error::Error,
    output::print,
};

/// `kubernetes networks`.
///
/// # Errors
/// [`Error::Document`] if the fabric cannot be read, or definitions cannot be made of it and of the options; [`Error::Rpc`] if no controller says
/// what the fabric is.
pub async fn run(command: &KubernetesCommand, api: impl Fn() -> Result<Api, Error>) -> Result<(), Error> {
    let KubernetesCommand::Networks(args) = command;
    let fabric = topology::planned(args.file.as_deref(), &api).await?;
    let made = networks::definitions(&fabric, args);
    let made = made.map_err(|findings| Error::Document(findings.join("\n")))?;
    match args.output {
        DocumentFormat::Yaml => print(&networks::yaml(&made)),
        DocumentFormat::Json => print(&networks::json(&made)),
    }
}
