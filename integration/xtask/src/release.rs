//! Packages of a release of Debian that need not be the machine's own: taken by apt with sources and lists of their own, unpacked into a folder, and
//! bound to the loader and the libraries that came with them. Nothing is installed; the programs see the machine's files, and start the
//! machine's programs, as any other. Of the machine's own release only what it lacks is taken.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use crate::process::{self, Result};

/// The keys of Debian's archive: what they have not signed is not taken.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Longest time for the lists of a release, and for its packages.
const PATIENCE: Duration = Duration::from_secs(300);

/// Packages of one release.
pub struct Release<'a> {
    /// Its code name.
    pub name: &'a str,
    /// Packages whose programs are wanted. Libraries that they need come by themselves, of another release the C library too; other packages do not.
    pub packages: &'a [&'a str],
    /// Folder, beside the libraries, of what the programs load at run time.
    pub plugins: &'a str,
}

impl Release<'_> {
    /// Unpacks them into a folder, unless it has them. What is there stays until the other is whole.
    ///
    /// # Errors
    /// The machine's apt knows no archive of Debian, its keys are not there, or packages cannot be had or bound.
    pub fn unpack(&self, folder: &Path, patchelf: impl FnOnce() -> Result<PathBuf>) -> Result<()> {
        let (stamp, wanted) = (folder.join("stamp"), self.stamp(folder));
        if fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) {
            return Ok(());
        }
        let patchelf = patchelf()?;
        let made = beside(folder, "new");
        remove(&made)?;
        fs::create_dir_all(&made)?;
        let apt = if is_own(self.name) { None } else { Some(configuration(self.name)?) };
        let apt = apt.as_deref();
        if apt.is_some() {
            let mut update = apt_get(apt);
            update.arg("update");
            process::within(update, PATIENCE).map_err(|error| format!("apt-get update: {error}"))?;
        }
        let mut wants = apt_get(apt);
        wants.args(["--simulate", "--no-install-recommends", "install"]).args(self.packages);
        let said = String::from_utf8(process::capture(wants)?.stdout)?;
        let mut download = apt_get(apt);
        download.arg("download").args(self.chosen(&said)).current_dir(&made);
        process::within(download, PATIENCE).map_err(|error| format!("apt-get download: {error}"))?;
        extract(&made)?;
        bind(&made, folder, self.plugins, &patchelf)?;
        fs::write(made.join("stamp"), wanted)?;
        replace(&made, folder)
    }

    /// What a folder was made of. Programs know it by its path: one that was moved is made anew.
    fn stamp(&self, folder: &Path) -> String {
        format!("{} of {} in {}", self.packages.join(" "), self.name, folder.display())
    }

    /// The packages themselves, and libraries among what would be installed.
    fn chosen<'a>(&'a self, simulated: &'a str) -> Vec<&'a str> {
        let installs =
            simulated.lines().filter_map(|line| line.strip_prefix("Inst ")?.split_whitespace().next());
        let libraries = installs.filter(|name| name.starts_with("lib") && !self.packages.contains(name));
        self.packages.iter().copied().chain(libraries).collect()
    }
}

