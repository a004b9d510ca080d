//! The status of an object: what is written, and whether that differs from what is there. [pure]

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

/// The three conditions, in the order in which they are written.
pub const CONDITIONS: [&str; 3] = ["Ready", "Progressing", "Degraded"];

/// What an object is, in the words of its conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Railyard has it as the object says, and it is done.
    Ready,
    /// Railyard has it, and it goes on by itself.
    Progressing,
    /// Railyard has it not, or it does not go on.
    Degraded,
}

/// A job as Railyard has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobView {
    /// Its tenant.
    pub tenant: String,
    /// Its name there.
    pub name: String,
    /// What Railyard calls it, never reused.
    pub uid: String,
    /// As in `rail.v1.JobStatus.Phase`.
    pub phase: String,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// Servers that it is placed on.
    pub nodes: Vec<String>,
    /// Indices of the rails that it uses.
    pub rails: Vec<u32>,
}

impl JobView {
    /// Whether it never goes on.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "COMPLETED" | "FAILED" | "CANCELLED")
    }
}

/// What was handed to Railyard for an object. It is written before it is handed over: what is not written here the operator has never asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Handed {
    /// The generation of the object.
    pub generation: i64,
    /// Of a job: whose it is.
    pub tenant: String,
    /// Of a job: a digest of the object's spec.
    pub digest: String,
    /// Whether Railyard was seen to have it.
    pub is_taken: bool,
}

/// A status as it should be. Times are not of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Of which generation of the object it speaks.
    pub generation: i64,
    /// What it is.
    pub health: Health,
    /// Why, as a code in UpperCamelCase.
    pub reason: String,
    /// One sentence for people.
    pub message: String,
    /// The job, of a job.
    pub job: Option<JobView>,
    /// What was handed to Railyard.
    pub handed: Option<Handed>,
}

/// Longer messages are cut: objects are small.
const MESSAGE_MAX: usize = 2_000;

impl Status {
    /// As the object's `status` holds it. A condition that does not turn keeps its time of `before`; others get `now`.
    #[must_use]
    pub fn to_json(&self, before: &Json, now: &str) -> Json {
        let conditions: Vec<Json> = CONDITIONS.iter().map(|name| self.condition(name, before, now)).collect();
        let mut status = json!({"observedGeneration": self.generation, "conditions": conditions});
        if let Some(job) = &self.job {
            status["job"] = serde_json::to_value(job).unwrap_or_default();
        }
        if let Some(handed) = &self.handed {
            status["handed"] = serde_json::to_value(handed).unwrap_or_default();
        }
        status
    }

    fn condition(&self, name: &str, before: &Json, now: &str) -> Json {
        let holds = matches!(
            (name, self.health),
            ("Ready", Health::Ready) | ("Progressing", Health::Progressing) | ("Degraded", Health::Degraded)
        );
        let status = if holds { "True" } else { "False" };
        let old = condition(before, name);
        let since = old
            .filter(|old| old["status"] == status)
            .and_then(|old| old["lastTransitionTime"].as_str())
            .unwrap_or(now);
        json!({
            "type": name,
            "status": status,
            "reason": self.reason,
            "message": cut(&self.message),
            "observedGeneration": self.generation,
            "lastTransitionTime": since,
        })
    }

    /// Reads what is there; `None` where nothing of the operator's is.
    #[must_use]
    pub fn of_json(status: &Json) -> Option<Self> {
        let holds = |name: &str| condition(status, name).is_some_and(|one| one["status"] == "True");
        let health = match (holds("Ready"), holds("Progressing"), holds("Degraded")) {
            (true, false, false) => Health::Ready,
            (false, true, false) => Health::Progressing,
            (false, false, true) => Health::Degraded,
            _ => return None,
        };
        let ready = condition(status, "Ready")?;
        let text = |name: &str| ready[name].as_str().unwrap_or_default().to_owned();
        Some(Self {
            generation: status["observedGeneration"].as_i64()?,
            health,
            reason: text("reason"),
            message: text("message"),
            job: serde_json::from_value(status["job"].clone()).ok(),
            handed: serde_json::from_value(status["handed"].clone()).ok(),
        })
    }

    /// Whether what is there says the same. Of a job that goes on by itself the words of a cause count anew with every change of the queue: they are
    /// written when something else is.
    #[must_use]
    pub fn is_said_by(&self, there: Option<&Self>) -> bool {
        let passing = self.health == Health::Progressing && self.job.is_some();
        there.is_some_and(|there| {
            let message = if passing { there.message.clone() } else { cut(&self.message) };
            *there == Self { message, ..self.clone() }
        })
    }

    /// Whether what is there differs in its message alone: what a refusal counts differs each time, and is no reason to write.
    #[must_use]
    pub fn is_meant_by(&self, there: Option<&Self>) -> bool {
        there.is_some_and(|there| *there == Self { message: there.message.clone(), ..self.clone() })
    }
}

fn condition<'a>(status: &'a Json, name: &str) -> Option<&'a Json> {
    status["conditions"].as_array()?.iter().find(|one| one["type"] == name)
}

fn cut(text: &str) -> String {
    text.chars().take(MESSAGE_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(health: Health, job: Option<JobView>) -> Status {
        let (reason, message) = ("Applied".to_owned(), "Railyard has it".to_owned());
        let handed = Some(Handed { generation: 3, is_taken: true, ..Handed::default() });
        Status { generation: 3, health, reason, message, job, handed }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let job =
            JobView { name: "a".into(), phase: "RUNNING".into(), rails: vec![0, 1], ..JobView::default() };
        for health in [Health::Ready, Health::Progressing, Health::Degraded] {
            for job in [None, Some(job.clone())] {
                let status = status(health, job);
                let read = Status::of_json(&status.to_json(&Json::Null, "t1"));
                assert!(status.is_said_by(read.as_ref()), "{read:?}");
            }
        }
        assert_eq!(Status::of_json(&Json::Null), None);
        assert_eq!(Status::of_json(&json!({"conditions": []})), None);
    }

    #[test]
    fn a_condition_keeps_its_time_until_it_turns() {
        let first = status(Health::Progressing, None).to_json(&Json::Null, "t1");
        let second = status(Health::Ready, None).to_json(&first, "t2");
        let time = |json: &Json, name| condition(json, name).unwrap()["lastTransitionTime"].clone();
        assert_eq!((time(&second, "Ready"), time(&second, "Degraded")), ("t2".into(), "t1".into()));
    }

    #[test]
    fn a_long_message_is_cut_and_still_the_same() {
        let long = Status { message: "é".repeat(5_000), ..status(Health::Degraded, None) };
        let read = Status::of_json(&long.to_json(&Json::Null, "t"));
        assert!(long.is_said_by(read.as_ref()));
    }
}
