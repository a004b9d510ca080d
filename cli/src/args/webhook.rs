//! What is said about webhooks beside get, describe, apply and delete.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum WebhookCommand {
    /// Send a signed ping to a webhook's receiver at once, and tell what it answers (exit 1 if that is no success)
    Test {
        /// The webhook
        name: String,
    },
}
