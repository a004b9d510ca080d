//! What compiles the workspace for the tests: clippy's driver, which is rustc with lints. By itself `cargo clippy` reads everything that the
//! workspace stands on, and the workspace, once more than the build does.

use std::{ffi::OsStr, path::PathBuf, process::Command};

use crate::process::{self, Result};

/// Every warning is an error, as `cargo clippy -- -D warnings` hands it on to the driver.
const DENY_WARNINGS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// What compiles the crates of the workspace; what they stand on is rustc's in any case, and is shared.
#[derive(Debug, Clone)]
pub struct Compiler {
    /// clippy's driver, or none: rustc.
    driver: Option<PathBuf>,
}

impl Compiler {
    /// rustc alone.
    pub const fn plain() -> Self {
        Self { driver: None }
    }

    /// clippy's driver, of the toolchain that builds here.
    ///
    /// # Errors
    /// The toolchain has no clippy.
    pub fn linting() -> Result<Self> {
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc.args(["--print", "sysroot"]).current_dir(process::root());
        let sysroot = String::from_utf8(process::capture(rustc)?.stdout)?;
        let driver = PathBuf::from(sysroot.trim_end()).join("bin").join("clippy-driver");
        if !driver.is_file() {
            return Err(format!("there is no {}: rustup component add clippy", driver.display()).into());
        }
        Ok(Self { driver: Some(driver) })
    }

    /// A cargo command in the repository's root whose build this compiles.
    pub fn cargo<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, args: I) -> Command {
        let mut cargo = process::cargo(args);
        if let Some(driver) = &self.driver {
            cargo.env("RUSTC_WORKSPACE_WRAPPER", driver).env("CLIPPY_ARGS", DENY_WARNINGS);
        }
        cargo
    }
}

#[cfg(test)]
mod tests {
    use std::process::Output;

    use super::*;

    /// Builds a crate of one file.
    fn built(compiler: &Compiler, name: &str, source: &str) -> Output {
        let folder = process::target_dir().unwrap().join(format!("compiler-{}-{name}", std::process::id()));
        let package = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\n");
        std::fs::create_dir_all(folder.join("src")).unwrap();
        for (path, text) in [
            ("Cargo.toml", format!("{package}edition = \"2024\"\n[workspace]\n")),
            ("Cargo.lock", format!("version = 4\n{}", package.replace("[package]", "[[package]]"))),
            ("src/lib.rs", source.to_owned()),
        ] {
            std::fs::write(folder.join(path), text).unwrap();
        }
        let mut cargo = compiler.cargo(["build", "--offline", "--target-dir", "target"]);
        if compiler.driver.is_none() {
            // Of whoever runs this test.
            cargo.env_remove("RUSTC_WORKSPACE_WRAPPER");
        }
        let output = cargo.current_dir(&folder).output().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        output
    }

    #[test]
    fn what_clippy_warns_of_ends_the_build_and_nothing_else_does() {
        let linting = Compiler::linting().unwrap();
        let warned = "pub fn f(a: Option<u8>) -> bool {\n    match a {\n        Some(_) => true,\n        None => false,\n    }\n}\n";
        let output = built(&linting, "warned", warned);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("redundant_pattern_matching"), "{said}");
        let output = built(&Compiler::plain(), "plain", warned);
        assert!(output.status.success(), "{output:?}");
        let output = built(&linting, "clean", "pub fn f(a: Option<u8>) -> bool {\n    a.is_some()\n}\n");
        assert!(output.status.success(), "{output:?}");
        let output = built(&linting, "unused", "fn unused() {}\n");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("dead_code"), "{said}");
    }
}
