//! Which series and labels an expression of PromQL names: enough of its grammar for rules and panels, so that a misspelt name is found
//! without a Prometheus.

use std::collections::{BTreeMap, BTreeSet};

/// A series as an expression names it, with the labels that it is chosen by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Selector {
    pub(super) series: String,
    pub(super) labels: Vec<String>,
}

/// What an expression names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) selectors: Vec<Selector>,
    /// Labels of `by`, each with the series that are aggregated by it.
    pub(super) by: Vec<(String, Vec<String>)>,
    /// Labels of `on`, `ignoring`, `without` and `group_left`.
    pub(super) matched: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Name(String),
    Text(String),
    Sign(char),
}

/// The labels of each series; a histogram has its `_bucket`, `_sum` and `_count`.
pub(super) type Known = BTreeMap<String, BTreeSet<String>>;

const KEYWORDS: [&str; 7] = ["and", "or", "unless", "bool", "offset", "inf", "nan"];
const AGGREGATIONS: [&str; 10] =
    ["sum", "min", "max", "avg", "count", "topk", "bottomk", "quantile", "stddev", "group"];
const FUNCTIONS: [&str; 11] = [
    "rate",
    "increase",
    "histogram_quantile",
    "absent",
    "vector",
    "time",
    "avg_over_time",
    "max_over_time",
    "min_over_time",
    "label_values",
    "clamp_max",
];

/// The words of an expression; times in brackets and numbers are left out.
fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' | '\'' => {
                let end = rest[1..].find(first).ok_or_else(|| format!("{text}: a text does not end"))?;
                found.push(Token::Text(rest[1..=end].to_owned()));
                end + 2
            }
            '[' => rest.find(']').ok_or_else(|| format!("{text}: a range does not end"))? + 1,
            _ if first.is_ascii_digit() => {
                let part = |c: char| !c.is_ascii_alphanumeric() && c != '.';
                rest.find(part).unwrap_or(rest.len())
            }
            _ if first.is_ascii_alphabetic() || "_:$".contains(first) => {
                let part = |c: char| !c.is_ascii_alphanumeric() && !"_:$".contains(c);
                let end = rest.find(part).unwrap_or(rest.len());
                found.push(Token::Name(rest[..end].to_owned()));
                end
            }
            _ => {
                found.extend((!first.is_whitespace()).then_some(Token::Sign(first)));
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    Ok(found)
}

/// Where the bracket that opens at `open` closes.
fn closing(tokens: &[Token], open: usize) -> Result<usize, String> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token {
            Token::Sign('(' | '{') => depth += 1,
            Token::Sign(')' | '}') => {
                depth = depth.checked_sub(1).ok_or("a bracket closes that is not open")?;
                if depth == 0 {
                    return Ok(at);
                }
            }
            _ => {}
        }
    }
    Err("a bracket does not close".to_owned())
}

/// The names between two places.
fn listed(tokens: &[Token]) -> Vec<String> {
    let name = |token: &Token| match token {
        Token::Name(name) => Some(name.clone()),
        _ => None,
    };
    tokens.iter().filter_map(name).collect()
}

/// The labels of `{a="b", c=~"d"}`: each stands before a sign, and what follows is a text.
fn matchers(tokens: &[Token]) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for one in tokens.split(|token| *token == Token::Sign(',')).filter(|one| !one.is_empty()) {
        match one {
            [Token::Name(label), Token::Sign('=' | '!'), .., Token::Text(_)] => found.push(label.clone()),
            _ => return Err(format!("{one:?} is no matcher")),
        }
    }
    Ok(found)
}

/// What an expression names.
///
/// # Errors
/// It is not PromQL as rules and panels are written here.
pub(super) fn names(expression: &str) -> Result<Names, String> {
    let wrong = |error: String| format!("{expression}: {error}");
    let tokens = tokens(expression)?;
    let mut found = Names::default();
    let is = |at: usize, sign: char| tokens.get(at) == Some(&Token::Sign(sign));
    let mut at = 0;
    while at < tokens.len() {
        let Some(Token::Name(word)) = tokens.get(at) else {
            at += 1;
            continue;
        };
        let grouping = ["by", "on", "without", "ignoring", "group_left", "group_right"];
        if grouping.contains(&word.as_str()) {
            let end = closing(&tokens, at + 1).map_err(wrong)?;
            let labels = listed(&tokens[at + 1..end]);
            if word == "by" {
                let body = closing(&tokens, end + 1).map_err(wrong)?;
                let inside = names_within(&tokens[end + 1..body]).map_err(wrong)?;
                found.by.extend(labels.into_iter().map(|label| (label, inside.clone())));
            } else {
                found.matched.extend(labels);
            }
            at = end + 1;
        } else if KEYWORDS.contains(&word.as_str())
            || AGGREGATIONS.contains(&word.as_str())
            || (is(at + 1, '(') && FUNCTIONS.contains(&word.as_str()))
        {
            at += 1;
        } else if is(at + 1, '(') {
            return Err(wrong(format!("there is no function {word}")));
        } else if is(at + 1, '{') {
            let end = closing(&tokens, at + 1).map_err(wrong)?;
            let labels = matchers(&tokens[at + 2..end]).map_err(wrong)?;
            found.selectors.push(Selector { series: word.clone(), labels });
            at = end + 1;
        } else {
            found.selectors.push(Selector { series: word.clone(), labels: Vec::new() });
            at += 1;
        }
    }
    Ok(found)
}

