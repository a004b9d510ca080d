//! `probe`: how the controller beside this process is, for a container's probes, which do not reach its loopback address from outside.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use thiserror::Error;

use crate::args::{Probe, ProbeArg};

/// Longest wait for a connection, and for each part of the answer.
const LIMIT: Duration = Duration::from_secs(2);
/// An answer is some lines.
const MAX_BYTES: u64 = 64 * 1024;

/// Why the controller is not as it was asked.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// It does not answer, or not in time.
    #[error("{address} does not answer: {source}")]
    Silent {
        /// Where it was asked.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// It answers that it is not.
    #[error("{0}")]
    Not(String),
}

/// Prints what the controller answers.
///
/// # Errors
/// [`ProbeError`] if it does not answer within some seconds, or answers that it is not live or not ready.
pub fn run(asked: &Probe) -> Result<(), Box<dyn std::error::Error>> {
    let path = match asked.what {
        ProbeArg::Live => "/livez?verbose",
        ProbeArg::Ready => "/readyz?verbose",
    };
    let silent = |source| ProbeError::Silent { address: asked.metrics, source };
    let answer = ask(asked.metrics, path).map_err(silent)?;
    print!("{}", judged(&answer)?);
    Ok(())
}

/// HTTP/1.0: the answer ends with the connection.
fn ask(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(MAX_BYTES).read_to_string(&mut answer)?;
    Ok(answer)
}

/// The body of an answer with status 200.
fn judged(answer: &str) -> Result<&str, ProbeError> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    if status == "200" {
        return Ok(body);
    }
    let said = if body.trim().is_empty() { head.lines().next().unwrap_or_default() } else { body.trim() };
    Err(ProbeError::Not(if said.is_empty() { "it answers nothing".to_owned() } else { said.to_owned() }))
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    #[test]
    fn only_200_is_good() {
        assert_eq!(judged("HTTP/1.0 200 OK\r\na: b\r\n\r\nok\n").unwrap(), "ok\n");
        let not = judged("HTTP/1.1 503 Service Unavailable\r\n\r\n[-] leader: nobody\nnot ready\n");
        assert_eq!(not.unwrap_err().to_string(), "[-] leader: nobody\nnot ready");
        assert_eq!(
            judged("HTTP/1.1 404 Not Found\r\n\r\n").unwrap_err().to_string(),
            "HTTP/1.1 404 Not Found"
        );
        assert_eq!(judged("").unwrap_err().to_string(), "it answers nothing");
    }

    #[test]
    fn a_controller_is_asked_and_one_that_is_not_there_does_not_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 512];
            let count = stream.read(&mut asked).unwrap();
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nok\n").unwrap();
            String::from_utf8_lossy(&asked[..count]).into_owned()
        });
        assert_eq!(judged(&ask(address, "/livez").unwrap()).unwrap(), "ok\n");
        assert!(server.join().unwrap().starts_with("GET /livez HTTP/1.0\r\n"));
        assert!(ask(address, "/livez").is_err());
    }
}
