//! What ports of switches count, as everybody hears of it.

use std::time::{Duration, Instant};

use proto_rpc::{Client, Identity};
use proto_wire::v1::{
    self, health_service_client::HealthServiceClient, switch_agent_service_client::SwitchAgentServiceClient,
    switch_service_client::SwitchServiceClient,
};

use crate::{
    switches::{apply, sonic, with_fabric},
    world::World,
};

/// A port whose counters follow from how long it is watched: paused for 65 % of the time, with a drop for each of these.
fn port(millis: u64, drops: u64) -> v1::SwitchPortStatus {
    let lossless = v1::SwitchPriorityCounters {
        priority: 3,
        paused_rx_us: millis * 650,
        tx_bytes: 1 + millis * 1_000,
        watermark_bytes: 70,
        drops,
        ..Default::default()
    };
    v1::SwitchPortStatus {
        name: "Ethernet0".into(),
        up: true,
        speed_mbps: 400_000,
        priorities: vec![lossless],
        ..Default::default()
    }
}

/// When a report was made, by the clock of the switch in milliseconds, and when it was sent and had been taken.
struct Reported {
    millis: u64,
    sent: Instant,
    taken: Instant,
}

impl Reported {
    /// Percent of the time between both reports, as the controller may see it, that the port was paused: it hears of each within its call.
    fn paused_since(&self, first: &Self) -> std::ops::RangeInclusive<f64> {
        let paused_ms = (self.millis - first.millis) as f64 * 0.65;
        let of = |time: Duration| 100.0 * paused_ms / (time.as_secs_f64() * 1000.0);
        // A percent, and the milliseconds in which clocks are told, are rounded.
        of(self.taken - first.sent + Duration::from_millis(2)).floor()
            ..=of(self.sent - first.taken - Duration::from_millis(2)).ceil()
    }
}

async fn report(agent: &mut SwitchAgentServiceClient<Client>, since: Instant, drops: u64) -> Reported {
    let sent = Instant::now();
    let millis = u64::try_from(since.elapsed().as_millis()).unwrap() + 1;
    let request = v1::ReportSwitchRequest {
        ports: vec![port(millis, drops)],
        ports_read_ms: millis,
        ..Default::default()
    };
    agent.report_switch(request).await.unwrap();
    Reported { millis, sent, taken: Instant::now() }
}

async fn health(world: &World) -> Vec<v1::SwitchHealth> {
    let mut client = HealthServiceClient::new(world.admin());
    client.get_health(v1::GetHealthRequest {}).await.unwrap().into_inner().switches
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_the_switch_tell_what_its_ports_count() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    drop(with_fabric(&world).await);
    assert_eq!(health(&world).await, []);
    let mut admins = SwitchServiceClient::new(world.admin());
    for name in ["leaf0", "leaf1"] {
        admins.apply_switch(apply(name, sonic())).await.unwrap();
    }
    let names =
        |rows: &[v1::SwitchHealth]| -> Vec<String> { rows.iter().map(|row| row.switch.clone()).collect() };
    let before = health(&world).await;
    assert_eq!(names(&before), ["leaf0", "leaf1"]);
    assert!(before.iter().all(|row| !row.connected && row.ports_total == 0 && row.reasons.is_empty()));
    let mut agent = SwitchAgentServiceClient::new(world.client(&Identity::switch("leaf1").unwrap()));
    let since = Instant::now();
    let first_report = report(&mut agent, since, 0).await;
    let first = health(&world).await;
    let quiet = first.iter().find(|row| row.switch == "leaf1").unwrap();
    assert!(quiet.connected && (quiet.ports_up, quiet.ports_total) == (1, 1) && quiet.reasons.is_empty());
    // The first reading says what there is, the next what happens.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let second_report = report(&mut agent, since, 5).await;
    let rows = health(&world).await;
    assert_eq!(names(&rows), ["leaf1", "leaf0"]);
    let reasons: Vec<(&str, &str)> =
        rows[0].reasons.iter().map(|one| (one.code.as_str(), one.scope.as_str())).collect();
    let at = "switch/leaf1/Ethernet0";
    assert_eq!(reasons, [("SwitchLosslessDrops", at), ("SwitchPortPaused", at)]);
    let said = &rows[0].reasons[1].message;
    let percent = said.split("pauses this port for ").nth(1).and_then(|rest| rest.split(' ').next());
    let percent: f64 = percent.unwrap_or_default().parse().unwrap_or(f64::NAN);
    let expected = second_report.paused_since(&first_report);
    assert!(expected.contains(&percent), "{said}: {expected:?}");
    // The same stands in what is said of the switch.
    let request = v1::GetSwitchRequest { name: "leaf1".into() };
    let status = admins.get_switch(request).await.unwrap().into_inner().status.unwrap();
    let mut own: Vec<&str> = status.reasons.iter().map(|one| one.code.as_str()).collect();
    own.sort_unstable();
    assert_eq!(own, ["SwitchLosslessDrops", "SwitchPortPaused"]);
    drop((admins, agent));
    world.stop().await;
}
