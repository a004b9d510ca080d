//! A kernel in memory that answers the same bytes as a real one, through the same codec: for tests, where no device has DCB, and to
//! inject what cannot be ordered from a real one (failures, foreign changes, reloads, an end in the middle of a change).

mod device;
mod files;
mod ioctl;
mod world;

use std::{
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

pub use device::{Bridging, Device, Style};
pub use files::{File, Folder};
pub use world::World;

use crate::{
    error::Errno,
    kernel::{Channel, Family, Files, Kernel, Received},
    wire::Messages,
};
use world::Queue;

#[derive(Debug, Default)]
struct Shared {
    world: Mutex<World>,
    arrived: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kernel. Clones share one world.
#[derive(Debug, Clone, Default)]
pub struct FakeKernel {
    shared: Arc<Shared>,
    /// Calls over this handle are not those of the program under test: they neither count nor fail.
    foreign: bool,
}

impl FakeKernel {
    /// A kernel without any device or file.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same world, for another program: its calls go on when this one's fail.
    #[must_use]
    pub fn foreign(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), foreign: true }
    }

    /// Looks at and changes the world; events that this causes are sent.
    pub fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let result = change(&mut self.shared.lock());
        self.shared.arrived.notify_all();
        result
    }

    /// Adds a device; its index is the next free one.
    pub fn add(&self, name: &str, style: Style) {
        self.change(|world| {
            let index = world.fresh_index();
            world.devices.insert(name.to_owned(), Device::new(name, index, style));
            world.report_link(name);
        });
    }

    /// The link goes down and comes up again.
    pub fn flap(&self, name: &str) {
        self.change(|world| {
            world.set_link(name, false);
            world.set_link(name, true);
        });
    }

    /// The driver is reloaded: the device goes, and comes back as new, under another index.
    pub fn reload(&self, name: &str) {
        self.change(|world| {
            let Some(old) = world.devices.remove(name) else { return };
            world.report_gone(&old);
            let index = world.fresh_index();
            let mut fresh = Device::new(name, index, old.style);
            fresh.link.parent = old.link.parent;
            fresh.addresses = old.addresses;
            fresh.statistics = old.statistics.into_iter().map(|(name, _)| (name, 0)).collect();
            fresh.link.up = false;
            world.devices.insert(name.to_owned(), fresh);
            world.report_link(name);
            world.set_link(name, true);
        });
    }

    /// A device gets another name.
    pub fn rename(&self, old: &str, new: &str) {
        self.change(|world| {
            if let Some(mut device) = world.devices.remove(old) {
                device.link.name = new.to_owned();
                world.devices.insert(new.to_owned(), device);
                world.report_link(new);
            }
        });
    }

    /// From now on this many changes succeed; then every call over a handle that is not foreign fails, as if its program were dead.
    pub fn die_after(&self, changes: u64) {
        self.change(|world| world.lives = Some(changes));
    }

    /// Ends what [`Self::die_after`] began: calls succeed again.
    pub fn revive(&self) {
        self.change(|world| world.lives = None);
    }

    /// What was changed over handles that are not foreign, in words.
    #[must_use]
    pub fn done(&self) -> Vec<String> {
        self.shared.lock().done.clone()
    }

    /// Counts something that is no call to a kernel, such as the write of a journal, as a change.
    ///
    /// # Errors
    /// As if the program were dead.
    pub fn spend(&self, what: &str) -> io::Result<()> {
        self.mortal(&mut self.shared.lock(), |world| world.spend(what.to_owned()))
    }

    fn mortal<T>(
        &self,
        world: &mut World,
        call: impl FnOnce(&mut World) -> Result<T, Errno>,
    ) -> io::Result<T> {
        if !self.foreign && world.is_dead() {
            return Err(io::Error::other("the program is dead"));
        }
        Ok(call(world)?)
    }
}

impl Kernel for FakeKernel {
    fn open(&self, family: Family, groups: &[u32]) -> io::Result<Box<dyn Channel>> {
        let mut world = self.shared.lock();
        let id = self.mortal(&mut world, |world| {
            world.opened += 1;
            let queue = Queue { family, groups: groups.to_vec(), datagrams: [].into(), lost: false };
            world.queues.insert(world.opened, queue);
            Ok(world.opened)
        })?;
        Ok(Box::new(FakeChannel { kernel: self.clone(), id, family }))
    }

    fn ethtool(&self, device: &str, data: &mut [u8]) -> io::Result<()> {
        let foreign = self.foreign;
        self.mortal(&mut self.shared.lock(), |world| world.ioctl(device, data, !foreign))
    }

    fn files(&self) -> &dyn Files {
        self
    }
}

impl Files for FakeKernel {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.mortal(&mut self.shared.lock(), |world| world.files.read(path))
    }

    fn write(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let foreign = self.foreign;
        self.mortal(&mut self.shared.lock(), |world| {
            if !foreign {
                world.spend(format!("write {path}"))?;
            }
            world.files.write(path, bytes)
        })
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        self.mortal(&mut self.shared.lock(), |world| world.files.list(path))
    }

    fn make(&self, path: &str) -> io::Result<()> {
        self.mortal(&mut self.shared.lock(), |world| world.files.make(path))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.mortal(&mut self.shared.lock(), |world| world.files.remove(path))
    }

    fn leads_to(&self, path: &str) -> Option<String> {
        self.shared.lock().files.leads_to(path)
    }
}

struct FakeChannel {
    kernel: FakeKernel,
    id: u64,
    family: Family,
}

impl Channel for FakeChannel {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (family, id, mortal) = (self.family, self.id, !self.kernel.foreign);
        self.kernel.mortal(&mut self.kernel.shared.lock(), |world| {
            for message in Messages::new(bytes) {
                // The kernel drops what is no message.
                let Ok(message) = message else { break };
                let datagrams = world.answer(family, message, mortal);
                if mortal && world.is_dead() && datagrams.is_empty() {
                    return Err(Errno::IO);
                }
                if let Some(queue) = world.queues.get_mut(&id) {
                    queue.datagrams.extend(datagrams);
                }
            }
            Ok(())
        })?;
        self.kernel.shared.arrived.notify_all();
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<Received> {
        let deadline = Instant::now() + limit;
        let mut world = self.kernel.shared.lock();
        loop {
            if !self.kernel.foreign && world.is_dead() {
                return Err(io::Error::other("the program is dead"));
            }
            let queue = world.queues.get_mut(&self.id).ok_or(io::ErrorKind::NotConnected)?;
            if std::mem::take(&mut queue.lost) {
                return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
            }
            if let Some(datagram) = queue.datagrams.pop_front() {
                let copied = datagram.len().min(buffer.len());
                buffer[..copied].copy_from_slice(&datagram[..copied]);
                return Ok(Received { length: datagram.len(), from_kernel: true });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let waited = self.kernel.shared.arrived.wait_timeout(world, left);
            world = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for FakeChannel {
    fn drop(&mut self) {
        self.kernel.shared.lock().queues.remove(&self.id);
    }
}

#[cfg(test)]
mod tests;
