//! The tables (`state`), their setters, how to undo them (`journal`), how they are loaded (`load`), and when they must be looked at again (`clock`).

mod clock;
pub mod journal;
pub mod load;
mod setters;
pub mod state;
