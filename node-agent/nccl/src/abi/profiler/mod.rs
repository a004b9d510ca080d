//! `ncclProfiler_v1` to `ncclProfiler_v6`, written from the facts of NCCL's interface for profilers.
//!
//! All of them stand on [`entry`]; a version is its layout (`layout`), and how what it says of an event is read (`versions`). NCCL 2.23 takes
//! v1, 2.24 and 2.25 v2, 2.26 v3, 2.27 v4; later ones v5 and v6.

mod entry;
mod layout;
mod versions;

pub use layout::{
    CollEvent, CollEventV1, CollEventV2, CollEventV3, EventV1, EventV2, EventV3, EventV4, EventV5, InitV1,
    InitV4, InitV5, OperationProgress, P2pEvent, P2pEventV1, P2pEventV2, Payload, PayloadV1, PayloadV2,
    PayloadV3, ProfilerTable, ProfilerV1, ProfilerV2, ProfilerV3, ProfilerV4, ProfilerV5, ProxyOpEvent,
    StepProgress,
};
pub use versions::{
    ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3, ncclProfiler_v4, ncclProfiler_v5, ncclProfiler_v6,
};
