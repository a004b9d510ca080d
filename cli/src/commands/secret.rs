//! Secrets and configs: shown, made, compared and removed.

use std::{
    collections::{BTreeMap, HashMap},
    io::Read as _,
    path::Path,
};

use proto_wire::v1;
use serde_json::Value;

use super::list::{Asked, Found};
use crate::{
    args::{CreateCommand, CreateValues},
    client::{Api, JobRef, once, repeat},
    error::Error,
    output::print,
    render::{self, Kind},
};

/// Larger files are no values.
const MAX_FILE: u64 = 1 << 20;

/// What is said and asked of one kind; both have the same calls.
macro_rules! calls {
    (
        $noun:ident: $kind:ident of $client:ident, $plural:literal, $all:ident,
        $apply:ident($apply_request:ident), $get:ident($get_request:ident), $delete:ident($delete_request:ident)
    ) => {
        pub mod $noun {
            use super::*;

            /// Makes one of a document. Where it names no tenant, it is the one that was set.
            ///
            /// # Errors
            /// [`Error::Rpc`] if the controller refuses or does not answer.
            pub async fn apply(
                doing: String,
                mut document: v1::$kind,
                dry_run: bool,
                api: &Api,
            ) -> Result<v1::$kind, Error> {
                let metadata = document.metadata.get_or_insert_default();
                if metadata.tenant.is_empty() {
                    metadata.tenant.clone_from(&api.tenant);
                }
                let request = v1::$apply_request { $noun: Some(document), dry_run };
                repeat(doing, |_| {
                    let (mut client, request) = (api.$client(), request.clone());
                    async move { client.$apply(request).await }
                })
                .await
            }

            /// One, by TENANT/NAME or NAME.
            ///
            /// # Errors
            /// [`Error::Rpc`] if the controller refuses or does not answer.
            pub async fn get(name: &str, api: &Api) -> Result<v1::$kind, Error> {
                let JobRef { tenant, name } = api.job_ref(name);
                repeat(format!(concat!("get ", stringify!($noun), " `{}`"), name), |_| {
                    let request = v1::$get_request { name: name.clone(), tenant: tenant.clone() };
                    let mut client = api.$client();
                    async move { client.$get(request).await }
                })
                .await
            }

            /// Deletes the values of one name; gives what was deleted, for the message.
            ///
            /// # Errors
            /// [`Error::Rpc`] if the controller refuses or does not answer.
            pub async fn delete(name: &str, api: &Api) -> Result<String, Error> {
                let of = api.job_ref(name);
                let request = v1::$delete_request { name: of.name.clone(), tenant: of.tenant.clone() };
                let what = format!(concat!(stringify!($noun), " {}"), of);
                once(format!("delete {what}"), api.$client().$delete(request)).await?;
                Ok(what)
            }

            fn name_of(document: &v1::$kind) -> String {
                let metadata = document.metadata.clone().unwrap_or_default();
                format!(concat!(stringify!($noun), "/{}/{}"), metadata.tenant, metadata.name)
            }

            /// `get KIND [NAME...]`: the names and keys that the tenant has, without values of secrets.
            ///
            /// # Errors
            /// [`Error::Rpc`] if the controller refuses or does not answer.
            pub async fn show(asked: &Asked<'_>, tenant: &str, api: &Api) -> Result<(), Error> {
                let kind = Kind {
                    message: concat!("rail.v1.", stringify!($kind)),
                    name: &name_of,
                    table: &|all: &[v1::$kind], _| render::$client(all),
                    columns: &[],
                    slurm: None,
                };
                let one = async |name: &str| get(name, api).await.map(Found::One);
                asked.show(&kind, $plural, one, async || api.$all(tenant).await).await
            }

            /// `create KIND NAME`: makes new values from what the command line gives.
            ///
            /// # Errors
            /// [`Error::Rpc`] if the controller refuses or does not answer.
            pub async fn create(
                args: &CreateValues,
                data: HashMap<String, String>,
                api: &Api,
            ) -> Result<(), Error> {
                let JobRef { tenant, name } = api.job_ref(&args.name);
                let document = v1::$kind {
                    metadata: Some(v1::Metadata { name, tenant, ..v1::Metadata::default() }),
                    description: args.description.clone(),
                    data,
                    ..v1::$kind::default()
                };
                let doing = format!(concat!("create ", stringify!($noun), " `{}`"), args.name);
                let made = apply(doing, document, args.dry_run, api).await?;
                print(&format!(
                    "{} applied{}\n",
                    name_of(&made),
                    if args.dry_run { " (dry run)" } else { "" }
                ))
            }
        }
    };
}

