//! A wire between two engines on a rail: it hands on what it is given, and can be cut with whatever is on it.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::world::{Flag, any_port};

/// Connections, their threads, and whether it is cut.
#[derive(Default)]
struct Inner {
    open: Mutex<Vec<TcpStream>>,
    cut: Flag,
    carried: AtomicU64,
}

/// One direction of dialing between two nodes on a rail.
pub struct Wire {
    address: SocketAddr,
    inner: Arc<Inner>,
}

impl Wire {
    /// A wire to `to` for who dials from `from`: the other end sees that address.
    pub fn new(from: IpAddr, to: SocketAddr) -> Self {
        let listener = TcpListener::bind(any_port(to.ip())).unwrap();
        let address = listener.local_addr().unwrap();
        let inner = Arc::new(Inner::default());
        let held = inner.clone();
        // It ends with the listener's last connection, which `cut` makes.
        std::thread::spawn(move || {
            for near in listener.incoming() {
                if held.cut.is_set() {
                    return;
                }
                let (Ok(near), Ok(far)) = (near, dial(from, to)) else { continue };
                near.set_nodelay(true).unwrap();
                far.set_nodelay(true).unwrap();
                let mut open = held.open.lock().unwrap();
                open.extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
                drop(open);
                for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)]
                {
                    let held = held.clone();
                    std::thread::spawn(move || carry(&mut from, &mut to, &held));
                }
            }
        });
        Self { address, inner }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn carried(&self) -> u64 {
        self.inner.carried.load(Ordering::SeqCst)
    }

    /// Cuts it for good.
    pub fn cut(&self) {
        self.inner.cut.set();
        for stream in self.inner.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // The thread that listens notices.
        let _ = TcpStream::connect(self.address);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.cut();
    }
}

fn dial(from: IpAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(to), socket2::Type::STREAM, None)?;
    socket.bind(&any_port(from).into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

fn carry(from: &mut TcpStream, to: &mut TcpStream, held: &Inner) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if held.cut.is_set() || to.write_all(&bytes[..count]).is_err() {
            break;
        }
        held.carried.fetch_add(count as u64, Ordering::SeqCst);
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
