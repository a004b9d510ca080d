//! By which method a configuration is put in place: by SONiC's updater, or by loading its whole database anew.

use proto_model::sonic::{self, Part, Step};
use serde_json::{Map, Value};

use crate::{
    config_db::{self, ConfigDbError},
    files::Files,
};

/// How a configuration is put in place, and taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Method {
    /// Setting by setting; the switch goes on.
    #[default]
    Change,
    /// The whole database at once; all services of the switch start again, which takes minutes.
    Reload,
}

/// The method for `wanted` on a switch that has `found`, and why it is not the first one.
///
/// # Errors
/// One of the two is no configuration, so that it could not be put in place at all.
pub(super) fn method(
    found: &Files,
    wanted: &Files,
    owned: &[String],
) -> Result<(Method, Option<&'static str>), ConfigDbError> {
    let (Some(found), Some(wanted)) = (found.get(config_db::FILE), wanted.get(config_db::FILE)) else {
        return Ok((Method::Change, None));
    };
    let merged = config_db::merge(found, wanted, owned)?;
    let why = why_reload(&config_db::tables(found)?, &config_db::tables(&merged)?);
    Ok((why.map_or(Method::Change, |_| Method::Reload), why))
}

/// The first change that SONiC's updater does not make.
fn why_reload(from: &Map<String, Value>, to: &Map<String, Value>) -> Option<&'static str> {
    pairs(from, to).find_map(|(table, was, is)| match (rows(was), rows(is)) {
        (Some(was), Some(is)) => pairs(was, is).find_map(|(key, was, is)| match (rows(was), rows(is)) {
            (Some(was), Some(is)) => pairs(was, is).find_map(|(field, was, is)| {
                sonic::needs_reload(table, Part::Field(key, field), step(was, is)?)
            }),
            _ => sonic::needs_reload(table, Part::Row(key), step(was, is)?),
        }),
        _ => sonic::needs_reload(table, Part::Table, step(was, is)?),
    })
}

type Pair<'a> = (&'a str, Option<&'a Value>, Option<&'a Value>);

/// What either has, by name.
fn pairs<'a>(from: &'a Map<String, Value>, to: &'a Map<String, Value>) -> impl Iterator<Item = Pair<'a>> {
    let gone = from.iter().filter(|(name, _)| !to.contains_key(*name));
    let gone = gone.map(|(name, was)| (name.as_str(), Some(was), None));
    gone.chain(to.iter().map(|(name, is)| (name.as_str(), from.get(name), Some(is))))
}

fn rows(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

fn step(was: Option<&Value>, is: Option<&Value>) -> Option<Step> {
    match (was, is) {
        (None, Some(_)) => Some(Step::Add),
        (Some(_), None) => Some(Step::Remove),
        (Some(was), Some(is)) if was != is => Some(Step::Replace),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(database: &str) -> Files {
        Files::new([(config_db::FILE.to_owned(), database.to_owned())]).unwrap()
    }

    #[test]
    fn one_change_that_the_updater_refuses_is_a_reload_of_all() {
        let found = r#"{"BUFFER_POOL": {"in": {"size": "9", "mode": "dynamic"}}, "BUFFER_PROFILE": {"a": {"size": "1", "xoff": "2"}},
            "PFC_WD": {"Ethernet0": {"action": "drop"}, "GLOBAL": {"POLL_INTERVAL": "200"}}, "PORT": {"Ethernet0": {"mtu": "9100"}}}"#;
        let cases = [
            (r#"{"PORT": {"Ethernet0": {"mtu": "9216"}}}"#, Method::Change),
            (r#"{"BUFFER_POOL": {"in": {"size": "9"}}}"#, Method::Change),
            (r#"{"BUFFER_POOL": {"in": {"size": "8"}}}"#, Method::Reload),
            (r#"{"BUFFER_POOL": {"out": {"size": "9"}}}"#, Method::Reload),
            (r#"{"BUFFER_PROFILE": {"a": {"xoff": "3"}}}"#, Method::Change),
            (r#"{"BUFFER_PROFILE": {"a": {"xon": "3"}}}"#, Method::Reload),
            (r#"{"BUFFER_PROFILE": {"b": {"size": "3"}}}"#, Method::Change),
            (r#"{"DEVICE_METADATA": {"localhost": {"buffer_model": "dynamic"}}}"#, Method::Change),
        ];
        for (wanted, expected) in cases {
            let (method, why) = method(&files(found), &files(wanted), &[]).unwrap();
            assert_eq!((method, why.is_some()), (expected, expected == Method::Reload), "{wanted}");
        }
        // Of a table that is owned what is not wanted goes.
        let owned = ["PFC_WD".to_owned()];
        let kept = r#"{"PFC_WD": {"Ethernet0": {"action": "drop"}}}"#;
        assert_eq!(method(&files(found), &files(kept), &[]).unwrap().0, Method::Change);
        assert_eq!(method(&files(found), &files(kept), &owned).unwrap().0, Method::Reload);
        let model = r#"{"DEVICE_METADATA": {"localhost": {"buffer_model": "traditional"}}}"#;
        let other = r#"{"DEVICE_METADATA": {"localhost": {"buffer_model": "dynamic"}}}"#;
        assert_eq!(method(&files(model), &files(other), &[]).unwrap().0, Method::Reload);
        assert!(method(&files(found), &files("[]"), &[]).is_err());
        assert_eq!(method(&Files::default(), &files("[]"), &[]).unwrap().0, Method::Change);
    }
}
