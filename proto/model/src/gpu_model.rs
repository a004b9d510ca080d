//! What people call a model of GPU, beside what its driver calls it.

use std::fmt;

use thiserror::Error;

/// Bytes of a model at most: as much as a node may tell of a GPU.
pub const MAX_MODEL: usize = 128;

/// A model of GPU as a job asks for it, for example `H100` or `H100 80GB`.
///
/// A GPU is of it if its words, which are runs of letters and digits, follow one another in what the GPU's driver says, in upper or
/// lower case: `H100` is what `NVIDIA H100 80GB HBM3` is, and `H100X` is not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GpuModel(String);

/// Why a text is no model of GPU.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GpuModelError {
    /// It would be any GPU, or none.
    #[error("'{0}' has no letter and no digit; write for example H100, or leave it out for any GPU")]
    NoWord(String),
    /// Longer than any.
    #[error("has {0} bytes; at most {MAX_MODEL} are allowed")]
    TooLong(usize),
    /// A control character.
    #[error("must be one printable line")]
    Control,
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

impl GpuModel {
    /// Checks a text.
    ///
    /// # Errors
    /// [`GpuModelError`].
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

    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a GPU of which the driver says `told` is of this model; false where it says nothing.
    #[must_use]
    pub fn is(&self, told: &str) -> bool {
        let asked: Vec<String> = words(&self.0).map(str::to_lowercase).collect();
        let told: Vec<String> = words(told).map(str::to_lowercase).collect();
        told.windows(asked.len()).any(|window| window == asked)
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
        let is = |asked: &str, told: &str| GpuModel::new(asked).unwrap().is(told);
        for (asked, told) in [
            ("H100", "NVIDIA H100 80GB HBM3"),
            ("h100 80gb", "NVIDIA H100 80GB HBM3"),
            ("A100", "NVIDIA A100-SXM4-80GB"),
            ("A100-SXM4", "NVIDIA A100-SXM4-80GB"),
            ("MI300X", "AMD Instinct MI300X"),
            ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        ] {
            assert!(is(asked, told), "{asked}: {told}");
        }
        for (asked, told) in [
            ("H100", ""),
            ("H100", "NVIDIA H100X"),
            ("H10", "NVIDIA H100 80GB HBM3"),
            ("H100 HBM3", "NVIDIA H100 80GB HBM3"),
            ("GH200", "NVIDIA H200"),
        ] {
            assert!(!is(asked, told), "{asked}: {told}");
        }
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
