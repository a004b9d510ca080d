//! What shells and man need; no controller is asked.

use std::path::Path;

use clap::CommandFactory as _;

use crate::{args::Cli, error::Error, output::print_bytes};

/// The command that names what can be drained; quiet and quick where there is no cluster.
const NAMES: &str = "railctl --request-timeout 2s rail ls -o name 2>/dev/null";

/// A completion script on standard output. What a cluster has (rails, leaves, what is drained) is asked of it.
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
        Shell::Bash => format!("{script}\n{}", BASH.replace("NAMES", NAMES)),
        Shell::Fish => format!("{script}{}", FISH.replace("NAMES", NAMES)),
        Shell::Zsh => {
            let taken = |line: &str| match line.split_once(":target -- ").or(line.split_once("::target -- "))
            {
                Some(_) => line.replace(":_default'", ":_railctl_rails'"),
                None => line.to_owned(),
            };
            let lines: Vec<String> = script.lines().map(taken).collect();
            let body = lines.join("\n");
            // Functions come before the lines that register the script.
            match body.split_once("if [ \"$funcstack[1]\"") {
                Some((functions, rest)) => {
                    format!("{functions}{}if [ \"$funcstack[1]\"{rest}\n", ZSH.replace("NAMES", NAMES))
                }
                None => script.to_owned(),
            }
        }
        _ => script.to_owned(),
    }
}

const BASH: &str = r#"_railctl_rails() {
    _railctl "$@"
    local cur="${COMP_WORDS[COMP_CWORD]}"
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

"#;

const FISH: &str = r#"complete -c railctl -n "__fish_railctl_using_subcommand rail; and __fish_seen_subcommand_from ls drain undrain" -f -a "(NAMES)"
"#;

/// One man page per command.
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
        // One argument each of ls, its alias list, drain and undrain.
        assert_eq!(script(Shell::Zsh).matches(":_railctl_rails'").count(), 4);
    }
}
