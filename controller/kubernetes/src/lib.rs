//! rail-operator: Railyard's resources as Kubernetes' own, and the health of rails on its Nodes.
//!
//! Decisions are pure: `decide` is what is to be done about one object, `documents` what an object asks Railyard for, `status` what is said of it,
//! `nodes` what a Node is told of its rails, `lease` who of several operators acts; `schema` and `crds` are made of `rail.v1`'s own descriptors.
//! Around them: `reconcile` and `node_sync` do it, `railyard` is the controller, `connect` the API server, `leader` holds the lease, and
//! `kueue` has Kueue served by a room of its own.
//!
//! Contracts:
//! 1. Nothing is written that is there already; of one generation of an object a finalizer, a first status, what is handed over, and the last status.
//! 2. A job is submitted once, by its object's UID, whatever is killed meanwhile.
//! 3. What others own on an object or a Node stays as it is, and what Railyard was not asked to take for an object is not deleted with it.
//! 4. What Railyard was last known to have stands while it is away.

pub mod arguments;
pub mod cli;
pub mod connect;
pub mod crds;
pub mod decide;
pub mod documents;
pub mod error;
pub mod kind;
pub mod kueue;
pub mod leader;
pub mod lease;
pub mod metrics;
pub mod namespaces;
pub mod node_sync;
pub mod nodes;
pub mod object;
pub mod railyard;
pub mod reconcile;
pub mod run;
pub mod schema;
pub mod seen;
pub mod status;
