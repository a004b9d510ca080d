//! What drivers give only by the ethtool ioctl (`include/uapi/linux/ethtool.h`): private statistics and flags, firmware, and the
//! tunable against PFC storms. The bytes are made and read here, without unsafe code; `sys` only passes them on.

use std::{io, time::Duration};

use crate::{
    error::{Errno, NetlinkError},
    kernel::Kernel,
    wire::{u32_at, u64_at},
};

/// Commands of the ethtool ioctl (`ETHTOOL_*` of the kernel's `ethtool.h`).
pub(crate) mod command {
    pub(crate) const DRIVER: u32 = 0x03;
    pub(crate) const STRINGS: u32 = 0x1b;
    pub(crate) const STATISTICS: u32 = 0x1d;
    pub(crate) const GET_FLAGS: u32 = 0x27;
    pub(crate) const SET_FLAGS: u32 = 0x28;
    pub(crate) const SETS: u32 = 0x37;
    pub(crate) const GET_TUNABLE: u32 = 0x48;
    pub(crate) const SET_TUNABLE: u32 = 0x49;
}

/// Sets of strings (`ETH_SS_*`), each with the names of what it numbers.
pub(crate) mod set {
    pub(crate) const STATISTICS: u32 = 1;
    pub(crate) const FLAGS: u32 = 2;
}

/// Length of a name in such a set, in bytes (`ETH_GSTRING_LEN`).
pub(crate) const NAME: usize = 32;
/// `ETHTOOL_PFC_PREVENTION_TOUT`, a u16 (`ETHTOOL_TUNABLE_U16`) of two bytes.
pub(crate) const PFC_PREVENTION: [u32; 3] = [3, 2, 2];
/// More names than any driver has (mlx5 with 128 channels: some 7,000).
const NAMES_MOST: u32 = 100_000;
/// Times that names and values are asked for while their number changes.
const ATTEMPTS: u32 = 4;

/// The driver of a device (`struct ethtool_drvinfo`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Driver {
    /// Name of the driver, such as `mlx5_core`.
    pub name: String,
    /// Its own version; the kernel's where it has none.
    pub version: String,
    /// Version of the device's firmware; empty where there is none.
    pub firmware: String,
    /// Bus address of the device, such as `0000:18:00.0`.
    pub bus: String,
}

/// How long a device lets itself be paused before it drops instead (`pfc-prevention-tout`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StormLimit {
    /// It lets itself be paused for ever.
    Off,
    /// As the driver thinks right: 100 ms on mlx5.
    Automatic,
    /// It drops after this time; mlx5 takes 80 to 8000 ms.
    After(Duration),
}

impl StormLimit {
    /// From the kernel's number.
    #[must_use]
    pub fn decode(value: u16) -> Self {
        match value {
            0 => Self::Off,
            u16::MAX => Self::Automatic,
            millis => Self::After(Duration::from_millis(millis.into())),
        }
    }

    /// The kernel's number for this limit, in ms; 0 and 65535 have meanings of their own.
    #[must_use]
    pub fn encode(self) -> u16 {
        match self {
            Self::Off => 0,
            Self::Automatic => u16::MAX,
            Self::After(limit) => {
                u16::try_from(limit.as_millis()).unwrap_or(u16::MAX - 1).clamp(1, u16::MAX - 1)
            }
        }
    }
}

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

fn call(kernel: &dyn Kernel, device: &str, what: &str, mut data: Vec<u8>) -> Result<Vec<u8>, NetlinkError> {
    call_in(kernel, device, what, &mut data).map(|()| data)
}

