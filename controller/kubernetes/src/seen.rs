//! An object as it is cached: without the list of who owns which of its fields, which is longer than many an object and which nobody here reads.

use std::{borrow::Cow, ops::Deref};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    core::{DynamicResourceScope, discovery::ApiResource, dynamic::DynamicObject},
};
use serde::{Deserialize, Deserializer};

/// An object without the list of its fields' owners.
#[derive(Debug, Clone)]
pub struct Seen(DynamicObject);

impl<'de> Deserialize<'de> for Seen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = DynamicObject::deserialize(deserializer)?;
        object.metadata.managed_fields = None;
        Ok(Self(object))
    }
}

impl Deref for Seen {
    type Target = DynamicObject;

    fn deref(&self) -> &DynamicObject {
        &self.0
    }
}

impl Resource for Seen {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        DynamicObject::kind(of)
    }

    fn group(of: &ApiResource) -> Cow<'_, str> {
        DynamicObject::group(of)
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        DynamicObject::version(of)
    }

    fn api_version(of: &ApiResource) -> Cow<'_, str> {
        DynamicObject::api_version(of)
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        DynamicObject::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn owners_of_fields_are_not_cached() {
        let json = json!({
            "apiVersion": "railyard.io/v1alpha1", "kind": "RailJob", "spec": {"priority": 1},
            "metadata": {"name": "a", "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]},
        });
        let seen: Seen = serde_json::from_value(json).unwrap();
        assert_eq!(seen.metadata.managed_fields, None);
        assert_eq!((seen.metadata.name.as_deref(), &seen.data["spec"]["priority"]), (Some("a"), &json!(1)));
    }
}
