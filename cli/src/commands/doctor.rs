//! What is wrong with servers, and what mends it.

use super::lookup;
use crate::{
    args::Output,
    client::Api,
    error::Error,
    output::print,
    render::doctor::{faults, lines, render},
};

/// `doctor [NODE...]`. Something that is out of use is exit code 1.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer; [`Error::Differs`] if something is out of use.
pub async fn run(names: &[String], output: Output, api: &Api) -> Result<(), Error> {
    let mut nodes = Vec::new();
    for name in names {
        nodes.push(lookup::node(name, api).await?);
    }
    if names.is_empty() {
        nodes = api.list_nodes().await?.nodes;
    }
    let found = lines(&nodes);
    print(&render(&found, nodes.len(), output))?;
    match faults(&found) {
        0 => Ok(()),
        count => Err(Error::Differs(format!("{} found", proto_model::reason::many(count, "fault")))),
    }
}
