//! Every refusal once, and what is done to a token never makes it good.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RSA_PSS_SHA256, RsaKeyPair, RsaPublicKeyComponents,
};
use aws_lc_rs::{hmac, rsa};
use data_encoding::BASE64URL_NOPAD as B64;
use proptest::prelude::*;
use proto_rpc::{Identity, Role};
use serde_json::{Value, json};

use crate::claims::Claims;
use crate::grants::{Grant, GrantError, Policy};
use crate::jose::{Keys, KeysError};
use crate::refused::{MAX_TOKEN, Refused};
use crate::verify::verify;
use crate::{Document, DocumentError, code};

mod documents;

const NOW: u64 = 1_800_000_000;
const ISSUER: &str = "https://idp.example/realms/a";

/// A provider's keys of every kind, with their secrets.
struct Signer {
    rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
    ed: Ed25519KeyPair,
    set: Value,
    keys: Keys,
}

static SIGNER: LazyLock<Signer> = LazyLock::new(|| {
    let rsa = rsa::KeyPair::generate(KeySize::Rsa2048).unwrap();
    let ec = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let ed = Ed25519KeyPair::generate().unwrap();
    let public: RsaPublicKeyComponents<Vec<u8>> = rsa.public_key().into();
    let point = ec.public_key().as_ref();
    let set = json!({"keys": [
        {"kty": "RSA", "kid": "r", "use": "sig", "n": B64.encode(&public.n), "e": B64.encode(&public.e)},
        {"kty": "EC", "kid": "e", "crv": "P-256", "alg": "ES256",
         "x": B64.encode(&point[1..33]), "y": B64.encode(&point[33..])},
        {"kty": "OKP", "kid": "o", "crv": "Ed25519", "x": B64.encode(ed.public_key().as_ref())},
        // None of these is ever used.
        {"kty": "oct", "kid": "s", "k": B64.encode(b"shared secret shared secret shared")},
        {"kty": "RSA", "kid": "enc", "use": "enc", "n": B64.encode(&public.n), "e": "AQAB"},
        {"kty": "RSA", "kid": "weak", "n": B64.encode(&[255; 128]), "e": "AQAB"},
        {"kty": "EC", "kid": "p384", "crv": "P-384", "x": "AA", "y": "AA"},
        {"kty": "RSA", "kid": "rs512", "alg": "RS512", "n": B64.encode(&public.n), "e": "AQAB"},
    ]});
    let keys = Keys::read(set.to_string().as_bytes()).unwrap();
    Signer { rsa, ec, ed, set, keys }
});

fn policy() -> Policy {
    let grants =
        ["rail-admins=admin", "/ml=user@nlp", "cn=leads,dc=x=tenant-admin@nlp", "guests=viewer@guest"];
    Policy {
        issuer: ISSUER.to_owned(),
        client: "railyard".to_owned(),
        audiences: vec!["railyard".to_owned(), "railctl".to_owned()],
        name_claim: "preferred_username".to_owned(),
        name_suffix: String::new(),
        groups_claim: "groups".to_owned(),
        grants: grants.iter().map(|text| text.parse().unwrap()).collect(),
        skew: Duration::from_secs(60),
    }
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": "railyard", "sub": "u-1", "exp": NOW + 300, "iat": NOW - 100, "nonce": "n",
           "preferred_username": "ann", "groups": ["/ml"]})
}

fn part(value: &Value) -> String {
    B64.encode(value.to_string().as_bytes())
}

/// A token with this header, signed as `by` says.
fn signed(head: &Value, claims: &Value, by: &str) -> String {
    let message = format!("{}.{}", part(head), part(claims));
    let (signer, random, bytes) = (&*SIGNER, SystemRandom::new(), message.as_bytes());
    let rsa = |padding| {
        let mut signature = vec![0; signer.rsa.public_modulus_len()];
        signer.rsa.sign(padding, &random, bytes, &mut signature).unwrap();
        signature
    };
    let signature = match by {
        "RS256" => rsa(&RSA_PKCS1_SHA256),
        "PS256" => rsa(&RSA_PSS_SHA256),
        "ES256" => signer.ec.sign(&random, bytes).unwrap().as_ref().to_vec(),
        "EdDSA" => signer.ed.sign(bytes).as_ref().to_vec(),
        // With what everybody knows as if it were a secret: the public key.
        "HS256" => {
            let public: RsaPublicKeyComponents<Vec<u8>> = signer.rsa.public_key().into();
            hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &public.n), bytes).as_ref().to_vec()
        }
        _ => Vec::new(),
    };
    format!("{message}.{}", B64.encode(&signature))
}

