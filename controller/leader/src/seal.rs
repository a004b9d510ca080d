//! Signing the head of the audit log.

use std::{fmt, sync::Arc};

pub(crate) type Sign = dyn Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync;

/// Signs with the cluster's key; `None` where that fails.
#[derive(Clone)]
pub struct Seal(pub(crate) Arc<Sign>);

impl Seal {
    /// Of a function that signs a message.
    pub fn new(sign: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(sign))
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal")
    }
}
