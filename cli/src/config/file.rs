//! The configuration file: contexts by name, read strictly, written whole and private.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use proto_rpc::{SignedToken, files};
use serde::{Deserialize, Serialize};

use super::yaml;
use crate::error::Error;

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ConfigFile {
    /// The context that is used where none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_context: Option<String>,
    /// Clusters and identities, by name.
    pub contexts: BTreeMap<String, Context>,
}

/// One cluster, and as whom to speak to it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Context {
    /// Addresses of the controller, tried in turn.
    pub controller: Vec<String>,
    /// File with the certificates of the authorities that are trusted, PEM; relative paths are relative to this file's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// File with the caller's certificate, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// File with the private key of that certificate, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// A token, or a file that holds one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The tenant to act for; `None`: the caller's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The OpenID provider that the token is of, where it is of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oidc: Option<SignedOn>,
}

/// An OpenID provider, and how new tokens are had from it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignedOn {
    /// Its issuer, an https URL.
    pub issuer: String,
    /// The id that it knows railctl by.
    pub client_id: String,
    /// File with the certificates of the authorities that it is trusted by, PEM; `None`: those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// What is asked of it, words separated by spaces.
    pub scopes: String,
    /// What a new token is asked for with; `None`: it has given nothing of that kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
}

impl ConfigFile {
    /// Reads the file; one that is not there is empty. Relative paths in it are relative to its folder.
    ///
    /// # Errors
    /// [`Error::Config`] if the file cannot be read or is not valid.
    pub fn load(path: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = path.filter(|path| path.exists()) else { return Ok(Self::default()) };
        let text = files::read_text(path).map_err(|error| Error::Config(error.to_string()))?;
        let mut file =
            Self::parse(&text).map_err(|message| Error::Config(format!("{}{message}", path.display())))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        for context in file.contexts.values_mut() {
            let provider = context.oidc.as_mut().and_then(|oidc| oidc.ca.as_mut());
            let files = [&mut context.ca, &mut context.cert, &mut context.key];
            for one in files.into_iter().flatten().chain(provider) {
                *one = folder.join(&*one);
            }
        }
        Ok(file)
    }

    /// Reads its text; the error begins with `:LINE:COLUMN: ` or `: `.
    fn parse(text: &str) -> Result<Self, String> {
        let located = |wrong: yaml::Wrong| format!(":{}:{}: {}", wrong.line, wrong.column, wrong.message);
        let value = yaml::parse(text).map_err(located)?;
        if value.is_null() {
            return Ok(Self::default());
        }
        serde_json::from_value(value).map_err(|error| format!(": {error}"))
    }

