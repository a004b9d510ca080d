//! Where a switch is reached by gNMI, and who calls it: what the command line and a folder say.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use node_agent_gnmi::{Error, Gnmi, Limits, Login, Target};
use proto_rpc::{
    CredentialFiles, Credentials, Endpoint,
    credentials::CredentialsError,
    endpoint::EndpointError,
    files::{self, FileError},
};
use thiserror::Error as ThisError;

/// The longest that a change goes on at the switch: its server waits a minute for the checkpoint, ten for the updater, and a minute each for
/// saving and for the checkpoint's end (sonic-net/sonic-gnmi, `sonic_service_client/dbus_client.go`).
pub(super) const CHANGE_MAX: Duration = Duration::from_secs(800);

/// The way to a switch that the agent does not run on.
#[derive(Debug, Clone, Default, Args)]
pub struct Reach {
    /// HOST:PORT of the gNMI server of a SONiC switch: the agent then keeps that switch, from wherever it runs
    #[arg(long, env = "RAIL_GNMI", value_name = "HOST:PORT", requires = "gnmi_credentials", value_parser = endpoint)]
    pub gnmi: Option<Endpoint>,
    /// Folder with who calls that server: ca.pem, which has signed its certificate; client.pem and client.key, or login (a name and a
    /// password, a line each), or both
    #[arg(long, env = "RAIL_GNMI_CREDENTIALS", value_name = "DIR", requires = "gnmi")]
    pub gnmi_credentials: Option<PathBuf>,
}

/// Why a switch cannot be called at all.
#[derive(Debug, ThisError)]
pub enum ReachError {
    /// A file of the folder cannot be used.
    #[error("{}: {source}", dir.display())]
    Credentials {
        /// The folder.
        dir: PathBuf,
        /// What is wrong.
        source: CredentialsError,
    },
    /// The login cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// Neither a certificate nor a login.
    #[error(
        "{} has neither client.pem with client.key nor login: who is to call the switch?", dir.display()
    )]
    Nobody {
        /// The folder.
        dir: PathBuf,
    },
    /// It is no name and password.
    #[error("{}: a name on the first line, and a password on the second", path.display())]
    Lines {
        /// The file.
        path: PathBuf,
    },
    /// The client cannot be made.
    #[error(transparent)]
    Client(#[from] Error),
}

impl Reach {
    /// The client, where a switch is to be reached so. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`ReachError`] says which file is missing or wrong.
    pub fn client(&self) -> Result<Option<Gnmi>, ReachError> {
        let (Some(endpoint), Some(dir)) = (&self.gnmi, &self.gnmi_credentials) else { return Ok(None) };
        let there = |name: &str| Some(dir.join(name)).filter(|path| path.exists());
        let files = CredentialFiles {
            ca: Some(dir.join("ca.pem")),
            certificate: there("client.pem"),
            key: there("client.key"),
            ..CredentialFiles::default()
        };
        let login = there("login").map(|path| login(&path)).transpose()?;
        if login.is_none() && files.certificate.is_none() && files.key.is_none() {
            return Err(ReachError::Nobody { dir: dir.clone() });
        }
        let credentials = Credentials::load(&files)
            .map_err(|source| ReachError::Credentials { dir: dir.clone(), source })?;
        let target = Target { endpoint: endpoint.clone(), credentials: Some(credentials), login };
        Ok(Some(Gnmi::new(target, limits())?))
    }
}

/// What a call to the switch may cost.
fn limits() -> Limits {
    Limits { write: CHANGE_MAX, ..Limits::default() }
}

fn login(path: &Path) -> Result<Login, ReachError> {
    let text = files::read_text(path)?;
    match text.trim_end_matches('\n').split_once('\n') {
        Some((user, password)) if !user.trim().is_empty() && !password.contains('\n') => {
            Ok(Login::new(user.trim(), password.trim_end_matches('\r'))?)
        }
        _ => Err(ReachError::Lines { path: path.to_owned() }),
    }
}

fn endpoint(text: &str) -> Result<Endpoint, EndpointError> {
    let malformed = || EndpointError::Malformed { text: text.to_owned() };
    // Of gNMI no port can be taken for granted: servers differ.
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).ok_or_else(malformed)?.1;
    port.parse::<u16>().map_err(|_| EndpointError::BadPort { port: port.to_owned() })?;
    format!("https://{text}").parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_a_host_and_a_port() {
        assert_eq!(
            endpoint("leaf0.mgmt:8080").unwrap(),
            Endpoint::Tcp { host: "leaf0.mgmt".into(), port: 8080 }
        );
        assert!(endpoint("[2001:db8::1]:8080").is_ok());
        for bad in ["leaf0", "leaf0:", ":8080", "leaf0:0", "leaf0:http", "a b:8080", "https://leaf0:8080"] {
            assert!(endpoint(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_folder_says_who_calls() {
        let room = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let _inside = runtime.enter();
        let reach = Reach {
            gnmi: Some(endpoint("127.0.0.1:1").unwrap()),
            gnmi_credentials: Some(room.path().to_owned()),
        };
        let error = || reach.client().unwrap_err().to_string();
        assert!(error().contains("neither client.pem"), "{}", error());
        let write = |name: &str, text: &str| std::fs::write(room.path().join(name), text).unwrap();
        write("login", "admin\n");
        assert!(error().contains("a password on the second"), "{}", error());
        write("login", "admin\nse cret\n");
        assert!(error().contains("ca.pem"), "{}", error());
        let ca =
            proto_rpc::Ca::create("test", std::time::SystemTime::now(), proto_rpc::ca::CA_LIFETIME).unwrap();
        write("ca.pem", ca.certificate_pem());
        assert!(reach.client().unwrap().is_some());
        write("client.pem", ca.certificate_pem());
        assert!(error().contains("the key"), "{}", error());
        assert!(Reach { gnmi: None, gnmi_credentials: None }.client().unwrap().is_none());
    }
}
