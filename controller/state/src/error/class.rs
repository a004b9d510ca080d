//! Of which kind each refusal is.

use crate::error::{kind::ErrorKind, refusal::CoreError};

impl CoreError {
    /// The kind of the refusal.
    #[must_use]
    #[allow(clippy::too_many_lines, reason = "a line for each refusal")]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid { .. }
            | Self::ClassLimit { .. }
            | Self::Contradiction { .. }
            | Self::DependencyCycle { .. }
            | Self::FabricInvalid { .. }
            | Self::RailAmbiguous { .. } => ErrorKind::Invalid,
            Self::JobNotFound { .. }
            | Self::ElementNotFound { .. }
            | Self::DependencyUnknown { .. }
            | Self::JobGone { .. }
            | Self::TenantUnknown { .. }
            | Self::QueueNotFound { .. }
            | Self::ReservationNotFound { .. }
            | Self::LicenseNotFound { .. }
            | Self::SwitchNotFound { .. }
            | Self::ClassNotFound { .. }
            | Self::ScheduleNotFound { .. }
            | Self::WebhookNotFound { .. }
            | Self::NodeNotFound { .. }
            | Self::RailNotFound { .. }
            | Self::NoRollout
            | Self::NotDeleted { .. }
            | Self::FabricOther { .. }
            | Self::FabricNotFound => ErrorKind::NotFound,
            Self::TokenInvalid { .. }
            | Self::TokenUsed { .. }
            | Self::TokenForOther { .. }
            | Self::NotOwner { .. }
            | Self::PriorityTooHigh { .. }
            | Self::ClassNotAllowed { .. }
            | Self::HeldAbove { .. }
            | Self::LimitExtended { .. } => ErrorKind::Denied,
            Self::NameTaken { .. }
            | Self::NameResting { .. }
            | Self::TakenSince { .. }
            | Self::RequestIdReused { .. }
            | Self::Conflict { .. }
            | Self::TenantReplaced { .. }
            | Self::NodeReplaced { .. } => ErrorKind::Conflict,
            Self::TenantBusy { .. }
            | Self::FabricShrinks { .. }
            | Self::TenantLeaving { .. }
            | Self::QueueBusy { .. }
            | Self::ReservationBusy { .. }
            | Self::LicenseBusy { .. }
            | Self::DeliveriesWaiting { .. }
            | Self::ClassBusy { .. }
            | Self::ClassOfTenant { .. }
            | Self::JobActive { .. }
            | Self::JobNotWaiting { .. }
            | Self::NoElementWaits { .. }
            | Self::JobEnded { .. }
            | Self::ElementsEnded { .. }
            | Self::JobNeeded { .. }
            | Self::NodeBusy { .. }
            | Self::LastRail { .. }
            | Self::StaleSession { .. }
            | Self::NoFreeName { .. }
            | Self::Fenced { .. }
            | Self::NoProfileBefore
            | Self::RolloutDone
            | Self::RolloutCancelled
            | Self::NoCanary
            | Self::Unattributed => ErrorKind::Precondition,
            Self::QuotaExceeded { .. }
            | Self::StoredBytesExceeded { .. }
            | Self::SchedulesExceeded { .. }
            | Self::ClassWaiting { .. }
            | Self::Full { .. } => ErrorKind::Exhausted,
            Self::TemplateRefused { cause } => cause.kind(),
            Self::Switches(error) => error.kind(),
            Self::Values(error) => error.kind(),
            Self::Infeasible { .. } | Self::LicenseTooFew { .. } => ErrorKind::Infeasible,
        }
    }
}
