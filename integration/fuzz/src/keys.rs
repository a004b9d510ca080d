//! Files of keys and of authorities: envelopes, keys of the store, certificates, pins, and options that name who protects them.

use std::path::Path;

use controller_keys::{DataKey, Envelope, Form, KeyError, KeyProvider, ProviderSpec, Purpose};
use controller_store::KeyRing;
use proto_rpc::{CaPin, certificates};

/// Answers whatever it is asked with one key.
#[derive(Debug)]
struct Yes;

impl KeyProvider for Yes {
    fn name(&self) -> &str {
        "file"
    }

    fn wrap_key(&self, _: Purpose, key: &DataKey) -> Result<Vec<u8>, KeyError> {
        Ok(key.bytes().to_vec())
    }

    fn unwrap_key(&self, _: Purpose, _: &[u8]) -> Result<DataKey, KeyError> {
        DataKey::of(&[7; 32]).ok_or(KeyError::Failed)
    }

    fn health(&self) -> Result<(), KeyError> {
        Ok(())
    }
}

/// Reads the text as each of them; what was read survives.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Envelope::parse(text, "f") {
        Ok(envelope) => {
            let again = envelope.to_text().and_then(|text| Envelope::parse(&text, "f"));
            assert!(again.is_ok_and(|again| again == envelope), "{text}");
            for purpose in [Purpose::CaKey, Purpose::StoreKeys] {
                // Nothing was ever sealed with this key.
                assert!(envelope.open(&Yes, purpose, "f").is_err());
            }
            assert!(matches!(Form::of(text, "f"), Ok(Form::Provider(_)) | Err(_)));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(found) = certificates(text) {
        let joined = found.concat();
        assert_eq!(certificates(&joined).ok(), Some(found));
    }
    if let Ok(pins) = CaPin::several(text) {
        let shown = pins.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        assert_eq!(CaPin::several(&shown), Ok(pins));
    }
    if let Ok(spec) = text.parse::<ProviderSpec>() {
        assert!(text.contains(':'), "{spec:?}");
    }
    let path = Path::new("f");
    if let Ok((id, with)) = KeyRing::with_new_key(Some(text), path) {
        assert!(KeyRing::with_new_key(Some(&with), path).is_ok_and(|(next, _)| next != id));
    }
}
