//! The fabric for the pages' map: what `GetTopology` tells, to whom it tells it, in the form that [`crate::map`] says.

use aws_lc_rs::digest;
use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use data_encoding::HEXLOWER;
use proto_rpc::{ErrorClass, RpcError};

use super::{Rest, allowed::not_allowed};
use crate::{authz::Rpc, map};

/// Where it is: among the pages, because no other program reads it.
pub(super) const PATH: &str = "/ui/map";

pub(super) async fn serve(State(rest): State<Rest>, request: Request) -> Response {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return not_allowed(&[Method::GET, Method::HEAD]);
    }
    let (parts, _) = request.into_parts();
    let guard = &rest.context.guard;
    let _turn = match guard.let_in(Rpc::GetTopology, &parts.extensions, &parts.headers).await {
        Ok((_, turn)) => turn,
        Err(error) => return error.into_response(),
    };
    match bytes(&rest).await {
        Ok(map) => answer(map, &parts.headers),
        Err(error) => error.into_response(),
    }
}

/// The map as it is now. The loop fills the columns; all else is done beside it.
async fn bytes(rest: &Rest) -> Result<Vec<u8>, RpcError> {
    let view = rest.context.query(|state, _| state.map()).await?;
    let made = tokio::task::spawn_blocking(move || map::encode(&view)).await;
    let made = made.map_err(|error| RpcError::new(ErrorClass::Internal, "NO_MAP", error.to_string()))?;
    made.map_err(|error| RpcError::new(ErrorClass::TooLarge, "MAP_TOO_LARGE", error.to_string()))
}

/// Who has the same already is told so, and nothing more.
fn answer(map: Vec<u8>, headers: &HeaderMap) -> Response {
    // Weak, because the same may go out packed or as it is.
    let tag = format!("W/\"{}\"", HEXLOWER.encode(digest::digest(&digest::SHA256, &map).as_ref()));
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let same = known.split(',').any(|known| known.trim() == tag);
    let mut response = if same { StatusCode::NOT_MODIFIED.into_response() } else { map.into_response() };
    let headers = response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
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
        let asked = |known: &str| {
            let known = HeaderValue::from_str(known).unwrap();
            answer(vec![1, 2, 3], &HeaderMap::from_iter([(header::IF_NONE_MATCH, known)]))
        };
        let first = answer(vec![1, 2, 3], &HeaderMap::new());
        let tag = first.headers()[header::ETAG].to_str().unwrap().to_owned();
        assert_eq!(
            (first.status(), &first.headers()[header::CACHE_CONTROL]),
            (StatusCode::OK, &HeaderValue::from_static("no-store"))
        );
        assert_eq!(first.headers()[header::CONTENT_TYPE], "application/octet-stream");
        for known in [tag.clone(), format!("\"other\", {tag}")] {
            let again = asked(&known);
            assert_eq!(
                (again.status(), &again.headers()[header::ETAG]),
                (StatusCode::NOT_MODIFIED, &first.headers()[header::ETAG])
            );
        }
        assert_eq!(asked("\"other\"").status(), StatusCode::OK);
        assert_ne!(
            answer(vec![1, 2], &HeaderMap::new()).headers()[header::ETAG],
            first.headers()[header::ETAG]
        );
    }
}
