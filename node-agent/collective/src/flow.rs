//! flow.
