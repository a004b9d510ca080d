//! Whoever has an identity gets in, whatever anonymous peers and other roles hold.

use super::*;
use crate::caps::AnonymousLimits;
use crate::metrics::Metrics;
use std::time::SystemTime;

fn open(limits: Limits) -> Arc<Open> {
    Open::new(limits, ServerMetrics::new(&Metrics::new("test", "0", SystemTime::UNIX_EPOCH)))
}

fn tcp(text: &str) -> PeerAddress {
    PeerAddress::Tcp(text.parse().unwrap())
}

fn limits(connections: usize) -> Limits {
    Limits { connections, ..Limits::default() }
}

fn admin() -> Identity {
    Identity::admin("root").unwrap()
}

fn user(tenant: &str) -> Identity {
    Identity::user(tenant, "ann", [crate::Role::User]).unwrap()
}

/// Comes in, and says who it is.
fn join(open: &Arc<Open>, address: &str, identity: &Identity) -> Result<ConnectionSlot, &'static str> {
    let place = open.arrive(&tcp(address), "tcp", false)?;
    place.settle(identity).map(|()| place)
}

#[tokio::test]
async fn places_are_counted_and_given_back() {
    let open = open(Limits { connections: 3, connections_per_ip: 2, ..Limits::default() });
    let plain = |address: &str| open.arrive(&tcp(address), "plain", true);
    let first = plain("10.0.0.1:1").unwrap();
    let second = plain("10.0.0.1:2").unwrap();
    assert_eq!(plain("10.0.0.1:3").err(), Some("per-ip"));
    let third = plain("10.0.0.2:1").unwrap();
    assert_eq!(plain("10.0.0.3:1").err(), Some("total"));
    drop((first, third));
    let fourth = plain("10.0.0.1:4").unwrap();
    assert_eq!(plain("10.0.0.1:5").err(), Some("per-ip"));
    drop((second, fourth));
    let counts = open.counts();
    assert_eq!((counts.all.len(), counts.by_ip.len(), counts.by_listener["plain"]), (0, 0, 0));
    assert!(counts.by_kind.is_empty() && counts.by_owner.is_empty() && counts.sheddable.is_empty());
}

#[tokio::test(start_paused = true)]
async fn anonymous_peers_take_a_share_and_the_one_that_is_idle_for_the_longest_goes() {
    let open = open(limits(60));
    let mut held = Vec::new();
    for n in 0..200 {
        tokio::time::advance(Duration::from_millis(1)).await;
        held.push(join(&open, &format!("10.0.{}.1:1", n % 50), &Identity::Anonymous).unwrap());
    }
    assert_eq!(open.counts().of(Kind::Anonymous), 15, "a quarter");
    assert!(held[..185].iter().all(|place| place.cut.is_cancelled()));
    assert!(held[185..].iter().all(|place| !place.cut.is_cancelled()));
    // Whoever is at work stays.
    held[185].standing().begin();
    let next = join(&open, "10.1.0.1:1", &Identity::Anonymous).unwrap();
    assert!(!held[185].cut.is_cancelled() && held[186].cut.is_cancelled());
    for place in held[187..].iter().chain([&next]) {
        place.standing().begin();
    }
    assert_eq!(join(&open, "10.1.0.2:1", &Identity::Anonymous).err(), Some("anonymous"));
    drop((held, next));
    assert_eq!(open.counts().all.len(), 0);
}

#[tokio::test]
async fn an_anonymous_peer_cannot_shut_out_who_shares_its_address() {
    let few = AnonymousLimits { connections_per_ip: 4, ..AnonymousLimits::default() };
    let open = open(Limits { connections_per_ip: 5, handshakes_per_ip: 6, anonymous: few, ..limits(1000) });
    let (ip, mut held) = ("10.0.0.9:1", Vec::new());
    for _ in 0..100 {
        let place = join(&open, ip, &Identity::Anonymous).unwrap();
        place.standing().begin();
        held.push(place);
        if held.len() == 4 {
            break;
        }
    }
    assert_eq!(join(&open, ip, &Identity::Anonymous).err(), Some("anonymous-per-ip"));
    // Half-open connections as well; the oldest go, and the agent's is not among them.
    let half: Vec<ConnectionSlot> = (0..50).map(|_| open.arrive(&tcp(ip), "tcp", false).unwrap()).collect();
    assert_eq!(half.iter().filter(|place| !place.cut.is_cancelled()).count(), 6);
    let agents: Vec<_> = (0..5).map(|_| join(&open, ip, &Identity::node("n0").unwrap()).unwrap()).collect();
    assert_eq!(join(&open, ip, &Identity::node("n0").unwrap()).err(), Some("per-ip"));
    drop(agents);
}

#[tokio::test]
async fn every_role_has_a_share_that_nobody_else_can_take() {
    let open = open(Limits { connections_per_ip: usize::MAX, ..limits(320) });
    let mut held = Vec::new();
    let mut fill = |identity: &dyn Fn(usize) -> Identity| {
        let before = held.len();
        for n in 0..2000 {
            match join(&open, &format!("10.0.0.{}:1", n % 200), &identity(n)) {
                Ok(place) if !place.cut.is_cancelled() => held.push(place),
                _ => {}
            }
            if n > 600 && held.len() == before {
                break;
            }
        }
        held.len() - before
    };
    // Tenants first, each with a certificate: one has a quarter, all what is not reserved.
    assert_eq!(fill(&|_| user("red")), 80);
    let others = fill(&|n| user(&format!("t{}", n % 40)));
    assert_eq!(80 + others, 320 - 20 - 160 - 10);
    assert!(fill(&|_| Identity::Anonymous) > 0);
    assert_eq!(fill(&|n| Identity::node(&format!("n{n}")).unwrap()), 160);
    assert_eq!(fill(&|_| admin()), 20);
    assert_eq!(fill(&|_| Identity::Controller), 10);
    // All of them have an identity now: the anonymous peers have gone for them.
    assert_eq!(open.counts().of(Kind::Anonymous), 0);
    assert_eq!(open.counts().all.len(), 320);
    assert_eq!(join(&open, "10.0.0.1:1", &admin()).err(), Some("total"));
}

