//! What a provider says of itself, and where it sends browsers.

use super::*;

fn document() -> Value {
    json!({
        "issuer": ISSUER,
        "authorization_endpoint": "https://idp.example/auth",
        "token_endpoint": "https://idp.example/token",
        "jwks_uri": "https://idp.example:8443/keys?a=b",
        "device_authorization_endpoint": "https://idp.example/device",
        "code_challenge_methods_supported": ["plain", "S256"],
        "authorization_response_iss_parameter_supported": true,
    })
}

fn read(document: &Value) -> Result<Document, DocumentError> {
    Document::read(document.to_string().as_bytes(), ISSUER)
}

#[test]
fn a_document_is_of_its_issuer_and_all_it_names_is_https() {
    let found = read(&document()).unwrap();
    assert_eq!((found.keys.port, &*found.keys.path), (8443, "/keys?a=b"));
    assert!(found.device.is_some() && found.names_issuer && !found.secret_in_form);
    for (name, value, why) in [
        ("issuer", json!("https://idp.example/realms/b"), DocumentError::Issuer),
        ("issuer", Value::Null, DocumentError::Issuer),
        ("token_endpoint", json!("http://idp.example/token"), DocumentError::Endpoint("token_endpoint")),
        ("token_endpoint", json!("https://a@idp.example/"), DocumentError::Endpoint("token_endpoint")),
        ("jwks_uri", Value::Null, DocumentError::Endpoint("jwks_uri")),
        (
            "authorization_endpoint",
            json!("javascript:alert(1)"),
            DocumentError::Endpoint("authorization_endpoint"),
        ),
        ("code_challenge_methods_supported", json!(["plain"]), DocumentError::NoPkce),
    ] {
        let mut changed = document();
        changed[name] = value;
        assert_eq!(read(&changed), Err(why), "{name}");
    }
    let mut post = document();
    post["token_endpoint_auth_methods_supported"] = json!(["client_secret_post"]);
    post["device_authorization_endpoint"] = json!("http://idp.example/device");
    let found = read(&post).unwrap();
    assert!(found.secret_in_form && found.device.is_none());
    for bad in [&b"[]"[..], b"", b"\xff", b"7"] {
        assert_eq!(Document::read(bad, ISSUER), Err(DocumentError::Malformed));
    }
}

#[test]
fn an_issuer_is_an_https_url_and_its_document_lies_below_it() {
    let path = |issuer| crate::document::place(issuer).map(|target| target.path);
    assert_eq!(path(ISSUER).as_deref(), Some("/realms/a/.well-known/openid-configuration"));
    assert_eq!(path("https://idp.example/").as_deref(), Some("/.well-known/openid-configuration"));
    for bad in ["http://idp.example", "idp.example", "https://idp.example/?a", "https://idp.example/#a", ""] {
        assert_eq!(path(bad), None, "{bad}");
    }
}

#[test]
fn a_browser_is_sent_with_a_challenge_and_never_with_the_verifier() {
    // RFC 7636, appendix B.
    let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    assert_eq!(code::challenge(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    let sign_on = code::SignOn {
        client: "rail yard",
        redirect: "https://rail.example:7443/ui/login/callback",
        scopes: "openid groups",
        state: "s",
        nonce: "n",
        verifier,
    };
    let url = code::url(&read(&document()).unwrap(), sign_on);
    assert!(url.starts_with(
        "https://idp.example/auth?response_type=code&client_id=rail%20yard&redirect_uri=https%3A%2F%2F"
    ));
    assert!(
        url.contains("scope=openid%20groups&state=s&nonce=n&code_challenge=E9M") && !url.contains(verifier)
    );
    assert_eq!((code::secret().unwrap().len(), code::form(&[("a&", "ü=")]).as_str()), (43, "a%26=%C3%BC%3D"));
    assert_ne!(code::secret(), code::secret());
}
