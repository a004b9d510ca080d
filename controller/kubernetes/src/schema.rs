//! Structural schemas, as CustomResourceDefinitions hold them, of messages of `rail.v1`. [pure]
//!
//! They are made as the OpenAPI document is, of descriptors and of what the schema's options allow of each field. What Kubernetes' schemas do not have
//! (references, properties of names, unique items of objects) Railyard itself still refuses.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor};
use proto_wire::{
    json_schema as bounds,
    rules::{Said, ValueRules, oneof_is_required},
};
use serde_json::{Map, Value as Json, json};

/// Formats that API servers know.
const FORMATS: [&str; 6] = ["int32", "int64", "float", "double", "byte", "date-time"];
/// Messages within messages: deeper than any of the schema that is in no circle.
const DEEPEST: usize = 16;
/// How often a message is within itself: a term of a selector that is one of several. Railyard refuses a further one.
const SELVES: usize = 1;

/// The schema of a message, without these of its fields (by their names in JSON).
#[must_use]
pub fn object(message: &MessageDescriptor, without: &[&str]) -> Json {
    Context { depth: 0, in_list: false, within: &[] }.object(message, without)
}

/// Where a schema stands in another.
#[derive(Clone, Copy)]
struct Context<'a> {
    depth: usize,
    /// The messages that it is in.
    within: &'a [String],
    /// Below a list or a map: there an expression would be counted for as many entries as fit into a request.
    in_list: bool,
}

impl Context<'_> {
    fn object(self, message: &MessageDescriptor, without: &[&str]) -> Json {
        if self.depth > DEEPEST {
            return json!({"type": "object"});
        }
        let (mut properties, mut required) = (Map::new(), Vec::new());
        let within: Vec<String> =
            self.within.iter().cloned().chain([message.full_name().to_owned()]).collect();
        let is_too_deep = |field: &FieldDescriptor| match field.kind() {
            Kind::Message(of) => within.iter().filter(|name| *name == of.full_name()).count() > SELVES,
            _ => false,
        };
        let inside = Context { within: &within, ..self };
        for field in message.fields().filter(|field| !without.contains(&field.json_name())) {
            if is_too_deep(&field) {
                continue;
            }
            let rules = bounds::of(&field);
            if rules.said == Said::ByAnswers {
                continue;
            }
            let mut schema = inside.field(&field);
            let comment = bounds::comment(&field.parent_file(), field.path());
            if !comment.is_empty() {
                schema["description"] = comment.into();
            }
            if rules.must_be_given(&field) {
                required.push(field.json_name().to_owned());
            }
            properties.insert(field.json_name().to_owned(), schema);
        }
        let mut schema = json!({"type": "object", "properties": properties});
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        for oneof in message.oneofs().filter(oneof_is_required) {
            self.one_of(&mut schema, &oneof);
        }
        schema
    }

    /// That exactly one of these fields is given.
    fn one_of(self, schema: &mut Json, oneof: &OneofDescriptor) {
        let names: Vec<String> = oneof.fields().map(|field| field.json_name().to_owned()).collect();
        if self.in_list {
            schema["oneOf"] = names.iter().map(|name| json!({"required": [name]})).collect();
            return;
        }
        let given: Vec<String> = names.iter().map(|name| format!("has(self.{name})")).collect();
        schema["x-kubernetes-validations"] = json!([{
            "rule": format!("[{}].exists_one(given, given)", given.join(", ")),
            "message": format!("exactly one of {} must be given", names.join(", ")),
        }]);
    }

    fn field(self, field: &FieldDescriptor) -> Json {
        let rules = bounds::of(field);
        let inner = Self { in_list: true, ..self };
        let mut schema = match (&rules.value, field.kind()) {
            (value, Kind::Message(entry)) if field.is_map() => {
                let each = entry.map_entry_value_field();
                let mut single = inner.single(&each.kind());
                if let ValueRules::Map { values, .. } = value {
                    limit(&mut single, &each.kind(), |schema| bounds::limit(schema, values, &each.kind()));
                }
                json!({"type": "object", "additionalProperties": single})
            }
            (value, kind) if field.is_list() => {
                let mut single = inner.single(&kind);
                if let ValueRules::List { items, .. } = value {
                    limit(&mut single, &kind, |schema| bounds::limit(schema, items, &kind));
                }
                json!({"type": "array", "items": single})
            }
            (_, kind) => {
                let mut single = self.single(&kind);
                limit(&mut single, &kind, |schema| bounds::limit(schema, &rules, &kind));
                return single;
            }
        };
        bounds::limit_entries(&mut schema, &rules);
        let entries = schema.as_object_mut();
        if let Some(entries) = entries {
            entries.remove("propertyNames");
            // Entries that are objects may not be a set here.
            if entries.remove("uniqueItems").is_some() && !matches!(field.kind(), Kind::Message(_)) {
                entries.insert("x-kubernetes-list-type".to_owned(), "set".into());
            }
        }
        schema
    }

    fn single(self, kind: &Kind) -> Json {
        match kind {
            Kind::Message(message) => match bounds::well_known(message.full_name()) {
                Some(schema) => plain(schema),
                None => Self { depth: self.depth + 1, ..self }.object(message, &[]),
            },
            Kind::Enum(of) => json!({"type": "string", "enum": bounds::names(of)}),
            // People write them as numbers; a text holds all of them.
            Kind::Int64 | Kind::Uint64 | Kind::Sint64 | Kind::Fixed64 | Kind::Sfixed64 => json!({
                "x-kubernetes-int-or-string": true,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": bounds::scalar(kind).unwrap_or_default()["pattern"],
            }),
            other => plain(bounds::scalar(other).unwrap_or_default()),
        }
    }
}

