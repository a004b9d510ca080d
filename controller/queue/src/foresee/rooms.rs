//! What is free over time in the forecast's virtual cluster: GPUs, and licenses.

use std::{sync::Arc, time::Duration};

use proto_model::Timestamp;

use crate::{
    entry::Entry,
    grid::{Grid, NEVER},
    row::Row,
};

/// What is free at each step: a row for GPUs, and one for each license.
pub(super) struct Rooms {
    gpus: Row,
    licenses: Vec<Row>,
}

impl Rooms {
    /// What is free now, and what is given back at the ends of those that run, by step.
    pub(super) fn new<'a>(free: i32, licenses: &[i32], ends: impl Iterator<Item = (usize, &'a Run)>) -> Self {
        let row = |free: i32| {
            let mut row = Row::default();
            row.note(0, NEVER, free);
            row
        };
        let mut rooms = Self { gpus: row(free), licenses: licenses.iter().map(|free| row(*free)).collect() };
        for (end, run) in ends {
            rooms.gpus.note(end, NEVER, run.gpus);
            for (at, count) in run.licenses.iter() {
                rooms.licenses[*at].note(end, NEVER, *count);
            }
        }
        rooms.gpus.sum_up();
        rooms.licenses.iter_mut().for_each(Row::sum_up);
        rooms
    }

    /// The end of the last part of a range in which there is too little for a job.
    pub(super) fn last_miss(&self, fore: &Fore<'_>, from: usize, to: usize) -> Option<usize> {
        let licenses = fore.licenses.iter();
        let licenses = licenses.filter_map(|(at, count)| self.licenses[*at].last_below(from, to, *count));
        licenses.chain(self.gpus.last_below(from, to, fore.gpus)).max()
    }

    /// A job holds what it asks for over a range of steps.
    pub(super) fn take(&mut self, fore: &Fore<'_>, from: usize, to: usize) {
        self.gpus.add(from, to, -fore.gpus);
        for (at, count) in fore.licenses.iter() {
            self.licenses[*at].add(from, to, -count);
        }
    }

    /// Keeps room for a job at the first time at which it fits.
    pub(super) fn promise(&mut self, grid: &Grid, fore: &Fore<'_>) {
        let mut step = 1;
        while let Some(found) = self.gpus.first_with(step, fore.gpus) {
            let end = grid.end(found, fore.limit);
            match self.last_miss(fore, found, end) {
                None => {
                    self.take(fore, found, end);
                    return;
                }
                Some(NEVER) => return,
                Some(enough) => step = enough,
            }
        }
    }
}

/// A job on its way.
#[derive(Clone)]
pub(crate) struct Fore<'a> {
    pub(crate) entry: &'a Arc<Entry>,
    pub(crate) gpus: i32,
    /// What is promised reckons with this.
    pub(crate) limit: Duration,
    /// Limits that concern it.
    pub(crate) quotas: Arc<[usize]>,
    /// Licenses that it asks for, with how many.
    pub(crate) licenses: Licenses,
}

/// A job that runs.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) gpus: i32,
    pub(crate) end: Timestamp,
    pub(crate) quotas: Arc<[usize]>,
    pub(crate) licenses: Licenses,
}

/// Licenses by number, with how many of each.
pub(crate) type Licenses = Arc<[(usize, i32)]>;
