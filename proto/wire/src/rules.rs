//! What the schema allows of each field: options in protovalidate's vocabulary (`proto/buf/validate`), and who says a field
//! (`proto/google/api`), read from the descriptors.

use prost_reflect::{
    DynamicMessage, ExtensionDescriptor, FieldDescriptor, Kind, OneofDescriptor, ReflectMessage as _, Value,
};
use thiserror::Error;

/// Why the options of a field are none that can be held.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RuleError {
    /// The rules are of another type than the field.
    #[error("{field}: rules of {rules} do not fit a field of this type")]
    Type {
        /// Full name of the field.
        field: String,
        /// The kind of rules that was given, for example `string`.
        rules: String,
    },
    /// An expression of a form that is not known.
    #[error("{field}: '{expression}' is not of the form this.FIELD.matches('PATTERN')")]
    Expression {
        /// Full name of the field.
        field: String,
        /// The expression as it was given.
        expression: String,
    },
}

/// Who says a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Said {
    /// Requests and answers alike.
    #[default]
    Both,
    /// Answers only; what a request says there is not looked at.
    ByAnswers,
    /// Requests only.
    ByRequests,
}

/// What one field may be.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FieldRules {
    /// It must be there; where absence cannot be told from zero, it must not be zero.
    pub required: bool,
    /// What is zero or empty is right, whatever the rest says.
    pub zero_is_right: bool,
    /// Who says it.
    pub said: Said,
    /// What its value may be.
    pub value: ValueRules,
    /// Fields of its message that must match: name and pattern.
    pub members: Vec<(String, String)>,
}

/// What a value may be.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ValueRules {
    /// Whatever its type holds.
    #[default]
    Any,
    /// A whole number between these, both included.
    Number {
        /// The least that is allowed.
        least: Option<i128>,
        /// The most that is allowed.
        most: Option<i128>,
    },
    /// A text.
    Text(TextRules),
    /// A value of an enumeration, by its number.
    Choice {
        /// If there are any, only these.
        only: Vec<i32>,
        /// None of these.
        never: Vec<i32>,
    },
    /// A list.
    List {
        /// Entries at least.
        least: Option<u64>,
        /// Entries at most.
        most: Option<u64>,
        /// None comes twice.
        unique: bool,
        /// What each entry may be.
        items: Box<FieldRules>,
    },
    /// A map.
    Map {
        /// Entries at least.
        least: Option<u64>,
        /// Entries at most.
        most: Option<u64>,
        /// What each key may be.
        keys: Box<FieldRules>,
        /// What each value may be.
        values: Box<FieldRules>,
    },
    /// A length of time.
    Time {
        /// Whole seconds at least.
        least: Option<i64>,
        /// More than so many whole seconds.
        more_than: Option<i64>,
        /// Whole seconds at most.
        most: Option<i64>,
    },
}

/// What a text may be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextRules {
    /// Characters at least.
    pub min_len: Option<u64>,
    /// Characters at most.
    pub max_len: Option<u64>,
    /// Bytes at most.
    pub max_bytes: Option<u64>,
    /// Found in every right text; anchored by itself.
    pub pattern: Option<String>,
    /// If there are any, only these.
    pub only: Vec<String>,
}

/// The options of a field.
///
/// # Errors
/// [`RuleError`] if the options are none that can be held: a mistake of the schema, which a test finds.
pub fn field_rules(field: &FieldDescriptor) -> Result<FieldRules, RuleError> {
    let pool = field.parent_pool();
    let extension = |name: &str| pool.get_extension_by_name(name);
    let mut rules = FieldRules::default();
    let options = field.options();
    if let Some(message) = extension("buf.validate.field").and_then(|of| set_message(&options, &of)) {
        rules = read(field, &message, Shape::of(field))?;
    }
    if let Some(of) = extension("google.api.field_behavior") {
        let listed = options.get_extension(&of);
        let numbers = listed.as_list().unwrap_or_default().iter().filter_map(Value::as_enum_number);
        for number in numbers {
            match number {
                3 => rules.said = Said::ByAnswers,
                4 => rules.said = Said::ByRequests,
                _ => {}
            }
        }
    }
    Ok(rules)
}

