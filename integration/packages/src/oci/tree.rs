//! What a layer of an image has: files, links and folders by their paths, all of it root's.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;

/// Links that lead to a file by so many others at most, as in the kernel.
const HOPS: usize = 40;
/// Of a file: it runs as its owner or its group, whoever starts it.
const SETUID: u32 = 0o6000;
/// What is kept of a folder's permissions: its group is not handed down.
const FOLDER: u32 = 0o1777;

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A file with these bytes.
    File(Vec<u8>),
    /// A symbolic link to this.
    Link(String),
    /// A folder.
    Folder,
}

/// One file, link or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What is there.
    pub what: What,
    /// Its permissions.
    pub mode: u32,
    /// When it was changed, in seconds since 1970.
    pub modified: u32,
}

impl Node {
    /// A folder that everybody may enter.
    #[must_use]
    pub fn folder(modified: u32) -> Self {
        Self { what: What::Folder, mode: 0o755, modified }
    }

    /// A file that everybody may read.
    #[must_use]
    pub fn text(text: impl Into<Vec<u8>>, modified: u32) -> Self {
        Self { what: What::File(text.into()), mode: 0o644, modified }
    }

    /// A link.
    #[must_use]
    pub fn link(target: impl Into<String>, modified: u32) -> Self {
        Self { what: What::Link(target.into()), mode: 0o777, modified }
    }
}

/// Files, links and folders by their paths, without a slash in front. Each has its folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    nodes: BTreeMap<String, Node>,
}

impl Tree {
    /// Adds something, and the folders that it is in. A folder may be there already, and has then the permissions that it was given last.
    ///
    /// # Errors
    /// [`Error::Path`]: the path leads out of the image or is there already, what it is in is no folder, or the file would run as somebody else than
    /// who starts it.
    pub fn add(&mut self, path: &str, mut node: Node) -> Result<(), Error> {
        let refused = |why| Error::Path { path: path.to_owned(), why };
        let Some(path) = normal(path).map_err(refused)? else { return Ok(()) };
        match &node.what {
            What::File(_) if node.mode & SETUID != 0 => {
                return Err(refused("it would run as its owner, whoever starts it"));
            }
            What::Folder => node.mode &= FOLDER,
            _ => {}
        }
        for (end, _) in path.match_indices('/') {
            let above =
                self.nodes.entry(path[..end].to_owned()).or_insert_with(|| Node::folder(node.modified));
            if above.what != What::Folder {
                return Err(refused("what it is in is no folder"));
            }
        }
        match self.nodes.get(&path) {
            Some(there) if there.what == What::Folder && node.what == What::Folder => {}
            Some(there) if *there == node => {}
            Some(_) => return Err(refused("something else is there")),
            None => {}
        }
        self.nodes.insert(path, node);
        Ok(())
    }

    /// What is at a path, which is not followed where it is a link.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path.trim_start_matches('/'))
    }

    /// All of it, in the order of paths: folders before what is in them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(path, node)| (path.as_str(), node))
    }

    /// The newest of its dates; 0 of nothing.
    #[must_use]
    pub fn newest(&self) -> u32 {
        self.nodes.values().map(|node| node.modified).max().unwrap_or_default()
    }

    /// This one with another one laid over it.
    ///
    /// # Errors
    /// [`Error::Path`]: both have a file or a link at one path.
    pub fn with(&self, above: &Self) -> Result<Self, Error> {
        let mut both = self.clone();
        for (path, node) in &above.nodes {
            both.add(path, node.clone())?;
        }
        Ok(both)
    }

    /// This one without the folders that another one has: what a layer over that one brings.
    #[must_use]
    pub fn beyond(&self, below: &Self) -> Self {
        let has = |path: &str, node: &Node| {
            node.what == What::Folder && below.get(path).is_some_and(|there| there.what == What::Folder)
        };
        let nodes = self.nodes.iter().filter(|(path, node)| !has(path, node));
        Self { nodes: nodes.map(|(path, node)| (path.clone(), node.clone())).collect() }
    }

    /// The path without a link in it that a path leads to; `None` where it leads nowhere, or in circles.
    #[must_use]
    pub fn resolve(&self, path: &str) -> Option<String> {
        let mut left: Vec<String> = parts(path);
        let mut at: Vec<String> = Vec::new();
        let mut hops = 0;
        while let Some(part) = left.pop() {
            if part == ".." {
                at.pop();
                continue;
            }
            at.push(part);
            match &self.nodes.get(&at.join("/"))?.what {
                What::Link(_) if hops == HOPS => return None,
                What::Link(target) => {
                    hops += 1;
                    at.pop();
                    if target.starts_with('/') {
                        at.clear();
                    }
                    left.extend(parts(target));
                }
                What::File(_) if !left.is_empty() => return None,
                _ => {}
            }
        }
        Some(at.join("/"))
    }

    /// Links that lead nowhere.
    #[must_use]
    pub fn dangling(&self) -> BTreeSet<&str> {
        let links = self.nodes.iter().filter(|(_, node)| matches!(node.what, What::Link(_)));
        links.map(|(path, _)| path.as_str()).filter(|path| self.resolve(path).is_none()).collect()
    }
}

