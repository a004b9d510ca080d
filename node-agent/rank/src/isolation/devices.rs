//! Device files of GPUs: what a job that holds some of them needs in `/dev`, and nothing of the others. Never a NIC.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use proto_model::MigInstance;

/// Device files that every process may have (those of a container, by OCI's runtime specification).
pub const PLAIN: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Files of NVIDIA's driver that belong to no GPU.
const NVIDIA: [&str; 4] = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"];

/// A GPU that a job holds, or a partition of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its PCI address, or that of the whole GPU.
    pub pci: String,
    /// The MIG partition; `None` for a whole GPU.
    pub mig: Option<MigInstance>,
}

/// The device files of GPUs, those that are there: `root` is `/` but in tests.
#[must_use]
pub fn of_gpus(root: &Path, gpus: &[Device]) -> Vec<PathBuf> {
    let dev = root.join("dev");
    let mut found = BTreeSet::new();
    let own: Vec<PathBuf> = gpus.iter().filter_map(|gpu| nvidia(root, &gpu.pci)).collect();
    if own.iter().any(|file| file.exists()) {
        found.extend(
            gpus.iter()
                .filter_map(|gpu| Some((gpu, gpu.mig?)))
                .flat_map(|(gpu, mig)| capabilities(root, &gpu.pci, mig)),
        );
        found.extend(own);
        found.extend(NVIDIA.iter().map(|name| dev.join(name)));
    }
    let nodes: Vec<PathBuf> = gpus.iter().flat_map(|gpu| render(root, &gpu.pci)).collect();
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

/// A number that the driver writes as a line of a file in `/proc`.
fn minor(file: &Path, name: &str) -> Option<u32> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

/// The minor number of a GPU: the driver says it.
fn nvidia_minor(root: &Path, pci: &str) -> Option<u32> {
    let file = root.join("proc/driver/nvidia/gpus").join(pci.to_lowercase()).join("information");
    minor(&file, "Device Minor:")
}

/// `/dev/nvidiaN` of a GPU.
fn nvidia(root: &Path, pci: &str) -> Option<PathBuf> {
    nvidia_minor(root, pci).map(|minor| root.join("dev").join(format!("nvidia{minor}")))
}

/// `/dev/nvidia-caps/nvidia-capN` of a partition, which its GPU's own file is no use without: those of the GPU instance and of the compute
/// instance in it (NVIDIA MIG User Guide, "Device Nodes and Capabilities").
fn capabilities(root: &Path, pci: &str, mig: MigInstance) -> Vec<PathBuf> {
    let Some(gpu) = nvidia_minor(root, pci) else { return Vec::new() };
    let instance = format!("proc/driver/nvidia/capabilities/gpu{gpu}/mig/gi{}", mig.gpu_instance);
    let instance = root.join(instance);
    let both = [instance.join("access"), instance.join(format!("ci{}", mig.compute_instance)).join("access")];
    let numbers = both.iter().filter_map(|file| minor(file, "DeviceFileMinor:"));
    numbers.map(|number| root.join("dev/nvidia-caps").join(format!("nvidia-cap{number}"))).collect()
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

    fn whole(pci: &str) -> Device {
        Device { pci: pci.to_owned(), mig: None }
    }

    fn names(root: &Path, gpus: &[Device]) -> Vec<String> {
        let found = of_gpus(root, gpus);
        found.iter().map(|file| file.strip_prefix(root).unwrap().display().to_string()).collect()
    }

    #[test]
    fn an_instance_comes_with_its_capabilities_and_no_others() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let pci = "0000:1b:00.0";
        touch(root, &format!("proc/driver/nvidia/gpus/{pci}/information"), "Device Minor: \t 3\n");
        for file in ["nvidia3", "nvidiactl", "nvidia-caps/nvidia-cap1", "nvidia-caps/nvidia-cap2"] {
            touch(root, &format!("dev/{file}"), "");
        }
        for (at, gi) in [(30, 7), (39, 9)] {
            let of = format!("proc/driver/nvidia/capabilities/gpu3/mig/gi{gi}");
            touch(root, &format!("{of}/access"), &format!("DeviceFileMinor: {at}\nDeviceFileMode: 438\n"));
            touch(
                root,
                &format!("{of}/ci0/access"),
                &format!("DeviceFileMinor: {}\nDeviceFileMode: 438\n", at + 1),
            );
            touch(root, &format!("dev/nvidia-caps/nvidia-cap{at}"), "");
            touch(root, &format!("dev/nvidia-caps/nvidia-cap{}", at + 1), "");
        }
        let part = |gpu_instance| {
            let mig = Some(MigInstance { gpu_instance, compute_instance: 0 });
            Device { mig, ..whole(pci) }
        };
        let caps = |numbers: [u32; 2]| numbers.map(|number| format!("dev/nvidia-caps/nvidia-cap{number}"));
        let plain = ["dev/nvidia3".to_owned(), "dev/nvidiactl".to_owned()];
        assert_eq!(names(root, &[part(7)]), [caps([30, 31]), plain.clone()].concat());
        assert_eq!(
            names(root, &[part(7), part(9)]),
            [caps([30, 31]), caps([39, 40]), plain.clone()].concat()
        );
        assert_eq!(names(root, &[part(5)]), plain, "one that is gone opens nothing");
    }

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
        let names = |pci: &[&str]| names(root, &pci.iter().map(|pci| whole(pci)).collect::<Vec<_>>());
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
