//! Standbys on a store in memory: they lead on evidence against the leader that they follow, with all that it wrote.

use std::sync::Arc;

use controller_leader::{Ended, Gone, Handle, Leader, LoopMetrics, Options, Standby, who_leads};
use proto_rpc::Metrics;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{
    store::Moody,
    world::{PATIENCE, World, submit, who},
};

/// A standby at work.
struct Follows {
    gone: mpsc::Sender<Gone>,
    seen: watch::Receiver<Option<Leader>>,
    leads: JoinHandle<(Handle, JoinHandle<Ended>)>,
}

impl Follows {
    async fn begin(store: &Arc<Moody>, place: &[u8]) -> Self {
        let metrics = Metrics::new("test", "0", std::time::SystemTime::UNIX_EPOCH);
        let mut options = Options::new("standby", CancellationToken::new());
        options.endpoints = vec!["https://standby:1".to_owned()];
        options.place = place.to_vec();
        let standby = Standby::begin(store.clone(), options, LoopMetrics::new(&metrics)).await.unwrap();
        let (seen, sees) = watch::channel(None);
        let (gone, mut evidence) = mpsc::channel(4);
        let leads = tokio::spawn(async move { standby.lead(&seen, &mut evidence).await.unwrap() });
        Self { gone, seen: sees, leads }
    }

    async fn follows(&mut self, epoch: u64) {
        let wait = self.seen.wait_for(|seen| seen.as_ref().is_some_and(|leader| leader.epoch == epoch));
        tokio::time::timeout(PATIENCE, wait).await.unwrap().unwrap();
    }

    async fn leads(self) -> Handle {
        tokio::time::timeout(PATIENCE, self.leads).await.unwrap().unwrap().0
    }
}

async fn jobs(handle: &Handle) -> usize {
    handle.query(|state, _| state.jobs(None).count()).await.unwrap()
}

#[tokio::test]
async fn on_evidence_it_leads_with_everything_and_the_former_leader_is_fenced_off() {
    let store = Moody::new(128);
    let world = World::start(store.clone()).await;
    world.join("n0").await;
    let mut follows = Follows::begin(&store, b"").await;
    let epoch = world.handle.epoch();
    follows.follows(epoch).await;
    for n in 0..20 {
        world.handle.apply(&who(), submit(&format!("j{n}"), None)).await.unwrap();
    }
    // Of another leader it says nothing, however often.
    for other in [0, epoch - 1, epoch + 1] {
        follows.gone.send(Gone(other)).await.unwrap();
    }
    world.handle.apply(&who(), submit("more", None)).await.unwrap();
    assert_eq!(world.handle.epoch(), epoch);
    follows.gone.send(Gone(epoch)).await.unwrap();
    let handle = follows.leads().await;
    assert!(handle.epoch() > epoch);
    assert_eq!(jobs(&handle).await, 21);
    world.handle.apply(&who(), submit("late", None)).await.unwrap_err();
    assert_eq!(tokio::time::timeout(PATIENCE, world.running).await.unwrap().unwrap(), Ended::Deposed);
    handle.apply(&who(), submit("next", None)).await.unwrap();
    let leader = who_leads(store.as_ref()).await.unwrap().unwrap();
    assert_eq!(
        (leader.epoch, &leader.endpoints[..]),
        (handle.epoch(), &["https://standby:1".to_owned()][..])
    );
}

#[tokio::test]
async fn of_two_with_the_same_evidence_one_leads_and_the_other_follows_it() {
    let store = Moody::new(128);
    let world = World::start(store.clone()).await;
    world.join("n0").await;
    let epoch = world.handle.epoch();
    let (mut one, mut other) = (Follows::begin(&store, b"").await, Follows::begin(&store, b"").await);
    for follows in [&mut one, &mut other] {
        follows.follows(epoch).await;
    }
    for follows in [&one, &other] {
        follows.gone.send(Gone(epoch)).await.unwrap();
    }
    let done = async {
        tokio::select! { biased; won = &mut one.leads => (won, true), won = &mut other.leads => (won, false) }
    };
    let (won, first) = tokio::time::timeout(PATIENCE, done).await.unwrap();
    let handle = won.unwrap().0;
    let loser = if first { &mut other } else { &mut one };
    loser.follows(handle.epoch()).await;
    assert!(!loser.leads.is_finished());
    handle.apply(&who(), submit("one", None)).await.unwrap();
}

#[tokio::test]
async fn a_lead_that_is_let_go_is_taken_without_evidence() {
    let store = Moody::new(128);
    let world = World::start_with(store.clone(), |options| options.release = true).await;
    world.join("n0").await;
    world.handle.apply(&who(), submit("kept", None)).await.unwrap();
    let mut follows = Follows::begin(&store, b"").await;
    follows.follows(world.handle.epoch()).await;
    world.stop.cancel();
    assert_eq!(tokio::time::timeout(PATIENCE, world.running).await.unwrap().unwrap(), Ended::Asked);
    assert_eq!(jobs(&follows.leads().await).await, 1);
}

#[tokio::test]
async fn a_former_life_in_the_same_folder_is_gone_for_sure() {
    let store = Moody::new(128);
    let world = World::start_with(store.clone(), |options| options.place = b"here".to_vec()).await;
    world.join("n0").await;
    world.handle.apply(&who(), submit("kept", None)).await.unwrap();
    let epoch = world.handle.epoch();
    let mut elsewhere = Follows::begin(&store, b"there").await;
    elsewhere.follows(epoch).await;
    let here = Follows::begin(&store, b"here").await.leads().await;
    assert!(here.epoch() > epoch);
    assert_eq!(jobs(&here).await, 1);
    elsewhere.follows(here.epoch()).await;
}
