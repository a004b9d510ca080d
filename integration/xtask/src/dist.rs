//! `cargo xtask dist`: what is shipped. Programs and libraries without debug information, which lies beside them for debuggers and
//! backtraces to find; packages of them, an image, the list of their parts, and checksums of all of it, signed where a key is given.

mod image;
pub(crate) mod packages;
mod sign;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use crate::process::{self, Result};

/// Options of `cargo xtask dist`.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for what is shipped; target/dist if left out. What a run before left there is replaced.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Show what was made as one JSON object a line.
    #[arg(long)]
    json: bool,
    /// Ship programs and libraries that are built already, from this folder, and build nothing.
    #[arg(long, value_name = "DIR")]
    prebuilt: Option<PathBuf>,
    /// Only programs and libraries: no packages, image, man pages, completions or list of parts.
    #[arg(long)]
    only_programs: bool,
    /// Which packaging of this version it is: the same version packed anew has a higher one.
    #[arg(long, value_name = "N", default_value_t = 1)]
    revision: u32,
    /// Packages of Debian for the base of the image, from this folder: those of the last image are in target/image-base. Left out: the machine's
    /// own apt is asked for them.
    #[arg(long, value_name = "DIR", conflicts_with = "only_programs")]
    base: Option<PathBuf>,
    /// Sign the checksums with this key, as ssh-keygen makes them; SHA256SUMS.sig is the signature.
    #[arg(long, value_name = "KEYFILE")]
    sign_with: Option<PathBuf>,
    /// Build a second time, in another folder, and fail unless both builds are the same, byte by byte; and so of the image. With --prebuilt of the
    /// image alone.
    #[arg(long)]
    twice: bool,
}

/// The file of checksums.
const SUMS: &str = "SHA256SUMS";

/// One file that is shipped.
struct Shipped {
    name: String,
    /// Sizes in bytes: without debug information, and of that alone.
    bytes: u64,
    debug_bytes: u64,
    /// A program, or a library.
    program: bool,
}

/// Builds optimised, splits off the debug information, packs, prints the sizes. Where an image cannot be made here, says so and makes the rest.
///
/// # Errors
/// The build fails, objcopy, objdump or ssh-keygen is missing or fails, or the folder cannot be written; two builds differ, or packages that were named
/// for the image are not what it needs.
pub fn run(args: &Args) -> Result<ExitCode> {
    let target = process::target_dir()?;
    let out = args.out.clone().unwrap_or_else(|| target.join("dist"));
    let products = match &args.prebuilt {
        Some(folder) => prebuilt(folder)?,
        None => build(&target.join("shipped"))?,
    };
    let mut shipped = Vec::new();
    for path in &products {
        shipped.push(split(path, &out)?);
    }
    if args.twice && args.prebuilt.is_none() {
        again(&products, &build(&target.join("shipped-again"))?)?;
    }
    packages::remove(&out)?;
    let image = if args.only_programs { None } else { Some(pack(args, &out, &target)?) };
    checksums(&out)?;
    if let Some(key) = &args.sign_with {
        sign::sign(key, &out.join(SUMS))?;
    }
    show(&out, &shipped, args.json);
    match &image {
        Some(Ok(image)) => image::show(image, args.json)?,
        Some(Err(absent)) => eprintln!("{absent}"),
        None => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes packages and the image; gives its path, or why there is none.
fn pack(args: &Args, out: &Path, target: &Path) -> Result<std::result::Result<PathBuf, String>> {
    let release = packages::release(args.revision)?;
    let found = image::base(&packages::folders(out), args.base.as_deref(), &target.join("image-base"))?;
    let image = match &found {
        Ok(base) => Ok(image::write(out, base, &release, args.twice)?),
        Err(absent) => Err(absent.clone()),
    };
    packages::write(out, &release, found.as_ref().ok().map(image::Base::parts))?;
    Ok(image)
}

/// Builds with the profile of what is shipped, in this folder; gives the programs and libraries.
fn build(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut build =
        process::cargo(["build", "--profile", "dist", "--message-format", "json-render-diagnostics"]);
    // Without the flag of .cargo/config.toml, which only a simulator needs; in a folder of its own, as other flags rebuild everything. Where the
    // sources lie on this machine is no part of what is shipped.
    let renamed = renamed_folders(folder)?;
    let rust: Vec<String> =
        renamed.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())).collect();
    // Whoever builds may have flags of their own for C.
    let own = std::env::var("CFLAGS").ok().filter(|flags| !flags.is_empty());
    let c: Vec<String> = own
        .into_iter()
        .chain(renamed.iter().map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display())))
        .collect();
    build.env_remove("RUSTFLAGS").env("CARGO_ENCODED_RUSTFLAGS", rust.join("\u{1f}"));
    build.env("CFLAGS", c.join(" ")).env("CARGO_TARGET_DIR", folder);
    let built = build.stderr(Stdio::inherit()).output()?;
    if !built.status.success() {
        return Err(format!("the build ended with {}", built.status).into());
    }
    Ok(products(&String::from_utf8_lossy(&built.stdout)))
}