/// Lets a folder be made anew the next time: what it has does not run.
///
/// # Errors
/// Its stamp cannot be removed.
pub fn forget(folder: &Path) -> Result<()> {
    match fs::remove_file(folder.join("stamp")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// A folder with another end of its name.
fn beside(folder: &Path, end: &str) -> PathBuf {
    folder.with_file_name(format!("{}.{end}", name(folder)))
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() { Ok(fs::remove_dir_all(folder)?) } else { Ok(()) }
}

/// Puts one folder in the place of another; where that fails, the other is as it was.
fn replace(made: &Path, folder: &Path) -> Result<()> {
    let old = beside(folder, "old");
    remove(&old)?;
    if folder.exists() {
        fs::rename(folder, &old)?;
    }
    if let Err(error) = fs::rename(made, folder) {
        if old.exists() {
            fs::rename(&old, folder)?;
        }
        return Err(format!("{}: {error}", folder.display()).into());
    }
    remove(&old)
}

/// Whether the machine runs this release.
fn is_own(release: &str) -> bool {
    let said = fs::read_to_string("/etc/os-release").unwrap_or_default();
    said.lines().any(|line| line.strip_prefix("VERSION_CODENAME=") == Some(release))
}

/// Unpacks the packages that lie in a folder into it, and removes them.
///
/// # Errors
/// A package cannot be unpacked.
pub fn extract(folder: &Path) -> Result<()> {
    let entries = fs::read_dir(folder)?.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let downloaded = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "deb");
    for package in entries.filter(downloaded).collect::<Vec<_>>() {
        process::run_quiet(Command::new("dpkg-deb").arg("-x").arg(&package).arg(folder))?;
        fs::remove_file(package)?;
    }
    Ok(())
}

/// apt, as the machine has it or with a configuration of its own.
fn apt_get(configuration: Option<&Path>) -> Command {
    let mut command = Command::new("apt-get");
    command.args(["-q", "-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=0"]).stdin(Stdio::null());
    if let Some(configuration) = configuration {
        command.arg("-c").arg(configuration);
    }
    command
}

/// A configuration of apt for one release, with no packages installed, and the folders that it names.
fn configuration(release: &str) -> Result<PathBuf> {
    if !Path::new(KEYS).exists() {
        return Err(format!("{KEYS} is not there: install debian-archive-keyring").into());
    }
    let folder = process::target_dir()?.join("tools").join(format!("apt-{release}"));
    for below in ["lists/partial", "cache/archives/partial", "none"] {
        fs::create_dir_all(folder.join(below))?;
    }
    fs::write(folder.join("status"), "")?;
    fs::write(
        folder.join("sources.list"),
        format!("deb [signed-by={KEYS}] {} {release} main\n", archive()?),
    )?;
    let at = folder.display();
    let text = format!(
        "Dir::Etc::sourcelist \"{at}/sources.list\";\n\
         Dir::Etc::sourceparts \"{at}/none\";\n\
         Dir::Etc::preferences \"{at}/none/preferences\";\n\
         Dir::Etc::preferencesparts \"{at}/none\";\n\
         Dir::State::lists \"{at}/lists\";\n\
         Dir::State::status \"{at}/status\";\n\
         Dir::Cache \"{at}/cache\";\n\
         Acquire::Languages \"none\";\n\
         Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n"
    );
    let path = folder.join("apt.conf");
    fs::write(&path, text)?;
    Ok(path)
}

/// Where the machine's own apt takes Debian from.
///
/// # Errors
/// It knows no archive of Debian.
pub fn archive() -> Result<String> {
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--format", "$(ORIGIN) $(COMPONENT) $(RELEASE) $(REPO_URI)"]);
    targets.arg("Created-By: Packages");
    let said = process::capture(targets)?;
    main_archive(&String::from_utf8_lossy(&said.stdout))
        .ok_or_else(|| "apt of this machine knows no archive of Debian (apt-get update?)".into())
}

/// Of lines with origin, component, release and address: not that of updates, of security or of backports, which are suites with a dash.
fn main_archive(targets: &str) -> Option<String> {
    targets
        .lines()
        .find_map(|line| {
            let mut words = line.split_whitespace();
            let (origin, component, release) = (words.next()?, words.next()?, words.next()?);
            (origin == "Debian" && component == "main" && !release.contains('-')).then(|| words.next())?
        })
        .map(str::to_owned)
}

/// Makes programs and libraries find each other in the folder, by paths within themselves: variables would reach the machine's programs that they start.
/// `becomes` is where the folder will be.
fn bind(folder: &Path, becomes: &Path, plugins: &str, patchelf: &Path) -> Result<()> {
    let places = places(folder, plugins);
    let is_loader = |path: &PathBuf| name(path).starts_with("ld-linux");
    let all: Vec<PathBuf> = places.iter().flat_map(|place| elves(place)).collect();
    let loader = all.iter().find(|path| is_loader(path));
    let moved =
        |path: &Path| path.strip_prefix(folder).map_or_else(|_| path.to_owned(), |own| becomes.join(own));
    let shown: Vec<String> = places.iter().map(|place| moved(place).display().to_string()).collect();
    let paths = shown.join(":");
    // The loader finds the C library for all, and these two need no other.
    let libraries = all.iter().filter(|path| !is_loader(path) && name(path) != "libc.so.6");
    process::run_quiet(Command::new(patchelf).args(["--set-rpath", &paths]).args(libraries))?;
    let programs = ["usr/bin", "usr/sbin"].iter().flat_map(|below| elves(&folder.join(below)));
    let mut command = Command::new(patchelf);
    if let Some(loader) = loader {
        command.arg("--set-interpreter").arg(moved(loader));
    }
    process::run_quiet(command.args(["--set-rpath", &paths]).args(programs))
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Folders of libraries, and of plugins beside them.
fn places(folder: &Path, plugins: &str) -> Vec<PathBuf> {
    let below = [folder.join("usr/lib"), folder.join("lib")];
    let entries = below.iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    let gnu = entries.map(|entry| entry.path()).filter(|path| name(path).ends_with("-linux-gnu"));
    let mut places: Vec<PathBuf> =
        gnu.flat_map(|path| [path.clone(), path.join(plugins)]).filter(|path| path.is_dir()).collect();
    places.sort();
    places
}

/// Programs and libraries that a folder itself has, links left out.
fn elves(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let mut found: Vec<PathBuf> = files.map(|entry| entry.path()).filter(|path| is_elf(path)).collect();
    found.sort();
    found
}

fn is_elf(path: &Path) -> bool {
    let mut start = [0; 4];
    let read = fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut start));
    read.is_ok() && &start == b"\x7fELF"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_apt_would_install_only_the_packages_and_libraries_are_taken() {
        let release = Release { name: "trixie", packages: &["slurmd", "munge"], plugins: "slurm-wlm" };
        let said = "Reading package lists...\nInst libc6 (2.41-12 Debian:13/stable [amd64])\nInst perl-base (5.40)\n\
                    Inst munge (0.5) []\nInst slurmd (24.11)\nConf slurmd (24.11)\n";
        assert_eq!(
            release.chosen(said),
            ["slurmd", "munge", "libc6"],
            "what is installed already is taken, too"
        );
        assert_ne!(release.stamp(Path::new("/a")), release.stamp(Path::new("/b")), "a folder that was moved");
    }

    #[test]
    fn what_is_there_stays_until_another_is_whole() {
        let root = process::target_dir().unwrap().join(format!("replace-{}", std::process::id()));
        let folder = root.join("slurm-24.11");
        let (made, has) = (beside(&folder, "new"), |path: &Path| fs::read_to_string(path.join("stamp")).ok());
        assert_eq!(made, root.join("slurm-24.11.new"));
        for (path, text) in [(&folder, "one"), (&made, "two")] {
            fs::create_dir_all(path).unwrap();
            fs::write(path.join("stamp"), text).unwrap();
        }
        replace(&made, &folder).unwrap();
        assert_eq!(has(&folder).as_deref(), Some("two"));
        assert!(replace(&made, &folder).is_err(), "there is no other");
        assert_eq!(has(&folder).as_deref(), Some("two"));
        assert_eq!(fs::read_dir(&root).unwrap().count(), 1, "nothing is left beside it");
        forget(&folder).and_then(|()| forget(&folder)).unwrap();
        assert!(has(&folder).is_none() && folder.exists());
        fs::remove_dir_all(root).unwrap();
    }

    /// Programs are bound in one folder, and run in another.
    #[test]
    fn programs_are_bound_to_where_the_folder_will_be() {
        let root = process::target_dir().unwrap().join(format!("bind-{}", std::process::id()));
        let (made, libraries) = (root.join("s.new"), root.join("s.new/usr/lib/x86_64-linux-gnu"));
        let (programs, patchelf) = (made.join("usr/bin"), root.join("patchelf"));
        for folder in [&libraries, &programs] {
            fs::create_dir_all(folder).unwrap();
        }
        for file in [libraries.join("ld-linux-x.so.2"), libraries.join("liba.so"), programs.join("a")] {
            fs::write(file, b"\x7fELF").unwrap();
        }
        let script = format!("#!/bin/sh\nprintf '%s\\n' \"$*\" >> {}\n", root.join("said").display());
        fs::write(&patchelf, script).unwrap();
        let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        fs::set_permissions(&patchelf, mode).unwrap();
        bind(&made, &root.join("s"), "plugins", &patchelf).unwrap();
        let said = fs::read_to_string(root.join("said")).unwrap();
        let place = root.join("s/usr/lib/x86_64-linux-gnu").display().to_string();
        assert!(said.starts_with(&format!("--set-rpath {place} ")), "{said}");
        assert!(
            said.contains(&format!("--set-interpreter {place}/ld-linux-x.so.2 --set-rpath {place} ")),
            "{said}"
        );
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_archive_is_the_one_that_the_machine_has_of_debian_itself() {
        let targets = "Others main bookworm http://mirror.example/others/\n\
                       Debian main bookworm-security http://mirror.example/security/\n\
                       Debian main bookworm http://mirror.example/debian/\n";
        assert_eq!(main_archive(targets).as_deref(), Some("http://mirror.example/debian/"));
        assert_eq!(main_archive("Ubuntu main noble http://mirror.example/ubuntu/\n"), None);
    }
}
