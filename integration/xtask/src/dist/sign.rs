//! A signature of the checksums, by a key that `ssh-keygen` makes: what checks it is on every machine that has OpenSSH.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::process::{self, Result};

/// What a signature is for: one that the same key has made for something else is no signature of a release.
const NAMESPACE: &str = "railyard-release";

/// Signs a file; the signature lies beside it, its name ends with `.sig`.
///
/// # Errors
/// There is no `ssh-keygen`, it cannot use the key, or the key's passphrase is not told.
pub fn sign(key: &Path, file: &Path) -> Result<PathBuf> {
    let signature = beside(file);
    let _ = std::fs::remove_file(&signature);
    let mut command = Command::new("ssh-keygen");
    command.args(["-Y", "sign", "-n", NAMESPACE, "-f"]).arg(key).arg(file).stdin(Stdio::null());
    process::run_quiet(&mut command)?;
    if signature.is_file() {
        Ok(signature)
    } else {
        Err(format!("ssh-keygen has left no {}", signature.display()).into())
    }
}

/// Where the signature of a file is.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".sig");
    name.into()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn verifies(room: &Path, file: &Path) -> bool {
        let verify = Command::new("ssh-keygen")
            .args(["-Y", "verify", "-n", NAMESPACE, "-I", "release@railyard", "-f"])
            .arg(room.join("allowed"))
            .arg("-s")
            .arg(beside(file))
            .stdin(fs::File::open(file).unwrap())
            .output();
        verify.unwrap().status.success()
    }

    #[test]
    fn what_is_signed_is_verified_and_what_was_changed_is_not() {
        if Command::new("ssh-keygen").arg("-V").output().is_err() {
            eprintln!("skipped: there is no ssh-keygen");
            return;
        }
        let room = std::env::temp_dir().join(format!("railyard-sign-{}", std::process::id()));
        fs::create_dir_all(&room).unwrap();
        let (key, file) = (room.join("key"), room.join("SHA256SUMS"));
        let mut make = Command::new("ssh-keygen");
        make.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key);
        process::run_quiet(&mut make).unwrap();
        let public = fs::read_to_string(room.join("key.pub")).unwrap();
        fs::write(room.join("allowed"), format!("release@railyard {public}")).unwrap();
        fs::write(&file, "ab  bin/railctl\n").unwrap();
        sign(&key, &file).unwrap();
        assert!(verifies(&room, &file));
        fs::write(&file, "ac  bin/railctl\n").unwrap();
        assert!(!verifies(&room, &file), "it is another file");
        sign(&key, &file).unwrap();
        assert!(verifies(&room, &file), "signed anew");
        assert!(sign(&room.join("nokey"), &file).is_err());
        fs::remove_dir_all(room).unwrap();
    }
}
