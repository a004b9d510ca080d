//! The calls: Capabilities, Get, Set; Subscribe is in `subscribe.rs`.

use std::time::Duration;

use proto_rpc::{Client, ClientOptions, Credentials, Endpoint};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Status};

use crate::convert;
use crate::error::{Call, Error};
use crate::path::Path;
use crate::value::Update;
use crate::wire;
use crate::wire::g_nmi_client::GNmiClient;

/// Who calls, where a switch asks for more than a certificate. gNMI has both in headers (gNMI specification, 3.1).
#[derive(Clone)]
pub struct Login {
    user: MetadataValue<Ascii>,
    password: MetadataValue<Ascii>,
}

impl Login {
    /// A login with this name and password.
    ///
    /// # Errors
    /// [`Error::Login`] if one of them cannot stand in a header.
    pub fn new(user: &str, password: &str) -> Result<Self, Error> {
        let mut password = MetadataValue::try_from(password).map_err(|_| Error::Login("password"))?;
        password.set_sensitive(true);
        Ok(Login { user: MetadataValue::try_from(user).map_err(|_| Error::Login("user name"))?, password })
    }
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

/// A switch to call.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its gNMI server: SONiC listens on port 8080 or 50052, others on 9339 (registered with IANA) or 6030.
    pub endpoint: Endpoint,
    /// Whom we trust, and our own certificate. `None` is without TLS, which is for servers on this machine alone.
    pub credentials: Option<Credentials>,
    /// Name and password, where the switch wants them.
    pub login: Option<Login>,
}

/// What a switch may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For the connection with its TLS handshake.
    pub connect: Duration,
    /// For a call that reads.
    pub read: Duration,
    /// For a change: SONiC validates and applies the whole of it before it answers, in some ten seconds.
    pub write: Duration,
    /// The largest message that is read, in bytes: the settings of a switch with 512 ports are about 2 MB.
    pub message_bytes: usize,
}

impl Default for Limits {
    /// 5 s to connect, 15 s to read, 120 s to change, 32 MiB.
    fn default() -> Self {
        Limits {
            connect: Duration::from_secs(5),
            read: Duration::from_secs(15),
            write: Duration::from_secs(120),
            message_bytes: 32 * 1024 * 1024,
        }
    }
}

/// What a switch says that it can.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Version of gNMI.
    pub version: String,
    /// Name and version of its models, in its order.
    pub models: Vec<(String, String)>,
    /// It takes and gives JSON by RFC 7951.
    pub json_ietf: bool,
}

/// Which part of what a switch has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataType {
    /// All of it.
    All,
    /// What can be set.
    Config,
    /// What can only be read.
    State,
}

/// A change, by gNMI all of it or nothing (SONiC: see [`crate::sonic::apply`]): first the deletions, then the replacements, then the updates.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Change {
    /// What goes, with everything below it.
    pub delete: Vec<Path>,
    /// What stands there afterwards instead of whatever stood there.
    pub replace: Vec<(Path, serde_json::Value)>,
    /// What is added, or laid over what stands there.
    pub update: Vec<(Path, serde_json::Value)>,
}

impl Change {
    /// Nothing would change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.delete.is_empty() && self.replace.is_empty() && self.update.is_empty()
    }
}

/// A client of one switch. Connects with the first call, and again whenever the connection is lost.
#[derive(Debug, Clone)]
pub struct Gnmi {
    pub(crate) client: GNmiClient<Client>,
    /// For streams, which have no end.
    pub(crate) open: GNmiClient<Client>,
    pub(crate) login: Option<Login>,
    pub(crate) limits: Limits,
}

impl Gnmi {
    /// A client of this switch; nothing is called. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Client`] if the address or the credentials cannot be used.
    pub fn new(target: Target, limits: Limits) -> Result<Self, Error> {
        let options = ClientOptions {
            connect_timeout: limits.connect,
            timeout: Some(limits.read),
            // Go's servers take pings for an attack: more than one in five minutes, some of them, also while a call goes on. Whether somebody is
            // there is known by the limits of calls and streams.
            keepalive_interval: Duration::from_secs(600),
            keepalive_timeout: Duration::from_secs(20),
            keepalive_while_idle: false,
        };
        let client = Client::of_others(&target.endpoint, target.credentials.as_ref(), &options)?;
        let speak = |client| GNmiClient::new(client).max_decoding_message_size(limits.message_bytes);
        let open = speak(client.without_timeout());
        Ok(Gnmi { client: speak(client), open, login: target.login, limits })
    }

