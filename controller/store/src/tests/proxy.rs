//! A TCP proxy before etcd that loses answers or cuts connections on command.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::EtcdEndpoint;
use crate::real_etcd::RealEtcd;

#[derive(Default)]
struct Orders {
    /// The next connection that etcd answers on loses this answer and ends.
    swallow: AtomicBool,
    swallowed: AtomicU64,
    cut: AtomicBool,
    cutting: Notify,
}

pub struct Proxy {
    at: SocketAddr,
    orders: Arc<Orders>,
}

impl Proxy {
    pub async fn start(etcd: &RealEtcd) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (at, orders) = (listener.local_addr().unwrap(), Arc::new(Orders::default()));
        let behind = etcd.endpoint().at.authority();
        let given = Arc::clone(&orders);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                if given.cut.load(Ordering::SeqCst) {
                    continue;
                }
                let (orders, behind) = (Arc::clone(&given), behind.clone());
                tokio::spawn(async move {
                    let Ok(far) = TcpStream::connect(behind).await else { return };
                    carry(near, far, &orders).await;
                });
            }
        });
        Self { at, orders }
    }

    pub fn endpoint(&self) -> EtcdEndpoint {
        format!("http://{}", self.at).parse().unwrap()
    }

    /// The next answer is lost, with its connection.
    pub fn swallow_once(&self) {
        self.orders.swallow.store(true, Ordering::SeqCst);
    }

    pub fn swallowed(&self) -> u64 {
        self.orders.swallowed.load(Ordering::SeqCst)
    }

    /// Ends all connections and takes none.
    pub fn cut(&self) {
        self.orders.cut.store(true, Ordering::SeqCst);
        self.orders.cutting.notify_waiters();
    }

    pub fn remediate(&self) {
        self.orders.cut.store(false, Ordering::SeqCst);
    }
}

async fn carry(near: TcpStream, far: TcpStream, orders: &Orders) {
    let (mut near_in, mut near_out) = near.into_split();
    let (mut far_in, mut far_out) = far.into_split();
    let there = tokio::io::copy(&mut near_in, &mut far_out);
    let back = async {
        let mut buffer = vec![0; 64 * 1024];
        // Frames of HTTP/2 that are no answer (settings, acknowledgements, windows) are short.
        const SHORT: usize = 64;
        loop {
            let Ok(count @ 1..) = far_in.read(&mut buffer).await else { return };
            if count > SHORT && orders.swallow.swap(false, Ordering::SeqCst) {
                orders.swallowed.fetch_add(1, Ordering::SeqCst);
                return;
            }
            if near_out.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = there => {}
        () = back => {}
        () = orders.cutting.notified() => {}
    }
}
