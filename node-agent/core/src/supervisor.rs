//! The supervisor of one try of one job: engine, then ranks, then their end.
