//! Kueue and Railyard: a gang that Kueue has given quota runs on servers that Railyard holds for it, as it does for jobs of Slurm.
//!
//! - `names`, `settings`: what things are called, and what the site says.
//! - `workload`, `assignment`, `options`, `shape` [pure]: what a Workload asks for.
//! - `nodes`, `hold`, `topology`, `check` [pure]: nodes of Kubernetes, allocations of Railyard, and what is written into Kueue's objects.
//! - `present`, `decide` [pure]: a workload that has quota, and the next step for it, of what is known of it.
//! - `world`, `queue` [pure]: what is known of all, and whose turn it is.
//! - `kubernetes`, `railyard`: both sides, as far as they are asked. `feeds` takes in what they tell, `worker` does the steps that
//!   `work` gives it, `run` is the tasks.
//!
//! While Railyard has not said what is held, and while a workload may have pods by Kueue's word, everything stays: until its quota is taken back, it
//! has finished, or it is gone from Kubernetes. Kueue may say so while containers of the last pods are still ending.

pub mod assignment;
pub mod check;
pub mod decide;
mod feeds;
pub mod hold;
pub mod kubernetes;
pub mod names;
pub mod nodes;
pub mod options;
mod present;
pub mod queue;
pub mod railyard;
mod run;
pub mod settings;
pub mod shape;
pub mod topology;
mod work;
mod worker;
pub mod workload;
pub mod world;

pub use railyard::Connect;
pub use run::{Error, run};
pub use settings::{Policy, Settings, WhenAway};
