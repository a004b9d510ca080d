//! Files of a crate that take from each other in a circle can only be read, moved and changed together: there are none of three or
//! more, and none across folders.

mod arrows;
mod read;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::{Path, PathBuf},
};

use arrows::{Arrows, arrows, circles};
use integration_harness::binaries::root;

use crate::architecture::metadata;

/// Circles of a room: those that must not be (three or more files, or more than one folder), and pairs of files in one folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    knots: usize,
    pairs: usize,
}

/// Rooms whose knots are still being untied, with what is left of them. A room without knots loses its line here.
const LEFT: [(&str, Count); 0] = [];

/// Pairs of files in all other rooms together. The number may only fall.
const PAIRS: usize = 19;

/// A circle with the arrows that tie it.
struct Circle {
    files: BTreeSet<PathBuf>,
    arrows: Arrows,
}

impl Circle {
    fn is_knot(&self) -> bool {
        let folders: BTreeSet<PathBuf> = self.files.iter().map(|file| folder(file)).collect();
        self.files.len() > 2 || folders.len() > 1
    }

    fn report(&self) -> String {
        let mut text = format!("{} files:\n", self.files.len());
        for from in &self.files {
            for (to, names) in
                self.arrows.get(from).into_iter().flatten().filter(|(to, _)| self.files.contains(*to))
            {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let (from, to) = (from.display(), to.display());
                writeln!(text, "  {from} takes from {to}: {}", names.join(", ")).unwrap();
            }
        }
        text
    }
}

/// The folder that a file belongs to; `one.rs` beside `one/` is that folder's face.
fn folder(file: &Path) -> PathBuf {
    let own = file.with_extension("");
    let is_face = root().join(&own).is_dir();
    if is_face { own } else { file.parent().unwrap().to_owned() }
}

/// Root files of every crate, by the folder of its manifest.
fn roots() -> BTreeMap<PathBuf, Vec<PathBuf>> {
    let kinds = ["lib", "bin", "cdylib", "staticlib", "rlib", "proc-macro"];
    let mut all = BTreeMap::new();
    for package in metadata()["packages"].as_array().unwrap() {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let targets = package["targets"].as_array().unwrap().iter();
        let built = targets.filter(|target| kinds.iter().any(|kind| target["kind"][0] == **kind));
        let files = built.map(|target| target["src_path"].as_str().unwrap().into()).collect();
        all.insert(manifest.parent().unwrap().strip_prefix(root()).unwrap().to_owned(), files);
    }
    all
}

/// Circles of every crate, by the folder of its manifest.
fn found() -> BTreeMap<PathBuf, Vec<Circle>> {
    let mut all = BTreeMap::new();
    for (room, files) in roots() {
        let mut arrows = Arrows::new();
        for file in files {
            let short = |path: PathBuf| path.strip_prefix(root()).unwrap().to_owned();
            for (from, to) in self::arrows(&read::modules(&file)) {
                let to = to.into_iter().map(|(to, names)| (short(to), names));
                arrows.entry(short(from)).or_default().extend(to);
            }
        }
        let circles = circles(&arrows).into_iter();
        all.insert(room, circles.map(|files| Circle { files, arrows: arrows.clone() }).collect());
    }
    all
}

#[test]
fn no_files_take_from_each_other_in_a_circle() {
    let (mut counts, mut texts) = (BTreeMap::<&str, Count>::new(), BTreeMap::<&str, String>::new());
    for (room, circles) in found() {
        let left = LEFT.iter().map(|(left, _)| *left).find(|left| room.starts_with(left)).unwrap_or_default();
        let count = counts.entry(left).or_default();
        for circle in &circles {
            let (number, kind) =
                if circle.is_knot() { (&mut count.knots, "knot") } else { (&mut count.pairs, "pair") };
            *number += 1;
            *texts.entry(left).or_default() += &format!("{kind} of {}", circle.report());
        }
    }
    let expected = LEFT.iter().copied().chain([("", Count { knots: 0, pairs: PAIRS })]);
    for (room, expected) in expected {
        let (count, text) = (counts.remove(room).unwrap_or_default(), texts.remove(room).unwrap_or_default());
        let place = if room.is_empty() { "all other rooms" } else { room };
        assert!(
            count == expected,
            "{place}: {count:?} where integration/tests/it/circles says {expected:?}. Where there are more, move what is \
             named below to a file that the others stand upon. Where there are fewer, write the lower number, and \
             take a room without knots out of LEFT (its pairs then count in PAIRS).\n{text}"
        );
    }
}

