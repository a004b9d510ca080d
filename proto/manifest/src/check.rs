//! A located tree against a message descriptor: the message, and everything that is wrong.

use std::collections::{BTreeMap, HashMap, VecDeque};

use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value,
};

use crate::finding::{Path, Position, Shown, Sink};
use crate::nearest::{list, nearest};
use crate::scalar::{Resolved, base64, resolve, whole};
use crate::tree::{Content, Entry, Format, Node};
use crate::wellknown;
use crate::yaml::BROKEN_KEY;

/// Reads one tree into one message.
pub(crate) struct Checker<'s> {
    pub sink: &'s mut Sink,
    pub format: Format,
    /// The outermost message: where a field that stands in the wrong place may belong.
    pub root: MessageDescriptor,
}

/// What a node is, in words.
pub(crate) fn describe(node: &Node) -> String {
    match &node.value {
        Content::List(_) => "a list".to_owned(),
        Content::Map(_) => "a mapping".to_owned(),
        Content::Quoted(text) => format!("the text \"{}\"", Shown(text)),
        Content::Plain(text) => match resolve(text) {
            Resolved::Null => "nothing".to_owned(),
            Resolved::Bool => format!("the boolean {text}"),
            Resolved::Number => format!("the number {}", Shown(text)),
            Resolved::Text => format!("the text \"{}\"", Shown(text)),
        },
        Content::Broken => "something that cannot be read".to_owned(),
    }
}

/// Whether the node says nothing (`null`, `~`, or an empty value).
fn is_null(node: &Node) -> bool {
    matches!(&node.value, Content::Plain(text) if resolve(text) == Resolved::Null)
}

