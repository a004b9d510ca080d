//! What happens to the core (`asked`, `orders`, `switches`), and what it answers (`answer`).

pub mod answer;
pub mod asked;
pub mod orders;
pub mod switches;

pub use answer::{
    Certified, ClaimVerdict, DryRunResult, Effect, NextTick, Output, Push, Reply, Restored, ToNode,
};
pub use asked::{
    Attributed, AuditNote, DeliveryReport, DeliveryResult, DenialRecord, Event, Naming, NodeChange, Register,
    Submit,
};
pub use controller_state::rows::{
    job::Transition,
    rollout::QosOrder,
    switch_rollout::SwitchOrder,
    write::{AttachedWrite, Key, Write},
};
pub use orders::QosAction;
pub use switches::SwitchEvent;