fn module(text: &str) -> read::Module {
    read::text("one.rs", text).remove(0)
}

#[test]
fn imports_and_paths_are_read_outside_of_tests_alone() {
    let text = "//! crate::never\npub(crate) use a::{self, b::{C as D, *}};\nuse super::super::e;\n#[cfg(test)]\nuse super::t;\n\
                #[cfg(test)]\nmod tests { use super::*; }\nfn f<'a>(x: &'a self::G) -> impl X + use<'a> { x.y::<Z>(); ..h::I }\n";
    let module = module(text);
    let import = |import: &read::Import| (import.path.join("::"), import.name.clone(), import.public);
    let expected =
        [("a", "a", true), ("a::b::C", "D", true), ("a::b", "*", true), ("super::super::e", "e", false)];
    let expected = expected.map(|(path, name, public)| (path.to_owned(), name.to_owned(), public));
    assert_eq!(module.imports.iter().map(import).collect::<Vec<_>>(), expected);
    assert_eq!(module.paths.iter().map(|path| path.join("::")).collect::<Vec<_>>(), ["h::I", "self::G"]);
    assert_eq!(module.items.iter().collect::<Vec<_>>(), ["f"]);
}

/// A root with two modules, each in a file of its own.
fn crate_of(root: &str, one: &str, two: &str) -> Vec<read::Module> {
    let mut all = vec![module(root)];
    for (name, text) in [("one", one), ("two", two)] {
        let at = all.len();
        all[0].children.insert(name.to_owned(), at);
        all.push(read::Module { file: format!("{name}.rs").into(), parent: Some(0), ..module(text) });
    }
    all[0].file = "lib.rs".into();
    all
}

#[test]
fn an_arrow_leads_to_the_file_that_defines_the_name() {
    let ties = |root, one, two| -> Vec<String> {
        let arrows = arrows(&crate_of(root, one, two));
        let arrow = |(from, to): (&PathBuf, &BTreeMap<PathBuf, _>)| {
            let to: Vec<String> = to.keys().map(|to| to.display().to_string()).collect();
            format!("{} {}", from.display(), to.join(" "))
        };
        arrows.iter().map(arrow).collect()
    };
    // What the root only hands on is taken from where it is, and ties the root to nothing.
    assert_eq!(ties("pub use two::X;", "use crate::X;", "struct X;"), ["one.rs two.rs"]);
    assert_eq!(ties("pub use two::*;", "use super::X;", "struct X;"), ["one.rs two.rs"]);
    assert_eq!(
        ties("use two::X; struct Y(X);", "use super::Y;", "struct X;"),
        ["lib.rs two.rs", "one.rs lib.rs"]
    );
    assert_eq!(
        ties("fn f() { one::g() }", "use crate::two; fn g() { two::h() }", ""),
        ["lib.rs one.rs", "one.rs two.rs"]
    );
    assert_eq!(ties("", "use std::fmt; fn g() { fmt::h(); other::i() }", ""), Vec::<String>::new());
}

#[test]
fn a_circle_is_found_and_a_line_is_none() {
    let tied = crate_of("", "use crate::two::X; struct Y;", "struct X(super::one::Y);");
    let both: BTreeSet<PathBuf> = ["one.rs", "two.rs"].map(PathBuf::from).into();
    assert_eq!(circles(&arrows(&tied)), [both]);
    let line = crate_of("use one::Z; struct W(Z);", "use crate::two::X; struct Z;", "struct X;");
    assert_eq!(circles(&arrows(&line)), Vec::<BTreeSet<PathBuf>>::new());
}
