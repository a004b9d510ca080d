//! Class of service of all NICs: the rollout of a profile, one row of the store. How far it is follows from what agents say of
//! their NICs; what is under way is decided anew at each look ([`decide`]).

mod control;
mod decide;
