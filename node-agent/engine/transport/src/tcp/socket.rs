//! Sockets as rails want them.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// Listens on a free port of an address, for what comes in by this device.
///
/// # Errors
/// The address is none of this server's, the device does not exist, or the kernel refuses.
pub fn listen(address: IpAddr, device: Option<&str>) -> io::Result<TcpListener> {
    let socket =
        Socket::new(Domain::for_address(SocketAddr::new(address, 0)), Type::STREAM, Some(Protocol::TCP))?;
    keep_to(&socket, device)?;
    socket.bind(&SocketAddr::new(address, 0).into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Binds a socket to a device, if there is one. No right is needed for that since Linux 5.7.
fn keep_to(socket: &Socket, device: Option<&str>) -> io::Result<()> {
    device.map_or(Ok(()), |device| socket.bind_device(Some(device.as_bytes())))
}

/// Starts to connect from an own address, so that the bytes take that rail.
///
/// # Errors
/// The address is none of this server's, the device does not exist, or the kernel refuses. That the peer refuses shows later.
pub fn dial(from: IpAddr, device: Option<&str>, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    keep_to(&socket, device)?;
    socket.bind(&SocketAddr::new(from, 0).into())?;
    socket.set_nonblocking(true)?;
    match socket.connect(&to.into()) {
        Err(error)
            if error.raw_os_error() != Some(EINPROGRESS) && error.kind() != io::ErrorKind::WouldBlock =>
        {
            return Err(error);
        }
        _ => {}
    }
    Ok(TcpStream::from_std(socket.into()))
}

/// Lets a peer that dials this node know at once that the way is there again. After a long outage the peer's kernel has
/// forgotten the hardware address and asks for it no more than once a second; that of this node, which asks now because it
/// has something to send, answers it too. The datagram itself goes to the port where such are thrown away (RFC 863).
pub fn knock(from: IpAddr, device: Option<&str>, to: IpAddr) {
    let sent = UdpSocket::bind(SocketAddr::new(from, 0)).and_then(|socket| {
        if let Some(device) = device {
            SockRef::from(&socket).bind_device(Some(device.as_bytes()))?;
        }
        socket.set_nonblocking(true)?;
        socket.send_to(&[], SocketAddr::new(to, DISCARD))
    });
    if let Err(error) = sent {
        tracing::debug!(%to, %error, "cannot knock");
    }
}

/// The port of the discard service (RFC 863).
const DISCARD: u16 = 9;

/// "Connecting, and will say when done", on every Linux.
const EINPROGRESS: i32 = 115;

/// The congestion control of rails. What is on its way is bounded by the machine's windows, by measured rate, so the pacing
/// that others (BBR) do in addition is of no use; its timers cost a quarter of the processor time of a transfer.
const CONGESTION: &[u8] = b"cubic";

/// Bytes that the kernel takes over before it can send them. More would wait where no other rail can take them, and
/// acknowledgements for the peer behind them.
const UNSENT: u32 = 64 << 10;

/// Pause after which a quiet connection asks whether its other end is still open, the shortest that there is: an end whose peer
/// closed while the rail was dark must hear of it before that peer gives it up (two seconds, by default).
const KEEPALIVE: Duration = Duration::from_secs(1);

/// Makes the end of this connection, when it is dropped, a reset: what is not sent yet is not sent any more.
pub fn reset_at_end(stream: &TcpStream) {
    // It can fail only for a socket that has no end to announce.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// As [`reset_at_end`], of a connection over a port that is dark: nothing of it is sent there any more. A reset would make
/// the kernel ask for the peer's hardware address, in vain and again every second (`retrans_time_ms` of its neighbours);
/// when the port is back, whoever wants to send waits for the next of these questions.
pub fn end_in_the_dark(stream: &TcpStream) {
    reset_at_end(stream);
    // Bound to the loopback interface its last packet goes nowhere. Kernels before 5.7 allow that to root only.
    let _ = SockRef::from(stream).bind_device(Some(b"lo"));
}

/// Sets what a rail's connection needs: no delay of small frames, and the end of a connection whose peer is silent for
/// `dead_after`. Buffers are left to the kernel, which grows them to what the path needs; what is on its
/// way is bounded by the machine's windows, and what waits for its turn by [`UNSENT`].
///
/// # Errors
/// The kernel refuses a socket option.
pub fn tune(stream: &TcpStream, dead_after: Duration) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_user_timeout(Some(dead_after))?;
    // Kernels that lack one of these do their best without it, and some allow no congestion control but their own.
    let _ = socket.set_tcp_notsent_lowat(UNSENT);
    let _ = socket.set_tcp_congestion(CONGESTION);
    socket
        .set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE).with_retries(3))
}
