//! The schema's options and the border agree: what a field's rules refuse the conversion refuses, with that field named, and what they
//! take no conversion names, but for what the rules cannot say.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Debug,
};

use prost::Message as _;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value,
};
use proto_model::{
    Fabric, JobSchedule, JobSpec, License, Queue, Reservation, ServiceClass, SwitchConfig, Tenant, Values,
    WebhookSpec,
};
use regex::Regex;
use serde_json::json;

use super::{FieldErrors, QosOrder};
use crate::{
    descriptor_pool,
    rules::{FieldRules, Said, TextRules, ValueRules, field_rules, refuses_empty},
    v1,
};

/// Fields of which the conversion asks more than the rules say, and why.
const FINER: [(&str, &str); 31] = [
    ("metadata.tenant", "filled in from who calls"),
    ("data", "so many bytes in all"),
    ("spec.cron", "a grammar of its own"),
    ("spec.timeZone", "names of a database"),
    ("spec.url", "a URL without credentials and fragment, with a host; http only where it is allowed"),
    ("spec.secret", "bytes in base64, counted"),
    ("spec.patience", "goes with an objective"),
    ("spec.asic", "a name of a table, and none on Linux"),
    ("spec.loopback", "numbers up to 255, and an address that an interface can have"),
    ("spec.management.endpoint", "a host and a port"),
    ("spec.fullDelayGpuHours", "goes with an objective"),
    ("spec.count", "either nodes or count"),
    ("spec.tenants", "depends on maintenance"),
    ("spec.job.priorityMin", "no more than priorityMax"),
    ("spec.job.priorityMax", "no less than priorityMin"),
    ("spec.job.priorityDefault", "between both"),
    ("spec.job.timeLimitDefault", "no longer than timeLimitMax"),
    ("spec.preemption.gracePeriod", "no longer than job.gracePeriodMax"),
    ("spec.parent", "another queue"),
    ("soak", "less than confirmWithin"),
    ("gang.minNodes", "no more than nodes"),
    ("placement.spares", "with nodes no more than a gang"),
    ("placement.stageNodes", "divides the gang, and goes with PIPELINE"),
    ("placement.groups[0].size", "divides the gang"),
    ("placement.nodes", "lists of names, as many as the gang has"),
    ("placement.exclude", "lists of names"),
    ("placement.selector", "no two that contradict each other"),
    ("array", "indices ascend, and none comes twice"),
    ("expectedDuration", "no longer than timeLimit"),
    ("failure.maxReplacements", "goes with replace"),
    ("collective.bytes", "a multiple of the type's size"),
];
/// The same, of fields that stand in several places: by the end of their path.
const FINER_ENDS: [(&str, &str); 11] = [
    (".nodes", "lists of names"),
    (".names", "a list of names"),
    (".pods", "a list of names, as long as that of the leaves"),
    (".lower", "a list of names"),
    (".upper", "a list of names"),
    (".key", "may be left out, or may not be, depending on what stands beside it"),
    (".values", "none with EXISTS and ABSENT"),
    (".anyOf", "stands alone"),
    ("gpuModel", "has a letter or a digit"),
    (".argv", "names a program"),
    ("envFrom[0].name", "may be left out only where the key is a variable's name"),
];

