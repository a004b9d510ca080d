//! The counters of one port between two samples: what they were, and by how much they moved.

use std::sync::Arc;

use proto_model::Timestamp;

use crate::{
    counter_kind::{CounterKind, PerWord},
    delta::{Delta, delta},
    judge::flap::Places,
    layout::Layout,
    sample::Sample,
};

/// The last sample, and what it added to the one before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters {
    layout: Option<Arc<Layout>>,
    /// Where counters of the link are in the layout.
    pub(crate) places: Places,
    life: u64,
    /// When the port was read last.
    pub(crate) seen_at: Timestamp,
    values: Vec<Option<(u64, Timestamp)>>,
    deltas: Vec<Option<u64>>,
    /// Deltas that cover samples before the last one as well.
    longer: Vec<bool>,
}

impl Counters {
    /// There was a sample before.
    pub(crate) fn is_known(&self) -> bool {
        self.layout.is_some()
    }

    /// There is a counter of that kind.
    pub(crate) fn counts(&self, kind: CounterKind) -> bool {
        self.layout.as_ref().is_some_and(|layout| layout.places(kind).next().is_some())
    }

    /// The sample is the first, or the first since its counters began anew.
    pub(crate) fn begins(&self, sample: &Sample<'_>) -> bool {
        !self.is_known() || self.life != sample.life
    }

    /// Brings the tables into the form of the sample's layout; true if that is another than before.
    pub(crate) fn adopt(&mut self, sample: &Sample<'_>, begins: bool) -> bool {
        self.life = sample.life;
        if begins {
            self.values.iter_mut().for_each(|value| *value = None);
            self.deltas.iter_mut().for_each(|delta| *delta = None);
        }
        if self.layout.as_ref().is_some_and(|layout| Arc::ptr_eq(layout, sample.layout)) {
            return false;
        }
        let columns = sample.layout.columns();
        let old = self.layout.replace(sample.layout.clone());
        if old.as_deref() == Some(&**sample.layout) {
            return false;
        }
        // A counter that has another name or place now goes on.
        let place = |column| old.as_ref()?.columns().iter().position(|other| other.is_same(column));
        self.values =
            columns.iter().map(|column| self.values.get(place(column)?).copied().flatten()).collect();
        self.deltas = vec![None; columns.len()];
        self.longer = vec![false; columns.len()];
        self.places = Places::of(sample.layout);
        true
    }

    /// Takes the values without asking how they moved.
    pub(crate) fn remember(&mut self, sample: &Sample<'_>) {
        for (value, known) in sample.values.iter().zip(&mut self.values) {
            if let Some(value) = value {
                *known = Some((*value, sample.at));
            }
        }
    }

    /// Deltas of all counters. Where one was reset, all may have been: one that seems to have wrapped perhaps has not.
    pub(crate) fn advance(&mut self, sample: &Sample<'_>, elapsed_ms: u64, totals: &mut PerWord<u64>) {
        let now = sample.at;
        let (mut wrapped, mut restarted) = (false, false);
        let each =
            sample.layout.columns().iter().zip(sample.values).zip(&mut self.values).zip(&mut self.deltas);
        for ((((column, value), known), said), longer) in each.zip(&mut self.longer) {
            *said = None;
            let Some(value) = *value else { continue };
            let Some((old, at)) = known.replace((value, now)) else { continue };
            *longer = now.0.saturating_sub(at.0) > elapsed_ms;
            match delta(old, value, column.row.bits, now.0.saturating_sub(at.0)) {
                Delta::On(on) => *said = Some(on),
                Delta::Wrapped(on) => (*said, wrapped) = (Some(on), true),
                Delta::Restarted => restarted = true,
            }
            if let Some(on) = said.as_mut().filter(|on| **on > 0) {
                *on = on.saturating_mul(u64::from(column.row.scale));
            }
        }
        if restarted && wrapped {
            // Of this sample nothing is sure.
            self.deltas.iter_mut().for_each(|delta| *delta = None);
        }
        for (column, delta) in sample.layout.columns().iter().zip(&self.deltas) {
            if let Some(delta) = delta.filter(|delta| *delta > 0) {
                let total = &mut totals[column.row.word];
                *total = total.saturating_add(delta);
            }
        }
    }

    /// The deltas of the last sample, and which of them cover more; to be given back.
    pub(crate) fn take_deltas(&mut self) -> (Vec<Option<u64>>, Vec<bool>) {
        (std::mem::take(&mut self.deltas), std::mem::take(&mut self.longer))
    }

    pub(crate) fn give_deltas(&mut self, deltas: Vec<Option<u64>>, longer: Vec<bool>) {
        (self.deltas, self.longer) = (deltas, longer);
    }
}
