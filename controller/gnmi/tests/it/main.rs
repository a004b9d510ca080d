//! The client against a gNMI server over mutual TLS: one that works as SONiC's does, and ones that do not.

mod calls;
mod faults;
mod switch;
