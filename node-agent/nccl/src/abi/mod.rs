//! What NCCL loads: `ncclNetPlugin_v8` to `ncclNetPlugin_v12`, written from the facts of its interface; its tuner, `ncclTunerPlugin_v3` to
//! `ncclTunerPlugin_v6`; and its profiler, `ncclProfiler_v4` to `ncclProfiler_v6`.
//!
//! NCCL tries the latest version that it knows first. All of them stand on [`entry`]; a version is its table (`tables`), its layout
//! (`types`), and what its entries are given in another form (`versions`).
//!
//! Listeners, connections, requests and registrations are numbers for NCCL to hand back, not addresses: what was closed, or never was, is found
//! out, whatever it is.

mod entry;
mod log;
mod profiler;
mod tables;
mod tuner;
mod types;
mod versions;

pub use log::Logger;
pub use profiler::{
    CollEvent, EventV4, EventV5, P2pEvent, Payload, ProfilerV4, ProfilerV5, ProxyOpEvent, ncclProfiler_v4,
    ncclProfiler_v5, ncclProfiler_v6,
};
pub use tables::{
    ncclNetPlugin_v8, ncclNetPlugin_v9, ncclNetPlugin_v10, ncclNetPlugin_v11, ncclNetPlugin_v12,
};
pub use tuner::{
    TunerV3, TunerV4, TunerV5, TunerV6, ncclTunerPlugin_v3, ncclTunerPlugin_v4, ncclTunerPlugin_v5,
    ncclTunerPlugin_v6,
};
pub use types::{
    CommConfig, DeviceHandle, LogFunction, NetAttributes, NetV8, NetV9, NetV10, NetV11, NetV12, PropertiesV8,
    PropertiesV9, PropertiesV11, PropertiesV12, VirtualDevice4, VirtualDevice8,
};
