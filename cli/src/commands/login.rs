//! `login`: a context that was tried before it is kept.

use std::io::Read as _;

use proto_wire::v1;

use super::{configuration, sign_on};
use crate::{
    args::{Global, Login},
    client::{Api, repeat},
    config::{ConfigFile, Context, Environment, resolve},
    error::Error,
    render,
};

/// A token is shorter than this, whoever has made it.
const TOKEN_MAX: u64 = 16 * 1024;

/// `login [CONTEXT]`: makes a context that is kept only if the controller accepts it.
///
/// # Errors
/// [`Error::Config`] if the configuration cannot be read or written; [`Error::Usage`] if standard input holds no token; [`Error::Rpc`] if
/// the controller refuses or does not answer: then nothing is kept; [`Error::SignOn`] if the provider gives no token.
pub async fn run(args: &Login, global: &Global, env: &Environment) -> Result<(), Error> {
    let path = env.config_path();
    let path = path.ok_or_else(|| Error::Config("neither HOME nor RAIL_CONFIG is set".to_owned()))?;
    let mut global = global.clone();
    if args.token_stdin {
        let mut text = String::new();
        let read = std::io::stdin().lock().take(TOKEN_MAX).read_to_string(&mut text);
        read.map_err(|error| Error::Usage(format!("standard input holds no token: {error}")))?;
        global.token = Some(text.trim().to_owned());
    }
    // What is not given is as in the context, where there is one of this name.
    let file = ConfigFile::load(Some(&path))?;
    let known = file.contexts.contains_key(&args.name);
    let before = file.contexts.get(&args.name).cloned().unwrap_or_default();
    global.context = known.then(|| args.name.clone());
    let file = if known { file } else { ConfigFile::default() };
    let signed_on = match args.oidc {
        true => {
            let (token, provider) = sign_on::begin(args, &before).await?;
            global.token = Some(token);
            Some(provider)
        }
        false => None,
    };
    let mut settings = resolve(&global, env, &file)?;
    // A context that is not tried by another credential keeps what renews its token.
    let signed_on = signed_on.or_else(|| settings.signed_on.take().map(|(_, provider)| provider));
    let api = Api::new(&settings)?;
    let me = repeat("ask who we are", |_| {
        let mut client = api.tenants();
        async move { client.who_am_i(v1::WhoAmIRequest {}).await }
    })
    .await?;
    // What was tried is kept, wherever it came from: flags, the environment, or the context before.
    let tried = Global {
        controller: settings.controller,
        ca: settings.ca,
        cert: settings.cert,
        key: settings.key,
        token: settings.token,
        tenant: Some(settings.tenant).filter(|tenant| !tenant.is_empty()),
        ..Global::default()
    };
    configuration::set(&path, &args.name, true, &tried)?;
    if let Some(provider) = signed_on {
        ConfigFile::update(&path, |file| {
            let context: &mut Context = file.contexts.entry(args.name.clone()).or_default();
            context.oidc = Some(provider);
        })?;
    }
    let of = if me.tenant.is_empty() { String::new() } else { format!(" of tenant {}", me.tenant) };
    eprintln!("you are {} ({}{of}); context `{}` is current", me.identity, render::role(me.role), args.name);
    Ok(())
}
