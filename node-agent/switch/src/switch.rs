//! The switch itself, as the keeper of its configuration needs it: what is on it, what is put in place, what its ports count.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use proto_wire::v1::{SwitchPortStatus, SwitchSession};

use crate::{
    config_db,
    counters::{self, lldp, sonic, sysfs},
    decide::Method,
    files::Files,
    frr,
    invoke::{Invocation, Part, Shell},
    nos::{Nos, Site, field},
    sessions, text,
};

/// Neighbours change seldom.
pub const NEIGHBORS_EVERY: Duration = Duration::from_secs(30);

/// How files are put in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner<'a> {
    /// As they were read: exactly so.
    Exact,
    /// As they were rendered: what they do not speak of stays, where the operating system has more in one file than is planned.
    Planned {
        /// Tables of its database of which nothing stays.
        owned: &'a [String],
    },
}

/// What is on a switch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// All that could be read.
    pub files: Files,
    /// Why not all of it; empty: all was read.
    pub unreadable: String,
}

impl Found {
    /// The files, where they are all.
    #[must_use]
    pub fn whole(&self) -> Option<&Files> {
        self.unreadable.is_empty().then_some(&self.files)
    }
}

/// A switch.
pub trait Switch: Send + 'static {
    /// What is on it.
    fn read(&mut self) -> Found;
    /// Puts files in place, but not for its next start.
    ///
    /// # Errors
    /// What failed; then part of it may be in place.
    fn put(&mut self, files: &Files, manner: Manner<'_>, method: Method) -> Result<(), String>;
    /// Makes what is in place outlive its next start.
    ///
    /// # Errors
    /// What failed.
    fn persist(&mut self) -> Result<(), String>;
    /// Its ports.
    fn ports(&mut self) -> Vec<SwitchPortStatus>;
    /// Its BGP sessions; none where its routing does not say.
    fn sessions(&mut self) -> Option<Vec<SwitchSession>>;
    /// Its operating system, with the version.
    fn version(&mut self) -> String;
}

/// This machine.
#[derive(Debug)]
pub struct RealSwitch {
    site: Site,
    /// What the kernel shows is below it.
    root: PathBuf,
    shell: Shell,
    neighbors: BTreeMap<String, lldp::Neighbor>,
    /// When they were asked for.
    asked: Option<Instant>,
}

impl RealSwitch {
    /// The machine below `root`.
    #[must_use]
    pub const fn new(site: Site, root: PathBuf, shell: Shell) -> Self {
        Self { site, root, shell, neighbors: BTreeMap::new(), asked: None }
    }

    fn content(&self, file: &str) -> Result<String, String> {
        let read = self.site.read(file).ok_or_else(|| format!("this switch has no {file}"))?;
        let said = self.shell.run(&read).map_err(|error| error.to_string())?;
        if file != frr::FILE {
            return Ok(said);
        }
        let config = frr::config(&said);
        // Without it the rest may be missing too.
        if config.lines().next_back() == Some("end") {
            Ok(config)
        } else {
            let end = text::within(config.lines().next_back().unwrap_or_default(), 200);
            Err(format!("`{}` printed no whole configuration: {end}", read.line()))
        }
    }

    /// All that is to be done, found out before anything is changed.
    fn parts(&self, files: &Files, manner: Manner<'_>, method: Method) -> Result<Vec<Part>, String> {
        let mut parts = Vec::new();
        for file in self.site.nos.files() {
            let Some(content) = files.get(file) else { continue };
            if *file == frr::FILE
                && let Some(script) = self.site.frr.reloader().filter(|script| !script.exists())
            {
                let script = script.display();
                return Err(format!("there is no {script}: install FRR's package frr-pythontools"));
            }
            let merged = match manner {
                Manner::Planned { owned } if *file == config_db::FILE => {
                    let merged = config_db::merge(&self.content(file)?, content, owned);
                    Some(merged.map_err(|error| error.to_string())?)
                }
                _ => None,
            };
            let content = merged.as_deref().unwrap_or(content);
            // What an interrupted reload has left is not up, and is not waited for.
            let forced = manner == Manner::Exact;
            parts.extend(match method {
                Method::Reload if *file == config_db::FILE => self.site.reload(content, forced),
                Method::Reload | Method::Change => self.site.put(file, content),
            });
        }
        Ok(parts)
    }

    /// What a tool says that need not be there.
    fn said(&self, invocation: &Invocation) -> String {
        match self.shell.run(invocation) {
            Ok(said) => said,
            Err(error) => {
                if !error.is_absent() {
                    tracing::debug!(%error, "no answer");
                }
                String::new()
            }
        }
    }

    fn file(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.join(path)).unwrap_or_default()
    }
}

impl Switch for RealSwitch {
    fn read(&mut self) -> Found {
        let (mut files, mut causes) = (Vec::new(), Vec::new());
        for file in self.site.nos.files() {
            match self.content(file) {
                Ok(content) => files.push(((*file).to_owned(), content)),
                Err(why) => causes.push(format!("{file}: {why}")),
            }
        }
        match Files::new(files) {
            Ok(files) => Found { files, unreadable: text::bounded(&causes.join("; ")) },
            Err(error) => Found { files: Files::default(), unreadable: text::bounded(&error.to_string()) },
        }
    }

    fn put(&mut self, files: &Files, manner: Manner<'_>, method: Method) -> Result<(), String> {
        self.shell.carry_out(&self.parts(files, manner, method)?)
    }

