//! The fabric for the pages' map: what `GetTopology` tells, to whom it tells it, in the form that [`crate::map`] says.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use aws_lc_rs::digest;
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::any,
};
use controller_core::MapView;
use data_encoding::HEXLOWER;
use proto_rpc::{
    ErrorClass, RpcError,
    negotiate::{gzip, takes_gzip},
};
use tokio::sync::Mutex;

use super::allowed::not_allowed;
use crate::{authz::Rpc, context::Context, map};

/// Where it is: among the pages, because no other program reads it.
const PATH: &str = "/ui/map";

/// A map is given to all who ask so soon after it was made, and for so many times what it took to make it: however many pages are open,
/// they cost no more than a tenth of a core.
const FRESH: Duration = Duration::from_millis(100);
const TIMES: u32 = 10;

/// The map that was made last. Whoever asks while one is made waits for it.
#[derive(Clone)]
struct Maps {
    context: Context,
    last: Arc<Mutex<Option<Made>>>,
}

/// A map, and until when it is given to all.
struct Made {
    until: Instant,
    map: Arc<Map>,
}

/// A map as it goes out.
struct Map {
    /// Weak, because the same may go out packed or as it is.
    tag: String,
    plain: Bytes,
    packed: Bytes,
}

/// The route of the map.
pub(super) fn router<S: Clone + Send + Sync + 'static>(context: Context) -> Router<S> {
    Router::new().route(PATH, any(serve)).with_state(Maps { context, last: Arc::default() })
}

async fn serve(State(maps): State<Maps>, request: Request) -> Response {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return not_allowed(&[Method::GET, Method::HEAD]);
    }
    let (parts, _) = request.into_parts();
    let guard = &maps.context.guard;
    let _turn = match guard.let_in(Rpc::GetTopology, &parts.extensions, &parts.headers).await {
        Ok((_, turn)) => turn,
        Err(error) => return error.into_response(),
    };
    match maps.current().await {
        Ok(map) => answer(&map, &parts.headers),
        Err(error) => error.into_response(),
    }
}

impl Maps {
    async fn current(&self) -> Result<Arc<Map>, RpcError> {
        let mut last = self.last.lock().await;
        if let Some(made) = last.as_ref().filter(|made| Instant::now() < made.until) {
            return Ok(Arc::clone(&made.map));
        }
        let begun = Instant::now();
        // The loop fills the columns; all else is done beside it.
        let view = self.context.query(|state, _| state.map()).await?;
        let made = tokio::task::spawn_blocking(move || Map::of(&view)).await;
        let made =
            made.map_err(|error| RpcError::new(ErrorClass::Internal, "NO_MAP", error.to_string()))??;
        let map = Arc::new(made);
        let until = begun + FRESH.max(begun.elapsed() * TIMES);
        *last = Some(Made { until, map: Arc::clone(&map) });
        Ok(map)
    }
}

impl Map {
    fn of(view: &MapView) -> Result<Self, RpcError> {
        let plain = map::encode(view);
        let plain =
            plain.map_err(|error| RpcError::new(ErrorClass::TooLarge, "MAP_TOO_LARGE", error.to_string()))?;
        Self::packed(plain).map_err(|error| RpcError::new(ErrorClass::Internal, "NO_MAP", error.to_string()))
    }

    fn packed(plain: Vec<u8>) -> std::io::Result<Self> {
        let tag = format!("W/\"{}\"", HEXLOWER.encode(digest::digest(&digest::SHA256, &plain).as_ref()));
        let packed = gzip(&plain)?.into();
        Ok(Self { tag, plain: plain.into(), packed })
    }
}

/// Who has the same already is told so, and nothing more.
fn answer(map: &Map, headers: &HeaderMap) -> Response {
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut response = if known.split(',').any(|known| known.trim() == map.tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else if takes_gzip(headers) {
        let mut response = Response::new(Body::from(map.packed.clone()));
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        response
    } else {
        Response::new(Body::from(map.plain.clone()))
    };
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&map.tag) {
        headers.insert(header::ETAG, tag);
    }
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_not_sent_again() {
        let map = Map::packed(vec![1, 2, 3]).unwrap();
        let asked = |name, text: &str| {
            answer(&map, &HeaderMap::from_iter([(name, HeaderValue::from_str(text).unwrap())]))
        };
        let first = answer(&map, &HeaderMap::new());
        assert_eq!(
            (first.status(), &first.headers()[header::CACHE_CONTROL]),
            (StatusCode::OK, &HeaderValue::from_static("no-store"))
        );
        assert_eq!(first.headers()[header::CONTENT_TYPE], "application/octet-stream");
        assert!(!first.headers().contains_key(header::CONTENT_ENCODING));
        assert_eq!(asked(header::ACCEPT_ENCODING, "gzip").headers()[header::CONTENT_ENCODING], "gzip");
        for known in [map.tag.clone(), format!("\"other\", {}", map.tag)] {
            let again = asked(header::IF_NONE_MATCH, &known);
            assert_eq!(
                (again.status(), &again.headers()[header::ETAG]),
                (StatusCode::NOT_MODIFIED, &first.headers()[header::ETAG])
            );
        }
        assert_eq!(asked(header::IF_NONE_MATCH, "\"other\"").status(), StatusCode::OK);
        assert_ne!(Map::packed(vec![1, 2]).unwrap().tag, map.tag);
    }
}
