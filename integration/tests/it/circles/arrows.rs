//! Which file of a crate takes what from which other, and the circles of that.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use super::read::{Import, Module};

/// From a file to a file, with the names that the first takes from the second.
pub(super) type Arrows = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

/// What a path means.
#[derive(Clone, Copy)]
enum Meaning<'a> {
    Module(usize),
    /// An item of this name that this module defines.
    Item(usize, &'a str),
    /// Of another crate, or of none that is known.
    Elsewhere,
}

/// How many imports are followed, one after the other, for one name.
const LONGEST_CHAIN: usize = 16;

/// The arrows between the files of these modules, which are those of one root file.
pub(super) fn arrows(modules: &[Module]) -> Arrows {
    let mut all = Arrows::new();
    for (at, module) in modules.iter().enumerate() {
        let mut used = |path, all_names| {
            let (to, name) = match whole(modules, at, path, 0) {
                Meaning::Item(to, name) => (to, name),
                Meaning::Module(to) if all_names => (to, "*"),
                Meaning::Module(_) | Meaning::Elsewhere => return,
            };
            let (from, to) = (&module.file, &modules[to].file);
            if from != to {
                let names = all.entry(from.clone()).or_default().entry(to.clone()).or_default();
                names.insert(name.to_owned());
            }
        };
        module.paths.iter().for_each(|path| used(path.as_slice(), false));
        for import in module.imports.iter().filter(|import| is_used(module, import)) {
            used(&import.path, import.name == "*");
        }
    }
    all
}

/// A re-export hands a name on; only where the name stands in the module's own code, too, is it used there.
fn is_used(module: &Module, import: &Import) -> bool {
    !import.public || module.words.contains(&import.name)
}

/// The meaning of a path that stands in a module.
fn whole<'a>(modules: &'a [Module], at: usize, path: &'a [String], followed: usize) -> Meaning<'a> {
    let Some((first, rest)) = path.split_first() else { return Meaning::Module(at) };
    let start = match first.as_str() {
        "crate" => 0,
        "self" => at,
        "super" => {
            let supers = path.iter().take_while(|word| *word == "super").count();
            let up = (0..supers).try_fold(at, |at, _| modules[at].parent);
            return up.map_or(Meaning::Elsewhere, |up| inside(modules, up, &path[supers..], followed));
        }
        // A path that names an item of this very module leads nowhere else.
        _ => {
            return match named(modules, at, first, !rest.is_empty(), followed) {
                Some(Meaning::Module(child)) => inside(modules, child, rest, followed),
                Some(meaning) => meaning,
                None => Meaning::Elsewhere,
            };
        }
    };
    inside(modules, start, rest, followed)
}

/// The meaning of the rest of a path, seen from inside of a module.
fn inside<'a>(modules: &'a [Module], at: usize, rest: &'a [String], followed: usize) -> Meaning<'a> {
    let Some((first, rest)) = rest.split_first() else { return Meaning::Module(at) };
    match named(modules, at, first, !rest.is_empty(), followed) {
        Some(Meaning::Module(child)) => inside(modules, child, rest, followed),
        Some(meaning) => meaning,
        // Made by a macro, or by a build script.
        None => Meaning::Item(at, first),
    }
}

/// What a name means in a module. `leads_on`: more of the path follows, so that a module is meant where there is one.
fn named<'a>(
    modules: &'a [Module],
    at: usize,
    name: &'a str,
    leads_on: bool,
    followed: usize,
) -> Option<Meaning<'a>> {
    let module = &modules[at];
    if followed > LONGEST_CHAIN {
        return None;
    }
    let child = module.children.get(name).copied().map(Meaning::Module);
    if leads_on && child.is_some() {
        return child;
    }
    if module.items.contains(name) {
        return Some(Meaning::Item(at, name));
    }
    let import = module.imports.iter().find(|import| import.name == name && import.path != [name]);
    let imported = import.map(|import| whole(modules, at, &import.path, followed + 1));
    let globs = module.imports.iter().filter(|import| import.name == "*");
    let from_glob = || {
        globs.filter_map(|glob| match whole(modules, at, &glob.path, followed + 1) {
            Meaning::Module(other) if other != at => named(modules, other, name, leads_on, followed + 1),
            _ => None,
        })
    };
    imported.or(child).or_else(|| from_glob().next())
}

/// Files that each reach all others of their circle.
pub(super) fn circles(arrows: &Arrows) -> Vec<BTreeSet<PathBuf>> {
    let reached: BTreeMap<&Path, BTreeSet<&Path>> =
        arrows.keys().map(|file| (file.as_path(), reach(arrows, file))).collect();
    let mut all = BTreeSet::new();
    for (file, others) in &reached {
        let back = |other: &&&Path| reached.get(**other).is_some_and(|back| back.contains(file));
        let circle: BTreeSet<PathBuf> = others.iter().filter(back).map(|other| other.to_path_buf()).collect();
        if circle.len() > 1 {
            all.insert(circle);
        }
    }
    all.into_iter().collect()
}

fn reach<'a>(arrows: &'a Arrows, from: &'a Path) -> BTreeSet<&'a Path> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(file) = open.pop() {
        for next in arrows.get(file).into_iter().flat_map(BTreeMap::keys) {
            if seen.insert(next.as_path()) {
                open.push(next);
            }
        }
    }
    seen
}