fn good(claims: &Value) -> String {
    signed(&json!({"alg": "ES256", "kid": "e", "typ": "JWT"}), claims, "ES256")
}

fn verified(token: &str) -> Result<Claims, Refused> {
    verify(token, &SIGNER.keys, &policy(), None, at(NOW))
}

#[test]
fn each_algorithm_that_is_taken_is_taken_with_a_key_of_its_kind() {
    for (alg, kid) in [("RS256", "r"), ("PS256", "r"), ("ES256", "e"), ("EdDSA", "o")] {
        for head in
            [json!({"alg": alg, "kid": kid}), json!({"alg": alg}), json!({"alg": alg, "typ": "at+JWT"})]
        {
            let token = signed(&head, &claims(), alg);
            let found = verified(&token).unwrap();
            assert_eq!((&*found.subject, found.expires), ("u-1", at(NOW + 300)), "{head}");
        }
    }
}

#[test]
fn what_is_signed_otherwise_is_refused() {
    for (head, by, why) in [
        (json!({"alg": "none"}), "", Refused::Algorithm),
        (json!({"alg": "None"}), "", Refused::Algorithm),
        (json!({"alg": "HS256", "kid": "r"}), "HS256", Refused::Algorithm),
        (json!({"alg": "HS256", "kid": "s"}), "HS256", Refused::Algorithm),
        (json!({"alg": "RS512", "kid": "r"}), "RS256", Refused::Algorithm),
        (json!({"alg": "RS256", "kid": "e"}), "ES256", Refused::WrongKey),
        (json!({"alg": "ES256", "kid": "r"}), "RS256", Refused::WrongKey),
        (json!({"alg": "ES256", "kid": "o"}), "EdDSA", Refused::WrongKey),
        (json!({"alg": "RS256", "kid": "r"}), "PS256", Refused::Signature),
        (json!({"alg": "ES256", "kid": "e"}), "", Refused::Signature),
        (json!({"alg": "RS256", "kid": "s"}), "RS256", Refused::UnknownKey),
        (json!({"alg": "RS256", "kid": "enc"}), "RS256", Refused::UnknownKey),
        (json!({"alg": "RS256", "kid": "weak"}), "RS256", Refused::UnknownKey),
        (json!({"alg": "RS256", "kid": "rs512"}), "RS256", Refused::UnknownKey),
        (json!({"alg": "RS256", "kid": 7}), "RS256", Refused::Malformed),
        (json!({"kid": "r"}), "RS256", Refused::Malformed),
        (json!({"alg": "ES256", "kid": "e", "crit": ["exp"]}), "ES256", Refused::Critical),
        (json!({"alg": "ES256", "kid": "e", "typ": "logout+jwt"}), "ES256", Refused::Type),
        (json!({"alg": "ES256", "kid": "e", "typ": "dpop+jwt"}), "ES256", Refused::Type),
    ] {
        assert_eq!(verified(&signed(&head, &claims(), by)), Err(why), "{head} by {by}");
    }
    // A token that brings its own key is not believed.
    let other = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let point = other.public_key().as_ref();
    let jwk =
        json!({"kty": "EC", "crv": "P-256", "x": B64.encode(&point[1..33]), "y": B64.encode(&point[33..])});
    let message = format!("{}.{}", part(&json!({"alg": "ES256", "kid": "e", "jwk": jwk})), part(&claims()));
    let signature = other.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
    let token = format!("{message}.{}", B64.encode(signature.as_ref()));
    assert_eq!(verified(&token), Err(Refused::Signature));
}

