//! Which bodies are taken: JSON as it is. A body without a type is taken for JSON; one of another type is refused, even if it would
//! read as JSON: a page in a browser that has somebody's certificate may send what a form sends, but no JSON unless it is let.

use axum::http::{HeaderMap, HeaderName, header};
use proto_rpc::{ErrorClass, RpcError};

/// What the caller is to do instead.
const ADVICE: &str = "send JSON with the header Content-Type: application/json (curl --json, or curl -H 'Content-Type: application/json' -d)";

/// Whether a body under these headers is one that is taken.
///
/// # Errors
/// [`ErrorClass::MediaType`] if the body is in a format that is not accepted.
pub fn check(headers: &HeaderMap) -> Result<(), RpcError> {
    let refused = |text| Err(RpcError::new(ErrorClass::MediaType, "UNSUPPORTED_MEDIA_TYPE", text));
    if let Some(encoding) = text(headers, &header::CONTENT_ENCODING)
        && !encoding.eq_ignore_ascii_case("identity")
    {
        return refused(format!("a body of Content-Encoding {encoding} is not taken; send it as it is"));
    }
    match text(headers, &header::CONTENT_TYPE) {
        Some(kind) if !is_json(&kind) => refused(format!("a body of type {kind} is not taken; {ADVICE}")),
        _ => Ok(()),
    }
}

/// A header's beginning, as far as it is of use in an answer.
fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?;
    let text: String = String::from_utf8_lossy(value.as_bytes()).chars().take(100).collect();
    (!text.is_empty()).then_some(text)
}

fn is_json(kind: &str) -> bool {
    let mut pieces = kind.split(';').map(str::trim);
    let name = pieces.next().unwrap_or_default().to_ascii_lowercase();
    let json = name == "application/json" || (name.starts_with("application/") && name.ends_with("+json"));
    // JSON is UTF-8, whatever else is said about it.
    let charset = pieces.filter_map(|piece| piece.split_once('='));
    let mut charset = charset.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    json && charset.all(|(_, value)| {
        let value = value.trim().trim_matches('"');
        ["utf-8", "utf8", "us-ascii"].iter().any(|known| known.eq_ignore_ascii_case(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn json_is_taken_and_other_types_are_told_what_to_send() {
        for (kind, taken) in [
            ("application/json", true),
            ("Application/JSON; Charset=\"UTF-8\"", true),
            ("application/merge-patch+json", true),
            ("application/json;charset=utf8", true),
            ("", true),
            ("application/json; charset=utf-16", false),
            ("application/x-www-form-urlencoded", false),
            ("text/plain", false),
            ("text/json", false),
            ("multipart/form-data; boundary=x", false),
            ("application/yaml", false),
            ("application/jsonx", false),
        ] {
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(kind))]);
            let checked = check(&headers);
            assert_eq!(checked.is_ok(), taken, "{kind}");
            if let Err(error) = checked {
                assert_eq!(error.class, ErrorClass::MediaType);
                assert!(
                    error.message.contains(kind) && error.message.contains("Content-Type: application/json")
                );
            }
        }
        assert!(check(&HeaderMap::new()).is_ok());
        for (encoding, taken) in [("identity", true), ("gzip", false)] {
            let value = HeaderValue::from_static(encoding);
            let headers = HeaderMap::from_iter([(header::CONTENT_ENCODING, value)]);
            assert_eq!(check(&headers).is_ok(), taken, "{encoding}");
        }
    }
}