calls!(
    secret: Secret of secrets, "secrets", list_secrets,
    apply_secret(ApplySecretRequest), get_secret(GetSecretRequest), delete_secret(DeleteSecretRequest)
);
calls!(
    config: Config of configs, "configs", list_configs,
    apply_config(ApplyConfigRequest), get_config(GetConfigRequest), delete_config(DeleteConfigRequest)
);

/// `create KIND NAME`. What it is made of is read before anybody is asked.
///
/// # Errors
/// [`Error::File`] or [`Error::Usage`] if a value cannot be read; [`Error::Rpc`] if the controller refuses or does not answer.
pub async fn create(command: &CreateCommand, api: impl Fn() -> Result<Api, Error>) -> Result<(), Error> {
    let (CreateCommand::Secret(args) | CreateCommand::Config(args)) = command;
    let data = data(args)?;
    match command {
        CreateCommand::Secret(args) => secret::create(args, data, &api()?).await,
        CreateCommand::Config(args) => config::create(args, data, &api()?).await,
    }
}

fn text_of(path: &str) -> Result<String, Error> {
    let mut text = Vec::new();
    let read = match path {
        "-" => std::io::stdin().lock().take(MAX_FILE).read_to_end(&mut text),
        path => std::fs::File::open(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut text)),
    };
    read.map_err(|error| Error::Usage(format!("cannot read {path}: {error}")))?;
    String::from_utf8(text).map_err(|_| {
        Error::Usage(format!("{path} is no text (UTF-8); values are: write bytes in base64, for example"))
    })
}

/// All values that were named, each once.
fn data(args: &CreateValues) -> Result<HashMap<String, String>, Error> {
    let mut pairs = args.from_literal.clone();
    for named in &args.from_file {
        let (key, path) = match named.split_once('=') {
            Some((key, path)) => (key.to_owned(), path),
            None => {
                let name = Path::new(named).file_name().map(|name| name.to_string_lossy().into_owned());
                (name.filter(|name| name != "-").unwrap_or_default(), named.as_str())
            }
        };
        if key.is_empty() {
            return Err(Error::Usage(format!("`{named}` names no key; write KEY={named}")));
        }
        pairs.push((key, text_of(path)?));
    }
    for path in &args.from_env_file {
        let path = path.display().to_string();
        for (at, line) in text_of(&path)?.lines().enumerate() {
            let line = line.trim_start();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                // What the line says may be a secret.
                return Err(Error::Usage(format!("{path}:{}: is no KEY=VALUE", at + 1)));
            };
            pairs.push((key.to_owned(), value.to_owned()));
        }
    }
    let mut data = HashMap::new();
    for (key, value) in pairs {
        if data.insert(key.clone(), value).is_some() {
            return Err(Error::Usage(format!("the key `{key}` is given twice")));
        }
    }
    Ok(data)
}

/// A secret before and after an `apply`: it shows which values differ, and none of them.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer, or the error that `known` returns.
pub async fn compared(
    document: v1::Secret,
    api: &Api,
    known: impl Fn(Result<v1::Secret, Error>) -> Result<Option<v1::Secret>, Error>,
) -> Result<(String, Option<Value>, Value), Error> {
    let metadata = document.metadata.clone().unwrap_or_default();
    let of = match metadata.tenant.as_str() {
        "" => api.job_ref(&metadata.name),
        tenant => JobRef { tenant: tenant.to_owned(), name: metadata.name },
    };
    let after = secret::apply(format!("compare secret `{of}`"), document, true, api).await?;
    differences(after, api, known).await
}