type Check = fn(&DynamicMessage) -> Vec<String>;
type Base = (&'static str, serde_json::Value, Check);

fn check<W, T>(message: &DynamicMessage) -> Vec<String>
where
    W: prost::Message + Default,
    T: TryFrom<W, Error = FieldErrors> + Debug,
{
    let wire = W::decode(message.encode_to_vec().as_slice()).unwrap();
    T::try_from(wire).err().map_or_else(Vec::new, |errors| errors.0.into_iter().map(|e| e.field).collect())
}

fn metadata() -> serde_json::Value {
    json!({"name": "a", "tenant": "t", "labels": {"k": "v"}})
}

fn job(work: (&str, serde_json::Value)) -> serde_json::Value {
    let mut job = json!({
        "gang": {"nodes": 4, "gpusPerNode": 1},
        "rails": {"required": 1}, "priority": 0, "timeLimit": "3600s", "gracePeriod": "10s",
        "failure": {"requeue": "ON_ANY", "maxRestarts": 1},
        "engine": {"algorithm": "ring", "queuePairs": 1},
        "placement": {
            "groups": [{"size": 2}], "spares": 0, "exclude": ["x1"], "gpuModel": ["H100"],
            "selector": [{"key": "k", "values": ["v"]}, {"anyOf": [{"key": "a"}, {"key": "b"}]}],
            "tolerations": [{"key": "k", "value": "v"}],
        },
        "after": [{"job": "other"}], "preemption": {"signal": "SIGTERM", "checkpointEvery": "60s"},
        "licenses": {"l": 1}, "queue": "q", "reservation": "r", "serviceClass": "s",
    });
    job[work.0] = work.1;
    job
}

/// A right document of every kind, and the conversion of its kind.
fn bases() -> Vec<Base> {
    [job_bases(), shared_bases(), other_bases()].concat()
}

fn job_bases() -> Vec<Base> {
    let env = json!({"A": "b"});
    let from = json!([{"name": "V", "secretRef": {"name": "s", "key": "k"}}]);
    let command = ("command", json!({"argv": ["x"], "env": env, "workingDir": "/", "envFrom": from}));
    let components = json!([{"name": "c", "nodes": 1, "gpusPerNode": 1, "gpuModel": ["H100"]}]);
    let held = ("allocation", json!({"env": env, "workingDir": "/", "envFrom": from}));
    let parts = json!({"components": components, "command": {"argv": ["x"]}});
    let collective = ("collective", json!({"op": "ALL_REDUCE", "bytes": "8", "iterations": 1}));
    vec![
        ("JobSpec", job(command), check::<v1::JobSpec, JobSpec>),
        ("JobSpec", job(collective), check::<v1::JobSpec, JobSpec>),
        ("JobSpec", job(held), check::<v1::JobSpec, JobSpec>),
        ("JobSpec", parts, check::<v1::JobSpec, JobSpec>),
    ]
}

fn shared_bases() -> Vec<Base> {
    let data = json!({"metadata": metadata(), "description": "d", "data": {"k": "v"}});
    vec![
        ("Secret", data.clone(), check::<v1::Secret, Values>),
        ("Config", data, check::<v1::Config, Values>),
        (
            "Tenant",
            json!({"metadata": metadata(), "spec": {"description": "d", "quota": {"gpus": 1, "weight": 1}}}),
            check::<v1::Tenant, Tenant>,
        ),
        (
            "Queue",
            json!({"metadata": metadata(), "spec": {"parent": "p", "weight": 1, "objective": "MEAN_WAIT", "patience": "1s", "fullDelayGpuHours": 1}}),
            check::<v1::Queue, Queue>,
        ),
        (
            "ServiceClass",
            json!({"metadata": metadata(), "spec": {
                "description": "d",
                "members": {"tenants": ["t"], "queues": ["t/q"], "users": ["t/u"], "roles": ["USER"]},
                "job": {"priorityMin": -1, "nodesMax": 1, "timeLimitMax": "10s", "gracePeriodMax": "9s"},
                "preemption": {"gracePeriod": "1s"},
            }}),
            check::<v1::ServiceClass, ServiceClass>,
        ),
        (
            "License",
            json!({"metadata": metadata(), "spec": {"total": 1, "description": "d"}}),
            check::<v1::License, License>,
        ),
        (
            "Switch",
            json!({"metadata": metadata(), "spec": {
                "nos": "SONIC", "version": "v", "asic": "spectrum-4", "loopback": "10.0.0.1", "asn": 1, "cableM": 1,
                "ports": [{"name": "Ethernet0", "cableM": 1, "optics": "o"}],
                "management": {"endpoint": "h:1", "credential": "c"},
            }}),
            check::<v1::Switch, SwitchConfig>,
        ),
    ]
}

fn other_bases() -> Vec<Base> {
    let spec = json!({"gang": {"nodes": 1}, "command": {"argv": ["x"]}});
    vec![
        (
            "Reservation",
            json!({"metadata": metadata(), "spec": {
                "count": 1, "start": "2030-01-01T00:00:00Z", "duration": "60s", "tenants": ["t"], "reason": "r",
            }}),
            check::<v1::Reservation, Reservation>,
        ),
        (
            "Schedule",
            json!({"metadata": metadata(), "spec": {
                "cron": "@daily", "timeZone": "UTC", "startingDeadline": "60s", "completedHistory": 1,
                "jobTemplate": {"labels": {"k": "v"}, "spec": spec},
            }}),
            check::<v1::Schedule, JobSchedule>,
        ),
        (
            "WebhookSpec",
            json!({"url": "https://x/", "events": ["ENDED"], "jobs": "a*", "queue": "q", "labels": {"k": "v"}}),
            check::<v1::WebhookSpec, WebhookSpec>,
        ),
        (
            "Fabric",
            json!({"metadata": {"name": "f", "labels": {"k": "v"}}, "spec": {
                "rails": [{"index": 0}],
                "leaves": [{"name": "l", "pod": "p", "rails": [0]}], "spines": [{"name": "s", "rails": [0]}],
                "links": [{"node": "n", "nic": "e0", "leaf": "l", "rail": 0}],
                "leafGroups": [{"names": "m", "pods": "p", "rails": [0]}], "spineGroups": [{"names": "t", "rails": [0]}],
                "linkGroups": [{"nodes": "o", "nic": "e0", "leaf": "l"}], "uplinks": [{"lower": "l", "upper": "s"}],
            }}),
            check::<v1::Fabric, Fabric>,
        ),
        (
            "ApplyQosRequest",
            json!({"document": "{\"x\": 1}", "reason": "r", "canary": "n", "confirmWithin": "60s", "atOnce": 1}),
            check::<v1::ApplyQosRequest, QosOrder>,
        ),
    ]
}

/// Where in a message a field is.
#[derive(Clone)]
enum Step {
    Field(FieldDescriptor),
    Entry(FieldDescriptor, usize),
}

/// A field with rules, by where it is in a base.
struct RuledField {
    steps: Vec<Step>,
    path: String,
    field: FieldDescriptor,
    rules: FieldRules,
}

fn places(message: &DynamicMessage, steps: &[Step], path: &str, found: &mut Vec<RuledField>) {
    for field in message.descriptor().fields() {
        let rules = field_rules(&field).unwrap();
        let dot = if path.is_empty() { "" } else { "." };
        let own = format!("{path}{dot}{}", field.json_name());
        if rules.said == Said::ByAnswers {
            continue;
        }
        let to = |step| [steps, &[step]].concat();
        match message.get_field(&field).as_ref() {
            Value::Message(inner)
                if message.has_field(&field) && !inner.descriptor().full_name().starts_with("google.") =>
            {
                places(inner, &to(Step::Field(field.clone())), &own, found);
            }
            Value::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    if let Value::Message(inner) = item {
                        places(inner, &to(Step::Entry(field.clone(), at)), &format!("{own}[{at}]"), found);
                    }
                }
            }
            _ => {}
        }
        let rules = FieldRules { value: member(steps, &field).unwrap_or(rules.value), ..rules };
        if rules.value != ValueRules::Any || rules.required {
            found.push(RuledField { steps: steps.to_vec(), path: own, field, rules });
        }
    }
}

