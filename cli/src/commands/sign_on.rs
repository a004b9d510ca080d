//! Sign-on at an OpenID provider from a terminal: the device authorization grant (RFC 8628), and new tokens for those that end.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use proto_oidc::{
    Document, Provider, ProviderError, jose,
    provider::{Begun, Client, Given},
};

use proto_rpc::SignedToken;

use crate::{
    args::{Cli, Command, Login},
    config::{ConfigFile, Context, Environment, SignedOn, resolve},
    error::Error,
};

/// What a provider is asked for where nothing else is said.
const SCOPES: &str = "openid profile";
/// The longest that somebody may take to sign on, whatever the provider allows.
const PATIENCE: Duration = Duration::from_secs(1800);
/// The shortest and the longest wait between two questions, and what is added where the provider finds that too short (RFC 8628, 3.5).
const WAITS: (u64, u64) = (1, 60);
const SLOWER: u64 = 5;
/// A token that ends so soon is renewed before it is used.
const AHEAD: Duration = Duration::from_secs(30);
/// The grant of a device (RFC 8628, 3.4).
const DEVICE: &str = "urn:ietf:params:oauth:grant-type:device_code";

fn failed(error: &ProviderError) -> Error {
    Error::SignOn(error.to_string())
}

/// A text of a provider's, as a terminal may show it.
fn shown(text: &str) -> String {
    text.chars().filter(|shown| !shown.is_control()).take(512).collect()
}

/// Signs on as the command line says, or as the context did before; gives the token, and what renews it.
///
/// # Errors
/// [`Error::Usage`] if neither says which provider; [`Error::SignOn`] if it gives no token.
pub async fn begin(args: &Login, before: &Context) -> Result<(String, SignedOn), Error> {
    let mut wanted = wanted(args, before.oidc.as_ref())?;
    let provider = Provider::new(&wanted.issuer, wanted.ca.as_deref()).map_err(|error| failed(&error))?;
    let document = provider.document().await.map_err(|error| failed(&error))?;
    let client = Client { id: wanted.client_id.clone(), secret: None };
    let begun = provider.begin(&document, &client, &wanted.scopes).await.map_err(|error| failed(&error))?;
    match &begun.complete {
        Some(complete) => eprintln!("open {}", shown(complete)),
        None => eprintln!("open {}", shown(&begun.uri)),
    }
    eprintln!("and confirm the code {}", shown(&begun.user_code));
    let given = wait(&provider, &document, &client, &begun).await?;
    wanted.refresh_token = given.refresh_token.clone();
    let token = given.signed().map_err(|error| failed(&error))?;
    let form = SignedToken::parse(&token);
    form.map_err(|error| Error::SignOn(format!("the provider's token cannot be used: {error}")))?;
    Ok((token, wanted))
}

/// Which provider is meant, and what is asked of it.
fn wanted(args: &Login, before: Option<&SignedOn>) -> Result<SignedOn, Error> {
    let missing = |option: &str| {
        Error::Usage(format!("--oidc needs {option}: the context `{}` does not say which", args.name))
    };
    let issuer = args.issuer.clone().or_else(|| before.map(|before| before.issuer.clone()));
    let issuer = issuer.ok_or_else(|| missing("--issuer"))?;
    // What was said of another provider is not for this one.
    let before = before.filter(|before| before.issuer == issuer);
    let client_id = args.client_id.clone().or_else(|| before.map(|before| before.client_id.clone()));
    let ca = args.oidc_ca.as_ref().map(std::path::absolute).transpose();
    let ca = ca.map_err(|error| Error::Usage(format!("--oidc-ca cannot be made absolute: {error}")))?;
    let scopes = args.scopes.clone().or_else(|| before.map(|before| before.scopes.clone()));
    Ok(SignedOn {
        issuer,
        client_id: client_id.ok_or_else(|| missing("--client-id"))?,
        ca: ca.or_else(|| before.and_then(|before| before.ca.clone())),
        scopes: scopes.unwrap_or_else(|| SCOPES.to_owned()),
        refresh_token: None,
    })
}

/// What becomes of the wait for somebody who signs on elsewhere.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Ask again after so many seconds.
    Ask(u64),
    /// There will be no token.
    Over,
}

/// What a refusal means for the wait, by the provider's word for it (RFC 8628, 3.5).
fn next(error: &str, interval: u64) -> Next {
    match error {
        "authorization_pending" => Next::Ask(interval),
        "slow_down" => Next::Ask((interval + SLOWER).min(WAITS.1)),
        _ => Next::Over,
    }
}

async fn wait(
    provider: &Provider,
    document: &Document,
    client: &Client,
    begun: &Begun,
) -> Result<Given, Error> {
    let fields = [("grant_type", DEVICE), ("device_code", &*begun.device_code)];
    let until = tokio::time::Instant::now() + Duration::from_secs(begun.expires).min(PATIENCE);
    let mut interval = begun.interval.clamp(WAITS.0, WAITS.1);
    loop {
        tokio::time::sleep(Duration::from_secs(interval)).await;
        let error = match provider.tokens(document, client, &fields).await {
            Ok(given) => return Ok(given),
            Err(error) => error,
        };
        interval = match &error {
            ProviderError::Refused { error: word, .. } => match next(word, interval) {
                Next::Ask(interval) => interval,
                Next::Over => return Err(failed(&error)),
            },
            // A connection that broke is no refusal.
            ProviderError::Call { .. } => interval,
            _ => return Err(failed(&error)),
        };
        if tokio::time::Instant::now() >= until {
            return Err(Error::SignOn("nobody has signed on in time; begin again".to_owned()));
        }
    }
}

