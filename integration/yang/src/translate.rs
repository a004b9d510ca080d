//! `config_db.json` as an instance of the models, in XML: there every value is a text, as it is in SONiC's database, and libyang finds its type.
//!
//! A row `TABLE|key|key {fields}` is an entry of the list of that many keys in the container `TABLE`, or the container of the row's name. Fields that
//! the entry has no leaf for are entries of the one list in it (maps: `DSCP_TO_TC_MAP|name {dscp: class}`).

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Map, Value};
use yang3::schema::{SchemaNode, SchemaNodeKind};

/// What is translated, and what the models have no place for.
#[derive(Debug, Default)]
pub struct Translated {
    /// The instance.
    pub xml: String,
    /// Tables, rows and fields that no model has.
    pub faults: Vec<String>,
}

/// Translates a whole configuration.
#[must_use]
pub fn config_db(tables: &BTreeMap<String, SchemaNode<'_>>, config: &Map<String, Value>) -> Translated {
    let mut translated = Translated::default();
    for (name, rows) in config {
        let Some(table) = tables.get(name) else {
            translated.faults.push(format!("{name}: no model has this table"));
            continue;
        };
        let Some(rows) = rows.as_object() else {
            translated.faults.push(format!("{name}: is not rows by their keys"));
            continue;
        };
        let module = table.module();
        let top = table.ancestors().last().map_or_else(String::new, |top| top.name().to_owned());
        let _ = write!(translated.xml, "<{top} xmlns=\"{}\"><{name}>", module.namespace());
        for (key, fields) in rows {
            row(&mut translated, table, key, fields);
        }
        let _ = write!(translated.xml, "</{name}></{top}>");
    }
    translated
}

/// Nodes of data below a node: what stands in a choice stands in the node itself.
fn children<'a>(node: &SchemaNode<'a>) -> Vec<SchemaNode<'a>> {
    let inner = |child: SchemaNode<'a>| match child.kind() {
        SchemaNodeKind::Choice | SchemaNodeKind::Case => children(&child),
        _ => vec![child],
    };
    node.children().flat_map(inner).collect()
}

fn row(translated: &mut Translated, table: &SchemaNode<'_>, key: &str, fields: &Value) {
    let at = format!("{}|{key}", table.name());
    let Some(fields) = fields.as_object() else {
        translated.faults.push(format!("{at}: is not fields by their names"));
        return;
    };
    let nodes = children(table);
    if let Some(node) =
        nodes.iter().find(|node| node.kind() == SchemaNodeKind::Container && node.name() == key)
    {
        element(translated, node, &[], fields, &at);
        return;
    }
    let parts: Vec<&str> = key.split('|').collect();
    let fits = |node: &&SchemaNode<'_>| {
        node.kind() == SchemaNodeKind::List && node.list_keys().count() == parts.len()
    };
    match nodes.iter().find(fits) {
        Some(node) => element(translated, node, &parts, fields, &at),
        None => translated.faults.push(format!("{at}: the table has no list of {} keys", parts.len())),
    }
}

/// A container, or an entry of a list with its keys.
fn element(
    translated: &mut Translated,
    node: &SchemaNode<'_>,
    keys: &[&str],
    fields: &Map<String, Value>,
    at: &str,
) {
    let name = node.name();
    let _ = write!(translated.xml, "<{name}>");
    for (key, value) in node.list_keys().zip(keys) {
        leaf(translated, key.name(), value);
    }
    let nodes = children(node);
    // What a row without fields has in the database.
    for (field, value) in fields.iter().filter(|(field, _)| *field != "NULL") {
        let at = format!("{at}|{field}");
        match nodes.iter().find(|node| node.name() == field) {
            Some(found) => self::field(translated, found, value, &at),
            None => entry(translated, &nodes, field, value, &at),
        }
    }
    let _ = write!(translated.xml, "</{name}>");
}

fn field(translated: &mut Translated, node: &SchemaNode<'_>, value: &Value, at: &str) {
    match (node.kind(), value) {
        (SchemaNodeKind::Leaf, Value::String(text)) => leaf(translated, node.name(), text),
        (SchemaNodeKind::LeafList, Value::String(text)) => {
            text.split(',').for_each(|text| leaf(translated, node.name(), text));
        }
        (SchemaNodeKind::LeafList, Value::Array(all)) => {
            for value in all {
                field(translated, node, &value.as_str().map_or(Value::Null, Value::from), at);
            }
        }
        (kind, _) => translated.faults.push(format!("{at}: a {kind:?} cannot have such a value")),
    }
}

/// A field that is an entry of the one list in its row: its name is the key, its value the other leaf.
fn entry(translated: &mut Translated, nodes: &[SchemaNode<'_>], field: &str, value: &Value, at: &str) {
    let mut lists = nodes.iter().filter(|node| node.kind() == SchemaNodeKind::List);
    let (Some(list), None, Some(value)) = (lists.next(), lists.next(), value.as_str()) else {
        translated.faults.push(format!("{at}: the model has no such field"));
        return;
    };
    let keys: Vec<_> = list.list_keys().collect();
    let other =
        children(list).into_iter().find(|node| node.kind() == SchemaNodeKind::Leaf && !node.is_list_key());
    let ([key], Some(other)) = (&*keys, other) else {
        translated.faults.push(format!("{at}: the list in this row is not of one key and one value"));
        return;
    };
    let _ = write!(translated.xml, "<{}>", list.name());
    leaf(translated, key.name(), field);
    leaf(translated, other.name(), value);
    let _ = write!(translated.xml, "</{}>", list.name());
}

fn leaf(translated: &mut Translated, name: &str, text: &str) {
    let _ = write!(translated.xml, "<{name}>");
    for character in text.chars() {
        match character {
            '&' => translated.xml.push_str("&amp;"),
            '<' => translated.xml.push_str("&lt;"),
            '>' => translated.xml.push_str("&gt;"),
            other => translated.xml.push(other),
        }
    }
    let _ = write!(translated.xml, "</{name}>");
}
