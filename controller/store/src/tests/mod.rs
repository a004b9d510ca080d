//! Tests of the stores: the conformance suite for each, a simple model beside them, and everything that can happen
//! to the embedded one's disk and process, and to the etcd that the other one is in.

mod crash;
mod disks;
mod embedded;
mod etcd;
mod faults;
mod model;
mod proxy;
mod suite;
mod throughput;
mod trust;
