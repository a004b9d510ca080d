//! Codes of what speaks against a way from a GPU's memory to a NIC.

code! {
    /// What rules out a way from a GPU's memory to a NIC, or makes it slow.
    PathCauseCode {
        /// ACS sends traffic between the GPU and the NIC up to the processor.
        AcsRedirect = "AcsRedirect",
        /// The library that exports memory of the GPU is not there.
        ExporterMissing = "ExporterMissing",
        /// The library that exports memory of the GPU cannot make dma-bufs.
        ExporterTooOld = "ExporterTooOld",
        /// An IOMMU translates the addresses of devices.
        IommuTranslates = "IommuTranslates",
        /// The kernel registers no dma-bufs.
        KernelTooOld = "KernelTooOld",
        /// libibverbs is not there.
        LibraryMissing = "LibraryMissing",
        /// libibverbs registers no dma-bufs.
        LibraryTooOld = "LibraryTooOld",
        /// The kernel module for peer memory is not loaded.
        ModuleMissing = "ModuleMissing",
        /// The kernel module for peer memory is loaded, and the RDMA core knows nothing of it.
        ModuleUnregistered = "ModuleUnregistered",
        /// The NIC has no RDMA.
        NoRdma = "NoRdma",
        /// The kernel module of the GPU exports no dma-bufs.
        OpenModuleNeeded = "OpenModuleNeeded",
        /// The GPU shows other devices a part of its memory only.
        SmallWindow = "SmallWindow",
        /// The NIC does RDMA in software.
        SoftwareRdma = "SoftwareRdma",
        /// Traffic between the GPU and the NIC crosses the processor.
        ThroughProcessor = "ThroughProcessor",
        /// The NIC is too far from the GPU.
        TooFar = "TooFar",
        /// No way to the memory of this GPU is known.
        UnknownVendor = "UnknownVendor",
    }
}
