//! Which operating system a switch has, and how its configuration is read and put in place there. Values only: nothing is run here.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use crate::{
    config_db,
    files::FILE_MAX,
    frr::{self, Frr},
    invoke::{Invocation, Part},
};

/// The longest that SONiC takes for a change of its configuration.
const REPLACE_LIMIT: Duration = Duration::from_secs(600);
/// The longest that it takes to load its whole database, with which its services stop and start.
const RELOAD_LIMIT: Duration = Duration::from_secs(420);
/// The longest until its routing answers after that.
const ROUTING_LIMIT: Duration = Duration::from_secs(180);
/// Reading all of it takes SONiC's own tool seconds.
const READ_LIMIT: Duration = Duration::from_secs(60);

/// The operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nos {
    /// Any Linux with FRR.
    Linux,
    /// SONiC.
    Sonic,
}

impl Nos {
    /// What the machine below this folder is.
    #[must_use]
    pub fn detected(root: &Path) -> Self {
        if root.join("etc/sonic").exists() { Self::Sonic } else { Self::Linux }
    }

    /// Files of its configuration.
    #[must_use]
    pub fn files(self) -> &'static [&'static str] {
        match self {
            Self::Linux => &[frr::FILE],
            Self::Sonic => &[config_db::FILE, frr::FILE],
        }
    }
}

impl FromStr for Nos {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "linux" => Ok(Self::Linux),
            "sonic" => Ok(Self::Sonic),
            _ => Err("linux or sonic".to_owned()),
        }
    }
}

/// A switch, and where the agent may put files that commands read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Its operating system.
    pub nos: Nos,
    /// Its routing.
    pub frr: Frr,
    /// A folder of the agent's own.
    pub work: PathBuf,
}

impl Site {
    /// A switch whose FRR is below this folder, where it is not in SONiC's container.
    #[must_use]
    pub fn new(nos: Nos, frr_root: &Path, work: PathBuf) -> Self {
        let frr = match nos {
            Nos::Linux => Frr::Here(frr_root.to_owned()),
            Nos::Sonic => Frr::Container("bgp".to_owned()),
        };
        Self { nos, frr, work }
    }

    /// What prints a file of the configuration.
    #[must_use]
    pub fn read(&self, file: &str) -> Option<Invocation> {
        match file {
            frr::FILE => Some(self.frr.read()),
            config_db::FILE if self.nos == Nos::Sonic => {
                let read = Invocation::new("sonic-cfggen", &["-d", "--print-data"]);
                Some(read.within(READ_LIMIT).saying(FILE_MAX))
            }
            _ => None,
        }
    }

    /// Puts a file in place of what is there, but not for the switch's next start.
    #[must_use]
    pub fn put(&self, file: &str, content: &str) -> Vec<Part> {
        match file {
            frr::FILE => self.frr.put(&self.work, content),
            config_db::FILE => {
                let path = self.work.join(config_db::FILE);
                let replace = Invocation::new("config", &["replace", &path.display().to_string()]);
                let replace = replace.within(REPLACE_LIMIT);
                vec![Part::Write { path, content: content.to_owned() }, Part::Run(replace)]
            }
            _ => Vec::new(),
        }
    }

    /// Loads the whole database anew and waits for routing, which begins with what was kept of it; the switch's next start has the old one.
    /// `forced`: also where its services are not up.
    #[must_use]
    pub fn reload(&self, content: &str, forced: bool) -> Vec<Part> {
        let path = self.work.join(config_db::FILE);
        let file = path.display().to_string();
        let arguments = ["reload", "-y", "-f", &file];
        let unforced = ["reload", "-y", &file];
        let arguments = if forced { &arguments[..] } else { &unforced[..] };
        let reload = Invocation::new("config", arguments).within(RELOAD_LIMIT);
        vec![
            Part::Write { path, content: content.to_owned() },
            Part::Run(reload),
            Part::Until { answers: self.frr.answers(), within: ROUTING_LIMIT },
        ]
    }

    /// Makes what is in place outlive a start of the switch.
    #[must_use]
    pub fn persist(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        if self.nos == Nos::Sonic {
            parts.push(Part::Run(Invocation::new("config", &["save", "-y"]).within(READ_LIMIT)));
        }
        parts.push(self.frr.persist());
        parts
    }
}

/// The value of `NAME=value` or `NAME: value` in a file of such lines, without quotation marks.
#[must_use]
pub fn field(text: &str, name: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(['=', ':']))?;
    let value = value.trim().trim_matches(['"', '\'']);
    (!value.is_empty()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operating_system_is_seen_by_its_folder() {
        let room = tempfile::tempdir().unwrap();
        assert_eq!(Nos::detected(room.path()), Nos::Linux);
        std::fs::create_dir_all(room.path().join("etc/sonic")).unwrap();
        assert_eq!(Nos::detected(room.path()), Nos::Sonic);
        assert_eq!("sonic".parse(), Ok(Nos::Sonic));
        assert!("eos".parse::<Nos>().is_err());
    }

    #[test]
    fn every_file_of_a_switch_can_be_read_and_put_in_place() {
        for nos in [Nos::Linux, Nos::Sonic] {
            let site = Site::new(nos, Path::new("/"), PathBuf::from("/state"));
            for file in nos.files() {
                assert!(site.read(file).is_some() && !site.put(file, "x").is_empty(), "{nos:?} {file}");
            }
            assert!(site.read("passwd").is_none() && site.put("passwd", "x").is_empty());
        }
        let sonic = Site::new(Nos::Sonic, Path::new("/"), PathBuf::from("/state"));
        let Part::Run(replace) = &sonic.put(config_db::FILE, "{}")[1] else { panic!() };
        assert_eq!(replace.line(), "config replace /state/config_db.json");
        for (forced, line) in [
            (false, "config reload -y /state/config_db.json"),
            (true, "config reload -y -f /state/config_db.json"),
        ] {
            let parts = sonic.reload("{}", forced);
            let [Part::Write { .. }, Part::Run(reload), Part::Until { answers, .. }] = &parts[..] else {
                panic!("{parts:?}")
            };
            assert_eq!((reload.line().as_str(), answers.program.as_str()), (line, "docker"));
        }
        let Part::Run(save) = &sonic.persist()[0] else { panic!() };
        assert_eq!(save.line(), "config save -y");
    }

    #[test]
    fn versions_are_fields() {
        let text = "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n";
        assert_eq!(field(text, "PRETTY_NAME"), Some("Debian GNU/Linux 12 (bookworm)".to_owned()));
        assert_eq!(field("build_version: 'master.1'\n", "build_version"), Some("master.1".to_owned()));
        assert_eq!(field(text, "NAME"), None);
    }
}
