//! Lists of servers: each row is a server or the first one that is wrong is named, with its line.

use controller_simulator::servers::{ServersError, read};

/// The bytes as a list.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match read(&text) {
        Ok(list) => {
            assert!(!list.servers.is_empty());
            assert!(list.servers.len() + list.without_gpus < text.lines().count());
            for server in &list.servers {
                assert!(!server.name.is_empty() && (1..=64).contains(&server.kind.gpus), "{server:?}");
                assert!(!server.kind.to_string().is_empty());
            }
        }
        Err(ServersError::Row { line, .. }) => assert!((2..=text.lines().count()).contains(&line)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
