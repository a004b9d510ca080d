//! Proof, or one counterexample, that packets of every class travel as the profile says, over every edge of what was read back: NIC, leaf
//! port, spine port, peer.
//!
//! Settings are checked once for all ports that are equal in them and in what they need (`ports`, `nics`). A fault that is found becomes
//! packets of which something is claimed (`claim`), each on a route through the faulty port (`route`). [`replay()`] knows nothing of the profile:
//! it walks a packet over the settings and says whether the claim holds. The counterexample is the first of which it does not.

mod claim;
mod facts;
mod fault;
mod nics;
mod ports;
mod replay;
mod route;
mod verdict;

pub use claim::{Claim, Packet, Traffic};
pub use facts::{Facts, NicId};
pub use fault::{Fault, Setting, Trial};
pub use replay::{Broken, Replay, replay};
pub use route::{Hop, Route, Site, site, through};
pub use verdict::{Counterexample, Location, Proof, Verdict, check};
