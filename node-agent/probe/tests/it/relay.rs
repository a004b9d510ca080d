//! A cable with a fault: packets to an address go through it, both ways.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    os::fd::AsFd,
    thread,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, poll};

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// One packet of so many is lost.
    Lossy {
        one_in: u64,
    },
    /// No faster than this, beyond what shapers let pass at once.
    Slow {
        mbps: u64,
    },
    /// No larger payloads.
    Small {
        bytes: usize,
    },
}

/// A test's cables are cut after this.
const LIFE: Duration = Duration::from_secs(120);

/// What a slow cable lets pass at once takes it this long. Who rests after each small packet waits for a busy machine as often.
const AT_ONCE: Duration = Duration::from_millis(2);

struct Cable {
    fault: Fault,
    random: u64,
    /// When the last packet is through.
    free: Instant,
}

impl Cable {
    fn passes(&mut self, bytes: usize) -> bool {
        match self.fault {
            Fault::None => true,
            Fault::Lossy { one_in } => {
                self.random = self
                    .random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                !(self.random >> 33).is_multiple_of(one_in)
            }
            Fault::Small { bytes: most } => bytes <= most,
            Fault::Slow { mbps } => {
                let took = Duration::from_nanos(bytes as u64 * 8_000 / mbps);
                self.free = self.free.max(Instant::now()) + took;
                let ahead = self.free.saturating_duration_since(Instant::now());
                if ahead > AT_ONCE {
                    thread::sleep(ahead);
                }
                true
            }
        }
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20);
    socket.set_nonblocking(true).unwrap();
    socket
}

/// Where packets for `to` go in. The thread ends with the test's process, or after [`LIFE`].
pub fn start(to: SocketAddr, fault: Fault, seed: u64) -> SocketAddr {
    let front = socket();
    let address = front.local_addr().unwrap();
    let mut cable = Cable { fault, random: seed, free: Instant::now() };
    thread::spawn(move || {
        let (mut buffer, end) = (vec![0; 1 << 16], Instant::now() + LIFE);
        // By the sender a socket of its own, whose answers go back to it.
        let mut back: BTreeMap<SocketAddr, UdpSocket> = BTreeMap::new();
        while Instant::now() < end {
            let sockets = std::iter::once(&front).chain(back.values());
            let mut polled: Vec<PollFd<'_>> =
                sockets.map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)).collect();
            let second = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
            let _ = poll(&mut polled, Some(&second));
            while let Some((bytes, from)) = take(&front, &mut buffer) {
                let own = back.entry(from).or_insert_with(socket);
                if cable.passes(bytes) {
                    let _ = own.send_to(&buffer[..bytes], to);
                }
            }
            for (from, own) in &back {
                while let Some((bytes, _)) = take(own, &mut buffer) {
                    if cable.passes(bytes) {
                        let _ = front.send_to(&buffer[..bytes], from);
                    }
                }
            }
        }
    });
    address
}

/// The next packet; nothing if there is none. Errors are those of earlier packets.
fn take(socket: &UdpSocket, buffer: &mut [u8]) -> Option<(usize, SocketAddr)> {
    loop {
        match socket.recv_from(buffer) {
            Ok(got) => return Some(got),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Err(_) => {}
        }
    }
}
