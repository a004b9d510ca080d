//! rail-engine: one process per job and server; drives collectives over transports for local ranks.
//!
//! One thread does everything ([`Engine::run`]): it waits once for rails, ranks and the supervisor together, so no state is
//! shared and no lock is held. The collective core decides; this crate only carries bytes and messages between it and the world.
//!
//! - [`config`]: the file that an engine starts from.
//! - [`control`]: what the supervisor may ask, as JSON lines.
//! - [`Engine`]: the progress loop.
//! - [`bench`]: the built-in benchmark rank.
//! - [`bench_engine`]: the benchmark of the engine itself, with ranks inside it.

pub mod bench;
pub mod bench_engine;
pub mod config;
pub mod control;

mod agreements;
mod board;
mod callers;
mod calls;
mod carry;
mod certify;
mod deadline;
mod engine;
mod error;
mod failure;
mod first;
mod gpus;
mod index;
mod memory;
mod rails;
mod ranks;
mod supervisor;
mod tokens;
mod wiring;

pub use config::{Config, ConfigError, GpuConfig, Limits, Protection, RailConfig, Transport, Verbs};
pub use engine::{Engine, Stopper};
pub use error::EngineError;
pub use node_agent_engine_transport::JobKey;
