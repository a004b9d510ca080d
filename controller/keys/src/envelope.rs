//! A secret sealed with a data key that a provider has wrapped, as text: one JSON object.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{
    cipher,
    error::KeyError,
    provider::{DataKey, KeyProvider, Purpose},
};

const FORMAT: &str = "railyard-envelope";
const VERSION: u32 = 1;
/// What a provider may give back for 32 bytes; a KMS says some hundred.
pub(crate) const MOST_WRAPPED: usize = 16 * 1024;

/// What such a file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    format: String,
    version: u32,
    purpose: String,
    provider: String,
    /// The data key, base64.
    wrapped: String,
    /// Nonce, ciphertext and tag, base64.
    sealed: String,
}

/// Whether a text says that it is an envelope.
pub fn is_envelope(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

fn about(purpose: &str) -> Vec<u8> {
    format!("{FORMAT} {VERSION} {purpose}").into_bytes()
}

impl Envelope {
    /// Reads the text of a file; `place` names it in errors.
    ///
    /// # Errors
    /// It is not one, or of a format that this release does not know.
    pub fn parse(text: &str, place: &str) -> Result<Self, KeyError> {
        let malformed = |detail: String| KeyError::Malformed { place: place.to_owned(), detail };
        let envelope: Self =
            serde_json::from_str(text).map_err(|error| malformed(format!("no sealed key file: {error}")))?;
        if envelope.format != FORMAT || envelope.version != VERSION {
            return Err(malformed("it is sealed in a way that this release does not know".to_owned()));
        }
        Ok(envelope)
    }

    /// Who has wrapped its data key.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Seals a text with a new data key.
    ///
    /// # Errors
    /// The provider does not wrap it.
    pub fn seal(provider: &dyn KeyProvider, purpose: Purpose, plain: &str) -> Result<Self, KeyError> {
        let key = DataKey::generate()?;
        let wrapped = provider.wrap_key(purpose, &key)?;
        let sealed = cipher::seal(key.bytes(), &about(purpose.as_str()), plain.as_bytes())?;
        Ok(Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            purpose: purpose.as_str().to_owned(),
            provider: provider.name().to_owned(),
            wrapped: STANDARD.encode(wrapped),
            sealed: STANDARD.encode(sealed),
        })
    }

    /// The text that was sealed.
    ///
    /// # Errors
    /// The provider is another one or refuses, or the file was changed.
    pub fn open(
        &self,
        provider: &dyn KeyProvider,
        purpose: Purpose,
        place: &str,
    ) -> Result<Zeroizing<String>, KeyError> {
        let malformed =
            |detail: &str| KeyError::Malformed { place: place.to_owned(), detail: detail.to_owned() };
        if self.provider != provider.name() {
            let (found, given) = (self.provider.clone(), provider.name().to_owned());
            return Err(KeyError::OtherProvider { place: place.to_owned(), found, given });
        }
        if self.purpose != purpose.as_str() {
            return Err(malformed("it holds a key for another purpose"));
        }
        let bytes = |text: &str| STANDARD.decode(text).map_err(|_| malformed("it holds what is no base64"));
        let wrapped = bytes(&self.wrapped)?;
        if wrapped.len() > MOST_WRAPPED {
            return Err(malformed("its wrapped key is larger than any provider's"));
        }
        let key = provider.unwrap_key(purpose, &wrapped)?;
        let forged = || KeyError::Forged { place: place.to_owned() };
        let plain =
            cipher::open(key.bytes(), &about(&self.purpose), &bytes(&self.sealed)?).ok_or_else(forged)?;
        let text = std::str::from_utf8(&plain).map_err(|_| forged())?;
        Ok(Zeroizing::new(text.to_owned()))
    }

    /// The text of its file.
    ///
    /// # Errors
    /// Cannot happen: it holds nothing but texts and a number.
    pub fn to_text(&self) -> Result<String, KeyError> {
        serde_json::to_string(self).map(|text| text + "\n").map_err(|_| KeyError::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileProvider;
    use proptest::prelude::*;
    use proto_rpc::files;

    fn provider(folder: &std::path::Path) -> FileProvider {
        let path = folder.join("kek");
        files::write_secret(&path, &"0a".repeat(32)).unwrap();
        FileProvider::new(&path)
    }

    #[test]
    fn what_was_changed_or_is_for_another_purpose_does_not_open() {
        let folder = tempfile::tempdir().unwrap();
        let provider = provider(folder.path());
        let sealed = Envelope::seal(&provider, Purpose::CaKey, "secret text").unwrap();
        let text = sealed.to_text().unwrap();
        assert!(is_envelope(&text) && !text.contains("secret text"));
        let read = Envelope::parse(&text, "f").unwrap();
        assert_eq!(read.open(&provider, Purpose::CaKey, "f").unwrap().as_str(), "secret text");
        assert!(matches!(read.open(&provider, Purpose::StoreKeys, "f"), Err(KeyError::Malformed { .. })));
        let mut relabelled = read.clone();
        relabelled.purpose = Purpose::StoreKeys.as_str().to_owned();
        assert!(relabelled.open(&provider, Purpose::StoreKeys, "f").is_err(), "the purpose is authenticated");
        let mut other = read.clone();
        other.provider = "exec".to_owned();
        let reported = other.open(&provider, Purpose::CaKey, "f").unwrap_err();
        assert!(matches!(reported, KeyError::OtherProvider { .. }), "{reported}");
        let mut crossed = read.clone();
        crossed.wrapped = Envelope::seal(&provider, Purpose::CaKey, "x").unwrap().wrapped;
        assert!(matches!(crossed.open(&provider, Purpose::CaKey, "f"), Err(KeyError::Forged { .. })));
        for bad in
            ["{}", "{", &text.replace("\"version\":1", "\"version\":2"), &text.replace('}', ",\"x\":1}")]
        {
            assert!(matches!(Envelope::parse(bad, "f"), Err(KeyError::Malformed { .. })), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_survives_and_no_changed_byte_does(text in ".{0,200}", at in 0_usize..1000, bit in 0_u8..8) {
            let folder = tempfile::tempdir().unwrap();
            let provider = provider(folder.path());
            let envelope = Envelope::seal(&provider, Purpose::StoreKeys, &text).unwrap();
            let opened = envelope.open(&provider, Purpose::StoreKeys, "f").unwrap();
            prop_assert_eq!(opened.as_str(), text.as_str());
            let mut sealed = STANDARD.decode(&envelope.sealed).unwrap();
            let at = at % sealed.len();
            sealed[at] ^= 1 << bit;
            let changed = Envelope { sealed: STANDARD.encode(sealed), ..envelope };
            prop_assert!(changed.open(&provider, Purpose::StoreKeys, "f").is_err());
        }
    }
}
