//! The OpenAPI 3.1 document: made from the descriptors, their comments, and the table of routes.

use std::collections::{BTreeMap, BTreeSet};

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor};
use proto_wire::{
    json_schema as bounds,
    rules::{Said, ValueRules},
};
use serde_json::{Map, Value as Json, json};

use crate::{
    authz::{Access, Rpc},
    rest::{
        examples, links, params,
        routes::{Body, OPENAPI, ROUTES, Route},
        transcode,
    },
};

/// What holds for all routes.
const ABOUT: &str = "The control plane of a multi-rail RoCEv2 GPU cluster: the canonical JSON mapping of rail.v1.\n\n\
    In bodies, `null` stands for a field that is not given, whatever its type, as canonical JSON has it; a field that must be given is \
    then missing. Bodies are JSON (`Content-Type: application/json`, or none; another type is refused with 415) of at most 1 MiB (413). \
    What can be had by GET can be asked for by HEAD. Answers of 512 bytes and more are packed where `Accept-Encoding` takes gzip; \
    streams are not.";

/// The document of a release.
#[must_use]
pub fn document(version: &str) -> Json {
    let mut schemas = Schemas::default();
    let mut paths: BTreeMap<&str, Map<String, Json>> = BTreeMap::new();
    for route in ROUTES {
        if let Some(method) = transcode::method(route.rpc) {
            let operation = operation(route, &method, &mut schemas);
            paths.entry(route.path).or_default().insert(route.method.as_str().to_lowercase(), operation);
        }
    }
    paths.entry(OPENAPI).or_default().insert("get".to_owned(), own_operation());
    let mut components = schemas.all();
    components.insert("Error".to_owned(), error_schema());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Railyard",
            "version": version,
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"mutualTLS": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {"Error": {
                "description": "The call was refused; nothing was changed.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            }},
            "securitySchemes": {
                "mutualTLS": {"type": "mutualTLS", "description": "A certificate of the cluster's own CA."},
                "bearer": {"type": "http", "scheme": "bearer", "description": "A token of IssueToken, or a signed one of the OpenID provider that the site has named."},
            },
        },
    })
}

fn own_operation() -> Json {
    json!({
        "operationId": "getOpenApi",
        "tags": ["Health"],
        "summary": "This document.",
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": {"type": "object", "additionalProperties": true}}}},
            "default": {"$ref": "#/components/responses/Error"},
        },
    })
}

fn operation(route: &Route, method: &MethodDescriptor, schemas: &mut Schemas) -> Json {
    let name = transcode::operation_id(method);
    let tag = method.parent_service().name().trim_end_matches("Service").to_owned();
    let comment = bounds::comment(&method.parent_file(), method.path());
    let mut operation = json!({
        "operationId": name,
        "tags": [tag],
        "responses": {"200": answer(route, method, schemas), "default": {"$ref": "#/components/responses/Error"}},
    });
    if !comment.is_empty() {
        operation["summary"] = comment.lines().next().unwrap_or_default().into();
        operation["description"] = comment.into();
    }
    let parameters = parameters(route, &method.input(), schemas);
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    let body = match route.body {
        Body::None => None,
        Body::Whole => Some(schemas.message_without(&method.input(), &route.parameters())),
        Body::Field(name) => method.input().get_field_by_name(name).map(|field| schemas.single(&field)),
    };
    if let Some(schema) = body {
        let required = matches!(route.body, Body::Field(_)) || schemas.requires_something(&schema);
        let mut content = json!({"schema": schema});
        if let Some(example) = examples::of(route.rpc) {
            content["examples"] = json!({"usual": {"value": example}});
        }
        operation["requestBody"] = json!({"required": required, "content": {"application/json": content}});
    }
    if route.rpc.access() == Access::Anybody {
        operation["security"] = json!([{}]);
    }
    operation
}

fn answer(route: &Route, method: &MethodDescriptor, schemas: &mut Schemas) -> Json {
    let schema = schemas.message(&method.output());
    if !method.is_server_streaming() {
        let mut answer = json!({"description": "OK", "content": {"application/json": {"schema": schema}}});
        let links = links::of(route, &method.output());
        if !links.is_empty() {
            answer["links"] = links.into();
        }
        return answer;
    }
    let mut content = json!({"application/x-ndjson": {"schema": schema}});
    if route.rpc == Rpc::StreamLogs {
        content["text/plain"] = json!({"schema": {"type": "string"}});
    }
    json!({"description": "One JSON object per line, until the stream ends.", "content": content})
}

fn parameters(route: &Route, input: &MessageDescriptor, schemas: &mut Schemas) -> Vec<Json> {
    let mut taken = route.parameters();
    let mut list: Vec<Json> = taken
        .iter()
        .filter_map(|name| input.get_field_by_name(name))
        .map(|field| parameter(&field, "path", schemas))
        .collect();
    match route.body {
        Body::Whole => return list,
        Body::Field(name) => taken.push(name),
        Body::None => {}
    }
    let query = input.fields().filter(|field| params::is_parameter(field) && !taken.contains(&field.name()));
    list.extend(query.map(|field| parameter(&field, "query", schemas)));
    list
}