/// What is between the slashes, the last first.
fn parts(path: &str) -> Vec<String> {
    let parts = path.rsplit('/').filter(|part| !part.is_empty() && *part != ".");
    parts.map(str::to_owned).collect()
}

/// A path as an image has it: without a slash in front or behind. `None` of the root itself.
fn normal(path: &str) -> Result<Option<String>, &'static str> {
    let path = path.strip_prefix("./").unwrap_or(path).trim_matches('/');
    if path.is_empty() || path == "." {
        return Ok(None);
    }
    if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err("it is no plain path");
    }
    if path.contains('\0') {
        return Err("it has a zero byte");
    }
    Ok(Some(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(nodes: &[(&str, Node)]) -> Tree {
        let mut tree = Tree::default();
        for (path, node) in nodes {
            tree.add(path, node.clone()).unwrap();
        }
        tree
    }

    fn refused(tree: &mut Tree, path: &str, node: Node) -> String {
        tree.add(path, node).unwrap_err().to_string()
    }

    #[test]
    fn paths_stay_in_the_image_and_what_is_in_a_file_is_refused() {
        let mut tree = tree(&[("./", Node::folder(1)), ("./usr/bin/sh", Node::text("x", 1))]);
        let paths: Vec<&str> = tree.iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["usr", "usr/bin", "usr/bin/sh"]);
        for path in ["../etc/shadow", "usr/../../x", "a//b", "usr/./x"] {
            assert!(refused(&mut tree, path, Node::text("", 1)).contains("no plain path"), "{path}");
        }
        assert!(refused(&mut tree, "/usr/bin/sh/x", Node::text("", 1)).contains("no folder"));
        assert!(refused(&mut tree, "/usr/bin/sh", Node::text("y", 1)).contains("something else"));
        tree.add("/usr/bin/sh", Node::text("x", 1)).unwrap();
        tree.add("usr/bin/", Node::folder(5)).unwrap();
        assert!(refused(&mut tree, "usr/bin", Node::link("x", 1)).contains("something else"));
    }

    #[test]
    fn a_file_that_runs_as_its_owner_is_refused_and_a_folder_loses_its_group() {
        let mut tree = Tree::default();
        for mode in [0o4755, 0o2755] {
            let said = refused(&mut tree, "usr/bin/su", Node { mode, ..Node::text("x", 1) });
            assert_eq!(
                said,
                "the image cannot have usr/bin/su: it would run as its owner, whoever starts it"
            );
        }
        tree.add("var/local", Node { mode: 0o2775, ..Node::folder(1) }).unwrap();
        tree.add("tmp", Node { mode: 0o1777, ..Node::folder(1) }).unwrap();
        assert_eq!(tree.get("var/local").unwrap().mode, 0o775);
        assert_eq!(tree.get("/tmp").unwrap().mode, 0o1777);
    }

    #[test]
    fn links_are_followed_and_those_that_lead_nowhere_are_found() {
        let tree = tree(&[
            ("bin", Node::link("usr/bin", 1)),
            ("usr/bin/busybox", Node::text("x", 1)),
            ("usr/bin/sh", Node::link("busybox", 1)),
            ("usr/bin/rail", Node::link("../lib/rail", 1)),
            ("usr/bin/far", Node::link("/bin/../bin/sh", 1)),
            ("a", Node::link("b", 1)),
            ("b", Node::link("a", 1)),
            ("in", Node::link("usr/bin/sh/x", 1)),
        ]);
        assert_eq!(tree.resolve("/bin/sh").as_deref(), Some("usr/bin/busybox"));
        assert_eq!(tree.resolve("usr/bin/far").as_deref(), Some("usr/bin/busybox"));
        assert_eq!(tree.resolve("/bin").as_deref(), Some("usr/bin"));
        assert_eq!(tree.dangling().into_iter().collect::<Vec<_>>(), ["a", "b", "in", "usr/bin/rail"]);
    }

    #[test]
    fn a_layer_above_has_what_is_new_alone() {
        let below =
            tree(&[("tmp", Node { mode: 0o1777, ..Node::folder(1) }), ("usr/bin/sh", Node::text("x", 1))]);
        let above = tree(&[("usr/bin/rail", Node::text("y", 2)), ("usr/lib/railyard", Node::folder(2))]);
        let layer = above.beyond(&below);
        let paths: Vec<&str> = layer.iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["usr/bin/rail", "usr/lib", "usr/lib/railyard"]);
        let both = below.with(&above).unwrap();
        assert_eq!((both.iter().count(), both.newest()), (7, 2));
        let other = tree(&[("usr/bin/sh", Node::text("z", 2))]);
        assert!(below.with(&other).is_err());
    }
}
