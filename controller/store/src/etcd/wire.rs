//! etcd's messages and calls, generated from `proto/etcd.proto`.
#![allow(
    missing_docs,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "generated code; the schema's own words are etcd's documentation"
)]

tonic::include_proto!("etcdserverpb");
