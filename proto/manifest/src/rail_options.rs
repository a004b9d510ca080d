//! What the jobs of another scheduler ask of rails, in a few words: Slurm's options `--rail-*` and the annotations `railyard.io/*` of
//! Kubernetes are names for the same, with the same bounds. [pure]

use std::ops::RangeInclusive;

use proto_wire::v1::{self, engine_options::Protection, job_spec::Certification, rail_request::AvoidDrained};

/// Longest part of a wrong value that an error shows.
const SHOWN: usize = 64;

/// One thing that can be asked for. How it is called is the scheduler's matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RailOption {
    /// Ranks that the engine expects on each server.
    Ranks,
    /// Rails that each server must have usable.
    Count,
    /// Any rails that all share, and fewer once it runs.
    Partial,
    /// No drained rails, not even where no others are left.
    AvoidDrained,
    /// Whether a certificate of the rails is needed before rank 0, or a warning is enough.
    Certify,
    /// The engine's own checksums.
    Checksum,
    /// What protects data on the rails.
    Protection,
}

/// Texts by which switches are off and on.
#[derive(Debug, Clone, Copy)]
pub struct Switches {
    /// Off, where it can be said.
    pub off: Option<&'static str>,
    /// On.
    pub on: &'static str,
}

/// A value that is none: which option, what it says, and what it may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongOption {
    /// Which.
    pub option: RailOption,
    /// What was given; its first 64 characters.
    pub given: String,
    /// What it may be: `one of warn, require`, `a number from 1 to 64`.
    pub wanted: String,
}

/// What differs from the defaults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RailOptions {
    /// [`RailOption::Ranks`].
    pub ranks: Option<u32>,
    /// [`RailOption::Count`].
    pub rails: Option<u32>,
    partial: bool,
    avoid_drained: bool,
    certification: Option<Certification>,
    checksum: bool,
    protection: Option<Protection>,
}

impl RailOptions {
    /// Reads what is given.
    ///
    /// # Errors
    /// [`WrongOption`]: the first value that is none.
    pub fn read(
        given: impl Fn(RailOption) -> Option<String>,
        switches: Switches,
    ) -> Result<Self, WrongOption> {
        let word = |option, words: &[&str]| word(option, given(option).as_deref(), words);
        let number = |option, within| number(option, given(option).as_deref(), within);
        let texts: Vec<&str> = switches.off.into_iter().chain([switches.on]).collect();
        let switch = |option| word(option, &texts).map(|at| at.is_some_and(|at| texts[at] == switches.on));
        let certifications = [Certification::Warn, Certification::Require];
        let protections = [Protection::None, Protection::Integrity, Protection::Encrypted];
        Ok(Self {
            ranks: number(RailOption::Ranks, 1..=256)?,
            rails: number(RailOption::Count, 1..=64)?,
            partial: switch(RailOption::Partial)?,
            avoid_drained: switch(RailOption::AvoidDrained)?,
            certification: word(RailOption::Certify, &["warn", "require"])?.map(|at| certifications[at]),
            checksum: switch(RailOption::Checksum)?,
            protection: word(RailOption::Protection, &["none", "integrity", "encrypted"])?
                .map(|at| protections[at]),
        })
    }

    /// The specification with what is asked for, but for ranks, which each scheduler counts in its own way; what nothing is said
    /// of stays.
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
    }
}

/// Which of the words a value is; `None` where nothing is given.
fn word(option: RailOption, given: Option<&str>, words: &[&str]) -> Result<Option<usize>, WrongOption> {
    let Some(text) = given else { return Ok(None) };
    let at = words.iter().position(|word| *word == text);
    let wanted = || match words {
        [only] => format!("{only}, or not there"),
        _ => format!("one of {}", words.join(", ")),
    };
    at.map(Some).ok_or_else(|| wrong(option, text, wanted()))
}

/// The number that a value is; `None` where nothing is given.
fn number(
    option: RailOption,
    given: Option<&str>,
    within: RangeInclusive<u32>,
) -> Result<Option<u32>, WrongOption> {
    let Some(text) = given else { return Ok(None) };
    let number = text.parse().ok().filter(|number| within.contains(number));
    let wanted = || format!("a number from {} to {}", within.start(), within.end());
    number.map(Some).ok_or_else(|| wrong(option, text, wanted()))
}

fn wrong(option: RailOption, text: &str, wanted: String) -> WrongOption {
    WrongOption { option, given: text.chars().take(SHOWN).collect(), wanted }
}
