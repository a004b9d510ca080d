//! Sign-on by an OpenID provider: off unless an issuer is named.

use std::{path::PathBuf, time::Duration};

use controller_api::{PagesOptions, SignOnOptions};
use proto_oidc::{
    Grant, Policy, Provider, ProviderError, grants::MAX_GRANTS, provider::Client, verify::MAX_SKEW,
};
use proto_rpc::{
    files::{self, FileError},
    outbound::Target,
};
use thiserror::Error;

use crate::arg_values::{duration, rest};

/// Audiences at most.
const MAX_AUDIENCES: usize = 16;
/// The longest that keys of a provider count that gives no others.
const MAX_KEYS_FOR: Duration = Duration::from_secs(7 * 86_400);
/// The longest that somebody stays signed on in the pages.
const MAX_SESSION: Duration = Duration::from_secs(86_400);

/// Options of `run`.
#[derive(Debug, Clone, clap::Args)]
pub struct OidcArgs {
    /// The issuer of an OpenID provider whose tokens are taken, an https URL as its tokens name it. Without one nobody signs on that way.
    #[arg(long, env = "RAIL_CONTROLLER_OIDC_ISSUER", requires = "oidc_client_id")]
    pub oidc_issuer: Option<String>,
    /// The id that the provider knows this cluster by.
    #[arg(long, env = "RAIL_CONTROLLER_OIDC_CLIENT_ID", requires = "oidc_issuer")]
    pub oidc_client_id: Option<String>,
    /// Whom a token may be for; default: the client id. May be repeated, 16 times at most.
    #[arg(long, env = "RAIL_CONTROLLER_OIDC_AUDIENCE", value_delimiter = ',', requires = "oidc_issuer")]
    pub oidc_audience: Vec<String>,
    /// Certificates of authorities (PEM) that the provider is trusted by; default: those of the system.
    #[arg(long, env = "RAIL_CONTROLLER_OIDC_CA", requires = "oidc_issuer")]
    pub oidc_ca: Option<PathBuf>,
    /// The claim that names users here, or a JSON pointer to it (/a/b). Whoever can change it for themselves can be anybody: take `sub`, or
    /// what only the provider's administrators write.
    #[arg(long, env = "RAIL_CONTROLLER_OIDC_NAME_CLAIM", default_value = "sub")]
    pub oidc_name_claim: String,
    /// What names have to end with, and is cut off, for example @example.com; others are refused.
    #[arg(long, env = "RAIL_CONTROLLER_OIDC_NAME_SUFFIX", default_value = "")]
    pub oidc_name_suffix: String,
    /// The claim whose values --oidc-grant names, or a JSON pointer to it: a text or a list of texts.
    #[arg(long, env = "RAIL_CONTROLLER_OIDC_GROUPS_CLAIM", default_value = "groups")]
    pub oidc_groups_claim: String,
    /// What a value of that claim grants: VALUE=admin, or VALUE=ROLE@TENANT with the role tenant-admin, user or viewer. The first that
    /// holds decides the tenant; others of that tenant add their roles. May be repeated, 256 times at most; `;` separates several.
    #[arg(long, env = "RAIL_CONTROLLER_OIDC_GRANT", value_delimiter = ';', requires = "oidc_issuer")]
    pub oidc_grant: Vec<Grant>,
    /// How far the provider's clock and this one may be apart; 5 minutes (300s) at most.
    #[arg(long, env = "RAIL_CONTROLLER_OIDC_SKEW", default_value = "60s", value_parser = duration)]
    pub oidc_skew: Duration,
    /// How long the provider's keys count while it gives no others: days (1d) or hours (12h), 7d at most.
    #[arg(long, env = "RAIL_CONTROLLER_OIDC_KEYS_FOR", default_value = "24h", value_parser = rest)]
    pub oidc_keys_for: Duration,
    /// Where browsers reach this cluster, https://HOST[:PORT]: its web pages sign on then, and the provider has to know
    /// /ui/login/callback below it.
    #[arg(long, env = "RAIL_CONTROLLER_OIDC_UI_URL", requires = "oidc_issuer")]
    pub oidc_ui_url: Option<String>,
    /// A file with the secret that the provider has given the web pages; without one they are a public client.
    #[arg(long, env = "RAIL_CONTROLLER_OIDC_CLIENT_SECRET_FILE", requires = "oidc_ui_url")]
    pub oidc_client_secret_file: Option<PathBuf>,
    /// What the web pages ask of the provider, words separated by spaces.
    #[arg(long, env = "RAIL_CONTROLLER_OIDC_SCOPES", default_value = "openid profile")]
    pub oidc_scopes: String,
    /// How long somebody who signed on in the web pages stays so: hours (12h) or 1d at most.
    #[arg(long, env = "RAIL_CONTROLLER_OIDC_SESSION", default_value = "8h", value_parser = rest)]
    pub oidc_session: Duration,
}

