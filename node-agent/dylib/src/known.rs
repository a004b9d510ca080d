//! The libraries that are loaded here, each said once: by what names, where it comes from, from which version on.

use crate::About;

/// libibverbs; every distribution has it under this name.
pub const VERBS: About = About {
    names: &["libibverbs.so.1"],
    from: "Debian: apt install libibverbs1 ibverbs-providers",
    needs: "rdma-core 32 or newer is needed",
};

/// NVML, the library by which NVIDIA's driver says what GPUs there are and how they are.
pub const NVML: About = About {
    names: &["libnvidia-ml.so.1"],
    from: "it comes with NVIDIA's driver",
    needs: "NVIDIA's driver 450 or newer is needed",
};

/// CUDA's driver library, by which memory of NVIDIA GPUs is exported as a dma-buf.
pub const CUDA: About = About {
    names: &["libcuda.so.1"],
    from: "it comes with NVIDIA's driver",
    needs: "NVIDIA's driver 450 or newer is needed",
};

/// The HSA runtime, on which HIP rests.
pub const HSA: About = About {
    names: &["libhsa-runtime64.so.1", "/opt/rocm/lib/libhsa-runtime64.so.1"],
    from: "it comes with ROCm: hsa-rocr",
    needs: "ROCm 5 or newer is needed",
};
