//! The files that make the cluster observable: what metrics there are, rules with their tests, dashboards, run-books.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use integration_harness::{binaries::root, yaml};
use serde_json::Value;

use super::promql::{Known, results};

/// Groups of rules in `deploy/prometheus`.
pub(super) const RULES: [&str; 3] = ["controller", "rails", "slo"];
/// Dashboards in `deploy/grafana`.
pub(super) const DASHBOARDS: [&str; 5] = ["fleet", "fabric", "job", "tenant", "controller"];

/// A rule that records, or an alert.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) group: &'static str,
    /// Its name, of either kind.
    pub(super) name: String,
    pub(super) alert: bool,
    pub(super) expression: String,
    pub(super) whole: Value,
}

/// A question that a panel asks.
#[derive(Debug, Clone)]
pub(super) struct Query {
    /// `fleet: Agents connected`.
    pub(super) panel: String,
    pub(super) expression: String,
    pub(super) legend: String,
}

pub(super) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub(super) fn rule_file(group: &str) -> PathBuf {
    root().join(format!("deploy/prometheus/{group}.rules.yaml"))
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The series that programs have, by the page that is generated of their sources, and those that rules record.
pub(super) fn known() -> Known {
    let mut known = Known::new();
    for line in read("docs/metrics.md").lines().filter(|line| line.starts_with("| `rail_")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches('`').to_owned();
        let labels: BTreeSet<String> = cells[3].split('`').skip(1).step_by(2).map(str::to_owned).collect();
        if cells[2] == "histogram" {
            let bucket = labels.iter().cloned().chain(["le".to_owned()]).collect();
            known.insert(format!("{name}_bucket"), bucket);
            known.insert(format!("{name}_count"), labels.clone());
            known.insert(format!("{name}_sum"), labels);
        } else {
            known.insert(name, labels);
        }
    }
    assert!(known.len() > 60, "docs/metrics.md has {} series", known.len());
    for rule in rules().into_iter().filter(|rule| !rule.alert) {
        let labels = results(&rule.expression, &known);
        known.insert(rule.name, labels);
    }
    known
}

/// All rules, in the order of their files.
pub(super) fn rules() -> Vec<Rule> {
    let mut all = Vec::new();
    for group in RULES {
        let file = yaml::document(&fs::read_to_string(rule_file(group)).unwrap()).unwrap();
        for rule in list(&file["groups"]).iter().flat_map(|group| list(&group["rules"])) {
            let alert = rule["alert"].is_string();
            all.push(Rule {
                group,
                name: text(&rule[if alert { "alert" } else { "record" }]).to_owned(),
                alert,
                expression: text(&rule["expr"]).to_owned(),
                whole: rule.clone(),
            });
        }
    }
    all
}

/// Whether `promtool` tries of each alert that it fires, and that it is silent: by its name.
pub(super) fn tried() -> BTreeMap<String, (bool, bool)> {
    let mut tried: BTreeMap<String, (bool, bool)> = BTreeMap::new();
    for group in RULES {
        let file = yaml::document(&read(&format!("deploy/prometheus/{group}.test.yaml"))).unwrap();
        for one in list(&file["tests"]).iter().flat_map(|test| list(&test["alert_rule_test"])) {
            let (fires, silent) = tried.entry(text(&one["alertname"]).to_owned()).or_default();
            *(if list(&one["exp_alerts"]).is_empty() { silent } else { fires }) = true;
        }
    }
    tried
}

pub(super) fn dashboard(name: &str) -> Value {
    let path = format!("deploy/grafana/{name}.json");
    serde_json::from_str(&read(&path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What the panels of a dashboard ask, with variables as they are written.
pub(super) fn queries(name: &str, dashboard: &Value) -> Vec<Query> {
    let mut all = Vec::new();
    for panel in list(&dashboard["panels"]) {
        for target in list(&panel["targets"]) {
            all.push(Query {
                panel: format!("{name}: {}", text(&panel["title"])),
                expression: text(&target["expr"]).to_owned(),
                legend: text(&target["legendFormat"]).to_owned(),
            });
        }
    }
    all
}

/// The words between `begin` and `end`: variables, or labels of a legend.
pub(super) fn between<'a>(words: &'a str, begin: &str, end: &str) -> Vec<&'a str> {
    words.split(begin).skip(1).filter_map(|rest| rest.split(end).next()).collect()
}

/// The variables that an expression names: `$node`, `$__rate_interval`.
pub(super) fn variables(expression: &str) -> Vec<&str> {
    let parts = expression.split('$').skip(1);
    parts.filter_map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()).collect()
}

/// An expression as Grafana would ask it with all chosen.
pub(super) fn filled(expression: &str) -> String {
    let mut filled = expression.to_owned();
    for name in variables(expression) {
        let value = if name == "__rate_interval" { "1m" } else { ".*" };
        filled = filled.replacen(&format!("${name}"), value, 1);
    }
    filled
}
