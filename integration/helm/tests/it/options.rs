//! Options and variables in the chart are those of the programs, as the pages of options have them.

use std::{collections::BTreeSet, fs};

use serde_json::Value;

use crate::chart::{manifests, rendered, root, sites};

/// The part of a page that is about one command; `None` where a program has no page.
fn section(program: &str, command: &str) -> Option<String> {
    let page = fs::read_to_string(root().join(format!("docs/options/{program}.md"))).ok()?;
    let begin = format!("\n## {program} {command}\n");
    let rest = page.split_once(&begin).unwrap_or_else(|| panic!("no {program} {command}")).1;
    Some(rest.split("\n## ").next().unwrap_or_default().to_owned())
}

/// Whether a page lists an option of exactly this name.
fn has_option(page: &str, name: &str) -> bool {
    ["`", " "].iter().any(|end| page.contains(&format!("- `--{name}{end}")))
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The program, its command and their options.
fn said(container: &Value) -> Vec<(String, String, Vec<&str>)> {
    let mut lines = Vec::new();
    let words: Vec<&str> =
        strings(&container["command"]).into_iter().chain(strings(&container["args"])).collect();
    lines.push(words);
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        lines.push(strings(&container[probe]["exec"]["command"]));
    }
    let ours = lines.into_iter().filter(|words| words.first().is_some_and(|word| word.starts_with("rail-")));
    ours.map(|words| (words[0].to_owned(), words[1].to_owned(), words[2..].to_vec())).collect()
}

#[test]
fn options_and_variables_are_those_of_the_programs() {
    let mut seen = BTreeSet::new();
    for (site, values) in sites() {
        let Some(files) = rendered(&values) else { return };
        for manifest in manifests(&files.unwrap()) {
            let pod = &manifest["spec"]["template"]["spec"];
            for container in pod["containers"].as_array().into_iter().flatten() {
                for (program, command, words) in said(container) {
                    let Some(page) = section(&program, &command) else {
                        // The chart is ahead of the program.
                        assert_eq!(program, "rail-operator", "{site}");
                        println!("skipped: {site}: there is no page of the options of {program}");
                        continue;
                    };
                    for option in words.iter().filter_map(|word| word.strip_prefix("--")) {
                        let option = option.split('=').next().unwrap_or_default();
                        assert!(has_option(&page, option), "{site}: {program} {command} has no --{option}");
                        seen.insert(format!("{program} {option}"));
                    }
                    if command == "probe" {
                        continue;
                    }
                    for variable in container["env"].as_array().into_iter().flatten() {
                        let name = variable["name"].as_str().unwrap_or_default();
                        // Of the pod, for an option.
                        let known = page.contains(&format!("Variable `{name}`"))
                            || page.contains(&format!("or {} in the environment", name.replace('_', "\\_")))
                            || name == "POD_IP";
                        assert!(known, "{site}: {program} {command} reads no {name}");
                        seen.insert(format!("{program} {name}"));
                    }
                }
            }
        }
    }
    assert!(seen.len() > 30, "{seen:?}");
}
