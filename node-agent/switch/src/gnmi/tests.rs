//! The switch behind gNMI, alone: what is changed, by how many calls, and what becomes of lost answers.

use std::sync::Arc;

use node_agent_gnmi_server::{Fault, Switch as Server};
use serde_json::json;

use super::*;

/// Does something with the switch on a thread of its own, as the keeper does.
async fn with<T: Send + 'static>(
    switch: &Arc<std::sync::Mutex<GnmiSwitch>>,
    what: impl FnOnce(&mut GnmiSwitch) -> T + Send + 'static,
) -> T {
    let switch = Arc::clone(switch);
    tokio::task::spawn_blocking(move || what(&mut switch.lock().unwrap())).await.unwrap()
}

fn files(database: &Value) -> Files {
    Files::new([(config_db::FILE.to_owned(), database.to_string())]).unwrap()
}

async fn put(switch: &Arc<std::sync::Mutex<GnmiSwitch>>, database: Value, exact: bool) -> Result<(), String> {
    with(switch, move |switch| {
        let owned = ["QUEUE".to_owned()];
        let manner = if exact { Manner::Exact } else { Manner::Planned { owned: &owned } };
        switch.put(&files(&database), manner, Method::Change)
    })
    .await
}

fn first() -> Value {
    json!({"PORT": {"Ethernet0": {"mtu": "9100", "alias": "etp1"}}, "QUEUE": {"Ethernet0|3": {"scheduler": "a"}}})
}

async fn world(database: Value) -> (Server, Arc<std::sync::Mutex<GnmiSwitch>>) {
    let server = Server::start(database, "127.0.0.1").await;
    let switch = GnmiSwitch::new(server.client(), Handle::current(), false);
    (server, Arc::new(std::sync::Mutex::new(switch)))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_planned_is_laid_over_what_is_there_by_one_change() {
    let (server, switch) = world(first()).await;
    put(&switch, json!({"PORT": {"Ethernet0": {"mtu": "9216"}}}), false).await.unwrap();
    let after = json!({"PORT": {"Ethernet0": {"mtu": "9216", "alias": "etp1"}}});
    // Once the first has answered, nothing of an earlier agent can come after it: it is read once more.
    assert_eq!((server.config(), server.changes()), (after.clone(), 1));
    let found = with(&switch, Switch::read).await;
    let read: Value = serde_json::from_str(found.whole().unwrap().get(config_db::FILE).unwrap()).unwrap();
    assert_eq!(read, after);
    put(&switch, first(), true).await.unwrap();
    assert_eq!((server.config(), server.changes()), (first(), 2));
    put(&switch, first(), true).await.unwrap();
    assert_eq!(server.changes(), 2, "nothing was to be done");
}

#[tokio::test(flavor = "multi_thread")]
async fn before_the_first_change_all_earlier_ones_have_ended() {
    let (server, switch) = world(first()).await;
    put(&switch, first(), true).await.unwrap();
    assert_eq!((server.config(), server.changes()), (first(), 1), "a change to what is there already");
    put(&switch, first(), true).await.unwrap();
    assert_eq!(server.changes(), 1);
    // One that makes no changes has none under way, and is as it should be.
    let (server, switch) = world(first()).await;
    server.break_by(Fault::ReadOnly);
    put(&switch, first(), true).await.unwrap();
    let error = put(&switch, json!({"PORT": {"Ethernet0": {"mtu": "9216"}}}), false).await.unwrap_err();
    assert!(error.contains("takes no changes"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_answers_end_in_a_read_or_in_an_error() {
    let (server, switch) = world(first()).await;
    server.break_by(Fault::AnswerLostOnce);
    let wanted = json!({"PORT": {"Ethernet0": {"mtu": "9216"}}});
    put(&switch, wanted.clone(), false).await.unwrap();
    assert_eq!(server.config()["PORT"]["Ethernet0"]["mtu"], "9216");
    server.break_by(Fault::AnswerLost);
    let error = put(&switch, first(), true).await.unwrap_err();
    assert!(error.starts_with("nobody knows"), "{error}");
    server.break_by(Fault::HalfJson);
    assert!(put(&switch, first(), true).await.unwrap_err().contains("cannot be read"));
    assert!(with(&switch, Switch::read).await.whole().is_none());
    // A database that has just begun is not laid over.
    server.break_by(Fault::None);
    server.state.config.send_modify(|database| database.0 = json!({}));
    assert!(put(&switch, wanted, false).await.unwrap_err().contains("empty"));
    assert_eq!(server.config(), json!({}));
}