/// A token as it is, but for one claim; `null` takes it away.
fn with(name: &str, value: Value) -> String {
    let mut changed = claims();
    match value {
        Value::Null => _ = changed.as_object_mut().unwrap().remove(name),
        value => changed[name] = value,
    }
    good(&changed)
}

#[test]
fn every_claim_that_decides_is_looked_at() {
    for (name, value, why) in [
        ("iss", json!("https://idp.example/realms/b"), Refused::Issuer),
        ("iss", json!("https://idp.example/realms/a/"), Refused::Issuer),
        ("iss", Value::Null, Refused::Claim("iss")),
        ("aud", json!("other"), Refused::Audience),
        ("aud", json!(["other"]), Refused::Audience),
        ("aud", json!([]), Refused::Audience),
        ("aud", json!(["railyard", 7]), Refused::Claim("aud")),
        ("aud", json!(vec!["railyard"; 33]), Refused::Claim("aud")),
        ("aud", Value::Null, Refused::Claim("aud")),
        ("aud", json!(["railyard", "other"]), Refused::Party),
        ("azp", json!("other"), Refused::Party),
        ("azp", json!(7), Refused::Claim("azp")),
        ("client_id", json!("other"), Refused::Party),
        ("cid", json!("other"), Refused::Party),
        ("exp", json!(NOW - 60), Refused::Expired),
        ("exp", Value::Null, Refused::Claim("exp")),
        ("exp", json!("tomorrow"), Refused::Claim("exp")),
        ("exp", json!(1e300), Refused::Claim("exp")),
        ("exp", json!(-1), Refused::Claim("exp")),
        ("exp", json!(NOW + 90_000), Refused::LongLived),
        ("nbf", json!(NOW + 61), Refused::Early),
        ("nbf", json!(true), Refused::Claim("nbf")),
        ("iat", json!(NOW + 61), Refused::Future),
        ("iat", Value::Null, Refused::Claim("iat")),
        ("iat", json!(NOW + 30), Refused::LongLived),
        ("cnf", json!({"jkt": "x"}), Refused::Bound),
        ("events", json!({"http://schemas.openid.net/event/backchannel-logout": {}}), Refused::Type),
        ("sub", Value::Null, Refused::Claim("sub")),
        ("sub", json!(""), Refused::Claim("sub")),
        ("sub", json!("x".repeat(256)), Refused::Claim("sub")),
        ("sub", json!("a\nb"), Refused::Claim("sub")),
    ] {
        // One that is issued later than it ends, within what clocks may be apart.
        let token = match (name, why) {
            ("iat", Refused::LongLived) => {
                let mut changed = claims();
                (changed["iat"], changed["exp"]) = (value.clone(), json!(NOW + 20));
                good(&changed)
            }
            _ => with(name, value.clone()),
        };
        assert_eq!(verified(&token), Err(why), "{name}: {value}");
    }
    for (name, value) in [
        ("aud", json!(["railctl"])),
        ("azp", json!("railctl")),
        ("exp", json!(NOW - 59)),
        ("exp", json!(NOW as f64 + 0.5)),
        ("nbf", json!(NOW + 60)),
        ("iat", json!(NOW + 60)),
        ("nonce", Value::Null),
    ] {
        assert!(verified(&with(name, value.clone())).is_ok(), "{name}: {value}");
    }
    let mut several = claims();
    (several["aud"], several["azp"]) = (json!(["railyard", "account"]), json!("railyard"));
    assert!(verified(&good(&several)).is_ok());
}

#[test]
fn the_answer_to_a_sign_on_has_its_nonce() {
    let answer = |token: &str, nonce| verify(token, &SIGNER.keys, &policy(), Some(nonce), at(NOW)).map(drop);
    assert_eq!(answer(&good(&claims()), "n"), Ok(()));
    assert_eq!(answer(&good(&claims()), "m"), Err(Refused::Nonce));
    assert_eq!(answer(&with("nonce", Value::Null), "n"), Err(Refused::Nonce));
    assert_eq!(answer(&with("nonce", json!(["n"])), "n"), Err(Refused::Nonce));
}

