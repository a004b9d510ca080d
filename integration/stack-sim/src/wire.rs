//! etcd's messages and the server's side of its calls, generated from the store's schema.
#![allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated code; the schema's own words are etcd's documentation"
)]

tonic::include_proto!("etcdserverpb");
