//! What attempts of jobs have held: lists of them (`list`), and sums (`sum`).

pub mod list;
pub mod sum;
