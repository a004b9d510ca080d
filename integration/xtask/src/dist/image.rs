//! The image for containers (`integration/packages` writes it): what it stands on is fetched by the machine's own apt, or taken from a folder.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use integration_packages::{
    Folders, Linked, Release, catalog, gather_image,
    oci::{
        self, About, Layer, Tree,
        base::{self, Deb, System},
    },
    sbom,
};

use super::packages;
use crate::{
    debian,
    process::{self, Result},
};

/// How there can be an image where there was none.
const REMEDY: &str = "an image is made by the same command on a Debian with its archive in reach, of the release on which the programs were built, or with \
                      --base DIR, a folder with the packages";

/// What an image stands on.
pub struct Base {
    debs: Vec<Deb>,
    system: System,
    tree: Tree,
    architecture: &'static str,
}

impl Base {
    /// As the list of parts has it.
    pub fn parts(&self) -> sbom::Base<'_> {
        sbom::Base { system: &self.system, debs: &self.debs }
    }
}

/// Takes the packages from a folder, or fetches them into another one; or says why there can be no image, which is an error where a folder was named.
///
/// # Errors
/// The packages of the folder are not what the programs need, or packages cannot be read.
pub fn base(
    folders: &Folders,
    from: Option<&Path>,
    fetched: &Path,
) -> Result<std::result::Result<Base, String>> {
    let program = fs::read(folders.programs.join("rail-controller"))?;
    let architecture = oci::architecture(&program);
    let architecture = architecture.ok_or("rail-controller is not for a machine that images are made for")?;
    let absent = |why: &dyn std::fmt::Display| Ok(Err(format!("no image was made: {why}\n  {REMEDY}")));
    let folder = from.unwrap_or(fetched);
    if from.is_none()
        && let Err(error) = fetch(folder)
    {
        return absent(&error);
    }
    let debs = read(folder)?;
    let names: Vec<&str> = debs.iter().map(Deb::name).collect();
    if let Some(missing) = base::PACKAGES.iter().find(|name| !names.contains(name)) {
        return Err(format!("{} has no package {missing}", folder.display()).into());
    }
    let linked = packages::linked(catalog::image(), folders)?;
    match (unmet(&linked, &debs)?, from) {
        (Some(unmet), None) => return absent(&unmet),
        (Some(unmet), Some(_)) => return Err(unmet.into()),
        (None, _) => {}
    }
    let tree = base::tree(&debs, architecture)?;
    let system = base::system(&tree).ok_or("base-files does not say which system it is of")?;
    Ok(Ok(Base { debs, system, tree, architecture }))
}

/// Writes the image; gives its path. `twice`: writes it to memory once more, and both have to be the same.
///
/// # Errors
/// A program is missing, the image cannot have something, or cannot be written; or a second one is another one.
pub fn write(out: &Path, base: &Base, release: &Release, twice: bool) -> Result<PathBuf> {
    let folder = out.join(packages::IMAGES);
    fs::create_dir_all(&folder)?;
    let path = folder.join(oci::file_name(release));
    let bytes = pack(out, base, release)?;
    if twice && pack(out, base, release)? != bytes {
        return Err("a second image of the same things is another one".into());
    }
    fs::write(&path, bytes)?;
    Ok(path)
}

fn pack(out: &Path, base: &Base, release: &Release) -> Result<Vec<u8>> {
    let ours = oci::tree(&gather_image(&packages::folders(out))?, release.date)?;
    let whole = base.tree.with(&ours)?;
    let dangling = whole.dangling();
    if !dangling.is_empty() {
        return Err(format!("links of the image lead nowhere: {dangling:?}").into());
    }
    let layers = [
        Layer::of(&base.tree, format!("packages of {}", base.system.title))?,
        Layer::of(&ours.beyond(&base.tree), format!("Railyard {}", release.version))?,
    ];
    let commit = commit();
    let about = About {
        release,
        architecture: base.architecture,
        commit: commit.as_deref(),
        base: &base.system.title,
    };
    let mut bytes = Vec::new();
    oci::write(about, &layers, &mut bytes)?;
    Ok(bytes)
}

