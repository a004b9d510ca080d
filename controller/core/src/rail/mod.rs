//! Rails: the fabric document (`fabric`), rails taken out of use (`drain`), and rails that a probe has to prove well (`prove`).

mod drain;
mod fabric;
mod prove;
