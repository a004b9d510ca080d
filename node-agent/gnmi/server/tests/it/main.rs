//! The client against a gNMI server over mutual TLS: one that works as SONiC's does, and ones that do not.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

mod calls;
mod faults;
