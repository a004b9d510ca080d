//! Who gets in: identities over TCP and unix sockets, pins, expired and foreign certificates, rotation.

use crate::support::*;
use proto_rpc::ca::{CA_LIFETIME, LEAF_LIFETIME};
use proto_rpc::tls::{PeerCertificate, Trust, client_config};
use proto_rpc::{Ca, Credentials, Endpoint, ErrorClass, Identity, Role};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

#[tokio::test]
async fn every_identity_is_known_over_tcp_and_unix() {
    let world = world().await;
    let all = [
        node(),
        Identity::Controller,
        Identity::admin("root").unwrap(),
        Identity::user("research", "ann", [Role::User, Role::Viewer]).unwrap(),
    ];
    for identity in all {
        for endpoint in &world.endpoints {
            let client = client(std::slice::from_ref(endpoint), &world.credentials(&identity));
            check(&client, "").await.unwrap();
            assert_eq!(rest(&client, "/v1/whoami").await, (200, identity.to_string()), "{endpoint}");
        }
    }
    assert_eq!(world.end().await, 0);
}

#[tokio::test]
async fn a_client_without_certificate_is_anonymous() {
    let world = world().await;
    for endpoint in &world.endpoints {
        let client = client(std::slice::from_ref(endpoint), &Credentials::new(world.trust()));
        assert_eq!(rest(&client, "/v1/whoami").await, (200, "anonymous".to_owned()));
    }
}

#[tokio::test]
async fn a_certificate_of_a_foreign_ca_is_refused() {
    let world = world().await;
    let foreign = Ca::create(CLUSTER, SystemTime::now(), CA_LIFETIME).unwrap();
    let credentials =
        Credentials::new(world.trust()).with_certificate(issue(&foreign, &node(), SystemTime::now()));
    let error = check(&client(&[world.tcp()], &credentials), "").await.unwrap_err();
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Unauthenticated, "CERTIFICATE_REFUSED"));
    counted(&world.metrics, "handshake", 1).await;
}

#[tokio::test]
async fn an_expired_certificate_is_refused_and_named() {
    let world = world().await;
    let then = SystemTime::now() - Duration::from_secs(7200);
    let credentials = Credentials::new(world.trust()).with_certificate(issue(&world.ca, &node(), then));
    let error = check(&client(&[world.tcp()], &credentials), "").await.unwrap_err();
    assert_eq!(error.reason, "CERTIFICATE_EXPIRED", "{error:?}");
    assert_eq!(error.exit_code(), 4);
}

/// What a client whose own certificate was issued so long ago (or will be) is told.
async fn reported_of_ours(world: &World, issued: SystemTime) -> proto_rpc::RpcError {
    let credentials = Credentials::new(world.trust()).with_certificate(issue(&world.ca, &node(), issued));
    check(&client(&[world.tcp()], &credentials), "").await.unwrap_err()
}