/// Prints its size, as the sizes of programs are printed.
///
/// # Errors
/// It is gone.
pub fn show(image: &Path, json: bool) -> Result<()> {
    let (name, bytes) = (image.file_name().unwrap_or_default().to_string_lossy(), fs::metadata(image)?.len());
    if json {
        println!("{}", serde_json::json!({"name": name, "bytes": bytes, "debug_bytes": 0}));
    } else {
        println!("{name}: {}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10);
    }
    Ok(())
}

/// Fetches the packages into a folder, in which they are alone; those of before stay until all have come.
fn fetch(folder: &Path) -> Result<()> {
    let licence = debian::named(&debian::depends("libgcc-s1")?, &["gcc-"]);
    let mut names = base::PACKAGES.to_vec();
    names.extend(licence.iter().map(String::as_str));
    let made = folder.with_extension("new");
    remove(&made)?;
    fs::create_dir_all(&made)?;
    debian::download(&names, &made)?;
    remove(folder)?;
    Ok(fs::rename(made, folder)?)
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() { Ok(fs::remove_dir_all(folder)?) } else { Ok(()) }
}

/// The packages of a folder, as dpkg-deb shows them, in the order of their files' names.
fn read(folder: &Path) -> Result<Vec<Deb>> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "deb"));
    paths.sort();
    let show = |option: &str, path: &Path| {
        let mut command = Command::new("dpkg-deb");
        command.arg(option).arg(path);
        Ok::<_, Box<dyn std::error::Error>>(process::capture(command)?.stdout)
    };
    let mut debs = Vec::new();
    for path in paths {
        debs.push(Deb {
            control: String::from_utf8(show("--field", &path)?)?,
            files: show("--fsys-tarfile", &path)?,
            digest: oci::digest(&fs::read(&path)?),
        });
    }
    Ok(debs)
}

/// What programs are linked to and the packages do not have, or not in a version that is new enough.
fn unmet(linked: &Linked, debs: &[Deb]) -> Result<Option<String>> {
    for relation in linked.debian("the image")? {
        let (name, least) = relation.split_once(" (>= ").unwrap_or((&relation, ""));
        let Some(deb) = debs.iter().find(|deb| deb.name() == name) else {
            return Ok(Some(format!("programs are linked to {name}, which the image does not have")));
        };
        let (least, has) = (least.trim_end_matches(')'), deb.field("Version"));
        let mut compare = Command::new("dpkg");
        compare.args(["--compare-versions", has, "ge", least]);
        if !least.is_empty() && !compare.status()?.success() {
            return Ok(Some(format!("programs need {name} {least} or later, and the packages have {has}")));
        }
    }
    Ok(None)
}

/// The commit of the sources, where they are a repository.
fn commit() -> Option<String> {
    let mut git = Command::new("git");
    git.args(["rev-parse", "HEAD"]).current_dir(process::root());
    let said = process::capture(git).ok()?.stdout;
    Some(String::from_utf8_lossy(&said).trim().to_owned()).filter(|commit| !commit.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_need_a_newer_library_than_the_packages_have_are_told() {
        if Command::new("dpkg").arg("--version").output().is_err() {
            eprintln!("skipped: there is no dpkg");
            return;
        }
        let deb = |name: &str, version: &str| Deb {
            control: format!("Package: {name}\nVersion: {version}\n"),
            ..Deb::default()
        };
        let mut linked = Linked::default();
        linked.add(
            "  NEEDED               libc.so.6\n  required from libc.so.6:\n    0x0 0x00 02 GLIBC_2.38\n",
        );
        assert_eq!(unmet(&linked, &[deb("libc6", "2.41-12+deb13u1")]).unwrap(), None);
        let old = unmet(&linked, &[deb("libc6", "2.36-9+deb12u14")]).unwrap().unwrap();
        assert_eq!(old, "programs need libc6 2.38 or later, and the packages have 2.36-9+deb12u14");
        linked.add("  NEEDED               libgcc_s.so.1\n");
        let other = unmet(&linked, &[deb("libc6", "2.41-12")]).unwrap().unwrap();
        assert_eq!(other, "programs are linked to libgcc-s1, which the image does not have");
    }
}
