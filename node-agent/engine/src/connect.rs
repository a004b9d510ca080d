//! `rail-engine connect`: bytes between standard input and output and a TCP port of this host, as the processes of a job reach it.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpStream},
    process::ExitCode,
    thread,
    time::Duration,
};

/// A port that does not answer is given up.
const LIMIT: Duration = Duration::from_secs(10);

/// Ends when the other side does, or cannot be reached.
pub(crate) fn run(port: u16) -> ExitCode {
    match carry(port) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rail-engine: port {port} of 127.0.0.1: {error}");
            ExitCode::FAILURE
        }
    }
}

fn carry(port: u16) -> io::Result<()> {
    let stream = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), LIMIT)?;
    stream.set_nodelay(true)?;
    let up = stream.try_clone()?;
    // It ends with this process.
    thread::spawn(move || {
        // Whoever sends no more may still read.
        let _ = copy(&mut io::stdin().lock(), &mut &up).and_then(|()| up.shutdown(Shutdown::Write));
    });
    copy(&mut &stream, &mut io::stdout().lock())
}

/// All that comes, each piece at once.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 32 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                to.write_all(buffer.get(..length).unwrap_or_default())?;
                to.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
