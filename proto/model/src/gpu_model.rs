//! What people call a model of GPU, beside what its driver calls it.

use std::fmt;

use thiserror::Error;

use crate::Gpu;

/// Bytes of a model at most: as much as a node may tell of a GPU.
pub const MAX_MODEL: usize = 128;

/// A model of GPU as a job asks for it, for example `H100` or `H100 80GB`.
///
/// A GPU is of it if its words, which are runs of letters and digits, follow one another in what the GPU's driver says, in upper or
/// lower case: `H100` is what `NVIDIA H100 80GB HBM3` is, and `H100X` is not.
///
/// A MIG instance, a partition of a GPU that drivers call for example `NVIDIA H100 80GB HBM3 MIG 1g.10gb` (NVIDIA MIG User Guide, "MIG
/// Device Names"), is only of a model that names its profile or MIG itself: `1g.10gb` is what that one is, and so are `MIG` and
/// `H100 80GB HBM3 MIG 1g.10gb`; `H100` is not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuModel(String);

/// Why a text is no model of GPU.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GpuModelError {
    /// It would be any GPU, or none.
    #[error("'{0}' has no letter and no digit; write for example H100, or leave it out for any GPU")]
    NoWord(String),
    /// More bytes than a model's name may have; the number is the text's length.
    #[error("has {0} bytes; at most {MAX_MODEL} are allowed")]
    TooLong(usize),
    /// The text holds a control character, such as a line break.
    #[error("must be one printable line")]
    Control,
}

/// The word that NVIDIA's driver puts between a GPU's name and the profile of an instance.
const MIG: &str = "mig";

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

impl GpuModel {
    /// Checks a text.
    ///
    /// # Errors
    /// [`GpuModelError`] if the text is empty of letters and digits, too long, or not one printable line.
    pub fn new(text: impl Into<String>) -> Result<Self, GpuModelError> {
        let text = text.into();
        if text.len() > MAX_MODEL {
            return Err(GpuModelError::TooLong(text.len()));
        }
        if text.chars().any(char::is_control) {
            return Err(GpuModelError::Control);
        }
        if words(&text).next().is_none() {
            return Err(GpuModelError::NoWord(text));
        }
        Ok(Self(text))
    }

    /// The model as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a GPU is of this model; false where its driver does not name it.
    #[must_use]
    pub fn is(&self, gpu: &GpuKind) -> bool {
        let asked: Vec<String> = words(&self.0).map(str::to_lowercase).collect();
        let name: Vec<String> = words(&gpu.name).map(str::to_lowercase).collect();
        let fits = |at: usize| name.get(at..at + asked.len()) == Some(&asked[..]);
        if !gpu.partition {
            return (0..name.len()).any(fits);
        }
        match name.iter().position(|word| word == MIG) {
            // Up to the profile's first word: `3g.20gb` is no name of `1c.3g.20gb`, which is a third of it.
            Some(mig) => (0..=mig + 1).any(|at| at + asked.len() > mig && fits(at)),
            None => self.names_partition() && (0..name.len()).any(fits),
        }
    }

    /// Whether it names MIG instances: it has the word MIG, or a profile such as `1g.10gb` or `1c.3g.20gb`.
    #[must_use]
    pub fn names_partition(&self) -> bool {
        let asked: Vec<String> = words(&self.0).map(str::to_lowercase).collect();
        let sized = |word: &str, unit: &str| {
            word.strip_suffix(unit).is_some_and(|number| {
                !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
            })
        };
        asked.iter().any(|word| word == MIG)
            || asked.windows(2).any(|pair| sized(&pair[0], "g") && sized(&pair[1], "gb"))
    }
}

/// What a GPU is, as far as jobs ask for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct GpuKind {
    /// What its driver calls it; empty where its agent does not tell.
    pub name: String,
    /// It is a MIG instance and not a whole GPU.
    pub partition: bool,
}

impl GpuKind {
    /// The kind of a GPU that is not a partition.
    #[must_use]
    pub fn whole(name: impl Into<String>) -> Self {
        Self { name: name.into(), partition: false }
    }

