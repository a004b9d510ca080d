//! What a job asks for by the options `--rail-*` of sbatch, srun and salloc (`deploy/slurm/spank_railyard.c`). Slurm hands them to prologs as variables,
//! which whoever submits a job can set by other ways, too: they are checked here, and by the controller.

use std::ops::RangeInclusive;

use proto_wire::v1::{self, engine_options::Protection, job_spec::Certification, rail_request::AvoidDrained};

use crate::error::Error;

/// What Slurm puts before the names that the plugin gives (SPANK's job control environment, spank(7)).
const PREFIX: &str = "SPANK_RAIL_";

/// What differs from the defaults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RailOptions {
    /// Ranks that the engine expects on each server.
    ranks: Option<u32>,
    /// Rails that each server must have usable.
    rails: Option<u32>,
    /// Any rails that all share, and fewer once it runs.
    partial: bool,
    avoid_drained: bool,
    certification: Option<Certification>,
    checksum: bool,
    protection: Option<Protection>,
}

/// The options that the variables say.
///
/// # Errors
/// [`Error::Usage`] names the option, and what it may be.
pub fn of(variable: impl Fn(&str) -> Option<String>) -> Result<RailOptions, Error> {
    let given = |name: &str| variable(&format!("{PREFIX}{name}"));
    let word = |name: &str, option: &str, words: &[&str]| -> Result<Option<usize>, Error> {
        let Some(text) = given(name) else { return Ok(None) };
        let at = words.iter().position(|word| *word == text);
        at.map(Some).ok_or_else(|| wrong(option, &text, &format!("one of {}", words.join(", "))))
    };
    let number = |name: &str, option: &str, within: RangeInclusive<u32>| -> Result<Option<u32>, Error> {
        let Some(text) = given(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| within.contains(number));
        let wanted = || format!("a number from {} to {}", within.start(), within.end());
        number.map(Some).ok_or_else(|| wrong(option, &text, &wanted()))
    };
    let switch = |name: &str, option: &str| word(name, option, &["1"]).map(|at| at.is_some());
    let certifications = [Certification::Warn, Certification::Require];
    let protections = [Protection::None, Protection::Integrity, Protection::Encrypted];
    Ok(RailOptions {
        ranks: number("RANKS", "--rail-ranks", 1..=256)?,
        rails: number("COUNT", "--rail-count", 1..=64)?,
        partial: switch("PARTIAL", "--rail-partial")?,
        avoid_drained: switch("AVOID_DRAINED", "--rail-avoid-drained")?,
        certification: word("CERTIFY", "--rail-certify", &["warn", "require"])?.map(|at| certifications[at]),
        checksum: switch("CHECKSUM", "--rail-checksum")?,
        protection: word("PROTECTION", "--rail-protection", &["none", "integrity", "encrypted"])?
            .map(|at| protections[at]),
    })
}

fn wrong(option: &str, text: &str, wanted: &str) -> Error {
    Error::Usage(format!("{option} of the job is {text:?}: it is {wanted}"))
}

impl RailOptions {
    /// The specification with what the job asks for; what it says nothing of stays.
    pub fn apply(&self, spec: &mut v1::JobSpec) {
        if let Some(ranks) = self.ranks {
            spec.gang.get_or_insert_default().ranks_per_node = ranks;
        }
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<RailOptions, Error> {
        of(|name| {
            let pair = pairs.iter().find(|pair| name.strip_prefix(PREFIX) == Some(pair.0));
            pair.map(|pair| pair.1.to_owned())
        })
    }

    #[test]
    fn options_of_a_job_become_its_specification() {
        let all = [
            ("RANKS", "8"),
            ("COUNT", "4"),
            ("PARTIAL", "1"),
            ("AVOID_DRAINED", "1"),
            ("CERTIFY", "require"),
            ("CHECKSUM", "1"),
            ("PROTECTION", "integrity"),
        ];
        let mut spec = v1::JobSpec::default();
        read(&all).unwrap().apply(&mut spec);
        let (rails, engine) = (spec.rails.unwrap(), spec.engine.clone().unwrap());
        assert_eq!((spec.gang.unwrap().ranks_per_node, rails.required, rails.allow_partial), (8, 4, true));
        assert_eq!(rails.avoid_drained(), AvoidDrained::Required);
        assert_eq!(Certification::try_from(spec.certification), Ok(Certification::Require));
        assert_eq!((engine.checksum, engine.protection()), (true, Protection::Integrity));
    }

    #[test]
    fn a_job_without_options_is_as_the_site_has_it() {
        let site = v1::JobSpec {
            gang: Some(v1::Gang { nodes: 2, ranks_per_node: 4, ..v1::Gang::default() }),
            ..v1::JobSpec::default()
        };
        let mut spec = site.clone();
        read(&[]).unwrap().apply(&mut spec);
        assert_eq!(spec, site);
    }

    #[test]
    fn what_is_wrong_names_the_option_and_what_it_may_be() {
        for (name, value, says) in [
            ("RANKS", "0", "--rail-ranks of the job is \"0\": it is a number from 1 to 256"),
            ("RANKS", "-1", "--rail-ranks"),
            ("COUNT", "65", "a number from 1 to 64"),
            ("PARTIAL", "yes", "--rail-partial of the job is \"yes\""),
            ("CERTIFY", "", "one of warn, require"),
            ("PROTECTION", "full", "one of none, integrity, encrypted"),
        ] {
            let error = read(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
