//! Rails that are out of use until something proves them well: who is probed with whom, what both ends are told, and how it stands.
//! What is under way is decided anew at each check ([`decide`]); the result is the sick server's to judge, and comes with its inventory.

mod check;
mod decide;
