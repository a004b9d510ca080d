//! While the store takes no writes: clients are refused with the cause, what agents say is kept, and the loop finds out
//! by itself when it is over.
//!
//! Where the last commit's outcome is not known, the write may still come, and the fence of its epoch would let it in. So
//! the epoch ends first; the lead is taken anew, and only then what is stored is read.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::ControlFlow,
    sync::{PoisonError, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use controller_core::Event;
use controller_election::lead::LeaderReport;
use controller_store::{Op, StoreError, Txn};
use tokio::time::Instant;

use crate::{
    batch::{Batch, is_agents},
    error::Refusal,
    keys,
    leader::{self, Leadership},
    leader_check::send_held,
    loop_state::{Loop, Outage},
    request::{Answer, Request, answer_with},
};

/// First and longest wait between attempts to write again.
const PROBE_FIRST: Duration = Duration::from_millis(200);
const PROBE_LONGEST: Duration = Duration::from_secs(2);
/// What agents said that may wait for the store; beyond it they are made to say everything again.
const HELD: usize = 16_384;

impl Loop {
    pub(crate) fn open_outage(&mut self, error: &StoreError) {
        let reload = !leader::surely_not_stored(error);
        if reload {
            self.leading.lead.report(LeaderReport::Doubt);
        }
        self.begin_outage(error.to_string(), reload, PROBE_FIRST);
    }

    /// The store does not say who leads, so nothing is decided until it takes writes.
    pub(crate) fn leader_check_failed(&mut self, error: &StoreError) {
        self.begin_outage(error.to_string(), false, PROBE_FIRST);
    }

    fn begin_outage(&mut self, cause: String, reload: bool, first: Duration) {
        tracing::error!(%cause, "the store takes no writes: submits are refused, running jobs go on");
        self.leading.leader_check.forget();
        self.refuse_held(&Refusal::Unconfirmed { cause: cause.clone() });
        self.shared.set_cause(Some(cause));
        self.metrics.writable.set(0);
        let next_probe = Instant::now() + first;
        let (held, beats, overflow) = (VecDeque::new(), BTreeMap::new(), false);
        self.outage = Some(Outage { next_probe, wait: PROBE_FIRST, reload, held, beats, overflow });
    }

    /// The leader key is not of this epoch any more: ends where another controller leads. Where nobody does, the lead is
    /// taken anew, and everything read again.
    pub(crate) async fn lost_the_key(&mut self) -> ControlFlow<()> {
        self.lead_again().await?;
        if let Some(outage) = self.outage.as_mut() {
            outage.reload = true;
            return ControlFlow::Continue(());
        }
        let cause =
            "this controller's leader key is gone; it reads everything again before it goes on".to_owned();
        self.begin_outage(cause, true, Duration::ZERO);
        ControlFlow::Continue(())
    }

    /// Refused, with the cause.
    pub(crate) fn unwritable(&self) -> Refusal {
        let cause = self.shared.cause.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Refusal::Unwritable { cause: cause.unwrap_or_default() }
    }

    /// An event while the store takes no writes.
    pub(crate) fn while_unwritable(&mut self, event: Event, answer: Option<Answer>) {
        if let Some(answer) = answer {
            self.metrics.refused.inc(["unwritable"]);
            answer_with(Some(answer), &self.unwritable());
            return;
        }
        if let Event::AgentHeartbeat { node, session } = &event {
            // One that needs no write counts at once. It is said again when the store is back, before anybody looks at
            // who was silent: with what else it brought about it may have been undone.
            let (node, session) = (node.clone(), *session);
            let mut batch = Batch::default();
            self.step_into(&mut batch, event, None);
            if batch.writes.is_empty() {
                self.state.commit(self.shared.revision.load(Ordering::Relaxed));
            } else {
                self.state.rollback();
            }
            if let Some(outage) = self.outage.as_mut() {
                outage.beats.insert(node, session);
            }
            return;
        }
        let Some(outage) = self.outage.as_mut().filter(|_| is_agents(&event)) else { return };
        if outage.held.len() < HELD {
            outage.held.push_back(event);
        } else {
            outage.overflow = true;
        }
    }

    /// Tries whether the store takes writes again; if so, what was held is said now.
    pub(crate) async fn probe(&mut self) -> ControlFlow<()> {
        if self.outage.as_ref().is_none_or(|outage| outage.next_probe > Instant::now()) {
            return ControlFlow::Continue(());
        }
        if !self.lead_again().await? || !self.write_probe().await? || !self.reload_if_unknown().await {
            if let Some(outage) = self.outage.as_mut() {
                outage.wait = (outage.wait * 2).min(PROBE_LONGEST);
                outage.next_probe = Instant::now() + outage.wait;
            }
            return ControlFlow::Continue(());
        }
        let Some(outage) = self.outage.take() else { return ControlFlow::Continue(()) };
        tracing::info!(held = outage.held.len(), "the store takes writes again");
        self.shared.set_cause(None);
        self.metrics.writable.set(1);
        if outage.overflow || outage.reload {
            // They register again and report everything that they know.
            self.sessions.close_all();
        }
        let beats = outage.beats.into_iter().map(|(node, session)| Event::AgentHeartbeat { node, session });
        let said = beats.chain(outage.held);
        let mut round = said.map(|event| Request::Event(Box::new(event), None)).collect();
        Box::pin(self.round(&mut round)).await
    }

    pub(crate) async fn write_probe(&mut self) -> ControlFlow<(), bool> {
        let value = Bytes::copy_from_slice(&self.leading.epoch.to_be_bytes());
        let txn = Txn::new().when(leader::fence(self.leading.epoch)).then(Op::put(keys::PROBE, value));
        let begun = self.clock.now();
        match self.store.txn(txn).await {
            Ok(outcome) if outcome.succeeded => {
                send_held(self.leading.assurance.wrote(begun));
                ControlFlow::Continue(true)
            }
            Ok(_) => {
                self.leading.lead.report(LeaderReport::Fenced);
                self.lost_the_key().await?;
                ControlFlow::Continue(false)
            }
            Err(error) => {
                tracing::debug!(%error, "the store takes no writes");
                if self.outage.is_some() {
                    // Only the end of an outage takes a cause back.
                    self.shared.set_cause(Some(error.to_string()));
                }
                ControlFlow::Continue(false)
            }
        }
    }

    /// Takes the lead anew where its own epoch was ended; false: not yet.
    async fn lead_again(&mut self) -> ControlFlow<(), bool> {
        if self.leading.lead.leads() == Some(self.leading.epoch) {
            return ControlFlow::Continue(true);
        }
        match self.leading.lead.settle(self.store.as_ref(), self.clock.now()).await {
            Ok(Leadership::Leading(epoch)) => {
                tracing::info!(epoch, ended = self.leading.epoch, "leading again, with a new epoch");
                self.leading.epoch = epoch;
                self.shared.epoch.store(epoch, Ordering::Relaxed);
                self.metrics.epoch.set(i64::try_from(epoch).unwrap_or(i64::MAX));
                ControlFlow::Continue(true)
            }
            Ok(Leadership::Following(leader)) => {
                let (epoch, holder) = (self.leading.epoch, self.leading.lead.seen());
                tracing::error!(epoch, leader, holder, "another controller leads: this one stops");
                self.refuse_held(&Refusal::Stopped { cause: "another controller leads" });
                ControlFlow::Break(())
            }
            Ok(Leadership::Contested) => match self.leading.lead.may_lead() {
                Ok(()) => ControlFlow::Continue(false),
                Err(error) => {
                    tracing::error!(%error, "a later release has led meanwhile: this one stops");
                    self.refuse_held(&Refusal::Stopped { cause: "another controller leads" });
                    ControlFlow::Break(())
                }
            },
            Err(error) => {
                tracing::debug!(%error, "the lead cannot be taken anew");
                self.shared.set_cause(Some(error.to_string()));
                ControlFlow::Continue(false)
            }
        }
    }

    async fn reload_if_unknown(&mut self) -> bool {
        if !self.outage.as_ref().is_some_and(|outage| outage.reload) {
            return true;
        }
        match leader::load(
            &self.store,
            &mut self.leading.lead,
            &self.config,
            self.leading.epoch,
            self.clock.now(),
        )
        .await
        {
            Ok((state, revision)) => {
                self.state = state;
                self.shared.revision.store(revision, Ordering::Relaxed);
                true
            }
            Err(error) => {
                tracing::error!(%error, "the store cannot be read back after a failed commit");
                self.shared.set_cause(Some(error.to_string()));
                false
            }
        }
    }
}
