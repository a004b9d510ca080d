//! Indices: functions of the tables that would be dear to find out anew.

pub mod all;
pub mod arrays;
pub mod claims;
pub mod classes;
pub mod figures;
pub mod runs;
pub mod usage;
