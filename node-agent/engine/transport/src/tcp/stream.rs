//! A connection as a stream of bytes, so that tests can stand in for the kernel.

use std::io;

use node_agent_ipc::pieces::{self, Source, Target};

/// A connection's stream of bytes, which the kernel moves from and to pieces of memory. Neither call blocks.
pub trait Stream {
    /// Sends from the pieces, in order; gives how many bytes went.
    ///
    /// # Errors
    /// The connection is broken, or it takes nothing now (`WouldBlock`).
    fn send(&mut self, pieces: &[Source<'_>]) -> io::Result<usize>;

    /// Fills the pieces, in order; gives how many bytes came.
    ///
    /// # Errors
    /// The connection is broken, or nothing is there now (`WouldBlock`).
    fn receive(&mut self, pieces: &mut [Target<'_>]) -> io::Result<usize>;

    /// How many of the bytes that were sent, from the first on, are not read any more where they lie. The kernel copies all.
    fn release_buffer(&self) -> u64 {
        u64::MAX
    }
}

impl Stream for mio::net::TcpStream {
    fn send(&mut self, pieces: &[Source<'_>]) -> io::Result<usize> {
        pieces::write(&*self, pieces)
    }

    fn receive(&mut self, pieces: &mut [Target<'_>]) -> io::Result<usize> {
        pieces::read(&*self, pieces)
    }
}
