//! What is said about credentials that are taken back.

use clap::{Args, Subcommand};

use super::Output;

#[derive(Debug, Subcommand)]
pub enum RevokeCommand {
    /// Take back a server's certificates; it must join anew
    Node {
        /// The server
        name: String,
        #[command(flatten)]
        how: How,
    },
    /// Take back the certificates and tokens of a tenant's user
    User {
        /// The user's name
        name: String,
        #[command(flatten)]
        how: How,
    },
    /// Take back the certificates and tokens of an administrator
    Admin {
        /// The administrator's name
        name: String,
        #[command(flatten)]
        how: How,
    },
    /// Take back one certificate
    Serial {
        /// Its serial number, as `openssl x509 -noout -serial` prints it
        #[arg(value_name = "HEX")]
        serial: String,
        #[command(flatten)]
        how: How,
    },
    /// List what is revoked
    #[command(visible_alias = "list")]
    Ls {
        /// How to print it
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
}

#[derive(Debug, Args)]
pub struct How {
    /// Why; shown to administrators
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
}
