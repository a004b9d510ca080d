//! What a caller takes: media types and encodings of answers by their weights (RFC 9110, 12.5), and gzip.

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt;
use std::io::Write;

/// Shorter answers are not worth the bytes around them.
const LEAST: u64 = 512;
/// Longer answers go out as they are: nobody waits for the processor of a controller that long.
const MOST: u64 = 16 * 1024 * 1024;
/// A weight of 1, in thousandths.
const FULL: u16 = 1000;

/// One entry of an `Accept` or `Accept-Encoding` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// In lower case: `application/json`, `gzip`, `*/*`.
    pub name: String,
    /// What follows it, names in lower case, less its weight.
    pub parameters: Vec<(String, String)>,
    /// The weight from 0 (never) to 1000.
    pub weight: u16,
}

impl Offer {
    /// The value of a parameter.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The entries of a header; what cannot be read is passed over.
#[must_use]
pub fn offers(headers: &HeaderMap, header: &HeaderName) -> Vec<Offer> {
    let texts = headers.get_all(header).into_iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).filter_map(offer).collect()
}

fn offer(text: &str) -> Option<Offer> {
    let mut pieces = text.split(';').map(str::trim);
    let name = pieces.next().filter(|name| !name.is_empty())?.to_ascii_lowercase();
    let mut made = Offer { name, parameters: Vec::new(), weight: FULL };
    for piece in pieces {
        let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().trim_matches('"'));
        if name == "q" {
            made.weight = weight(value)?;
        } else {
            made.parameters.push((name, value.to_owned()));
        }
    }
    Some(made)
}

/// `0`, `1`, or up to three digits behind the point.
fn weight(text: &str) -> Option<u16> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > 3 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part: u16 = format!("{part:0<3}").parse().ok()?;
    match whole {
        "0" => Some(part),
        "1" if part == 0 => Some(FULL),
        _ => None,
    }
}

/// Whether a caller would rather have an answer packed by gzip than as it is.
#[must_use]
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    let offers = offers(headers, &header::ACCEPT_ENCODING);
    let weight = |name: &str| offers.iter().find(|offer| offer.name == name).map(|offer| offer.weight);
    let packed = weight("gzip").or_else(|| weight("x-gzip")).or_else(|| weight("*")).unwrap_or(0);
    packed > 0 && packed >= weight("identity").unwrap_or(0)
}

/// Middleware: packs answers that are whole and worth it, for callers who take that. Streams go out as they are, line by line.
pub async fn pack(request: Request, next: Next) -> Response {
    let takes = takes_gzip(request.headers());
    let mut response = next.run(request).await;
    let packed = response.headers().contains_key(header::CONTENT_ENCODING);
    let Some(size) = response.body().size_hint().exact().filter(|size| !packed && *size > 0) else {
        return response;
    };
    // A cache must not give one caller what another one takes.
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if !takes || !(LEAST..=MOST).contains(&size) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // Its size is known: it is in memory already.
    let Ok(bytes) = body.collect().await.map(http_body_util::Collected::to_bytes) else {
        return Response::from_parts(parts, Body::empty());
    };
    let Ok(packed) = gzip(&bytes) else { return Response::from_parts(parts, Body::from(bytes)) };
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    Response::from_parts(parts, Body::from(packed))
}

/// Bytes packed by gzip, fast.
///
/// # Errors
/// None in practice: it is done in memory.
pub fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::get;
    use std::io::Read;
    use tower::ServiceExt;

    fn headers(name: HeaderName, text: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(text).unwrap())])
    }

    #[test]
    fn gzip_is_taken_by_weight() {
        for (text, takes) in [
            ("gzip", true),
            ("GZIP", true),
            ("br, gzip;q=0.5", true),
            ("*", true),
            ("x-gzip", true),
            ("gzip;q=0.001", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000, *", false),
            ("*;q=0", false),
            ("identity, gzip;q=0.5", false),
            ("identity;q=0.5, gzip;q=1.0", true),
            ("br", false),
            ("gzip;q=2", false),
            ("gzip;q=-1", false),
            ("", false),
        ] {
            assert_eq!(takes_gzip(&headers(header::ACCEPT_ENCODING, text)), takes, "{text}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn offers_have_names_parameters_and_weights() {
        let read = offers(
            &headers(header::ACCEPT, "Text/Plain; Version=\"0.0.4\";q=0.25 ,, */*;q=0.1, x;q=z"),
            &header::ACCEPT,
        );
        assert_eq!(read.len(), 2, "{read:?}");
        assert_eq!((read[0].name.as_str(), read[0].weight), ("text/plain", 250));
        assert_eq!((read[0].parameter("version"), read[0].parameter("q")), (Some("0.0.4"), None));
        assert_eq!((read[1].name.as_str(), read[1].weight), ("*/*", 100));
    }

    async fn ask(path: &str, encoding: Option<&str>) -> Response {
        let long = "a line of an answer\n".repeat(200);
        let streamed =
            || async { Body::from_stream(tokio_stream::iter([Ok::<_, std::io::Error>("x".repeat(4096))])) };
        let router = Router::new()
            .route("/long", get(move || async { long }))
            .route("/short", get(|| async { "ok" }))
            .route("/nothing", get(|| async { StatusCode::NO_CONTENT }))
            .route("/stream", get(streamed))
            .layer(axum::middleware::from_fn(pack));
        let mut request = Request::get(path);
        if let Some(encoding) = encoding {
            request = request.header(header::ACCEPT_ENCODING, encoding);
        }
        router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn whole_answers_that_are_long_are_packed_for_who_takes_it() {
        for (path, encoding, packed) in [
            ("/long", Some("gzip, deflate, br"), true),
            ("/long", Some("identity"), false),
            ("/long", None, false),
            ("/short", Some("gzip"), false),
            ("/nothing", Some("gzip"), false),
            ("/stream", Some("gzip"), false),
        ] {
            let response = ask(path, encoding).await;
            let named = response.headers().get(header::CONTENT_ENCODING).map(|value| value.as_bytes());
            assert_eq!(named == Some(b"gzip"), packed, "{path} {encoding:?}");
            let varies = response.headers().contains_key(header::VARY);
            assert_eq!(varies, ["/long", "/short"].contains(&path), "{path}");
        }
        let bytes = ask("/long", Some("gzip")).await.into_body().collect().await.unwrap().to_bytes();
        let mut text = String::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
        assert_eq!(text, "a line of an answer\n".repeat(200));
    }
}
