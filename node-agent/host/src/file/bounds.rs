//! Bounds of what an inventory file may say.

/// GPUs and rails are numbered below this.
pub(super) const INDEX_MAX: u32 = 64;
