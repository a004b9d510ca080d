//! Defaults of the RDMA connection manager in configfs (`drivers/infiniband/core/cma_configfs.c`): a folder is made for a device, its
//! files are read and written, and the folder is removed again. What was written stays.

use std::io;

use node_agent_netlink::Files;
use node_agent_qos::{Reading, words::RoceMode};

const BASE: &str = "sys/kernel/config/rdma_cm";

/// Does something with a device's folder, and removes the folder if it was not there before.
fn with_folder<T>(files: &dyn Files, device: &str, act: impl FnOnce(&str) -> io::Result<T>) -> io::Result<T> {
    let folder = format!("{BASE}/{device}");
    let made = match files.make(&folder) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error),
    };
    let result = act(&folder);
    if made {
        // Somebody else may have removed it already; it holds nothing.
        let _ = files.remove(&folder);
    }
    result
}

/// A default of a device's port as text.
pub(super) fn read(files: &dyn Files, device: &str, port: u32, file: &str) -> io::Result<String> {
    with_folder(files, device, |folder| {
        let bytes = files.read(&format!("{folder}/ports/{port}/{file}"))?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    })
}

/// Sets a default of a device's port.
pub(super) fn write(files: &dyn Files, device: &str, port: u32, file: &str, text: &str) -> io::Result<()> {
    with_folder(files, device, |folder| {
        files.write(&format!("{folder}/ports/{port}/{file}"), text.as_bytes())
    })
}

/// A file's reading: without configfs, the connection manager or the device there is none.
fn default_of<T>(
    files: &dyn Files,
    device: Option<&str>,
    port: u32,
    file: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Reading<T> {
    let Some(device) = device else { return Reading::Unsupported };
    match read(files, device, port, file) {
        Ok(text) => {
            parse(&text).map_or_else(|| Reading::Unreadable(format!("{file} says '{text}'")), Reading::Known)
        }
        // ENOENT: no connection manager in configfs. ENODEV: it does not know the device.
        Err(error) if matches!(error.raw_os_error(), Some(2 | 19)) => Reading::Unsupported,
        Err(error) => Reading::Unreadable(format!("{BASE}/{device}/ports/{port}/{file}: {error}")),
    }
}

/// ToS byte of connections.
pub(super) fn tos(files: &dyn Files, device: Option<&str>, port: u32) -> Reading<u8> {
    default_of(files, device, port, "default_roce_tos", |text| text.parse().ok())
}

/// RoCE version of connections.
pub(super) fn mode(files: &dyn Files, device: Option<&str>, port: u32) -> Reading<RoceMode> {
    let known = [RoceMode::V1, RoceMode::V2];
    default_of(files, device, port, "default_roce_mode", |text| {
        known.into_iter().find(|mode| mode.as_str() == text)
    })
}
