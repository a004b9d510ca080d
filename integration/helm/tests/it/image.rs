//! What pods of the chart run is in the image that `cargo xtask dist` makes: every command, every program of their scripts and of the notes. `cargo
//! xtask lab image` runs the same in the image itself.

use std::{collections::BTreeSet, fs};

use integration_packages::{
    catalog,
    oci::{self, base},
};
use serde_json::{Value, json};

use crate::{
    chart::{manifests, read, rendered, root, sites},
    rendering::{containers, each, kind, list, name, text},
    yaml,
};

/// Programs of the image by the names that the variable `PATH` finds.
fn programs() -> BTreeSet<String> {
    let called = base::CALLED.into_iter().map(str::to_owned);
    let ours = catalog::image().map(|item| item.to.to_owned());
    let names = called.chain(ours).filter_map(|path| {
        let (folder, name) = path.rsplit_once('/')?;
        oci::PATH.contains(&folder).then(|| name.to_owned())
    });
    names.chain(base::APPLETS.map(str::to_owned)).collect()
}

/// Words of a shell script that are programs, one for each time that one is called.
fn called(script: &str) -> BTreeSet<&str> {
    let lines = script.lines().filter(|line| !line.trim().starts_with('#'));
    let parts = lines.flat_map(|line| line.split([';', '&', '|', '{', '}', '(', ')']));
    parts.filter_map(program).collect()
}

/// The program that a command calls; `None` of what the shell does itself.
fn program(command: &str) -> Option<&str> {
    const BEFORE: [&str; 7] = ["if", "then", "elif", "else", "do", "while", "!"];
    const OWN: [&str; 9] = ["umask", "cd", "[", "for", "case", "done", "fi", "exit", "set"];
    let mut words = command.split_whitespace().skip_while(|word| BEFORE.contains(word));
    let first = words.next()?;
    let is_variable = first.split_once('=').is_some_and(|(name, _)| name.chars().all(char::is_alphanumeric));
    (!is_variable && !OWN.contains(&first)).then_some(first)
}

fn strings<'a>(value: &'a Value, pointer: &str) -> Vec<&'a str> {
    list(value, pointer).iter().filter_map(Value::as_str).collect()
}

/// Programs that a container calls: as its command, in a script, and when kubelet asks.
fn calls(container: &Value) -> BTreeSet<&str> {
    let words = [strings(container, "/command"), strings(container, "/args")].concat();
    let mut found: BTreeSet<&str> = words.first().copied().into_iter().collect();
    if words.first() == Some(&"sh") {
        found.extend(
            words.iter().skip(1).filter(|word| !word.starts_with('-')).flat_map(|script| called(script)),
        );
    }
    for asked in
        ["startupProbe", "livenessProbe", "readinessProbe", "lifecycle/preStop", "lifecycle/postStart"]
    {
        found.extend(strings(container, &format!("/{asked}/exec/command")).first());
    }
    found
}

#[test]
fn programs_of_a_script_are_found() {
    let script = "umask 077\nfrom=/x\n# cp is not called here; rm\nif [ -e a ] && ! [ -e b ]; then cp a b && mv b c; fi\n\
                  for f in a b; do\n  [ -e $f ] || { cat a | sort -u; }\ndone\n";
    assert_eq!(called(script), BTreeSet::from(["cat", "cp", "mv", "sort"]));
}

#[test]
fn every_program_that_a_pod_runs_is_in_the_image() {
    let programs = programs();
    let judge = |what: &str, manifests: &[Value], image: &str| {
        let mut seen = BTreeSet::new();
        for manifest in manifests {
            let Some(pod) = manifest.pointer("/spec/template/spec") else { continue };
            for container in containers(pod).filter(|container| text(container, "/image").starts_with(image))
            {
                let what =
                    format!("{what}: {} {} {}", kind(manifest), name(manifest), text(container, "/name"));
                let calls = calls(container);
                assert!(!calls.is_empty(), "{what} does not say what it runs, and the image says nothing");
                for call in calls {
                    assert!(programs.contains(call), "{what}: the image has no {call}");
                    seen.insert(call.to_owned());
                }
                for security in [&pod["securityContext"], &container["securityContext"]] {
                    let user = security["runAsUser"].as_u64();
                    assert!([None, Some(0), Some(base::USER.into())].contains(&user), "{what}: {user:?}");
                }
            }
        }
        seen
    };
    let seen = std::cell::RefCell::new(BTreeSet::new());
    each(|site, manifests| seen.borrow_mut().extend(judge(site, manifests, "registry.example/railyard")));
    for file in ["driver.yaml", "operator.yaml"] {
        let text = fs::read_to_string(root().join("deploy/kubernetes").join(file)).unwrap();
        let found = judge(file, &yaml::documents(&text).unwrap(), "registry.example/railyard");
        assert!(!found.is_empty(), "{file}");
    }
    let seen = seen.into_inner();
    let want =
        ["cp", "mkdir", "mv", "rail-controller", "rail-dra-driver", "rail-node-agent", "rail-operator", "sh"];
    // Without Go nothing is rendered.
    assert!(seen.is_empty() || seen.iter().map(String::as_str).eq(want), "{seen:?}");
    for called in base::CALLED {
        assert!(programs.contains(called.rsplit('/').next().unwrap()), "{called}");
    }
}

#[test]
fn every_program_of_the_notes_is_in_the_image() {
    let programs = programs();
    let notes = read("templates/NOTES.txt");
    let run = notes.lines().filter(|line| line.contains(" exec ")).filter_map(|line| line.split_once(" -- "));
    let run: BTreeSet<&str> = run.filter_map(|(_, command)| program(command)).collect();
    assert_eq!(run, BTreeSet::from(["cat", "rail-controller", "rm"]));
    for program in run {
        assert!(programs.contains(program), "the image has no {program}");
    }
}

/// A text without what only sets its lines apart.
fn plain(text: &str) -> String {
    text.split_whitespace().filter(|word| *word != "\\").collect::<Vec<_>>().join(" ")
}

/// The trial in the image starts a controller as the chart does, word by word.
#[test]
fn what_is_tried_in_the_image_is_what_the_chart_runs() {
    let trial = plain(&fs::read_to_string(root().join("integration/lab/image.sh")).unwrap());
    let site = sites().into_iter().find(|(site, _)| *site == "default").unwrap().1;
    let mut values = site;
    values["controller"] = json!({"authority": {"secretName": "authority"}});
    let Some(files) = rendered(&values) else { return };
    let manifests = manifests(&files.unwrap());
    let pod = manifests
        .iter()
        .find(|one| kind(one) == "StatefulSet")
        .unwrap()
        .pointer("/spec/template/spec")
        .unwrap();
    let script = strings(&pod["initContainers"][0], "/args").concat();
    assert!(
        trial.contains(&plain(&script)),
        "integration/lab/image.sh takes the authority in another way: {script}"
    );
    let controller = &pod["containers"][0];
    let command = [strings(controller, "/command"), strings(controller, "/args")].concat().join(" ");
    assert!(
        trial.contains(&command),
        "integration/lab/image.sh starts a controller in another way: {command}"
    );
    for probe in ["livenessProbe", "readinessProbe"] {
        let command = strings(controller, &format!("/{probe}/exec/command")).join(" ");
        assert!(
            !command.is_empty() && trial.contains(&command),
            "integration/lab/image.sh does not ask: {command}"
        );
    }
}
