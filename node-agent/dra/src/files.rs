//! The files by which processes open RDMA devices, as the kernel names them in sysfs.

use std::{fs, path::PathBuf};

use crate::error::ClaimError;

/// Where the kernel lists them: a folder for each, with the name of its RDMA device in the file `ibdev`
/// (Documentation/ABI/stable/sysfs-class-infiniband).
const LISTED: &str = "sys/class/infiniband_verbs";

/// Where the kernel lists the connection manager of RDMA, which all devices share, once its module is there (rdma_ucm).
const MANAGER: &str = "sys/class/misc/rdma_cm";

/// This server's, or those of a recorded one.
#[derive(Debug, Clone)]
pub struct DeviceFiles {
    root: PathBuf,
}

impl DeviceFiles {
    /// Those that sysfs below this folder has: `/`.
    #[must_use]
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The path of the connection manager's character device; `None` where the kernel has none, and a container with it could not start.
    #[must_use]
    pub fn manager(&self) -> Option<String> {
        self.root.join(MANAGER).exists().then(|| "/dev/infiniband/rdma_cm".to_owned())
    }

    /// The path of the character device of an RDMA device, for example `/dev/infiniband/uverbs0`.
    ///
    /// # Errors
    /// [`ClaimError::NoFile`] if the kernel has none.
    pub fn of(&self, device: &str) -> Result<String, ClaimError> {
        let folder = self.root.join(LISTED);
        let is_it = |name: &String| {
            let named = fs::read_to_string(folder.join(name).join("ibdev"));
            named.is_ok_and(|text| text.trim() == device)
        };
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        // What is no such name does not become a path in a container.
        let mut numbered = names.filter(|name| {
            name.strip_prefix("uverbs")
                .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
        });
        match numbered.find(is_it) {
            Some(name) => Ok(format!("/dev/infiniband/{name}")),
            None => Err(ClaimError::NoFile { device: device.to_owned(), folder }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_by_its_name_and_a_missing_one_says_what_to_do() {
        let root = tempfile::tempdir().unwrap();
        for (file, device) in [("uverbs0", "mlx5_1"), ("uverbs1", "mlx5_0"), ("abi_version", "mlx5_2")] {
            let folder = root.path().join(LISTED).join(file);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("ibdev"), format!("{device}\n")).unwrap();
        }
        let files = DeviceFiles::below(root.path());
        assert_eq!(files.manager(), None);
        fs::create_dir_all(root.path().join(MANAGER)).unwrap();
        assert_eq!(files.manager().as_deref(), Some("/dev/infiniband/rdma_cm"));
        assert_eq!(files.of("mlx5_0").unwrap(), "/dev/infiniband/uverbs1");
        for missing in ["mlx5_2", "mlx5"] {
            let error = files.of(missing).unwrap_err().to_string();
            assert!(error.contains(missing) && error.contains("ib_uverbs"), "{error}");
        }
    }
}