fn parameter(field: &FieldDescriptor, place: &str, schemas: &mut Schemas) -> Json {
    let mut parameter = json!({
        "name": if place == "path" { field.name() } else { field.json_name() },
        "in": place,
        "required": place == "path" || bounds::of(field).must_be_given(field),
        "schema": schemas.field(field),
    });
    let comment = bounds::comment(&field.parent_file(), field.path());
    if !comment.is_empty() {
        parameter["description"] = comment.into();
    }
    parameter
}

/// Schemas that are used, and those that they use.
#[derive(Default)]
struct Schemas {
    wanted: BTreeSet<String>,
    made: Map<String, Json>,
}

impl Schemas {
    fn message(&mut self, message: &MessageDescriptor) -> Json {
        self.message_without(message, &[])
    }

    /// A message of which the path says some fields.
    fn message_without(&mut self, message: &MessageDescriptor, said: &[&str]) -> Json {
        if let Some(schema) = bounds::well_known(message.full_name()) {
            return schema;
        }
        let name = schema_name(message.full_name());
        if self.wanted.insert(name.clone()) {
            let schema = self.object(message, said);
            self.made.insert(name.clone(), schema);
        }
        json!({"$ref": format!("#/components/schemas/{name}")})
    }

    /// Whether the schema behind a reference has fields that must be given.
    fn requires_something(&self, reference: &Json) -> bool {
        let name = reference["$ref"].as_str().and_then(|path| path.rsplit('/').next());
        name.and_then(|name| self.made.get(name)).is_some_and(|schema| schema.get("required").is_some())
    }

    fn object(&mut self, message: &MessageDescriptor, said: &[&str]) -> Json {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for field in message.fields().filter(|field| !said.contains(&field.name())) {
            let rules = bounds::of(&field);
            let mut schema = self.field(&field);
            bounds::plain(&mut schema);
            match rules.said {
                Said::Both => {}
                Said::ByAnswers => schema["readOnly"] = true.into(),
                Said::ByRequests => schema["writeOnly"] = true.into(),
            }
            bounds::limit_members(&mut schema, &rules);
            if rules.must_be_given(&field) {
                required.push(field.json_name().to_owned());
            }
            let comment = bounds::comment(&field.parent_file(), field.path());
            if !comment.is_empty() {
                // Beside a $ref a description is allowed since 3.1.
                schema["description"] = comment.into();
            }
            properties.insert(field.json_name().to_owned(), schema);
        }
        let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        for alternatives in message.oneofs().filter_map(|oneof| bounds::one_of(&oneof)) {
            schema["allOf"] = alternatives;
        }
        let comment = bounds::comment(&message.parent_file(), message.path());
        if !comment.is_empty() {
            schema["description"] = comment.into();
        }
        schema
    }

    fn enumeration(&mut self, of: &EnumDescriptor) -> Json {
        let name = schema_name(of.full_name());
        if self.wanted.insert(name.clone()) {
            let mut schema = json!({"type": "string", "enum": bounds::names(of)});
            let comment = bounds::comment(&of.parent_file(), of.path());
            if !comment.is_empty() {
                schema["description"] = comment.into();
            }
            self.made.insert(name.clone(), schema);
        }
        json!({"$ref": format!("#/components/schemas/{name}")})
    }

    fn field(&mut self, field: &FieldDescriptor) -> Json {
        let rules = bounds::of(field);
        let mut schema = match (&rules.value, field.kind()) {
            (value, Kind::Message(entry)) if field.is_map() => {
                let each = entry.map_entry_value_field();
                let mut single = self.single(&each);
                if let ValueRules::Map { values, .. } = value {
                    bounds::limit(&mut single, values, &each.kind());
                }
                json!({"type": "object", "additionalProperties": single})
            }
            (value, kind) if field.is_list() => {
                let mut single = self.single(field);
                if let ValueRules::List { items, .. } = value {
                    bounds::limit(&mut single, items, &kind);
                }
                json!({"type": "array", "items": single})
            }
            (_, kind) => {
                let mut single = self.single(field);
                bounds::limit(&mut single, &rules, &kind);
                return single;
            }
        };
        bounds::limit_entries(&mut schema, &rules);
        schema
    }

    /// One value of a field, whether or not it is a list of them.
    fn single(&mut self, field: &FieldDescriptor) -> Json {
        match field.kind() {
            Kind::Message(message) => self.message(&message),
            Kind::Enum(of) => self.enumeration(&of),
            other => bounds::scalar(&other).unwrap_or_default(),
        }
    }

    fn all(self) -> Map<String, Json> {
        self.made
    }
}

/// `rail.v1.JobStatus.Phase` is `JobStatusPhase`: generators make class names of it.
fn schema_name(full: &str) -> String {
    full.strip_prefix("rail.v1.").unwrap_or(full).replace('.', "")
}