/// The same, with memory of the caller for the answer.
fn call_in(kernel: &dyn Kernel, device: &str, what: &str, data: &mut [u8]) -> Result<(), NetlinkError> {
    match kernel.ethtool(device, data) {
        Ok(()) => Ok(()),
        Err(error) => Err(match error.raw_os_error() {
            Some(code) => {
                NetlinkError::Refused { what: format!("{what} of {device}"), errno: Errno(code), words: None }
            }
            None => NetlinkError::Io { what: format!("{what} of {device}"), source: error },
        }),
    }
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The device's driver and firmware (`struct ethtool_drvinfo`, 196 bytes).
///
/// # Errors
/// `ENODEV`, `EOPNOTSUPP`.
pub fn driver(kernel: &dyn Kernel, device: &str) -> Result<Driver, NetlinkError> {
    let mut request = words(&[command::DRIVER]);
    request.resize(196, 0);
    let answer = call(kernel, device, "read the driver", request)?;
    let part = |part: usize| text(&answer[4 + 32 * part..][..32]);
    Ok(Driver { name: part(0), version: part(1), firmware: part(2), bus: part(3) })
}

/// How many names a set has; 0 where the device has no such set.
fn count(kernel: &dyn Kernel, device: &str, set: u32, what: &str) -> Result<u32, NetlinkError> {
    let mut request = words(&[command::SETS, 0]);
    request.extend((1u64 << set).to_ne_bytes());
    request.extend([0; 4]);
    let answer = call(kernel, device, what, request)?;
    let known = u64_at(&answer, 8).is_some_and(|mask| mask != 0);
    let count = u32_at(&answer, 16).filter(|_| known).unwrap_or(0);
    if count > NAMES_MOST {
        let what = format!("{what} of {device}");
        return Err(NetlinkError::TooLong { what, length: count as usize, most: NAMES_MOST as usize });
    }
    Ok(count)
}

fn names(
    kernel: &dyn Kernel,
    device: &str,
    set: u32,
    count: u32,
    what: &str,
) -> Result<Vec<String>, NetlinkError> {
    let mut request = words(&[command::STRINGS, set, count]);
    request.resize(12 + NAME * count as usize, 0);
    let answer = call(kernel, device, what, request)?;
    let said = u32_at(&answer, 8).unwrap_or(0).min(count) as usize;
    Ok(answer[12..].chunks_exact(NAME).take(said).map(text).collect())
}

const READ: &str = "read the private statistics";

/// The driver's own statistics (`ethtool -S`), in the driver's order.
///
/// # Errors
/// `ENODEV`; a driver that has none gives an empty list.
pub fn statistics(kernel: &dyn Kernel, device: &str) -> Result<Vec<(String, u64)>, NetlinkError> {
    let mut values = StatisticValues::default();
    for _ in 0..ATTEMPTS {
        let names = statistic_names(kernel, device)?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        // A driver that was reloaded between the questions has other names for these values.
        if values.read(kernel, device, names.len())? {
            let value = |index: usize| values.get(index).unwrap_or(0);
            return Ok(names.into_iter().enumerate().map(|(index, name)| (name, value(index))).collect());
        }
    }
    Err(restless(device))
}

/// The names of the driver's own statistics, in the order of their values; none where it has none.
///
/// # Errors
/// `ENODEV`.
pub fn statistic_names(kernel: &dyn Kernel, device: &str) -> Result<Vec<String>, NetlinkError> {
    for _ in 0..ATTEMPTS {
        let count = count(kernel, device, set::STATISTICS, READ)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        if let Some(names) = again(names(kernel, device, set::STATISTICS, count, READ))? {
            return Ok(names);
        }
    }
    Err(restless(device))
}

fn restless(device: &str) -> NetlinkError {
    NetlinkError::Restless { what: format!("{READ} of {device}"), times: ATTEMPTS }
}

/// Values of the driver's own statistics, read again and again into the same memory.
#[derive(Debug, Clone, Default)]
pub struct StatisticValues {
    /// The bytes of a `struct ethtool_stats` with its values.
    data: Vec<u8>,
}

impl StatisticValues {
    /// Reads them all. False if the driver has not `count` of them now, so that their names have to be asked for again.
    ///
    /// # Errors
    /// `ENODEV`; the driver's own where its firmware does not answer.
    pub fn read(&mut self, kernel: &dyn Kernel, device: &str, count: usize) -> Result<bool, NetlinkError> {
        let wanted = u32::try_from(count).unwrap_or(u32::MAX).min(NAMES_MOST);
        self.data.resize(8 + 8 * wanted as usize, 0);
        self.data[..4].copy_from_slice(&command::STATISTICS.to_ne_bytes());
        self.data[4..8].copy_from_slice(&wanted.to_ne_bytes());
        let answered = again(call_in(kernel, device, READ, &mut self.data))?.is_some();
        Ok(answered && u32_at(&self.data, 4) == Some(wanted))
    }

    /// The value at this place of the list of names.
    #[must_use]
    pub fn get(&self, place: usize) -> Option<u64> {
        u64_at(&self.data, place.checked_mul(8)?.checked_add(8)?)
    }
}

/// An answer that outgrew its room (`EFAULT`) is asked for again: the list changed meanwhile.
fn again<T>(answer: Result<T, NetlinkError>) -> Result<Option<T>, NetlinkError> {
    match answer {
        Err(error) if error.errno() == Some(Errno(libc::EFAULT)) => Ok(None),
        other => other.map(Some),
    }
}

/// The driver's own flags (`ethtool --show-priv-flags`).
///
/// # Errors
/// `ENODEV`; a driver that has none gives an empty list.
pub fn flags(kernel: &dyn Kernel, device: &str) -> Result<Vec<(String, bool)>, NetlinkError> {
    let what = "read the private flags";
    let count = count(kernel, device, set::FLAGS, what)?;
    if count == 0 {
        return Ok(Vec::new());
    }
    let names = names(kernel, device, set::FLAGS, count, what)?;
    let answer = call(kernel, device, what, words(&[command::GET_FLAGS, 0]))?;
    let bits = u32_at(&answer, 4).unwrap_or(0);
    Ok(names.into_iter().take(32).enumerate().map(|(bit, name)| (name, bits >> bit & 1 == 1)).collect())
}

/// Sets one of the driver's own flags.
///
/// # Errors
/// `EOPNOTSUPP` where the driver has no such flag, `EPERM`.
pub fn set_flag(kernel: &dyn Kernel, device: &str, name: &str, on: bool) -> Result<(), NetlinkError> {
    let known = flags(kernel, device)?;
    let what = format!("set the private flag {name}");
    let Some(bit) = known.iter().position(|(known, _)| known == name) else {
        let what = format!("{what} of {device}");
        return Err(NetlinkError::Refused { what, errno: Errno::OPNOTSUPP, words: None });
    };
    let held = known.iter().enumerate().fold(0u32, |bits, (bit, (_, on))| bits | u32::from(*on) << bit);
    let bits = if on { held | 1 << bit } else { held & !(1 << bit) };
    call(kernel, device, &what, words(&[command::SET_FLAGS, bits])).map(drop)
}

fn tunable(command: u32, value: u16) -> Vec<u8> {
    let [id, kind, length] = PFC_PREVENTION;
    let mut request = words(&[command, id, kind, length]);
    request.extend(value.to_ne_bytes());
    request
}

/// The device's limit against PFC storms.
///
/// # Errors
/// `EOPNOTSUPP` where the driver has none, `ENODEV`.
pub fn storm_limit(kernel: &dyn Kernel, device: &str) -> Result<StormLimit, NetlinkError> {
    let answer = call(kernel, device, "read the limit against PFC storms", tunable(command::GET_TUNABLE, 0))?;
    Ok(StormLimit::decode(crate::wire::u16_at(&answer, 16).unwrap_or(0)))
}

/// Sets the device's limit against PFC storms.
///
/// # Errors
/// `EOPNOTSUPP` where the driver has none, `EINVAL` or `ERANGE` outside of its limits, `EPERM`.
pub fn set_storm_limit(kernel: &dyn Kernel, device: &str, limit: StormLimit) -> Result<(), NetlinkError> {
    let request = tunable(command::SET_TUNABLE, limit.encode());
    call(kernel, device, "set the limit against PFC storms", request).map(drop)
}

/// For callers that read a driver's failure as an IO error.
impl From<NetlinkError> for io::Error {
    fn from(error: NetlinkError) -> Self {
        let kind = error.errno().map_or(io::ErrorKind::Other, |errno| io::Error::from(errno).kind());
        io::Error::new(kind, error)
    }
}
