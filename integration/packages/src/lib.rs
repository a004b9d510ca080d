//! What is released: packages of Debian and RPM, an image for containers, and the list of their parts.
//!
//! One description of them as data ([`catalog`]), and three writers ([`deb`], [`rpm`], [`oci`]). The same programs, files and date give the same bytes,
//! whatever machine they are written on. Nothing here runs a program or reads the clock.

mod archive;
pub mod catalog;
pub mod deb;
mod description;
mod error;
mod gather;
mod linked;
pub mod oci;
pub mod rpm;
pub mod sbom;
mod scripts;

pub use description::{Item, Need, Package, Range, Service, Source};
pub use error::Error;
pub use gather::{Content, File, Folders, gather, gather_image};
pub use linked::Linked;

/// What is the same for all packages of a release.
#[derive(Debug, Clone)]
pub struct Release {
    /// The product's version, `0.1.0`.
    pub version: String,
    /// Which packaging of that version this is, from 1: the same product packed anew has a higher one.
    pub revision: u32,
    /// When, in seconds since 1970: every date in every package.
    pub date: u32,
}
