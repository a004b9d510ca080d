//! The proving ground: the house against its map, and the product as real processes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on must stop"
)]

mod alerts;
mod architecture;
mod authority;
mod certify;
mod certify_faults;
mod circles;
mod clients;
mod compatibility;
mod components;
mod corpus;
mod dev_switches;
mod faults;
mod frr;
mod house;
mod inputs;
mod jobs;
mod kubernetes;
mod kubernetes_kueue;
mod kubernetes_operator;
mod leftovers;
mod messages;
mod netns;
mod observability;
mod oidc;
mod prove;
mod python_client;
mod qos;
mod rail_loss;
mod rails;
mod resizing;
mod rest;
mod scheduling;
mod secrets;
mod several;
mod slurm;
mod slurm_import;
mod slurm_place;
mod slurm_tasks;
mod sonic;
mod supply;
mod switch_agent;
mod trace;
mod ui;
mod validate;
mod words;
