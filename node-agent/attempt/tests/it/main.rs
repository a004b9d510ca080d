//! Files that outlive their writer.

#[cfg(test)]
mod saved_state;
