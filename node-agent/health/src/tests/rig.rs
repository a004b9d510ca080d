//! Some rails with a few counters, looked at once a second, that tests of this crate move by hand.

use std::sync::Arc;

use proto_model::{JobUid, Timestamp};

use crate::{
    Change, Condition, Config, CounterKind, Event, JobUse, Layout, PortKey, Sample, Severity, Source, State,
    Vendor, Verdict, step,
};

pub(super) const SECOND: u64 = 1000;
pub(super) const GIB: u64 = 1 << 30;

/// Some rails with a few counters, looked at once a second.
pub(super) struct Rig {
    pub(super) state: State,
    pub(super) layout: Arc<Layout>,
    pub(super) keys: Vec<PortKey>,
    pub(super) values: Vec<Vec<Option<u64>>>,
    pub(super) links: Vec<bool>,
    pub(super) device: String,
    pub(super) life: u64,
    pub(super) now: u64,
}

impl Rig {
    pub(super) fn new(rails: usize, config: Config) -> Self {
        let priorities = (0..8).flat_map(|p| {
            ["tx_prio{p}_bytes", "rx_prio{p}_bytes", "rx_prio{p}_pause_duration", "tx_prio{p}_pause_duration"]
                .map(|name| (Source::Ethtool, name.replace("{p}", &p.to_string())))
        });
        let hardware = ["packet_seq_err", "local_ack_timeout_err", "out_of_sequence", "np_cnp_sent"]
            .map(|name| (Source::Hardware, name.to_owned()));
        let other = [
            (Source::Hardware, "np_ecn_marked_roce_packets".to_owned()),
            (Source::Port, "symbol_error".to_owned()),
            (Source::Port, "link_downed".to_owned()),
            (Source::Netdev, "tx_bytes".to_owned()),
        ];
        let names: Vec<(Source, String)> = priorities.chain(hardware).chain(other).collect();
        let layout = Layout::new(Vendor::Mlx5, names.iter().map(|(source, name)| (*source, name.as_str())));
        let key = |rail: usize| PortKey {
            pci_address: format!("0000:{rail:02x}:00.0"),
            guid: String::new(),
            port: 1,
        };
        let mut rig = Self {
            state: State::new(config),
            keys: (0..rails).map(key).collect(),
            values: vec![vec![Some(1000); layout.columns().len()]; rails],
            links: vec![true; rails],
            layout: Arc::new(layout),
            device: "mlx5".to_owned(),
            life: 1,
            now: 1_000_000_000_000,
        };
        // Past every grace.
        rig.second();
        rig.now += 3600 * SECOND;
        rig.second();
        rig
    }

    pub(super) fn add(&mut self, rail: usize, name: &str, by: u64) {
        let at = self.layout.columns().iter().position(|column| column.name == name).unwrap();
        let value = self.values[rail][at].as_mut().unwrap();
        *value += by;
    }

    pub(super) fn check(&mut self, rail: usize) {
        let sample = Sample {
            port: &self.keys[rail],
            at: Timestamp(self.now),
            device: &self.device,
            rail: rail as u32,
            life: self.life,
            link: Some(self.links[rail]),
            speed_mbps: 400_000,
            layout: &self.layout,
            values: &self.values[rail],
        };
        assert_eq!(step(&mut self.state, &Event::Sample(sample), Timestamp(self.now)), []);
    }

    pub(super) fn round(&mut self) -> Vec<(u32, Condition, Change, Severity)> {
        let verdicts = step(&mut self.state, &Event::Round, Timestamp(self.now));
        let rail = |verdict| match verdict {
            Verdict::Rail(one) => Some((one.rail, one.condition, one.change, one.held.severity)),
            Verdict::Node { .. } | Verdict::Probe { .. } => None,
        };
        verdicts.into_iter().filter_map(rail).collect()
    }

    pub(super) fn second(&mut self) -> Vec<(u32, Condition, Change, Severity)> {
        self.now += SECOND;
        for rail in 0..self.keys.len() {
            self.check(rail);
        }
        self.round()
    }

    /// So many seconds in which `each` moves counters; all verdicts.
    pub(super) fn seconds(
        &mut self,
        n: u64,
        mut each: impl FnMut(&mut Self),
    ) -> Vec<(u32, Condition, Change, Severity)> {
        (0..n)
            .flat_map(|_| {
                each(self);
                self.second()
            })
            .collect()
    }

    pub(super) fn event(&mut self, event: &Event<'_>) -> Vec<Verdict> {
        step(&mut self.state, event, Timestamp(self.now))
    }

    pub(super) fn total(&self, rail: usize, word: CounterKind) -> u64 {
        self.state.port(&self.keys[rail]).unwrap().totals[word]
    }
}

pub(super) fn rig(rails: usize) -> Rig {
    Rig::new(rails, Config::default())
}

pub(super) fn job(rails: std::ops::Range<u32>) -> Event<'static> {
    job_in(rails, 3, 6)
}

/// Its data on one priority, its notifications on another.
pub(super) fn job_in(rails: std::ops::Range<u32>, lossless: u8, cnp: u8) -> Event<'static> {
    let rails = rails.collect();
    Event::Jobs(vec![JobUse { job: JobUid::from_random([7; 16]), rails, lossless, cnp }])
}
