//! Whether a call may be made twice, as the `idempotency_level` of its method in the schema says.

use prost_reflect::{DynamicMessage, MethodDescriptor, Value, prost_types::method_options::IdempotencyLevel};

/// Bytes before the message of a gRPC request: a flag that says whether it is compressed, and its length.
pub(crate) const PREFIX: usize = 5;

/// The level that a method declares.
fn level(method: &MethodDescriptor) -> IdempotencyLevel {
    let options = method.method_descriptor_proto().options.as_ref();
    options.map_or(IdempotencyLevel::IdempotencyUnknown, |options| options.idempotency_level())
}

/// Whether calls of the method change nothing.
pub(crate) fn has_no_side_effects(method: &MethodDescriptor) -> bool {
    level(method) == IdempotencyLevel::NoSideEffects
}

/// Whether calls of the method do once what they are asked twice, if the request carries a request id.
pub(crate) fn is_idempotent(method: &MethodDescriptor) -> bool {
    level(method) == IdempotencyLevel::Idempotent
}

/// Whether the body of a gRPC call of the method carries a request id, by which the leader recognises a repeated call. False for a
/// compressed body and for one that cannot be decoded.
pub(crate) fn has_request_id(method: &MethodDescriptor, body: &[u8]) -> bool {
    let input = method.input();
    let Some(field) = input.get_field_by_name("request_id") else { return false };
    let message = body.get(PREFIX..).and_then(|message| DynamicMessage::decode(input, message).ok());
    let id = message.map(|message| message.get_field(&field).into_owned());
    body.first() == Some(&0) && matches!(id, Some(Value::String(id)) if !id.is_empty())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on shall say where")]
mod tests {
    use axum::http::Method;
    use controller_api::{authz::Rpc, rest::routes::ROUTES};
    use prost::Message as _;
    use prost_reflect::Kind;
    use proto_wire::v1;

    use super::*;

    fn methods() -> Vec<MethodDescriptor> {
        proto_wire::descriptor_pool()
            .services()
            .flat_map(|service| service.methods().collect::<Vec<_>>())
            .collect()
    }

    fn frame(request_id: &str) -> Vec<u8> {
        let metadata = v1::Metadata { name: "j".into(), ..Default::default() };
        let job = v1::Job { metadata: Some(metadata), ..Default::default() };
        let request_id = request_id.to_owned();
        let message = v1::CreateJobRequest { job: Some(job), request_id, ..Default::default() };
        let mut body = vec![0; PREFIX];
        body.extend(message.encode_to_vec());
        body
    }

    /// The schema and the table of REST routes agree on what changes nothing: GET, and POST of a plan.
    #[test]
    fn methods_without_side_effects_are_those_that_rest_reads_by() {
        let methods = methods();
        for route in ROUTES {
            let name = route.rpc.path().trim_start_matches('/').replace('/', ".");
            let method = methods.iter().find(|method| method.full_name() == name);
            let declared = method.is_some_and(has_no_side_effects);
            let reads = route.method == Method::GET || route.path.ends_with(":plan");
            // It makes a checkpoint of the audit log.
            let reads = reads && route.rpc != Rpc::ExportAuditRecords;
            assert_eq!(declared, reads, "{name} by {} {}", route.method, route.path);
        }
        for rpc in Rpc::ALL.iter().filter(|rpc| rpc.reads_the_store()) {
            let found = methods.iter().find(|method| method.name() == rpc.name());
            assert!(found.is_some_and(has_no_side_effects), "{rpc}");
        }
    }

    #[test]
    fn idempotent_methods_are_those_whose_requests_have_a_request_id() {
        for method in &methods() {
            let field = method.input().get_field_by_name("request_id");
            let text = field.is_some_and(|field| field.kind() == Kind::String);
            assert_eq!(is_idempotent(method), text && !has_no_side_effects(method), "{}", method.full_name());
        }
    }

    #[test]
    fn a_hold_is_repeated_by_its_request_id_and_never_by_another_text() {
        let all = methods();
        let hold = all.iter().find(|method| method.name() == "HoldJob").unwrap();
        let frame = |request_id: &str| {
            let (name, tenant, request_id) = ("j".into(), "t".into(), request_id.to_owned());
            let message = v1::HoldJobRequest { name, tenant, request_id, ..Default::default() };
            [vec![0; PREFIX], message.encode_to_vec()].concat()
        };
        assert!(has_request_id(hold, &frame("r1")) && !has_request_id(hold, &frame("")));
    }

    #[test]
    fn only_a_request_id_makes_an_idempotent_call_repeatable() {
        let all = methods();
        let create = all.iter().find(|method| method.name() == "CreateJob").unwrap();
        assert!(has_request_id(create, &frame("r1")));
        assert!(!has_request_id(create, &frame("")));
        let mut compressed = frame("r1");
        compressed[0] = 1;
        for nothing in [&compressed[..], &[], &[0; PREFIX], &[0, 0, 0, 0, 1, 0xff, 0xff]] {
            assert!(!has_request_id(create, nothing), "{nothing:?}");
        }
    }
}