/// Why the options cannot be used.
#[derive(Debug, Error)]
pub enum OidcArgsError {
    /// Nobody could sign on.
    #[error(
        "--oidc-issuer without --oidc-grant: nobody would be anybody here; name what a value of the claim grants"
    )]
    NoGrant,
    /// More than there may be.
    #[error("--{option} may be given {most} times at most")]
    TooMany {
        /// The option.
        option: &'static str,
        /// How often it may be given.
        most: usize,
    },
    /// A time that is out of its bounds.
    #[error("--{option} may be {most} s at most")]
    TooLong {
        /// The option.
        option: &'static str,
        /// Seconds at most.
        most: u64,
    },
    /// A time that lets nobody in.
    #[error("--{option} has to be longer than no time")]
    None {
        /// The option.
        option: &'static str,
    },
    /// The provider would not say who signed on.
    #[error("--oidc-scopes has to have openid among its words")]
    NoOpenid,
    /// The URL of the pages cannot be sent to a provider.
    #[error("--oidc-ui-url has to be https://HOST or https://HOST:PORT")]
    Url,
    /// The file of the secret is empty.
    #[error("--oidc-client-secret-file: the file is empty")]
    NoSecret,
    /// It cannot be read.
    #[error("--oidc-client-secret-file: {0}")]
    File(#[from] FileError),
    /// The provider cannot be called.
    #[error("--oidc-issuer: {0}")]
    Provider(#[from] ProviderError),
}

impl OidcArgs {
    /// What the options say; none where no issuer is named.
    ///
    /// # Errors
    /// [`OidcArgsError`].
    pub fn sign_on(&self) -> Result<Option<SignOnOptions>, OidcArgsError> {
        let (Some(issuer), Some(client)) = (&self.oidc_issuer, &self.oidc_client_id) else { return Ok(None) };
        if self.oidc_grant.is_empty() {
            return Err(OidcArgsError::NoGrant);
        }
        for (option, count, most) in [
            ("oidc-grant", self.oidc_grant.len(), MAX_GRANTS),
            ("oidc-audience", self.oidc_audience.len(), MAX_AUDIENCES),
        ] {
            if count > most {
                return Err(OidcArgsError::TooMany { option, most });
            }
        }
        for (option, time, most) in [
            ("oidc-skew", self.oidc_skew, MAX_SKEW),
            ("oidc-keys-for", self.oidc_keys_for, MAX_KEYS_FOR),
            ("oidc-session", self.oidc_session, MAX_SESSION),
        ] {
            if time > most {
                return Err(OidcArgsError::TooLong { option, most: most.as_secs() });
            }
        }
        for (option, time) in [("oidc-keys-for", self.oidc_keys_for), ("oidc-session", self.oidc_session)] {
            if time.is_zero() {
                return Err(OidcArgsError::None { option });
            }
        }
        if !self.oidc_scopes.split(' ').any(|scope| scope == "openid") {
            return Err(OidcArgsError::NoOpenid);
        }
        let mut audiences = self.oidc_audience.clone();
        if audiences.is_empty() {
            audiences.push(client.clone());
        }
        let policy = Policy {
            issuer: issuer.clone(),
            client: client.clone(),
            audiences,
            name_claim: self.oidc_name_claim.clone(),
            name_suffix: self.oidc_name_suffix.clone(),
            groups_claim: self.oidc_groups_claim.clone(),
            grants: self.oidc_grant.clone(),
            skew: self.oidc_skew,
        };
        let provider = Provider::new(issuer, self.oidc_ca.as_deref())?;
        let pages = self.oidc_ui_url.as_ref().map(|url| self.pages(url, client)).transpose()?;
        Ok(Some(SignOnOptions { policy, provider, keys_for: self.oidc_keys_for, pages }))
    }

    fn pages(&self, url: &str, client: &str) -> Result<PagesOptions, OidcArgsError> {
        let bare = Target::https(url).is_some_and(|target| target.path == "/");
        if !bare {
            return Err(OidcArgsError::Url);
        }
        let secret = match &self.oidc_client_secret_file {
            None => None,
            Some(path) => {
                let secret = files::read_text(path)?.trim().to_owned();
                if secret.is_empty() {
                    return Err(OidcArgsError::NoSecret);
                }
                Some(secret)
            }
        };
        Ok(PagesOptions {
            redirect: format!("{}/ui/login/callback", url.trim_end_matches('/')),
            scopes: self.oidc_scopes.clone(),
            client: Client { id: client.to_owned(), secret },
            session: self.oidc_session,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;

    fn parsed(more: &[&str]) -> Result<OidcArgs, String> {
        let begin = ["rail-controller", "run", "--data-dir", "/d"];
        let args = Args::try_parse_from([&begin, more].concat()).map_err(|error| error.to_string())?;
        let Command::Run(run) = args.command else { panic!("not run") };
        Ok(run.oidc)
    }

    fn refusal(more: &[&str]) -> String {
        let named = ["--oidc-issuer", "https://idp.example/a", "--oidc-client-id", "rail"];
        parsed(&[&named, more].concat()).unwrap().sign_on().map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn nothing_is_taken_unless_an_issuer_a_client_and_a_grant_are_named() {
        assert!(parsed(&[]).unwrap().sign_on().unwrap().is_none());
        assert!(parsed(&["--oidc-issuer", "https://idp.example"]).is_err());
        assert!(parsed(&["--oidc-grant", "a=admin"]).is_err());
        assert!(refusal(&[]).contains("--oidc-grant"));
        let issuer =
            ["--oidc-issuer", "http://idp.example", "--oidc-client-id", "rail", "--oidc-grant", "a=admin"];
        assert!(parsed(&issuer).unwrap().sign_on().unwrap_err().to_string().contains("https URL"));
        let ca = refusal(&["--oidc-grant", "a=admin", "--oidc-ca", "/nowhere"]);
        assert!(ca.contains("/nowhere"), "{ca}");
    }

    #[test]
    fn what_is_taken_has_bounds() {
        for (more, why) in [
            (&["--oidc-skew", "301s"][..], "oidc-skew"),
            (&["--oidc-keys-for", "8d"], "oidc-keys-for"),
            (&["--oidc-session", "25h"], "oidc-session"),
            (&["--oidc-session", "0"], "oidc-session"),
            (&["--oidc-keys-for", "0"], "oidc-keys-for"),
            (&["--oidc-scopes", "profile"], "oidc-scopes"),
            (&["--oidc-ui-url", "http://rail.example"], "oidc-ui-url"),
            (&["--oidc-ui-url", "https://rail.example/ui"], "oidc-ui-url"),
            (&["--oidc-ui-url", "https://rail.example", "--oidc-client-secret-file", "/nowhere"], "/nowhere"),
            (&["--oidc-audience", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"], "oidc-audience"),
            (&["--oidc-grant", &["x=admin"; 257].join(";")], "oidc-grant"),
        ] {
            let found = refusal(&[&["--oidc-grant", "a=admin"][..], more].concat());
            assert!(found.contains(why), "{found}");
        }
        for bad in ["a=node@t", "a=root", "admin"] {
            let given =
                ["--oidc-issuer", "https://idp.example", "--oidc-client-id", "rail", "--oidc-grant", bad];
            assert!(parsed(&given).is_err(), "{bad}");
        }
    }
}
