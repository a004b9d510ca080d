//! Rollouts, the same machine for both ends of a cable: a profile of class of service on NICs, configurations on switches. Each is one row
//! of the store. How far it is follows from what agents say; what is under way is decided anew at each look ([`decide`]).

mod control;
mod decide;
mod nics;
mod switches;