    fn persist(&mut self) -> Result<(), String> {
        self.shell.carry_out(&self.site.persist())
    }

    fn ports(&mut self) -> Vec<SwitchPortStatus> {
        let beginning = match self.site.nos {
            Nos::Linux => "",
            Nos::Sonic => "Ethernet",
        };
        let mut ports = sysfs::ports(&self.root, beginning);
        if self.asked.is_none_or(|asked| asked.elapsed() >= NEIGHBORS_EVERY) {
            self.neighbors = lldp::neighbors(&self.said(&lldp::read()));
            self.asked = Some(Instant::now());
        }
        counters::add(&mut ports, &self.neighbors, |port, neighbor| {
            port.neighbor.clone_from(&neighbor.name);
            port.neighbor_port.clone_from(&neighbor.port);
        });
        if self.site.nos == Nos::Sonic {
            let counted = sonic::counters(&self.said(&sonic::read()));
            counters::add(&mut ports, &counted, |port, counted| counted.add(port));
        }
        ports
    }

    fn sessions(&mut self) -> Option<Vec<SwitchSession>> {
        sessions::read(&self.said(&self.site.frr.vtysh(sessions::COMMAND)))
    }

    fn version(&mut self) -> String {
        let version = match self.site.nos {
            Nos::Sonic => {
                let version = field(&self.file("etc/sonic/sonic_version.yml"), "build_version");
                version.map(|version| format!("SONiC {version}"))
            }
            Nos::Linux => {
                let system = field(&self.file("etc/os-release"), "PRETTY_NAME");
                let routing = frr::version(&self.said(&self.site.frr.vtysh("show version")));
                let parts: Vec<String> = system.into_iter().chain(routing).collect();
                (!parts.is_empty()).then(|| parts.join(", "))
            }
        };
        text::within(&version.unwrap_or_default(), 128)
    }
}

/// The shell of an agent with this state folder, and the switch below `root` with it.
#[must_use]
pub fn real(nos: Nos, root: &Path, frr_root: &Path, state: &Path) -> (Shell, RealSwitch) {
    let shell = Shell::new(state);
    let site = Site::new(nos, frr_root, state.join("work"));
    (shell.clone(), RealSwitch::new(site, root.to_owned(), shell))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    /// A machine whose vtysh prints a file, and whose frr-reload.py puts one in its place.
    fn machine(config: &str) -> (tempfile::TempDir, RealSwitch) {
        let room = tempfile::tempdir().unwrap();
        let root = room.path();
        let put = |path: &str, content: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        put("etc/os-release", "PRETTY_NAME=\"Linux\"\n");
        put("running", config);
        let running = root.join("running");
        put(
            "usr/bin/vtysh",
            &format!(
                "#!/bin/sh\ncase \"$2\" in *version) echo 'FRRouting 8.4.4 (x)';; write*) cp {0} {0}.start;; *) echo 'Current configuration:'; cat {0};; esac\n",
                running.display()
            ),
        );
        let (_, switch) = real(Nos::Linux, root, root, &root.join("state"));
        (room, switch)
    }

    fn reloader(room: &Path) {
        let script =
            "import shutil, sys\nif 'bad' in open(sys.argv[-1]).read():\n    sys.exit('line 1 is bad')\n";
        let copy = format!("shutil.copy(sys.argv[-1], {:?})\n", room.join("running").display().to_string());
        let path = room.join("usr/lib/frr/frr-reload.py");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{script}{copy}")).unwrap();
    }

    fn files(config: &str) -> Files {
        Files::new([(frr::FILE.to_owned(), config.to_owned())]).unwrap()
    }

    #[test]
    fn a_configuration_is_read_put_in_place_and_made_to_last() {
        let (room, mut switch) = machine("!\nold\nend\n");
        let found = switch.read();
        assert_eq!((found.whole(), found.unreadable.as_str()), (Some(&files("!\nold\nend\n")), ""));
        assert_eq!(switch.version(), "Linux, FRR 8.4.4");
        let error =
            switch.put(&files("new\nend\n"), Manner::Planned { owned: &[] }, Method::Change).unwrap_err();
        assert!(error.contains("frr-pythontools"), "{error}");
        reloader(room.path());
        switch.put(&files("new\nend\n"), Manner::Planned { owned: &[] }, Method::Change).unwrap();
        assert_eq!(switch.read().files, files("new\nend\n"));
        let start = room.path().join("running.start");
        assert!(!start.exists());
        switch.persist().unwrap();
        assert_eq!(fs::read_to_string(start).unwrap(), "new\nend\n");
        let error =
            switch.put(&files("bad\nend\n"), Manner::Planned { owned: &[] }, Method::Change).unwrap_err();
        assert!(error.contains("frr-reload.py") && error.contains("line 1 is bad"), "{error}");
    }

    #[test]
    fn half_a_configuration_is_none() {
        let (room, mut switch) = machine("!\nfailed to connect to any daemons.\n");
        let found = switch.read();
        assert!(found.whole().is_none() && found.files.is_empty());
        assert!(found.unreadable.contains("frr.conf") && found.unreadable.contains("no whole configuration"));
        fs::remove_file(room.path().join("usr/bin/vtysh")).unwrap();
        assert!(switch.read().unreadable.contains("cannot start"));
    }
}
