//! What the programs say of their own options (`--help`), read once: pages of the book and man pages are made of it.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use crate::process::{self, Result};

/// One command of a program with what its help says.
#[derive(Debug, Default)]
pub struct Page {
    /// The program and its subcommands, `rail-controller store backup`.
    pub name: String,
    /// What it does.
    pub about: String,
    /// How it is called.
    pub usage: Vec<String>,
    /// The rest in its order.
    pub sections: Vec<Section>,
}

/// A part of a help with a heading.
#[derive(Debug, Default)]
pub struct Section {
    /// Its heading; empty for text without one.
    pub title: String,
    /// Its entries; each is an option, an argument or a command.
    pub entries: Vec<Entry>,
    /// Lines that are none of these.
    pub text: Vec<String>,
}

/// One option, argument or command.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// As it is written: `--data-dir <DATA_DIR>`.
    pub term: String,
    /// What it is for: paragraphs.
    pub about: Vec<String>,
}

/// All commands of a program, itself first.
///
/// # Errors
/// The program does not run.
pub fn pages(bin: &Path, program: &str) -> Result<Vec<Page>> {
    let mut pages = Vec::new();
    walk(&bin.join(program), &mut vec![program.to_owned()], &mut pages)?;
    Ok(pages)
}

fn walk(program: &Path, path: &mut Vec<String>, pages: &mut Vec<Page>) -> Result<()> {
    let mut command = Command::new(program);
    command.args(path.iter().skip(1)).arg("--help").env_clear().stdin(Stdio::null());
    let output = process::capture(command)?;
    let page = read(&path.join(" "), &String::from_utf8(output.stdout)?);
    let commands = page.sections.iter().filter(|section| section.title == "Commands");
    let inner: Vec<String> =
        commands.flat_map(|section| &section.entries).map(|entry| entry.term.clone()).collect();
    pages.push(page);
    for name in inner.into_iter().filter(|name| name != "help") {
        path.push(name);
        walk(program, path, pages)?;
        path.pop();
    }
    Ok(())
}

/// Takes a help as clap writes it apart.
fn read(name: &str, help: &str) -> Page {
    let mut page = Page { name: name.to_owned(), ..Page::default() };
    let mut lines = help.lines().peekable();
    let mut about = Vec::new();
    while let Some(line) = lines.next_if(|line| !line.starts_with("Usage:")) {
        about.push(line);
    }
    page.about = unwrapped(&about);
    while let Some(line) = lines.next_if(|line| !line.is_empty()) {
        page.usage.push(line.trim_start_matches("Usage:").trim().to_owned());
    }
    for line in lines {
        let deep = line.len() - line.trim_start().len();
        let heading = deep == 0 && line.ends_with(':');
        if heading
            || (deep == 0 && !line.is_empty() && page.sections.last().is_none_or(|s| !s.entries.is_empty()))
        {
            page.sections.push(Section::default());
        }
        let Some(section) = page.sections.last_mut() else { continue };
        match line.trim() {
            text if heading => section.title = text.trim_end_matches(':').to_owned(),
            text if deep == 0 && !text.is_empty() => section.text.push(text.to_owned()),
            // What goes on in a narrow table of commands is no deeper than a long option without a short one.
            text if (1..=5).contains(&deep) || (deep == 6 && text.starts_with("--")) => {
                section.entries.push(entry(text));
            }
            text => goes_on(section, text),
        }
    }
    page
}

/// Text as it was before it was wrapped for a terminal: paragraphs and indented lines stay what they are.
fn unwrapped(lines: &[&str]) -> String {
    let mut text = String::new();
    for line in lines {
        let goes_on = !text.is_empty() && !text.ends_with('\n') && !line.starts_with(' ') && !line.is_empty();
        text.push_str(if goes_on { " " } else { "\n" });
        text.push_str(line.trim_end());
        if line.is_empty() {
            text.push('\n');
        }
    }
    text.trim().replace("\n\n\n", "\n\n")
}

/// An entry by its first line: its term and, where it stands on that line, what it is for.
fn entry(text: &str) -> Entry {
    let (term, about) = text.split_once("  ").unwrap_or((text, ""));
    let about = about.trim();
    Entry { term: term.to_owned(), about: if about.is_empty() { Vec::new() } else { vec![about.to_owned()] } }
}

/// A further line of the last entry: of its last paragraph, or of a new one after an empty line.
fn goes_on(section: &mut Section, text: &str) {
    let Some(entry) = section.entries.last_mut() else { return };
    let new =
        entry.about.last().is_none_or(String::is_empty) || text.starts_with("- ") || text.starts_with('[');
    match entry.about.last_mut() {
        Some(last) if last.is_empty() && !text.is_empty() => text.clone_into(last),
        _ if text.is_empty() => entry.about.push(String::new()),
        Some(last) if !new => {
            last.push(' ');
            last.push_str(text);
        }
        _ => entry.about.push(text.to_owned()),
    }
}

impl Entry {
    /// Its paragraphs, without empty ones. Of a variable only its name is told: here none has a value.
    pub fn paragraphs(&self) -> impl Iterator<Item = String> + '_ {
        let said = self.about.iter().filter(|text| !text.is_empty());
        said.map(|text| text.replace("=]", "]"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "Serves a cluster\n\nand\nmore\n  as is\n\nUsage: rail-x run [OPTIONS] <FILE>\n\nArguments:\n  [FILE]\n          The file\n\n\
        Options:\n      --data-dir <DIR>\n          Folder of the\n          state\n          \n          [env: RAIL_X=]\n\n  \
        -h, --help  Print help\n      and more\n\nTraces (of the environment):\n  RAIL_OTLP  Where\n\nSettings come from flags.\n";

    #[test]
    fn a_help_is_taken_apart() {
        let page = read("rail-x run", HELP);
        assert_eq!((page.about.as_str(), page.usage.len()), ("Serves a cluster\n\nand more\n  as is", 1));
        let titles: Vec<&str> = page.sections.iter().map(|section| section.title.as_str()).collect();
        assert_eq!(titles, ["Arguments", "Options", "Traces (of the environment)", ""]);
        let options = &page.sections[1].entries;
        assert_eq!(options[0].term, "--data-dir <DIR>");
        assert_eq!(options[0].paragraphs().collect::<Vec<_>>(), ["Folder of the state", "[env: RAIL_X]"]);
        assert_eq!(options[1].about[0], "Print help and more");
        assert_eq!(page.sections[3].text, ["Settings come from flags."]);
    }
}
