//! The HTTP machinery of each kind of connection, with the limits of its kind.

use crate::caps::Limits;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;

/// Bytes that another controller may send before any is read: thousands of streams share its connection.
const CONTROLLERS_WINDOW: u32 = 16 << 20;
/// Bytes that an anonymous peer may send on a connection before any is read: the least that HTTP/2 has.
const ANONYMOUS_WINDOW: u32 = 65_535;

/// ALPN has chosen the protocol, so each connection gets a builder that speaks only that.
pub(crate) struct Builders {
    pub(crate) http1: auto::Builder<TokioExecutor>,
    pub(crate) http2: auto::Builder<TokioExecutor>,
    /// HTTP/2 with many calls at a time on one connection.
    pub(crate) controllers: auto::Builder<TokioExecutor>,
    /// Both with little memory.
    pub(crate) anonymous: auto::Builder<TokioExecutor>,
    pub(crate) anonymous1: auto::Builder<TokioExecutor>,
}

/// Of what a server allows.
pub(crate) fn builders(limits: &Limits) -> Builders {
    let mut base = auto::Builder::new(TokioExecutor::new());
    base.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_read)
        .max_buf_size(usize::try_from(limits.header_bytes).unwrap_or(usize::MAX).max(8192))
        .max_headers(100);
    base.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(limits.header_bytes)
        .keep_alive_interval(limits.keepalive_interval)
        .keep_alive_timeout(limits.keepalive_timeout)
        .max_pending_accept_reset_streams(limits.pending_resets)
        .max_local_error_reset_streams(limits.local_resets)
        .max_send_buf_size(limits.send_buffer);
    let mut controllers = base.clone();
    controllers
        .http2()
        .max_concurrent_streams(limits.controller_streams)
        .initial_connection_window_size(CONTROLLERS_WINDOW);
    let most = &limits.anonymous;
    let mut anonymous = base.clone();
    anonymous
        .http1()
        .max_buf_size(usize::try_from(most.header_bytes).unwrap_or(usize::MAX).max(8192))
        .header_read_timeout(most.idle.min(limits.header_read));
    anonymous
        .http2()
        .max_concurrent_streams(most.streams)
        .max_header_list_size(most.header_bytes)
        .max_send_buf_size(most.send_buffer)
        .initial_stream_window_size(ANONYMOUS_WINDOW)
        .initial_connection_window_size(ANONYMOUS_WINDOW);
    Builders {
        anonymous1: anonymous.clone().http1_only(),
        anonymous: anonymous.http2_only(),
        http1: base.clone().http1_only(),
        http2: base.http2_only(),
        controllers: controllers.http2_only(),
    }
}