/// Folders whose paths compilers would write into what they make, and what stands there in their place.
fn renamed_folders(target: &Path) -> Result<Vec<(PathBuf, &'static str)>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    // Of two that hold a path the later one counts: the target folder may be in the repository.
    Ok(vec![
        (home.ok_or("neither CARGO_HOME nor HOME is set")?, "/cargo"),
        (process::root(), "/railyard"),
        (target.to_owned(), "/target"),
    ])
}

/// What is shipped of a folder in which it was built.
fn prebuilt(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = packages::programs().into_iter().map(|name| folder.join(name)).collect();
    found.sort();
    found.dedup();
    match found.iter().find(|path| !path.is_file()) {
        Some(path) => Err(format!("{} is not there: build it first", path.display()).into()),
        None => Ok(found),
    }
}

/// Fails unless a second build has made the same files.
fn again(first: &[PathBuf], second: &[PathBuf]) -> Result<()> {
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_owned();
    if !first.iter().map(name).eq(second.iter().map(name)) {
        return Err("the second build has made other files than the first".into());
    }
    let mut others = Vec::new();
    for (one, other) in first.iter().zip(second) {
        if fs::read(one)? != fs::read(other)? {
            others.push(name(one).to_string_lossy().into_owned());
        }
    }
    if others.is_empty() {
        return Ok(());
    }
    Err(format!("two builds differ in {}: `diffoscope` shows where", others.join(", ")).into())
}

/// The programs and shared libraries of what cargo says it has built, in the order of their names.
fn products(messages: &str) -> Vec<PathBuf> {
    let files = |line: &str| -> Vec<PathBuf> {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { return Vec::new() };
        let is_ours = message["package_id"].as_str().is_some_and(|id| id.starts_with("path+file:"));
        if message["reason"] != "compiler-artifact" || !is_ours {
            return Vec::new();
        }
        if let Some(program) = message["executable"].as_str() {
            return vec![program.into()];
        }
        let kinds = message["target"]["kind"].as_array().into_iter().flatten();
        if !kinds.into_iter().any(|kind| kind == "cdylib") {
            return Vec::new();
        }
        let names = message["filenames"].as_array().into_iter().flatten();
        let names = names.filter_map(|name| name.as_str().map(PathBuf::from));
        names.filter(|name| name.extension().is_some_and(|extension| extension == "so")).collect()
    };
    let mut found: Vec<PathBuf> = messages.lines().flat_map(files).collect();
    found.sort();
    found.dedup();
    found
}

/// Writes the file without its debug information to `bin` or `lib`, and that to the folder `.debug` beside it, where gdb and
/// the standard library's backtraces look for it by the link in the file.
fn split(path: &Path, out: &Path) -> Result<Shipped> {
    let name = path.file_name().ok_or("a product without a name")?.to_string_lossy().into_owned();
    let program = path.extension().is_none();
    let folder = out.join(if program { "bin" } else { "lib" });
    let (to, debug) = (folder.join(&name), folder.join(".debug").join(format!("{name}.debug")));
    fs::create_dir_all(folder.join(".debug"))?;
    // objcopy writes into a file that is there: one that runs would not let it.
    let _ = fs::remove_file(&to);
    objcopy(&["--only-keep-debug", "--compress-debug-sections=zlib"], path, &debug)?;
    let link = format!("--add-gnu-debuglink={}", debug.display());
    objcopy(&["--strip-all", &link], path, &to)?;
    let (bytes, debug_bytes) = (fs::metadata(&to)?.len(), fs::metadata(&debug)?.len());
    Ok(Shipped { name, bytes, debug_bytes, program })
}

fn objcopy(options: &[&str], from: &Path, to: &Path) -> Result<()> {
    let program = std::env::var_os("OBJCOPY").unwrap_or_else(|| "objcopy".into());
    let mut command = Command::new(&program);
    command.args(options).arg(from).arg(to);
    process::run_quiet(&mut command).map_err(|error| {
        format!("{error}; objcopy is in the package binutils, and OBJCOPY names another one").into()
    })
}

/// Writes the file `SHA256SUMS`, which `sha256sum --check` reads: of every file of the folder, in the order of their names.
fn checksums(out: &Path) -> Result<()> {
    for file in [SUMS.to_owned(), format!("{SUMS}.sig")] {
        let _ = fs::remove_file(out.join(file));
    }
    let mut files = Vec::new();
    list(out, out, &mut files)?;
    files.sort();
    let mut command = Command::new("sha256sum");
    command.args(files).current_dir(out);
    fs::write(out.join(SUMS), process::capture(command)?.stdout)?;
    Ok(())
}