/// What the rules say, where Kubernetes' schemas can hold it.
fn limit(schema: &mut Json, kind: &Kind, rules: impl Fn(&mut Json)) {
    let of_a_part =
        matches!(kind, Kind::Message(message) if bounds::well_known(message.full_name()).is_none());
    if !of_a_part {
        rules(schema);
    }
}

fn plain(mut schema: Json) -> Json {
    if let Some(entries) = schema.as_object_mut() {
        entries.remove("contentEncoding");
        if entries.get("format").and_then(Json::as_str).is_some_and(|format| !FORMATS.contains(&format)) {
            entries.remove("format");
        }
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Json {
        object(&proto_wire::descriptor_pool().get_message_by_name(name).unwrap(), &[])
    }

    /// What structural schemas do not have must not be in one, at any depth.
    fn walk(schema: &Json, visit: &mut dyn FnMut(&Map<String, Json>)) {
        match schema {
            Json::Object(entries) => {
                visit(entries);
                entries.values().for_each(|value| walk(value, visit));
            }
            Json::Array(items) => items.iter().for_each(|value| walk(value, visit)),
            _ => {}
        }
    }

    #[test]
    fn nothing_is_in_them_that_an_api_server_refuses() {
        for kind in crate::kind::Kind::ALL {
            walk(&of(kind.message()), &mut |entries| {
                let keys =
                    ["$ref", "propertyNames", "uniqueItems", "contentEncoding", "readOnly", "writeOnly"];
                for key in keys {
                    assert!(!entries.contains_key(key), "{kind:?}: {key}");
                }
                let both = entries.contains_key("properties")
                    && entries.get("additionalProperties").is_some_and(|value| !value["type"].is_string());
                assert!(!both, "{kind:?}");
            });
        }
    }

    #[test]
    fn bounds_patterns_and_choices_are_those_of_the_schema() {
        let job = of("rail.v1.JobSpec");
        assert_eq!(job["properties"]["priority"]["maximum"], 1000);
        assert_eq!(job["properties"]["gang"]["properties"]["nodes"]["minimum"], 1);
        assert_eq!(job["properties"]["gang"]["required"], json!(["nodes"]));
        let rule = &job["x-kubernetes-validations"][0];
        assert_eq!(
            rule["rule"],
            "[has(self.command), has(self.collective), has(self.allocation)].exists_one(given, given)"
        );
        let speed = &of("rail.v1.FabricSpec")["properties"]["links"]["items"]["properties"]["speedMbps"];
        assert_eq!(speed["x-kubernetes-int-or-string"], true);
        assert!(speed.get("type").is_none() && speed["pattern"].is_string());
        let rails = &of("rail.v1.FabricSpec")["properties"]["leaves"]["items"]["properties"]["rails"];
        assert_eq!(rails["x-kubernetes-list-type"], "set");
    }

    #[test]
    fn a_message_is_within_itself_once() {
        let text = of("rail.v1.JobSpec")["properties"]["placement"].to_string();
        assert_eq!(text.matches("\"anyOf\":{").count(), 1);
    }

    #[test]
    fn an_expression_stands_below_no_list() {
        fn below(schema: &Json, in_list: bool) {
            let Json::Object(entries) = schema else { return };
            assert!(!(in_list && entries.contains_key("x-kubernetes-validations")), "{schema}");
            for (key, value) in entries {
                below(value, in_list || key == "items" || key == "additionalProperties");
            }
        }
        for kind in crate::kind::Kind::ALL {
            below(&of(kind.message()), false);
        }
    }
}
