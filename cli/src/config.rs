//! Where the cluster is and as whom to speak: flags, then environment, then the configuration file's context.

mod file;
mod yaml;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

pub use file::{ConfigFile, Context, SignedOn};
use proto_rpc::{CredentialFiles, Credentials, Endpoint, SignedToken, Token, TokenKind, files};

use crate::{args::Global, error::Error};

/// The environment that railctl looks at; a value, so that tests need not change their own.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// This process's environment, names and values that are no text left out.
    #[must_use]
    pub fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(text).collect())
    }

    /// Some variables, for tests.
    #[cfg(test)]
    pub fn of(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    /// A variable that is set and not empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// An XDG base folder: the variable if it is an absolute path, else this below the home folder.
    #[must_use]
    pub fn base_dir(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let named = self.get(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        named.or_else(|| self.get("HOME").map(|home| PathBuf::from(home).join(below_home)))
    }

    /// Path of the configuration file; `None` if neither HOME nor RAIL_CONFIG is set.
    #[must_use]
    pub fn config_path(&self) -> Option<PathBuf> {
        let named = self.get("RAIL_CONFIG").map(PathBuf::from);
        named.or_else(|| Some(self.base_dir("XDG_CONFIG_HOME", ".config")?.join("railyard/config.yaml")))
    }
}

/// What a command needs to reach the controller.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Addresses of the controller, tried in turn.
    pub controller: Vec<String>,
    /// File with the certificates of the authorities that are trusted, PEM.
    pub ca: Option<PathBuf>,
    /// File with the caller's certificate, PEM.
    pub cert: Option<PathBuf>,
    /// File with the private key of that certificate, PEM.
    pub key: Option<PathBuf>,
    /// A token, or a file that holds one.
    pub token: Option<String>,
    /// The tenant to act for or to look at; empty for none.
    pub tenant: String,
    /// The time that one request may take; `None`: the default.
    pub request_timeout: Option<Duration>,
    /// The context that the token is of, and the provider that gave it; `None` for other credentials.
    pub signed_on: Option<(String, SignedOn)>,
}

/// The precedence: flag, environment, context. An identity (certificate with key, or token) is taken whole from
/// the first place that names any part of it, so that a token in the environment is not sent beside another
/// person's certificate.
///
/// # Errors
/// [`Error::Config`] if the context that is named is not in the file, or an identity is incomplete.
pub fn resolve(flags: &Global, env: &Environment, file: &ConfigFile) -> Result<Settings, Error> {
    let wanted = flags.context.as_deref().or_else(|| env.get("RAIL_CONTEXT"));
    let named = wanted.or(file.current_context.as_deref().filter(|name| !name.is_empty()));
    let context = match named {
        None => Context::default(),
        Some(name) => match (file.contexts.get(name), wanted) {
            (Some(context), _) => context.clone(),
            (None, _) if !flags.controller.is_empty() || env.get("RAIL_CONTROLLER").is_some() => {
                Context::default()
            }
            (None, _) => return Err(Error::Config(file.unknown_context(name))),
        },
    };
    let path = |flag: &Option<PathBuf>, variable: &str| {
        flag.clone().or_else(|| env.get(variable).map(PathBuf::from))
    };
    let from_env = |variable: &str| env.get(variable).map(str::to_owned);
    let controller = match (&flags.controller[..], env.get("RAIL_CONTROLLER")) {
        ([], Some(list)) => list.split(',').map(|one| one.trim().to_owned()).collect(),
        ([], None) => context.controller.clone(),
        (list, _) => list.to_vec(),
    };
    let mut settings = Settings {
        controller,
        ca: path(&flags.ca, "RAIL_CA").or_else(|| context.ca.clone()),
        tenant: flags
            .tenant
            .clone()
            .or_else(|| from_env("RAIL_TENANT"))
            .or(context.tenant.clone())
            .unwrap_or_default(),
        request_timeout: flags.request_timeout,
        ..Settings::default()
    };
    let sources = [
        (flags.cert.clone(), flags.key.clone(), flags.token.clone()),
        (path(&None, "RAIL_CERT"), path(&None, "RAIL_KEY"), from_env("RAIL_TOKEN")),
        (context.cert.clone(), context.key.clone(), context.token.clone()),
    ];
    let any = |(cert, key, token): &(Option<_>, Option<_>, Option<_>)| {
        cert.is_some() || key.is_some() || token.is_some()
    };
    if let Some((at, (cert, key, token))) = sources.into_iter().enumerate().find(|(_, source)| any(source)) {
        (settings.cert, settings.key, settings.token) = (cert, key, token);
        // Only what the context holds can be renewed there.
        settings.signed_on = named.map(str::to_owned).zip(context.oidc).filter(|_| at == 2);
    }
    Ok(settings)
}

/// A path of a token's file that is printed has at most as many bytes.
const MAX_PATH: usize = 255;

impl Settings {
    /// The controller's addresses, checked; at least one.
    ///
    /// # Errors
    /// [`Error::Config`] if there is no address, or one is not `https://host:port` or `unix:/path`.
    pub fn endpoints(&self) -> Result<Vec<Endpoint>, Error> {
        if self.controller.is_empty() {
            let text = "no controller is known: give --controller or RAIL_CONTROLLER, or start a local cluster with \
                        `railctl dev up`, which makes a context in the configuration file";
            return Err(Error::Config(text.to_owned()));
        }
        let parse =
            |text: &String| text.parse().map_err(|error| Error::Config(format!("controller: {error}")));
        self.controller.iter().map(parse).collect()
    }

