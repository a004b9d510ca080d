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

async fn world(database: Value, settled: bool) -> (Server, Arc<std::sync::Mutex<GnmiSwitch>>) {
    let server = Server::start(database, "127.0.0.1").await;
    let switch = GnmiSwitch::new(server.client(), Reach::default(), Handle::current(), settled);
    (server, Arc::new(std::sync::Mutex::new(switch)))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_planned_is_laid_over_what_is_there_by_one_change() {
    let (server, switch) = world(first(), false).await;
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
    let (server, switch) = world(first(), false).await;
    put(&switch, first(), true).await.unwrap();
    assert_eq!((server.config(), server.changes()), (first(), 1), "a change to what is there already");
    put(&switch, first(), true).await.unwrap();
    assert_eq!(server.changes(), 1);
    // One that makes no changes of ours says nothing of earlier ones; where there were none nobody asks.
    let (server, switch) = world(first(), false).await;
    server.break_by(Fault::ReadOnly);
    assert!(put(&switch, first(), true).await.unwrap_err().contains("takes no changes"));
    let (server, switch) = world(first(), true).await;
    server.break_by(Fault::ReadOnly);
    put(&switch, first(), true).await.unwrap();
    let error = put(&switch, json!({"PORT": {"Ethernet0": {"mtu": "9216"}}}), false).await.unwrap_err();
    assert!(error.contains("takes no changes"), "{error}");
    put(&switch, first(), true).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_updater_says_is_an_error_at_once_and_nothing_is_believed_after_it() {
    let (server, switch) = world(first(), true).await;
    server.break_by(Fault::Half);
    let wanted = json!({"PORT": {"Ethernet0": {"mtu": "9216", "speed": "400000"}}});
    let error = put(&switch, wanted, false).await.unwrap_err();
    assert!(error.contains("the updater has stopped"), "{error}");
    assert_ne!(server.config(), first());
    // Taken back, and saved by a change that was answered.
    server.break_by(Fault::None);
    put(&switch, first(), true).await.unwrap();
    assert_eq!((server.config(), server.changes()), (first(), 1));
    // The same where all of it was made, and only saving failed.
    server.break_by(Fault::Unsaved);
    let wanted = json!({"PORT": {"Ethernet0": {"mtu": "9216"}}});
    assert!(put(&switch, wanted, false).await.unwrap_err().contains("cannot be saved"));
    assert!(put(&switch, first(), true).await.unwrap_err().contains("cannot be saved"));
    assert_eq!(server.config(), first());
    let changes = server.changes();
    server.break_by(Fault::None);
    put(&switch, first(), true).await.unwrap();
    assert_eq!(server.changes(), changes + 1, "a change to what is there already, which is saved");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_the_switch_did_not_begin_leaves_nothing_to_take_back() {
    let (server, switch) = world(first(), true).await;
    server.break_by(Fault::NoRole);
    let wanted = json!({"PORT": {"Ethernet0": {"mtu": "9216"}}});
    assert!(put(&switch, wanted.clone(), false).await.unwrap_err().contains("write access"));
    put(&switch, first(), true).await.unwrap();
    assert_eq!((server.config(), server.changes()), (first(), 0), "all is as it was, which is known");
    // Of what an earlier agent has begun nothing is known, until the switch answers a change.
    let (server, switch) = world(first(), false).await;
    server.break_by(Fault::NoRole);
    assert!(put(&switch, wanted.clone(), false).await.unwrap_err().contains("write access"));
    assert!(put(&switch, first(), true).await.unwrap_err().contains("write access"));
    server.break_by(Fault::None);
    put(&switch, first(), true).await.unwrap();
    // Nor was the change begun where the switch does not say what it has now.
    server.break_by(Fault::HalfJson);
    assert!(put(&switch, wanted, false).await.is_err());
    server.break_by(Fault::None);
    put(&switch, first(), true).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_comes_late_or_of_a_change_to_what_is_there_proves_nothing_saved() {
    let (_server, switch) = world(first(), true).await;
    let seen = with(&switch, |switch| {
        let found = switch.config().unwrap();
        let unknown = Error::Failed { code: tonic::Code::Unknown, message: "Timeout 600".into() };
        let mut seen = Vec::new();
        for took in [Duration::from_secs(1), ENDED_WITHIN] {
            switch.unconfirmed = Unconfirmed::Nothing;
            assert!(switch.failed(&unknown, took, &found).is_err());
            seen.push(switch.unconfirmed);
        }
        // A change that nobody waits for has ended by now; whether all of it is saved, nobody knows.
        let Some(long_ago) = Instant::now().checked_sub(CHANGE_MAX + Duration::from_secs(1)) else {
            return seen;
        };
        switch.unconfirmed = Unconfirmed::Running(long_ago);
        assert!(switch.unchanged_failed(&unknown).is_err());
        seen.push(switch.unconfirmed);
        seen
    });
    let seen = seen.await;
    assert_eq!(seen[0], Unconfirmed::Nothing, "all is as it was");
    assert!(matches!(seen[1], Unconfirmed::Running(_)), "{seen:?}");
    assert!(seen[2..].iter().all(|after| *after == Unconfirmed::Unsaved), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_are_told_whole_or_not_at_all() {
    let (server, switch) = world(first(), true).await;
    server.answer("APPL_DB/PORT_TABLE", json!({"Ethernet0": {"oper_status": "up"}}));
    // Its daemons have not said which counters are whose.
    assert!(with(&switch, Switch::ports).await.is_empty());
    for map in MAPS {
        server.answer(&format!("COUNTERS_DB/localhost/{map}"), json!({"Ethernet0": "oid:0x1"}));
    }
    assert!(with(&switch, Switch::ports).await.is_empty());
    server.answer("COUNTERS_DB/COUNTERS/Ethernet*", json!({}));
    server.answer("COUNTERS_DB/COUNTERS/Ethernet*/Queues", json!({}));
    assert_eq!(with(&switch, Switch::ports).await.len(), 1);
    assert_eq!(with(&switch, Switch::version).await, "");
    server.answer("OTHERS/osversion/build", json!({"build_version": "SONiC.202505.1"}));
    assert_eq!(with(&switch, Switch::version).await, "SONiC 202505.1");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_answers_end_in_a_read_or_in_an_error() {
    let (server, switch) = world(first(), false).await;
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
