//! Preemption, reservations, arrays, elastic jobs.