impl Checker<'_> {
    /// Reads a message. What could be read is answered even when something was found.
    pub fn message(
        &mut self,
        descriptor: &MessageDescriptor,
        node: &Node,
        path: &Path<'_>,
    ) -> DynamicMessage {
        let mut message = DynamicMessage::new(descriptor.clone());
        let entries = match &node.value {
            Content::Map(entries) => entries,
            Content::Broken => return message,
            _ => {
                let fields = list(
                    descriptor
                        .fields()
                        .map(|f| f.json_name().to_owned())
                        .collect::<Vec<_>>()
                        .iter()
                        .map(String::as_str),
                );
                let what = format!("expected a mapping with {fields}; found {}", describe(node));
                self.sink.add(node.at, path, what);
                return message;
            }
        };
        let mut given: BTreeMap<u32, Position> = BTreeMap::new();
        let mut oneofs: BTreeMap<String, (String, Position)> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| entry.key != BROKEN_KEY) {
            let Some(field) = field_of(descriptor, &entry.key) else {
                self.unknown_field(descriptor, entry, path);
                continue;
            };
            let name = field.json_name().to_owned();
            let path = Path::Field(path, &name);
            if let Some(first) = given.insert(field.number(), entry.key_at) {
                let what = format!(
                    "\"{name}\" is given twice under its two names; the first is at line {}",
                    first.line
                );
                self.sink.add(entry.key_at, path, what);
                continue;
            }
            if is_null(&entry.value) && !takes_null(&field) {
                if self.format == Format::Yaml {
                    self.sink.add(entry.value.at, path, "has no value; give one or remove the line");
                }
                continue;
            }
            if let Some(oneof) = field.containing_oneof().filter(|oneof| oneof.fields().len() > 1) {
                if let Some((other, at)) = oneofs.get(oneof.name()) {
                    let all: Vec<_> = oneof.fields().map(|field| field.json_name().to_owned()).collect();
                    let all = list(all.iter().map(String::as_str));
                    let what = format!("only one of {all} may be given, and {other} is at line {}", at.line);
                    self.sink.add(entry.key_at, path, what);
                    continue;
                }
                oneofs.insert(oneof.name().to_owned(), (name.clone(), entry.key_at));
            }
            // A default that the wire cannot tell from absence is absence here too.
            if let Some(value) = self.field(&field, &entry.value, &path)
                && (field.supports_presence() || !value.is_default_for_field(&field))
            {
                message.set_field(&field, value);
            }
        }
        message
    }

    fn unknown_field(&mut self, descriptor: &MessageDescriptor, entry: &Entry, path: &Path<'_>) {
        if self.sink.is_full() {
            return self.sink.add(entry.key_at, "", "");
        }
        let names: Vec<String> = descriptor.fields().map(|field| field.json_name().to_owned()).collect();
        let names = names.iter().map(String::as_str);
        let shown = Shown(&entry.key);
        let hint = if let Some(near) = nearest(&entry.key, names.clone()) {
            format!("did you mean \"{near}\"?")
        } else if let Some(place) = elsewhere(&self.root, &entry.key) {
            format!("it belongs at {place}")
        } else if names.len() == 0 {
            "nothing may be given here".to_owned()
        } else {
            format!("expected {}", list(names))
        };
        let what = format!("unknown field \"{shown}\"; {hint}");
        self.sink.add(entry.key_at, Path::Field(path, &entry.key), what);
    }

    fn field(&mut self, field: &FieldDescriptor, node: &Node, path: &Path<'_>) -> Option<Value> {
        if field.is_map() {
            self.map(field, node, path)
        } else if field.is_list() {
            self.list(field, node, path)
        } else {
            self.singular(&field.kind(), node, path)
        }
    }

    fn list(&mut self, field: &FieldDescriptor, node: &Node, path: &Path<'_>) -> Option<Value> {
        let Content::List(items) = &node.value else {
            self.wrong(node, path, "a list ([a, b], or lines that begin with \"- \")");
            return None;
        };
        let kind = field.kind();
        let read = |(index, item): (usize, &Node)| {
            let path = Path::Index(path, index);
            if is_null(item) && !kind_takes_null(&kind) {
                self.sink.add(item.at, path, "has no value; give one or remove the line");
                return None;
            }
            self.singular(&kind, item, &path)
        };
        Some(Value::List(items.iter().enumerate().filter_map(read).collect()))
    }

    fn map(&mut self, field: &FieldDescriptor, node: &Node, path: &Path<'_>) -> Option<Value> {
        let Content::Map(entries) = &node.value else {
            self.wrong(node, path, "a mapping of names to values");
            return None;
        };
        let Kind::Message(entry_type) = field.kind() else { return None };
        let (key_kind, value_kind) =
            (entry_type.map_entry_key_field().kind(), entry_type.map_entry_value_field().kind());
        let mut map = HashMap::new();
        for entry in entries.iter().filter(|entry| entry.key != BROKEN_KEY) {
            let path = Path::Key(path, &entry.key);
            if is_null(&entry.value) && !kind_takes_null(&value_kind) {
                let hint = if value_kind == Kind::String { "; write \"\" for an empty one" } else { "" };
                self.sink.add(entry.value.at, path, format!("has no value{hint}"));
                continue;
            }
            let key = self.map_key(&key_kind, entry, &path);
            let value = self.singular(&value_kind, &entry.value, &path);
            if let (Some(key), Some(value)) = (key, value)
                && map.insert(key, value).is_some()
            {
                self.sink.add(entry.key_at, path, "this key is given twice");
            }
        }
        Some(Value::Map(map))
    }

    fn map_key(&mut self, kind: &Kind, entry: &Entry, path: &Path<'_>) -> Option<MapKey> {
        if *kind == Kind::String {
            return Some(MapKey::String(entry.key.clone()));
        }
        // A key is a scalar like any other, only always written as text.
        let node = Node { at: entry.key_at, value: Content::Plain(entry.key.clone()) };
        self.singular(kind, &node, path)?.into_map_key()
    }

    fn singular(&mut self, kind: &Kind, node: &Node, path: &Path<'_>) -> Option<Value> {
        if node.value == Content::Broken {
            return None;
        }
        let unsigned = |bits: u32| (0, (1i128 << bits) - 1);
        let signed = |bits: u32| (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1);
        match kind {
            Kind::Message(descriptor) => {
                if let Some(read) = wellknown::reader(descriptor.full_name()) {
                    return match read(descriptor, node) {
                        Ok(message) => Some(Value::Message(message)),
                        Err(what) => self.reported(node, path, what),
                    };
                }
                if wellknown::is_wrapper(descriptor.full_name()) {
                    let field = descriptor.get_field(1)?;
                    let mut message = DynamicMessage::new(descriptor.clone());
                    message.set_field(&field, self.singular(&field.kind(), node, path)?);
                    return Some(Value::Message(message));
                }
                Some(Value::Message(self.message(descriptor, node, path)))
            }
            Kind::Enum(descriptor) => self.enumeration(descriptor, node, path),
            Kind::String => self.text(node, path).map(Value::String),
            Kind::Bytes => {
                let text = self.text(node, path)?;
                match base64(&text) {
                    Some(bytes) => Some(Value::Bytes(bytes.into())),
                    None => self.reported(node, path, "expected bytes in base64".to_owned()),
                }
            }
            Kind::Bool => self.boolean(node, path),
            Kind::Double => self.float(node, path, f64::MAX).map(Value::F64),
            Kind::Float => self.float(node, path, f64::from(f32::MAX)).map(|value| Value::F32(value as f32)),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
                self.integer(node, path, signed(32)).and_then(|n| n.try_into().ok()).map(Value::I32)
            }
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
                self.integer(node, path, signed(64)).and_then(|n| n.try_into().ok()).map(Value::I64)
            }
            Kind::Uint32 | Kind::Fixed32 => {
                self.integer(node, path, unsigned(32)).and_then(|n| n.try_into().ok()).map(Value::U32)
            }
            Kind::Uint64 | Kind::Fixed64 => {
                self.integer(node, path, unsigned(64)).and_then(|n| n.try_into().ok()).map(Value::U64)
            }
        }
    }

    fn reported(&mut self, node: &Node, path: &Path<'_>, what: String) -> Option<Value> {
        if node.value != Content::Broken {
            self.sink.add(node.at, path, what);
        }
        None
    }

    fn wrong(&mut self, node: &Node, path: &Path<'_>, expected: &str) {
        self.reported(node, path, format!("expected {expected}; found {}", describe(node)));
    }

    /// A string. Plain text that YAML takes for something else must be quoted, so that `1.10` stays what it is.
    fn text(&mut self, node: &Node, path: &Path<'_>) -> Option<String> {
        match &node.value {
            Content::Quoted(text) => Some(text.clone()),
            Content::Plain(text) if resolve(text) == Resolved::Text => Some(text.clone()),
            Content::Plain(text) => {
                let what = format!("expected a string; found {}; write \"{}\"", describe(node), Shown(text));
                self.sink.add(node.at, path, what);
                None
            }
            _ => {
                self.wrong(node, path, "a string");
                None
            }
        }
    }

    fn boolean(&mut self, node: &Node, path: &Path<'_>) -> Option<Value> {
        let text = match &node.value {
            Content::Plain(text) if text == "true" => return Some(Value::Bool(true)),
            Content::Plain(text) if text == "false" => return Some(Value::Bool(false)),
            Content::Plain(text) | Content::Quoted(text) => text.to_ascii_lowercase(),
            _ => String::new(),
        };
        let hint = match text.as_str() {
            "true" | "yes" | "on" | "y" | "1" | "enabled" => "; did you mean true?",
            "false" | "no" | "off" | "n" | "0" | "disabled" => "; did you mean false?",
            _ => "",
        };
        let what = format!("expected true or false; found {}{hint}", describe(node));
        self.reported(node, path, what)
    }

    /// A whole number within the range, written as a number or, as the canonical mapping allows, as decimal text.
    fn integer(&mut self, node: &Node, path: &Path<'_>, (least, most): (i128, i128)) -> Option<i128> {
        let (Content::Plain(text) | Content::Quoted(text)) = &node.value else {
            self.wrong(node, path, "a whole number");
            return None;
        };
        match whole(text) {
            Ok(number) if (least..=most).contains(&number) => Some(number),
            Ok(number) => {
                self.sink.add(node.at, path, format!("{number} is out of range; expected {least} to {most}"));
                None
            }
            Err(what) => {
                self.sink.add(node.at, path, format!("{what}; found {}", describe(node)));
                None
            }
        }
    }

    fn float(&mut self, node: &Node, path: &Path<'_>, most: f64) -> Option<f64> {
        let (Content::Plain(text) | Content::Quoted(text)) = &node.value else {
            self.wrong(node, path, "a number");
            return None;
        };
        match text.as_str() {
            "NaN" => return Some(f64::NAN),
            "Infinity" => return Some(f64::INFINITY),
            "-Infinity" => return Some(f64::NEG_INFINITY),
            _ => {}
        }
        let named = text.trim_start_matches(['-', '+']).starts_with('.')
            && !text.contains(|c: char| c.is_ascii_digit());
        let number = if resolve(text) == Resolved::Number { text.parse::<f64>().ok() } else { None };
        match number {
            Some(number) if number.abs() <= most => Some(number),
            Some(_) => {
                self.sink.add(node.at, path, format!("{} is out of range", Shown(text)));
                None
            }
            None if named => {
                self.wrong(node, path, "a number, \"NaN\", \"Infinity\" or \"-Infinity\"");
                None
            }
            None => {
                self.wrong(node, path, "a number");
                None
            }
        }
    }

    fn enumeration(&mut self, descriptor: &EnumDescriptor, node: &Node, path: &Path<'_>) -> Option<Value> {
        if descriptor.full_name() == "google.protobuf.NullValue" && is_null(node) {
            return Some(Value::EnumNumber(0));
        }
        let (Content::Plain(text) | Content::Quoted(text)) = &node.value else {
            self.wrong(node, path, "one of its names");
            return None;
        };
        if let Some(value) = descriptor.get_value_by_name(text) {
            return Some(Value::EnumNumber(value.number()));
        }
        let number = whole(text).ok().and_then(|number| i32::try_from(number).ok());
        if let Some(value) = number.and_then(|number| descriptor.get_value(number)) {
            return Some(Value::EnumNumber(value.number()));
        }
        let names: Vec<String> = descriptor.values().map(|value| value.name().to_owned()).collect();
        // The zero value says "not given"; nobody is to be led to it.
        let names = || names.iter().map(String::as_str).filter(|name| !name.ends_with("_UNSPECIFIED"));
        let hint = match nearest(text, names()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("expected {}", list(names())),
        };
        let what = format!("unknown value \"{}\"; {hint}", Shown(text));
        self.reported(node, path, what)
    }
}

