//! The chart in `deploy/helm/railyard`: rendered by Go's own text/template, then read as Kubernetes would.

mod chart;
mod options;
mod plain;
mod refusals;
mod rendering;
mod rules;
mod yaml;
