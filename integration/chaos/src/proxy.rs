//! A door between callers and one controller that can lose what it answers. Inside TLS nothing can be lost byte by byte: what
//! answers are on their way is swallowed from a moment on, then the connection is reset. The call was carried out, and its
//! caller does not know.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// What becomes of connections that were there at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Passes,
    Loses,
    Ends,
}

/// A door to one controller, through which callers connect.
#[derive(Debug, Clone)]
pub struct Door {
    /// The address that callers connect to.
    pub address: SocketAddr,
    /// The fate of connections that are made from now on.
    fate: Arc<Mutex<watch::Sender<Fate>>>,
}

impl Door {
    /// Opens one to this address.
    ///
    /// # Errors
    /// No port.
    pub async fn open(to: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let door = Self {
            address: listener.local_addr()?,
            fate: Arc::new(Mutex::new(watch::Sender::new(Fate::Passes))),
        };
        let fate = Arc::clone(&door.fate);
        tokio::spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                let fate = fate.lock().unwrap_or_else(PoisonError::into_inner).subscribe();
                // A controller that is away refuses, and so does its door.
                tokio::spawn(async move { pass(caller, to, fate).await });
            }
        });
        Ok(door)
    }

    /// Loses what is answered on the connections of now, until what is returned is dropped: then they are reset.
    pub fn lose(&self) -> Losing {
        let mut fate = self.fate.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *fate, watch::Sender::new(Fate::Passes));
        old.send_replace(Fate::Loses);
        Losing(old)
    }
}

/// Connections that lose what is answered on them.
pub struct Losing(watch::Sender<Fate>);

impl Losing {
    /// How many there are.
    pub fn connections(&self) -> usize {
        // Each listens twice: for what is answered, and for its end.
        self.0.receiver_count() / 2
    }
}

impl Drop for Losing {
    fn drop(&mut self) {
        self.0.send_replace(Fate::Ends);
    }
}

async fn pass(mut caller: TcpStream, to: SocketAddr, mut fate: watch::Receiver<Fate>) -> io::Result<()> {
    let connecting = tokio::time::timeout(Duration::from_secs(3), TcpStream::connect(to));
    let mut server = connecting.await.map_err(|_| io::ErrorKind::TimedOut)??;
    caller.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_caller, mut to_caller) = caller.split();
    let (mut from_server, mut to_server) = server.split();
    let answers = fate.clone();
    let back = async {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let count = from_server.read(&mut buffer).await?;
            if count == 0 {
                return to_caller.shutdown().await;
            }
            let lost = *answers.borrow() != Fate::Passes;
            if !lost {
                to_caller.write_all(&buffer[..count]).await?;
            }
        }
    };
    let there = tokio::io::copy(&mut from_caller, &mut to_server);
    tokio::select! {
        ended = back => return ended,
        ended = there => return ended.map(drop),
        ended = fate.wait_for(|fate| *fate == Fate::Ends) => drop(ended),
    }
    // Both ends notice a connection that is no more.
    caller.set_zero_linger()?;
    server.set_zero_linger()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers every byte with the next one.
    async fn server(asked: watch::Sender<usize>) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let asked = asked.clone();
                tokio::spawn(async move {
                    while let Ok(byte) = stream.read_u8().await {
                        asked.send_modify(|count| *count += 1);
                        if stream.write_u8(byte + 1).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    async fn ask(stream: &mut TcpStream, byte: u8) -> io::Result<u8> {
        stream.write_u8(byte).await?;
        stream.read_u8().await
    }

    #[tokio::test]
    async fn what_is_asked_arrives_its_answer_does_not_and_the_connection_is_reset() {
        let (asked, mut seen) = watch::channel(0);
        let door = Door::open(server(asked).await).await.unwrap();
        let mut old = TcpStream::connect(door.address).await.unwrap();
        assert_eq!(ask(&mut old, 1).await.unwrap(), 2);
        let losing = door.lose();
        assert_eq!(losing.connections(), 1);
        old.write_u8(5).await.unwrap();
        seen.wait_for(|count| *count == 2).await.unwrap();
        // Who comes now is answered.
        let mut new = TcpStream::connect(door.address).await.unwrap();
        assert_eq!(ask(&mut new, 7).await.unwrap(), 8);
        drop(losing);
        assert_eq!(old.read_u8().await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(ask(&mut new, 8).await.unwrap(), 9);
    }
}
