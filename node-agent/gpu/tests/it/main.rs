//! NVML through the loader that the agent uses, with a library that stands in for it (`examples/fake_nvml.rs`).
#![allow(clippy::unwrap_used, reason = "a test")]

mod export;

use std::{
    ffi::c_int,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use node_agent_gpu::{Instance, Link, LoadError, Peer, ReadError, Reader};

const SOON: Duration = Duration::from_secs(20);
/// The library has one state for the process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

struct Fake {
    library: libloading::Library,
    path: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Fake {
    fn with(fault: c_int) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let program = std::env::current_exe().unwrap();
        let path = program.ancestors().nth(2).unwrap().join("examples/libfake_nvml.so");
        // SAFETY: it was built beside this test and does nothing when it is loaded.
        let library = unsafe { libloading::Library::new(&path) }.unwrap();
        let fake = Self { library, path, _alone: alone };
        fake.fault(fault);
        fake
    }

    fn fault(&self, fault: c_int) {
        // SAFETY: the function has this signature.
        unsafe { (self.library.get::<extern "C" fn(c_int)>(b"fake_fault").unwrap())(fault) }
    }

    fn sessions(&self, begun: bool) -> i64 {
        // SAFETY: the function has this signature.
        unsafe { (self.library.get::<extern "C" fn(c_int) -> i64>(b"fake_sessions").unwrap())(begun.into()) }
    }

    fn reader(&self) -> Reader {
        Reader::of(&self.path)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.fault(0);
    }
}

#[test]
fn gpus_are_told_with_their_links() {
    let fake = Fake::with(0);
    let driver = fake.reader().read(SOON).unwrap();
    assert_eq!((driver.version.as_str(), driver.devices.len()), ("550.90.07", 8));
    assert_eq!(driver.troubles, []);
    let gpu = &driver.devices[4];
    assert_eq!((gpu.pci_address.as_str(), gpu.uuid.as_str()), ("0000:9b:00.0", "GPU-00000004"));
    assert_eq!((gpu.name.as_str(), gpu.memory_bytes), ("NVIDIA H100 80GB HBM3", 80 << 30));
    assert_eq!(gpu.links, [Link { peer: Peer::Switch, count: 18, version: 4 }]);
    assert_eq!(fake.sessions(false), 0, "every session has ended");
}

#[test]
fn links_between_gpus_name_them_and_one_that_is_down_is_not_counted() {
    let fake = Fake::with(4);
    let driver = fake.reader().read(SOON).unwrap();
    let links = &driver.devices[0].links;
    assert_eq!(links.iter().map(|link| link.count).sum::<u32>(), 18);
    assert_eq!(links.len(), 7);
    assert!(links.iter().all(|link| matches!(&link.peer, Peer::Gpu(address) if address != "0000:1b:00.0")));
    fake.fault(3);
    let driver = fake.reader().read(SOON).unwrap();
    assert_eq!(driver.devices[0].links, [Link { peer: Peer::Switch, count: 17, version: 4 }]);
}

#[test]
fn a_lost_gpu_is_told_and_the_others_go_on() {
    let fake = Fake::with(2);
    let driver = fake.reader().read(SOON).unwrap();
    assert_eq!(driver.devices.iter().filter(|gpu| !gpu.uuid.is_empty()).count(), 7);
    let lost = &driver.devices[3];
    assert_eq!((lost.pci_address.as_str(), lost.links.len()), ("0000:4b:00.0", 0));
    assert!(driver.troubles.iter().all(|trouble| trouble.pci_address.as_deref() == Some("0000:4b:00.0")));
    assert_eq!(driver.troubles[0].error.to_string(), "nvmlDeviceGetUUID: GPU is lost (15)");
    assert_eq!(fake.sessions(false), 0);
}

#[test]
fn answers_that_are_no_answers_are_told() {
    let fake = Fake::with(5);
    let driver = fake.reader().read(SOON).unwrap();
    assert_eq!(driver.devices.len(), 8);
    assert_eq!(driver.devices[0].name, "");
    assert!(driver.troubles[0].error.to_string().contains("without an end"), "{:?}", driver.troubles[0]);
    // GPUs that share the processor's memory have none of their own; that is no trouble.
    fake.fault(7);
    let driver = fake.reader().read(SOON).unwrap();
    assert_eq!((driver.devices[0].memory_bytes, driver.troubles.len()), (0, 0));
    fake.fault(1);
    let error = fake.reader().read(SOON).unwrap_err();
    assert_eq!(error.to_string(), "nvmlInit_v2: Driver Not Loaded (9)");
    assert_eq!(fake.sessions(false), 0);
}

#[test]
fn a_gpu_in_mig_mode_is_told_by_its_instances() {
    let fake = Fake::with(8);
    let driver = fake.reader().read(SOON).unwrap();
    assert_eq!(driver.troubles, []);
    let instance = |uuid: &str, gpu_instance| Instance {
        uuid: uuid.into(),
        name: "NVIDIA H100 80GB HBM3 MIG 1g.10gb".into(),
        memory_bytes: 10 << 30,
        gpu_instance,
        compute_instance: 0,
    };
    // NVML's indices have gaps and no order; ours is that of the driver's numbers.
    assert_eq!(
        driver.devices[0].instances,
        Some(vec![instance("MIG-00000002", 7), instance("MIG-00000000", 9)])
    );
    assert_eq!(driver.devices[0].uuid, "GPU-00000000");
    assert_eq!(driver.devices[1].instances, Some(Vec::new()));
    assert!(driver.devices[2..].iter().all(|gpu| gpu.instances.is_none()));
    fake.fault(0);
    let driver = fake.reader().read(SOON).unwrap();
    assert!(driver.devices.iter().all(|gpu| gpu.instances.is_none()));
    assert_eq!(fake.sessions(false), 0);
}

#[test]
fn who_hangs_holds_nobody_and_is_not_called_twice() {
    let fake = Fake::with(6);
    let reader = fake.reader();
    let before = fake.sessions(true);
    for _ in 0..3 {
        let error = reader.read(Duration::from_millis(1)).unwrap_err();
        assert!(matches!(error, ReadError::Silent(_)), "{error}");
    }
    fake.fault(0);
    assert_eq!(reader.read(SOON).unwrap().devices.len(), 8, "the late answer is taken");
    assert_eq!(fake.sessions(true), before + 1, "of the one call that was made");
}

#[test]
fn an_absent_library_and_one_that_is_another_are_told() {
    let error = Reader::of("/nowhere/libnvidia-ml.so.1").read(SOON).unwrap_err();
    assert!(matches!(error, ReadError::Load(LoadError::Load { .. })), "{error}");
    assert!(error.to_string().contains("/nowhere/libnvidia-ml.so.1"), "{error}");
    // A library that is there and is not NVML.
    let error = Reader::of("libc.so.6").read(SOON).unwrap_err();
    assert!(matches!(error, ReadError::Load(LoadError::Symbol { symbol: "nvmlInit_v2", .. })), "{error}");
}

/// Offsets and sizes as NVIDIA's header gives them (`nvmlPciInfo_t`, `nvmlMemory_t`), on every 64-bit target.
#[test]
fn layouts_are_those_of_the_header() {
    use node_agent_gpu::ffi::{Memory, PciInfo};
    use std::mem::offset_of;
    assert_eq!(offset_of!(PciInfo, domain), 16);
    assert_eq!(offset_of!(PciInfo, bus), 20);
    assert_eq!(offset_of!(PciInfo, device), 24);
    assert_eq!(offset_of!(PciInfo, pci_device_id), 28);
    assert_eq!(offset_of!(PciInfo, bus_id), 36);
    assert_eq!((size_of::<PciInfo>(), size_of::<Memory>(), offset_of!(Memory, used)), (68, 24, 16));
}