    /// What the switch can do.
    ///
    /// # Errors
    /// [`Error`] if it cannot be reached, does not let us in, or does not answer.
    pub async fn capabilities(&self) -> Result<Capabilities, Error> {
        let request = self.request(wire::CapabilityRequest {}, self.limits.read);
        let answer = self.client.clone().capabilities(request).await.map_err(|status| self.read(&status))?;
        let answer = answer.into_inner();
        let json = wire::Encoding::JsonIetf as i32;
        Ok(Capabilities {
            version: answer.g_nmi_version,
            models: answer.supported_models.into_iter().map(|model| (model.name, model.version)).collect(),
            json_ietf: answer.supported_encodings.contains(&json),
        })
    }

    /// Reads what stands at and below these paths.
    ///
    /// # Errors
    /// [`Error`] if the switch cannot be reached, does not let us in, does not answer, has nothing there, or sends what cannot be.
    pub async fn get(&self, paths: &[Path], kind: DataType) -> Result<Vec<Update>, Error> {
        self.get_of("", paths, kind).await
    }

    /// The same of a target of the switch: one of SONiC's databases (`COUNTERS_DB`), or what it calls `OTHERS`. Empty: the paths say it.
    ///
    /// # Errors
    /// As [`Gnmi::get`].
    pub async fn get_of(&self, target: &str, paths: &[Path], kind: DataType) -> Result<Vec<Update>, Error> {
        let kind = match kind {
            DataType::All => wire::get_request::DataType::All,
            DataType::Config => wire::get_request::DataType::Config,
            DataType::State => wire::get_request::DataType::State,
        };
        let prefix = wire::Path { target: target.to_owned(), ..Default::default() };
        let message = wire::GetRequest {
            prefix: (!target.is_empty()).then_some(prefix),
            path: paths.iter().map(convert::to_wire).collect(),
            r#type: kind.into(),
            encoding: wire::Encoding::JsonIetf.into(),
            ..Default::default()
        };
        let request = self.request(message, self.limits.read);
        let answer = self.client.clone().get(request).await.map_err(|status| self.read(&status))?;
        let mut found = Vec::new();
        for message in answer.into_inner().notification {
            found.extend(convert::notification(message)?.0);
        }
        Ok(found)
    }

    /// Changes the switch. By gNMI it does all of it or nothing; if no answer comes, nobody knows which: see
    /// [`Error::may_have_happened`].
    ///
    /// # Errors
    /// [`Error`] if the switch cannot be reached, does not let us in, takes no changes, refuses this one, or does not answer.
    pub async fn set(&self, change: &Change) -> Result<(), Error> {
        let update = |(path, value): &(Path, serde_json::Value)| wire::Update {
            path: Some(convert::to_wire(path)),
            val: Some(convert::json(value)),
            duplicates: 0,
        };
        let message = wire::SetRequest {
            prefix: None,
            delete: change.delete.iter().map(convert::to_wire).collect(),
            replace: change.replace.iter().map(update).collect(),
            update: change.update.iter().map(update).collect(),
        };
        let request = self.request(message, self.limits.write);
        let limits = &self.limits;
        let error = |status: Status| Error::of(&status, Call::Write, limits.write, limits.message_bytes);
        self.client.clone().set(request).await.map_err(error)?;
        Ok(())
    }

    pub(crate) fn read(&self, status: &Status) -> Error {
        Error::of(status, Call::Read, self.limits.read, self.limits.message_bytes)
    }

    fn request<T>(&self, message: T, limit: Duration) -> Request<T> {
        let mut request = self.logged_in(message);
        request.set_timeout(limit);
        request
    }

    pub(crate) fn logged_in<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(login) = &self.login {
            request.metadata_mut().insert("username", login.user.clone());
            request.metadata_mut().insert("password", login.password.clone());
        }
        request
    }
}
