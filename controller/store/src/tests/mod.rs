//! Tests of the stores: the conformance suite for each, a simple model beside them, and everything that can happen
//! to the embedded one's disk and process.

mod crash;
mod disks;
mod embedded;
mod faults;
mod model;
mod suite;
mod throughput;
