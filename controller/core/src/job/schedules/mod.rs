//! Schedules: jobs that start by the clock. `apply` makes, changes and removes them; `turn` decides what is to be done with one
//! now, a function of the schedule, its runs and the time; here is what does that, one bounded thing in each step.
//!
//! A run is submitted in the transaction that says that it was, under a name that follows from the schedule and the time: no
//! change of leaders makes it two. What a controller that comes later finds due it does once, for the last of the times that
//! have passed.

mod apply;
mod due;
mod turn;
