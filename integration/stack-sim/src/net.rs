//! Real HTTP/2 over the simulated network: streams that clients open, and servers of any router.

use std::{cell::RefCell, collections::BTreeSet, io, net::SocketAddr, pin::Pin, time::Duration};

use axum::Router;
use hyper::{Request, body::Incoming, server::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use proto_rpc::{Endpoint, Identity, PeerInfo, listen::BoxedStream, listen::PeerAddress};
use tower::Service as _;
use turmoil::net::{TcpListener, TcpStream};

/// Silence after which a server pings its client, and its wait for the answer.
const PING: Duration = Duration::from_millis(1500);

thread_local! {
    /// Hosts from or to which something is cut off: a packet to them may be lost without an answer.
    static CUT: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
    /// Hosts that run nothing: they answer that nobody listens.
    static DOWN: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

/// Tells what [`dial`] cannot see in the simulated network.
pub fn set_weather(cut: BTreeSet<String>, down: BTreeSet<String>) {
    CUT.with_borrow_mut(|now| *now = cut);
    DOWN.with_borrow_mut(|now| *now = down);
}

/// Opens a stream to a host of the simulation.
pub fn dial(endpoint: Endpoint) -> Pin<Box<dyn Future<Output = io::Result<BoxedStream>> + Send>> {
    Box::pin(async move {
        let Endpoint::Tcp { host, port } = endpoint else { return Err(io::ErrorKind::Unsupported.into()) };
        if DOWN.with_borrow(|down| down.contains(&host)) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        match TcpStream::connect((host.as_str(), port)).await {
            Ok(stream) => {
                let stream: BoxedStream = Box::new(stream);
                Ok(stream)
            }
            // The simulated network refuses where a real one would lose the packet.
            Err(_) if CUT.with_borrow(|cut| cut.contains(&host)) => std::future::pending().await,
            Err(error) => Err(error),
        }
    })
}

/// Serves a router to whoever connects; `identify` names the caller by its address.
///
/// # Errors
/// The port cannot be listened on.
pub async fn serve(port: u16, router: Router, identify: fn(&str) -> Identity) -> io::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", port)).await?;
    loop {
        let (stream, address) = listener.accept().await?;
        let name = turmoil::reverse_lookup(address.ip()).unwrap_or_default();
        tokio::spawn(connection(stream, address, identify(&name), router.clone()));
    }
}

async fn connection(stream: TcpStream, address: SocketAddr, identity: Identity, router: Router) {
    let peer = PeerInfo { identity, address: PeerAddress::Tcp(address), certificate: None };
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        // An axum router is always ready.
        router.clone().call(request)
    });
    let mut builder = http2::Builder::new(TokioExecutor::new());
    // A date would be of the machine's clock.
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .auto_date_header(false);
    // A peer that goes away is part of the game.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}
