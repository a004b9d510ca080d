//! The first thing that a peer says after its TLS handshake: taken in whole, within the deadline of the handshake, before
//! any of the machinery of a connection is made.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// What every HTTP/2 connection begins with (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The head of a frame: length, kind, flags, stream.
const FRAME: usize = 9;
/// The longest first SETTINGS: some forty settings.
const SETTINGS: usize = 256;

/// The protocol that ALPN has chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1: the peer's first bytes are the head of a request.
    Http1,
    /// The preface, and a SETTINGS frame.
    Http2,
}

/// Whether the opening is whole.
///
/// # Errors
/// It can become none; why.
pub fn is_whole(protocol: Protocol, bytes: &[u8]) -> Result<bool, &'static str> {
    match protocol {
        Protocol::Http1 => Ok(head_ends(bytes)),
        Protocol::Http2 => {
            let begun = bytes.len().min(PREFACE.len());
            if bytes[..begun] != PREFACE[..begun] {
                return Err("it is no HTTP/2 preface");
            }
            let Some(frame) = bytes.get(PREFACE.len()..PREFACE.len() + FRAME) else { return Ok(false) };
            let length = usize::from(frame[0]) << 16 | usize::from(frame[1]) << 8 | usize::from(frame[2]);
            if frame[3] != 4 || frame[4] & 1 != 0 || frame[5..] != [0; 4] {
                return Err("the first frame is not SETTINGS");
            }
            if length > SETTINGS {
                return Err("the first SETTINGS is too long");
            }
            Ok(bytes.len() >= PREFACE.len() + FRAME + length)
        }
    }
}

/// Whether an empty line is behind the first line that is not empty.
fn head_ends(bytes: &[u8]) -> bool {
    let begin = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
    let mut empty = false;
    bytes[begin..].iter().any(|byte| match byte {
        b'\n' if empty => true,
        b'\n' => {
            empty = true;
            false
        }
        b'\r' => false,
        _ => {
            empty = false;
            false
        }
    })
}

/// Reads until the opening is whole, or longer than it may be: then the protocol's own machinery refuses it.
pub(crate) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    protocol: Protocol,
    most: usize,
) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(256);
    loop {
        let room = most.saturating_sub(bytes.len());
        if room == 0 {
            return Ok(bytes);
        }
        // Small: most openings are, and a peer that sends byte by byte gets no more.
        bytes.reserve(room.min(1024));
        let read = (&mut *stream).take(room as u64).read_buf(&mut bytes).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let wrong = |cause: &'static str| io::Error::new(io::ErrorKind::InvalidData, cause);
        if is_whole(protocol, &bytes).map_err(wrong)? {
            return Ok(bytes);
        }
    }
}

/// A stream whose first bytes were read already.
pub(crate) struct Opened<S> {
    first: Vec<u8>,
    at: usize,
    stream: S,
}

impl<S> Opened<S> {
    pub(crate) fn new(first: Vec<u8>, stream: S) -> Self {
        Self { first, at: 0, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Opened<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = &self.first[self.at..];
        if left.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let count = left.len().min(buf.remaining());
        buf.put_slice(&left[..count]);
        self.at += count;
        if self.at == self.first.len() {
            (self.first, self.at) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Opened<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// A stream of which a peer may send so many bytes, until the limit is lifted.
pub(crate) struct Rationed<S> {
    stream: S,
    left: Option<usize>,
}

impl<S> Rationed<S> {
    pub(crate) fn new(stream: S, left: usize) -> Self {
        Self { stream, left: Some(left) }
    }

    /// So many more from here on; `None`: as many as there are.
    pub(crate) fn ration(&mut self, left: Option<usize>) {
        self.left = left;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rationed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(left) = self.left else { return Pin::new(&mut self.stream).poll_read(cx, buf) };
        if left == 0 {
            let cause = "the peer sends too much before its handshake is over";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, cause)));
        }
        let mut bytes = [0; 2048];
        let room = left.min(buf.remaining()).min(bytes.len());
        let mut part = ReadBuf::new(&mut bytes[..room]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut part))?;
        buf.put_slice(part.filled());
        self.left = Some(left - part.filled().len());
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rationed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Protocol::{Http1, Http2};

    #[test]
    fn an_opening_is_whole_with_its_last_byte_and_what_can_be_none_is_refused_early() {
        let settings = [&PREFACE[..], &[0, 0, 6, 4, 0, 0, 0, 0, 0], &[0, 3, 0, 0, 0, 100]].concat();
        for end in 0..settings.len() {
            assert_eq!(is_whole(Http2, &settings[..end]), Ok(false), "{end}");
        }
        assert_eq!(is_whole(Http2, &settings), Ok(true));
        assert_eq!(is_whole(Http2, &[&settings[..], b"more"].concat()), Ok(true));
        for (at, byte) in [(0, b'G'), (23, b'x'), (24, 1), (25, 200), (27, 1), (28, 1), (32, 1)] {
            let mut wrong = settings.clone();
            wrong[at] = byte;
            assert!(is_whole(Http2, &wrong).is_err(), "byte {at}");
        }
        assert!(is_whole(Http2, b"PRJ").is_err());
        for (text, whole) in [
            ("GET / HTTP/1.1\r\nhost: x\r\n\r\n", true),
            ("GET / HTTP/1.1\nhost: x\n\n", true),
            ("\r\n\r\nGET / HTTP/1.1\r\nhost: x\r\n", false),
            ("\r\n\r\n", false),
            ("GET / HTTP/1.1\r\n\r", false),
        ] {
            assert_eq!(is_whole(Http1, text.as_bytes()), Ok(whole), "{text:?}");
        }
    }

    #[tokio::test]
    async fn what_was_read_ahead_is_read_again_and_rations_end() {
        let text = b"GET / HTTP/1.1\r\n\r\nand a body";
        let mut rationed = Rationed::new(&text[..], 1000);
        let first = read(&mut rationed, Http1, 20).await.unwrap();
        assert_eq!(first, &text[..20]);
        let mut all = Vec::new();
        Opened::new(first, rationed).read_to_end(&mut all).await.unwrap();
        assert_eq!(all, text);
        let error = read(&mut Rationed::new(&text[..], 5), Http1, 1000).await.unwrap_err();
        assert!(error.to_string().contains("too much"), "{error}");
        let error = read(&mut &b"GET"[..], Http1, 1000).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(read(&mut &text[..], Http1, 4).await.unwrap(), b"GET ", "too long: for others to refuse");
    }
}
