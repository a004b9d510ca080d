//! Changes by hand on switches that are as desired, and switches' own settings that are nobody's business: row F6.

use compact_str::format_compact;
use proto_random::Random;

use super::{OWNED, Settings, changes};
use crate::{
    check::Facts,
    mutate,
    render::{
        sonic,
        tables::{ConfigDb, Field, Row, Text},
    },
};

/// Tables that are a switch's own.
const OWN: [&str; 5] = ["MGMT_INTERFACE", "FEATURE", "SYSLOG_SERVER", "NTP_SERVER", "VLAN"];

/// What became of changes by hand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Drift {
    /// How many were made.
    pub made: usize,
    /// Those that were not found, or not alone.
    pub missed: Vec<String>,
    /// Changes of a switch's own settings that were taken for drift.
    pub false_alarms: Vec<String>,
    /// How often a switch was compared.
    pub comparisons: usize,
}

/// Makes `count` changes, one at a time, on switches of right fabrics, and beside each one in the switch's own settings.
///
/// # Errors
/// A fabric that should be right is refused.
pub fn drift(count: usize, seed: u64) -> Result<Drift, String> {
    let mut random = Random::new(seed);
    let mut all = Drift::default();
    let mut at = seed;
    while all.made < count {
        let variant = mutate::variant(at).map_err(|why| why.to_string())?;
        at += 1;
        let switches = variant.shape.switches().map_err(|why| why.to_string())?;
        let facts = Facts::desired(&variant.profile, &switches, variant.model);
        let facts =
            facts.map_err(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
        for state in facts.switches.values().take(4) {
            let desired = Settings { tables: Some(sonic::config_db(state)), routing: state.routing.clone() };
            for _ in 0..4 {
                one(&desired, &mut random, &mut all);
            }
        }
    }
    Ok(all)
}

fn one(desired: &Settings, random: &mut Random, all: &mut Drift) {
    let mut found = desired.clone();
    let Some(tables) = &mut found.tables else { return };
    let own = OWN[random.index(OWN.len())];
    tables.set(own, &format!("row{}", random.index(9)), "value", random.index(1000));
    all.comparisons += 2;
    all.false_alarms.extend(changes(desired, &found).iter().map(ToString::to_string));
    let Some(tables) = &mut found.tables else { return };
    let what = by_hand(tables, random);
    all.made += 1;
    let seen = changes(desired, &found);
    if seen.is_empty() || !seen.iter().all(|change| change.path.starts_with(&what)) {
        all.missed.push(format!("{what}: {seen:?}"));
    }
}

/// Changes a field, takes a row away, or adds one to a table that is ours; says where.
fn by_hand(tables: &mut ConfigDb, random: &mut Random) -> String {
    let names: Vec<Text> = tables.0.keys().filter(|name| !OWN.contains(&name.as_str())).cloned().collect();
    let table = names[random.index(names.len())].clone();
    let rows = tables.0.entry(table.clone()).or_default();
    let keys: Vec<Text> = rows.keys().cloned().collect();
    let key = keys[random.index(keys.len())].clone();
    if random.index(3) == 0 && OWNED.contains(&table.as_str()) {
        let key = format_compact!("{key}x");
        let field = Row::from_iter([("by_hand".into(), Field::Text("1".into()))]);
        rows.insert(key.clone(), field);
        return format!("{table}|{key}");
    }
    if random.index(2) == 0 {
        rows.remove(key.as_str());
        return format!("{table}|{key}");
    }
    let Some(row) = rows.get_mut(key.as_str()) else { return format!("{table}|{key}") };
    let fields: Vec<Text> = row.keys().cloned().collect();
    match fields.get(random.index(fields.len().max(1))) {
        Some(field) => {
            row.insert(field.clone(), Field::Text("by hand".into()));
            format!("{table}|{key}|{field}")
        }
        None => {
            rows.remove(key.as_str());
            format!("{table}|{key}")
        }
    }
}
