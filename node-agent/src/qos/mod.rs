//! Class of service on this server: the journal on disk, the thread that keeps it, and `rail-node-agent qos` for somebody who is logged in
//! here.

pub mod command;
pub mod data_class;
pub mod desired;
pub mod document;
pub mod flaps;
pub mod journal;
pub mod keep;
mod show;
mod trial;
