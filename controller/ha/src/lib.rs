//! Controllers among themselves: a standby sees that the leader is there, takes over on evidence that it is not, and hands
//! on to it whatever it is asked, so that clients may ask any controller.

mod beats;
mod caller;
mod contact;
mod door;
mod stand;

pub use beats::Beats;
pub use contact::{Contact, Contacts, contacts, way};
pub use door::router;
pub use stand::{Stand, Stands, stands};
