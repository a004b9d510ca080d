//! What shells and man need; no controller is asked.

use std::path::Path;

use clap::CommandFactory as _;

use crate::{args::Cli, error::Error, output::print_bytes};

/// The command that names what can be drained; quiet and quick where there is no cluster.
const NAMES: &str = "railctl --request-timeout 2s rail ls -o name 2>/dev/null";

/// What a cluster has: how it is listed, and behind which words one is named.
const KINDS: [(&str, &[&str]); 11] = [
    ("jobs", &["get jobs", "describe job", "explain job", "delete job", "logs", "cancel"]),
    ("queues", &["get queues", "describe queue", "delete queue"]),
    ("reservations", &["get reservations", "describe reservation", "delete reservation"]),
    ("schedules", &["get schedules", "describe schedule", "delete schedule"]),
    ("licenses", &["get licenses", "describe license", "delete license"]),
    ("switches", &["get switches", "describe switch", "delete switch"]),
    ("secrets", &["get secrets", "describe secret", "delete secret"]),
    ("configs", &["get configs", "describe config", "delete config"]),
    ("webhooks", &["get webhooks", "describe webhook", "delete webhook", "webhook test"]),
    ("nodes", &["get nodes", "describe node", "delete node", "doctor"]),
    ("tenants", &["get tenants", "describe tenant", "delete tenant"]),
];

/// The command that names those of a kind; without what comes before their names.
fn listing(kind: &str) -> String {
    format!("railctl --request-timeout 2s get {kind} -o name 2>/dev/null | sed 's|.*/||'")
}

/// Lines of a `case` over the words so far: the names of what is meant become the value of `names`.
fn cases(words: &str, split: impl Fn(&str) -> String) -> String {
    let case = |(kind, behind): &(&str, &[&str])| {
        let patterns: Vec<String> = behind.iter().map(|words| format!("*\" {words} \"*")).collect();
        format!(
            "        {})\n            names={}\n            ;;\n",
            patterns.join("|"),
            split(&listing(kind))
        )
    };
    let cases: String = KINDS.iter().map(case).collect();
    format!("    case {words} in\n{cases}    esac\n")
}

/// A completion script on standard output. What a cluster has (jobs, queues, rails, what is drained) is asked of it.
///
/// # Errors
/// [`Error::Output`] if standard output cannot be written to.
pub fn completion(shell: clap_complete::Shell) -> Result<(), Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "railctl", &mut script);
    let script = with_rails(shell, &String::from_utf8_lossy(&script));
    print_bytes(script.as_bytes())
}

/// The script with the names of rails where `rail ls`, `drain` and `undrain` take one.
fn with_rails(shell: clap_complete::Shell, script: &str) -> String {
    use clap_complete::Shell;
    match shell {
        Shell::Bash => {
            let cases = cases("\" ${COMP_WORDS[*]:1:COMP_CWORD-1} \"", |list| format!("\"$({list})\""));
            format!("{script}\n{}", BASH.replace("NAMES", NAMES).replace("CASES", &cases))
        }
        Shell::Fish => format!("{script}{}{}", FISH.replace("NAMES", NAMES), fish()),
        Shell::Zsh => {
            let taken = |line: &str| match line.split_once(":target -- ").or(line.split_once("::target -- "))
            {
                Some(_) => line.replace(":_default'", ":_railctl_rails'"),
                None if NAMED.iter().any(|begin| line.starts_with(begin)) => {
                    line.replace(":_default'", ":_railctl_names'")
                }
                None => line.to_owned(),
            };
            let lines: Vec<String> = script.lines().map(taken).collect();
            let body = lines.join("\n");
            // Functions come before the lines that register the script.
            match body.split_once("if [ \"$funcstack[1]\"") {
                Some((functions, rest)) => {
                    let cases =
                        cases("\" ${words[1,CURRENT-1]} \"", |list| format!("(${{(f)\"$({list})\"}})"));
                    let ours = ZSH.replace("NAMES", NAMES).replace("CASES", &cases);
                    format!("{functions}{ours}if [ \"$funcstack[1]\"{rest}\n")
                }
                None => script.to_owned(),
            }
        }
        _ => script.to_owned(),
    }
}

