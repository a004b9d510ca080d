//! Looks at what is stored and who may read it.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use crate::{
    verdict::{Verdict, gave, held_if},
    world::{SECRET, World},
};

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Inspection {
    CaKeyMode,
    AdminKeyMode,
    NodeKeyMode,
    DataFolderMode,
    StoreMode,
    StoreKeysMode,
    StoreHasNoSecret,
    StoreHasNoToken,
    LogsHaveNoSecret,
    CommandLinesHaveNoSecret,
    ControllerSocketMode,
    AgentFilesMode,
    CaKeyUnderPassphrase,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&path, found),
            Ok(kind) if kind.is_file() => found.push(path),
            _ => {}
        }
    }
}

fn all(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(dir, &mut found);
    found
}

/// The bits for others than the owner.
fn open_to_others(path: &Path) -> Result<u32, String> {
    let meta = fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(meta.permissions().mode() & 0o077)
}

fn closed(path: &Path) -> Result<Verdict, String> {
    let open = open_to_others(path)?;
    Ok(held_if(open == 0, || format!("{} is open to others: {open:03o}", path.display())))
}

fn holds(path: &Path, words: &[u8]) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes.windows(words.len()).any(|window| window == words))
}

/// Makes one inspection and judges it.
///
/// # Errors
/// What kept the attempt from being made, as text: a part that it needs did not start or did not answer.
pub async fn perform(world: &World, check: Inspection) -> Result<Verdict, String> {
    let dir = world.cluster.dir();
    let controller = dir.join("controller");
    match check {
        Inspection::CaKeyMode => closed(&controller.join("ca.key")),
        Inspection::AdminKeyMode => closed(&controller.join("admin.key")),
        Inspection::NodeKeyMode => closed(&dir.join("n0/identity/node.key")),
        Inspection::DataFolderMode => closed(&controller),
        Inspection::StoreMode => {
            let secret = |path: &PathBuf| {
                path.components().any(|part| part.as_os_str() == "store")
                    || path.extension().is_some_and(|end| end == "key" || end == "keys")
            };
            let found: Vec<PathBuf> = all(&controller).into_iter().filter(secret).collect();
            of_many(&found, open_to_others)
        }
        Inspection::AgentFilesMode => {
            let private = ["identity/node.key", "epoch", "agent.lock"];
            let found: Vec<PathBuf> =
                private.iter().map(|name| dir.join("n0").join(name)).filter(|path| path.exists()).collect();
            of_many(&found, open_to_others)
        }
        Inspection::StoreKeysMode => {
            let keys: Vec<PathBuf> = all(&controller).into_iter().filter(|path| is_key_file(path)).collect();
            if keys.is_empty() {
                return Ok(gave("there is no key that secrets are sealed with"));
            }
            of_many(&keys, open_to_others)
        }
        Inspection::StoreHasNoSecret => {
            let found = all(&controller).into_iter().find(|path| holds(path, SECRET.as_bytes()));
            Ok(held_if(found.is_none(), || {
                format!("{} has the secret of a job in the clear", found.unwrap_or_default().display())
            }))
        }
        Inspection::StoreHasNoToken => {
            let token = world.place.token(&world.admin.client, "beta", "stored", "VIEWER").await?;
            let token = token.token.ok_or("no token")?;
            let secret = token.rsplit('.').next().unwrap_or_default().to_owned();
            let found = all(&controller).into_iter().find(|path| holds(path, secret.as_bytes()));
            Ok(held_if(found.is_none(), || {
                format!("{} has a token in the clear", found.unwrap_or_default().display())
            }))
        }
        Inspection::LogsHaveNoSecret => {
            let logs = all(&dir).into_iter().filter(|path| path.extension().is_some_and(|end| end == "log"));
            // A rank's own output is its own.
            let ours = logs.filter(|path| {
                !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("rank-"))
            });
            let found = ours.into_iter().find(|path| holds(path, SECRET.as_bytes()));
            Ok(held_if(found.is_none(), || {
                format!("{} has the secret of a job", found.unwrap_or_default().display())
            }))
        }
        Inspection::CommandLinesHaveNoSecret => command_lines(),
        Inspection::CaKeyUnderPassphrase => under_passphrase(world),
        Inspection::ControllerSocketMode => {
            let socket = dir.join("controller.sock");
            let others = fs::metadata(&socket).map_err(text)?.permissions().mode() & 0o007;
            Ok(held_if(others == 0, || format!("mode {others:o} for everybody")))
        }
    }
}

/// An authority whose key is made under a passphrase is never in the clear on disk.
fn under_passphrase(world: &World) -> Result<Verdict, String> {
    let (dir, words) = (world.cluster.home().join("sealed"), world.cluster.home().join("passphrase"));
    fs::write(&words, "correct horse battery staple\n").map_err(text)?;
    fs::set_permissions(&words, fs::Permissions::from_mode(0o600)).map_err(text)?;
    let mut init = std::process::Command::new(world.cluster.bin().join("rail-controller"));
    init.args(["init", "--data-dir"]).arg(&dir).arg("--ca-passphrase-file").arg(&words);
    let done = init.output().map_err(text)?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned());
    }
    let key = fs::read_to_string(dir.join("ca.key")).map_err(text)?;
    Ok(held_if(key.contains("ENCRYPTED"), || "ca.key is in the clear".to_owned()))
}

fn is_key_file(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name == "store.keys"
}

fn of_many(paths: &[PathBuf], check: impl Fn(&Path) -> Result<u32, String>) -> Result<Verdict, String> {
    if paths.is_empty() {
        return Err("there is nothing to look at".to_owned());
    }
    for path in paths {
        let open = check(path)?;
        if open != 0 {
            return Ok(gave(format!("{} is open to others: {open:03o}", path.display())));
        }
    }
    Ok(Verdict::Held)
}

/// What everybody on a server can read of processes: the secret may be in the rank's own script alone.
fn command_lines() -> Result<Verdict, String> {
    let entries = fs::read_dir("/proc").map_err(text)?.flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().parse::<u32>().is_ok()) {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains("rail-node-agent") && line.contains(&format!("TOKEN_OF_ALPHA={SECRET}")) {
            return Ok(gave(format!("an environment is in arguments: {line:.200}")));
        }
    }
    Ok(Verdict::Held)
}
