//! Reports to the controller, for ever, and its answers to the keeper.

use std::time::Duration;

use proto_rpc::{Client, Jitter, REVOKED, RetryPolicy, RpcError};
use proto_wire::v1::switch_agent_service_client::SwitchAgentServiceClient;
use tokio::sync::watch;

use crate::{
    identity::Identity,
    keeper::{Heard, Status},
    mailbox::Mailbox,
    report::{self, Answer},
};

/// A report that is not answered in this time is made anew, at another address of the cluster if there is one.
const LIMIT: Duration = Duration::from_secs(10);
/// Bytes of one answer of the controller, whom the certificate proves: all files of a switch.
const ANSWER_MAX: usize = 32 << 20;

/// Both ends of the keeper.
#[derive(Debug, Clone)]
pub struct Ends {
    /// The controller's word goes here.
    pub heard: Mailbox<Heard>,
    /// What is reported.
    pub status: watch::Receiver<Status>,
}

/// Reports, for ever.
pub async fn keep(client: Client, identity: Identity, mut ends: Ends) {
    let client = client.with_timeout(LIMIT);
    let policy = RetryPolicy::default();
    let (mut jitter, mut failures, mut send_files) = (Jitter::from_os(), 0_u32, false);
    // The first report has something to say. An error is the keeper's end, and then the process ends.
    let _ = ends.status.wait_for(|status| status.ready).await;
    loop {
        let wait = match exchange(&client, &ends, send_files).await {
            Ok(answer) => {
                if failures > 0 {
                    tracing::info!(failures, "the controller answers again");
                }
                failures = 0;
                send_files = answer.send_files;
                ends.heard.put(answer.heard);
                answer.interval
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                if failures > 1 && error.reason == REVOKED {
                    identity.set_aside();
                }
                // The 1st, 2nd, 4th, 8th ... in a row: a controller that is away for a day fills no disk.
                if failures.is_power_of_two() {
                    tracing::warn!(%error, failures, "no answer from the controller; trying again, the configuration stays");
                }
                let ceiling = policy.backoff_ceiling(failures);
                ceiling / 2 + jitter.up_to(ceiling / 2)
            }
        };
        tokio::time::sleep(wait).await;
    }
}

async fn exchange(client: &Client, ends: &Ends, send_files: bool) -> Result<Answer, RpcError> {
    let request = report::report(&ends.status.borrow(), send_files);
    let mut agent = SwitchAgentServiceClient::new(client.clone()).max_decoding_message_size(ANSWER_MAX);
    let answer = agent.report_switch(request).await.map_err(|status| RpcError::from_status(&status))?;
    report::answer(answer.into_inner()).map_err(|what| {
        let class = proto_rpc::ErrorClass::Internal;
        RpcError::new(
            class,
            "ANSWER_NOT_UNDERSTOOD",
            format!("the controller's answer cannot be understood: {what}"),
        )
    })
}
