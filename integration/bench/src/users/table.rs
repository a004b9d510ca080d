//! The table of things that users do: what is run, and what must come of it. It is data; this reads it and judges.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::yaml;

/// The parts of the table, by whose users do these things.
const PARTS: [(&str, &str); 3] = [
    ("kubectl.yaml", include_str!("things/kubectl.yaml")),
    ("nomad.yaml", include_str!("things/nomad.yaml")),
    ("slurm.yaml", include_str!("things/slurm.yaml")),
];

/// What a new user met in a day.
const FINDINGS: [(&str, &str); 1] = [("findings.yaml", include_str!("things/findings.yaml"))];

/// One thing that users do.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thing {
    /// Its name in the table.
    pub id: String,
    /// How it is done there.
    pub peer: String,
    /// What the user does, in words.
    pub what: String,
    /// How it is done here: a script for `bash -euo pipefail`.
    pub run: String,
    /// The exit code that must come.
    #[serde(default)]
    pub code: i32,
    /// What must stand in its standard output.
    #[serde(default)]
    pub stdout: Vec<String>,
    /// What must stand in its standard error.
    #[serde(default)]
    pub stderr: Vec<String>,
    /// What must stand in neither.
    #[serde(default)]
    pub absent: Vec<String>,
    /// Its standard output is JSON in which these values must stand, by JSON pointer.
    #[serde(default)]
    pub json: BTreeMap<String, Value>,
    /// What is done after it, whether it worked or not.
    #[serde(default)]
    pub after: String,
    /// Seconds that it may take.
    #[serde(default = "usual_limit")]
    pub limit: u64,
}

fn usual_limit() -> u64 {
    30
}

/// The result of a script.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// It did not end in time.
    pub late: bool,
    /// What it wrote to its standard output.
    pub stdout: String,
    /// What it wrote to its standard error.
    pub stderr: String,
}

impl Thing {
    /// Whether it works, and why not.
    ///
    /// # Errors
    /// Why it does not work: the first thing that differs from the table.
    pub fn judge(&self, outcome: &Outcome) -> Result<(), String> {
        if outcome.late {
            return Err(format!("it did not end within {} s", self.limit));
        }
        if outcome.code != Some(self.code) {
            let code = outcome.code.map_or_else(|| "a signal".to_owned(), |code| code.to_string());
            return Err(format!("it ended with {code}, not {}", self.code));
        }
        let missing = |texts: &[String], of: &str| texts.iter().find(|text| !of.contains(*text)).cloned();
        if let Some(text) = missing(&self.stdout, &outcome.stdout) {
            return Err(format!("its output lacks `{text}`"));
        }
        if let Some(text) = missing(&self.stderr, &outcome.stderr) {
            return Err(format!("its standard error lacks `{text}`"));
        }
        let reported = |text: &&String| outcome.stdout.contains(*text) || outcome.stderr.contains(*text);
        if let Some(text) = self.absent.iter().find(reported) {
            return Err(format!("it says `{text}`"));
        }
        if self.json.is_empty() {
            return Ok(());
        }
        let value: Value = serde_json::from_str(&outcome.stdout)
            .map_err(|error| format!("its output is no JSON: {error}"))?;
        let differs = |(at, wanted): (&String, &Value)| match value.pointer(at) {
            Some(found) if found == wanted => None,
            Some(found) => Some(format!("{at} is {found}, not {wanted}")),
            None => Some(format!("there is no {at}")),
        };
        self.json.iter().find_map(differs).map_or(Ok(()), Err)
    }
}

/// Reads the table of what users of other programs do.
///
/// # Errors
/// A part of the table does not parse.
pub fn read() -> Result<Vec<Thing>, String> {
    parts(&PARTS)
}

/// Reads the table of what a new user met.
///
/// # Errors
/// A part of the table does not parse.
pub fn findings() -> Result<Vec<Thing>, String> {
    parts(&FINDINGS)
}

fn parts(parts: &[(&str, &str)]) -> Result<Vec<Thing>, String> {
    let mut all = Vec::new();
    for (file, text) in parts {
        let value = yaml::parse(text).map_err(|error| format!("{file}: {error}"))?;
        let part: Vec<Thing> = serde_json::from_value(value).map_err(|error| format!("{file}: {error}"))?;
        all.extend(part);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn there_are_120_things_and_each_says_what_must_come_of_it() {
        let things = read().unwrap();
        assert_eq!(things.len(), 120);
        check(&things);
        check(&findings().unwrap());
    }

    fn check(things: &[Thing]) {
        let ids: BTreeSet<&str> = things.iter().map(|thing| thing.id.as_str()).collect();
        let peers: BTreeSet<&str> = things.iter().map(|thing| thing.peer.as_str()).collect();
        let all = things.len();
        assert_eq!((ids.len(), peers.len()), (all, all), "each of its own name, and done once");
        for thing in things {
            // An empty script ends with 0 too.
            let checked = !(thing.stdout.is_empty() && thing.stderr.is_empty() && thing.json.is_empty());
            assert!(checked, "{}", thing.id);
            let asked = ["railctl ", "admin "].iter().any(|word| thing.run.contains(word));
            assert!(asked, "{}", thing.id);
        }
    }

    #[test]
    fn what_is_missing_is_told() {
        let text = "[{id: a, peer: p, what: w, run: railctl x, code: 3, stdout: [yes], absent: [panic]}]";
        let thing: Vec<Thing> = serde_json::from_value(yaml::parse(text).unwrap()).unwrap();
        let outcome = |code, stdout: &str, stderr: &str| Outcome {
            code,
            stdout: stdout.into(),
            stderr: stderr.into(),
            ..Outcome::default()
        };
        assert_eq!(thing[0].judge(&outcome(Some(3), "oh yes", "")), Ok(()));
        for (seen, why) in [
            (outcome(Some(0), "yes", ""), "ended with 0"),
            (outcome(None, "yes", ""), "a signal"),
            (outcome(Some(3), "no", "yes"), "lacks `yes`"),
            (outcome(Some(3), "yes", "panicked"), "says `panic`"),
            (Outcome { late: true, ..outcome(Some(3), "yes", "") }, "within 30 s"),
        ] {
            assert!(thing[0].judge(&seen).unwrap_err().contains(why), "{why}");
        }
        let text = "[{id: a, peer: p, what: w, run: railctl x, json: {/a/0: 1}}]";
        let thing: Vec<Thing> = serde_json::from_value(yaml::parse(text).unwrap()).unwrap();
        assert_eq!(thing[0].judge(&outcome(Some(0), "{\"a\": [1]}", "")), Ok(()));
        assert!(thing[0].judge(&outcome(Some(0), "{\"a\": [2]}", "")).unwrap_err().contains("/a/0 is 2"));
        assert!(thing[0].judge(&outcome(Some(0), "", "")).unwrap_err().contains("no JSON"));
    }
}