/// Has a new token before the context's own ends, where its provider gave what renews it. Commands that need no controller are none of this.
///
/// # Errors
/// [`Error::SignOn`] if the provider gives no new one: then the old one would be refused too.
pub async fn renew(cli: &Cli, env: &Environment) -> Result<(), Error> {
    let Some(path) = env.config_path().filter(|path| path.exists()) else { return Ok(()) };
    if matches!(cli.command, Command::Login(_) | Command::Dev(_)) {
        return Ok(());
    }
    let stale = |file: &ConfigFile| {
        // What is wrong with the configuration says the command itself.
        let settings = resolve(&cli.global, env, file).ok()?;
        let (token, of) = (settings.token?, settings.signed_on?);
        ends_soon(&token, SystemTime::now()).then_some(of)
    };
    if stale(&ConfigFile::load(Some(&path))?).is_none() {
        return Ok(());
    }
    // One at a time: many providers take what renews a token once, and take everything back where it is shown twice.
    let _lock = lock(&path.with_extension("oidc.lock"))?;
    let Some((context, of)) = stale(&ConfigFile::load(Some(&path))?) else { return Ok(()) };
    let again = format!("`railctl login {context} --oidc` signs on again");
    let Some(refresh) = &of.refresh_token else {
        return Err(Error::SignOn(format!("the token of context `{context}` has ended; {again}")));
    };
    let given = refreshed(&of, refresh).await;
    let given = given.map_err(|error| {
        Error::SignOn(format!(
            "the token of context `{context}` has ended, and there is no new one: {error}; {again}"
        ))
    })?;
    ConfigFile::update(&path, |file| {
        let Some(context) = file.contexts.get_mut(&context) else { return };
        // What renews may be good once: the next one is kept also where no token came with it.
        context.token = given.id_token.clone().or(context.token.take());
        if let Some((oidc, renewed)) = context.oidc.as_mut().zip(given.refresh_token.clone()) {
            oidc.refresh_token = Some(renewed);
        }
    })?;
    if given.id_token.is_none() {
        return Err(Error::SignOn(format!("the provider renews nothing for railctl; {again}")));
    }
    Ok(())
}

fn ends_soon(token: &str, now: SystemTime) -> bool {
    jose::unverified_end(token).is_some_and(|end| end <= now + AHEAD)
}

fn lock(path: &Path) -> Result<std::fs::File, Error> {
    let file = std::fs::File::create(path).map_err(|error| Error::file("create", path, error))?;
    // Whoever holds it asks a provider, which takes seconds at most.
    file.lock().map_err(|error| Error::file("lock", path, error))?;
    Ok(file)
}

async fn refreshed(of: &SignedOn, refresh: &str) -> Result<Given, ProviderError> {
    let provider = Provider::new(&of.issuer, of.ca.as_deref())?;
    let document = provider.document().await?;
    let client = Client { id: of.client_id.clone(), secret: None };
    let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh), ("scope", &*of.scopes)];
    provider.tokens(&document, &client, &fields).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(issuer: Option<&str>, client: Option<&str>) -> Login {
        Login {
            name: "prod".to_owned(),
            token_stdin: false,
            oidc: true,
            issuer: issuer.map(str::to_owned),
            client_id: client.map(str::to_owned),
            oidc_ca: None,
            scopes: None,
        }
    }

    #[test]
    fn a_provider_is_named_or_is_that_of_the_context() {
        let before = SignedOn {
            issuer: "https://a".into(),
            client_id: "rail".into(),
            ca: Some("/a.pem".into()),
            scopes: "openid groups".into(),
            refresh_token: Some("old".into()),
        };
        let again = wanted(&args(None, None), Some(&before)).unwrap();
        assert_eq!(again, SignedOn { refresh_token: None, ..before.clone() });
        let other = wanted(&args(Some("https://b"), Some("r")), Some(&before)).unwrap();
        assert_eq!((other.ca, &*other.scopes), (None, SCOPES), "another provider has nothing of the first");
        assert!(wanted(&args(None, Some("r")), None).unwrap_err().to_string().contains("--issuer"));
        let nobody = wanted(&args(Some("https://b"), None), Some(&before)).unwrap_err();
        assert!(nobody.to_string().contains("--client-id") && nobody.exit_code() == 2);
    }

    #[test]
    fn a_device_asks_as_often_as_the_provider_wants_and_no_longer_than_it_makes_sense() {
        assert_eq!(next("authorization_pending", 5), Next::Ask(5));
        assert_eq!(next("slow_down", 5), Next::Ask(10));
        assert_eq!(next("slow_down", 58), Next::Ask(60));
        for over in ["access_denied", "expired_token", "invalid_grant", ""] {
            assert_eq!(next(over, 5), Next::Over, "{over}");
        }
    }

    #[test]
    fn what_a_provider_says_cannot_move_the_cursor() {
        assert_eq!(shown("AB\u{1b}[2J-CD\n"), "AB[2J-CD");
        assert_eq!(shown(&"x".repeat(2000)).len(), 512);
    }

    #[test]
    fn only_a_token_that_says_when_it_ends_is_renewed() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        // {"exp":1000}
        let token = "e30.eyJleHAiOjEwMDB9.AA";
        assert!(!ends_soon(token, at(900)) && ends_soon(token, at(970)) && ends_soon(token, at(5000)));
        for other in ["rail-user-v1.a.b", "", "a.b", "e30.e30.AA"] {
            assert!(!ends_soon(other, at(5000)), "{other}");
        }
    }
}
