//! What has happened to jobs and servers, as they tell it themselves: of each the times and causes that its status holds.

use prost_types::Timestamp;
use proto_model::{Names, many};
use proto_wire::v1::{self, job_status::Phase, node_status};

use super::words;

/// Something that happened to a job or a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// When: seconds and nanoseconds since 1970.
    pub time: (i64, i32),
    /// What it happened to, for example `job/nlp/train` or `node/n0`.
    pub object: String,
    /// UpperCamelCase: Submitted, Started, or the code of a cause.
    pub code: String,
    /// What happened, in one sentence.
    pub message: String,
}

impl Event {
    fn new(time: Option<&Timestamp>, object: &str, code: &str, message: String) -> Option<Self> {
        let time = time.filter(|time| time.seconds > 0)?;
        Some(Self {
            time: (time.seconds, time.nanos),
            object: object.to_owned(),
            code: code.to_owned(),
            message,
        })
    }

    /// When, as a timestamp.
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        Timestamp { seconds: self.time.0, nanos: self.time.1 }
    }

    /// One line for people.
    #[must_use]
    pub fn line(&self) -> String {
        let message: String = self.message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let line = format!(
            "{}  {:<24}  {:<16}  {message}",
            words::millis(&self.timestamp()),
            self.object,
            self.code
        );
        line.trim_end().to_owned() + "\n"
    }

    /// One line for programs.
    #[must_use]
    pub fn json(&self) -> String {
        let value = serde_json::json!({
            "time": words::millis(&self.timestamp()),
            "object": self.object,
            "event": self.code,
            "message": self.message,
        });
        format!("{value}\n")
    }
}

fn folded(nodes: impl IntoIterator<Item = String>) -> String {
    Names::of(nodes.into_iter().collect::<Vec<_>>()).to_string()
}

fn ranks(exits: &[v1::RankExit]) -> String {
    let failed = exits.iter().find(|exit| exit.code != 0 || exit.signal != 0);
    failed.map_or_else(String::new, |exit| match exit.signal {
        0 => format!("; rank {} ended with {}", exit.rank, exit.code),
        signal => format!("; rank {} was ended by signal {signal}", exit.rank),
    })
}

fn because(reasons: &[v1::Reason]) -> String {
    reasons.iter().map(|reason| format!("{}: {}", reason.code, reason.message)).collect::<Vec<_>>().join("; ")
}

/// What has happened to a job, the oldest first.
#[must_use]
pub fn of_job(job: &v1::Job) -> Vec<Event> {
    let metadata = job.metadata.clone().unwrap_or_default();
    let (spec, status) = (job.spec.clone().unwrap_or_default(), job.status.clone().unwrap_or_default());
    let object = format!("job/{}/{}", metadata.tenant, metadata.name);
    let mut events = Vec::new();
    let by = status.submitter.as_ref().map(|by| format!(" by {}", by.user)).unwrap_or_default();
    let gpus = spec.total_gpus();
    let nodes = super::jobs::gang_words(&spec.gang.unwrap_or_default());
    let asked = format!("{nodes}, {}{by}", many(gpus as usize, "GPU"));
    events.extend(Event::new(status.submit_time.as_ref(), &object, "Submitted", asked));
    for past in &status.past_attempts {
        let started = format!("attempt {} on {}", past.attempt, folded(past.nodes.clone()));
        events.extend(Event::new(past.start_time.as_ref(), &object, "Started", started));
        let ended = format!("attempt {}: {}{}", past.attempt, because(&past.reasons), ranks(&past.exits));
        events.extend(Event::new(past.end_time.as_ref(), &object, "AttemptEnded", ended));
    }
    for hold in &status.holds {
        let code = if hold.suspended { "Suspended" } else { "Held" };
        let message = format!("by {} ({}) {}", hold.by, words::role(hold.role), hold.reason);
        events.extend(Event::new(hold.since.as_ref(), &object, code, message));
    }
    let nodes = status.placement.iter().flat_map(|place| &place.nodes).map(|node| node.node.clone());
    let started = format!("attempt {} on {}", status.attempt, folded(nodes));
    events.extend(Event::new(status.start_time.as_ref(), &object, "Started", started));
    let over = matches!(status.phase(), Phase::Completed | Phase::Failed | Phase::Cancelled);
    if over {
        let ended = format!("{}{}", because(&status.reasons), ranks(&status.exits));
        events.extend(Event::new(status.end_time.as_ref(), &object, words::job_phase(status.phase), ended));
    } else {
        for reason in &status.reasons {
            events.extend(Event::new(reason.since.as_ref(), &object, &reason.code, reason.message.clone()));
        }
    }
    events.sort();
    events
}