/// A field by its JSON name or, as the canonical mapping allows, its proto name.
fn field_of(descriptor: &MessageDescriptor, key: &str) -> Option<FieldDescriptor> {
    descriptor.get_field_by_json_name(key).or_else(|| descriptor.get_field_by_name(key))
}

fn takes_null(field: &FieldDescriptor) -> bool {
    !field.is_list() && !field.is_map() && kind_takes_null(&field.kind())
}

fn kind_takes_null(kind: &Kind) -> bool {
    match kind {
        Kind::Message(message) => message.full_name() == "google.protobuf.Value",
        Kind::Enum(descriptor) => descriptor.full_name() == "google.protobuf.NullValue",
        _ => false,
    }
}

/// Where in the whole message a field of this name is, the shallowest place first.
fn elsewhere(root: &MessageDescriptor, key: &str) -> Option<String> {
    const DEEPEST: usize = 4;
    let mut queue = VecDeque::from([(root.clone(), String::new(), 0)]);
    while let Some((message, path, depth)) = queue.pop_front() {
        if let Some(field) = field_of(&message, key) {
            return Some(format!("{path}{}", field.json_name()));
        }
        if depth == DEEPEST {
            continue;
        }
        for field in message.fields().filter(|field| !field.is_map() && field.json_name() != "status") {
            if let Kind::Message(child) = field.kind()
                && !child.full_name().starts_with("google.protobuf.")
            {
                let index = if field.is_list() { "[]" } else { "" };
                queue.push_back((child, format!("{path}{}{index}.", field.json_name()), depth + 1));
            }
        }
    }
    None
}
