//! Calls to etcd's members, over HTTP at each member's own loopback address.

use std::{
    fs::File,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    os::fd::AsFd,
    thread,
    time::Duration,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};

use crate::{net, plan::Part};

/// Where a member listens in its own namespace, without TLS.
pub const PORT: u16 = 2379;
/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks at an address of a part's own loopback. The thread that does it enters the part's namespace; a thread that has
/// entered one does nothing else.
fn ask(part: Part, request: String) -> Result<String, String> {
    let asked = thread::spawn(move || -> Result<String, String> {
        let path = net::namespace(part);
        let file = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
        let mut stream = TcpStream::connect_timeout(&to, PATIENCE).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
        stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
        Ok(answer)
    });
    asked.join().map_err(|_| "the asking thread died".to_owned())?
}

fn post(part: Part, path: &str, body: &Value) -> Result<Value, String> {
    let body = body.to_string();
    let request = format!("POST {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let answer = ask(part, request)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
    if !head.lines().next().is_some_and(|line| line.contains(" 200 ")) {
        return Err(body.trim().to_owned());
    }
    serde_json::from_str(body).map_err(|error| error.to_string())
}

/// It says that it is well.
pub fn well(member: usize) -> bool {
    let answer = ask(Part::Etcd(member), "GET /health HTTP/1.0\r\n\r\n".to_owned());
    answer.is_ok_and(|text| text.contains("\"true\""))
}

/// Which one leads, as it says itself.
pub fn leader(count: usize) -> Option<usize> {
    let leads = |member: &usize| {
        let answer = ask(Part::Etcd(*member), "GET /metrics HTTP/1.0\r\n\r\n".to_owned());
        answer.is_ok_and(|text| text.contains("\netcd_server_is_leader 1"))
    };
    (0..count).find(leads)
}

/// Compacts all history; gives the revision.
///
/// # Errors
/// What the member said.
pub fn compact(member: usize) -> Result<u64, String> {
    let part = Part::Etcd(member);
    let read = post(part, "/v3/kv/range", &json!({"key": "AA==", "limit": "1"}))?;
    let revision =
        read["header"]["revision"].as_str().and_then(|text| text.parse().ok()).ok_or("no revision")?;
    post(part, "/v3/kv/compaction", &json!({"revision": format!("{revision}")})).map(|_| revision)
}

/// Removes the member of this name, by another one.
///
/// # Errors
/// What that one said.
pub fn remove(by: usize, name: &str) -> Result<(), String> {
    let list = post(Part::Etcd(by), "/v3/cluster/member/list", &json!({}))?;
    let found = list["members"].as_array().into_iter().flatten().find(|member| member["name"] == name);
    // It was removed by an attempt whose answer was lost.
    let Some(found) = found else { return Ok(()) };
    post(Part::Etcd(by), "/v3/cluster/member/remove", &json!({"ID": found["ID"]})).map(drop)
}

/// Adds a member at this address, by another one.
///
/// # Errors
/// What that one said.
pub fn add(by: usize, peer: &str) -> Result<(), String> {
    let list = post(Part::Etcd(by), "/v3/cluster/member/list", &json!({}))?;
    let there = |member: &Value| member["peerURLs"].as_array().into_iter().flatten().any(|url| url == peer);
    if list["members"].as_array().into_iter().flatten().any(there) {
        return Ok(());
    }
    post(Part::Etcd(by), "/v3/cluster/member/add", &json!({"peerURLs": [peer]})).map(drop)
}