#[test]
fn what_is_no_token_is_refused_before_anything_is_worked_out() {
    let token = good(&claims());
    let (head, _) = token.split_once('.').unwrap();
    for (text, why) in [
        (String::new(), Refused::Malformed),
        ("a.b".to_owned(), Refused::Malformed),
        ("rail-user-v1.0011223344556677.aa".to_owned(), Refused::Malformed),
        (format!("{token}="), Refused::Malformed),
        (format!("{token}.a.b"), Refused::Malformed),
        (format!(" {token}"), Refused::Malformed),
        (format!("{head}.{}.", B64.encode(b"7")), Refused::Signature),
        (format!("{}{token}", "x".repeat(MAX_TOKEN)), Refused::TooLong),
        (format!("{}.e30.e30", B64.encode(&[b'['; 2000])), Refused::Malformed),
    ] {
        assert_eq!(verified(&text), Err(why), "{text:.40}");
    }
    let listed = signed(&json!({"alg": "ES256", "kid": "e"}), &json!(["a"]), "ES256");
    assert_eq!(verified(&listed), Err(Refused::Malformed), "claims are an object");
}

#[test]
fn clocks_may_be_apart_only_by_so_much_whatever_the_site_says() {
    let generous = Policy { skew: Duration::from_secs(86_400), ..policy() };
    let late = |seconds| verify(&good(&claims()), &SIGNER.keys, &generous, None, at(NOW + 300 + seconds));
    assert!(late(299).is_ok());
    assert_eq!(late(300), Err(Refused::Expired));
}

#[test]
fn sets_of_keys_have_bounds_and_what_cannot_be_used_is_passed_over() {
    assert!(SIGNER.keys.has("r") && SIGNER.keys.has("e") && SIGNER.keys.has("o"));
    assert!(["s", "enc", "weak", "p384", "rs512"].iter().all(|kid| !SIGNER.keys.has(kid)));
    let read = |set: Value| Keys::read(set.to_string().as_bytes());
    assert_eq!(read(json!({"keys": []})), Err(KeysError::None));
    assert_eq!(read(json!({"keys": SIGNER.set["keys"].as_array().unwrap()[3..]})), Err(KeysError::None));
    assert_eq!(read(json!({"keys": vec![json!({}); 65]})), Err(KeysError::TooMany));
    for bad in [&b""[..], b"[]", b"{}", b"{\"keys\":7}", b"\xff"] {
        assert_eq!(Keys::read(bad), Err(KeysError::Malformed));
    }
}

fn identity(policy: &Policy, changes: &[(&str, Value)]) -> Result<Identity, GrantError> {
    let mut all = claims();
    changes.iter().for_each(|(name, value)| all[*name] = value.clone());
    policy.identity(&verified(&good(&all)).unwrap())
}

#[test]
fn the_first_grant_decides_the_tenant_and_others_of_it_add_their_roles() {
    let policy = policy();
    let of = |groups: Value| identity(&policy, &[("groups", groups)]);
    let user =
        |tenant: &str, roles: &[Role]| Ok(Identity::user(tenant, "ann", roles.iter().copied()).unwrap());
    assert_eq!(of(json!(["/ml"])), user("nlp", &[Role::User]));
    assert_eq!(of(json!("/ml")), user("nlp", &[Role::User]));
    assert_eq!(of(json!(["guests", "/ml", "cn=leads,dc=x"])), user("nlp", &[Role::User, Role::TenantAdmin]));
    assert_eq!(of(json!(["guests"])), user("guest", &[Role::Viewer]));
    assert_eq!(of(json!(["guests", "rail-admins"])), Ok(Identity::admin("ann").unwrap()));
    for none in [json!([]), json!(["ml", "/ML", "/ml "]), json!(7), json!({"/ml": true}), json!([["/ml"]])] {
        assert_eq!(of(none.clone()), Err(GrantError::NoGrant("groups".to_owned())), "{none}");
    }
    let nested = Policy { groups_claim: "/realm_access/roles".to_owned(), ..policy.clone() };
    let found = identity(&nested, &[("realm_access", json!({"roles": ["x", "rail-admins"]}))]);
    assert_eq!(found, Ok(Identity::admin("ann").unwrap()));
}