#[tokio::test]
async fn agents_that_come_first_leave_the_administrators_theirs() {
    let open = open(limits(320));
    let node = |n: usize| Identity::node(&format!("n{n}")).unwrap();
    let held: Vec<ConnectionSlot> =
        (0..400).filter_map(|n| join(&open, &format!("10.1.{}.1:1", n % 250), &node(n)).ok()).collect();
    assert_eq!(held.len(), 320 - 20 - 10);
    assert!(join(&open, "10.9.9.9:1", &admin()).is_ok());
    let one: Vec<_> = (0..100).filter_map(|_| join(&open, "10.8.0.1:1", &node(7)).ok()).collect();
    assert!(one.is_empty());
}

#[tokio::test]
async fn one_node_and_one_token_holder_have_their_own_limits() {
    let open = open(Limits { connections_per_node: 3, ..limits(1000) });
    let node = Identity::node("n0").unwrap();
    let held: Vec<_> = (0..3).map(|_| join(&open, "10.0.0.1:1", &node).unwrap()).collect();
    assert_eq!(join(&open, "10.0.0.1:1", &node).err(), Some("node"));
    drop(held);
    // An anonymous peer that proves a token is one no more.
    let place = join(&open, "10.0.0.2:1", &Identity::Anonymous).unwrap();
    let standing = place.standing();
    assert!(standing.is_anonymous() && !standing.proved(&Identity::Anonymous));
    assert!(standing.proved(&user("red")) && !standing.is_anonymous());
    let counts = open.counts();
    assert_eq!((counts.of(Kind::Anonymous), counts.of(Kind::Tenant)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn handshakes_wait_for_room_and_the_oldest_makes_it() {
    let open = open(Limits { handshakes: 8, handshakes_per_ip: 8, ..limits(1000) });
    let stalled: Vec<ConnectionSlot> =
        (0..8).map(|n| open.arrive(&tcp(&format!("10.0.0.{n}:1")), "tcp", false).unwrap()).collect();
    stalled.iter().for_each(ConnectionSlot::hello_received);
    let begun = Instant::now();
    open.room().await;
    assert_eq!(begun.elapsed(), GRACE);
    let next = open.arrive(&tcp("10.0.1.1:1"), "tcp", false).unwrap();
    assert!(stalled[0].cut.is_cancelled() && !stalled[1].cut.is_cancelled());
    assert_eq!(stalled[0].settle(&admin()), Err("shed"));
    // One that is through makes room at once.
    let after = next.settle(&admin()).map(|()| Instant::now()).unwrap();
    open.room().await;
    assert_eq!(after.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_peer_without_a_whole_hello_goes_first_and_soon() {
    let open = open(Limits { handshakes: 8, handshakes_per_ip: 8, ..limits(1000) });
    let held: Vec<ConnectionSlot> =
        (0..8).map(|n| open.arrive(&tcp(&format!("10.0.0.{n}:1")), "tcp", false).unwrap()).collect();
    held.iter().take(6).for_each(ConnectionSlot::hello_received);
    let begun = Instant::now();
    open.room().await;
    assert_eq!(begun.elapsed(), HELLO_GRACE);
    let next: Vec<ConnectionSlot> =
        (0..2).map(|n| open.arrive(&tcp(&format!("10.0.1.{n}:1")), "tcp", false).unwrap()).collect();
    let cut: Vec<bool> = held.iter().map(|place| place.cut.is_cancelled()).collect();
    assert_eq!(cut, [false, false, false, false, false, false, true, true]);
    assert!(next.iter().all(|place| !place.cut.is_cancelled()));
    open.room().await;
    assert_eq!(begun.elapsed(), HELLO_GRACE * 2, "nor did these two say anything");
}

#[tokio::test(start_paused = true)]
async fn an_anonymous_peer_may_rest_work_and_grow_old_for_so_long_only() {
    let open = open(limits(1000));
    let most = AnonymousLimits::default();
    let place = join(&open, "10.0.0.1:1", &Identity::Anonymous).unwrap();
    let (standing, begun) = (place.standing(), Instant::now());
    assert_eq!(standing.due(begun), Due::Later(begun + most.idle));
    assert_eq!(standing.due(begun + most.idle), Due::Over("idle"));
    standing.begin();
    assert!(matches!(standing.due(begun + most.idle), Due::Later(_)), "it works");
    assert_eq!(standing.due(begun + most.age), Due::Over("age"));
    tokio::time::advance(Duration::from_secs(9)).await;
    standing.end();
    assert_eq!(standing.due(begun + most.idle), Due::Later(begun + Duration::from_secs(19)));
    // Who has proved an identity may stay.
    assert!(standing.proved(&user("red")));
    assert!(matches!(standing.due(begun + most.age), Due::Later(_)));
    assert_eq!(standing.due(begun + most.proved_idle + Duration::from_secs(9)), Due::Over("idle"));
    let other = join(&open, "10.0.0.1:1", &Identity::Anonymous).unwrap().standing();
    assert_eq!(other.due(begun), Due::Over("shed"), "its place was dropped");
}
