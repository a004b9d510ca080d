//! What a document makes, as it is shown before and after.

use prost::Message as _;
use proto_rpc::MAX_MESSAGE_BYTES;
use proto_wire::v1;

use crate::{error::Error, render};

/// A document that is longer than what every controller takes in one message, with its cables in lists.
pub fn short(fabric: v1::Fabric) -> v1::Fabric {
    if fabric.encoded_len() <= MAX_MESSAGE_BYTES {
        return fabric;
    }
    let metadata = fabric.metadata.clone();
    // It was checked when it was read.
    match proto_model::Fabric::try_from(fabric.clone()) {
        Ok(whole) => {
            let lists = proto_wire::convert::compact_fabric(&controller_fabric::gather(whole));
            v1::Fabric { metadata, ..lists }
        }
        Err(_) => fabric,
    }
}

/// What a document has made, or would have made: its kind/name, and the whole of it.
pub struct Made {
    /// Kind and name as `-o name` writes them, for example `queue/nlp/research`.
    pub name: String,
    /// The document as the API shows it, in JSON.
    pub value: serde_json::Value,
}

impl Made {
    /// Of a message of this kind.
    ///
    /// # Errors
    /// [`Error::Config`] if the message cannot be written as JSON.
    pub fn new<M: prost::Message>(
        kind: &str,
        metadata: Option<&v1::Metadata>,
        message: &M,
        full_name: &str,
    ) -> Result<Self, Error> {
        let metadata = metadata.cloned().unwrap_or_default();
        let name = match metadata.tenant.as_str() {
            "" => format!("{kind}/{}", metadata.name),
            tenant => format!("{kind}/{tenant}/{}", metadata.name),
        };
        Ok(Self { name, value: render::to_value(message, full_name)? })
    }
}