/// Whether one of the oneof's fields must be set.
#[must_use]
pub fn oneof_is_required(oneof: &OneofDescriptor) -> bool {
    let of = oneof.parent_message().parent_pool().get_extension_by_name("buf.validate.oneof");
    let message = of.and_then(|of| set_message(&oneof.options(), &of));
    message.is_some_and(|message| flag(&message, "required"))
}

impl FieldRules {
    /// Whether a message without the field is refused.
    #[must_use]
    pub fn must_be_given(&self, field: &FieldDescriptor) -> bool {
        let zero_is_checked = !field.supports_presence() && !self.zero_is_right;
        self.required || (zero_is_checked && self.value.refuses_zero())
    }
}

impl ValueRules {
    /// Whether the zero, the empty text or the empty list is refused.
    #[must_use]
    pub fn refuses_zero(&self) -> bool {
        match self {
            Self::Any | Self::Time { .. } => false,
            Self::Number { least, most } => least.is_some_and(|n| n > 0) || most.is_some_and(|n| n < 0),
            Self::Text(text) => {
                text.min_len.is_some_and(|n| n > 0)
                    || !text.only.is_empty()
                    || text.pattern.as_deref().is_some_and(refuses_empty)
            }
            Self::Choice { only, never } => never.contains(&0) || !only.is_empty() && !only.contains(&0),
            Self::List { least, .. } | Self::Map { least, .. } => least.is_some_and(|n| n > 0),
        }
    }
}

/// Whether a pattern of the schema does not match the empty text. Those that do are a star of one class, or a group that may be left out; a
/// test compares this with what they match.
#[must_use]
pub fn refuses_empty(pattern: &str) -> bool {
    let star = pattern.starts_with("^[") && pattern.ends_with("]*$") && pattern.matches('[').count() == 1;
    let group = pattern.starts_with("^(") && pattern.ends_with(")?$");
    !star && !group
}

/// Of which kind the value is that rules are for.
enum Shape {
    List,
    Map,
    Single(Kind),
}

impl Shape {
    fn of(field: &FieldDescriptor) -> Self {
        match (field.is_map(), field.is_list()) {
            (true, _) => Self::Map,
            (_, true) => Self::List,
            _ => Self::Single(field.kind()),
        }
    }

    fn fits(&self, rules: &str) -> bool {
        match (self, rules) {
            (Self::List, "repeated") | (Self::Map, "map") => true,
            (Self::Single(kind), rules) => match kind {
                Kind::Int32 => rules == "int32",
                Kind::Uint32 => rules == "uint32",
                Kind::Uint64 => rules == "uint64",
                Kind::String => rules == "string",
                Kind::Enum(_) => rules == "enum",
                Kind::Message(of) => rules == "duration" && of.full_name() == "google.protobuf.Duration",
                _ => false,
            },
            _ => false,
        }
    }
}

fn read(field: &FieldDescriptor, message: &DynamicMessage, shape: Shape) -> Result<FieldRules, RuleError> {
    let kinds = ["int32", "uint32", "uint64", "string", "enum", "repeated", "map", "duration"];
    let given = kinds.into_iter().find_map(|name| Some((name, sub(message, name)?)));
    let value = match given {
        None => ValueRules::Any,
        Some((rules, _)) if !shape.fits(rules) => {
            return Err(RuleError::Type { field: field.full_name().to_owned(), rules: rules.to_owned() });
        }
        Some((rules, message)) => value(field, rules, &message)?,
    };
    Ok(FieldRules {
        required: flag(message, "required"),
        zero_is_right: message.get_field_by_name("ignore").and_then(|v| v.as_enum_number()) == Some(1),
        said: Said::Both,
        value,
        members: members(field, message)?,
    })
}

