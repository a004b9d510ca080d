//! GPU memory as files, through the loader that ranks use, with libraries that stand in for CUDA's and ROCm's (`examples/fake_cuda.rs`,
//! `examples/fake_hsa.rs`).

use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use node_agent_gpu::LoadError;
use node_agent_gpu::export::{Cuda, ExportError, Gpus, Hsa, Mapping, page};
use node_agent_ipc::Region;

/// The libraries have one state for the process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

struct Fake {
    library: libloading::Library,
    path: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Fake {
    fn of(name: &str) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let program = std::env::current_exe().unwrap();
        let path = program.ancestors().nth(2).unwrap().join(format!("examples/lib{name}.so"));
        // SAFETY: it was built beside this test and does nothing when it is loaded.
        let library = unsafe { libloading::Library::new(&path) }.unwrap();
        Fake { library, path, _alone: alone }
    }

    fn fault(&self, fault: c_int) {
        // SAFETY: the function has this signature.
        unsafe { (self.library.get::<extern "C" fn(c_int)>(b"fake_fault").unwrap())(fault) }
    }

    fn number(&self, call: &str, argument: u64) -> u64 {
        // SAFETY: the functions that tests call by this have this signature.
        unsafe { (self.library.get::<extern "C" fn(u64) -> u64>(call.as_bytes()).unwrap())(argument) }
    }

