//! The switch's certificate: bought once with a single-use token, renewed at half its life. The key is made here and never leaves this
//! switch.

use std::time::{Duration, SystemTime};

use proto_rpc::{
    CaPin, CertificateSlot, Client, ClientOptions, Credentials, Endpoint, IdentityFiles, Jitter, KeyRequest,
    MAX_MESSAGE_BYTES, Renewal, RetryPolicy, RpcError, TrustSlot, files, identity_files::Answer, retry,
    tls::Trust,
};
use proto_wire::v1::{self, switch_agent_service_client::SwitchAgentServiceClient};

use crate::{arguments::RunArguments, error::IdentityError};

/// Joining is tried for this long while the controller cannot be reached.
const JOIN_LIMIT: Duration = Duration::from_secs(120);

/// The identity of this switch.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Its name in the cluster.
    pub name: String,
    /// Where the key and the certificate are.
    pub files: IdentityFiles,
}

impl Identity {
    /// The certificate on disk if it is good, else a new one for the token.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn obtain(&self, arguments: &RunArguments) -> Result<Credentials, IdentityError> {
        let token = token(arguments)?;
        if self.files.exist() {
            let found = self.files.name()?;
            if found != self.name {
                let dir = self.files.dir().to_owned();
                return Err(IdentityError::OtherSwitch { dir, found, wanted: self.name.clone() });
            }
            match (self.files.load_valid(SystemTime::now()).map_err(IdentityError::from), &token) {
                (Ok(credentials), _) => return Ok(credentials),
                (Err(error), None) => return Err(error),
                (Err(error), Some(_)) => tracing::warn!(%error, "joining again with the token"),
            }
        }
        let token = token.ok_or_else(|| IdentityError::NoToken { switch: self.name.clone() })?;
        if arguments.ca_pin.is_empty() {
            return Err(IdentityError::NoPin);
        }
        self.join(&arguments.controller, token, arguments.ca_pin.clone()).await?;
        Ok(self.files.load()?)
    }

    async fn join(&self, at: &[Endpoint], token: String, pins: Vec<CaPin>) -> Result<(), IdentityError> {
        let credentials = Credentials::new(Trust::Pins(pins));
        let client = Client::new(at, &credentials, &ClientOptions::default())?;
        let key = KeyRequest::generate()?;
        let request = v1::JoinSwitchRequest { token, name: self.name.clone(), csr_pem: key.csr_pem.clone() };
        let policy = RetryPolicy { attempts: u32::MAX, within: JOIN_LIMIT, ..RetryPolicy::default() };
        let call = |attempt: u32| {
            if attempt > 1 {
                tracing::info!(attempt, "joining again");
            }
            let mut agent = service(&client);
            let request = request.clone();
            async move { agent.join_switch(request).await }
        };
        let answer = retry(&policy, &mut Jitter::from_os(), call).await.map_err(|status| {
            let controller = at.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            IdentityError::Join { controller, source: Box::new(RpcError::from_status(&status)) }
        })?;
        self.store(&key.key_pem, answer.get_ref())?;
        tracing::info!(switch = self.name, "joined the cluster");
        Ok(())
    }

    fn store(&self, key_pem: &str, answer: &v1::JoinSwitchResponse) -> Result<(), IdentityError> {
        let answer = Answer { certificate_pem: &answer.certificate_pem, ca_pem: &answer.ca_pem };
        Ok(self.files.store(&self.name, key_pem, &answer)?)
    }

    /// The controllers refuse this switch's certificate: the next start must not take it again, but join again. Logged once.
    pub fn set_aside(&self) {
        match self.files.set_aside() {
            Ok(Some(aside)) => tracing::error!(
                certificate = %aside.display(),
                "this switch's certificate was revoked; its configuration stays as it is: to bring it back, start the agent anew with what \
                 `railctl switch token {}` prints",
                self.name
            ),
            // It was logged before.
            Ok(None) => {}
            Err(error) => {
                let path = self.files.certificate().display();
                tracing::error!(%error, "the revoked certificate cannot be put aside; remove {path}");
            }
        }
    }

    /// Renews at half the certificate's life, for ever. No outage of the controllers that ends before the certificate does can cost the
    /// identity.
    pub async fn keep(self, credentials: Credentials, client: Client) {
        let (Some(slot), Some(trust)) = (credentials.slot(), credentials.trust()) else { return };
        let mut jitter = Jitter::from_os();
        // What was just loaded can be read.
        while let Ok(shown) = slot.certificate() {
            let mut plan = Renewal::of(&shown, &mut jitter);
            loop {
                plan.until_due().await;
                let Err(error) = self.renew(slot, trust, &client).await else { break };
                plan.failed(SystemTime::now(), &mut jitter);
                // The 1st, 2nd, 4th, 8th ... in a row.
                if plan.failures().is_power_of_two() {
                    tracing::warn!(%error, "the certificate could not be renewed; trying again before it ends");
                }
            }
            tracing::info!("certificate renewed");
        }
    }

    async fn renew(
        &self,
        slot: &CertificateSlot,
        trust: &TrustSlot,
        client: &Client,
    ) -> Result<(), IdentityError> {
        let key = KeyRequest::generate()?;
        let request = v1::RenewSwitchCertificateRequest { csr_pem: key.csr_pem.clone() };
        let answer = service(client).renew_switch_certificate(request).await;
        let answer =
            answer.map_err(|status| IdentityError::Renew(Box::new(RpcError::from_status(&status))))?;
        let answer = answer.into_inner();
        self.store(&key.key_pem, &answer)?;
        slot.swap(&answer.certificate_pem, &key.key_pem)?;
        trust.swap(&answer.ca_pem)?;
        Ok(())
    }
}

fn service(client: &Client) -> SwitchAgentServiceClient<Client> {
    SwitchAgentServiceClient::new(client.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES)
}

/// The token that was given, if one was.
fn token(arguments: &RunArguments) -> Result<Option<String>, IdentityError> {
    let given = match (&arguments.join_token, &arguments.join_token_file) {
        // A file that is gone was removed once its token was used.
        (None, Some(file)) if file.exists() => Some(files::read_text(file)?),
        (token, _) => token.clone(),
    };
    Ok(given.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty()))
}