/// What the rules of the message around a field say of it.
fn member(steps: &[Step], field: &FieldDescriptor) -> Option<ValueRules> {
    let Some(Step::Field(around)) = steps.last() else { return None };
    let members = field_rules(around).unwrap().members;
    let (_, pattern) = members.into_iter().find(|(name, _)| name == field.name())?;
    Some(ValueRules::Text(TextRules { pattern: Some(pattern), max_len: Some(63), ..TextRules::default() }))
}

fn at<'a>(message: &'a mut DynamicMessage, steps: &[Step]) -> &'a mut DynamicMessage {
    let Some((step, rest)) = steps.split_first() else { return message };
    let inner = match step {
        Step::Field(field) => message.get_field_mut(field).as_message_mut(),
        Step::Entry(field, at) => {
            message.get_field_mut(field).as_list_mut().and_then(|l| l[*at].as_message_mut())
        }
    };
    at(inner.unwrap(), rest)
}

const TEXTS: [&str; 30] = [
    "",
    "a",
    "a-1",
    "-a",
    "a-",
    "A",
    "a.b",
    ".a",
    "a b",
    "a/b",
    "a/b/c",
    "ä",
    "\u{7}",
    "\u{85}",
    "\0",
    "9",
    "_x",
    "x=y",
    "3,7-9",
    "0-9:2",
    "0-9%2",
    "1,,2",
    "a*",
    "*",
    "https://x/",
    "ftp://x/",
    "{}",
    "SIGTERM",
    "ring",
    "rail/v1",
];

