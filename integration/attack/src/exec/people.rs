//! Callers: who they are to the controller, and by what.

use std::{path::Path, time::Duration};

use proto_rpc::{
    CertificateSlot, Client, ClientOptions, Credentials, Endpoint, KeyRequest, Token, TokenKind, tls::Trust,
};
use serde_json::json;

use super::call::must;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Somebody with a client, and what it needs to speak for itself.
#[derive(Debug, Clone)]
pub struct Person {
    /// A client over gRPC.
    pub client: Client,
    /// Certificate and key, for connections of other kinds.
    pub slot: Option<CertificateSlot>,
    /// The bearer token, if it has one.
    pub token: Option<String>,
    /// The identity as the audit log ends it, for example `tenant/beta/user/vera`.
    pub who: String,
    /// The certificate as PEM.
    pub chain: String,
    /// Its key as PEM.
    pub key: String,
}

/// Where the controller is and what it is known by.
#[derive(Debug, Clone)]
pub struct Target {
    /// The address of the controller, by TCP.
    pub endpoint: Endpoint,
    /// The CA's certificate, as PEM.
    pub ca: String,
}

/// Answers within this or not at all.
fn options() -> ClientOptions {
    ClientOptions {
        timeout: Some(Duration::from_secs(10)),
        keepalive_while_idle: false,
        ..ClientOptions::default()
    }
}

impl Target {
    /// Somebody without anything.
    ///
    /// # Errors
    /// The CA's certificate is none.
    pub fn nobody(&self) -> Result<Person, String> {
        self.person(Credentials::new(Trust::Ca(self.ca.clone())), "anonymous")
    }

    fn person(&self, credentials: Credentials, who: &str) -> Result<Person, String> {
        let slot = credentials.slot().cloned();
        let token = credentials.token().map(Token::reveal);
        let client =
            Client::new(std::slice::from_ref(&self.endpoint), &credentials, &options()).map_err(text)?;
        Ok(Person { client, slot, token, who: who.to_owned(), chain: String::new(), key: String::new() })
    }

    /// Somebody with a certificate.
    ///
    /// # Errors
    /// It is none.
    pub fn with(&self, chain: &str, key: &str, who: &str) -> Result<Person, String> {
        let slot = CertificateSlot::new(chain, key).map_err(text)?;
        let credentials = Credentials::new(Trust::Ca(self.ca.clone())).with_certificate(slot);
        let person = self.person(credentials, who)?;
        Ok(Person { chain: chain.to_owned(), key: key.to_owned(), ..person })
    }

    /// Somebody with a certificate and its key in files.
    ///
    /// # Errors
    /// They are not there.
    pub fn of_files(&self, stem: &Path, who: &str) -> Result<Person, String> {
        let read = |ending: &str| {
            let path = stem.with_extension(ending);
            std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        self.with(&read("pem")?, &read("key")?, who)
    }

    /// Somebody with a bearer token, and a certificate as well where one is given.
    ///
    /// # Errors
    /// The token is none.
    pub fn bearer(&self, token: &str, beside: Option<&Person>, who: &str) -> Result<Person, String> {
        let token = Token::parse(TokenKind::User, token).map_err(text)?;
        let mut credentials = Credentials::new(Trust::Ca(self.ca.clone())).with_token(token);
        if let Some(slot) = beside.and_then(|person| person.slot.clone()) {
            credentials = credentials.with_certificate(slot);
        }
        self.person(credentials, who)
    }

    /// A certificate for a user of a tenant.
    ///
    /// # Errors
    /// The controller refused.
    pub async fn user(&self, by: &Client, tenant: &str, user: &str, role: &str) -> Result<Person, String> {
        let key = KeyRequest::generate().map_err(text)?;
        let body = json!({"csrPem": key.csr_pem, "tenant": tenant, "user": user, "role": role});
        let issued = must(by, "rail.v1.TenantService/IssueCertificate", body).await?;
        let chain = issued["certificatePem"].as_str().unwrap_or_default();
        self.with(chain, &key.key_pem, &format!("tenant/{tenant}/user/{user}"))
    }

    /// A bearer token for a user of a tenant.
    ///
    /// # Errors
    /// The controller refused.
    pub async fn token(&self, by: &Client, tenant: &str, user: &str, role: &str) -> Result<Person, String> {
        let body = json!({"tenant": tenant, "user": user, "role": role});
        let issued = must(by, "rail.v1.TenantService/IssueToken", body).await?;
        let token = issued["token"].as_str().unwrap_or_default();
        self.bearer(token, None, &format!("tenant/{tenant}/user/{user}"))
    }

    /// A token with which a node may join once.
    ///
    /// # Errors
    /// The controller refused.
    pub async fn join_token(&self, by: &Client, node: &str) -> Result<String, String> {
        let made = must(by, "rail.v1.NodeService/CreateJoinToken", json!({"node": node})).await?;
        made["token"].as_str().map(str::to_owned).ok_or_else(|| "no token".to_owned())
    }

    /// A node's certificate, bought with a token.
    ///
    /// # Errors
    /// The controller refused.
    pub async fn node(&self, by: &Client, node: &str) -> Result<Person, String> {
        let token = self.join_token(by, node).await?;
        let key = KeyRequest::generate().map_err(text)?;
        self.join(&token, node, &key).await
    }

    /// A certificate for a key, bought with a token.
    ///
    /// # Errors
    /// The controller refused.
    pub async fn join(&self, token: &str, node: &str, key: &KeyRequest) -> Result<Person, String> {
        let body = json!({"token": token, "node": node, "csrPem": key.csr_pem});
        let joined = must(&self.nobody()?.client, "rail.v1.EnrollService/Join", body).await?;
        let chain = joined["certificatePem"].as_str().unwrap_or_default();
        self.with(chain, &key.key_pem, &format!("node/{node}"))
    }
}
