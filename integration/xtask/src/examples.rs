//! Which crates have examples in their documentation. rustdoc runs those of one crate at a time and takes seconds for each, also where there is
//! none: it is run for these alone.

use std::{fs, path::Path};

use crate::process::{self, Result};

/// Words behind a fence by which rustdoc leaves a block alone.
const NO_TESTS: [&str; 8] = ["text", "ignore", "sh", "console", "json", "yaml", "toml", "c"];

/// The workspace's packages with an example that `cargo test --doc` would compile, in the order of their names.
///
/// # Errors
/// `cargo metadata` fails, or a source file cannot be read.
pub fn packages() -> Result<Vec<String>> {
    let metadata = process::cargo(["metadata", "--format-version", "1", "--no-deps"]);
    let output = process::capture(metadata)?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().ok_or("cargo metadata names no packages")? {
        let name = package["name"].as_str().ok_or("a package of cargo metadata has no name")?;
        let targets = package["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
        for target in targets.iter().filter(|target| target["doctest"] == true) {
            let path = Path::new(target["src_path"].as_str().ok_or_else(|| format!("{name}: no source"))?);
            if has_example_below(path.parent().unwrap_or(path))? {
                found.push(name.to_owned());
            }
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn has_example_below(folder: &Path) -> Result<bool> {
    let failed = |path: &Path, error| format!("{}: {error}", path.display());
    for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
        let path = entry?.path();
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        let has = if path.is_dir() {
            has_example_below(&path)?
        } else {
            is_source && has_example(&fs::read_to_string(&path).map_err(|error| failed(&path, error))?)
        };
        if has {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the documentation in a source file has a block that rustdoc takes for Rust.
fn has_example(source: &str) -> bool {
    let documentation = source.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
    });
    let fences = documentation.filter_map(|line| line.trim_start().strip_prefix("```"));
    // Every second one ends a block.
    fences.step_by(2).any(|words| !words.split(',').any(|word| NO_TESTS.contains(&word.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_rustdoc_compiles_are_found() {
        assert!(has_example("//! A crate.\n//!\n//! ```no_run\n//! f();\n//! ```\n"));
        assert!(has_example(
            "    /// ```text\n    /// a\n    /// ```\n    ///\n    /// ```\n    /// f();\n    /// ```\n"
        ));
        assert!(!has_example("/// ```text\n/// a -> b\n/// ```\nfn f() {}\n// ```\n"));
        assert!(!has_example("/// ```rust,ignore\n/// f()\n/// ```\n"));
    }

    #[test]
    fn the_clients_example_is_found_and_few_others() {
        let found = packages().unwrap();
        assert!(found.iter().any(|name| name == "node-agent-client"), "{found:?}");
        assert!(found.len() < 10, "{found:?}");
    }
}
