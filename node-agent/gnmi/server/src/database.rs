//! The settings, and how a Set changes them.

use node_agent_gnmi::wire::{self, typed_value::Value as Wire};
use serde_json::{Map, Value as Json, json};
use tonic::Status;

/// `CONFIG_DB`: tables of entries of fields.
#[derive(Debug, Clone, PartialEq)]
pub struct Database(pub Json);

impl Database {
    /// What stands at these names, which are below `CONFIG_DB/localhost`; nothing is an empty object.
    #[must_use]
    pub fn at(&self, names: &[String]) -> Json {
        let found = names.iter().try_fold(&self.0, |tree, name| tree.get(raw(name)));
        found.cloned().unwrap_or(json!({}))
    }

    /// The database after a Set: all of it, or an error and nothing.
    ///
    /// # Errors
    /// A path that is none, a value that is no JSON, or a parent that is not there (RFC 6902, 4.1).
    pub fn changed(&self, request: wire::SetRequest) -> Result<Self, Status> {
        let mut next = self.clone();
        for path in &request.delete {
            let names = names(path)?;
            let (last, above) = names.split_last().ok_or(Status::invalid_argument("all of it"))?;
            if let Some(parent) = next.object(above) {
                parent.remove(&raw(last));
            }
        }
        for change in request.replace.into_iter().chain(request.update) {
            let names = names(change.path.as_ref().ok_or(Status::invalid_argument("no path"))?)?;
            let Some(Wire::JsonIetfVal(bytes)) = change.val.and_then(|value| value.value) else {
                return Err(Status::invalid_argument("Value encoding is not IETF JSON"));
            };
            let value = serde_json::from_slice(&bytes)
                .map_err(|error| Status::invalid_argument(error.to_string()))?;
            let (last, above) = names.split_last().ok_or(Status::invalid_argument("all of it"))?;
            let Some(parent) = next.object(above) else {
                return Err(Status::invalid_argument(format!("member '{}' not found", above.join("/"))));
            };
            parent.insert(raw(last), value);
        }
        // SONiC has no table without entries.
        let tables = next.0.as_object_mut().ok_or(Status::internal("no tables"))?;
        tables.retain(|_, table| table.as_object().is_none_or(|table| !table.is_empty()));
        Ok(next)
    }

    fn object(&mut self, names: &[String]) -> Option<&mut Map<String, Json>> {
        names.iter().try_fold(&mut self.0, |tree, name| tree.get_mut(raw(name)))?.as_object_mut()
    }
}

/// A name without the escapes of a JSON pointer.
fn raw(name: &str) -> String {
    name.replace("~1", "/").replace("~0", "~")
}

/// The names of a path below `CONFIG_DB/localhost`.
///
/// # Errors
/// It is another path.
pub fn names(path: &wire::Path) -> Result<Vec<String>, Status> {
    let names: Vec<String> = path.elem.iter().map(|elem| elem.name.clone()).collect();
    match names.as_slice() {
        [db, host, rest @ ..] if path.origin == "sonic-db" && db == "CONFIG_DB" && host == "localhost" => {
            Ok(rest.to_vec())
        }
        _ => Err(Status::not_found(format!("{}:{}", path.origin, names.join("/")))),
    }
}
