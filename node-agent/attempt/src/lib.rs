//! What the agent and an attempt's supervisor share: the files below the data directory, what they say of the attempt, its output, and the
//! frames of steps that go between the two.

pub mod layout;
pub mod logs;
pub mod places;
pub mod saved;
pub mod saved_certify;
pub mod saved_rails;
pub mod state_files;
pub mod step_frames;
pub mod supervisor_config;