    /// Writes it so that a reader sees the old or the new content.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Config`] if the folder or the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|error| Error::file("create", folder, error))?;
        files::write_secret(path, &self.to_yaml()).map_err(|error| Error::Config(error.to_string()))
    }

    /// Reads, changes and writes the file while no other railctl does.
    ///
    /// # Errors
    /// [`Error::File`] or [`Error::Config`] if the file cannot be locked, read or written.
    pub fn update(path: &Path, change: impl FnOnce(&mut Self)) -> Result<(), Error> {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|error| Error::file("create", folder, error))?;
        let lock_path = path.with_extension("lock");
        let lock =
            std::fs::File::create(&lock_path).map_err(|error| Error::file("create", &lock_path, error))?;
        lock.lock().map_err(|error| Error::file("lock", &lock_path, error))?;
        let mut file = Self::load(Some(path))?;
        change(&mut file);
        file.save(path)
    }

    /// The text of the file. Every value is quoted as JSON quotes it, which is YAML too.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let quote = |text: &str| serde_json::Value::from(text).to_string();
        let mut out = String::from("# Where railctl finds clusters; `railctl config view` shows it.\n");
        if let Some(name) = &self.current_context {
            let _ = writeln!(out, "currentContext: {}", quote(name));
        }
        out.push_str("contexts:");
        if self.contexts.is_empty() {
            out.push_str(" {}");
        }
        out.push('\n');
        for (name, context) in &self.contexts {
            let list: Vec<String> = context.controller.iter().map(|one| quote(one)).collect();
            let _ = writeln!(out, "  {}:\n    controller: [{}]", quote(name), list.join(", "));
            let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
            let fields = [
                ("ca", path(&context.ca)),
                ("cert", path(&context.cert)),
                ("key", path(&context.key)),
                ("token", context.token.clone()),
                ("tenant", context.tenant.clone()),
            ];
            for (field, value) in fields {
                if let Some(value) = value {
                    let _ = writeln!(out, "    {field}: {}", quote(&value));
                }
            }
            let Some(oidc) = &context.oidc else { continue };
            out.push_str("    oidc:\n");
            let fields = [
                ("issuer", Some(oidc.issuer.clone())),
                ("clientId", Some(oidc.client_id.clone())),
                ("ca", path(&oidc.ca)),
                ("scopes", Some(oidc.scopes.clone())),
                ("refreshToken", oidc.refresh_token.clone()),
            ];
            for (field, value) in fields {
                if let Some(value) = value {
                    let _ = writeln!(out, "      {field}: {}", quote(&value));
                }
            }
        }
        out
    }

    /// The same without secrets, for showing.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let mut shown = self.clone();
        for context in shown.contexts.values_mut() {
            if let Some(token) = &mut context.token
                && (token.starts_with(proto_rpc::TokenKind::User.prefix())
                    || SignedToken::parse(token).is_ok())
            {
                "(hidden)".clone_into(token);
            }
            if let Some(refresh) = context.oidc.as_mut().and_then(|oidc| oidc.refresh_token.as_mut()) {
                "(hidden)".clone_into(refresh);
            }
        }
        shown
    }

    /// What to say of a context that is not there.
    #[must_use]
    pub fn unknown_context(&self, name: &str) -> String {
        let near = self
            .contexts
            .keys()
            .map(|known| (strsim::damerau_levenshtein(known, name), known))
            .min()
            .filter(|(distance, _)| *distance <= 2);
        let known: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
        match (near, known.is_empty()) {
            (Some((_, near)), _) => format!("there is no context `{name}`; did you mean `{near}`?"),
            (None, false) => format!("there is no context `{name}`; there are: {}", known.join(", ")),
            (None, true) => format!("there is no context `{name}`; the configuration file has none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/config.yaml");
        let context = Context {
            controller: vec!["unix:/a b: #".into(), "https://h:1".into()],
            ca: Some("/x/\"ca\".pem".into()),
            token: Some("rail-user-v1.abc".into()),
            tenant: Some("nlp".into()),
            oidc: Some(SignedOn {
                issuer: "https://idp.example/a".into(),
                client_id: "rail".into(),
                ca: Some("/x/idp.pem".into()),
                scopes: "openid groups".into(),
                refresh_token: Some("what-renews".into()),
            }),
            ..Context::default()
        };
        ConfigFile::update(&path, |file| {
            file.current_context = Some("dev".into());
            file.contexts.insert("dev".into(), context.clone());
        })
        .unwrap();
        let file = ConfigFile::load(Some(&path)).unwrap();
        assert_eq!(file.contexts["dev"], context);
        assert_eq!(file.current_context.as_deref(), Some("dev"));
        assert!(
            file.redacted().to_yaml().contains("(hidden)") && !file.redacted().to_yaml().contains("v1.abc")
        );
        assert!(!file.redacted().to_yaml().contains("what-renews"));
        assert_eq!(ConfigFile::parse(&ConfigFile::default().to_yaml()).unwrap(), ConfigFile::default());
    }

    #[test]
    fn relative_paths_are_beside_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        std::fs::write(&path, "contexts: {a: {ca: ca.pem}}").unwrap();
        assert_eq!(
            ConfigFile::load(Some(&path)).unwrap().contexts["a"].ca,
            Some(folder.path().join("ca.pem"))
        );
    }

    #[test]
    fn a_bad_file_is_refused_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        for (text, found) in
            [("a: [", "config.yaml:"), ("contxts: {}", "contxts"), ("contexts: {a: {certt: x}}", "certt")]
        {
            std::fs::write(&path, text).unwrap();
            let error = ConfigFile::load(Some(&path)).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains(found), "{error}");
        }
        assert_eq!(ConfigFile::load(Some(&folder.path().join("none"))).unwrap(), ConfigFile::default());
    }
}
