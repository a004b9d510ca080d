//! A client's connection that notes which TLS error it ended with.
//!
//! In TLS 1.3 a client learns only after its own handshake that the server refused its certificate: by an alert, which
//! HTTP/2 keeps no more of than its text. A server that closes right behind the alert lets our next write fail before
//! anything was read; so a failed write is reported only when what the server said before has been read.

use crate::listen::BoxedStream;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A failed write waits so long at most for what there is to read: the connection is gone, its end arrives at once.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Of what there is to read so many bytes are looked through: an alert stands before or right behind a few frames.
const LAST_BYTES: usize = 64 << 10;

/// The rustls error within an IO error.
pub(crate) fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref::<rustls::Error>()
}

/// The TLS error that ended the newest connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastTlsError(Arc<Mutex<Option<rustls::Error>>>);

impl LastTlsError {
    pub(crate) fn get(&self) -> Option<rustls::Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, error: Option<rustls::Error>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    fn note(&self, error: &io::Error) {
        if let Some(tls) = tls_error(error) {
            self.set(Some(tls.clone()));
        }
    }
}

/// A write that failed, while what the server said before is read.
struct Failed {
    error: io::Error,
    patience: Pin<Box<Sleep>>,
    left: usize,
}

/// A connection that notes the TLS error it ends with.
pub(crate) struct Watched {
    stream: BoxedStream,
    last: LastTlsError,
    failed: Option<Failed>,
    /// We said that we write no more: the other side may go on, so that a failure means nothing for what is to be read.
    ended: bool,
}

impl Watched {
    pub(crate) fn new(stream: BoxedStream, last: LastTlsError) -> Self {
        Watched { stream, last, failed: None, ended: false }
    }

    /// Gives what writing gave; a failure only once the server's last words are read.
    fn written<T>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match result {
            Poll::Ready(Err(error)) if !self.ended && tls_error(&error).is_none() => {
                let patience = Box::pin(tokio::time::sleep(LAST_WORDS));
                self.failed = Some(Failed { error, patience, left: LAST_BYTES });
                self.last_words(context).map(Err)
            }
            Poll::Ready(Err(error)) => {
                self.last.note(&error);
                Poll::Ready(Err(error))
            }
            other => other,
        }
    }

    /// Reads until the connection's end, its error or a bound; then gives the error of the write.
    fn last_words(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let Watched { stream, last, failed, .. } = self;
        let Some(under_way) = failed else {
            return Poll::Ready(io::ErrorKind::BrokenPipe.into());
        };
        let mut bytes = [0; 1024];
        while under_way.left > 0 {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => break,
                Poll::Ready(Ok(())) => {
                    under_way.left = under_way.left.saturating_sub(buffer.filled().len());
                }
                Poll::Ready(Err(error)) => {
                    last.note(&error);
                    break;
                }
                Poll::Pending => {
                    ready!(under_way.patience.as_mut().poll(context));
                    break;
                }
            }
        }
        self.ended = true;
        Poll::Ready(
            self.failed.take().map_or_else(|| io::ErrorKind::BrokenPipe.into(), |failed| failed.error),
        )
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Err(error)) = &result {
            self.last.note(error);
        }
        result
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.failed.is_some() {
            return self.last_words(context).map(Err);
        }
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.failed.is_some() {
            return self.last_words(context).map(Err);
        }
        let result = Pin::new(&mut self.stream).poll_flush(context);
        self.written(context, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.failed.is_some() {
            return self.last_words(context).map(Err);
        }
        self.ended = true;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    /// What reading gives, in order: nothing yet, or an end.
    struct Script(Vec<Option<io::Result<&'static [u8]>>>);

    impl AsyncRead for Script {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if self.0.is_empty() {
                return Poll::Pending;
            }
            match self.0.remove(0) {
                Some(Ok(bytes)) => {
                    buffer.put_slice(bytes);
                    Poll::Ready(Ok(()))
                }
                Some(Err(error)) => Poll::Ready(Err(error)),
                None => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
            }
        }
    }

    impl AsyncWrite for Script {
        fn poll_write(
            self: Pin<&mut Self>,
            _context: &mut Context<'_>,
            _bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn alert() -> rustls::Error {
        rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired)
    }

    async fn write_to(
        script: Vec<Option<io::Result<&'static [u8]>>>,
    ) -> (io::ErrorKind, Option<rustls::Error>) {
        let last = LastTlsError::default();
        let mut stream = Watched::new(Box::new(Script(script)), last.clone());
        let error = stream.write_all(b"PRI").await.unwrap_err();
        (error.kind(), last.get())
    }

    #[tokio::test]
    async fn a_failed_write_reads_the_alert_that_came_before_it() {
        let refused = || Some(Err(io::Error::new(io::ErrorKind::InvalidData, alert())));
        for script in
            [vec![refused()], vec![None, None, refused()], vec![Some(Ok(&b"frames"[..])), None, refused()]]
        {
            assert_eq!(write_to(script).await, (io::ErrorKind::BrokenPipe, Some(alert())));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_write_is_told_in_bounded_time_and_bytes() {
        let endless = || (0..10_000).map(|_| Some(Ok(&[0_u8; 512][..]))).collect();
        for script in [vec![], vec![Some(Ok(&b""[..]))], endless()] {
            assert_eq!(write_to(script).await, (io::ErrorKind::BrokenPipe, None));
        }
    }
}