/// What is so of a server since when, the oldest first.
#[must_use]
pub fn of_node(node: &v1::Node) -> Vec<Event> {
    let object = format!("node/{}", node.metadata.clone().unwrap_or_default().name);
    let status = node.status.clone().unwrap_or_default();
    let joined = node.metadata.as_ref().and_then(|metadata| metadata.create_time);
    let mut events: Vec<Event> =
        Event::new(joined.as_ref(), &object, "Joined", String::new()).into_iter().collect();
    if status.phase() == node_status::Phase::NotReady {
        let last = "its agent is not connected".to_owned();
        events.extend(Event::new(status.last_heartbeat.as_ref(), &object, "NotReady", last));
    }
    for reason in status.reasons.iter().chain(&status.quarantined).chain(&status.quarantine) {
        events.extend(Event::new(reason.since.as_ref(), &object, &reason.code, reason.message.clone()));
    }
    events.sort();
    events.dedup();
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{node_for_tests, pending_job, running_job};

    fn at(seconds: i64) -> Option<Timestamp> {
        Some(Timestamp { seconds, nanos: 0 })
    }

    #[test]
    fn the_life_of_a_job_is_told_in_order() {
        let mut job = running_job();
        let status = job.status.get_or_insert_default();
        status.attempt = 2;
        status.start_time = at(1020);
        status.end_time = at(1100);
        status.phase = Phase::Failed.into();
        let reason = |message: &str| v1::Reason {
            code: "RankExited".into(),
            message: message.into(),
            ..Default::default()
        };
        status.reasons = vec![reason("rank 1 ended with 2")];
        status.past_attempts = vec![v1::PastAttempt {
            attempt: 1,
            start_time: at(1002),
            end_time: at(1010),
            reasons: vec![reason("rank 0 ended with 9")],
            exits: vec![v1::RankExit { rank: 0, signal: 9, ..Default::default() }],
            nodes: vec!["n4".into(), "n5".into()],
        }];
        let reported: Vec<String> = of_job(&job).iter().map(Event::line).collect();
        let expected = [
            "1970-01-01T00:16:40.000Z  job/nlp/sum               Submitted         2 nodes, 4 GPUs\n",
            "1970-01-01T00:16:42.000Z  job/nlp/sum               Started           attempt 1 on n[4-5]\n",
            "1970-01-01T00:16:50.000Z  job/nlp/sum               AttemptEnded      attempt 1: RankExited: rank 0 ended with 9; rank 0 was ended by signal 9\n",
            "1970-01-01T00:17:00.000Z  job/nlp/sum               Started           attempt 2 on n[0-1]\n",
            "1970-01-01T00:18:20.000Z  job/nlp/sum               Failed            RankExited: rank 1 ended with 2\n",
        ];
        assert_eq!(reported, expected);
        let value: serde_json::Value = serde_json::from_str(&of_job(&job)[0].json()).unwrap();
        assert_eq!((&value["event"], &value["object"]), (&"Submitted".into(), &"job/nlp/sum".into()));
    }

    #[test]
    fn what_keeps_a_job_or_a_server_is_told_with_its_time() {
        let mut job = pending_job();
        job.status.get_or_insert_default().reasons[0].since = at(950);
        let codes: Vec<String> = of_job(&job).into_iter().map(|event| event.code).collect();
        assert_eq!(codes, ["Submitted", "GpuCapacity"], "what has no time is no event");
        let mut node = node_for_tests("n0");
        node.status.get_or_insert_default().reasons =
            vec![v1::Reason { code: "RailDown".into(), since: at(7), ..Default::default() }];
        assert_eq!(of_node(&node)[0].code, "RailDown");
    }
}
