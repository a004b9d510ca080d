//! What a healthy fabric and its people do to counters.

use proto_random::Random;

use super::{
    nic::{Nic, Places},
    traffic::LINE,
};

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;

/// Congestion of one rail, for a moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Episode {
    until: u64,
    /// The part of the rate that is left.
    pub left: f64,
    paused: f64,
    marked: f64,
}

/// Where the counters of noise are.
#[derive(Debug, Clone)]
pub struct Counters {
    marked: Option<usize>,
    notified: Option<usize>,
    applied: Option<usize>,
    reorder: Option<usize>,
    lost_out: Option<usize>,
    lost_back: Option<usize>,
    timeout: Option<usize>,
    dead: Option<usize>,
    not_ready: Option<usize>,
    symbols: Option<usize>,
    damaged: Option<usize>,
    stalled: Option<usize>,
    faults: Option<usize>,
    stack_tx: Option<usize>,
    stack_rx: Option<usize>,
}

impl Counters {
    pub fn new(places: &Places) -> Self {
        let named = |names: &[&str]| places.named(names);
        Self {
            marked: named(&["np_ecn_marked_roce_packets", "rx_ecn_marked_pkts"]),
            notified: named(&["np_cnp_sent", "tx_cnp_pkts"]),
            applied: named(&["rp_cnp_handled", "rx_cnp_pkts"]),
            reorder: named(&["out_of_sequence", "oos_drop_count"]),
            lost_out: named(&["packet_seq_err", "seq_err_naks_rcvd"]),
            lost_back: named(&["duplicate_request", "dup_req"]),
            timeout: named(&["local_ack_timeout_err", "to_retransmits"]),
            dead: named(&["req_transport_retries_exceeded", "max_retry_exceeded"]),
            not_ready: named(&["rnr_nak_retry_err", "rnr_naks_rcvd"]),
            symbols: named(&["symbol_error"]),
            damaged: named(&["port_rcv_errors"]),
            stalled: named(&["outbound_pci_stalled_wr_events", "res_rx_pci_err"]),
            faults: named(&["req_cqe_error", "bad_resp_err"]),
            stack_tx: named(&["tx_bytes"]),
            stack_rx: named(&["rx_bytes"]),
        }
    }
}

/// The noise of one server.
#[derive(Debug, Clone)]
pub struct Weather {
    pub counters: Counters,
    episodes: Vec<Episode>,
    /// Rails on which a job was just killed, and until when that shows.
    killed: Vec<(u64, Vec<u32>)>,
    /// The host's own storage traffic: rail, until, bytes a second.
    storage: Option<(u32, u64, f64)>,
    pub gap_until: u64,
}

impl Weather {
    pub fn new(places: &Places, rails: usize) -> Self {
        Self {
            counters: Counters::new(places),
            episodes: vec![Episode { left: 1.0, ..Episode::default() }; rails],
            killed: Vec::new(),
            storage: None,
            gap_until: 0,
        }
    }

    /// Some rails are congested now, each for itself or all together.
    pub fn turn(&mut self, now: u64, random: &mut Random) {
        let all = random.once_in(20.0 * MINUTE);
        for episode in &mut self.episodes {
            if episode.until <= now {
                *episode = Episode { left: 1.0, paused: random.between(0.0, 0.01), ..Episode::default() };
                if all || random.once_in(10.0 * MINUTE) {
                    *episode = Episode {
                        until: now + random.within(500, 5000),
                        left: random.between(0.6, 1.0),
                        paused: random.between(0.0, 0.3),
                        marked: random.between(100.0, 500_000.0),
                    };
                }
            }
        }
        if self.storage.is_none_or(|(_, until, _)| until <= now) {
            let begins = random.once_in(3.0 * HOUR);
            self.storage = begins.then(|| {
                let rail = random.within(0, self.episodes.len() as u64 - 1) as u32;
                (rail, now + random.within(10_000, 120_000), random.between(1e8, 1e9))
            });
        }
        self.killed.retain(|(until, _)| *until > now);
    }

