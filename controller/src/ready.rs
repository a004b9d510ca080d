//! controller.json: where the controller is, for scripts that wait for it. Written when it serves, gone when it ends.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use proto_rpc::{
    Listen,
    files::{self, FileError},
};

const FILE: &str = "controller.json";

/// The file while it is there; removed when dropped.
#[derive(Debug)]
pub struct Ready {
    path: PathBuf,
}

/// Removes what a former life has left, so that nobody takes it for this one.
///
/// # Errors
/// The file is there and cannot be removed.
pub fn clear(data_dir: &Path) -> io::Result<()> {
    match fs::remove_file(data_dir.join(FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Says that the controller serves now.
///
/// # Errors
/// The file cannot be written.
pub fn announce(
    data_dir: &Path,
    serving: &[Listen],
    metrics: &[Listen],
    cluster: &str,
    ca_pin: &str,
) -> Result<Ready, FileError> {
    let endpoint = |listen: &Listen| match listen {
        Listen::Tcp(address) => format!("https://{address}"),
        Listen::Unix(_) => listen.to_string(),
    };
    let tcp = serving.iter().filter(|listen| matches!(listen, Listen::Tcp(_)));
    let unix = serving.iter().find_map(|listen| match listen {
        Listen::Unix(path) => Some(path.display().to_string()),
        Listen::Tcp(_) => None,
    });
    let document = serde_json::json!({
        "pid": std::process::id(),
        "version": env!("CARGO_PKG_VERSION"),
        "cluster": cluster,
        "endpoints": serving.iter().map(endpoint).collect::<Vec<_>>(),
        "addresses": tcp.map(ToString::to_string).collect::<Vec<_>>(),
        "unix": unix,
        "metrics": metrics.first().map(|listen| format!("http://{listen}")),
        "ca_pin": ca_pin,
    });
    let path = data_dir.join(FILE);
    files::write_public(&path, &format!("{document}\n"))?;
    Ok(Ready { path })
}

impl Ready {
    /// Removes the announcement from the data folder.
    pub fn withdraw(&self) {
        // Dropping it does the same, and the next start.
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        // The next start removes it too.
        let _ = fs::remove_file(&self.path);
    }
}