/// The files below a folder, by their paths from the first one.
fn list(folder: &Path, from: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, from, found)?;
        } else {
            found.push(path.strip_prefix(from)?.to_owned());
        }
    }
    Ok(())
}

fn show(out: &Path, shipped: &[Shipped], json: bool) {
    for file in shipped {
        if json {
            let line =
                serde_json::json!({"name": file.name, "bytes": file.bytes, "debug_bytes": file.debug_bytes});
            println!("{line}");
        } else {
            let mb = |bytes: u64| format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10);
            println!(
                "{:<18} {:>8}, debug information {:>8}",
                file.name,
                mb(file.bytes),
                mb(file.debug_bytes)
            );
        }
    }
    if !json {
        let programs: u64 = shipped.iter().filter(|file| file.program).map(|file| file.bytes).sum();
        println!("in {}; programs together {} MB", out.display(), programs / 1_000_000);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_built_is_found_and_what_it_only_needed_is_not() {
        let messages = r#"
{"reason":"compiler-artifact","package_id":"path+file:///x/cli#0.1.0","target":{"kind":["bin"]},"executable":"/t/railctl","filenames":["/t/railctl"]}
{"reason":"compiler-artifact","package_id":"path+file:///x/capi#0.1.0","target":{"kind":["cdylib","staticlib"]},"executable":null,"filenames":["/t/librail.so","/t/librail.a"]}
{"reason":"compiler-artifact","package_id":"registry+https://x#tokio@1.0.0","target":{"kind":["bin"]},"executable":"/t/other","filenames":[]}
{"reason":"compiler-artifact","package_id":"path+file:///x/model#0.1.0","target":{"kind":["lib"]},"executable":null,"filenames":["/t/libmodel.rlib"]}
{"reason":"build-finished","success":true}
"#;
        assert_eq!(products(messages), [PathBuf::from("/t/librail.so"), PathBuf::from("/t/railctl")]);
    }

    #[test]
    fn a_program_is_split_and_runs() {
        let out = std::env::temp_dir().join(format!("railyard-dist-{}", std::process::id()));
        let me = std::env::current_exe().unwrap();
        let shipped = split(&me, &out).unwrap();
        let folder = out.join(if shipped.program { "bin" } else { "lib" });
        assert!(shipped.bytes < fs::metadata(&me).unwrap().len());
        let listed = Command::new(folder.join(&shipped.name)).arg("--list").output().unwrap();
        assert!(String::from_utf8_lossy(&listed.stdout).contains("a_program_is_split_and_runs"));
        checksums(&out).unwrap();
        let mut check = Command::new("sha256sum");
        check.args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&out);
        assert!(check.status().unwrap().success());
        let sums = fs::read_to_string(out.join("SHA256SUMS")).unwrap();
        assert_eq!(sums.lines().count(), 2, "the program and its debug information: {sums}");
        fs::remove_dir_all(out).unwrap();
    }

    #[test]
    fn what_was_packed_before_is_not_shipped_again() {
        let out = std::env::temp_dir().join(format!("railyard-packed-{}", std::process::id()));
        packages::remove(&out).unwrap();
        for file in [
            "packages/old.deb",
            "images/railyard-0.0.9.oci.tar",
            "man/railctl.1",
            "completions/bash",
            "railyard-0.0.9.cdx.json",
            "bin/railctl",
        ] {
            let path = out.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "old").unwrap();
        }
        packages::remove(&out).unwrap();
        let mut left = Vec::new();
        list(&out, &out, &mut left).unwrap();
        assert_eq!(left, [PathBuf::from("bin/railctl")]);
        fs::remove_dir_all(out).unwrap();
    }

    #[test]
    fn two_builds_are_compared_file_by_file() {
        let room = std::env::temp_dir().join(format!("railyard-twice-{}", std::process::id()));
        let file = |folder: &str, name: &str, text: &str| {
            fs::create_dir_all(room.join(folder)).unwrap();
            let path = room.join(folder).join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let first = [file("a", "railctl", "1"), file("a", "librail.so", "2")];
        assert!(again(&first, &[file("b", "railctl", "1"), file("b", "librail.so", "2")]).is_ok());
        let error = again(&first, &[file("c", "railctl", "1"), file("c", "librail.so", "3")]).unwrap_err();
        assert!(error.to_string().starts_with("two builds differ in librail.so: "), "{error}");
        assert!(again(&first, &first[..1]).is_err());
        fs::remove_dir_all(room).unwrap();
    }
}
