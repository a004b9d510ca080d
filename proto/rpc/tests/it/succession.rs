//! One authority after another, over real handshakes: nobody who knows only the old one is locked out before it is retired,
//! and everybody who shows its certificates is, after.

use crate::support::*;
use proto_rpc::ca::{CA_LIFETIME, LEAF_LIFETIME};
use proto_rpc::tls::Trust;
use proto_rpc::{Authority, Ca, CaPin, Credentials, ErrorClass, Identity, Standing, TrustSlot};
use std::time::SystemTime;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

fn again(ca: &Ca) -> Ca {
    Ca::load(ca.certificate_pem(), &ca.key_pem(), SystemTime::now()).unwrap()
}

/// What a server of the test shows and trusts, as the authority stands.
fn stand(world: &World, authority: &Authority, standing: Standing) {
    authority.swap(standing).unwrap();
    world.trusted.swap(&authority.certificate_pem()).unwrap();
    let names = ["127.0.0.1".to_owned()];
    let leaf = authority.issue_server(&names, LEAF_LIFETIME, SystemTime::now()).unwrap();
    world.slot.swap(&leaf.issued.chain_pem, &leaf.key_pem).unwrap();
}

#[tokio::test]
async fn a_whole_succession_locks_nobody_out_but_the_retired() {
    let world = world().await;
    let (old, now) = (again(&world.ca), SystemTime::now());
    let new = old.successor(None, now, CA_LIFETIME).unwrap();
    let cross = old.cross_sign(&new, now).unwrap();
    let authority = Authority::new(Standing::alone(again(&old))).unwrap();
    let of = |ca: &Ca, trust: Trust, name: &str| {
        Credentials::new(trust).with_certificate(issue(ca, &Identity::node(name).unwrap(), SystemTime::now()))
    };
    let (knows_old, knows_new) =
        (|| Trust::Ca(old.certificate_pem().to_owned()), || Trust::Ca(new.certificate_pem().to_owned()));
    let ways = [world.tcp()];
    let fine = async |credentials: Credentials| check(&client(&ways, &credentials), "").await;

    // Prepared: the old one issues, certificates of both are good.
    stand(
        &world,
        &authority,
        Standing::with_others(again(&old), vec![new.certificate_pem().to_owned()], None),
    );
    fine(of(&old, knows_old(), "n0")).await.unwrap();
    fine(of(&new, knows_old(), "n1")).await.unwrap();

    // Active: the new one issues; who knows either, or the pin of either, finds a way.
    let both =
        || Standing::with_others(again(&new), vec![old.certificate_pem().to_owned()], Some(cross.clone()));
    stand(&world, &authority, both());
    let (old_pin, new_pin) = (old.pin(), new.pin());
    for trust in [knows_old(), knows_new(), Trust::Pin(old_pin), Trust::Pin(new_pin)] {
        for (ca, name) in [(&old, "n0"), (&new, "n1")] {
            fine(of(ca, trust.clone(), name))
                .await
                .unwrap_or_else(|error| panic!("{trust:?}, {name}: {error}"));
        }
    }
    let stranger = Ca::create(CLUSTER, now, CA_LIFETIME).unwrap();
    assert!(fine(of(&stranger, knows_new(), "n9")).await.is_err());
    assert!(fine(of(&old, Trust::Ca(stranger.certificate_pem().to_owned()), "n0")).await.is_err());
    assert!(fine(of(&old, Trust::Pins(vec![stranger.pin()]), "n0")).await.is_err());
    fine(of(&old, Trust::Pins(vec![stranger.pin(), new_pin]), "n0")).await.unwrap();
    let holders = world.trusted.holders();
    let of_whom = |who: &str| holders.iter().find(|holder| holder.who == who).map(|holder| holder.authority);
    assert_eq!((of_whom("node/n0"), of_whom("node/n1")), (Some(old_pin), Some(new_pin)), "{holders:?}");

    // Retired: live connections of the old one end, and no other does.
    let (behind, renewed) =
        (client(&ways, &of(&old, knows_new(), "n0")), client(&ways, &of(&new, knows_new(), "n1")));
    let watch = async |client: &proto_rpc::Client| {
        let mut health = HealthClient::new(client.without_timeout());
        let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
        assert!(watch.message().await.unwrap().is_some());
        watch
    };
    let (mut first, mut second) = (watch(&behind).await, watch(&renewed).await);
    stand(&world, &authority, Standing::alone(again(&new)));
    let ended = tokio::time::timeout(SOON, first.message()).await;
    assert!(ended.unwrap().is_err(), "the stream of a retired certificate goes on");
    counted(&world.metrics, "authority-retired", 1).await;
    let error = check(&behind, "").await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unauthenticated, "{error}");
    world.probe.go_on.notify_waiters();
    assert!(second.message().await.unwrap().is_some(), "who has renewed is not disturbed");
    assert!(
        fine(of(&new, knows_old(), "n1")).await.is_err(),
        "nobody vouches for the new one to who knows only the old"
    );
    fine(of(&new, knows_new(), "n1")).await.unwrap();
}

#[tokio::test]
async fn a_client_takes_over_whom_it_trusts() {
    let world = world().await;
    let stranger = Ca::create(CLUSTER, SystemTime::now(), CA_LIFETIME).unwrap();
    let trust = TrustSlot::new(stranger.certificate_pem()).unwrap();
    let certificate = issue(&world.ca, &node(), SystemTime::now());
    assert_eq!(certificate.issuer().unwrap(), Some(world.ca.pin()));
    let client =
        client(&[world.tcp()], &Credentials::new(Trust::Slot(trust.clone())).with_certificate(certificate));
    assert!(check(&client, "").await.is_err());
    trust.swap(&(stranger.certificate_pem().to_owned() + world.ca.certificate_pem())).unwrap();
    assert_eq!(trust.pins(), [stranger.pin(), world.ca.pin()]);
    check(&client, "").await.unwrap();
    assert!(trust.swap("rubbish").is_err());
    check(&client, "").await.unwrap();
    assert_eq!(CaPin::of_pem(&trust.pem()), Some(stranger.pin()));
}