    fn write(&self, pointer: u64, bytes: &[u8]) {
        // SAFETY: the function has this signature and reads as many bytes as it is told of.
        unsafe {
            let write =
                self.library.get::<unsafe extern "C" fn(u64, *const u8, usize)>(b"fake_write").unwrap();
            write(pointer, bytes.as_ptr(), bytes.len());
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.fault(0);
    }
}

fn read(file: &std::os::fd::OwnedFd, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    assert_eq!(rustix::io::pread(file, &mut bytes, offset).unwrap(), length);
    bytes
}

#[test]
fn cuda_tells_its_devices_and_exports_memory_where_it_is() {
    let fake = Fake::of("fake_cuda");
    let cuda = Cuda::load(Some(&fake.path)).unwrap();
    assert_eq!(cuda.version().unwrap(), (12, 8));
    let devices = cuda.devices().unwrap();
    assert_eq!(devices[0].pci_address, "0000:1b:00.0", "as sysfs writes it");
    assert!(devices.len() == 2 && devices.iter().all(|device| device.gpu_direct && device.dma_buf));
    let memory = fake.number("fake_alloc", 1 << 21);
    assert_eq!(cuda.allocation(memory + 5).unwrap(), (memory, 1 << 21));
    fake.write(memory + 700, b"as the GPU wrote it");
    let exported = cuda.export(memory + 700, 3000, Mapping::Default).unwrap();
    assert_eq!((exported.offset, exported.length), (700, 3000));
    assert_eq!(read(&exported.file, exported.offset, 19), b"as the GPU wrote it");
    assert_eq!(fake.number("fake_state", memory), 1, "copies wait for each other");
    cuda.export(memory, 1 << 21, Mapping::Pcie).unwrap();
    assert_eq!(fake.number("fake_state", memory), 3, "the flag for PCIe is passed on");
}

#[test]
fn what_cuda_cannot_export_says_why() {
    let fake = Fake::of("fake_cuda");
    let cuda = Cuda::load(Some(&fake.path)).unwrap();
    let odd = page() + 512;
    let memory = fake.number("fake_alloc", odd);
    let refused = |pointer, length| cuda.export(pointer, length, Mapping::Default).unwrap_err();
    assert!(matches!(refused(0x1000, 10), ExportError::NotOfGpu { pointer: 0x1000 }));
    assert!(matches!(refused(memory, odd + 1), ExportError::Outside { .. }));
    assert!(matches!(refused(memory, odd), ExportError::PartPage { .. }), "the last page is not whole");
    fake.fault(4);
    assert!(matches!(refused(memory, 10), ExportError::NoFile { .. }));
    fake.fault(2);
    let error = refused(memory, 10).to_string();
    assert_eq!(error, "cuMemGetHandleForAddressRange: operation not supported (801)");
    assert!(cuda.devices().unwrap().iter().all(|device| device.gpu_direct && !device.dma_buf));
    // A driver that does not know the question.
    fake.fault(3);
    assert!(cuda.devices().unwrap().iter().all(|device| !device.dma_buf));
    fake.fault(1);
    let error = Cuda::load(Some(&fake.path)).unwrap_err().to_string();
    assert_eq!(error, "cuInit: no CUDA-capable device is detected (100)");
}

#[test]
fn hsa_exports_memory_where_it_is_or_says_why_not() {
    let fake = Fake::of("fake_hsa");
    let hsa = Hsa::load(Some(&fake.path)).unwrap();
    assert!(hsa.dma_buf());
    let memory = fake.number("fake_alloc", 1 << 20);
    let exported = hsa.export(memory + 5000, 100).unwrap();
    assert_eq!((exported.offset, exported.length), (5000, 100));
    assert_eq!(read(&exported.file, exported.offset, 100), [0; 100]);
    assert!(matches!(hsa.export(memory + (1 << 20), 1).unwrap_err(), ExportError::NotOfGpu { .. }));
    assert!(matches!(hsa.export(memory, 0).unwrap_err(), ExportError::NotOfGpu { .. }));
    fake.fault(2);
    assert!(!hsa.dma_buf());
    let error = hsa.export(memory, 10).unwrap_err().to_string();
    assert!(error.starts_with("hsa_amd_portable_export_dmabuf: HSA_STATUS_ERROR: "), "{error}");
    fake.fault(3);
    assert!(!hsa.dma_buf(), "a runtime that does not know the question");
    fake.fault(1);
    assert!(matches!(Hsa::load(Some(&fake.path)), Err(ExportError::Refused { call: "hsa_init", .. })));
    fake.fault(0);
    drop(hsa);
    assert_eq!(fake.number("fake_started", 0), 0, "every start has its end");
}

#[test]
fn absent_libraries_and_others_are_told() {
    let error = Cuda::load(Some("/nowhere/libcuda.so.1".as_ref())).unwrap_err();
    assert!(matches!(error, ExportError::Load(LoadError::Load { .. })), "{error}");
    let error = Cuda::load(Some("libc.so.6".as_ref())).unwrap_err();
    assert!(matches!(error, ExportError::Load(LoadError::Symbol { symbol: "cuInit", .. })), "{error}");
    let error = Hsa::load(Some("/nowhere/libhsa.so".as_ref())).unwrap_err();
    assert!(error.to_string().ends_with("(it comes with ROCm: hsa-rocr)"), "{error}");
}

fn nowhere() -> Option<PathBuf> {
    Some("/nowhere/lib.so".into())
}

#[test]
fn memory_is_found_by_its_address_and_copied_to_and_from_shared_memory() {
    let (shared, _file) = Region::create(10_000).unwrap();
    for (name, place) in [("fake_cuda", "0000:2b:00.0"), ("fake_hsa", "0001:83:01.0")] {
        let fake = Fake::of(name);
        let path = Some(fake.path.clone());
        let gpus = if name == "fake_cuda" { Gpus::new(path, nowhere()) } else { Gpus::new(nowhere(), path) };
        if name == "fake_cuda" {
            fake.number("fake_use", 1);
        }
        let (one, other) = (fake.number("fake_alloc", 8192), fake.number("fake_alloc", 8192));
        let memory = gpus.find(one + 100, 4000).unwrap();
        assert_eq!(memory.pci_address(), place);
        shared.write(10, b"to the GPU and back").unwrap();
        memory.store(5, &shared, 10, 19).unwrap();
        // On the GPU to another place, and from there back.
        let there = gpus.find(other, 8192).unwrap();
        there.take(8000, &memory, 5, 19).unwrap();
        there.fetch(8000, &shared, 9981, 19).unwrap();
        let mut seen = [0; 19];
        shared.read(9981, &mut seen).unwrap();
        assert_eq!(&seen, b"to the GPU and back", "{name}");
        let exported = memory.export().unwrap();
        assert_eq!(read(&exported.file, exported.offset + 5, 19), seen, "{name}");
        for (at, beside, bytes) in [(3990, 0, 11), (0, 9990, 11), (u64::MAX, 0, 1), (0, usize::MAX, 1)] {
            let error = memory.fetch(at, &shared, beside, bytes).unwrap_err();
            assert!(matches!(error, ExportError::Beyond { .. }), "{name}: {error}");
            assert!(matches!(memory.store(at, &shared, beside, bytes), Err(ExportError::Beyond { .. })));
        }
        let error = gpus.find(one + 100, 8093).unwrap_err();
        assert!(matches!(error, ExportError::Outside { .. }), "{name}: {error}");
        let error = gpus.find(0x1000, 1).unwrap_err();
        assert!(matches!(error, ExportError::NotOfGpu { .. }), "{name}: {error}");
    }
}

#[test]
fn memory_that_is_no_gpus_alone_is_refused_by_name() {
    let fake = Fake::of("fake_cuda");
    let gpus = Gpus::new(Some(fake.path.clone()), nowhere());
    let memory = fake.number("fake_alloc", 4096);
    fake.fault(5);
    let error = gpus.find(memory, 1).unwrap_err();
    assert!(matches!(error, ExportError::Managed { .. }), "{error}");
    drop(fake);
    let fake = Fake::of("fake_hsa");
    let gpus = Gpus::new(nowhere(), Some(fake.path.clone()));
    let memory = fake.number("fake_alloc", 4096);
    fake.fault(4);
    assert!(matches!(gpus.find(memory, 1), Err(ExportError::NotOfGpu { .. })));
    let error = Gpus::new(nowhere(), nowhere()).find(memory, 1).unwrap_err().to_string();
    assert!(error.contains("NVIDIA's driver") && error.contains("ROCm"), "{error}");
}
