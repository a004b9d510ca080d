//! Callers without an identity: what they leave in the audit log however many they are, and what is theirs of the API.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use controller_api::{authz::Rpc, handshake};
use proto_audit::{ANONYMOUS, Content, Log, Record, verify};
use proto_rpc::{
    ErrorClass, Identity, RefusedPeer, Role, Token, TokenKind, listen::PeerAddress, seal::CaKey,
};
use proto_wire::v1::{
    self, audit_service_client::AuditServiceClient, job_service_client::JobServiceClient,
    tenant_service_client::TenantServiceClient,
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::{roles, world::World};

async fn export(world: &World) -> Vec<Record> {
    let mut audit = AuditServiceClient::new(world.admin());
    let mut stream = audit.export_audit_records(v1::ExportAuditRecordsRequest {}).await.unwrap().into_inner();
    let mut records = Vec::new();
    while let Some(record) = stream.message().await.unwrap() {
        records.push(Record::try_from(record).unwrap());
    }
    records
}

fn tenant(name: &str) -> v1::ApplyTenantRequest {
    let metadata = v1::Metadata { name: name.to_owned(), ..v1::Metadata::default() };
    let spec = Some(v1::TenantSpec::default());
    let tenant = v1::Tenant { metadata: Some(metadata), spec, ..v1::Tenant::default() };
    v1::ApplyTenantRequest { tenant: Some(tenant), ..Default::default() }
}

/// All calls, by many connections at once, for some seconds, while an administrator works.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_anonymous_denials_leaves_few_records_and_every_change() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let (begin, time) = (Instant::now(), Duration::from_secs(3));
    // So many that not each of them can have a record of its own.
    let (least, all) = (51, Arc::new(AtomicU64::new(0)));
    let floods: Vec<_> = (0..24)
        .map(|n| {
            let mut client = world.client(&Identity::Anonymous).with_timeout(Duration::from_secs(60));
            let all = Arc::clone(&all);
            tokio::spawn(async move {
                let mut refused = 0_u64;
                for rpc in Rpc::ALL.iter().cycle().skip(n * 7) {
                    let enough = all.load(Ordering::Relaxed) >= least || begin.elapsed() > 20 * time;
                    if begin.elapsed() > time && enough {
                        return refused;
                    }
                    let outcome = roles::bare(&mut client, rpc.path(), vec![0, 0, 0, 0, 0]).await;
                    let denied = |class| matches!(class, ErrorClass::Denied | ErrorClass::Unauthenticated);
                    let one = u64::from(outcome.is_err_and(|error| denied(error.class)));
                    all.fetch_add(one, Ordering::Relaxed);
                    refused += one;
                }
                refused
            })
        })
        .collect();
    let mut tenants = TenantServiceClient::new(world.admin());
    for n in 0..20 {
        tenants.apply_tenant(tenant(&format!("t{n}"))).await.unwrap();
    }
    let mut reported = 0;
    for flood in floods {
        reported += flood.await.unwrap();
    }
    let seconds = begin.elapsed().as_secs() + 1;
    let records = export(&world).await;
    let key = CaKey::of_pem(&world.ca.certificate_pem()).unwrap();
    let sum = verify(&records, |message, signature| key.has_signed(message, signature)).unwrap();
    let denials = records.iter().filter_map(|record| match &record.content {
        Content::Denial(denial) => {
            assert_eq!((record.log, denial.actor.who.as_str()), (Log::Denials, ANONYMOUS));
            Some(denial.count)
        }
        _ => None,
    });
    let denials: Vec<u64> = denials.collect();
    assert_eq!(denials.iter().sum::<u64>(), reported, "each denial that was told is recorded or counted");
    assert!(reported >= least, "{reported}");
    assert!(denials.len() as u64 <= 32 + 9 * seconds, "{} records in {seconds} s", denials.len());
    let made = records.iter().filter(|record| match &record.content {
        Content::Change(change) => change.object.kind == "tenant" && change.object.name.starts_with('t'),
        _ => false,
    });
    assert_eq!(made.count(), 20);
    assert_eq!((sum.changes.unsigned, sum.denials.unsigned), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bearer_that_is_wrong_is_refused_beside_a_certificate_too() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut tenants = TenantServiceClient::new(world.admin());
    let ask = v1::IssueTokenRequest {
        tenant: "default".into(),
        user: "bot".into(),
        role: v1::Role::Viewer.into(),
        lifetime: None,
    };
    let good = tenants.issue_token(ask).await.unwrap().into_inner().token;
    let mut forged = good.clone().into_bytes();
    let last = forged.last_mut().unwrap();
    *last = if *last == b'0' { b'1' } else { b'0' };
    let ann = Identity::user("default", "ann", [Role::User]).unwrap();
    let with = |token: &[u8]| {
        let token = Token::parse(TokenKind::User, std::str::from_utf8(token).unwrap()).unwrap();
        world.client_with(&world.credentials_of(&ann).with_token(token))
    };
    let list = v1::ListJobsRequest::default;
    let refused = JobServiceClient::new(with(&forged)).list_jobs(list()).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unauthenticated, "{refused}");
    // With a good one the certificate counts: a viewer could not cancel.
    let mut both = JobServiceClient::new(with(good.as_bytes()));
    both.list_jobs(list()).await.unwrap();
    let cancel = v1::CancelJobRequest { name: "x".into(), ..v1::CancelJobRequest::default() };
    assert_eq!(both.cancel_job(cancel).await.unwrap_err().code(), tonic::Code::NotFound);
    let records = export(&world).await;
    let denial = records.iter().find_map(|record| match &record.content {
        Content::Denial(denial) => Some(denial),
        _ => None,
    });
    let denial = denial.unwrap();
    assert_eq!(denial.reason, "BAD_TOKEN");
    assert_eq!(denial.actor.who, world.bound(&ann).to_uri(crate::world::CLUSTER).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_handshakes_are_recorded_within_the_budget_of_anonymous_callers() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let shown = Some(("0a1b".to_owned(), "spiffe://rail/test/node/n7".to_owned()));
    let peer = RefusedPeer {
        address: PeerAddress::Tcp("192.0.2.7:4711".parse().unwrap()),
        reason: "CERTIFICATE_REVOKED",
        shown,
    };
    for _ in 0..100 {
        let (handle, peer) = (world.handle.clone(), peer.clone());
        tokio::spawn(async move { handshake::record(&handle, &peer).await });
    }
    // Those beyond the budget are counted, and recorded together when there is some again.
    let begin = Instant::now();
    let denials = loop {
        let records = export(&world).await.into_iter();
        let denials = records.filter_map(|record| match record.content {
            Content::Denial(denial) => Some(denial),
            _ => None,
        });
        let denials: Vec<_> = denials.collect();
        let count: u64 = denials.iter().map(|denial| denial.count).sum();
        if count >= 100 {
            assert_eq!(count, 100);
            break denials;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{count} of 100 are recorded");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(denials.len() < 60, "{}", denials.len());
    let first = &denials[0];
    assert_eq!((first.actor.rpc.as_str(), first.reason.as_str()), ("Handshake", "CERTIFICATE_REVOKED"));
    assert!(
        first.detail.contains("serial number 0a1b") && first.detail.contains("node/n7"),
        "{}",
        first.detail
    );
    assert_eq!(first.actor.source, "192.0.2.7:4711");
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_of_the_health_are_few_without_an_identity() {
    let dir = tempfile::tempdir().unwrap();
    let fair = controller_api::fair::FairLimits {
        anonymous_streams: 8,
        ..controller_api::fair::FairLimits::default()
    };
    let store = std::sync::Arc::new(controller_store::MemoryStore::default());
    let world = World::start_with(dir.path(), store, fair).await;
    let watch = async |identity: &Identity| {
        let mut health = HealthClient::new(world.client(identity).without_timeout());
        let mut stream = health.watch(HealthCheckRequest::default()).await?.into_inner();
        stream.message().await.map(|_| stream)
    };
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(watch(&Identity::Anonymous).await.unwrap());
    }
    let refused = watch(&Identity::Anonymous).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted, "{refused}");
    // Single questions are answered, and others watch.
    let mut health = HealthClient::new(world.client(&Identity::Anonymous));
    health.check(HealthCheckRequest::default()).await.unwrap();
    for identity in [Identity::admin("root").unwrap(), Identity::node("n0").unwrap()] {
        held.push(watch(&identity).await.unwrap());
    }
}
