//! What goes wrong: each is told as what it is, in bounded time and memory.

use std::time::{Duration, SystemTime};

use node_agent_gnmi::sonic::{self, Edit};
use node_agent_gnmi::{Error, Event, Gnmi, Limits, Login, Mode, Path, Subscription, Target};
use proto_rpc::Ca;
use proto_rpc::ca::CA_LIFETIME;
use serde_json::json;

use node_agent_gnmi_server::{Fault, Switch, limits};

fn pfc() -> [Edit; 1] {
    let own = |text: &str| Some(text.to_owned());
    let table = "PORT_QOS_MAP".to_owned();
    [Edit { table, key: own("Ethernet0"), field: own("pfc_enable"), value: Some(json!("3")) }]
}

async fn switch() -> Switch {
    Switch::start(json!({"PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3,4"}}}), "127.0.0.1").await
}

fn quick() -> Limits {
    Limits { read: Duration::from_millis(200), write: Duration::from_millis(200), ..limits() }
}

#[tokio::test]
async fn a_certificate_of_somebody_else_is_refused_by_whoever_sees_it() {
    let switch = switch().await;
    let other = Ca::create("test", SystemTime::now(), CA_LIFETIME).unwrap();
    // The switch does not know our authority.
    let target = Target { credentials: Some(switch.credentials(&other)), ..switch.target() };
    let error = Gnmi::new(target, limits()).unwrap().capabilities().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable(_) | Error::Denied(_)), "{error:?}");
    // We do not know the switch's.
    let stranger = Switch::start(json!({}), "127.0.0.1").await;
    let target = Target { endpoint: stranger.endpoint.clone(), ..switch.target() };
    let error = Gnmi::new(target, limits()).unwrap().capabilities().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable(_) | Error::Denied(_)), "{error:?}");
    // Its certificate is for another name.
    let renamed = Switch::start(json!({}), "leaf1.example").await;
    let error = renamed.client().capabilities().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable(_) | Error::Denied(_)), "{error:?}");
}

#[tokio::test]
async fn a_login_is_shown_where_it_is_wanted() {
    let switch = switch().await;
    switch.break_by(Fault::Login);
    let error = switch.client().capabilities().await.unwrap_err();
    assert!(matches!(&error, Error::Denied(message) if message == "who are you"), "{error:?}");
    let login = Some(Login::new("admin", "secret").unwrap());
    assert!(!format!("{login:?}").contains("secret"));
    let target = Target { login, ..switch.target() };
    Gnmi::new(target, limits()).unwrap().capabilities().await.unwrap();
    assert!(matches!(Login::new("admin", "a\nb"), Err(Error::Login("password"))));
}

#[tokio::test]
async fn a_switch_that_does_not_answer_costs_bounded_time() {
    let switch = switch().await;
    switch.break_by(Fault::Silent);
    let client = Gnmi::new(switch.target(), quick()).unwrap();
    let error = sonic::config(&client).await.unwrap_err();
    assert!(matches!(error, Error::Late(_)), "{error:?}");
    let error = sonic::apply(&client, &pfc()).await.unwrap_err();
    assert!(matches!(error, Error::Late(_)) && error.may_have_happened(), "{error:?}");
    let wanted = Subscription {
        target: String::new(),
        paths: vec![Path::of("sonic-db", &["CONFIG_DB", "localhost"])],
        mode: Mode::OnChange,
        silence: Duration::from_millis(200),
    };
    let error = client.subscribe(&wanted).await.unwrap_err();
    assert!(matches!(error, Error::Late(_)), "{error:?}");
    // Nor one that falls silent in the middle.
    switch.break_by(Fault::Mute);
    let mut updates = switch.client().subscribe(&wanted).await.unwrap();
    let error = loop {
        match updates.next().await {
            Ok(Some(Event::Values { .. } | Event::Synced)) => {}
            other => break other.unwrap_err(),
        }
    };
    assert!(matches!(error, Error::Late(_)), "{error:?}");
}

#[tokio::test]
async fn half_an_answer_and_too_much_of_one_are_errors() {
    let switch = switch().await;
    switch.break_by(Fault::HalfJson);
    let error = sonic::config(&switch.client()).await.unwrap_err();
    assert!(matches!(error, Error::Malformed(_)), "{error:?}");
    switch.break_by(Fault::Huge);
    let error = sonic::config(&switch.client()).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: 1_048_576, .. }), "{error:?}");
}

#[tokio::test]
async fn a_refused_change_has_not_happened_and_a_lost_answer_may_have() {
    let switch = switch().await;
    let client = switch.client();
    for (fault, changed) in [(Fault::ReadOnly, false), (Fault::Invalid, false), (Fault::AnswerLost, true)] {
        switch.break_by(fault);
        let error = sonic::apply(&client, &pfc()).await.unwrap_err();
        assert_eq!(error.may_have_happened(), changed, "{error:?}");
        match fault {
            Fault::ReadOnly => assert!(matches!(error, Error::ReadOnly(_)), "{error:?}"),
            Fault::Invalid => assert!(error.to_string().contains("9 is no priority"), "{error}"),
            _ => assert!(matches!(error, Error::Unreachable(_)), "{error:?}"),
        }
        switch.break_by(Fault::None);
        let found = sonic::config(&client).await.unwrap();
        let pfc = if changed { "3" } else { "3,4" };
        assert_eq!(found["PORT_QOS_MAP"]["Ethernet0"]["pfc_enable"], json!(pfc), "{fault:?}");
    }
}

#[tokio::test]
async fn a_reboot_ends_the_stream_and_the_next_one_tells_everything() {
    let switch = switch().await;
    let client = switch.client();
    let wanted = Subscription {
        target: String::new(),
        paths: vec![Path::of("sonic-db", &["CONFIG_DB", "localhost"])],
        mode: Mode::OnChange,
        silence: Duration::from_secs(30),
    };
    for _ in 0..2 {
        let mut updates = client.subscribe(&wanted).await.unwrap();
        assert!(matches!(updates.next().await.unwrap(), Some(Event::Values { .. })));
        assert_eq!(updates.next().await.unwrap(), Some(Event::Synced));
        switch.state.reboot.send_modify(|count| *count += 1);
        assert_eq!(updates.next().await.unwrap(), None);
    }
}

#[tokio::test]
async fn nobody_at_the_address_is_told() {
    let switch = switch().await;
    let target = switch.target();
    // A port that was ours and is free again.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let endpoint = proto_rpc::Endpoint::Tcp { host: "127.0.0.1".into(), port: free.port() };
    let error = Gnmi::new(Target { endpoint, ..target }, limits()).unwrap().capabilities().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable(_)) && error.is_temporary(), "{error:?}");
}
