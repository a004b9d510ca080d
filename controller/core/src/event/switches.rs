//! What happens to switches: tokens, rollouts, reports.

use std::{sync::Arc, time::Duration};

use controller_state::rows::switch_rollout::SwitchOrder;
use proto_model::{SwitchName, SwitchReport};

use crate::event::orders::QosAction;

/// One event of switches.
#[derive(Debug, Clone, PartialEq)]
pub enum SwitchEvent {
    /// A switch's join token was made. Reply: [`crate::event::Reply::Token`].
    CreateToken {
        /// The switch that may use it.
        switch: SwitchName,
        /// SHA-256 of the token; the token itself never comes here.
        hash: [u8; 32],
        /// `None` is the longest allowed.
        lifetime: Option<Duration>,
    },
    /// A switch's join tokens, used or not, are good no more. Idempotent. Reply: [`crate::event::Reply::Done`].
    WithdrawTokens {
        /// The switch, known or not.
        switch: SwitchName,
    },
    /// A switch shows a join token. Reply: [`crate::event::Reply::Done`]; the shell then signs its certificate.
    Join {
        /// The switch that joins.
        switch: SwitchName,
        /// SHA-256 of the token that it showed.
        hash: [u8; 32],
        /// SHA-256 of its signing request: the same switch may repeat a join whose answer was lost.
        csr: [u8; 32],
    },
    /// Configurations are to be rolled out to switches. Idempotent. Reply: [`crate::event::Reply::SwitchRollout`].
    RollOut(Box<SwitchOrder>),
    /// A rollout to switches is paused, goes on, goes back or is cancelled. Reply: [`crate::event::Reply::SwitchRollout`].
    Control {
        /// What is to become of it.
        action: QosAction,
        /// Why, in the administrator's words; may be empty.
        reason: String,
        /// Who asks, as the audit log names them.
        by: String,
    },
    /// A switch's agent says how it is. Reply: [`crate::event::Reply::SwitchDesired`].
    Reported {
        /// The switch, by its certificate.
        switch: SwitchName,
        /// What it says.
        report: Arc<SwitchReport>,
    },
}