/// A secret as it is and as it would be, as the controller answers.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer, or the error that `known` returns.
pub async fn differences(
    after: v1::Secret,
    api: &Api,
    known: impl Fn(Result<v1::Secret, Error>) -> Result<Option<v1::Secret>, Error>,
) -> Result<(String, Option<Value>, Value), Error> {
    let metadata = after.metadata.clone().unwrap_or_default();
    let of = JobRef { tenant: metadata.tenant, name: metadata.name };
    let before = known(secret::get(&of.to_string(), api).await)?;
    let old = before.as_ref().map(keys).unwrap_or_default();
    let shown = before.as_ref().map(|before| with_words(before, &old)).transpose()?;
    Ok((format!("secret/{of}"), shown, with_words(&after, &old)?))
}

/// The keys of a secret, and the revisions of their values.
fn keys(secret: &v1::Secret) -> BTreeMap<String, u64> {
    let status = secret.status.clone().unwrap_or_default();
    status.keys.into_iter().map(|key| (key.name, key.revision)).collect()
}

/// A secret that says in the place of each value whether it is the one that there was.
fn with_words(secret: &v1::Secret, old: &BTreeMap<String, u64>) -> Result<Value, Error> {
    let mut value = render::to_value(secret, "rail.v1.Secret")?;
    let words = |(key, revision): (String, u64)| {
        let word = match old.get(&key) {
            Some(known) if *known == revision => "(same)",
            Some(_) => "(changed)",
            None => "(new)",
        };
        (key, Value::from(word))
    };
    value["data"] = Value::Object(keys(secret).into_iter().map(words).collect());
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(literals: &[(&str, &str)], files: &[&str], env_files: &[&Path]) -> CreateValues {
        CreateValues {
            name: "s3".into(),
            from_literal: literals.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            from_file: files.iter().map(|file| (*file).to_owned()).collect(),
            from_env_file: env_files.iter().map(|file| (*file).to_owned()).collect(),
            description: String::new(),
            dry_run: false,
        }
    }

    #[test]
    fn values_come_from_literals_and_files() {
        let room = tempfile::tempdir().unwrap();
        let (file, env) = (room.path().join("tls.crt"), room.path().join("env"));
        std::fs::write(&file, "cert\n").unwrap();
        std::fs::write(&env, "# words\n\nB=2=3\n  C= x\n").unwrap();
        let named = format!("D={}", file.display());
        let path = file.display().to_string();
        let read = data(&args(&[("A", "1")], &[&path, &named], &[&env])).unwrap();
        let read: BTreeMap<&str, &str> =
            read.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let expected = [("A", "1"), ("B", "2=3"), ("C", " x"), ("D", "cert\n"), ("tls.crt", "cert\n")];
        assert_eq!(read, expected.into());
        std::fs::write(&env, "A=1\nhunter2\n").unwrap();
        for (wrong, reported) in [
            (args(&[("A", "1"), ("A", "2")], &[], &[]), "twice"),
            (args(&[], &["-"], &[]), "write KEY=-"),
            (args(&[], &["A=/nowhere/x"], &[]), "cannot read"),
            (args(&[], &[], &[&env]), ":2: is no KEY=VALUE"),
        ] {
            let error = data(&wrong).unwrap_err();
            let text = error.lines().join("\n");
            assert!(text.contains(reported) && !text.contains("hunter2") && error.exit_code() == 2, "{text}");
        }
    }

    #[test]
    fn a_difference_tells_no_value() {
        let secret = |keys: &[(&str, u64)]| v1::Secret {
            status: Some(v1::DataStatus {
                keys: keys
                    .iter()
                    .map(|(name, revision)| v1::DataKey {
                        name: (*name).into(),
                        size: 1,
                        revision: *revision,
                    })
                    .collect(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let old = keys(&secret(&[("A", 1), ("B", 2), ("C", 2)]));
        let value = with_words(&secret(&[("A", 1), ("B", 3), ("D", 3)]), &old).unwrap();
        assert_eq!(value["data"], serde_json::json!({"A": "(same)", "B": "(changed)", "D": "(new)"}));
    }
}
