//! What a workload asks for by annotations `railyard.io/*` of its pods: the same as Slurm's jobs by `--rail-*`. [pure]

use std::ops::RangeInclusive;

use proto_wire::v1::{
    self, engine_options::Protection, job_spec::Certification, placement_request::Within,
    rail_request::AvoidDrained,
};

/// What differs from the defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RailOptions {
    /// Pods that share a server; where topology-aware scheduling places them, it says that itself.
    pub pods_per_node: Option<u32>,
    /// Ranks that the engine expects on each server.
    pub ranks: Option<u32>,
    /// Rails that each server must have usable.
    pub rails: Option<u32>,
    partial: bool,
    avoid_drained: bool,
    certification: Option<Certification>,
    checksum: bool,
    protection: Option<Protection>,
    within: Option<Within>,
    queue: Option<String>,
}

/// Whether pods with these annotations take part without GPUs.
#[must_use]
pub fn asks_for_rails(annotation: impl Fn(&str) -> Option<String>) -> bool {
    annotation("railyard.io/rail-count").is_some()
}

/// The options that annotations say; they are looked up by their whole name.
///
/// # Errors
/// The annotation, and what it may be.
pub fn of(annotation: impl Fn(&str) -> Option<String>) -> Result<RailOptions, String> {
    let given = |name: &str| annotation(&format!("railyard.io/{name}"));
    let word = |name: &str, words: &[&str]| -> Result<Option<usize>, String> {
        let Some(text) = given(name) else { return Ok(None) };
        let at = words.iter().position(|word| *word == text);
        at.map(Some).ok_or_else(|| wrong(name, &text, &format!("one of {}", words.join(", "))))
    };
    let number = |name: &str, within: RangeInclusive<u32>| -> Result<Option<u32>, String> {
        let Some(text) = given(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| within.contains(number));
        let wanted = || format!("a number from {} to {}", within.start(), within.end());
        number.map(Some).ok_or_else(|| wrong(name, &text, &wanted()))
    };
    let switch = |name: &str| word(name, &["false", "true"]).map(|at| at == Some(1));
    let certifications = [Certification::Warn, Certification::Require];
    let protections = [Protection::None, Protection::Integrity, Protection::Encrypted];
    let levels = [Within::Leaves, Within::Pod, Within::Fabric];
    Ok(RailOptions {
        pods_per_node: number("pods-per-node", 1..=64)?,
        ranks: number("ranks-per-node", 1..=256)?,
        rails: number("rail-count", 1..=64)?,
        partial: switch("rail-partial")?,
        avoid_drained: switch("rail-avoid-drained")?,
        certification: word("rail-certify", &["warn", "require"])?.map(|at| certifications[at]),
        checksum: switch("rail-checksum")?,
        protection: word("rail-protection", &["none", "integrity", "encrypted"])?.map(|at| protections[at]),
        within: word("within", &["leaves", "pod", "fabric"])?.map(|at| levels[at]),
        queue: given("queue"),
    })
}

fn wrong(name: &str, text: &str, wanted: &str) -> String {
    let text: String = text.chars().take(64).collect();
    format!("annotation railyard.io/{name} of its pods is {text:?}: it is {wanted}")
}

impl RailOptions {
    /// The specification with what is asked for; what nothing is said of stays.
    pub fn apply(&self, spec: &mut v1::JobSpec) {
        if self.rails.is_some() || self.partial || self.avoid_drained {
            let rails = spec.rails.get_or_insert_default();
            rails.required = self.rails.unwrap_or(rails.required);
            rails.allow_partial |= self.partial;
            if self.avoid_drained {
                rails.avoid_drained = AvoidDrained::Required.into();
            }
        }
        if let Some(certification) = self.certification {
            spec.certification = certification.into();
        }
        if self.checksum || self.protection.is_some() {
            let engine = spec.engine.get_or_insert_default();
            engine.checksum |= self.checksum;
            if let Some(protection) = self.protection {
                engine.protection = protection.into();
            }
        }
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
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<RailOptions, String> {
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
