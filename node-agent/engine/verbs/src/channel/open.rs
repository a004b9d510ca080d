//! How a channel is made, and joined with its peer's end.

use std::io;
use std::sync::Arc;

use node_agent_collective::units::{Node, Rail};
use node_agent_engine_transport::carrier::ENTROPY;
use node_agent_ipc::Region;

use super::{Channel, Faults, Objects, Peer, Shape, TELLINGS, request_id};
use crate::ffi;
use crate::objects::{Access, Cq, Depths, MOST_PARTS, Mr, Mw, Pd, Qp, step};
use crate::offer::{MOST_PAIRS, Offer, Pair};
use crate::ring::{Incoming, Outgoing};
use crate::spread;

/// Messages of this many bytes go inline, where the device can: a header alone.
const INLINE: u32 = 128;
/// Hops that packets live.
const HOPS: u8 = 64;
// Windows are bound before there is anything to offer.
const _: () = assert!(MOST_PAIRS <= TELLINGS as usize);

/// What a channel is made on.
pub(crate) struct Ground<'a> {
    pub(crate) pd: &'a Arc<Pd>,
    pub(crate) send: &'a Arc<Cq>,
    pub(crate) receive: &'a Arc<Cq>,
    pub(crate) port: u8,
    /// Whether peers get memory windows, where the device has them.
    pub(crate) windows: bool,
    pub(crate) gid_index: u8,
    pub(crate) gid: [u8; 16],
    pub(crate) mtu: u8,
}

