//! What happens to the core (`asked`, `orders`), and what it answers (`answer`).

pub mod answer;
pub mod asked;
pub mod orders;

pub use answer::{ClaimVerdict, DryRunResult, Effect, NextTick, Output, Push, Reply, Restored, ToNode};
pub use asked::{
    Attributed, AuditNote, DeliveryReport, DeliveryResult, DenialRecord, Event, Naming, NodeChange,
    QosAction, Register, Submit,
};
pub use controller_state::rows::{
    job::Transition,
    rollout::QosOrder,
    write::{AttachedWrite, Key, Write},
};
