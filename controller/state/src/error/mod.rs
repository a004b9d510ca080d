//! Refusals: what is wrong (`refusal`), of what kind that is (`kind`, `class`), and what refusals of one subject tell (`impact`, `values`).

mod class;
pub mod impact;
pub mod kind;
pub mod nearest;
pub mod refusal;
pub mod switches;
pub mod values;
