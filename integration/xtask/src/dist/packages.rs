//! Packages of what is shipped, and the list of its parts (`integration/packages` writes both), with all that they are made of: man pages and
//! completion scripts, which the programs themselves print.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use integration_packages::{Folders, Item, Linked, Release, Source, catalog, deb, gather, rpm, sbom};

use crate::{
    docs,
    process::{self, Result},
};

/// The folder of images in that of what is shipped.
pub const IMAGES: &str = "images";

const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// Programs and libraries that packages and the image have.
pub fn programs() -> Vec<&'static str> {
    let items = catalog::ALL.iter().flat_map(|package| package.items.iter().copied()).chain(catalog::image());
    let name = |item: Item| match item.from {
        Source::Program(name) | Source::Library(name) => Some(name),
        _ => None,
    };
    items.filter_map(name).collect()
}

/// Takes away what [`write`] and [`super::image::write`] have put into a folder before: it may be of another version.
///
/// # Errors
/// It cannot be removed.
pub fn remove(out: &Path) -> Result<()> {
    let folders = folders(out);
    for made in [&folders.man, &folders.completions, &out.join("packages"), &out.join(IMAGES)] {
        if made.exists() {
            fs::remove_dir_all(made)?;
        }
    }
    if !out.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(out)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("railyard-") && name.ends_with(".cdx.json") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Writes man pages, completions, the list of parts and all packages into a folder that has programs and libraries. `base` is what the image stands on.
///
/// # Errors
/// A program does not run, something is missing, or the folder cannot be written.
pub fn write(out: &Path, release: &Release, base: Option<sbom::Base<'_>>) -> Result<()> {
    let folders = folders(out);
    for made in [&folders.man, &folders.completions, &out.join("packages")] {
        fs::create_dir_all(made)?;
    }
    docs::man(&folders.programs, &folders.man)?;
    for shell in SHELLS {
        let mut completion = Command::new(folders.programs.join("railctl"));
        completion.args(["completion", shell]);
        fs::write(folders.completions.join(shell), process::capture(completion)?.stdout)?;
    }
    parts(out, release, base)?;
    pack(&folders, release, &out.join("packages"))
}

/// Where things are in a folder of what is shipped.
pub fn folders(out: &Path) -> Folders {
    Folders {
        programs: out.join("bin"),
        libraries: out.join("lib"),
        man: out.join("man"),
        completions: out.join("completions"),
        repository: process::root(),
    }
}

/// Writes all packages, in both forms, into a folder.
///
/// # Errors
/// Something is missing, objdump is or fails, or the folder cannot be written.
pub fn pack(folders: &Folders, release: &Release, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for package in &catalog::ALL {
        let files = gather(package, folders)?;
        let linked = linked(package.items.iter().copied(), folders)?;
        fs::write(to.join(deb::file_name(package, release)), deb::write(package, &files, &linked, release)?)?;
        fs::write(to.join(rpm::file_name(package, release)), rpm::write(package, &files, &linked, release)?)?;
    }
    Ok(())
}

/// What programs and libraries are linked to.
///
/// # Errors
/// objdump is missing, or cannot read one of them.
pub fn linked(items: impl Iterator<Item = Item>, folders: &Folders) -> Result<Linked> {
    let objdump = std::env::var_os("OBJDUMP").unwrap_or_else(|| "objdump".into());
    let mut linked = Linked::default();
    for item in items {
        let path = match item.from {
            Source::Program(name) => folders.programs.join(name),
            Source::Library(name) => folders.libraries.join(name),
            _ => continue,
        };
        let mut command = Command::new(&objdump);
        command.arg("-p").arg(path);
        let printed = process::capture(command).map_err(|error| {
            format!("{error}; objdump is in the package binutils, and OBJDUMP names another one")
        })?;
        linked.add(&String::from_utf8_lossy(&printed.stdout));
    }
    Ok(linked)
}

/// The version of the workspace, and the date: of `SOURCE_DATE_EPOCH`, else of the commit.
///
/// # Errors
/// Neither the variable nor git says a date.
pub fn release(revision: u32) -> Result<Release> {
    let date = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(date) => date
            .parse()
            .map_err(|_| format!("SOURCE_DATE_EPOCH is `{date}`, which is no number of seconds"))?,
        Err(_) => committed()?,
    };
    Ok(Release { version: env!("CARGO_PKG_VERSION").to_owned(), revision, date })
}

fn committed() -> Result<u32> {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(process::root());
    let said = process::capture(git).map_err(|error| {
        format!("{error}; where there is no repository, set SOURCE_DATE_EPOCH to the date of the sources")
    })?;
    Ok(String::from_utf8_lossy(&said.stdout).trim().parse()?)
}

/// Writes the list of parts.
fn parts(out: &Path, release: &Release, base: Option<sbom::Base<'_>>) -> Result<()> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut cargo = process::cargo(["metadata", "--format-version", "1", "--filter-platform", &target]);
    cargo.stderr(Stdio::inherit());
    let metadata = serde_json::from_slice(&process::capture(cargo)?.stdout)?;
    let lock = fs::read_to_string(process::root().join("Cargo.lock"))?;
    let document = serde_json::to_string_pretty(&sbom::write(&metadata, &lock, base, release)?)?;
    fs::write(out.join(format!("railyard-{}.cdx.json", release.version)), document + "\n")?;
    Ok(())
}
