//! A row of `config_db.json`: a few fields in one piece of memory, and none of its own for the one field that most rows have. A map of its
//! own for each row, made for many keys, was most of what a large fabric's tables weighed (row F9); litemap would do, but writes a row
//! without fields as a list.

use std::{fmt, mem};

use compact_str::CompactString;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use smallvec::SmallVec;

/// A name or a value: nearly all of a configuration's are so short that they need no memory of their own.
pub type Text = CompactString;

/// A field: a text, or a list of texts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Field {
    /// A text.
    Text(Text),
    /// Several.
    List(Box<[Text]>),
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct OneOrMany;

        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Field;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of texts")
            }

            fn visit_str<E>(self, text: &str) -> Result<Field, E> {
                Ok(Field::Text(text.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Field, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    all.push(item);
                }
                Ok(Field::List(all.into()))
            }
        }

        from.deserialize_any(OneOrMany)
    }
}

impl Field {
    /// It as one text; none for a list.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::List(_) => None,
        }
    }
}

/// A row: its fields by name, in the order of the names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Row(Fields);

/// Fields, the first of them where the row is.
type Fields = SmallVec<[(Text, Field); 1]>;

impl Row {
    /// One without fields.
    #[must_use]
    pub fn new() -> Self {
        Self(Fields::new())
    }

    fn find(&self, field: &str) -> Result<usize, usize> {
        // Fields come in order as a rule: of what is written, and of what is read from what was written.
        match self.0.last() {
            Some((last, _)) if last.as_str() < field => Err(self.0.len()),
            _ => self.0.binary_search_by(|(name, _)| name.as_str().cmp(field)),
        }
    }

    /// A field's value.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&Field> {
        self.find(field).ok().map(|at| &self.0[at].1)
    }

    /// Whether there is such a field.
    #[must_use]
    pub fn contains_key(&self, field: &str) -> bool {
        self.find(field).is_ok()
    }

    /// Sets a field; what it was before.
    pub fn insert(&mut self, field: Text, value: Field) -> Option<Field> {
        match self.find(&field) {
            Ok(at) => Some(mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.insert(at, (field, value));
                None
            }
        }
    }

    /// Takes a field away; what it was.
    pub fn remove(&mut self, field: &str) -> Option<Field> {
        self.find(field).ok().map(|at| self.0.remove(at).1)
    }

    /// Keeps the fields for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(&Text, &mut Field) -> bool) {
        self.0.retain(|(name, value)| keep(name, value));
    }

    /// Names of the fields, in order.
    pub fn keys(&self) -> impl Iterator<Item = &Text> {
        self.0.iter().map(|(name, _)| name)
    }

    /// The fields, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Text, &Field)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// How many fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Extend<(Text, Field)> for Row {
    fn extend<I: IntoIterator<Item = (Text, Field)>>(&mut self, fields: I) {
        for (name, value) in fields {
            self.insert(name, value);
        }
    }
}

impl FromIterator<(Text, Field)> for Row {
    fn from_iter<I: IntoIterator<Item = (Text, Field)>>(fields: I) -> Self {
        let mut row = Self::new();
        row.extend(fields);
        row
    }
}

impl IntoIterator for Row {
    type Item = (Text, Field);
    type IntoIter = smallvec::IntoIter<[(Text, Field); 1]>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ByName;

        impl<'de> Visitor<'de> for ByName {
            type Value = Row;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("fields by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Row, A::Error> {
                let mut all = Fields::new();
                let mut in_order = true;
                while let Some((name, value)) = fields.next_entry::<Text, Field>()? {
                    in_order &= all.last().is_none_or(|(last, _)| *last < name);
                    all.push((name, value));
                }
                // Of two fields of one name the later one holds, as everywhere in JSON; found in one sort, however many there are.
                if !in_order {
                    all.reverse();
                    all.sort_by(|a, b| a.0.cmp(&b.0));
                    all.dedup_by(|later, first| later.0 == first.0);
                }
                Ok(Row(all))
            }
        }

        from.deserialize_map(ByName)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proto_random::Random;

    use super::*;

    fn value(number: usize) -> Field {
        Field::Text(number.to_string().into())
    }

    #[test]
    fn it_is_a_map_in_order_of_names() {
        let mut random = Random::new(7);
        for _ in 0..200 {
            let (mut row, mut model) = (Row::new(), BTreeMap::new());
            for step in 0..random.index(40) {
                let name = Text::from(format!("f{}", random.index(12)));
                if random.index(4) == 0 {
                    assert_eq!(row.remove(name.as_str()), model.remove(&name));
                } else {
                    assert_eq!(
                        row.insert(name.clone(), value(step)),
                        model.insert(name.clone(), value(step))
                    );
                }
                assert_eq!(row.get(&name), model.get(&name));
                assert_eq!(row.contains_key(&name), model.contains_key(&name));
            }
            assert!(row.iter().eq(model.iter()) && row.len() == model.len());
            let text = serde_json::to_string(&row).unwrap();
            assert_eq!(text, serde_json::to_string(&model).unwrap());
            assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
        }
    }

    #[test]
    fn of_fields_of_one_name_the_last_one_holds_in_whatever_order_they_come() {
        let text = r#"{"b":"1","a":"2","b":"3","a":["4"],"c":"5"}"#;
        let row: Row = serde_json::from_str(text).unwrap();
        let model: BTreeMap<Text, Field> = serde_json::from_str(text).unwrap();
        assert!(row.iter().eq(model.iter()));
        assert!(serde_json::from_str::<Row>("[]").is_err());
    }
}
