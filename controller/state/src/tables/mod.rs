//! The tables (`state`: one declaration for each, `table`: what they have in common), what is written by hand of them (`setters`, `jobs`, `audit`), the
//! indices that follow them (`follow`), what has changed since the last commit and how it is taken back (`journal`), how all is loaded (`load`), and
//! when it must be looked at again (`clock`).

mod audit;
mod clock;
mod follow;
mod jobs;
mod journal;
pub mod load;
mod setters;
pub mod state;
pub mod table;
