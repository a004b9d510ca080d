//! The list of parts of what is shipped, as CycloneDX has it: every crate that is linked into a program, with version, licence, checksum and what it
//! stands on. Made of what cargo says and of Cargo.lock; the same of both gives the same bytes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{Release, error::Error};

/// The document. `metadata` is what `cargo metadata --format-version 1 --filter-platform TARGET` prints: what the workspace's default members are
/// linked with is listed, and not what builds or tests them. `lock` is Cargo.lock.
///
/// # Errors
/// [`Error::Metadata`]: it is not as cargo prints it.
pub fn write(metadata: &Value, lock: &str, release: &Release) -> Result<Value, Error> {
    let roots = strings(&metadata["workspace_default_members"]).ok_or(Error::Metadata("default members"))?;
    let nodes = metadata["resolve"]["nodes"].as_array().ok_or(Error::Metadata("graph of crates"))?;
    let links: BTreeMap<&str, Vec<&str>> = nodes.iter().filter_map(linked).collect();
    let packages = metadata["packages"].as_array().ok_or(Error::Metadata("packages"))?;
    let packages: BTreeMap<&str, &Value> =
        packages.iter().filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let checksums = checksums(lock);
    let mut parts = BTreeMap::new();
    let mut dependencies = BTreeMap::new();
    for id in reached(&roots, &links) {
        let package = packages.get(id).ok_or(Error::Metadata("package of a crate in its graph"))?;
        let name = reference(package);
        let on: BTreeSet<String> = links
            .get(id)
            .into_iter()
            .flatten()
            .filter_map(|id| packages.get(id))
            .map(|package| reference(package))
            .collect();
        parts.insert(name.clone(), component(package, roots.contains(&id), &checksums));
        dependencies.insert(name, on);
    }
    let programs: Vec<String> =
        roots.iter().filter_map(|id| packages.get(id)).map(|package| reference(package)).collect();
    Ok(document(release, parts, dependencies, programs))
}

fn document(
    release: &Release,
    parts: BTreeMap<String, Value>,
    dependencies: BTreeMap<String, BTreeSet<String>>,
    programs: Vec<String>,
) -> Value {
    let whole = format!("railyard@{}", release.version);
    let date = time::OffsetDateTime::from_unix_timestamp(i64::from(release.date)).ok();
    let date = date.and_then(|date| date.format(&time::format_description::well_known::Rfc3339).ok());
    let mut on: Vec<Value> = vec![json!({"ref": whole, "dependsOn": programs})];
    on.extend(dependencies.iter().map(|(name, on)| json!({"ref": name, "dependsOn": on})));
    let mut document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": date,
            "component": {
                "type": "application", "bom-ref": whole, "name": "railyard", "version": release.version,
                "licenses": [{"expression": "Apache-2.0"}],
            },
        },
        "components": parts.into_values().collect::<Vec<_>>(),
        "dependencies": on,
    });
    document["serialNumber"] = json!(serial(&document.to_string()));
    document
}

/// A crate and what it is linked with: neither what builds it nor what tests it.
fn linked(node: &Value) -> Option<(&str, Vec<&str>)> {
    let is_normal = |on: &&Value| {
        let kinds = on["dep_kinds"].as_array().into_iter().flatten();
        kinds.into_iter().any(|kind| kind["kind"].is_null())
    };
    let on = node["deps"].as_array()?.iter().filter(is_normal).filter_map(|on| on["pkg"].as_str());
    Some((node["id"].as_str()?, on.collect()))
}

/// These crates and all that they are linked with.
fn reached<'a>(roots: &[&'a str], links: &BTreeMap<&'a str, Vec<&'a str>>) -> BTreeSet<&'a str> {
    let (mut found, mut next) = (BTreeSet::new(), roots.to_vec());
    while let Some(id) = next.pop() {
        if found.insert(id) {
            next.extend(links.get(id).into_iter().flatten());
        }
    }
    found
}