#[test]
fn a_name_is_one_that_a_user_can_have_or_there_is_none() {
    let policy = policy();
    for bad in [json!(""), json!("ann@x"), json!("a/b"), json!(".a"), json!("x".repeat(129)), json!("änn")] {
        let found = identity(&policy, &[("preferred_username", bad.clone())]);
        assert_eq!(found, Err(GrantError::BadName("preferred_username".to_owned())), "{bad}");
    }
    let found = identity(&policy, &[("preferred_username", json!(7))]);
    assert_eq!(found, Err(GrantError::NoName("preferred_username".to_owned())));
    let mail = Policy { name_claim: "email".to_owned(), name_suffix: "@example.com".to_owned(), ..policy };
    let mailed = |address: &str, verified: Value| {
        identity(&mail, &[("email", json!(address)), ("email_verified", verified)])
            .map(|found| found.to_string())
    };
    assert_eq!(mailed("ann@example.com", json!(true)).as_deref(), Ok("tenant/nlp/user/ann"));
    assert_eq!(mailed("ann@example.com", json!("true")), Err(GrantError::Unverified));
    assert_eq!(mailed("ann@example.com", json!(false)), Err(GrantError::Unverified));
    for other in ["ann@example.com.evil", "ann@evil", "ann"] {
        assert!(matches!(mailed(other, json!(true)), Err(GrantError::OtherSuffix { .. })), "{other}");
    }
    assert!(matches!(mailed("a@evil@example.com", json!(true)), Err(GrantError::BadName(_))));
    let granted = Policy {
        groups_claim: "email".to_owned(),
        grants: vec!["ann@example.com=admin".parse().unwrap()],
        ..self::policy()
    };
    let of = |verified: Value| {
        identity(&granted, &[("email", json!("ann@example.com")), ("email_verified", verified)])
    };
    assert_eq!(of(json!(false)), Err(GrantError::Unverified));
    assert_eq!(of(json!(true)), Ok(Identity::admin("ann").unwrap()));
}

#[test]
fn grants_are_written_as_they_are_read() {
    for text in ["a=admin", "cn=x,ou=y=user@nlp", "g=tenant-admin@t", "g=viewer@t"] {
        assert_eq!(text.parse::<Grant>().unwrap().to_string(), text);
    }
    let long = format!("{}=admin", "x".repeat(257));
    for bad in [
        "",
        "a",
        "=admin",
        "a=",
        "a=admin@t",
        "a=user",
        "a=node@t",
        "a=switch",
        "a=user@",
        "a=user@a/b",
        &long,
    ] {
        assert_eq!(bad.parse::<Grant>(), Err(GrantError::Malformed), "{bad}");
    }
}

proptest! {
    #[test]
    fn no_text_is_a_good_token(text in "\\PC{0,200}", bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        prop_assert!(verified(&text).is_err());
        let parts = format!("{}.{}.{}", B64.encode(&bytes), B64.encode(text.as_bytes()), B64.encode(&bytes));
        prop_assert!(verified(&parts).is_err());
        let _ = Keys::read(&bytes);
        let _ = Document::read(text.as_bytes(), ISSUER);
        let _ = text.parse::<Grant>();
    }

    #[test]
    fn a_token_with_one_other_character_is_refused(at in 0_usize..10_000, other in "[A-Za-z0-9_.-]") {
        let token = good(&claims());
        let at = at % token.len();
        let mut changed = token.clone();
        changed.replace_range(at..=at, &other);
        prop_assume!(changed != token);
        prop_assert!(verified(&changed).is_err());
    }

    #[test]
    fn whoever_is_let_in_has_a_grant_that_names_their_group(groups in prop::collection::vec("(/ml|guests|rail-admins|x|y)", 0..5)) {
        let found = identity(&policy(), &[("groups", json!(groups))]);
        let granted = groups.iter().any(|group| ["/ml", "guests", "rail-admins"].contains(&group.as_str()));
        prop_assert_eq!(found.is_ok(), granted);
        let admin = matches!(found, Ok(Identity::Admin { .. }));
        prop_assert_eq!(admin, groups.iter().any(|group| group == "rail-admins"));
    }
}
