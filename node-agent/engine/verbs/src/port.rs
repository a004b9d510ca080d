//! The port that a rail has on this server: its device, and what all channels on it share.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::channel::Ground;
use crate::device::{Device, RailPort};
use crate::gid;
use crate::objects::{CompletionChannel, Context, Cq, Pd, step};

/// Entries of a completion queue at least: for a channel of the most queue pairs, and for some that are not given back yet.
pub(crate) const LEAST_ENTRIES: u32 = 512;

/// A device that has failed is looked for after the first of these times, then after twice as long and so on up to the second.
const AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// The port of one rail.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) device: String,
    pub(crate) address: IpAddr,
    /// Nothing while its address is on no port.
    pub(crate) place: Option<RailPort>,
    pub(crate) context: Arc<Context>,
    pub(crate) pd: Arc<Pd>,
    pub(crate) completion_channel: Arc<CompletionChannel>,
    pub(crate) send: Arc<Cq>,
    pub(crate) receive: Arc<Cq>,
    /// How many completions each of the two has room for.
    pub(crate) entries: u32,
    pub(crate) armed: bool,
    /// Whether memory windows are worth an attempt.
    pub(crate) windows: bool,
    /// A completion queue has failed: there have to be new ones.
    pub(crate) spoilt: bool,
    /// The device has failed: nothing of it works any more, and when to look for it again, with the pause before the look after that.
    pub(crate) failed: Option<(Instant, Duration)>,
    /// The device has not said in time that it let go of messages, and nothing since.
    pub(crate) hung: bool,
}

/// The port that has a rail's address, with all that channels on it share.
pub(crate) fn port(devices: &[Device], address: IpAddr, entries: u32) -> Result<Port, String> {
    let found = devices.iter().find_map(|device| Some((device, device.place(address)?)));
    let Some((device, place)) = found else {
        let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        return Err(format!(
            "no RDMA device has {address} as a GID of RoCE v2 (there are {})",
            names.join(", ")
        ));
    };
    let context = &device.context;
    let pd = Arc::new(step("a protection domain cannot be had", Pd::new(context))?);
    let completion_channel =
        Arc::new(step("a completion channel cannot be had", CompletionChannel::new(context))?);
    let (send, receive, entries) = queues(&completion_channel, entries)?;
    Ok(Port {
        device: device.name.clone(),
        address,
        place: Some(place),
        context: Arc::clone(context),
        pd,
        send,
        receive,
        entries,
        completion_channel,
        armed: false,
        windows: true,
        spoilt: false,
        failed: None,
        hung: false,
    })
}

/// Completion queues for what is sent and for what comes in, with as many entries as are asked for or as the device has.
fn queues(
    completion_channel: &Arc<CompletionChannel>,
    mut entries: u32,
) -> Result<(Arc<Cq>, Arc<Cq>, u32), String> {
    loop {
        let queue = || Cq::new(completion_channel, entries).map(Arc::new);
        match queue().and_then(|send| Ok((send, queue()?))) {
            Ok((send, receive)) => return Ok((send, receive, entries)),
            Err(_) if entries > LEAST_ENTRIES => entries = (entries / 2).max(LEAST_ENTRIES),
            Err(error) => return Err(format!("a completion queue cannot be had: {error}")),
        }
    }
}

impl Port {
    /// The device has failed.
    pub(crate) fn fail(&mut self, now: Instant) {
        self.failed.get_or_insert((now + AGAIN.0, AGAIN.0));
    }

    /// Whether it is time to look for a device that has failed. Each look puts the next one off.
    pub(crate) fn checks_again(&mut self, now: Instant) -> bool {
        let Some((at, pause)) = &mut self.failed else { return false };
        if now < *at {
            return false;
        }
        *pause = (*pause * 2).min(AGAIN.1);
        *at = now + *pause;
        true
    }

    /// Whether the completion queues have room for this many more queue pairs, all messages of which may fail at once. Each queue pair
    /// holds its queues, also while it waits to be given back.
    pub(crate) fn room(&self, pairs: usize, depth: u32) -> Result<(), String> {
        let (there, most) = (Arc::strong_count(&self.send) - 1, (self.entries / depth) as usize);
        if there + pairs <= most {
            return Ok(());
        }
        Err(format!(
            "{} has completion queues for {most} queue pairs, and {there} are there or not given back yet",
            self.device
        ))
    }

    /// New completion queues for those that failed; what is left of these goes with their queue pairs.
    pub(crate) fn remediate(&mut self) {
        match queues(&self.completion_channel, self.entries) {
            Ok((send, receive, entries)) => {
                tracing::warn!(device = self.device, "completion queues have failed, there are new ones");
                (self.send, self.receive, self.entries) = (send, receive, entries);
                (self.armed, self.spoilt) = (false, false);
            }
            Err(why) => tracing::debug!(device = self.device, why, "no new completion queues"),
        }
    }

    /// What a channel is made on now.
    pub(crate) fn ground(&self) -> Result<Ground<'_>, String> {
        let place =
            self.place.ok_or_else(|| format!("{} has no GID of {} now", self.device, self.address))?;
        let device = Device { name: self.device.clone(), context: Arc::clone(&self.context) };
        let (mtu, up) = device.port(place.port)?;
        if !up {
            return Err(format!("the port of {} is down", self.device));
        }
        Ok(Ground {
            pd: &self.pd,
            send: &self.send,
            receive: &self.receive,
            port: place.port,
            windows: self.windows,
            gid_index: place.index,
            gid: gid::of_address(self.address).0,
            mtu,
        })
    }
}
