//! Certification of a gang between "every engine listens" and rank 0: the nodes measure, and ranks wait for the word.
//!
//! Nothing of it is stored but the word itself, and that all is measured a second time: what nodes have measured they tell again, and
//! the plan follows from the attempt, so that a new leader comes to the same verdict.

use std::sync::Arc;

use controller_certify::{Certificate, RailSummary, Subject, Verdict};
use controller_state::{
    Attempt, Blame, JobEntry, gang,
    view::job::certify::{Judged, policy},
};
use proto_model::{Certification, JobUid, Reason, ReasonCode};

use crate::{context::Step, event::Certified};

/// Findings that one job tells at most.
const REPORTED: usize = 8;
/// GIDs that one rail tells at most.
const GIDS: usize = 8;

impl Step<'_> {
    /// Lets the ranks of a gang start, or ends its attempt, once all is measured or the time for that is over (`late`).
    pub(crate) fn certify(&mut self, uid: JobUid, late: bool) {
        let Some(entry) = self.entry(uid) else { return };
        let held = entry.attempt.as_ref().is_some_and(|at| !at.released && at.ending.is_none());
        if !held {
            return;
        }
        if entry.tally.started > 0 {
            // An agent that does not know how to wait; or the word was given, and is not known any more.
            return self.release(uid, Vec::new());
        }
        // Nobody can measure more than has been measured.
        let certificate = match self.state.judged(&entry, late) {
            Judged::Open => return,
            Judged::Again => return self.measure_again(entry),
            Judged::Over(certificate) => certificate,
        };
        let remaps = match &certificate.verdict {
            Verdict::Remap(remaps) => remaps.as_slice(),
            _ => &[],
        };
        self.note_cables(&entry, &certificate, remaps);
        let require = policy(&entry, &self.state.config) == Certification::Require;
        if require && !remaps.is_empty() && self.remap(uid, &entry, remaps) {
            return self.out.certified.push(Certified::Remapped);
        }
        let well = certificate.verdict == Verdict::Certified;
        if require && !well {
            self.out.certified.push(Certified::Refused);
            let causes = self.causes(&entry, &certificate);
            return self.fail(uid, Blame::Infrastructure, causes);
        }
        self.out.certified.push(if well { Certified::Well } else { Certified::Warned });
        let reasons = self.words(&entry, &certificate);
        self.release(uid, reasons);
    }

    /// Has a gang of which something only looks slow or lossy measure all a second time.
    fn measure_again(&mut self, mut entry: JobEntry) {
        let Some(attempt) = entry.attempt.clone() else { return };
        let uid = entry.job.uid;
        entry.attempt = Some(Arc::new(Attempt { again: true, ..(*attempt).clone() }));
        entry.due = Some(self.now.plus(self.state.certify_limit(&entry)));
        self.state.set_job(uid, Some(entry));
        self.push_desired(uid);
    }

    fn release(&mut self, uid: JobUid, reasons: Vec<Reason>) {
        let Some(mut entry) = self.entry(uid) else { return };
        let Some(attempt) = entry.attempt.clone() else { return };
        for (position, _) in gang(&entry) {
            let view = self.state.base.views.get(&(uid, position)).filter(|view| view.measured.is_some());
            if let Some(mut view) = view.cloned() {
                view.measured = None;
                self.state.set_view((uid, position), Some(view));
            }
        }
        let Some(fresh) = self.entry(uid) else { return };
        entry.tally = fresh.tally;
        entry.attempt = Some(Arc::new(Attempt { released: true, ..(*attempt).clone() }));
        entry.due = Some(self.now.plus(self.state.config.start_timeout));
        if !reasons.is_empty() {
            self.change(&mut entry, |status| {
                if let Some(placement) = &mut status.placement {
                    Arc::make_mut(placement).reasons.extend(reasons.iter().cloned());
                }
                status.reasons.extend(reasons);
            });
        }
        self.state.set_job(uid, Some(entry));
        self.push_desired(uid);
    }

    /// Why an attempt cannot go on: what is wrong, each with the node that it names.
    fn causes(&self, entry: &JobEntry, certificate: &Certificate) -> Vec<Reason> {
        let placement = entry.job.status.placement.as_ref();
        let cause = |finding: &controller_certify::Finding| {
            let node = match finding.place {
                Subject::Node(node) => placement.and_then(|place| place.nodes.get(node as usize)),
                _ => None,
            };
            let message = format!("{}: {}", finding.kind.code(), finding.reason.message);
            let cause =
                Reason::new(ReasonCode::NotCertified, message).count(finding.rails.len()).since(self.now);
            match node {
                Some(place) => cause.scope(format!("node/{}", place.node)),
                None => cause,
            }
        };
        certificate.findings.iter().take(REPORTED).map(cause).collect()
    }

    /// The certificate as reasons of the placement.
    fn words(&self, entry: &JobEntry, certificate: &Certificate) -> Vec<Reason> {
        let name = |node: u32| {
            let place = entry.job.status.placement.as_ref().and_then(|place| place.nodes.get(node as usize));
            place.map_or_else(String::new, |place| place.node.to_string())
        };
        let (code, verdict) = match certificate.verdict {
            Verdict::Certified => (ReasonCode::Certified, "nothing is wrong"),
            _ => (ReasonCode::NotCertified, "something is wrong, and the ranks start all the same"),
        };
        let again = entry.attempt.as_ref().is_some_and(|attempt| attempt.again);
        let message = format!(
            "before the ranks started, {} of {} pairs and rails were measured{}: {verdict}",
            certificate.measured,
            certificate.planned,
            if again { ", all of them twice" } else { "" }
        );
        let whole = Reason::new(code, message).count(certificate.findings.len()).since(self.now);
        let rail = |rail: &RailSummary| {
            Reason::new(ReasonCode::RailCertified, rail_words(rail, &name))
                .scope(format!("rail/{}", rail.rail))
                .since(self.now)
        };
        let findings =
            certificate.findings.iter().take(REPORTED).map(|finding| finding.reason.clone().since(self.now));
        let once = |finding: &controller_certify::Finding| {
            let message = format!(
                "measured a second time it was not found again, and counts for nothing: {}",
                finding.reason.message
            );
            Reason::new(ReasonCode::NotConfirmed, message).count(finding.rails.len()).since(self.now)
        };
        let once = certificate.unconfirmed.iter().take(REPORTED).map(once);
        let rails = certificate.rails.iter().take(64).map(rail);
        let blind = certificate.unobserved.iter().map(|reason| reason.clone().since(self.now));
        let placement = entry.job.status.placement.as_deref();
        let leaves = placement.map(|placement| self.state.leaves_read_back(placement, self.now));
        let leaves = leaves.unwrap_or_default().into_iter().take(64);
        [whole].into_iter().chain(findings).chain(once).chain(rails).chain(leaves).chain(blind).collect()
    }
}

fn rail_words(rail: &RailSummary, name: &dyn Fn(u32) -> String) -> String {
    let number = |value: Option<u32>| value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
    let worst =
        rail.worst.map_or_else(String::new, |(from, to)| format!(" ({} to {})", name(from), name(to)));
    let mut gids: Vec<String> = rail
        .gids
        .iter()
        .take(GIDS)
        .map(|(node, index, gid)| format!("{} {gid} (index {index})", name(*node)))
        .collect();
    gids.extend((rail.gids.len() > GIDS).then(|| "...".to_owned()));
    let gids =
        if gids.is_empty() { String::new() } else { format!("; GIDs for RoCE v2: {}", gids.join(", ")) };
    format!(
        "rail {}: {} pairs; Mbit/s: median {}, least {}{worst}; MTU {}; round trip {} us; {} of {} packets lost{gids}",
        rail.rail,
        rail.pairs,
        number(rail.median_mbps),
        number(rail.least_mbps),
        number(rail.mtu),
        number(rail.rtt_us),
        rail.lost,
        rail.sent
    )
}