    /// Reads the files that are named.
    ///
    /// # Errors
    /// [`Error::Config`] if no CA is named, or a file cannot be read or used.
    pub fn credentials(&self) -> Result<Credentials, Error> {
        let wrong = |error: &dyn std::fmt::Display| Error::Config(format!("credentials: {error}"));
        if self.ca.is_none() {
            let text =
                "no CA certificate is known, so the controller could not be verified: give --ca or RAIL_CA";
            return Err(Error::Config(text.to_owned()));
        }
        let files = CredentialFiles {
            ca: self.ca.clone(),
            pin: None,
            certificate: self.cert.clone(),
            key: self.key.clone(),
            token: None,
        };
        let credentials = Credentials::load(&files).map_err(|error| wrong(&error))?;
        let Some(token) = &self.token else { return Ok(credentials) };
        let ours = token.starts_with(TokenKind::User.prefix());
        // What is neither a token nor a file is not printed where it may be most of a token.
        let secret = token.len() > MAX_PATH || token.split('.').count() > 2;
        if !ours && secret && !Path::new(token).is_file() {
            SignedToken::parse(token).map_err(|error| wrong(&error))?;
        }
        let text = match ours || (!Path::new(token).is_file() && SignedToken::parse(token).is_ok()) {
            true => token.clone(),
            false => files::read_text(Path::new(token)).map_err(|error| wrong(&error))?,
        };
        match (Token::parse(TokenKind::User, &text), SignedToken::parse(&text)) {
            (Ok(token), _) => Ok(credentials.with_token(token)),
            (Err(_), Ok(signed)) if !ours => Ok(credentials.with_signed(signed)),
            (Err(error), _) => {
                let of = if ours { String::new() } else { format!("{token}: ") };
                Err(wrong(&format!("{of}{error}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> ConfigFile {
        let context = |host: &str| Context {
            controller: vec![format!("https://{host}")],
            ca: Some("/c/ca.pem".into()),
            cert: Some("/c/cert.pem".into()),
            key: Some("/c/key.pem".into()),
            token: None,
            tenant: Some("nlp".into()),
            oidc: None,
        };
        ConfigFile {
            current_context: Some("one".into()),
            contexts: [("one".to_owned(), context("one")), ("two".to_owned(), context("two"))].into(),
        }
    }

    #[test]
    fn flags_win_over_environment_over_context() {
        let env = Environment::of(&[
            ("RAIL_CONTROLLER", "https://env, unix:/s"),
            ("RAIL_TENANT", "env"),
            ("RAIL_CA", ""),
        ]);
        let none = Environment::default();
        let flags = Global { tenant: Some("flag".into()), ..Global::default() };
        let plain = resolve(&Global::default(), &none, &file()).unwrap();
        assert_eq!((plain.controller, plain.tenant.as_str()), (vec!["https://one".to_owned()], "nlp"));
        let mixed = resolve(&flags, &env, &file()).unwrap();
        assert_eq!(mixed.controller, ["https://env", "unix:/s"]);
        assert_eq!(
            (mixed.tenant.as_str(), mixed.ca),
            ("flag", Some("/c/ca.pem".into())),
            "an empty variable is none"
        );
        let flags = Global { controller: vec!["https://flag".into()], ..Global::default() };
        assert_eq!(resolve(&flags, &env, &file()).unwrap().controller, ["https://flag"]);
    }

    #[test]
    fn a_context_is_chosen_by_flag_then_environment_then_file() {
        let env = Environment::of(&[("RAIL_CONTEXT", "two")]);
        assert_eq!(resolve(&Global::default(), &env, &file()).unwrap().controller, ["https://two"]);
        let flags = Global { context: Some("one".into()), ..Global::default() };
        assert_eq!(resolve(&flags, &env, &file()).unwrap().controller, ["https://one"]);
        let flags = Global { context: Some("onee".into()), ..Global::default() };
        let error = resolve(&flags, &env, &file()).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("did you mean `one`"), "{error}");
    }

    #[test]
    fn an_identity_is_never_mixed() {
        let env = Environment::of(&[("RAIL_TOKEN", "/t")]);
        let settings = resolve(&Global::default(), &env, &file()).unwrap();
        assert_eq!((settings.cert, settings.key, settings.token.as_deref()), (None, None, Some("/t")));
    }

    #[test]
    fn what_is_missing_is_told() {
        let empty = resolve(&Global::default(), &Environment::default(), &ConfigFile::default()).unwrap();
        assert!(empty.endpoints().unwrap_err().to_string().contains("railctl dev up"));
        assert!(empty.credentials().unwrap_err().to_string().contains("--ca"));
        let bad = Settings { controller: vec!["http://x".into()], ..Settings::default() };
        assert!(bad.endpoints().unwrap_err().to_string().contains("https://"));
    }

    #[test]
    fn base_folders() {
        let env =
            Environment::of(&[("HOME", "/h"), ("XDG_STATE_HOME", "relative"), ("XDG_CONFIG_HOME", "/x")]);
        assert_eq!(env.base_dir("XDG_STATE_HOME", ".local/state"), Some("/h/.local/state".into()));
        assert_eq!(env.config_path(), Some("/x/railyard/config.yaml".into()));
        assert_eq!(Environment::of(&[("RAIL_CONFIG", "/y")]).config_path(), Some("/y".into()));
    }
}