impl Channel {
    /// Makes this end; gives what the peer must know.
    pub(crate) fn open(
        (name, rail, node): (u32, Rail, Node),
        ground: &Ground<'_>,
        shape: Shape,
        entropy: &[u8; ENTROPY],
    ) -> Result<(Self, Offer), String> {
        let bytes = u64::from(shape.slots) * u64::from(shape.slot_bytes);
        let memory = |what| {
            let (region, _file) = Region::create(bytes).map_err(|error| format!("{what}: {error}"))?;
            Ok::<_, String>(region)
        };
        let register = |region: &Arc<Region>, access| {
            Mr::new(ground.pd, Arc::clone(region), access).map(Arc::new).map_err(|error| {
                format!("{bytes} bytes cannot be registered (is the limit of locked memory too low? ulimit -l): {error}")
            })
        };
        let from = register(&Arc::new(memory("memory to send from")?), Access::Send)?;
        let pairs = shape.pairs.clamp(1, MOST_PAIRS);
        let (windows, ring) = open_to_peer(ground, pairs, &Arc::new(memory("ring")?), register)?;
        let depths = Depths { send: shape.depth(), receive: shape.depth(), inline: INLINE };
        let pairs = (0..pairs).map(|_| Qp::new(ground.pd, (ground.send, ground.receive), &ring, depths));
        let pairs: Vec<Qp> = step("a queue pair cannot be made", pairs.collect())?;
        let first_packets: Vec<u32> =
            entropy.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word) & 0xff_ffff).collect();
        let channel = Channel {
            rail,
            node,
            name,
            shape,
            first_packets,
            incoming: Incoming::new(shape.slots, shape.slot_bytes),
            objects: Objects { windows, pairs, from, ring },
            outgoing: None,
            reports: 0,
            parts: Vec::with_capacity(MOST_PARTS),
            blocked: false,
            faults: Faults::default(),
        };
        channel.prepare(ground)?;
        let offer = Offer {
            mtu: ground.mtu,
            slots: shape.slots,
            slot_bytes: shape.slot_bytes,
            address: channel.objects.ring.address(),
            gid: ground.gid,
            pairs: channel
                .objects
                .pairs
                .iter()
                .zip(&channel.first_packets)
                .enumerate()
                .map(|(at, (pair, &first_packet))| {
                    let rkey = channel
                        .objects
                        .windows
                        .get(at)
                        .map_or(channel.objects.ring.keys().1, |window| window.rkey);
                    Pair { number: pair.number(), first_packet, rkey }
                })
                .collect(),
        };
        Ok((channel, offer))
    }

    /// Lets messages come in as soon as the peer is known.
    fn prepare(&self, ground: &Ground<'_>) -> Result<(), String> {
        let attributes = ffi::QpAttr {
            qp_state: ffi::QPS_INIT,
            port_num: ground.port,
            qp_access_flags: ffi::ACCESS_REMOTE_WRITE,
            ..Default::default()
        };
        let mask = ffi::QP_STATE | ffi::QP_PKEY_INDEX | ffi::QP_PORT | ffi::QP_ACCESS_FLAGS;
        for pair in &self.objects.pairs {
            step("a queue pair cannot begin", pair.modify(&attributes, mask))?;
            for _ in 0..self.shape.depth() {
                step("a receive cannot be posted", pair.expect(request_id(self.name, None)))?;
            }
        }
        Ok(())
    }

    /// Joins the peer's end.
    pub(crate) fn join(&mut self, offer: &Offer, ground: &Ground<'_>) -> Result<(), String> {
        if offer.pairs.len() != self.objects.pairs.len() {
            let (here, there) = (self.objects.pairs.len(), offer.pairs.len());
            return Err(format!("{here} queue pairs here and {there} at the peer"));
        }
        let numbers: Vec<(u32, u32)> = self
            .objects
            .pairs
            .iter()
            .map(Qp::number)
            .zip(offer.pairs.iter().map(|pair| pair.number))
            .collect();
        let labels = spread::labels(&numbers);
        for (at, (pair, label)) in self.objects.pairs.iter().zip(labels).enumerate() {
            let Pair { number, first_packet: first, .. } = offer.pairs[at];
            let path = ffi::AhAttr {
                grh: ffi::GlobalRoute {
                    dgid: ffi::Gid(offer.gid),
                    flow_label: label,
                    sgid_index: ground.gid_index,
                    hop_limit: HOPS,
                    traffic_class: self.shape.traffic_class,
                },
                is_global: 1,
                port_num: ground.port,
                ..Default::default()
            };
            self.connect(pair, (number, first), (path, ground.mtu.min(offer.mtu)), self.first_packets[at])?;
        }
        for (window, pair) in self.objects.windows.iter_mut().zip(&self.objects.pairs) {
            step(
                "a memory window cannot be bound",
                pair.bind(window, &self.objects.ring, request_id(self.name, None)),
            )?;
            self.reports += 1;
        }
        let peer = Peer {
            address: offer.address,
            rkeys: offer.pairs.iter().map(|pair| pair.rkey).collect(),
            slots: offer.slots,
            slot_bytes: offer.slot_bytes,
        };
        self.outgoing = Some((peer, Outgoing::new(offer.slots.min(self.shape.slots))));
        Ok(())
    }

    fn connect(
        &self,
        pair: &Qp,
        (number, first): (u32, u32),
        (path, mtu): (ffi::AhAttr, u8),
        own_first: u32,
    ) -> Result<(), String> {
        let mut attributes = ffi::QpAttr {
            qp_state: ffi::QPS_RTR,
            path_mtu: mtu.into(),
            dest_qp_num: number,
            rq_psn: first,
            ah_attr: path,
            min_rnr_timer: 12,
            ..Default::default()
        };
        let mask = ffi::QP_STATE | ffi::QP_AV | ffi::QP_PATH_MTU | ffi::QP_DEST_QPN | ffi::QP_RQ_PSN;
        let mask = mask | ffi::QP_MAX_DEST_RD_ATOMIC | ffi::QP_MIN_RNR_TIMER;
        step("a queue pair cannot be made ready to receive", pair.modify(&attributes, mask))?;
        attributes.qp_state = ffi::QPS_RTS;
        attributes.sq_psn = own_first;
        attributes.timeout = self.shape.timeout;
        attributes.retry_cnt = self.shape.retries;
        attributes.rnr_retry = self.shape.retries;
        let mask = ffi::QP_STATE | ffi::QP_SQ_PSN | ffi::QP_TIMEOUT | ffi::QP_RETRY_CNT;
        let mask = mask | ffi::QP_RNR_RETRY | ffi::QP_MAX_QP_RD_ATOMIC;
        step("a queue pair cannot be made ready to send", pair.modify(&attributes, mask))
    }
}

/// Registers a ring so that its peer can write it: by a window for each queue pair, which is worth nothing to anybody else, and where the
/// device or its driver has none by the key of the ring itself.
fn open_to_peer(
    ground: &Ground<'_>,
    pairs: usize,
    memory: &Arc<Region>,
    register: impl Fn(&Arc<Region>, Access) -> Result<Arc<Mr>, String>,
) -> Result<(Vec<Mw>, Arc<Mr>), String> {
    let windows = || (0..pairs).map(|_| Mw::new(ground.pd)).collect::<io::Result<Vec<_>>>();
    if ground.windows
        && let Ok(windows) = windows()
        && let Ok(ring) = register(memory, Access::Windows)
    {
        return Ok((windows, ring));
    }
    Ok((Vec::new(), register(memory, Access::Written)?))
}
