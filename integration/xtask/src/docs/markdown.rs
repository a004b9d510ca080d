//! What is checked of pages as text: links with their anchors, and blocks of commands with what is to be done with them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

use crate::process::{self, Result};

/// What is done with a block of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is run.
    Run,
    /// It is run where there is a program beside those of the project.
    RunWith(String),
    /// It is not, and why.
    NoRun(String),
}

/// One block of commands of a page.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// The line on which it begins, from 1.
    pub line: usize,
    /// What is to be done with it.
    pub fate: Fate,
    /// Its commands.
    pub text: String,
}

impl Block {
    /// Whether it is to be run.
    pub fn runs(&self) -> bool {
        !matches!(self.fate, Fate::NoRun(_))
    }
}

/// A page: its path from the repository's root, and its text.
pub struct Page {
    /// With `/` between folders.
    pub path: String,
    /// All of it.
    pub text: String,
}

/// All pages of the documentation: those at the root, and the book's.
///
/// # Errors
/// A page cannot be read.
pub fn pages() -> Result<Vec<Page>> {
    let root = process::root();
    let mut paths: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
            .iter()
            .map(|name| root.join(name))
            .collect();
    collect(&root.join("docs"), &mut paths)?;
    paths.sort();
    let read = |path: PathBuf| -> Result<Page> {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Page { path: path.strip_prefix(&root)?.display().to_string(), text })
    };
    paths.into_iter().map(read).collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, paths)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            paths.push(path);
        }
    }
    Ok(())
}

/// A page's lines outside of blocks of code, and its blocks: line, info string and content.
struct Parts<'a> {
    prose: Vec<(usize, &'a str)>,
    code: Vec<(usize, &'a str, String)>,
}

fn parts(text: &str) -> Parts<'_> {
    let (mut prose, mut code) = (Vec::new(), Vec::new());
    let mut open: Option<(usize, &str, String)> = None;
    for (index, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        match (&mut open, fence) {
            (None, Some(info)) => open = Some((index + 1, info.trim(), String::new())),
            (None, None) => prose.push((index + 1, line)),
            (Some(_), Some("")) => code.extend(open.take()),
            (Some((_, _, content)), _) => {
                content.push_str(line);
                content.push('\n');
            }
        }
    }
    code.extend(open);
    Parts { prose, code }
}

/// The blocks of commands of a page. What is wrong with them is added to `wrong`.
pub fn blocks(page: &Page, wrong: &mut Vec<String>) -> Vec<Block> {
    let mut found = Vec::new();
    for (line, info, text) in parts(&page.text).code {
        let mut words = info.splitn(2, ' ');
        let (language, rest) = (words.next().unwrap_or_default(), words.next().unwrap_or_default().trim());
        let commands = ["sh", "bash", "shell", "console"].contains(&language);
        let after = |word: &str| rest.strip_prefix(word).map(str::trim).filter(|rest| !rest.is_empty());
        let fate = match (rest, after("run:"), after("norun:")) {
            ("run", ..) if commands => Fate::Run,
            (_, Some(program), _) if commands => Fate::RunWith(program.to_owned()),
            (_, _, Some(why)) if commands => Fate::NoRun(why.to_owned()),
            _ if commands => {
                wrong.push(format!(
                    "{}:{line}: a block of commands is `sh run`, `sh run: PROGRAM` or `sh norun: REASON`",
                    page.path
                ));
                continue;
            }
            _ => {
                if language.is_empty() && is_command(&text) {
                    let what = "commands stand in a block of `sh`, so that somebody says whether they run";
                    wrong.push(format!("{}:{line}: {what}", page.path));
                }
                continue;
            }
        };
        found.push(Block { line, fate, text });
    }
    found
}

fn is_command(text: &str) -> bool {
    let ours = [
        "railctl ",
        "rail-controller ",
        "rail-node-agent ",
        "rail-engine ",
        "rail-switch-agent ",
        "rail-dra-driver ",
        "rail-operator ",
        "cargo ",
        "$ ",
    ];
    text.lines().next().is_some_and(|line| ours.iter().any(|program| line.starts_with(program)))
}

