//! Dashboards, alerts and recorded numbers: as files, against the series that programs have; and asked of a real Prometheus that has
//! scraped a real run.

mod files;
mod made_up;
mod promql;
mod run;

use std::collections::BTreeSet;

use files::{
    DASHBOARDS, RULES, between, dashboard, known, list, queries, read, rules, text, tried, variables,
};
use promql::{results, unknown};
use serde_json::Value;

/// What each section of the run-books has.
const PARTS: [&str; 4] = ["**Means.**", "**Check.**", "**Mend.**", "**Proof.**"];

#[test]
fn every_series_and_label_of_rules_and_panels_is_one_that_there_is() {
    let known = known();
    let mut wrong = Vec::new();
    for rule in rules() {
        wrong.extend(
            unknown(&rule.expression, &known).into_iter().map(|what| format!("{}: {what}", rule.name)),
        );
        let labels = results(&rule.expression, &known);
        let said = rule.whole["annotations"].to_string();
        let strange = between(&said, "$labels.", " ").into_iter().filter(|label| !labels.contains(*label));
        wrong.extend(strange.map(|label| format!("{}: the alert has no label {label}", rule.name)));
    }
    let mut asked = 0;
    for name in DASHBOARDS {
        for query in queries(name, &dashboard(name)) {
            asked += 1;
            let found = unknown(&query.expression, &known).into_iter();
            wrong.extend(found.map(|what| format!("{}: {what}", query.panel)));
            let labels = results(&query.expression, &known);
            let shown = between(&query.legend, "{{", "}}").into_iter();
            let strange = shown.filter(|label| !labels.contains(*label));
            wrong.extend(strange.map(|label| format!("{}: the legend has no label {label}", query.panel)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(asked > 100, "{asked} queries of panels");
}

/// What is wrong with a panel that is no row.
fn panel(title: &str, panel: &Value) -> Vec<String> {
    let source = "${datasource}";
    let mut wrong = Vec::new();
    if text(&panel["description"]).len() < 20 {
        wrong.push(format!("{title}: it does not say what it shows"));
    }
    if text(&panel["fieldConfig"]["defaults"]["unit"]).is_empty() {
        wrong.push(format!("{title}: it has no unit"));
    }
    let targets = list(&panel["targets"]);
    let sources = targets.iter().chain([panel]).map(|one| text(&one["datasource"]["uid"]));
    wrong.extend(
        sources
            .filter(|uid| *uid != source)
            .map(|uid| format!("{title}: its data source is {uid:?}, not {source}")),
    );
    let marks: BTreeSet<&str> = targets.iter().map(|target| text(&target["refId"])).collect();
    if targets.is_empty() || marks.len() != targets.len() {
        wrong.push(format!("{title}: each of its questions has a refId of its own, and there is one"));
    }
    wrong
}

/// The places of a panel on Grafana's grid of 24 columns.
fn cells(panel: &Value) -> Vec<(u64, u64)> {
    let at = |name: &str| panel["gridPos"][name].as_u64().unwrap_or(u64::MAX);
    let (x, y) = (at("x"), at("y"));
    (x..x.saturating_add(at("w"))).flat_map(|x| (y..y.saturating_add(at("h"))).map(move |y| (x, y))).collect()
}

#[test]
fn dashboards_are_whole() {
    let mut wrong = Vec::new();
    for name in DASHBOARDS {
        let board = dashboard(name);
        assert_eq!(
            (text(&board["uid"]), &board["schemaVersion"]),
            (&*format!("railyard-{name}"), &Value::from(41))
        );
        let linked: BTreeSet<&str> = list(&board["links"]).iter().map(|link| text(&link["url"])).collect();
        for other in DASHBOARDS.iter().filter(|other| **other != name) {
            assert!(linked.contains(&*format!("/d/railyard-{other}")), "{name} does not link {other}");
        }
        let declared: BTreeSet<&str> =
            list(&board["templating"]["list"]).iter().map(|variable| text(&variable["name"])).collect();
        assert!(declared.contains("datasource"), "{name}: the data source is chosen by a variable");
        let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
        for one in list(&board["panels"]) {
            let title = format!("{name}: {}", text(&one["title"]));
            assert!(one["id"].as_u64().is_some_and(|id| ids.insert(id)), "{title}: its id is another's");
            for cell in cells(one) {
                assert!(cell.0 < 24 && taken.insert(cell), "{title}: it lies on another one at {cell:?}");
            }
            if one["type"] != "row" {
                wrong.extend(panel(&title, one));
            }
        }
        for query in queries(name, &board) {
            let strange = variables(&query.expression).into_iter();
            let strange = strange.filter(|name| !name.starts_with("__") && !declared.contains(name));
            wrong.extend(strange.map(|name| format!("{}: there is no variable {name}", query.panel)));
        }
        let known = known();
        for variable in list(&board["templating"]["list"]).iter().filter(|one| one["type"] == "query") {
            let asked = text(&variable["query"]["query"]);
            let inside = asked.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
            let (series, label) = inside.and_then(|inside| inside.rsplit_once(", ")).unwrap_or_default();
            wrong.extend(unknown(&format!("count by ({label}) ({series})"), &known));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The sections of the run-books by their anchors.
fn sections(book: &str) -> Vec<(String, &str)> {
    let parts = book.split("\n### ").skip(1);
    let titled = parts.filter_map(|part| part.split_once('\n'));
    titled.map(|(title, body)| (title.trim().to_lowercase(), body)).collect()
}

#[test]
fn every_alert_has_a_severity_a_summary_a_run_book_and_a_test() {
    let book = read("docs/runbooks.md");
    let (sections, tried) = (sections(&book), tried());
    let mut alerts = BTreeSet::new();
    for rule in rules().into_iter().filter(|rule| rule.alert) {
        let name = &rule.name;
        assert!(alerts.insert(name.to_lowercase()), "{name} is there twice");
        let severity = text(&rule.whole["labels"]["severity"]);
        assert!(["critical", "warning", "info"].contains(&severity), "{name}: severity {severity:?}");
        let said = &rule.whole["annotations"];
        assert!(text(&said["summary"]).len() > 20, "{name} has no summary");
        let anchor = text(&said["runbook_url"]).strip_prefix("docs/runbooks.md#");
        assert_eq!(anchor, Some(&*name.to_lowercase()), "{name}: its run-book");
        let section = sections.iter().find(|(title, _)| Some(title.as_str()) == anchor);
        let (_, body) = section.unwrap_or_else(|| panic!("docs/runbooks.md has no section ### {name}"));
        let body = body.split("\n## ").next().unwrap_or_default();
        for part in PARTS {
            assert!(body.contains(part), "docs/runbooks.md, {name}: {part} is missing");
        }
        let (fires, silent) = tried.get(name).copied().unwrap_or_default();
        assert!(fires && silent, "{}.test.yaml: {name} fires: {fires}, is silent: {silent}", rule.group);
    }
    assert!(alerts.len() >= 27, "{} alerts", alerts.len());
    let old = sections.iter().filter(|(title, _)| !alerts.contains(title));
    let old: Vec<&String> = old.map(|(title, _)| title).collect();
    assert!(old.is_empty(), "docs/runbooks.md: there is no alert {old:?}");
}

#[test]
fn recorded_numbers_are_tried_or_used() {
    let tests: String =
        RULES.iter().map(|group| read(&format!("deploy/prometheus/{group}.test.yaml"))).collect();
    let rules = rules();
    for rule in rules.iter().filter(|rule| !rule.alert) {
        let used = rules.iter().any(|other| other.name != rule.name && other.expression.contains(&rule.name));
        assert!(used || tests.contains(&rule.name), "{} is neither tried nor used", rule.name);
    }
}
