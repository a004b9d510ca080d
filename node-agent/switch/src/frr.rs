//! FRR: its running configuration as a text, and a text put in place of it. Values only: nothing is run here.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    files::FILE_MAX,
    invoke::{Invocation, Part},
};

/// The file that stands for all of FRR's configuration.
pub const FILE: &str = "frr.conf";
/// The longest that a change of it takes.
const RELOAD_LIMIT: Duration = Duration::from_secs(120);

/// How FRR is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frr {
    /// Its programs are on this machine, below this folder.
    Here(PathBuf),
    /// It runs in a container of this name, as on SONiC.
    Container(String),
}

impl Frr {
    /// The vtysh command that prints or does this.
    #[must_use]
    pub fn vtysh(&self, command: &str) -> Invocation {
        self.shell(&["-c", command])
    }

    /// Ends well once BGP's daemon answers.
    #[must_use]
    pub fn answers(&self) -> Invocation {
        self.shell(&["-d", "bgpd", "-c", "show version"])
    }

    fn shell(&self, arguments: &[&str]) -> Invocation {
        match self {
            Self::Here(root) => Invocation::new(shown(&root.join("usr/bin/vtysh")), arguments),
            Self::Container(name) => {
                Invocation::new("docker", &[&["exec", name, "vtysh"], arguments].concat())
            }
        }
    }

    /// What prints the running configuration.
    #[must_use]
    pub fn read(&self) -> Invocation {
        self.vtysh("show running-config").saying(FILE_MAX)
    }

    /// What has to be there so that a configuration can be put in place; none where that is not on this machine.
    #[must_use]
    pub fn reloader(&self) -> Option<PathBuf> {
        match self {
            Self::Here(root) => Some(root.join("usr/lib/frr/frr-reload.py")),
            Self::Container(_) => None,
        }
    }

    /// Puts a configuration in place of the running one, and leaves the one with which FRR starts as it is: FRR's own program writes that
    /// unless the file that it is given is the one of its folder, so it is given a folder of ours.
    #[must_use]
    pub fn put(&self, work: &Path, config: &str) -> Vec<Part> {
        match self {
            Self::Here(root) => {
                let folder = work.join("frr");
                let script = self.reloader().unwrap_or_default();
                let bin = shown(&root.join("usr/bin"));
                let (confdir, file) = (shown(&folder), shown(&folder.join(FILE)));
                let script = shown(&script);
                let arguments = [
                    script.as_str(),
                    "--reload",
                    "--stdout",
                    "--log-level",
                    "warning",
                    "--bindir",
                    &bin,
                    "--confdir",
                    &confdir,
                    &file,
                ];
                vec![
                    Part::Write { path: folder.join("vtysh.conf"), content: String::new() },
                    Part::Write { path: folder.join(FILE), content: config.to_owned() },
                    Part::Run(Invocation::new("python3", &arguments).within(RELOAD_LIMIT)),
                ]
            }
            Self::Container(name) => {
                // What runs in a container goes on when the command that began it is killed, so that the next one waits for it.
                const RELOAD: &str = "umask 077; mkdir -p /tmp/rail-switch-agent && cd /tmp/rail-switch-agent && \
                     exec flock -w 100 lock sh -c ': > vtysh.conf && cat > frr.conf && exec python3 /usr/lib/frr/frr-reload.py \
                     --reload --stdout --log-level warning --confdir /tmp/rail-switch-agent /tmp/rail-switch-agent/frr.conf'";
                let reload = Invocation::new("docker", &["exec", "-i", name, "sh", "-c", RELOAD]);
                vec![Part::Run(reload.reading(config).within(RELOAD_LIMIT * 2))]
            }
        }
    }

    /// Makes the running configuration the one with which FRR starts.
    #[must_use]
    pub fn persist(&self) -> Part {
        Part::Run(self.vtysh("write memory"))
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The configuration in what `show running-config` prints: without the words before it.
#[must_use]
pub fn config(said: &str) -> String {
    let lines = said.lines().skip_while(|line| {
        let line = line.trim();
        line.is_empty() || line == "Building configuration..." || line == "Current configuration:"
    });
    let mut text = String::new();
    for line in lines {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The version in what `show version` prints.
#[must_use]
pub fn version(said: &str) -> Option<String> {
    let words: Vec<&str> = said.lines().next()?.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "FRRouting")?;
    words.get(at + 1).map(|version| format!("FRR {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_before_a_configuration_are_none_of_it() {
        let said = "Building configuration...\n\nCurrent configuration:\n!\nfrr version 8.4.4\r\n!\nrouter bgp 1\nexit\n!\nend\n";
        assert_eq!(config(said), "!\nfrr version 8.4.4\n!\nrouter bgp 1\nexit\n!\nend\n");
        assert_eq!(config("% failed"), "% failed\n");
        assert_eq!(version("FRRouting 8.4.4 (leaf) on Linux(6.1)."), Some("FRR 8.4.4".to_owned()));
        assert_eq!(version("Quagga 1"), None);
    }

    #[test]
    fn a_configuration_is_put_in_place_without_touching_what_frr_starts_with() {
        let here = Frr::Here(PathBuf::from("/"));
        let parts = here.put(Path::new("/state"), "!\n");
        let Part::Run(reload) = &parts[2] else { panic!("{parts:?}") };
        let folder = reload.arguments.iter().position(|one| one == "--confdir").unwrap();
        // frr-reload.py writes the start's configuration unless this holds.
        let file = format!("{}/frr.conf", reload.arguments[folder + 1]);
        assert_eq!(reload.arguments.last(), Some(&file));
        assert_eq!(parts[1], Part::Write { path: file.into(), content: "!\n".to_owned() });
        assert!(parts.iter().all(|part| *part != here.persist()));
        let inside = Frr::Container("bgp".to_owned()).put(Path::new("/state"), "!\n");
        let [Part::Run(reload)] = &inside[..] else { panic!("{inside:?}") };
        assert_eq!((reload.stdin.as_str(), reload.program.as_str()), ("!\n", "docker"));
        assert!(!reload.arguments.iter().any(|argument| argument.contains("  ")), "{reload:?}");
    }
}
