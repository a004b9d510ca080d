//! The stand-ins, and jobs whose ranks have GPUs.

use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use node_agent_client::{Attach, Client, Gpus};
use node_agent_engine::control::{self, Reply, Request};

use crate::world::World;

/// Far longer than anything here takes.
pub const LONG: Duration = Duration::from_secs(60);
/// What a driver can lack (`fake_cuda.rs`).
pub const NO_DMA_BUF: c_int = 2;
/// Kinds of objects that the stand-in for libibverbs counts, and faults of it.
pub const DMA_BUF: usize = 6;
pub const FAILS: c_int = 100;

/// The libraries have one state for the process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());
static ENVIRONMENT: Once = Once::new();

fn built(name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.ancestors().nth(2).unwrap().join(format!("examples/lib{name}.so"))
}

/// Both libraries, for one test alone.
pub struct Fake {
    cuda: libloading::Library,
    verbs: libloading::Library,
    _alone: MutexGuard<'static, ()>,
}

impl Fake {
    pub fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        ENVIRONMENT.call_once(|| {
            // SAFETY: every test of this program begins here, one at a time, and none reads the environment before.
            unsafe {
                std::env::set_var("RAIL_VERBS_LIBRARY", built("door_ibverbs"));
                std::env::set_var("RAIL_FAKE_VERBS_ALL", "1");
            }
        });
        // SAFETY: both were built beside this test and do nothing when they are loaded.
        let load = |name| unsafe { libloading::Library::new(built(name)) }.unwrap();
        let fake = Fake { cuda: load("door_cuda"), verbs: load("door_ibverbs"), _alone: alone };
        fake.use_gpu(0);
        fake
    }

    pub fn cuda() -> PathBuf {
        built("door_cuda")
    }

    fn number(&self, call: &[u8], argument: u64) -> u64 {
        // SAFETY: the functions that are called by this have this signature.
        unsafe { (self.cuda.get::<extern "C" fn(u64) -> u64>(call).unwrap())(argument) }
    }

    pub fn use_gpu(&self, device: u64) {
        self.number(b"fake_use", device);
    }

    pub fn fault(&self, fault: c_int) {
        // SAFETY: the function has this signature.
        unsafe { (self.cuda.get::<extern "C" fn(c_int)>(b"fake_fault").unwrap())(fault) }
    }

    /// Memory of a GPU with these bytes; whole pages, so that all of it can be exported.
    pub fn gpu(&self, bytes: &[u8]) -> u64 {
        let pointer = self.number(b"fake_alloc", (bytes.len() as u64).next_multiple_of(4096));
        // SAFETY: the function has this signature and reads as many bytes as it is told of.
        unsafe {
            let write = self.cuda.get::<unsafe extern "C" fn(u64, *const u8, usize)>(b"fake_write").unwrap();
            write(pointer, bytes.as_ptr(), bytes.len());
        }
        pointer
    }

    pub fn read(&self, pointer: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        // SAFETY: the function has this signature and writes as many bytes as it is told of.
        unsafe {
            let read = self.cuda.get::<unsafe extern "C" fn(u64, *mut u8, usize)>(b"fake_read").unwrap();
            read(pointer, bytes.as_mut_ptr(), length);
        }
        bytes
    }

    /// Bytes that the processor copied to or from GPUs so far.
    pub fn copied(&self) -> u64 {
        self.number(b"fake_copied", 0)
    }

    /// Registered dma-bufs of all devices.
    pub fn registered(&self) -> i64 {
        // SAFETY: the function has this signature; the one device that engines of this program find is the first.
        unsafe { (self.verbs.get::<extern "C" fn(usize, usize) -> i64>(b"fake_alive").unwrap())(0, DMA_BUF) }
    }

    pub fn verbs_fault(&self, what: c_int, value: c_int) {
        // SAFETY: the function has this signature.
        unsafe {
            (self.verbs.get::<extern "C" fn(usize, c_int, c_int)>(b"fake_fault").unwrap())(0, what, value)
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.fault(0);
        if self.registered_device() {
            self.verbs_fault(FAILS + DMA_BUF as c_int, 0);
        }
    }
}

impl Fake {
    /// Whether an engine has looked for devices yet.
    fn registered_device(&self) -> bool {
        // SAFETY: the function has this signature.
        unsafe { (self.verbs.get::<extern "C" fn() -> usize>(b"fake_devices").unwrap())() > 0 }
    }
}

/// The socket at which a rank attaches.
pub fn socket(world: &World, rank: usize) -> PathBuf {
    world.room.path().join(format!("engine{}.sock", world.ranks[rank]))
}

/// Takes a rail out of use on both nodes.
pub fn drain(world: &World, rail: u16) {
    for node in [0, 1] {
        let control = world.room.path().join(format!("engine{node}.control"));
        let request = Request::Drain { rails: vec![rail], on: true };
        assert_eq!(control::ask(&control, &request, LONG).unwrap(), Reply::OK);
    }
}

/// A rank of a job in this process.
pub fn attach(world: &World, rank: u32) -> Client {
    let attach = Attach {
        socket: socket(world, rank as usize),
        rank,
        size: None,
        job_uid: "uid-1".into(),
        timeout: LONG,
    };
    let client = Client::attach(&attach).unwrap();
    client.use_gpus(Gpus::new(Some(Fake::cuda()), Some("/nowhere/libhsa.so".into())));
    client
}

/// Runs one thread for each rank and gives their results in rank order.
pub fn each<T: Send>(world: &World, ranks: u32, body: impl Fn(Client) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks).map(|rank| (attach(world, rank), &body)).collect();
        let threads: Vec<_> =
            threads.into_iter().map(|(client, body)| scope.spawn(move || body(client))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
