//! How attempts are made: one small executor per kind of step.

pub mod call;
pub mod check;
pub mod h2;
pub mod jobs;
pub mod lives;
pub mod names;
pub mod nodes;
pub mod people;
pub mod probes;
pub mod rails;
pub mod recorded;
mod rest;
pub mod tap;
pub mod tls;
pub mod wire;

use crate::{
    model::{Attempt, Expect, Step},
    verdict::{Verdict, gave, held_if},
    world::World,
};

/// Makes one attempt. What keeps it from being made is no verdict on what is attacked.
pub async fn perform(world: &World, attempt: &Attempt) -> Verdict {
    let done = match &attempt.step {
        Step::Call { rpc, body } => by_call(world, attempt, rpc, body).await,
        Step::Frame { rpc, bytes } => {
            let answer = call::frame(&world.person(attempt.from).client, rpc, bytes.clone()).await;
            Ok(judged(world, attempt, &answer, ""))
        }
        Step::Rest { head, body } => rest::perform(world, attempt, head, body).await,
        Step::Wire(wire) => wire::perform(world, *wire).await,
        Step::Lie(lie) => nodes::perform(world, *lie).await,
        Step::Job(trick) => jobs::perform(world, *trick).await,
        Step::Probe(probe) => probes::perform(world, probe).await,
        Step::Life(life) => lives::perform(world, *life).await,
        Step::Rails(trick) => rails::perform(world, *trick).await,
        Step::Name(name) => names::perform(world, *name).await,
        Step::Tap => tap::perform(world).await,
        Step::Recorded(what) => recorded::perform(*what).await,
        Step::Inspection(check) => check::perform(world, *check).await,
    };
    done.unwrap_or_else(Verdict::NotMade)
}

async fn by_call(
    world: &World,
    attempt: &Attempt,
    rpc: &str,
    body: &serde_json::Value,
) -> Result<Verdict, String> {
    let body = world.body(body);
    let answer = call::call(&world.person(attempt.from).client, rpc, &body).await?;
    Ok(judged(world, attempt, &answer, &body.to_string()))
}

/// What an answer says of an attempt.
fn judged(world: &World, attempt: &Attempt, answer: &call::Answer, said: &str) -> Verdict {
    if let Some(secret) = world.leaks(answer, said) {
        return gave(format!("told `{secret}`: {}", answer.words()));
    }
    match attempt.expect {
        Expect::Reason(reasons) => held_if(reasons.contains(&answer.reason()), || answer.words()),
        Expect::Hidden => match answer.reason() {
            // Nothing is proved by a server that does not answer.
            "UNREACHABLE" | "CONNECTION_LOST" | "DEADLINE_EXCEEDED" => {
                Verdict::NotMade(format!("not answered: {}", answer.words()))
            }
            _ => Verdict::Held,
        },
        _ => held_if(answer.error.is_some(), || answer.words()),
    }
}
