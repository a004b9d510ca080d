//! The floor plan at the head of the crate says what its rooms use of each other; here it is compared with the code.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

type Plan = BTreeMap<String, BTreeSet<String>>;

/// Rooms by name, and the code of each without comments and tests.
fn rooms() -> BTreeMap<String, String> {
    fn gather(path: &Path, code: &mut String) {
        if path.is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                gather(&entry.unwrap().path(), code);
            }
            return;
        }
        let text = fs::read_to_string(path).unwrap();
        let shipped = text.split("#[cfg(test)]").next().unwrap();
        for line in shipped.lines().filter(|line| !line.trim_start().starts_with("//")) {
            code.push_str(line.trim());
            code.push(' ');
        }
    }
    let mut rooms = BTreeMap::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if !matches!(name.as_str(), "lib" | "tests") {
            let name = if name == "error_kind" { "error".to_owned() } else { name };
            gather(&path, rooms.entry(name).or_default());
        }
    }
    rooms
}

/// The first names after each `crate::`, which may be a list in braces.
fn used(code: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let Some(list) = rest.strip_prefix('{') else {
            used.insert(word(rest));
            continue;
        };
        let (mut depth, mut start) = (1, 0);
        for (at, c) in list.char_indices() {
            depth += i32::from(c == '{') - i32::from(c == '}');
            if depth == 0 || (depth == 1 && c == ',') {
                used.insert(word(list[start..at].trim_start()));
                start = at + 1;
            }
            if depth == 0 {
                break;
            }
        }
    }
    used
}

#[test]
fn the_floor_plan_is_what_the_code_does() {
    let rooms = rooms();
    let known = |name: &String| rooms.contains_key(name);
    let code: Plan = rooms
        .iter()
        .map(|(room, code)| {
            let others = used(code).into_iter().filter(|name| known(name) && name != room);
            (room.clone(), others.collect())
        })
        .collect();
    let plan: Plan = include_str!("../lib.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("//! ")?.split_once(" -> "))
        .filter(|(room, _)| known(&room.trim().to_owned()))
        .map(|(room, others)| {
            (room.trim().to_owned(), others.split_whitespace().map(str::to_owned).collect())
        })
        .collect();
    assert_eq!(plan, code, "the floor plan at the head of lib.rs, and what the rooms use");
}

#[test]
fn lists_in_braces_are_read() {
    let code = "use crate::{a::b, c::{d, e::{f}}, g}; let x = crate::h::i();";
    assert_eq!(used(code), ["a", "c", "g", "h"].map(str::to_owned).into());
}
