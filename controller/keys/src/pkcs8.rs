//! Private keys encrypted with a passphrase: PKCS#8 EncryptedPrivateKeyInfo (RFC 5958), PBES2 with scrypt and
//! AES-256-CBC, as `openssl pkcs8` reads and writes it. PBKDF2 is read too.

use pkcs8::{
    EncryptedPrivateKeyInfo, LineEnding, PrivateKeyInfo, SecretDocument,
    pkcs5::{
        EncryptionScheme,
        pbes2::{Kdf, Parameters},
    },
};
use zeroize::Zeroizing;

use crate::{
    cipher,
    error::KeyError,
    passphrase::{LOG_N, P, R, bounded},
};

const PLAIN: &str = "PRIVATE KEY";
const ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY";
/// Rounds of PBKDF2 that a file may ask for.
const MOST_ROUNDS: u32 = 20_000_000;

/// Whether a text says that it is an encrypted key.
pub fn is_encrypted(text: &str) -> bool {
    text.trim_start().starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----")
}

fn document(text: &str, label: &str, place: &str) -> Result<SecretDocument, KeyError> {
    let malformed = |detail: String| KeyError::Malformed { place: place.to_owned(), detail };
    let (found, document) =
        SecretDocument::from_pem(text.trim()).map_err(|error| malformed(error.to_string()))?;
    if found == label {
        Ok(document)
    } else {
        Err(malformed(format!("it holds '{found}', '{label}' was expected")))
    }
}

/// Encrypts a key in PEM form (PKCS#8).
///
/// # Errors
/// [`KeyError::Malformed`] if the text is not such a key; [`KeyError::Failed`] if the cipher or the system's random numbers fail.
pub fn encrypt(pem: &str, passphrase: &str, place: &str) -> Result<Zeroizing<String>, KeyError> {
    let document = document(pem, PLAIN, place)?;
    let malformed = |detail: String| KeyError::Malformed { place: place.to_owned(), detail };
    let key = PrivateKeyInfo::try_from(document.as_bytes()).map_err(|error| malformed(error.to_string()))?;
    let (salt, iv): ([u8; 16], [u8; 16]) = (cipher::random()?, cipher::random()?);
    let costs = scrypt::Params::new(LOG_N, R, P, 32).map_err(|_| KeyError::Failed)?;
    let parameters = Parameters::scrypt_aes256cbc(costs, &salt, &iv).map_err(|_| KeyError::Failed)?;
    let sealed = key.encrypt_with_params(parameters, passphrase.as_bytes()).map_err(|_| KeyError::Failed)?;
    sealed.to_pem(ENCRYPTED, LineEnding::LF).map_err(|_| KeyError::Failed)
}

/// The key in PEM form.
///
/// # Errors
/// [`KeyError::Malformed`] if the text is not an encrypted key or asks for a derivation that is not known or too costly;
/// [`KeyError::WrongPassphrase`] if the passphrase does not open it.
pub fn decrypt(text: &str, passphrase: &str, place: &str) -> Result<Zeroizing<String>, KeyError> {
    let document = document(text, ENCRYPTED, place)?;
    let malformed = |detail: String| KeyError::Malformed { place: place.to_owned(), detail };
    let sealed = EncryptedPrivateKeyInfo::try_from(document.as_bytes())
        .map_err(|error| malformed(error.to_string()))?;
    if !affordable(&sealed.encryption_algorithm) {
        return Err(malformed(
            "it asks for a way of deriving keys that is not known, or too costly".to_owned(),
        ));
    }
    let wrong = |_| KeyError::WrongPassphrase { place: place.to_owned() };
    let key = sealed.decrypt(passphrase.as_bytes()).map_err(wrong)?;
    key.to_pem(PLAIN, LineEnding::LF).map_err(|_| KeyError::Failed)
}

fn affordable(scheme: &EncryptionScheme<'_>) -> bool {
    let EncryptionScheme::Pbes2(parameters) = scheme else { return false };
    match &parameters.kdf {
        Kdf::Scrypt(costs) => {
            let log_n = costs
                .cost_parameter
                .checked_ilog2()
                .and_then(|log| u8::try_from(log).ok())
                .unwrap_or(u8::MAX);
            bounded(log_n, u32::from(costs.block_size), u32::from(costs.parallelization))
        }
        Kdf::Pbkdf2(costs) => costs.iteration_count <= MOST_ROUNDS,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_rpc::KeyRequest;
    use std::process::{Command, Stdio};

    const WORDS: &str = "correct horse battery staple";

    #[test]
    fn a_key_survives_its_passphrase_and_no_other() {
        let key = KeyRequest::generate().unwrap().key_pem;
        let sealed = encrypt(&key, WORDS, "k").unwrap();
        assert!(is_encrypted(&sealed) && !is_encrypted(&key));
        assert!(!sealed.contains("BEGIN PRIVATE KEY"));
        assert_eq!(decrypt(&sealed, WORDS, "k").unwrap().trim(), key.replace("\r\n", "\n").trim());
        let reported = decrypt(&sealed, "correct horse battery stable", "ca.key").unwrap_err();
        assert!(
            matches!(reported, KeyError::WrongPassphrase { .. }) && reported.to_string().contains("ca.key")
        );
        assert!(matches!(decrypt(&key, WORDS, "k"), Err(KeyError::Malformed { .. })));
        assert!(matches!(encrypt(&sealed, WORDS, "k"), Err(KeyError::Malformed { .. })));
        for rubbish in
            ["", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"]
        {
            assert!(matches!(decrypt(rubbish, WORDS, "k"), Err(KeyError::Malformed { .. })), "{rubbish}");
        }
    }

    #[test]
    fn openssl_reads_it_and_we_read_openssl_s() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
        let key = KeyRequest::generate().unwrap().key_pem;
        std::fs::write(&ours, encrypt(&key, WORDS, "k").unwrap().as_bytes()).unwrap();
        let openssl = |args: &[&str]| {
            let mut command = Command::new("openssl");
            command.args(args).args([
                "-passin",
                &format!("pass:{WORDS}"),
                "-passout",
                &format!("pass:{WORDS}"),
            ]);
            command.stdin(Stdio::null()).output()
        };
        let Ok(output) = openssl(&["pkcs8", "-in", ours.to_str().unwrap()]) else {
            return println!("skipped: no openssl");
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), key.replace("\r\n", "\n").trim());
        std::fs::write(&ours, &key).unwrap();
        for more in [&["-scrypt"][..], &["-v2", "aes-256-cbc", "-v2prf", "hmacWithSHA256"]] {
            let paths = ["pkcs8", "-topk8", "-in", ours.to_str().unwrap(), "-out", theirs.to_str().unwrap()];
            assert!(openssl(&[&paths, more].concat()).unwrap().status.success(), "{more:?}");
            let text = std::fs::read_to_string(&theirs).unwrap();
            assert_eq!(
                decrypt(&text, WORDS, "k").unwrap().trim(),
                key.replace("\r\n", "\n").trim(),
                "{more:?}"
            );
        }
    }
}
