//! File systems of their own, small and on loop devices, that fill and that stall.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use crate::net::feed;

/// How long a slow disk stalls at a time, and how long it goes on between.
const STALL: (Duration, Duration) = (Duration::from_millis(400), Duration::from_millis(150));

/// A small file system on a loop device, for one part.
#[derive(Debug, Clone)]
pub struct Disk {
    /// Where it is mounted.
    pub mount: PathBuf,
    /// The file that takes the room of a full disk.
    filler: PathBuf,
}

impl Disk {
    /// Makes and mounts one, in the mount namespace of this process.
    ///
    /// # Errors
    /// What the tools said.
    pub fn make(dir: &Path, name: &str, mib: u64) -> Result<Self, String> {
        let (image, mount) = (dir.join(format!("{name}.img")), dir.join(name));
        let fault = |error: std::io::Error| format!("{}: {error}", image.display());
        fs::create_dir_all(&mount).map_err(fault)?;
        File::create(&image).and_then(|file| file.set_len(mib << 20)).map_err(fault)?;
        feed(Command::new("mkfs.ext4").args(["-q", "-m", "0", "-O", "^has_journal,extent"]).arg(&image), "")?;
        feed(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mount), "")?;
        Ok(Self::at(dir, name))
    }

    /// One that has been made.
    pub fn at(dir: &Path, name: &str) -> Self {
        let mount = dir.join(name);
        Self { filler: mount.join("filler"), mount }
    }

    /// Takes every byte that is left; gives how many MiB there were.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn fill(&self) -> Result<u64, String> {
        let fault = |error: &dyn std::fmt::Display| format!("{}: {error}", self.filler.display());
        let file = File::create(&self.filler).map_err(|error| fault(&error))?;
        let mut length = 0;
        // The blocks that describe the file need room too: what does not fit whole is taken in smaller parts.
        let mut part: u64 = 64 << 20;
        while part >= 4096 {
            let left = statvfs(&self.mount).map_err(|error| fault(&error))?;
            let left = left.f_bavail * left.f_frsize;
            match fallocate(&file, FallocateFlags::empty(), length, part.min(left.max(4096))) {
                Ok(()) => length += part.min(left.max(4096)),
                Err(_) => part /= 4,
            }
        }
        if length == 0 { Err(fault(&"it took nothing")) } else { Ok(length >> 20) }
    }

    /// Gives it all back.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn empty(&self) -> Result<(), String> {
        fs::remove_file(&self.filler).map_err(|error| format!("{}: {error}", self.filler.display()))
    }

    /// Stalls again and again for so long: whoever writes waits. It goes at the end, whatever happens.
    ///
    /// # Errors
    /// What `fsfreeze` said; then it goes.
    pub fn stall(&self, time: Duration) -> Result<usize, String> {
        let end = Instant::now() + time;
        let mut times = 0;
        while Instant::now() < end {
            self.freeze("--freeze")?;
            std::thread::sleep(STALL.0);
            self.freeze("--unfreeze")?;
            times += 1;
            std::thread::sleep(STALL.1);
        }
        Ok(times)
    }

    fn freeze(&self, how: &str) -> Result<(), String> {
        feed(Command::new("fsfreeze").arg(how).arg(&self.mount), "")
    }
}