/// Lines of the script for zsh behind which something is named that a cluster has.
const NAMED: [&str; 4] = ["':job -- ", "'::name -- ", "'*::names -- Names", "':name -- Its name"];

fn fish() -> String {
    let line = |(kind, behind): &(&str, &[&str])| {
        let list = listing(kind);
        let of = |words: &&str| {
            let seen: Vec<String> =
                words.split(' ').map(|word| format!("__fish_seen_subcommand_from {word}")).collect();
            format!("complete -c railctl -n \"{}\" -f -a \"({list})\"\n", seen.join("; and "))
        };
        behind.iter().map(of).collect::<String>()
    };
    KINDS.iter().map(line).collect()
}

const BASH: &str = r#"_railctl_rails() {
    _railctl "$@"
    local cur="${COMP_WORDS[COMP_CWORD]}" names=""
CASES    if [[ -n "${names}" && "${cur}" != -* ]]; then
        COMPREPLY=( $(compgen -W "${names}" -- "${cur}") )
    fi
    case " ${COMP_WORDS[*]:1:COMP_CWORD-1} " in
        *" rail drain "*|*" rail undrain "*|*" rail ls "*)
            if [[ "${cur}" != -* ]]; then
                COMPREPLY=( $(compgen -W "$(NAMES)" -- "${cur}") )
            fi
            ;;
    esac
}
complete -F _railctl_rails -o bashdefault -o default railctl
"#;

const ZSH: &str = r#"_railctl_rails() {
    local names
    names=(${(f)"$(NAMES)"})
    compadd -a names
}

_railctl_names() {
    local -a names
CASES    (( ${#names} )) && compadd -a names || _default
}

"#;

const FISH: &str = r#"complete -c railctl -n "__fish_railctl_using_subcommand rail; and __fish_seen_subcommand_from ls drain undrain" -f -a "(NAMES)"
"#;

/// One man page per command.
///
/// # Errors
/// [`Error::File`] if the folder or a page cannot be written.
pub fn man(dir: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(dir).map_err(|error| Error::file("create", dir, error))?;
    let mut root = Cli::command();
    root.build();
    page(&root, "railctl", dir)
}

fn page(command: &clap::Command, name: &str, dir: &Path) -> Result<(), Error> {
    let path = dir.join(format!("{name}.1"));
    let mut text = Vec::new();
    let titled = command.clone().name(name.to_owned());
    let rendered = clap_mangen::Man::new(titled).title(name.to_uppercase()).render(&mut text);
    rendered
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|error| Error::file("write", &path, error))?;
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        page(inner, &format!("{name}-{}", inner.get_name()), dir)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(shell: clap_complete::Shell) -> String {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "railctl", &mut script);
        with_rails(shell, &String::from_utf8(script).unwrap())
    }

    #[test]
    fn shells_ask_the_cluster_for_its_rails() {
        use clap_complete::Shell;
        for (shell, times, begin) in [
            (Shell::Bash, 1, "complete -F _railctl_rails"),
            (Shell::Zsh, 1, "_railctl_rails() {"),
            (Shell::Fish, 1, "__fish_seen_subcommand_from ls drain undrain"),
        ] {
            let script = script(shell);
            assert_eq!(script.matches(NAMES).count(), times, "{shell}");
            assert!(script.contains(begin), "{shell}");
        }
        for (shell, begin) in [
            (Shell::Bash, "*\" get queues \"*"),
            (Shell::Zsh, "*\" describe reservation \"*"),
            (Shell::Fish, "__fish_seen_subcommand_from cancel"),
        ] {
            let script = script(shell);
            let kinds =
                ["jobs", "queues", "reservations", "schedules", "licenses", "switches", "nodes", "tenants"];
            let lists = kinds.map(listing);
            assert!(lists.iter().all(|list| script.contains(list)) && script.contains(begin), "{shell}");
        }
        // The jobs of explain, logs and cancel, and the arguments of get, describe and delete.
        assert!(script(Shell::Zsh).matches(":_railctl_names'").count() >= 5);
        // One argument each of ls, its alias list, drain and undrain.
        assert_eq!(script(Shell::Zsh).matches(":_railctl_rails'").count(), 4);
    }
}