fn value(field: &FieldDescriptor, rules: &str, message: &DynamicMessage) -> Result<ValueRules, RuleError> {
    let count = |name: &str| number(message, name).and_then(|n| u64::try_from(n).ok());
    let entry = |name: &str, shape: Shape| match sub(message, name) {
        Some(rules) => read(field, &rules, shape).map(Box::new),
        None => Ok(Box::default()),
    };
    Ok(match rules {
        "string" => ValueRules::Text(TextRules {
            min_len: count("min_len"),
            max_len: count("max_len"),
            max_bytes: count("max_bytes"),
            pattern: set(message, "pattern").and_then(|v| v.as_str().map(str::to_owned)),
            only: list(message, "in").iter().filter_map(|v| v.as_str().map(str::to_owned)).collect(),
        }),
        "enum" => ValueRules::Choice { only: numbers(message, "in"), never: numbers(message, "not_in") },
        "repeated" => ValueRules::List {
            least: count("min_items"),
            most: count("max_items"),
            unique: flag(message, "unique"),
            items: entry("items", Shape::Single(field.kind()))?,
        },
        "map" => {
            let Kind::Message(pair) = field.kind() else { return Ok(ValueRules::Any) };
            ValueRules::Map {
                least: count("min_pairs"),
                most: count("max_pairs"),
                keys: entry("keys", Shape::Single(pair.map_entry_key_field().kind()))?,
                values: entry("values", Shape::Single(pair.map_entry_value_field().kind()))?,
            }
        }
        "duration" => ValueRules::Time {
            least: seconds(message, "gte"),
            more_than: seconds(message, "gt"),
            most: seconds(message, "lte"),
        },
        _ => ValueRules::Number { least: number(message, "gte"), most: number(message, "lte") },
    })
}

/// The members that an expression asks for.
fn members(field: &FieldDescriptor, message: &DynamicMessage) -> Result<Vec<(String, String)>, RuleError> {
    let read = |rule: &Value| {
        let expression = rule.as_message().and_then(|rule| set(rule, "expression"));
        let expression = expression.and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
        let parts = expression.strip_prefix("this.").and_then(|rest| rest.split_once(".matches('"));
        let parts = parts.and_then(|(name, rest)| Some((name, rest.strip_suffix("')")?)));
        let known = parts.filter(|(name, pattern)| {
            let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            plain && !pattern.contains(['\'', '\\'])
        });
        let own = known.map(|(name, pattern)| (name.to_owned(), pattern.to_owned()));
        own.ok_or(RuleError::Expression { field: field.full_name().to_owned(), expression })
    };
    list(message, "cel").iter().map(read).collect()
}

fn set_message(options: &DynamicMessage, of: &ExtensionDescriptor) -> Option<DynamicMessage> {
    let value = options.has_extension(of).then(|| options.get_extension(of))?;
    value.as_message().cloned()
}

/// The field's value, if it is set.
fn set(message: &DynamicMessage, name: &str) -> Option<Value> {
    let field = message.descriptor().get_field_by_name(name)?;
    message.has_field(&field).then(|| message.get_field(&field).into_owned())
}

fn sub(message: &DynamicMessage, name: &str) -> Option<DynamicMessage> {
    set(message, name)?.as_message().cloned()
}

fn flag(message: &DynamicMessage, name: &str) -> bool {
    set(message, name).and_then(|value| value.as_bool()).unwrap_or(false)
}

fn list(message: &DynamicMessage, name: &str) -> Vec<Value> {
    set(message, name).and_then(|value| value.as_list().map(<[Value]>::to_vec)).unwrap_or_default()
}

fn numbers(message: &DynamicMessage, name: &str) -> Vec<i32> {
    list(message, name).iter().filter_map(Value::as_i32).collect()
}

fn number(message: &DynamicMessage, name: &str) -> Option<i128> {
    Some(match set(message, name)? {
        Value::I32(n) => n.into(),
        Value::U32(n) => n.into(),
        Value::U64(n) => n.into(),
        _ => return None,
    })
}

fn seconds(message: &DynamicMessage, name: &str) -> Option<i64> {
    let length = sub(message, name)?;
    length.get_field_by_name("seconds").and_then(|value| value.as_i64())
}
