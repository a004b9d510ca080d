//! What pages follow: one place takes in the store's changes (`source`), for however many streams (`follow`); each stream is a position in
//! the latest changes (`ring`).

mod follow;
mod kind;
pub(crate) mod metrics;
mod pace;
mod ring;
mod row;
mod source;

pub(crate) use follow::{Asked, follow};
pub(crate) use kind::Kinds;
pub(crate) use ring::Position;
pub(crate) use source::Feed;
