//! Tokens, keys and documents of an OpenID provider: what anybody can show, and what a provider can answer.

use std::time::{Duration, SystemTime};

use proto_oidc::{Document, Grant, Keys, Policy, jose, verify};

const ISSUER: &str = "https://idp.example";
/// The public key of RFC 8037, appendix A.2; nobody here has its secret.
const KEYS: &[u8] = br#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

/// The bytes as each of them.
pub fn run(data: &[u8]) {
    let Ok(keys) = Keys::read(KEYS) else { return };
    let policy = Policy {
        issuer: ISSUER.to_owned(),
        client: "rail".to_owned(),
        audiences: vec!["rail".to_owned()],
        name_claim: "sub".to_owned(),
        name_suffix: String::new(),
        groups_claim: "groups".to_owned(),
        grants: "g=user@t".parse::<Grant>().into_iter().collect(),
        skew: Duration::from_secs(60),
    };
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    if let Ok(text) = std::str::from_utf8(data) {
        // Nobody signs with a key that they do not have.
        assert!(verify(text, &keys, &policy, None, now).is_err());
        let _ = jose::unverified_end(text);
        if let Ok(grant) = text.parse::<Grant>() {
            assert_eq!(grant.to_string().parse::<Grant>().as_ref(), Ok(&grant));
        }
    }
    // Keys and a document that a provider could answer with.
    let _ = Keys::read(data);
    let _ = Document::read(data, ISSUER);
    // The content of a token, as if it were signed: what is taken has a time, and becomes somebody or nobody.
    let Ok(content) = serde_json::from_slice(data) else { return };
    let Ok(claims) = proto_oidc::verify::judge(content, &policy, None, now) else { return };
    assert!(claims.expires + policy.skew > now && claims.issued <= now + policy.skew);
    assert_eq!(claims.issuer, ISSUER);
    if let Ok(identity) = policy.identity(&claims) {
        assert!(identity.to_uri("c").is_ok() && identity.tenant() == Some("t"));
    }
}
