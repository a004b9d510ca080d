//! The chart in `deploy/helm/railyard`: rendered by Go's own text/template, then read as Kubernetes would.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on must stop")]

mod chart;
mod image;
mod options;
mod plain;
mod reach;
mod refusals;
mod rendering;
mod rules;
mod server;

use integration_harness::yaml;
