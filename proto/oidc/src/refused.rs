//! Why a token is not taken, and the bounds that refusals name.

use std::time::Duration;

use proto_rpc::SignedToken;

/// Bytes of a token at most: what fits into the head of a request that shows no certificate.
pub const MAX_TOKEN: usize = SignedToken::MAX_BYTES;
/// The longest that a token may be good for, from its issue: what is revoked here is kept for longer.
pub const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Why a token is refused. No variant carries anything of the token but the name of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is too long.
    #[error("has more than {MAX_TOKEN} bytes")]
    TooLong,
    /// It is no signed token in the compact form.
    #[error("is not a signed token (RFC 7519)")]
    Malformed,
    /// It is signed with something that is not taken, or not signed.
    #[error("is signed with an algorithm that is not taken here")]
    Algorithm,
    /// Its header names an extension that must be understood.
    #[error("has a critical header, which is not understood")]
    Critical,
    /// It is something else that a provider signs.
    #[error("is not of a type that identifies somebody")]
    Type,
    /// The provider has no key of that id.
    #[error("is signed with a key that its issuer does not publish")]
    UnknownKey,
    /// The key of that id is for another algorithm.
    #[error("is signed with an algorithm that is not its key's")]
    WrongKey,
    /// The signature is not of that key.
    #[error("has a signature that is not its issuer's")]
    Signature,
    /// A claim is missing, or of another kind.
    #[error("has no usable claim `{0}`")]
    Claim(&'static str),
    /// Another provider has issued it.
    #[error("is of another issuer")]
    Issuer,
    /// It is for somebody else.
    #[error("is not for this cluster: its audience is another one")]
    Audience,
    /// It was given to somebody whose tokens are not taken.
    #[error("was given to another client (`azp`)")]
    Party,
    /// Its time is over.
    #[error("has expired")]
    Expired,
    /// Its time has not begun.
    #[error("is not good yet")]
    Early,
    /// It says that it was issued later than now.
    #[error("is issued in the future")]
    Future,
    /// It is good for too long.
    #[error("is good for more than {} hours", LONGEST.as_secs() / 3600)]
    LongLived,
    /// It is not the answer to this sign-on.
    #[error("has another nonce than this sign-on")]
    Nonce,
    /// It is bound to a key that whoever shows it would have to prove.
    #[error("is bound to a key of its holder (`cnf`), which is not checked here")]
    Bound,
}
