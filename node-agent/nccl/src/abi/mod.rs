//! What NCCL loads: `ncclNetPlugin_v8` to `ncclNetPlugin_v12`, written from the facts of its interface.
//!
//! NCCL tries the latest version that it knows first. All of them stand on [`entry`]; a version is its table (`tables`), its layout
//! (`types`), and what its entries are given in another form (`versions`).
//!
//! Listeners, connections, requests and registrations are numbers for NCCL to hand back, not addresses: what was closed, or never was, is found
//! out, whatever it is.

mod entry;
mod log;
mod tables;
mod types;
mod versions;

pub use log::Logger;
pub use tables::{
    ncclNetPlugin_v8, ncclNetPlugin_v9, ncclNetPlugin_v10, ncclNetPlugin_v11, ncclNetPlugin_v12,
};
pub use types::{
    CommConfig, DeviceHandle, LogFunction, NetAttributes, NetV8, NetV9, NetV10, NetV11, NetV12, PropertiesV8,
    PropertiesV9, PropertiesV11, PropertiesV12, VirtualDevice4, VirtualDevice8,
};