fn component(package: &Value, is_program: bool, checksums: &BTreeMap<(String, String), String>) -> Value {
    let (name, version) = (word(package, "name"), word(package, "version"));
    let kind = if is_program { "application" } else { "library" };
    let mut part = json!({"type": kind, "bom-ref": reference(package), "name": name, "version": version, "scope": "required"});
    if !is_ours(package) {
        part["purl"] = json!(reference(package));
    }
    if let Some(licence) = package["license"].as_str() {
        // Older crates have a slash where they mean "or".
        part["licenses"] = json!([{"expression": licence.replace(" / ", "/").replace('/', " OR ")}]);
    }
    if let Some(checksum) =
        checksums.get(&(name.to_owned(), version.to_owned())).filter(|_| !is_ours(package))
    {
        part["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if let Some(address) = package["repository"].as_str() {
        part["externalReferences"] = json!([{"type": "vcs", "url": address}]);
    }
    part
}

/// What a part is called in the document: its package URL, or for what is not from a registry its name.
fn reference(package: &Value) -> String {
    let (name, version) = (word(package, "name"), word(package, "version"));
    if is_ours(package) {
        format!("railyard/{name}@{version}")
    } else {
        format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
    }
}

fn is_ours(package: &Value) -> bool {
    package["source"].is_null()
}

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn strings(value: &Value) -> Option<Vec<&str>> {
    value.as_array()?.iter().map(Value::as_str).collect()
}

/// Checksums of Cargo.lock, by name and version. Its form is that of cargo: one `key = "value"` a line.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let of = |section: &str| {
        let value = |key: &str| {
            let lines = section.lines().filter_map(|line| line.split_once(" = "));
            let mut found = lines.filter(|(name, _)| *name == key);
            found.next().map(|(_, value)| value.trim_matches('"').to_owned())
        };
        Some(((value("name")?, value("version")?), value("checksum")?))
    };
    lock.split("[[package]]").filter_map(of).collect()
}

/// A UUID that follows from the document (version 8: one's own way).
fn serial(text: &str) -> String {
    let mut bytes = Sha256::digest(text);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    format!("urn:uuid:{}", parts.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"bytes\"\nversion = \"1.2.0\"\nchecksum = \"ab12\"\n\n\
                        [[package]]\nname = \"cli\"\nversion = \"0.1.0\"\n";

    fn metadata() -> Value {
        let registry = "registry+x";
        json!({
            "workspace_default_members": ["cli"],
            "packages": [
                {"id": "cli", "name": "cli", "version": "0.1.0", "license": "Apache-2.0", "source": null},
                {"id": "bytes", "name": "bytes", "version": "1.2.0", "license": "MIT/Apache-2.0", "source": registry},
                {"id": "cc", "name": "cc", "version": "1.0.0", "license": "MIT", "source": registry},
                {"id": "kit", "name": "kit", "version": "1.0.0", "license": "MIT", "source": registry},
            ],
            "resolve": {"nodes": [
                {"id": "cli", "deps": [
                    {"pkg": "bytes", "dep_kinds": [{"kind": null}]},
                    {"pkg": "cc", "dep_kinds": [{"kind": "build"}]},
                    {"pkg": "kit", "dep_kinds": [{"kind": "dev"}]},
                ]},
                {"id": "bytes", "deps": []},
            ]},
        })
    }

    fn release() -> Release {
        Release { version: "0.1.0".into(), revision: 1, date: 1_700_000_000 }
    }

    #[test]
    fn what_is_linked_is_listed_and_what_builds_or_tests_is_not() {
        let document = write(&metadata(), LOCK, &release()).unwrap();
        let names: Vec<&str> =
            document["components"].as_array().unwrap().iter().map(|part| word(part, "name")).collect();
        assert_eq!(names, ["bytes", "cli"]);
        let bytes = &document["components"][0];
        assert_eq!(bytes["purl"], "pkg:cargo/bytes@1.2.0");
        assert_eq!(bytes["hashes"][0]["content"], "ab12");
        assert_eq!(bytes["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert!(document["components"][1]["purl"].is_null(), "what no registry has");
        assert_eq!(document["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
        let serial = document["serialNumber"].as_str().unwrap();
        assert_eq!((serial.len(), &serial[..9], &serial[23..24]), (45, "urn:uuid:", "8"), "{serial}");
        assert_eq!(document, write(&metadata(), LOCK, &release()).unwrap());
    }

    #[test]
    fn what_cargo_does_not_say_is_named() {
        let error = write(&json!({}), LOCK, &release()).unwrap_err().to_string();
        assert_eq!(error, "cargo metadata has no default members");
    }
}
