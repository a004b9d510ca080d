//! Rails: the fabric document (`fabric`), rails taken out of use (`drain`), rails that a probe has to prove well (`prove`), and reading what
//! rails are used for (`rails`).

mod drain;
pub(crate) mod fabric;
pub(crate) mod prove;
pub mod rails;
