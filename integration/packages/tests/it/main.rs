//! Packages are written from pretended programs, and read by the systems' own tools where these are.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on must stop")]

mod image;
mod scripts;
mod tools;
mod units;
mod writers;
