//! The floor plans at the heads of this crate and of `controller-state` say what their rooms use of each other; here they are compared with
//! the code. Arrows only run down, and within a room no three files go round in a circle.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

type Plan = BTreeMap<String, BTreeSet<String>>;

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(name).join("src")
}

/// The files of a crate that are shipped, by their modules' paths, and the code of each without comments and tests.
fn files(source: &Path) -> BTreeMap<Vec<String>, String> {
    fn gather(path: &Path, module: &[String], files: &mut BTreeMap<Vec<String>, String>) {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let mut module = module.to_vec();
            if name != "mod" {
                module.push(name);
            }
            if path.is_dir() {
                gather(&path, &module, files);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let shipped = text.split("#[cfg(test)]").next().unwrap();
            let lines = shipped.lines().map(str::trim).filter(|line| !line.starts_with("//"));
            files.insert(module, lines.flat_map(|line| [line, " "]).collect());
        }
    }
    let mut found = BTreeMap::new();
    gather(source, &[], &mut found);
    found.retain(|module, _| !matches!(module[0].as_str(), "lib" | "tests"));
    found
}

/// The paths after each `crate::`, which may be lists in braces.
fn used(code: &str) -> BTreeSet<Vec<String>> {
    /// Reads one path or a list of them, and returns what is behind it.
    fn read<'a>(mut rest: &'a str, path: &[String], found: &mut BTreeSet<Vec<String>>) -> &'a str {
        let mut path = path.to_vec();
        loop {
            rest = rest.trim_start();
            if let Some(mut list) = rest.strip_prefix('{') {
                loop {
                    list = list.trim_start().trim_start_matches(',').trim_start();
                    if let Some(behind) = list.strip_prefix('}') {
                        return behind;
                    }
                    list = read(list, &path, found);
                }
            }
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            assert!(end > 0, "no name at {:?}", &rest[..rest.len().min(60)]);
            path.push(rest[..end].to_owned());
            rest = &rest[end..];
            match rest.strip_prefix("::") {
                Some(further) if !further.starts_with('<') => rest = further,
                _ => {
                    found.insert(path);
                    return rest;
                }
            }
        }
    }
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        read(rest, &[], &mut found);
    }
    found
}

/// Which files use which: a path means the file that its longest beginning names.
fn arrows(files: &BTreeMap<Vec<String>, String>) -> BTreeMap<Vec<String>, BTreeSet<Vec<String>>> {
    let target = |path: &Vec<String>| {
        let lengths = (1..=path.len()).rev();
        lengths.map(|length| path[..length].to_vec()).find(|module| files.contains_key(module))
    };
    let to = |(module, code): (&Vec<String>, &String)| {
        let others = used(code).iter().filter_map(target).filter(|other| other != module).collect();
        (module.clone(), others)
    };
    files.iter().map(to).collect()
}

/// The rooms in the order of the plan, and what each uses.
fn drawn(source: &Path) -> Vec<(String, BTreeSet<String>)> {
    let lib = fs::read_to_string(source.join("lib.rs")).unwrap();
    let lines = lib.lines().filter_map(|line| line.strip_prefix("//! ")?.split_once("->"));
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
    lines
        .filter(|(room, _)| !room.contains(['(', '`']))
        .map(|(room, others)| (room.trim().to_owned(), words(others)))
        .collect()
}

fn check(name: &str) {
    let source = source(name);
    let arrows = arrows(&files(&source));
    let mut code = Plan::new();
    for (module, others) in &arrows {
        let room = code.entry(module[0].clone()).or_default();
        room.extend(others.iter().map(|other| other[0].clone()).filter(|other| *other != module[0]));
    }
    let drawn = drawn(&source);
    assert_eq!(drawn.iter().cloned().collect::<Plan>(), code, "the plan of {name}, and what rooms use");
    for (at, (room, others)) in drawn.iter().enumerate() {
        let below: BTreeSet<&String> = drawn[at + 1..].iter().map(|(room, _)| room).collect();
        let up: Vec<_> = others.iter().filter(|other| !below.contains(other)).collect();
        assert!(up.is_empty(), "{name}: {room} is above none of {up:?}");
    }
    let circles = circles(&arrows);
    assert!(circles.is_empty(), "{name}: {circles:#?}");
}

/// Files that reach each other, three and more, or two of different folders.
fn circles(arrows: &BTreeMap<Vec<String>, BTreeSet<Vec<String>>>) -> BTreeSet<BTreeSet<Vec<String>>> {
    let reached = |from: &Vec<String>| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(at) = open.pop() {
            open.extend(arrows[at].iter().filter(|next| seen.insert((*next).clone())));
        }
        seen
    };
    let reach: BTreeMap<&Vec<String>, BTreeSet<Vec<String>>> =
        arrows.keys().map(|module| (module, reached(module))).collect();
    let circle = |module: &Vec<String>| -> BTreeSet<Vec<String>> {
        reach[module].iter().filter(|other| reach[other].contains(module)).cloned().collect()
    };
    let folder = |module: &Vec<String>| module[..module.len() - 1].to_vec();
    let all = arrows.keys().map(circle);
    all.filter(|circle| circle.len() > 2 || circle.iter().map(folder).collect::<BTreeSet<_>>().len() > 1)
        .collect()
}

#[test]
fn the_floor_plan_of_the_transitions_is_what_the_code_does() {
    check("core");
}

#[test]
fn the_floor_plan_of_the_tables_is_what_the_code_does() {
    check("state");
}

#[test]
fn lists_in_braces_are_read() {
    let code = "use crate::{a::b, c::{d, e::{f}}, g}; let x = crate::h::i();";
    let paths = ["a b", "c d", "c e f", "g", "h i"];
    let paths = paths.map(|path| path.split(' ').map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(used(code), paths.into());
}

#[test]
fn circles_are_found() {
    let file = |path: &str| path.split("::").map(str::to_owned).collect::<Vec<_>>();
    let code =
        [("a::x", "crate::a::y::f()"), ("a::y", "crate::b::z()"), ("b", "use crate::a::x;"), ("c", "")];
    let files = code.map(|(path, code)| (file(path), code.to_owned())).into();
    let circle = ["a::x", "a::y", "b"].map(file);
    assert_eq!(circles(&arrows(&files)), [circle.into()].into());
}
