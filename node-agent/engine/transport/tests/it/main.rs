//! Rails on interfaces of this machine, in a network namespace of their own.

mod ports;
