//! Rails: the fabric document (`fabric`), rails taken out of use (`drain`), rails that a probe has to prove well (`prove`),
//! and what administrators say of switches (`switches`).

mod drain;
mod fabric;
mod prove;
mod switches;
