//! Bodies of requests, read whole within a limit, so that who sends too much hears so.
//!
//! An answer that comes while the caller still sends is lost to many clients: over HTTP/2 they see a stream that is reset, over
//! HTTP/1 a connection. So the rest is read and dropped first, for a while; nothing of it is kept.

use crate::status::{ErrorClass, RpcError};
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError};
use std::time::Duration;

/// The bytes and the time for which a caller that has sent too much is listened to.
const DROPPED: usize = 128 * 1024 * 1024;
const LISTENED: Duration = Duration::from_secs(10);

/// The whole body.
///
/// # Errors
/// [`ErrorClass::TooLarge`] where it has more than `most` bytes, `Cancelled` where it broke off.
pub async fn read(headers: &HeaderMap, mut body: Body, most: usize) -> Result<Bytes, RpcError> {
    let too_large = || {
        let text = format!("the body is larger than {most} bytes");
        RpcError::new(ErrorClass::TooLarge, "MESSAGE_TOO_LARGE", text)
    };
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > most {
        // Who waits for a word before it sends has sent nothing.
        if !headers.contains_key(header::EXPECT) {
            drop_rest(&mut body).await;
        }
        return Err(too_large());
    }
    let mut first = None;
    let mut all = Vec::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        length += data.len();
        if length > most {
            drop_rest(&mut body).await;
            return Err(too_large());
        }
        // Most bodies come in one piece, which is not copied.
        match first.take() {
            None if all.is_empty() => first = Some(data),
            before => {
                all.extend_from_slice(&before.unwrap_or_default());
                all.extend_from_slice(&data);
            }
        }
    }
    Ok(first.unwrap_or_else(|| all.into()))
}

fn broken(error: axum::Error) -> RpcError {
    let error = error.into_inner();
    if error.is::<LengthLimitError>() {
        let text = "the body is larger than what is taken from a caller without certificate or token";
        return RpcError::new(ErrorClass::TooLarge, "MESSAGE_TOO_LARGE", text);
    }
    RpcError::new(ErrorClass::Cancelled, "BROKEN_BODY", format!("the body broke off: {error}"))
}

async fn drop_rest(body: &mut Body) {
    let rest = async {
        let mut dropped = 0;
        while dropped < DROPPED {
            let Some(Ok(frame)) = body.frame().await else { return };
            dropped += frame.data_ref().map_or(0, Bytes::len);
        }
    };
    // Who still sends then has had its chance.
    let _ = tokio::time::timeout(LISTENED, rest).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A body of so many pieces, and how many were taken.
    fn pieces(count: usize, piece: &'static [u8]) -> (Body, Arc<AtomicUsize>) {
        let taken = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&taken);
        let pieces = (0..count).map(move |_| {
            counts.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Bytes::from_static(piece))
        });
        (Body::from_stream(tokio_stream::iter(pieces)), taken)
    }

    #[tokio::test]
    async fn a_body_within_the_limit_is_whole() {
        let none = HeaderMap::new();
        for (count, expected) in [(0, ""), (1, "abc"), (2, "abcabc"), (3, "abcabcabc")] {
            let read = read(&none, pieces(count, b"abc").0, 9).await.unwrap();
            assert_eq!(read, expected);
        }
        assert_eq!(read(&none, Body::from("abc"), 3).await.unwrap(), "abc");
        assert_eq!(read(&none, Body::empty(), 0).await.unwrap(), "");
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_of_one_that_is_too_long_is_dropped_within_bounds() {
        let none = HeaderMap::new();
        let (body, taken) = pieces(1000, b"abc");
        assert_eq!(read(&none, body, 9).await.unwrap_err().class, ErrorClass::TooLarge);
        assert_eq!(taken.load(Ordering::Relaxed), 1000);
        static PIECE: [u8; 1 << 20] = [0; 1 << 20];
        let (body, taken) = pieces(1000, &PIECE);
        assert_eq!(read(&none, body, 9).await.unwrap_err().class, ErrorClass::TooLarge);
        assert_eq!(taken.load(Ordering::Relaxed), 1 + DROPPED / PIECE.len());
        // One that sends nothing more and does not end.
        let silent = Body::from_stream(tokio_stream::StreamExt::chain(
            tokio_stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"abcd"))]),
            tokio_stream::pending(),
        ));
        assert_eq!(read(&none, silent, 3).await.unwrap_err().class, ErrorClass::TooLarge);
    }

    #[tokio::test]
    async fn who_waits_for_a_word_is_answered_at_once() {
        let expects = HeaderMap::from_iter([(header::EXPECT, HeaderValue::from_static("100-continue"))]);
        assert_eq!(read(&expects, Body::from("abcd"), 3).await.unwrap_err().class, ErrorClass::TooLarge);
        assert_eq!(read(&expects, Body::from("abc"), 3).await.unwrap(), "abc");
    }
}
