//! Requests over HTTP/1.1, written as they are.

use super::tls::{Reply, address, exchange};
use crate::{
    model::{Attempt, Expect},
    verdict::{Verdict, gave, held_if},
    world::World,
};

/// Makes one request and judges the answer.
///
/// # Errors
/// What kept the attempt from being made, as text: a part that it needs did not start or did not answer.
pub async fn perform(world: &World, attempt: &Attempt, head: &str, body: &[u8]) -> Result<Verdict, String> {
    let person = world.person(attempt.from);
    let head = world.filled(head);
    let bytes = written(&head, body, &address(&world.place.endpoint)?.0);
    let reply = exchange(&world.place, person.slot.as_ref(), &bytes).await?;
    let said = format!("{head}{}", String::from_utf8_lossy(body));
    Ok(judged(world, attempt, &reply, &said))
}

/// The request: `Host`, a length, and an end are added where the head does not say them.
fn written(head: &str, body: &[u8], host: &str) -> Vec<u8> {
    if let Some(raw) = head.strip_prefix("RAW ") {
        return [raw.as_bytes(), body].concat();
    }
    let (line, headers) = head.split_once("\r\n").unwrap_or((head, ""));
    let mut text = format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    if !headers.is_empty() {
        text.push_str(headers);
        text.push_str("\r\n");
    }
    let lower = headers.to_ascii_lowercase();
    if !lower.contains("content-length") && !lower.contains("transfer-encoding") && !body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    if !lower.contains("content-type") && !body.is_empty() {
        text.push_str("Content-Type: application/json\r\n");
    }
    text.push_str("\r\n");
    [text.as_bytes(), body].concat()
}

fn judged(world: &World, attempt: &Attempt, reply: &Reply, said: &str) -> Verdict {
    if let Some(secret) = world.reported(&reply.text, said) {
        return gave(format!("told `{secret}`: {}", reply.words()));
    }
    match attempt.expect {
        Expect::Reason(reasons) => {
            let reason = reply.reason();
            held_if(reasons.contains(&reason.as_str()) && (400..500).contains(&reply.status), || {
                reply.words()
            })
        }
        Expect::Hidden if reply.status == 0 => Verdict::NotMade("not answered".to_owned()),
        Expect::Hidden => Verdict::Held,
        // An end of the connection without an answer is a refusal too.
        _ => {
            let by_grpc = reply.text.contains("grpc-status: ") && !reply.text.contains("grpc-status: 0\r");
            held_if(reply.status == 0 || (400..=505).contains(&reply.status) || by_grpc, || reply.words())
        }
    }
}
