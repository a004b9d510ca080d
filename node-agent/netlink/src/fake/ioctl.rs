//! The fake kernel's answers to the ethtool ioctl.

use super::World;
use crate::{
    error::Errno,
    private::{NAME, PFC_PREVENTION, command, set},
    wire::{u32_at, u64_at},
};

/// Writes where there is room; EFAULT where there is none, as at the guard of the real one.
fn put(data: &mut [u8], at: usize, bytes: &[u8]) -> Result<(), Errno> {
    let room = at.checked_add(bytes.len()).and_then(|end| data.get_mut(at..end));
    room.ok_or(Errno(libc::EFAULT))?.copy_from_slice(bytes);
    Ok(())
}

fn name(text: &str) -> [u8; NAME] {
    let mut bytes = [0; NAME];
    for (to, from) in bytes[..NAME - 1].iter_mut().zip(text.bytes()) {
        *to = from;
    }
    bytes
}

impl World {
    pub(super) fn ioctl(&mut self, device: &str, data: &mut [u8], mortal: bool) -> Result<(), Errno> {
        let command = u32_at(data, 0).ok_or(Errno::INVAL)?;
        self.devices.get_mut(device).ok_or(Errno::NODEV)?.failure("ioctl")?;
        if matches!(command, command::SET_FLAGS | command::SET_TUNABLE) {
            return self.set(device, command, data, mortal);
        }
        let device = self.devices.get(device).ok_or(Errno::NODEV)?;
        let names = |which: u32| -> Vec<&str> {
            match which {
                set::STATISTICS => device.statistics.iter().map(|(name, _)| name.as_str()).collect(),
                set::FLAGS => device.flags.iter().map(|(name, _)| name.as_str()).collect(),
                _ => Vec::new(),
            }
        };
        let length = |names: &[&str]| u32::try_from(names.len()).unwrap_or(u32::MAX);
        match command {
            command::DRIVER => {
                let of = &device.driver;
                for (part, text) in [&of.name, &of.version, &of.firmware, &of.bus].into_iter().enumerate() {
                    put(data, 4 + NAME * part, &name(text))?;
                }
                put(data, 195, &[0])
            }
            command::SETS => {
                let mask = u64_at(data, 8).ok_or(Errno::INVAL)?;
                let which = mask.trailing_zeros();
                let found = names(which);
                let known = if found.is_empty() { 0 } else { 1u64 << which.min(63) };
                put(data, 8, &known.to_ne_bytes())?;
                if known == 0 { Ok(()) } else { put(data, 16, &length(&found).to_ne_bytes()) }
            }
            command::STRINGS => {
                let found = names(u32_at(data, 4).ok_or(Errno::INVAL)?);
                put(data, 8, &length(&found).to_ne_bytes())?;
                found.iter().enumerate().try_for_each(|(at, text)| put(data, 12 + NAME * at, &name(text)))
            }
            command::STATISTICS => {
                put(data, 4, &length(&names(set::STATISTICS)).to_ne_bytes())?;
                let values = device.statistics.iter().enumerate();
                values
                    .into_iter()
                    .try_for_each(|(at, (_, value))| put(data, 8 + 8 * at, &value.to_ne_bytes()))
            }
            command::GET_FLAGS => {
                let bits = device
                    .flags
                    .iter()
                    .enumerate()
                    .fold(0u32, |bits, (bit, (_, on))| bits | u32::from(*on) << bit);
                put(data, 4, &bits.to_ne_bytes())
            }
            command::GET_TUNABLE => {
                if !asks_for_storms(data) {
                    return Err(Errno::INVAL);
                }
                put(data, 16, &device.storm_limit.ok_or(Errno::OPNOTSUPP)?.to_ne_bytes())
            }
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    fn set(&mut self, device: &str, command: u32, data: &[u8], mortal: bool) -> Result<(), Errno> {
        let what = if command == command::SET_FLAGS { "private flags" } else { "storm limit" };
        let held = self.devices.get(device).ok_or(Errno::NODEV)?;
        let limit = crate::wire::u16_at(data, 16).unwrap_or(0);
        if command == command::SET_TUNABLE {
            held.storm_limit.ok_or(Errno::OPNOTSUPP)?;
            // mlx5 takes 80 to 8000 ms, 0 for off and 65535 for its own choice.
            if !asks_for_storms(data) || !(limit == 0 || limit == u16::MAX || (80..=8000).contains(&limit)) {
                return Err(Errno::INVAL);
            }
        }
        if mortal {
            self.spend(format!("{device}: {what}"))?;
        }
        let Some(held) = self.devices.get_mut(device) else { return Err(Errno::NODEV) };
        if command == command::SET_TUNABLE {
            held.storm_limit = Some(limit);
            return Ok(());
        }
        let bits = u32_at(data, 4).ok_or(Errno::INVAL)?;
        for (bit, (_, on)) in held.flags.iter_mut().enumerate() {
            *on = bits >> bit.min(31) & 1 == 1;
        }
        Ok(())
    }
}

fn asks_for_storms(data: &[u8]) -> bool {
    [4, 8, 12].map(|at| u32_at(data, at)) == PFC_PREVENTION.map(Some)
}
