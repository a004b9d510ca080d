//! What is wrong with a key, a secret file or a provider. No text here holds a secret.

use std::path::PathBuf;

use proto_rpc::files::FileError;
use thiserror::Error;

/// What is wrong with a key.
#[derive(Debug, Error)]
pub enum KeyError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Others than its owner can read or change the file.
    #[error("{} can be read or changed by others (mode {mode:03o}); chmod {:o} it", path.display(), mode & 0o700)]
    Loose {
        /// Path of the file that others can read or change.
        path: PathBuf,
        /// Permission bits of the file.
        mode: u32,
    },
    /// The file of a key-encryption key.
    #[error("{}: expected one key of 64 hex digits (`rail-controller store key FILE` makes one)", path.display())]
    NotAKey {
        /// Path of the file.
        path: PathBuf,
    },
    /// The passphrase is too short or too long.
    #[error("the passphrase in {origin} has {length} bytes; it must have {least} to {most}")]
    PassphraseLength {
        /// Where the passphrase comes from, for example a file.
        origin: String,
        /// Bytes that it has.
        length: usize,
        /// Bytes that it must have at least.
        least: usize,
        /// Bytes that it may have at most.
        most: usize,
    },
    /// It is encrypted and no passphrase was given.
    #[error(
        "{place} is encrypted with a passphrase and none is given: --ca-passphrase-file, or RAIL_CONTROLLER_CA_PASSPHRASE"
    )]
    NoPassphrase {
        /// Where the encrypted key is, usually a path.
        place: String,
    },
    /// The passphrase does not open the key.
    #[error("the passphrase does not open {place}")]
    WrongPassphrase {
        /// Where the encrypted key is, usually a path.
        place: String,
    },
    /// It is an envelope and no provider was given.
    #[error("{place} is wrapped by the key provider '{provider}' and none is given: --key-provider")]
    NoProvider {
        /// Where the wrapped key is, usually a path.
        place: String,
        /// Name of the provider that wrapped it.
        provider: String,
    },
    /// The key is wrapped by another provider than the one given.
    #[error("{place} is wrapped by the key provider '{found}', not by '{given}' (--key-provider)")]
    OtherProvider {
        /// Where the wrapped key is, usually a path.
        place: String,
        /// Name of the provider that wrapped it.
        found: String,
        /// Name of the provider that was given.
        given: String,
    },
    /// It was changed, or is for another purpose.
    #[error("{place} is not what was sealed: it was changed, or its key is another one")]
    Forged {
        /// Where the sealed secret is, usually a path.
        place: String,
    },
    /// The file is not in a form that is understood.
    #[error("{place}: {detail}")]
    Malformed {
        /// Where the secret is, usually a path.
        place: String,
        /// What is wrong with it, in words.
        detail: String,
    },
    /// The provider does not unwrap what it is given.
    #[error("the key provider '{provider}' does not unwrap this key: {detail}")]
    Refused {
        /// Name of the provider.
        provider: String,
        /// What the provider answered.
        detail: String,
    },
    /// The program of a provider failed, or answered something that is not understood.
    #[error("the key provider {}: {detail}", program.display())]
    Program {
        /// Path of the program.
        program: PathBuf,
        /// What went wrong, in words.
        detail: String,
    },
    /// The text of the option names no provider.
    #[error("'{text}' is no key provider; write file:PATH, passphrase-file:PATH or exec:/PATH/OF/PROGRAM")]
    NoSuchProvider {
        /// The text of the option that was given.
        text: String,
    },
    /// The system's random numbers or the cipher.
    #[error("the cipher or the system's random numbers failed")]
    Failed,
}
