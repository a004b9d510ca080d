//! Pages of options and man pages, made of what the programs' own `--help` says.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use super::help::{self, Entry, Page};
use crate::process::{self, Result};

/// Programs with subcommands, each with a page of its own.
pub const PROGRAMS: [&str; 7] = [
    "railctl",
    "rail-controller",
    "rail-node-agent",
    "rail-engine",
    "rail-switch-agent",
    "rail-dra-driver",
    "rail-operator",
];
/// Parts that all commands of railctl have: told once.
const COMMON: &str = "Connection";
/// What `rail-rank` says is no help as clap writes it: it has no options.
const RANK: &str = "rail-rank";

/// The page of one program.
///
/// # Errors
/// The program does not run.
pub fn page(bin: &Path, program: &str) -> Result<String> {
    let mut text = format!(
        "# Options of {program}\n\nThis page is generated from `{program} --help` by `cargo xtask docs`. Where an option names \
         a variable, that sets it where the command line does not.\n"
    );
    for (index, page) in help::pages(bin, program)?.iter().enumerate() {
        let _ = write!(
            text,
            "\n## {}\n\n{}\n\n```text\n{}\n```\n",
            page.name,
            plain(&page.about),
            page.usage.join("\n")
        );
        for section in &page.sections {
            if index > 0 && section.title == COMMON {
                continue;
            }
            let entries: Vec<&Entry> = section.entries.iter().filter(|entry| !is_help(entry)).collect();
            let empty = entries.is_empty() && section.text.is_empty();
            if !(section.title.is_empty() || empty) {
                let _ = write!(text, "\n**{}**\n", section.title);
            }
            if !entries.is_empty() {
                text.push('\n');
            }
            for entry in entries {
                let _ = writeln!(text, "- `{}`: {}", entry.term, about(entry));
            }
            if !section.text.is_empty() {
                let _ = write!(text, "\n{}\n", plain(&section.text.join("\n")));
            }
        }
    }
    Ok(text)
}

/// What an entry is for, on one line; values that it takes are a list below it.
fn about(entry: &Entry) -> String {
    let (mut said, mut values, mut settings) = (Vec::new(), String::new(), String::new());
    for paragraph in entry.paragraphs() {
        let (text, own) = bracketed(&paragraph);
        settings.push_str(&own);
        match text.strip_prefix("- ") {
            Some(value) => {
                let (name, meaning) = value.split_once(':').unwrap_or((value, ""));
                let _ = write!(values, "\n  - `{name}`: {}", plain(meaning.trim()));
            }
            None if text == "Possible values:" || text.is_empty() => {}
            None => said.push(plain(&text)),
        }
    }
    let said = said.join(" ");
    let dot =
        if said.is_empty() || said.ends_with(['.', ')', ':']) || settings.is_empty() { "" } else { "." };
    format!("{said}{dot}{settings}{values}")
}

/// A paragraph without what clap adds in brackets (`[env: X]`, `[default: 3]`), and that in words.
fn bracketed(text: &str) -> (String, String) {
    let (mut rest, mut said) = (text.to_owned(), String::new());
    for (opening, words) in [
        ("[env: ", "Variable"),
        ("[default: ", "Default"),
        ("[possible values: ", "One of"),
        ("[aliases: ", "Also called"),
        ("[alias: ", "Also called"),
    ] {
        let Some((before, after)) = rest.split_once(opening) else { continue };
        let Some((value, after)) = after.split_once(']') else { continue };
        let _ = write!(said, " {words} `{value}`.");
        rest = format!("{}{}", before.trim_end(), after);
    }
    (rest, said)
}

fn is_help(entry: &Entry) -> bool {
    ["-h, --help", "-V, --version", "help"].contains(&entry.term.as_str())
}

/// Text in which nothing is markup: what stands in angle brackets, underscores and stars stay what they are.
fn plain(text: &str) -> String {
    let mut said = String::new();
    let mut code = false;
    for c in text.chars() {
        match c {
            '`' => code = !code,
            '<' if !code => {
                said.push_str("&lt;");
                continue;
            }
            '*' | '_' | '[' | ']' if !code => said.push('\\'),
            _ => {}
        }
        said.push(c);
    }
    said
}