/// Values around what rules take, of one value.
fn around(rules: &ValueRules, kind: &Kind) -> Vec<Value> {
    match (rules, kind) {
        (ValueRules::Number { least, most }, _) => {
            let near = [*least, *most].into_iter().flatten().flat_map(|n| [n - 1, n, n + 1]);
            let number = |n: i128| match kind {
                Kind::Int32 => i32::try_from(n).ok().map(Value::I32),
                Kind::Uint32 => u32::try_from(n).ok().map(Value::U32),
                _ => u64::try_from(n).ok().map(Value::U64),
            };
            near.filter_map(number).collect()
        }
        (ValueRules::Text(text), _) => {
            let long = [text.max_len, text.max_bytes].into_iter().flatten().flat_map(|n| [n, n + 1]);
            let long = long.map(|n| "a".repeat(usize::try_from(n).unwrap()));
            long.chain(TEXTS.map(str::to_owned)).map(Value::String).collect()
        }
        (ValueRules::Choice { .. }, Kind::Enum(of)) => {
            of.values().map(|v| v.number()).chain([99]).map(Value::EnumNumber).collect()
        }
        (ValueRules::Time { least, more_than, most }, Kind::Message(of)) => {
            let near = [*least, *more_than, *most].into_iter().flatten().flat_map(|n| [n - 1, n, n + 1]);
            let length = |seconds| {
                let mut length = DynamicMessage::new(of.clone());
                length.set_field_by_name("seconds", Value::I64(seconds));
                Value::Message(length)
            };
            near.map(length).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether rules take one value.
fn takes(rules: &FieldRules, value: &Value) -> bool {
    let text = |rules: &TextRules, text: &str| {
        let (characters, bytes) = (text.chars().count() as u64, text.len() as u64);
        rules.min_len.is_none_or(|n| characters >= n)
            && rules.max_len.is_none_or(|n| characters <= n)
            && rules.max_bytes.is_none_or(|n| bytes <= n)
            && rules.pattern.as_ref().is_none_or(|p| Regex::new(p).unwrap().is_match(text))
            && (rules.only.is_empty() || rules.only.iter().any(|only| only == text))
    };
    let number = |value: &Value| match value {
        Value::I32(n) => Some(i128::from(*n)),
        Value::U32(n) => Some(i128::from(*n)),
        Value::U64(n) => Some(i128::from(*n)),
        _ => None,
    };
    match (&rules.value, value) {
        (ValueRules::Number { least, most }, value) => {
            let n = number(value).unwrap();
            rules.zero_is_right && n == 0 || least.is_none_or(|l| n >= l) && most.is_none_or(|m| n <= m)
        }
        (ValueRules::Text(own), Value::String(given)) => {
            rules.zero_is_right && given.is_empty() || text(own, given)
        }
        (ValueRules::Choice { only, never }, Value::EnumNumber(n)) => {
            *n != 99 && (only.is_empty() || only.contains(n)) && !never.contains(n)
        }
        (ValueRules::Time { least, more_than, most }, Value::Message(length)) => {
            let seconds = length.get_field_by_name("seconds").and_then(|s| s.as_i64()).unwrap();
            seconds >= 0
                && least.is_none_or(|l| seconds >= l)
                && more_than.is_none_or(|l| seconds > l)
                && most.is_none_or(|m| seconds <= m)
        }
        _ => true,
    }
}

/// So many entries, each another where entries are texts.
fn entries(place: &RuledField, base: &[Value], count: u64) -> Option<Value> {
    let one = |n: u64| match (place.field.kind(), base.first()) {
        (Kind::String, _) => Some(Value::String(format!("a{n}"))),
        (Kind::Message(_), Some(first)) => Some(first.clone()),
        _ => None,
    };
    (0..count).map(one).collect::<Option<Vec<_>>>().map(Value::List)
}

/// Values of a field with whether its rules take them.
fn cases(place: &RuledField, present: &Value) -> Vec<(Value, bool)> {
    let FieldRules { value, .. } = &place.rules;
    match value {
        ValueRules::List { least, most, items, .. } => {
            let each = around(&items.value, &place.field.kind());
            let each = each.into_iter().map(|v| (Value::List(vec![v.clone()]), takes(items, &v)));
            let base = present.as_list().unwrap_or_default();
            let sized = |n: u64, right| Some((entries(place, base, n)?, right));
            let counted = most.iter().flat_map(|m| [sized(*m, true), sized(m + 1, false)]).flatten();
            let none = least.filter(|n| *n > 0).map(|_| (Value::List(Vec::new()), false));
            each.chain(counted).chain(none).collect()
        }
        ValueRules::Map { most, keys, values, .. } => {
            let Kind::Message(pair) = place.field.kind() else { return Vec::new() };
            let kind = pair.map_entry_value_field().kind();
            let some = if kind == Kind::Uint32 { Value::U32(1) } else { Value::String("v".into()) };
            let map =
                |key: &str, value: Value| Value::Map(HashMap::from([(MapKey::String(key.into()), value)]));
            let by_key = around(&keys.value, &Kind::String).into_iter();
            let by_key = by_key.map(|k| (map(k.as_str().unwrap(), some.clone()), takes(keys, &k)));
            let by_value =
                around(&values.value, &kind).into_iter().map(|v| (map("k", v.clone()), takes(values, &v)));
            let sized = |n: u64| (0..n).map(|n| (MapKey::String(format!("k{n}")), some.clone())).collect();
            let counted =
                most.iter().flat_map(|m| [(Value::Map(sized(*m)), true), (Value::Map(sized(m + 1)), false)]);
            by_key.chain(by_value).chain(counted).collect()
        }
        value => around(value, &place.field.kind())
            .into_iter()
            .map(|v| (v.clone(), takes(&place.rules, &v)))
            .collect(),
    }
}

fn is_finer(path: &str) -> bool {
    let own = |(known, _): &(&str, &str)| path == *known || path.ends_with(&format!(".{known}"));
    FINER.iter().any(own) || FINER_ENDS.iter().any(|(end, _)| path.ends_with(end))
}

fn names(errors: &[String], path: &str) -> bool {
    errors.iter().any(|field| {
        field.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    })
}

/// Whether a value is there for the number of its entries.
fn many(value: &Value) -> bool {
    value.as_list().map_or(0, <[Value]>::len) > 1 || value.as_map().map_or(0, HashMap::len) > 1
}

/// Whether the entry of a list is named that the field is in.
fn names_entry(errors: &[String], path: &str) -> bool {
    errors.iter().any(|field| field.ends_with(']') && path.starts_with(&format!("{field}.")))
}

#[test]
fn rules_and_conversions_agree() {
    let (mut wrong, mut checked) = (Vec::new(), BTreeMap::<String, usize>::new());
    for (name, document, check) in bases() {
        let of = descriptor_pool().get_message_by_name(&format!("rail.v1.{name}")).unwrap();
        let base = DynamicMessage::deserialize(of, document).unwrap();
        wrong.extend(check(&base).into_iter().map(|field| format!("{name} {field}: its base is wrong")));
        let mut found = Vec::new();
        places(&base, &[], "", &mut found);
        for place in found {
            // Where there are alternatives nothing else is said.
            if place.path.starts_with("placement.selector[1].") && !place.path.contains("anyOf") {
                continue;
            }
            let prefix = if name == "WebhookSpec" { "spec." } else { "" };
            let path = format!("{prefix}{}", place.path);
            let present = at(&mut base.clone(), &place.steps).get_field(&place.field).into_owned();
            for (value, right) in cases(&place, &present) {
                let mut changed = base.clone();
                at(&mut changed, &place.steps).set_field(&place.field, value.clone());
                let errors = check(&changed);
                let named = match many(&value) {
                    // Entries that are all alike are named by themselves.
                    true => errors.contains(&path),
                    false => names(&errors, &path) || (!right && names_entry(&errors, &path)),
                };
                *checked.entry(place.field.full_name().to_owned()).or_default() += 1;
                if named == right && !(named && is_finer(&path)) {
                    let shown: String = format!("{value:?}").chars().take(120).collect();
                    wrong.push(format!("{name} {path}: rules say {right}, named {named}: {shown}"));
                }
            }
            if place.rules.must_be_given(&place.field) {
                let mut without = base.clone();
                at(&mut without, &place.steps).clear_field(&place.field);
                *checked.entry(place.field.full_name().to_owned()).or_default() += 1;
                if !names(&check(&without), &path) {
                    wrong.push(format!("{name} {path}: may be left out"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
    let all: BTreeSet<String> = bases().iter().flat_map(|(name, ..)| annotated(name)).collect();
    let missed: Vec<_> = all.iter().filter(|field| !checked.contains_key(*field)).collect();
    assert!(missed.is_empty(), "in no base: {missed:#?}");
}

/// Fields with rules of a message and of those in it.
fn annotated(name: &str) -> Vec<String> {
    fn walk(of: &MessageDescriptor, seen: &mut BTreeSet<String>, found: &mut Vec<String>) {
        if !of.full_name().starts_with("rail.v1.")
            || of.is_map_entry()
            || !seen.insert(of.full_name().to_owned())
        {
            return;
        }
        for field in of.fields() {
            let rules = field_rules(&field).unwrap();
            if rules.said == Said::ByAnswers {
                continue;
            }
            // Who makes an object looks at its metadata where it looks at the caller.
            let elsewhere = of.full_name() == "rail.v1.Metadata";
            if (rules.value != ValueRules::Any || rules.required) && !elsewhere {
                found.push(field.full_name().to_owned());
            }
            if let Kind::Message(inner) = field.kind() {
                walk(&inner, seen, found);
            }
        }
    }
    let of = descriptor_pool().get_message_by_name(&format!("rail.v1.{name}")).unwrap();
    let mut found = Vec::new();
    walk(&of, &mut BTreeSet::new(), &mut found);
    found
}

#[test]
fn every_option_of_the_schema_can_be_held() {
    let mut patterns = 0;
    for message in descriptor_pool().all_messages().filter(|m| m.full_name().starts_with("rail.v1.")) {
        for field in message.fields() {
            let rules = field_rules(&field).unwrap();
            let all = match &rules.value {
                ValueRules::List { items, .. } => vec![&rules.value, &items.value],
                ValueRules::Map { keys, values, .. } => vec![&rules.value, &keys.value, &values.value],
                value => vec![value],
            };
            for value in all {
                let ValueRules::Text(TextRules { pattern: Some(pattern), .. }) = value else { continue };
                let pattern = Regex::new(pattern).unwrap();
                let alone =
                    ValueRules::Text(TextRules { pattern: Some(pattern.to_string()), ..Default::default() });
                assert_eq!(alone.refuses_zero(), !pattern.is_match(""), "{}", field.full_name());
                patterns += 1;
            }
            for (member, pattern) in &rules.members {
                let Kind::Message(of) = field.kind() else { panic!("{} is no message", field.full_name()) };
                assert!(of.get_field_by_name(member).is_some(), "{}", field.full_name());
                let read = Regex::new(pattern).unwrap();
                assert_eq!(refuses_empty(pattern), !read.is_match(""), "{}", field.full_name());
            }
        }
    }
    assert!(patterns > 50, "{patterns}");
}
