//! What NCCL loads: `ncclNetPlugin_v8` to `ncclNetPlugin_v12`, written from the facts of its interface; its tuner, `ncclTunerPlugin_v3` to
//! `ncclTunerPlugin_v6`; and its profiler, `ncclProfiler_v1` to `ncclProfiler_v6`.
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
    CollEvent, CollEventV1, CollEventV2, CollEventV3, EventV1, EventV2, EventV3, EventV4, EventV5, InitV1,
    InitV4, InitV5, OperationProgress, P2pEvent, P2pEventV1, P2pEventV2, Payload, PayloadV1, PayloadV2,
    PayloadV3, ProfilerTable, ProfilerV1, ProfilerV2, ProfilerV3, ProfilerV4, ProfilerV5, ProxyOpEvent,
    StepProgress, ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3, ncclProfiler_v4, ncclProfiler_v5,
    ncclProfiler_v6,
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
