//! The web pages under `/ui`: which file a request is answered with, and with which headers.
//!
//! The files are made of `web/` by npm (`npm run build` there) and lie in `assets/`, so that building the controller needs no Node.
//! `assets/manifest.txt` has the hash of each of them and of each source; tests hold both against it.

mod door;
mod files;

pub use door::{Answer, Asked, POLICY, answer};
