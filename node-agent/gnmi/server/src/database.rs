//! The settings, and how a Set changes them: as a JSON patch (RFC 6902), which SONiC's server makes of it.

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

    /// The patch of a Set, as a list of `op`, `path` and `value`. Deletions of what is not there are left out.
    ///
    /// # Errors
    /// A path that is none, or a value that is no JSON.
    pub fn patch(&self, request: &wire::SetRequest) -> Result<Json, Status> {
        let mut steps = Vec::new();
        let mut rest = self.clone();
        for path in &request.delete {
            let names = names(path)?;
            let (last, above) = names.split_last().ok_or(Status::invalid_argument("all of it"))?;
            if rest.object(above).is_some_and(|parent| parent.remove(&raw(last)).is_some()) {
                steps.push(json!({"op": "remove", "path": pointer(&names)}));
            }
        }
        let replaced = request.replace.iter().map(|change| ("replace", change));
        for (op, change) in replaced.chain(request.update.iter().map(|change| ("add", change))) {
            let names = names(change.path.as_ref().ok_or(Status::invalid_argument("no path"))?)?;
            let Some(Wire::JsonIetfVal(bytes)) = change.val.as_ref().and_then(|value| value.value.as_ref())
            else {
                return Err(Status::invalid_argument("Value encoding is not IETF JSON"));
            };
            let value: Json =
                serde_json::from_slice(bytes).map_err(|error| Status::invalid_argument(error.to_string()))?;
            steps.push(json!({"op": op, "path": pointer(&names), "value": value}));
        }
        Ok(Json::Array(steps))
    }

    /// The database after a patch: all of it, or an error and nothing.
    ///
    /// # Errors
    /// A parent that is not there.
    pub fn patched(&self, patch: &Json) -> Result<Self, Status> {
        let mut next = self.clone();
        for step in patch.as_array().into_iter().flatten() {
            let names: Vec<String> =
                step["path"].as_str().unwrap_or_default().split('/').skip(1).map(str::to_owned).collect();
            let (last, above) = names.split_last().ok_or(Status::invalid_argument("all of it"))?;
            let Some(parent) = next.object(above) else {
                return Err(Status::invalid_argument(format!("member '{}' not found", above.join("/"))));
            };
            match step.get("value") {
                Some(value) => parent.insert(raw(last), value.clone()),
                None => parent.remove(&raw(last)),
            };
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

/// The names come escaped, and are joined as they are.
fn pointer(names: &[String]) -> String {
    names.iter().flat_map(|name| ["/", name]).collect()
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