    /// What is left of a rail's rate.
    pub fn left(&self, rail: u32) -> f64 {
        self.episodes[rail as usize].left
    }

    /// A job on these rails was killed, or a peer of it died.
    pub fn kill(&mut self, rails: Vec<u32>, now: u64, random: &mut Random) {
        self.killed.push((now + random.within(1000, 8000), rails));
    }

    /// Moves the counters of noise of one NIC that carried this many bytes in `ms`.
    pub fn touch(
        &self,
        nic: &mut Nic,
        places: &Places,
        now: u64,
        (bytes, ms): (f64, u64),
        random: &mut Random,
    ) {
        let seconds = ms as f64 / 1000.0;
        let at = &self.counters;
        let episode = self.episodes[nic.rail as usize];
        let load = (bytes / (LINE * seconds)).min(1.0);
        if load > 0.01 {
            let us = |share: f64| (share * load * seconds * 1e6) as u64;
            nic.add(places.pause_rx.get(3).copied(), us(episode.paused));
            nic.add(places.pause_tx.get(3).copied(), us(episode.paused * 0.1));
            let marked = (episode.marked * seconds * load) as u64;
            let notified = marked / 8;
            nic.add(at.marked, marked);
            nic.add(at.notified, notified);
            nic.add(at.applied, notified);
            nic.add(places.tx[6], notified * 74);
            nic.add(places.rx[6], notified * 74);
            if random.once_in(5.0 * MINUTE) {
                let lost = random.within(1, 8);
                nic.add(at.lost_out, lost);
                nic.add(at.reorder, lost * 2);
                nic.add(at.lost_back, random.within(0, 2));
                nic.add(at.timeout, if random.once_in(5.0) { random.within(1, 3) } else { 0 });
            }
            if random.once_in(HOUR) {
                nic.add(at.not_ready, random.within(1, 50));
            }
            if random.once_in(HOUR) {
                nic.add(at.stalled, 1);
            }
        }
        if self.killed.iter().any(|(_, rails)| rails.contains(&nic.rail)) {
            nic.add(at.timeout, random.within(10, 500));
            nic.add(at.lost_out, random.within(0, 100));
            nic.add(at.dead, random.within(0, 8));
            nic.add(at.faults, random.within(0, 64));
        }
        if random.once_in(DAY) {
            nic.add(at.symbols, random.within(1, 3));
            nic.add(at.damaged, random.within(1, 5));
        }
        // The host's own small talk, and its storage, which goes through the network stack.
        let mut talk = random.between(1e3, 1e5) * seconds;
        if let Some((_, _, rate)) = self.storage.filter(|(rail, until, _)| *rail == nic.rail && *until > now)
        {
            talk += rate * seconds;
        }
        let framed = (talk * 1.003) as u64;
        for (priority, stack) in [(places.tx[0], at.stack_tx), (places.rx[0], at.stack_rx)] {
            nic.add(priority, framed);
            nic.add(stack, talk as u64);
        }
    }

    /// What people and programs do to a NIC: a driver is reloaded, counters are cleared, a device is renamed.
    pub fn handle(nic: &mut Nic, now: u64, random: &mut Random) {
        if random.once_in(3.0 * DAY) {
            nic.absent_until = now + random.within(3_000, 20_000);
            nic.down_until = nic.absent_until + random.within(0, 8_000);
            nic.life += 1;
            nic.clear();
            if random.once_in(2.0) {
                rename(nic, random);
            }
        }
        if random.once_in(5.0 * DAY) {
            nic.clear();
        }
        if random.once_in(5.0 * DAY) {
            rename(nic, random);
        }
    }
}

fn rename(nic: &mut Nic, random: &mut Random) {
    nic.device = format!("rocep{}s{}", 24 + nic.rail * 16, random.within(0, 9));
}
