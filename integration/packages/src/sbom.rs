//! The list of parts of what is shipped, as CycloneDX has it: every crate that is linked into a program, with version, licence, checksum and what it
//! stands on; and the packages of Debian in the image. Made of what cargo says, of Cargo.lock and of these packages; the same of them gives the same
//! bytes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    Release, catalog,
    error::Error,
    oci::{
        base::{Deb, System},
        tag,
    },
};

/// What the image has beside our programs.
#[derive(Debug, Clone, Copy)]
pub struct Base<'a> {
    /// Of which system its packages are.
    pub system: &'a System,
    /// Its packages.
    pub debs: &'a [Deb],
}

/// The document. `metadata` is what `cargo metadata --format-version 1 --filter-platform TARGET` prints: what the workspace's default members are
/// linked with is listed, and not what builds or tests them. `lock` is Cargo.lock; `base` is of the image, where there is one.
///
/// # Errors
/// [`Error::Metadata`]: it is not as cargo prints it.
pub fn write(
    metadata: &Value,
    lock: &str,
    base: Option<Base<'_>>,
    release: &Release,
) -> Result<Value, Error> {
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
    let mut programs: Vec<String> =
        roots.iter().filter_map(|id| packages.get(id)).map(|package| reference(package)).collect();
    if let Some(base) = base {
        programs.push(add_image(base, release, &mut parts, &mut dependencies));
    }
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

/// Adds the image with what it has beside our programs; gives what it is called.
fn add_image(
    base: Base<'_>,
    release: &Release,
    parts: &mut BTreeMap<String, Value>,
    dependencies: &mut BTreeMap<String, BTreeSet<String>>,
) -> String {
    let tag = tag(release);
    let image = format!("image/{}@{tag}", catalog::IMAGE_NAME);
    let mut on = BTreeSet::new();
    for deb in base.debs {
        let (name, version) = (deb.name(), deb.field("Version"));
        let escaped = version.replace('+', "%2B").replace(':', "%3A");
        let System { id, version: of, .. } = base.system;
        let purl =
            format!("pkg:deb/{id}/{name}@{escaped}?arch={}&distro={id}-{of}", deb.field("Architecture"));
        let part = json!({
            "type": "library", "bom-ref": purl, "name": name, "version": version, "scope": "required", "purl": purl,
            "hashes": [{"alg": "SHA-256", "content": deb.digest}],
        });
        dependencies.insert(purl.clone(), BTreeSet::new());
        on.insert(purl.clone());
        parts.insert(purl, part);
    }
    let part = json!({
        "type": "container", "bom-ref": image, "name": catalog::IMAGE_NAME, "version": tag,
        "description": format!("the image, on {}", base.system.title),
    });
    parts.insert(image.clone(), part);
    dependencies.insert(image.clone(), on);
    image
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
        let document = write(&metadata(), LOCK, None, &release()).unwrap();
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
        assert_eq!(document, write(&metadata(), LOCK, None, &release()).unwrap());
    }

    #[test]
    fn what_cargo_does_not_say_is_named() {
        let error = write(&json!({}), LOCK, None, &release()).unwrap_err().to_string();
        assert_eq!(error, "cargo metadata has no default members");
    }

    #[test]
    fn packages_of_the_image_are_its_parts() {
        let control = "Package: libc6\nVersion: 1:2.41-12+deb13u1\nArchitecture: amd64\n";
        let deb = Deb { control: control.into(), digest: "cd34".into(), ..Deb::default() };
        let system = System {
            id: "debian".into(),
            version: "13".into(),
            title: "Debian GNU/Linux 13 (trixie)".into(),
        };
        let base = Base { system: &system, debs: &[deb] };
        let document = write(&metadata(), LOCK, Some(base), &release()).unwrap();
        let find = |list: &str, key: &str, name: &str| {
            let all = document[list].as_array().unwrap().iter();
            all.clone().find(|one| one[key] == name).unwrap_or_else(|| panic!("{name}: {document:#}")).clone()
        };
        let part = find("components", "name", "libc6");
        let purl = "pkg:deb/debian/libc6@1%3A2.41-12%2Bdeb13u1?arch=amd64&distro=debian-13";
        assert_eq!((&part["purl"], &part["hashes"][0]["content"]), (&json!(purl), &json!("cd34")));
        assert_eq!(find("components", "name", "railyard")["type"], "container");
        assert_eq!(find("dependencies", "ref", "image/railyard@0.1.0")["dependsOn"], json!([purl]));
        assert_eq!(
            find("dependencies", "ref", "railyard@0.1.0")["dependsOn"],
            json!(["railyard/cli@0.1.0", "image/railyard@0.1.0"])
        );
    }
}
