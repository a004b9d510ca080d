//! `cargo xtask dist`: what is shipped. Programs and libraries without debug information, which lies beside them for debuggers and
//! backtraces to find, and the checksums of all of it.

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
}

/// One file that is shipped.
struct Shipped {
    name: String,
    /// Sizes in bytes: without debug information, and of that alone.
    bytes: u64,
    debug_bytes: u64,
    /// A program, or a library.
    program: bool,
}

/// Builds optimised, splits off the debug information, prints the sizes.
///
/// # Errors
/// The build fails, objcopy or sha256sum is missing or fails, or the folder cannot be written.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut build =
        process::cargo(["build", "--profile", "dist", "--message-format", "json-render-diagnostics"]);
    // Without the flag of .cargo/config.toml, which only a simulator needs; in a folder of its own, as other flags rebuild everything.
    let target = process::target_dir()?;
    build.env("RUSTFLAGS", "").env("CARGO_TARGET_DIR", target.join("shipped"));
    let built = build.stderr(Stdio::inherit()).output()?;
    if !built.status.success() {
        return Err(format!("the build ended with {}", built.status).into());
    }
    let out = args.out.clone().unwrap_or_else(|| target.join("dist"));
    let mut shipped = Vec::new();
    for path in products(&String::from_utf8_lossy(&built.stdout)) {
        shipped.push(split(&path, &out)?);
    }
    checksums(&out, &shipped)?;
    show(&out, &shipped, args.json);
    Ok(ExitCode::SUCCESS)
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

/// Writes the file `SHA256SUMS`, which `sha256sum --check` reads.
fn checksums(out: &Path, shipped: &[Shipped]) -> Result<()> {
    let mut command = Command::new("sha256sum");
    for file in shipped {
        let folder = if file.program { "bin" } else { "lib" };
        command.arg(format!("{folder}/{}", file.name));
        command.arg(format!("{folder}/.debug/{}.debug", file.name));
    }
    command.current_dir(out);
    fs::write(out.join("SHA256SUMS"), process::capture(command)?.stdout)?;
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
        checksums(&out, &[shipped]).unwrap();
        let mut check = Command::new("sha256sum");
        check.args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&out);
        assert!(check.status().unwrap().success());
        fs::remove_dir_all(out).unwrap();
    }
}
