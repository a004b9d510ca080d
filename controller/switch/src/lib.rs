//! Switches of a fabric: their desired state from one class-of-service profile and the fabric, the planners behind it, and the proofs on
//! what was read back. No IO: values in, values out.

pub mod deadlock;
