//! What a workload asks for by annotations `railyard.io/*` of its pods: the same as Slurm's jobs by `--rail-*`, and where. [pure]

use proto_manifest::{RailOption, RailOptions, Switches, WrongOption};
use proto_wire::v1::{self, placement_request::Within};

const SWITCHES: Switches = Switches { off: Some("false"), on: "true" };

/// Most pods that share a server.
const PODS_PER_NODE: std::ops::RangeInclusive<u32> = 1..=64;

/// What differs from the defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkloadOptions {
    /// Pods that share a server; where topology-aware scheduling places them, it says that itself.
    pub pods_per_node: Option<u32>,
    /// What is asked of rails.
    pub rail: RailOptions,
    within: Option<Within>,
    queue: Option<String>,
}

/// Whether pods with these annotations take part without GPUs.
#[must_use]
pub fn asks_for_rails(annotation: impl Fn(&str) -> Option<String>) -> bool {
    annotation(&whole(name(RailOption::Count))).is_some()
}

/// The options that annotations say; they are looked up by their whole name.
///
/// # Errors
/// The annotation, and what it may be.
pub fn of(annotation: impl Fn(&str) -> Option<String>) -> Result<WorkloadOptions, String> {
    let given = |name: &str| annotation(&whole(name));
    let rail = RailOptions::read(|option| given(name(option)), SWITCHES)
        .map_err(|WrongOption { option, given, wanted }| wrong(name(option), &given, &wanted))?;
    let pods_per_node = given("pods-per-node").map(|text| {
        let number = text.parse().ok().filter(|number| PODS_PER_NODE.contains(number));
        let wanted = || format!("a number from {} to {}", PODS_PER_NODE.start(), PODS_PER_NODE.end());
        number.ok_or_else(|| wrong("pods-per-node", &text, &wanted()))
    });
    let within = given("within").map(|text| match text.as_str() {
        "leaves" => Ok(Within::Leaves),
        "pod" => Ok(Within::Pod),
        "fabric" => Ok(Within::Fabric),
        _ => Err(wrong("within", &text, "one of leaves, pod, fabric")),
    });
    let (pods_per_node, within) = (pods_per_node.transpose()?, within.transpose()?);
    Ok(WorkloadOptions { pods_per_node, rail, within, queue: given("queue") })
}

fn whole(name: &str) -> String {
    format!("railyard.io/{name}")
}

/// The annotation's name, without the domain before it.
fn name(option: RailOption) -> &'static str {
    match option {
        RailOption::Ranks => "ranks-per-node",
        RailOption::Count => "rail-count",
        RailOption::Partial => "rail-partial",
        RailOption::AvoidDrained => "rail-avoid-drained",
        RailOption::Certify => "rail-certify",
        RailOption::Checksum => "rail-checksum",
        RailOption::Protection => "rail-protection",
    }
}

fn wrong(name: &str, text: &str, wanted: &str) -> String {
    let text: String = text.chars().take(64).collect();
    format!("annotation {} of its pods is {text:?}: it is {wanted}", whole(name))
}

impl WorkloadOptions {
    /// The specification with what is asked for; what nothing is said of stays.
    pub fn apply(&self, spec: &mut v1::JobSpec) {
        self.rail.apply(spec);
        if let Some(within) = self.within {
            spec.placement.get_or_insert_default().within = within.into();
        }
        if let Some(queue) = &self.queue {
            spec.queue.clone_from(queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use proto_wire::v1::{engine_options::Protection, job_spec::Certification, rail_request::AvoidDrained};

    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<WorkloadOptions, String> {
        of(|name| {
            pairs.iter().find(|pair| name == format!("railyard.io/{}", pair.0)).map(|pair| pair.1.to_owned())
        })
    }

    #[test]
    fn annotations_become_the_specification() {
        let mut spec = v1::JobSpec::default();
        let all = [
            ("rail-count", "4"),
            ("rail-partial", "true"),
            ("rail-avoid-drained", "true"),
            ("rail-certify", "require"),
            ("rail-checksum", "true"),
            ("rail-protection", "integrity"),
            ("within", "pod"),
            ("queue", "nightly"),
        ];
        read(&all).unwrap().apply(&mut spec);
        let rails = spec.rails.unwrap();
        assert_eq!((rails.required, rails.allow_partial), (4, true));
        assert_eq!(rails.avoid_drained(), AvoidDrained::Required);
        assert_eq!(spec.certification(), Certification::Require);
        let engine = spec.engine.clone().unwrap();
        assert_eq!((engine.checksum, engine.protection()), (true, Protection::Integrity));
        assert_eq!(spec.placement.clone().unwrap().within(), Within::Pod);
        assert_eq!(spec.queue, "nightly");
    }

    #[test]
    fn nothing_said_changes_nothing_and_wrong_values_are_named() {
        let mut spec = v1::JobSpec::default();
        read(&[("rail-partial", "false")]).unwrap().apply(&mut spec);
        assert_eq!(spec, v1::JobSpec::default());
        for (name, value) in [
            ("rail-count", "0"),
            ("rail-count", "65"),
            ("rail-partial", "yes"),
            ("within", "POD"),
            ("ranks-per-node", "-1"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