#[tokio::test]
async fn each_kind_of_being_out_of_time_is_named_with_what_to_do() {
    let world = world().await;
    let (now, hour) = (SystemTime::now(), Duration::from_secs(3600));
    let ended = reported_of_ours(&world, now - 2 * hour).await;
    assert!(
        ended.message.contains("our certificate ended at 2") && ended.message.contains("issued"),
        "{ended}"
    );
    let early = reported_of_ours(&world, now + hour).await;
    assert_eq!(early.reason, "CERTIFICATE_EXPIRED");
    assert!(early.message.contains("set the clock"), "{early}");
    // The controller's clock is an hour ahead, or two behind.
    for (issued, reason, words) in [
        (now + hour, "SERVER_CERTIFICATE_NOT_YET_VALID", "begins at"),
        (now - 2 * hour, "SERVER_CERTIFICATE_EXPIRED", "ended at"),
    ] {
        let leaf = world.ca.issue_server(&["127.0.0.1".to_owned()], LEAF_LIFETIME, issued).unwrap();
        world.slot.swap(&leaf.issued.chain_pem, &leaf.key_pem).unwrap();
        let error = check(&client(&[world.tcp()], &Credentials::new(world.trust())), "").await.unwrap_err();
        assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Unauthenticated, reason));
        assert!(
            error.message.contains(words) && error.message.contains("this machine's clock says"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_identity_of_another_cluster_is_refused() {
    let world = world_with(limits(), "other").await;
    let error = check(&world.client(&node()), "").await.unwrap_err();
    assert_eq!(error.reason, "CERTIFICATE_REFUSED", "{error:?}");
}

#[tokio::test]
async fn a_server_of_a_foreign_ca_is_not_trusted_and_not_retried() {
    let world = world().await;
    let foreign = Ca::create(CLUSTER, SystemTime::now(), CA_LIFETIME).unwrap();
    let trust = Trust::Ca(foreign.certificate_pem().to_owned());
    let error = check(&client(&[world.tcp()], &Credentials::new(trust)), "").await.unwrap_err();
    assert_eq!((error.class, error.reason.as_str()), (ErrorClass::Unauthenticated, "SERVER_NOT_TRUSTED"));
}

#[tokio::test]
async fn a_server_under_another_name_is_not_trusted() {
    let world = world().await;
    let Endpoint::Tcp { port, .. } = world.tcp() else { panic!("the first endpoint is TCP") };
    for trust in [world.trust(), Trust::Pin(world.ca.pin())] {
        let other = Endpoint::Tcp { host: "localhost".to_owned(), port };
        let error = check(&client(&[other], &Credentials::new(trust)), "").await.unwrap_err();
        assert_eq!(error.reason, "SERVER_NOT_TRUSTED", "{error:?}");
    }
}

#[tokio::test]
async fn a_pin_lets_a_node_join_and_a_wrong_one_does_not() {
    let world = world().await;
    for endpoint in &world.endpoints {
        let right = Credentials::new(Trust::Pin(world.ca.pin()));
        check(&client(std::slice::from_ref(endpoint), &right), "").await.unwrap();
        let foreign = Ca::create(CLUSTER, SystemTime::now(), CA_LIFETIME).unwrap();
        let wrong = Credentials::new(Trust::Pin(foreign.pin()));
        let error = check(&client(std::slice::from_ref(endpoint), &wrong), "").await.unwrap_err();
        assert_eq!(error.reason, "SERVER_NOT_TRUSTED", "{error:?}");
    }
}

#[tokio::test]
async fn a_node_s_certificate_cannot_serve() {
    let world = world().await;
    let request = proto_rpc::KeyRequest::generate().unwrap();
    let issued = world.ca.issue(&request.csr_pem, &node(), LEAF_LIFETIME, SystemTime::now()).unwrap();
    world.slot.swap(&issued.chain_pem, &request.key_pem).unwrap();
    for trust in [world.trust(), Trust::Pin(world.ca.pin())] {
        let error = check(&client(&[world.tcp()], &Credentials::new(trust)), "").await.unwrap_err();
        assert_eq!(error.reason, "SERVER_NOT_TRUSTED", "{error:?}");
    }
}

#[tokio::test]
async fn a_swap_reaches_new_handshakes_and_leaves_old_connections_alone() {
    let world = world().await;
    let old = world.client(&node());
    let mut watch = HealthClient::new(old.without_timeout())
        .watch(HealthCheckRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert!(watch.message().await.unwrap().is_some());
    let in_flight = tokio::spawn({
        let old = old.clone();
        async move { check(&old, "wait").await }
    });
    world.probe.entered.notified().await;
    let before = server_certificate(&world).await;

    let next = world.ca.issue_server(&["127.0.0.1".to_owned()], LEAF_LIFETIME, SystemTime::now()).unwrap();
    world.slot.swap(&next.issued.chain_pem, &next.key_pem).unwrap();
    let after = server_certificate(&world).await;
    assert_ne!(before.serial, after.serial);
    assert_eq!(after.serial, next.issued.serial);

    assert!(world.slot.swap("", "").is_err());
    assert_eq!(server_certificate(&world).await.serial, next.issued.serial, "a bad swap changes nothing");
    // The call and the stream may go on, whichever hears it first.
    let both = async {
        in_flight.await.unwrap().unwrap();
        assert!(watch.message().await.unwrap().is_some(), "the old stream lives");
    };
    let go_on = async {
        loop {
            world.probe.go_on.notify_one();
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = both => {}
        () = go_on => {}
    }
    check(&old, "").await.unwrap();
}

#[tokio::test]
async fn a_client_s_renewal_reaches_the_next_connection() {
    let world = world().await;
    let then = SystemTime::now() - Duration::from_secs(7200);
    let slot = issue(&world.ca, &node(), then);
    let credentials = Credentials::new(world.trust()).with_certificate(slot.clone());
    let client = client(&[world.tcp()], &credentials);
    assert_eq!(check(&client, "").await.unwrap_err().reason, "CERTIFICATE_EXPIRED");
    let request = proto_rpc::KeyRequest::generate().unwrap();
    let issued = world.ca.issue(&request.csr_pem, &node(), LEAF_LIFETIME, SystemTime::now()).unwrap();
    slot.swap(&issued.chain_pem, &request.key_pem).unwrap();
    check(&client, "").await.unwrap();
}

async fn server_certificate(world: &World) -> PeerCertificate {
    let config = client_config(&world.trust(), None).unwrap();
    let stream = TcpStream::connect(world.address()).await.unwrap();
    let name = world.tcp().server_name().unwrap();
    let stream = TlsConnector::from(config).connect(name, stream).await.unwrap();
    PeerCertificate::read(&stream.get_ref().1.peer_certificates().unwrap()[0]).unwrap()
}

#[tokio::test]
async fn keys_are_agreed_with_a_post_quantum_hybrid() {
    let world = world().await;
    let config = client_config(&world.trust(), None).unwrap();
    let stream = TcpStream::connect(world.address()).await.unwrap();
    let name = world.tcp().server_name().unwrap();
    let stream = TlsConnector::from(config).connect(name, stream).await.unwrap();
    let group = stream.get_ref().1.negotiated_key_exchange_group().unwrap();
    assert_eq!(group.name(), rustls::NamedGroup::X25519MLKEM768);
}

#[tokio::test]
async fn http1_is_served_over_tls_too() {
    let world = world().await;
    let mut config =
        client_config(&world.trust(), Some(&issue(&world.ca, &node(), SystemTime::now()))).unwrap();
    Arc::get_mut(&mut config).unwrap().alpn_protocols = vec![b"http/1.1".to_vec()];
    let stream = TcpStream::connect(world.address()).await.unwrap();
    let name = world.tcp().server_name().unwrap();
    let mut stream = TlsConnector::from(config).connect(name, stream).await.unwrap();
    let request = b"GET /v1/whoami HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut text = String::new();
    // The peer may end TLS without a close_notify after an answer that is complete.
    let _ = stream.read_to_string(&mut text).await;
    assert!(text.starts_with("HTTP/1.1 200 OK") && text.ends_with("node/n0"), "{text}");
}

#[tokio::test]
async fn tls_1_2_is_refused_by_its_name() {
    let world = world().await;
    let mut stream = TcpStream::connect(world.address()).await.unwrap();
    stream.write_all(&hello_of_tls12()).await.unwrap();
    let mut alert = Vec::new();
    let _ = stream.read_to_end(&mut alert).await;
    // Record type alert (21), level fatal (2), description protocol_version (70).
    assert_eq!((alert.first(), &alert[5..7]), (Some(&21), &[2, 70][..]), "{alert:?}");
    check(&world.client(&node()), "").await.unwrap();
}

/// A well-formed ClientHello that offers TLS 1.2 with ECDHE-ECDSA/RSA-AES128-GCM and nothing newer (RFC 5246).
fn hello_of_tls12() -> Vec<u8> {
    let extensions: &[u8] = &[
        0, 10, 0, 4, 0, 2, 0, 23, // supported_groups: secp256r1
        0, 11, 0, 2, 1, 0, // ec_point_formats: uncompressed
        0, 13, 0, 6, 0, 4, 4, 3, 4, 1, // signature_algorithms: ecdsa and rsa_pkcs1 with SHA-256
    ];
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(0);
    body.extend([0, 4, 0xc0, 0x2b, 0xc0, 0x2f, 1, 0]);
    body.extend(u16::try_from(extensions.len()).unwrap().to_be_bytes());
    body.extend(extensions);
    let mut handshake = vec![1, 0];
    handshake.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
    handshake.extend(body);
    let mut record = vec![22, 3, 1];
    record.extend(u16::try_from(handshake.len()).unwrap().to_be_bytes());
    record.extend(handshake);
    record
}