/// The series that are named somewhere within.
fn names_within(tokens: &[Token]) -> Result<Vec<String>, String> {
    let mut series = BTreeSet::new();
    let mut braces = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign('{') => braces += 1,
            Token::Sign('}') => braces = braces.saturating_sub(1),
            Token::Name(name) if braces == 0 && (name.starts_with("rail_") || name.contains(':')) => {
                // What is aggregated before is another's.
                let called = tokens.get(at + 1) == Some(&Token::Sign('('));
                series.extend((!called).then(|| name.clone()));
            }
            _ => {}
        }
    }
    Ok(series.into_iter().collect())
}

/// What of an expression is not known, or nothing.
pub(super) fn unknown(expression: &str, known: &Known) -> Vec<String> {
    let names = match names(expression) {
        Ok(names) => names,
        Err(error) => return vec![error],
    };
    let mut wrong = Vec::new();
    // What Prometheus adds itself.
    let has = |series: &str, label: &str| {
        label == "instance" || known.get(series).is_some_and(|labels| labels.contains(label))
    };
    for Selector { series, labels } in &names.selectors {
        if !known.contains_key(series) {
            wrong.push(format!("{expression}: there is no series {series}"));
            continue;
        }
        let strange = labels.iter().filter(|label| !has(series, label));
        wrong.extend(strange.map(|label| format!("{expression}: {series} has no label {label}")));
    }
    for (label, series) in &names.by {
        let strange = series.iter().filter(|series| !has(series, label));
        wrong.extend(strange.map(|series| format!("{expression}: by {label}, which {series} does not have")));
    }
    for label in &names.matched {
        if !names.selectors.iter().any(|selector| has(&selector.series, label)) {
            wrong.push(format!("{expression}: nothing of it has the label {label}"));
        }
    }
    wrong
}

/// Labels that the result of an expression may have: of each series those by which it is aggregated, else all of its own.
pub(super) fn results(expression: &str, known: &Known) -> BTreeSet<String> {
    let Ok(names) = names(expression) else { return BTreeSet::new() };
    let mut labels: BTreeSet<String> = names.by.iter().map(|(label, _)| label.clone()).collect();
    let chosen = ["topk", "bottomk"];
    let mut aggregations = AGGREGATIONS.iter().filter(|word| !chosen.contains(word));
    let aggregates = aggregations.any(|word| expression.contains(&format!("{word}(")));
    if names.by.is_empty() && !aggregates {
        let own = names.selectors.iter().filter_map(|selector| known.get(&selector.series));
        labels.extend(own.flatten().cloned());
        labels.insert("instance".to_owned());
    }
    labels.remove("le");
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        let labels = |all: &[&str]| all.iter().map(|label| (*label).to_owned()).collect();
        [
            ("rail_a_total", labels(&["rail", "device"])),
            ("rail_b_bucket", labels(&["le", "call"])),
            ("cluster:rail_a:ratio", labels(&[])),
        ]
        .map(|(name, labels)| (name.to_owned(), labels))
        .into()
    }

    #[test]
    fn names_and_labels_of_expressions_are_found() {
        let names = names("sum by (rail) (rate(rail_a_total{device=~\"$d\", rail!=\"1\"}[5m])) > 14.4 * 0.001 and on (rail) cluster:rail_a:ratio").unwrap();
        assert_eq!(
            names.selectors,
            [
                Selector { series: "rail_a_total".into(), labels: vec!["device".into(), "rail".into()] },
                Selector { series: "cluster:rail_a:ratio".into(), labels: Vec::new() },
            ]
        );
        assert_eq!(names.by, [("rail".to_owned(), vec!["rail_a_total".to_owned()])]);
        assert_eq!(names.matched, ["rail"]);
    }

    #[test]
    fn what_is_misspelt_is_told() {
        let known = known();
        for well in [
            "histogram_quantile(0.9, sum by (instance, le) (rate(rail_b_bucket{call=\"x\"}[5m])))",
            "(sum(increase(rail_a_total[1h])) or vector(0)) / (sum(rail_a_total) > 0)",
            "topk(10, rail_a_total{rail=~\"$rail\"}) > 0",
            "1 - cluster:rail_a:ratio",
        ] {
            assert!(unknown(well, &known).is_empty(), "{:?}", unknown(well, &known));
        }
        for (faulty, said) in [
            ("rail_c_total", "no series rail_c_total"),
            ("rail_a", "no series rail_a"),
            ("rail_a_total{le=\"1\"}", "no label le"),
            ("sum by (call) (rail_a_total)", "by call"),
            ("rail_a_total and on (call) cluster:rail_a:ratio", "label call"),
            ("summ(rail_a_total)", "no function summ"),
            ("sum by (rail rail_a_total", "does not close"),
            ("rail_a_total{rail}", "no matcher"),
        ] {
            let wrong = unknown(faulty, &known).join("\n");
            assert!(wrong.contains(said), "{faulty}: {wrong}");
        }
    }

    #[test]
    fn labels_of_results_are_those_that_are_left() {
        let known = known();
        let of = |expression: &str| results(expression, &known).into_iter().collect::<Vec<_>>();
        assert_eq!(of("sum by (rail) (rail_a_total)"), ["rail"]);
        assert_eq!(of("topk(3, rail_a_total)"), ["device", "instance", "rail"]);
        assert!(of("sum(rail_a_total)").is_empty());
    }
}