/// Writes a man page for every command of every program into a folder; says how many there are.
///
/// # Errors
/// A program does not run, or a file cannot be written.
pub fn man(bin: &Path, folder: &Path) -> Result<usize> {
    std::fs::create_dir_all(folder)?;
    let mut railctl = Command::new(bin.join("railctl"));
    railctl.arg("man").arg(folder);
    process::run_quiet(&mut railctl)?;
    for program in PROGRAMS.into_iter().filter(|program| *program != "railctl") {
        let pages = help::pages(bin, program)?;
        for page in &pages {
            let file = page.name.replace(' ', "-");
            std::fs::write(folder.join(format!("{file}.8")), roff(page, &pages))?;
        }
    }
    std::fs::write(folder.join(format!("{RANK}.8")), roff(&rank(), &[]))?;
    let made: Vec<PathBuf> = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    Ok(made.len())
}

fn rank() -> Page {
    Page {
        name: RANK.to_owned(),
        about: "Holds the namespaces of a job's attempt on a server, and starts its ranks in them. rail-node-agent starts it; it is \
                of no use by itself and has no options."
            .to_owned(),
        usage: vec![RANK.to_owned()],
        sections: Vec::new(),
    }
}

/// One command as a man page of section 8.
fn roff(page: &Page, all: &[Page]) -> String {
    let dashed = page.name.replace(' ', "-");
    let summary = page.about.lines().next().unwrap_or_default().trim_end_matches('.');
    let mut text =
        format!(".TH {} 8\n.SH NAME\n{} \\- {}\n", dashed.to_uppercase(), dashes(&dashed), dashes(summary));
    text.push_str(".SH SYNOPSIS\n");
    for usage in &page.usage {
        let _ = writeln!(text, "{}\n.br", dashes(usage));
    }
    let _ = writeln!(text, ".SH DESCRIPTION\n{}", lines(&page.about));
    for section in &page.sections {
        let title = if section.title.is_empty() { "NOTES".to_owned() } else { section.title.to_uppercase() };
        let _ = writeln!(text, ".SH \"{}\"", dashes(&title));
        for entry in &section.entries {
            let about: Vec<String> = entry.paragraphs().map(|text| lines(&text)).collect();
            let _ = writeln!(text, ".TP\n\\fB{}\\fR\n{}", dashes(&entry.term), about.join("\n.br\n"));
        }
        if !section.text.is_empty() {
            let _ = writeln!(text, "{}", lines(&section.text.join("\n")));
        }
    }
    let others: Vec<String> = all
        .iter()
        .filter(|other| other.name != page.name)
        .map(|other| other.name.replace(' ', "-"))
        .collect();
    let others = others.iter().map(|name| format!("\\fB{}\\fR(8)", dashes(name)));
    let seen: Vec<String> = others.chain(["\\fBrailctl\\fR(1)".to_owned()]).collect();
    let _ = writeln!(text, ".SH \"SEE ALSO\"\n{}", seen.join(",\n"));
    text
}

/// Text for roff: a hyphen is one, a backslash is one.
fn dashes(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

/// Lines of text for roff: none is taken for a request.
fn lines(text: &str) -> String {
    let guarded =
        |line: &str| if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_owned() };
    dashes(text).lines().map(guarded).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_help_says_is_no_markup() {
        assert_eq!(plain("a <FILE> of `x<y>`, [a_b]"), "a &lt;FILE> of `x<y>`, \\[a\\_b\\]");
        let entry = Entry {
            term: "--x".into(),
            about: vec!["Time".into(), "[env: X=]".into(), "Possible values:".into(), "- a: A".into()],
        };
        assert_eq!(about(&entry), "Time. Variable `X`.\n  - `a`: A");
        assert_eq!(lines(".a -b\n'c"), "\\&.a \\-b\n\\&'c");
    }
}