/// What is wrong with the links of all pages.
pub fn links(pages: &[Page]) -> Vec<String> {
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        pages.iter().map(|page| (page.path.as_str(), anchors(&page.text))).collect();
    let mut wrong = Vec::new();
    for page in pages {
        for (line, target) in targets(&page.text) {
            if let Err(why) = link(&page.path, &target, &anchors) {
                wrong.push(format!("{}:{line}: {target}: {why}", page.path));
            }
        }
    }
    wrong
}

fn link(
    page: &str,
    target: &str,
    anchors: &BTreeMap<&str, BTreeSet<String>>,
) -> std::result::Result<(), String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() {
        page.to_owned()
    } else {
        let folder = Path::new(page).parent().unwrap_or(Path::new(""));
        plain(&folder.join(file)).ok_or("it leads out of the repository")?
    };
    // The book is also read by itself, where nothing else of the repository is.
    if page.starts_with("docs/") && !path.starts_with("docs/") {
        return Err("a page of the book links only the book; name other files in `code`".to_owned());
    }
    if !process::root().join(&path).exists() {
        return Err("there is no such file".to_owned());
    }
    match anchors.get(path.as_str()) {
        Some(known) if !anchor.is_empty() && !known.contains(anchor) => {
            Err(format!("{path} has no heading for it"))
        }
        _ => Ok(()),
    }
}

/// A path without `.` and `..`; nothing if it leads out.
fn plain(path: &Path) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
            Component::ParentDir => _ = parts.pop()?,
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(parts.join("/"))
}

/// What links lead to, with their lines: `[text](target)`, where it is no code.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in parts(text).prose {
        let spans: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for (at, _) in spans.match_indices("](") {
            let rest = spans.get(at + 2..).unwrap_or_default();
            let target = rest.split(')').next().unwrap_or_default().split(' ').next().unwrap_or_default();
            found.push((number, target.to_owned()));
        }
    }
    found
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in parts(text).prose {
        if line.starts_with('#') {
            let title = line.trim_start_matches('#').trim();
            let kept = title.chars().filter(|c| c.is_alphanumeric() || *c == ' ' || *c == '-' || *c == '_');
            let anchor = kept.collect::<String>().to_lowercase().replace(' ', "-");
            let again = (1..).map(|number| format!("{anchor}-{number}"));
            let free = std::iter::once(anchor.clone()).chain(again).find(|anchor| !found.contains(anchor));
            found.extend(free);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, text: &str) -> Page {
        Page { path: path.into(), text: text.into() }
    }

    #[test]
    fn blocks_say_what_is_to_be_done_with_them() {
        let text = "```sh run\nrailctl health\n```\n```sh norun: needs a NIC\nx\n```\n```sh\ny\n```\n```\nrailctl z\n```\n```sh norun:\n```\n```sh run: etcd\n```\n";
        let mut wrong = Vec::new();
        let found = blocks(&page("docs/a.md", text), &mut wrong);
        assert_eq!(found[0], Block { line: 1, fate: Fate::Run, text: "railctl health\n".into() });
        assert_eq!(found[1].fate, Fate::NoRun("needs a NIC".into()));
        assert_eq!(found[2].fate, Fate::RunWith("etcd".into()));
        let lines: Vec<&str> = wrong.iter().map(|text| text.split(' ').next().unwrap()).collect();
        assert_eq!(lines, ["docs/a.md:7:", "docs/a.md:10:", "docs/a.md:13:"]);
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let pages = [
            page(
                "docs/install.md",
                "# The *Install* `x`\n[a](#the-install-x) [b](install.md#none) [c](../README.md)\n`[d](e)`\n",
            ),
            page(
                "README.md",
                "[a](docs/install.md#the-install-x) [b](docs/none.md) [c](../x) [d](https://x)\n",
            ),
        ];
        let wrong = links(&pages);
        let reported: Vec<&str> = wrong.iter().map(|text| text.split(' ').nth(1).unwrap()).collect();
        assert_eq!(reported, ["install.md#none:", "../README.md:", "docs/none.md:", "../x:"]);
    }
}
