//! Device files of GPUs: what a job that holds some of them needs in `/dev`, and nothing of the others. Never a NIC.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Device files that every process may have (those of a container, by OCI's runtime specification).
pub const PLAIN: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Files of NVIDIA's driver that belong to no GPU.
const NVIDIA: [&str; 4] = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"];

/// The device files of GPUs at these PCI addresses, those that are there: `root` is `/` but in tests.
#[must_use]
pub fn of_gpus(root: &Path, pci: &[String]) -> Vec<PathBuf> {
    let dev = root.join("dev");
    let mut found = BTreeSet::new();
    let own: Vec<PathBuf> = pci.iter().filter_map(|pci| nvidia(root, pci)).collect();
    if own.iter().any(|file| file.exists()) {
        found.extend(own);
        found.extend(NVIDIA.iter().map(|name| dev.join(name)));
    }
    let nodes: Vec<PathBuf> = pci.iter().flat_map(|pci| render(root, pci)).collect();
    if nodes.iter().any(|file| file.exists()) {
        found.extend(nodes);
        found.insert(dev.join("kfd"));
    }
    found.into_iter().filter(|file| file.exists()).collect()
}

/// True if this server has a GPU's driver at all.
#[must_use]
pub fn any(root: &Path) -> bool {
    ["dev/nvidiactl", "dev/kfd"].iter().any(|file| root.join(file).exists())
}

/// `/dev/nvidiaN` of a GPU: the driver says which.
fn nvidia(root: &Path, pci: &str) -> Option<PathBuf> {
    let file = root.join("proc/driver/nvidia/gpus").join(pci.to_lowercase()).join("information");
    let text = fs::read_to_string(file).ok()?;
    let minor = text.lines().find_map(|line| line.strip_prefix("Device Minor:"))?;
    let minor: u32 = minor.trim().parse().ok()?;
    Some(root.join("dev").join(format!("nvidia{minor}")))
}

/// `/dev/dri/renderN` (and `cardN`) of a GPU of AMD or Intel.
fn render(root: &Path, pci: &str) -> Vec<PathBuf> {
    let folder = root.join("sys/bus/pci/devices").join(pci.to_lowercase()).join("drm");
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let names = names.filter(|name| name.starts_with("render") || name.starts_with("card"));
    names.map(|name| root.join("dev/dri").join(name)).collect()
}

/// Groups that may use device files which not everybody may use (`render`, `video`); root's own group never.
#[must_use]
pub fn groups(files: &[PathBuf]) -> BTreeSet<u32> {
    let metas = files.iter().filter_map(|file| fs::metadata(file).ok());
    let shared = |mode: u32| mode & 0o060 == 0o060 && mode & 0o006 != 0o006;
    metas.filter(|meta| shared(meta.mode()) && meta.gid() != 0).map(|meta| meta.gid()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(root: &Path, file: &str, text: &str) {
        let file = root.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    #[test]
    fn a_job_sees_its_own_gpus_and_never_a_nic() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for (number, pci) in ["0000:1b:00.0", "0000:43:00.0"].iter().enumerate() {
            let text = format!("Model: \t\t NVIDIA H200\nDevice Minor: \t {number}\n");
            touch(root, &format!("proc/driver/nvidia/gpus/{pci}/information"), &text);
            touch(root, &format!("dev/nvidia{number}"), "");
        }
        for name in ["nvidiactl", "nvidia-uvm", "infiniband/uverbs0", "kfd", "kmsg"] {
            touch(root, &format!("dev/{name}"), "");
        }
        let names = |pci: &[&str]| -> Vec<String> {
            let pci: Vec<String> = pci.iter().map(|pci| (*pci).to_owned()).collect();
            let found = of_gpus(root, &pci);
            found.iter().map(|file| file.strip_prefix(root).unwrap().display().to_string()).collect()
        };
        assert_eq!(names(&["0000:43:00.0"]), ["dev/nvidia-uvm", "dev/nvidia1", "dev/nvidiactl"]);
        assert_eq!(names(&["0000:99:00.0"]), Vec::<String>::new());
        assert_eq!(names(&[]), Vec::<String>::new());
        touch(root, "sys/bus/pci/devices/0000:a3:00.0/drm/renderD129/uevent", "");
        touch(root, "dev/dri/renderD128", "");
        touch(root, "dev/dri/renderD129", "");
        assert_eq!(names(&["0000:A3:00.0"]), ["dev/dri/renderD129", "dev/kfd"]);
    }

    #[test]
    fn a_rank_is_in_the_groups_of_its_gpus_and_never_in_roots() {
        use std::os::unix::fs::{PermissionsExt, chown};
        let root = tempfile::tempdir().unwrap();
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let file = |name: &str, gid: u32, mode: u32| {
            let path = root.path().join(name);
            fs::write(&path, "").unwrap();
            chown(&path, None, Some(gid)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let files = [
            file("renderD128", 105, 0o660),
            file("nvidia0", 44, 0o666),
            file("card0", 39, 0o640),
            file("kfd", 0, 0o660),
            root.path().join("gone"),
        ];
        assert_eq!(groups(&files), BTreeSet::from([105]));
    }
}
