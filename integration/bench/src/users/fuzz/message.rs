//! Messages of our schema with anything in them.

use std::collections::HashMap;

use prost::bytes::Bytes;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value,
};
use serde_json::json;

use super::dice::Dice;

/// Deeper messages are left empty.
const DEPTH: usize = 6;

/// A message for a call: one that could be good, changed in a few places, or one that chance made.
pub fn message(dice: &mut Dice, of: &MessageDescriptor) -> DynamicMessage {
    let mut message = if dice.percent(70) { good(of) } else { None }.unwrap_or_else(|| any(dice, of, 0));
    for _ in 0..dice.below(4) {
        change(dice, &mut message);
    }
    message
}

/// A message with which its call could succeed, where there is one here.
fn good(of: &MessageDescriptor) -> Option<DynamicMessage> {
    let job = json!({
        "metadata": {"generateName": "train-", "labels": {"team": "x"}},
        "spec": {
            "gang": {"nodes": 1, "gpusPerNode": 1}, "rails": {"none": true}, "timeLimit": "60s",
            "placement": {"selector": [{"key": "disk", "values": ["nvme"]}], "exclude": ["n[7-9]"]},
            "command": {"argv": ["/bin/true"], "env": {"A": "b"}}, "licenses": {"matlab": 1},
        },
    });
    let metadata = json!({"name": "night", "tenant": "fuzz"});
    let named = |spec: serde_json::Value| json!({"metadata": metadata, "spec": spec});
    let schedule = json!({"cron": "@yearly", "suspend": true, "jobTemplate": {"spec": job["spec"]}});
    let value = match of.name() {
        "Job" => job,
        "CreateJobRequest" | "PlanJobRequest" => json!({"job": job, "onBehalfOf": "fuzz"}),
        "Queue" => named(json!({"weight": 2})),
        "ApplyQueueRequest" => json!({"queue": named(json!({"weight": 2}))}),
        "Schedule" => named(schedule),
        "ApplyScheduleRequest" => json!({"schedule": named(schedule)}),
        "ApplyReservationRequest" => json!({"reservation": {"metadata": {"name": "night"}, "spec":
            {"count": 1, "start": "2099-01-01T00:00:00Z", "duration": "60s", "tenants": ["fuzz"]}}}),
        "ApplyWebhookRequest" => {
            json!({"webhook": named(json!({"url": "https://hooks.invalid/x", "events": ["FAILED"]}))})
        }
        "ApplySecretRequest" => json!({"secret": {"metadata": metadata, "data": {"TOKEN": "x"}}}),
        "ApplyConfigRequest" => json!({"config": {"metadata": metadata, "data": {"MODE": "x"}}}),
        "ApplyServiceClassRequest" => {
            json!({"serviceClass": {"metadata": {"name": "short"}, "spec": {"job": {"nodesMax": 4}}}})
        }
        "ApplySwitchRequest" => {
            json!({"switch": {"metadata": {"name": "leaf0"}, "spec": {"nos": "SONIC", "asic": "spectrum-4"}}})
        }
        "ApplyLicenseRequest" => json!({"license": {"metadata": {"name": "matlab"}, "spec": {"total": 4}}}),
        "UpdateJobRequest" => json!({"name": "train", "tenant": "fuzz", "priority": -1, "timeLimit": "60s"}),
        "HoldJobRequest" | "CancelJobRequest" | "GetJobRequest" | "ExplainJobRequest"
        | "ReleaseJobRequest" => {
            json!({"name": "train", "tenant": "fuzz"})
        }
        "ListJobsRequest" => json!({"tenant": "fuzz", "pageSize": 10}),
        _ => return None,
    };
    DynamicMessage::deserialize(of.clone(), value).ok()
}

fn any(dice: &mut Dice, of: &MessageDescriptor, depth: usize) -> DynamicMessage {
    let mut message = DynamicMessage::new(of.clone());
    for field in of.fields() {
        if dice.percent(30) {
            let value = value(dice, &field, depth);
            message.set_field(&field, value);
        }
    }
    message
}

/// Changes one field, here or further in.
fn change(dice: &mut Dice, message: &mut DynamicMessage) {
    let fields: Vec<FieldDescriptor> = message.descriptor().fields().collect();
    let inner: Vec<&FieldDescriptor> = fields
        .iter()
        .filter(|field| message.has_field(field) && matches!(*message.get_field(field), Value::Message(_)))
        .collect();
    if let Some(field) = dice.percent(75).then(|| dice.of(&inner).copied()).flatten()
        && let Value::Message(within) = message.get_field_mut(field)
    {
        change(dice, within);
        return;
    }
    let Some(field) = dice.of(&fields) else { return };
    if dice.percent(20) {
        message.clear_field(field);
        return;
    }
    let value = value(dice, field, DEPTH - 2);
    message.set_field(field, value);
}

fn value(dice: &mut Dice, field: &FieldDescriptor, depth: usize) -> Value {
    let many = if dice.percent(2) { 2000 } else { dice.below(4) };
    if field.is_map()
        && let Kind::Message(entry) = field.kind()
    {
        let (key, of) = (entry.map_entry_key_field(), entry.map_entry_value_field());
        let mut map = HashMap::new();
        for _ in 0..many {
            let key = match single(dice, &key.kind(), depth) {
                Value::String(text) => MapKey::String(text),
                Value::U32(number) => MapKey::U32(number),
                _ => continue,
            };
            map.insert(key, single(dice, &of.kind(), depth + 1));
        }
        return Value::Map(map);
    }
    if field.is_list() {
        return Value::List((0..many).map(|_| single(dice, &field.kind(), depth + 1)).collect());
    }
    single(dice, &field.kind(), depth)
}

fn single(dice: &mut Dice, kind: &Kind, depth: usize) -> Value {
    let low = |number: i64| (number as u64 & 0xFFFF_FFFF) as u32;
    match kind {
        Kind::Double => Value::F64(dice.of(&[0.0, -1.0, f64::NAN, f64::MAX, 1e-300]).copied().unwrap_or(0.0)),
        Kind::Float => Value::F32(dice.of(&[0.0, -1.0, f32::NAN, f32::INFINITY]).copied().unwrap_or(0.0)),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(low(dice.number()).cast_signed()),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(dice.number()),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(low(dice.number())),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(dice.number().cast_unsigned()),
        Kind::Bool => Value::Bool(dice.percent(50)),
        Kind::String => Value::String(dice.text()),
        Kind::Bytes => Value::Bytes(Bytes::from(dice.text())),
        Kind::Message(of) if depth < DEPTH => Value::Message(any(dice, of, depth + 1)),
        Kind::Message(of) => Value::Message(DynamicMessage::new(of.clone())),
        Kind::Enum(of) => {
            let numbers: Vec<i32> = of.values().map(|value| value.number()).chain([-1, 99]).collect();
            Value::EnumNumber(dice.of(&numbers).copied().unwrap_or(0))
        }
    }
}

/// Bytes with a few faults.
pub fn broken(dice: &mut Dice, mut bytes: Vec<u8>) -> Vec<u8> {
    for _ in 0..=dice.below(3) {
        let at = dice.below(bytes.len());
        match dice.below(3) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at.min(bytes.len()), dice.next().to_le_bytes()[0]),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.below(8);
                }
            }
        }
    }
    bytes
}