    /// Whether a GPU is of this kind.
    #[must_use]
    pub fn is_of(&self, gpu: &Gpu) -> bool {
        self.partition == gpu.is_partition() && self.name == gpu.model
    }
}

impl Gpu {
    /// Whether it is a MIG instance and not a whole GPU.
    #[must_use]
    pub fn is_partition(&self) -> bool {
        self.facts.as_deref().is_some_and(|facts| facts.mig.is_some())
    }

    /// What it is, as far as jobs ask for it.
    #[must_use]
    pub fn kind(&self) -> GpuKind {
        GpuKind { name: self.model.clone(), partition: self.is_partition() }
    }
}

impl fmt::Display for GpuModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_make_a_model() {
        let is = |asked: &str, reported: &str| GpuModel::new(asked).unwrap().is(&GpuKind::whole(reported));
        for (asked, reported) in [
            ("H100", "NVIDIA H100 80GB HBM3"),
            ("h100 80gb", "NVIDIA H100 80GB HBM3"),
            ("A100", "NVIDIA A100-SXM4-80GB"),
            ("A100-SXM4", "NVIDIA A100-SXM4-80GB"),
            ("MI300X", "AMD Instinct MI300X"),
            ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        ] {
            assert!(is(asked, reported), "{asked}: {reported}");
        }
        for (asked, reported) in [
            ("H100", ""),
            ("H100", "NVIDIA H100X"),
            ("H10", "NVIDIA H100 80GB HBM3"),
            ("H100 HBM3", "NVIDIA H100 80GB HBM3"),
            ("GH200", "NVIDIA H200"),
        ] {
            assert!(!is(asked, reported), "{asked}: {reported}");
        }
    }

    #[test]
    fn instances_are_asked_for_by_their_profile() {
        const ONE: &str = "NVIDIA H100 80GB HBM3 MIG 1g.10gb";
        let is = |asked: &str, name: &str| {
            GpuModel::new(asked).unwrap().is(&GpuKind { name: name.to_owned(), partition: true })
        };
        for asked in ["1g.10gb", "MIG", "mig 1g.10gb", "HBM3 MIG", "H100 80GB HBM3 MIG 1g.10gb"] {
            assert!(is(asked, ONE), "{asked}");
        }
        for asked in ["H100", "80GB", "NVIDIA H100 80GB HBM3", "10gb", "2g.20gb", "MIG 2g.20gb"] {
            assert!(!is(asked, ONE), "{asked}");
        }
        assert!(!is("3g.20gb", "NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb"), "a third of it");
        assert!(is("1c.3g.20gb", "NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb"));
        assert!(
            is("1g.10gb", "NVIDIA 1g.10gb") && !is("NVIDIA", "NVIDIA 1g.10gb"),
            "a driver without the word"
        );
        let whole = GpuKind::whole("NVIDIA H100 80GB HBM3");
        assert!(!GpuModel::new("1g.10gb").unwrap().is(&whole));
        let names = |text: &str| GpuModel::new(text).unwrap().names_partition();
        assert!(
            ["1g.10gb", "1c.3g.20gb", "H100 MIG", "a100 mig 7g.40gb", "1g.10gb+me"].into_iter().all(names)
        );
        assert!(!["H100", "H100 80GB", "A100-SXM4-80GB", "MI300X", "MIGHTY 5g"].into_iter().any(names));
    }

    #[test]
    fn what_says_nothing_is_no_model() {
        assert_eq!(GpuModel::new(" - "), Err(GpuModelError::NoWord(" - ".into())));
        assert_eq!(GpuModel::new(""), Err(GpuModelError::NoWord(String::new())));
        assert_eq!(GpuModel::new("a\nb"), Err(GpuModelError::Control));
        assert_eq!(GpuModel::new("x".repeat(129)), Err(GpuModelError::TooLong(129)));
        assert_eq!(GpuModel::new("H100 80GB").unwrap().to_string(), "H100 80GB");
    }
}