fn error_schema() -> Json {
    json!({
        "type": "object",
        "required": ["error"],
        "properties": {"error": {
            "type": "object",
            "required": ["code", "status", "class", "reason", "message"],
            "properties": {
                "code": {"type": "integer", "description": "The HTTP status."},
                "status": {"type": "string", "description": "The gRPC code, for example NOT_FOUND."},
                "class": {"type": "string"},
                "reason": {"type": "string", "description": "Stable, for programs; for example NAME_TAKEN."},
                "message": {"type": "string", "description": "For people."},
                "violations": {"type": "array", "items": {
                    "type": "object",
                    "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
                }},
                "retryAfterMs": {"type": "integer", "format": "int64"},
            },
        }},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_and_document_agree_both_ways() {
        let document = document("1.2.3");
        let paths = document["paths"].as_object().unwrap();
        let mut described = BTreeSet::new();
        for (path, methods) in paths {
            for (method, operation) in methods.as_object().unwrap() {
                described.insert((path.clone(), method.to_uppercase()));
                assert!(operation["operationId"].is_string(), "{method} {path}");
                assert!(operation["responses"]["default"]["$ref"].is_string(), "{method} {path}");
            }
        }
        let mut mounted: BTreeSet<_> =
            ROUTES.iter().map(|route| (route.path.to_owned(), route.method.to_string())).collect();
        mounted.insert((OPENAPI.to_owned(), "GET".to_owned()));
        assert_eq!(described, mounted);
    }

    #[test]
    fn every_reference_has_its_target_and_names_are_plain() {
        let document = document("1.2.3");
        let schemas = document["components"]["schemas"].as_object().unwrap();
        assert!(schemas.keys().all(|name| name.chars().all(|c| c.is_ascii_alphanumeric())));
        let (mut ids, mut linked) = (BTreeSet::new(), BTreeSet::new());
        let mut stack = vec![&document];
        while let Some(value) = stack.pop() {
            match value {
                Json::Object(object) => {
                    if let Some(target) = object.get("$ref").and_then(Json::as_str) {
                        let target = target.strip_prefix('#').unwrap();
                        assert!(document.pointer(target).is_some(), "{target}");
                    }
                    let id = object.get("operationId").and_then(Json::as_str);
                    match id {
                        Some(id) if object.contains_key("responses") => {
                            assert!(ids.insert(id), "{id} twice");
                        }
                        Some(id) => _ = linked.insert(id),
                        None => {}
                    }
                    stack.extend(object.values());
                }
                Json::Array(items) => stack.extend(items),
                _ => {}
            }
        }
        assert_eq!(ids.len(), ROUTES.len() + 1);
        assert!(linked.len() > 20 && linked.is_subset(&ids), "{linked:?}");
    }

    #[test]
    fn comments_become_descriptions() {
        let document = document("1.2.3");
        let plan = &document["paths"]["/v1/jobs:plan"]["post"];
        assert!(plan["description"].as_str().unwrap().contains("writes nothing"), "{plan}");
        let nodes = &document["components"]["schemas"]["Gang"]["properties"]["nodes"];
        assert_eq!(nodes["description"], "At least 1.");
        assert_eq!(
            document["components"]["schemas"]["JobStatus"]["properties"]["phase"]["$ref"],
            "#/components/schemas/JobStatusPhase"
        );
    }

    #[test]
    fn what_a_field_may_be_is_said() {
        let document = document("1.2.3");
        let schemas = &document["components"]["schemas"];
        let nodes = &schemas["Gang"]["properties"]["nodes"];
        assert_eq!((&nodes["minimum"], &nodes["maximum"]), (&json!(1), &json!(1024)));
        assert_eq!(schemas["Gang"]["required"], json!(["nodes"]));
        let queue = &schemas["JobSpec"]["properties"]["queue"];
        assert_eq!(queue["pattern"], "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$");
        assert_eq!(queue["maxLength"], 63);
        let name = &schemas["Queue"]["properties"]["metadata"]["allOf"][1];
        assert_eq!(name["required"], json!(["name"]));
        assert_eq!(schemas["JobSpec"]["allOf"][0]["oneOf"].as_array().unwrap().len(), 3);
        assert_eq!(schemas["Job"]["properties"]["status"]["readOnly"], true);
        assert_eq!(schemas["Secret"]["properties"]["data"]["writeOnly"], true);
        assert_eq!(schemas["QueueSpecObjective"]["enum"], json!(["MEAN_WAIT", "LARGE_FIRST", "FAIR"]));
        // The path says it.
        assert!(schemas["CancelJobRequest"]["properties"].get("name").is_none());
        let name = &document["paths"]["/v1/licenses/{name}"]["get"]["parameters"][0];
        assert!(name["required"] == true && name["schema"]["maxLength"] == 63, "{name}");
    }

    #[test]
    fn a_dynamic_message_of_every_request_can_be_made() {
        for route in ROUTES {
            let method = transcode::method(route.rpc).unwrap();
            let _ = prost_reflect::DynamicMessage::new(method.input());
            for name in route.parameters() {
                assert!(method.input().get_field_by_name(name).is_some(), "{} {name}", route.path);
            }
        }
    }
}
