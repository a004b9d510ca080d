//! One link: one rail to one peer. Its lives, what is on its way on it, and how fast it serves.
//!
//! A link lives as long as its connection; each life has a *generation*, and whatever names another one is of the past.
//! Within a life, counted frames have numbers without a gap, and bytes handed to it count as on their way until the peer has
//! acknowledged them: so what sits in socket buffers and switches is known, bounded by the window, and the service rate is
//! measured, by when the peer said that it has them rather than by when that word came ([`way`]): it may have waited behind the peer's own
//! data. When a life ends, the peer's last word on how many frames it took ([`UnackedGeneration`]) decides what is sent again.

#[cfg(test)]
mod digest;
pub(crate) mod way;

use std::collections::VecDeque;

use crate::error::{FrameError, RailCause};
use crate::link::way::PathEstimate;
use crate::units::Time;

/// Weight of a sample in the rate that tells equal rails from others.
const STEADY: f64 = 0.0625;
/// A rate that was not measured again for this long is unknown.
const RATE_AGE: Time = Time::from_millis(500);
/// Frames smaller than this say more of delays than of rates.
const MEASURED_FROM: u64 = 16 << 10;
/// A rate sample is of this many bytes in no less than [`SAMPLE_TIME`], or of four times that time: a link that is as fast
/// as the processor is measured over many of the processor's pauses.
const SAMPLE: u64 = 256 << 10;
/// The least time that a rate sample takes; see [`SAMPLE`].
const SAMPLE_TIME: Time = Time::from_millis(10);
/// The rate that rails are chosen and bounded by is the greatest of the last one to two of these times, each over so much busy time,
/// unless the rate is by now less than this part of it. Acknowledgements wait behind what goes the other way and come in heaps: what
/// follows each of them takes a link for slow that merely has little on its way, gives it less, and never learns better.
const PEAK_AGE: Time = Time::from_secs(1);
/// The busy time that each of these rates is measured over; see [`PEAK_AGE`].
const PEAK_OVER: Time = Time::from_millis(100);
/// The part of the greatest rate below which the present rate counts instead; see [`PEAK_AGE`].
const PEAK_PART: f64 = 0.25;
/// Of the longest silence of a link's life, so much counts for the next: what was dark and is dark again soon must not keep others
/// waiting for long.
const INHERITED: Time = Time::from_millis(45);
/// Longest silence that a link which owes an acknowledgement is given, however slow it was before.
const MOST_PATIENCE: Time = Time::from_secs(2);

/// How a link stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Not connected: it carries nothing.
    #[default]
    Down,
    /// Connected again, and not proved yet: it carries no data.
    Proving,
    /// Connected and proved: it carries data.
    Up,
}

/// A frame on its way.
#[derive(Debug, Clone, Copy)]
struct OnWay {
    /// Bytes handed to the link up to the end of this frame.
    end: u64,
    bytes: u64,
    since: Time,
    token: u64,
}

/// A life that ended, of which the peer has not yet said how many frames it took.
#[derive(Debug, Clone)]
pub struct UnackedGeneration {
    /// The generation of the link that has ended.
    pub generation: u32,
    /// Number of the first of `tokens` on the link.
    pub first: u32,
    /// Its frames that were not acknowledged, in order.
    pub tokens: Vec<u64>,
    /// When the peer is to be asked again, and the pause after that.
    pub ask: (Time, Time),
}

/// How far the proof of a link is that came back.
#[derive(Debug, Clone, Copy, Default)]
pub struct Proof {
    /// Probes that were answered in a row.
    pub answered: u32,
    /// The number of the probe that is under way.
    pub number: u64,
    /// When that probe went out.
    pub since: Time,
    /// When this life began, or the last answer of a link that is proved and waits for the word of the life before.
    pub began: Time,
}

/// Which lives of a link there were.
#[derive(Debug, Clone, Copy, Default)]
struct Lives {
    /// The one that is, or was the last.
    generation: u32,
    /// Lives up to this one are over for good.
    over: u32,
    /// The last life that was over and in which counted frames came in, and how many.
    last_dead_generation: (u32, u32),
}

/// What was handed to a link in this life.
#[derive(Debug, Clone, Default)]
struct Sent {
    handed: u64,
    /// Of the bytes handed, those that the rail has taken over: no longer waiting here for their turn.
    taken: u64,
    /// Frames that the rail has taken over.
    taken_frames: u32,
    acked: u64,
    on_way: VecDeque<OnWay>,
    /// When the peer acknowledged the last bytes that it took: by this node's clock, less the time that the frame waited on its way.
    last_ack: Time,
    /// Longest time lately in which the link owed an acknowledgement and none came.
    gap: Time,
}

/// What came in on a link in this life.
#[derive(Debug, Clone, Default)]
struct Received {
    received: u64,
    reported: u64,
    unacked_since: Option<Time>,
}

/// How fast a link serves.
#[derive(Debug, Clone, Default)]
struct Speed {
    /// Bytes that may be on their way while a link that came back shows what it can.
    allowance: Option<u64>,
    sample_bytes: u64,
    sample_time: Time,
    rate: Option<(f64, Time)>,
    /// Bytes and busy time of the next rate over [`PEAK_OVER`]; the greatest such rate since a time, and in the time before.
    peak_of: (u64, Time),
    peaks: (f64, f64, Time),
    /// The rate over many samples, and how many.
    steady: (f64, u32),
}

/// One rail to one peer.
#[derive(Debug, Clone, Default)]
pub struct Link {
    state: State,
    lives: Lives,
    /// Counted frames handed to it and received on it, in this life.
    numbers: (u32, u32),
    /// The last life, while the peer has not said what it took.
    pub unacked: Option<UnackedGeneration>,
    /// The probes by which the link is being proved.
    pub proof: Proof,
    /// Drained by this node, and by the peer.
    pub drained: (bool, bool),
    /// The probe by which the peer is asked whether it lives while this link is silent; and, once it has answered over another
    /// rail and the patience is over, since when this is known.
    pub doubt: Option<(u64, Option<Time>)>,
    /// When that probe went out last.
    pub asked: Time,
    /// How often it went down, and why the last time.
    pub flaps: u32,
    /// Why the link went down last; `None` where it never did.
    pub cause: Option<RailCause>,
    /// Since when it stands as it does.
    pub since: Time,
    /// When the last frame of an operation came in on it.
    pub last_data: Time,
    sent: Sent,
    got: Received,
    /// What waits on the way from the peer.
    way: PathEstimate,
    speed: Speed,
}

impl Link {
    /// Bytes handed to the link and not acknowledged.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.sent.handed - self.sent.acked
    }

    /// Bytes handed to the link that still wait for their turn on it: the rail has not taken them over.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.sent.handed - self.sent.taken.max(self.sent.acked)
    }

    /// The rail has taken over one more counted frame; it does so in the order in which they were handed to it.
    pub(crate) fn took_over(&mut self) {
        self.sent.taken_frames = self.sent.taken_frames.wrapping_add(1).min(self.numbers.0);
        let first = self.numbers.0 + 1 - self.sent.on_way.len() as u32;
        let frame =
            self.sent.taken_frames.checked_sub(first).and_then(|at| self.sent.on_way.get(at as usize));
        self.sent.taken = self.sent.taken.max(frame.map_or(self.sent.acked, |f| f.end));
    }

    /// How the link stands: down, being proved, or up.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether the link carries data.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.state == State::Up
    }

    /// Whether the link is connected: frames that need no proof may use it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state != State::Down
    }

    /// Whether nothing is on its way on it, no question either.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.outstanding() == 0 && self.doubt.is_none() && self.proof.number == 0
    }

    /// Which life this is, or was the last.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.lives.generation
    }

    /// Whether either side drains it.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.drained.0 || self.drained.1
    }

    /// Begins a new life. The first one of all carries data at once; later ones are to be proved.
    ///
    /// Gives `false`, and does nothing, if that life is over already.
    pub fn open(&mut self, generation: u32, now: Time) -> bool {
        if generation <= self.lives.over || self.is_open() {
            return false;
        }
        let first = self.lives.over == 0 && self.flaps == 0;
        *self = Link {
            state: if first { State::Up } else { State::Proving },
            lives: Lives { generation, ..self.lives },
            unacked: self.unacked.take(),
            proof: Proof { began: now, since: now, ..Proof::default() },
            drained: self.drained,
            flaps: self.flaps,
            cause: self.cause.take(),
            since: now,
            sent: Sent { gap: self.sent.gap.min(INHERITED), ..Sent::default() },
            ..Link::default()
        };
        true
    }

    /// Ends the life. What was not acknowledged waits for the peer's word.
    pub fn close(&mut self, cause: RailCause, now: Time) {
        self.bury(self.lives.generation);
        let tokens: Vec<u64> = self.sent.on_way.drain(..).map(|f| f.token).collect();
        if self.is_up() {
            // A life that was never up here carried nothing, and an older one may still be waiting for the peer's word.
            let first = self.numbers.0 - tokens.len() as u32 + 1;
            self.unacked = Some(UnackedGeneration {
                generation: self.lives.generation,
                first,
                tokens,
                ask: (now, Time::ZERO),
            });
        }
        if let (RailCause::Silent(silence), true) = (&cause, self.is_up()) {
            // It may have been no more than slow.
            self.sent.gap = self.sent.gap.max(*silence);
        }
        self.state = State::Down;
        (self.sent.handed, self.sent.taken) = (self.sent.acked, self.sent.acked);
        (self.doubt, self.got.unacked_since) = (None, None);
        self.flaps += 1;
        (self.cause, self.since) = (Some(cause), now);
    }

    /// No life up to `generation` will be opened any more.
    pub fn bury(&mut self, generation: u32) {
        self.lives.over = self.lives.over.max(generation);
        if generation == self.lives.generation
            && self.numbers.1 > 0
            && self.lives.last_dead_generation.0 < generation
        {
            self.lives.last_dead_generation = (generation, self.numbers.1);
        }
    }

    /// Counted frames that came in whole in a life that is over. The peer asks for the last life only in which it sent
    /// any, and that is the last in which any came in, or one in which none did.
    #[must_use]
    pub fn took(&self, generation: u32) -> u32 {
        if self.lives.last_dead_generation.0 == generation { self.lives.last_dead_generation.1 } else { 0 }
    }

    /// The link has proved itself.
    pub fn prove(&mut self, allowance: u64, now: Time) {
        self.state = State::Up;
        self.speed.allowance = Some(allowance);
        (self.cause, self.since) = (None, now);
    }

    /// Bytes of whole frames received, to be acknowledged to the peer.
    pub fn report(&mut self) -> u64 {
        self.got.reported = self.got.received;
        self.got.unacked_since = None;
        self.got.received
    }

    /// Checks the number of a counted frame that begins to come in. `false`: it came before.
    ///
    /// # Errors
    /// A frame before it is missing.
    pub fn expects(&self, number: u32) -> Result<bool, FrameError> {
        let next = self.numbers.1.wrapping_add(1);
        match number.cmp(&next) {
            std::cmp::Ordering::Less => Ok(false),
            std::cmp::Ordering::Equal => Ok(true),
            std::cmp::Ordering::Greater => Err(FrameError::Gap { number, next }),
        }
    }

    /// A whole counted frame came in.
    pub fn received(&mut self, bytes: u64, now: Time) {
        self.numbers.1 += 1;
        self.got.received += bytes;
        self.got.unacked_since.get_or_insert(now);
    }

    /// Bytes of counted frames in this life: those that the peer has, and those that came from it.
    pub(crate) fn carried(&self) -> [u64; 2] {
        [self.sent.acked, self.got.received]
    }

    /// When received bytes must be acknowledged at the latest, with these bounds.
    #[must_use]
    pub fn ack_due(&self, bytes: u64, delay: Time) -> Option<Time> {
        let since = self.got.unacked_since?;
        Some(if self.got.received - self.got.reported >= bytes { Time::ZERO } else { since + delay })
    }

    /// A counted frame is handed to the link. Gives its number.
    pub(crate) fn hand(&mut self, bytes: u64, token: u64, now: Time) -> u32 {
        self.sent.handed += bytes;
        self.numbers.0 += 1;
        self.sent.on_way.push_back(OnWay { end: self.sent.handed, bytes, since: now, token });
        self.numbers.0
    }

    /// A frame came that the peer handed over when its clock showed this. Gives when it would have come had it waited behind nothing on
    /// its way: what it says was true then.
    pub(crate) fn heard(&mut self, sent_us: u32, now: Time) -> Time {
        now.saturating_sub(self.way.heard(sent_us, now)).max(self.sent.last_ack)
    }

    /// The peer has said how much it received, as of `now` ([`Link::heard`]): `released` takes the tokens of frames that it has.
    ///
    /// # Errors
    /// It cannot have received more than was sent.
    pub fn acknowledge(&mut self, acked: u64, now: Time, released: &mut Vec<u64>) -> Result<(), FrameError> {
        if acked > self.sent.handed {
            return Err(FrameError::Ack { acked, sent: self.sent.handed });
        }
        if acked <= self.sent.acked {
            return Ok(());
        }
        let owed = self.owed_since().map_or(Time::ZERO, |since| now.saturating_sub(since));
        self.sent.gap = owed.max(self.sent.gap - self.sent.gap / 16);
        self.sent.acked = acked;
        self.doubt = None;
        // A frame that was handed over before the one before it was acknowledged has waited for nothing but the rail, so
        // the time between the two acknowledgements is the rail's. Any other frame's time holds the way too.
        let mut bytes = 0;
        while let Some(frame) = self.sent.on_way.front().copied().filter(|f| f.end <= acked) {
            if frame.bytes >= MEASURED_FROM && frame.since < self.sent.last_ack {
                bytes += frame.bytes;
            } else if frame.bytes >= MEASURED_FROM {
                // All of its trip: a shaper lets one frame through at any speed, and what waited for nothing would show that.
                let trip = (now + self.way.late()).saturating_sub(frame.since);
                self.at_least(frame.bytes as f64 / trip.as_secs_f64(), now);
            }
            self.speed.allowance = self.speed.allowance.map(|a| a.saturating_add(frame.bytes));
            released.push(frame.token);
            self.sent.on_way.pop_front();
        }
        self.sample(bytes, now);
        self.sent.last_ack = now;
        Ok(())
    }

    fn sample(&mut self, bytes: u64, now: Time) {
        if bytes == 0 {
            return;
        }
        let took = now.saturating_sub(self.sent.last_ack);
        self.speed.sample_bytes += bytes;
        self.speed.sample_time += took;
        self.peak(bytes, took, now);
        let enough = self.speed.sample_bytes >= SAMPLE || self.speed.sample_time >= 4 * SAMPLE_TIME;
        if enough && self.speed.sample_time >= SAMPLE_TIME {
            let rate = self.speed.sample_bytes as f64 / self.speed.sample_time.as_secs_f64();
            let old = self.fresh_rate(now).unwrap_or(rate);
            self.speed.rate = Some((0.75 * old + 0.25 * rate, now));
            let (steady, samples) = self.speed.steady;
            let weight = STEADY.max(1.0 / f64::from(samples + 1));
            self.speed.steady = ((1.0 - weight) * steady + weight * rate, samples.saturating_add(1));
            (self.speed.sample_bytes, self.speed.sample_time) = (0, Time::ZERO);
        }
    }

    fn peak(&mut self, bytes: u64, took: Time, now: Time) {
        self.speed.peak_of = (self.speed.peak_of.0 + bytes, self.speed.peak_of.1 + took);
        if self.speed.peak_of.1 < PEAK_OVER {
            return;
        }
        let rate = self.speed.peak_of.0 as f64 / self.speed.peak_of.1.as_secs_f64();
        let (peak, before, since) = self.speed.peaks;
        self.speed.peaks = match now.saturating_sub(since) {
            age if age < PEAK_AGE => (peak.max(rate), before, since),
            age if age < 2 * PEAK_AGE => (rate, peak, now),
            _ => (rate, 0.0, now),
        };
        self.speed.peak_of = (0, Time::ZERO);
    }

    /// A single frame shows what the link carries at least: that confirms its rate, or raises it step by step (a shaper may
    /// let one frame through at any speed).
    fn at_least(&mut self, bound: f64, now: Time) {
        if let Some((rate, at)) = &mut self.speed.rate {
            if bound * 2.0 > *rate {
                *at = now;
            }
            if bound > *rate {
                *rate = 0.75 * *rate + 0.25 * bound.min(4.0 * *rate);
            }
        }
    }

    fn fresh_rate(&self, now: Time) -> Option<f64> {
        self.speed.rate.filter(|(_, at)| now.saturating_sub(*at) < RATE_AGE).map(|(rate, _)| rate)
    }

    /// Whether its rate is too old to be known, and was less than this.
    pub(crate) fn was_slow(&self, than: f64, now: Time) -> bool {
        self.known_rate(now).is_none() && self.speed.rate.is_some_and(|(rate, _)| rate < than)
    }

    /// Bytes per second over so many samples that processor noise has gone from it.
    pub(crate) fn steady_rate(&self) -> Option<f64> {
        (f64::from(self.speed.steady.1) * STEADY >= 1.0).then_some(self.speed.steady.0)
    }

    /// Bytes per second over many samples; lately, or as it was when the link was last busy.
    pub(crate) fn lasting_rate(&self, now: Time) -> Option<f64> {
        self.steady_rate().map(|steady| match self.fresh_rate(now) {
            // A rail that has just become slow shows at once, not after many samples.
            Some(fresh) if fresh * 2.0 < steady => fresh,
            _ => steady,
        })
    }

    /// Bytes per second, if it was measured lately, or if a frame is overdue: then the rate is no more than what would
    /// have that frame arrive now.
    #[must_use]
    pub fn known_rate(&self, now: Time) -> Option<f64> {
        let fresh = self.fresh_rate(now);
        let front = self.sent.on_way.front().filter(|f| f.bytes >= MEASURED_FROM);
        let bound = front.and_then(|frame| {
            let waited = now.saturating_sub(frame.since.max(self.sent.last_ack) + self.way.late());
            (waited > 5 * SAMPLE_TIME).then(|| frame.bytes as f64 / waited.as_secs_f64())
        });
        match (fresh, bound) {
            (Some(rate), Some(bound)) => Some(rate.min(bound)),
            (rate, bound) => rate.or(bound),
        }
    }

    /// Bytes per second that the link has shown lately, by which rails are chosen; see [`Link::known_rate`].
    pub(crate) fn shown_rate(&self, now: Time) -> Option<f64> {
        let peak = self.speed.peaks.0.max(self.speed.peaks.1);
        self.known_rate(now).map(|rate| if rate < PEAK_PART * peak { rate } else { rate.max(peak) })
    }

    /// Whether this many bytes may be handed to a link that came back and has yet to show what it can.
    pub(crate) fn allows(&self, bytes: u64) -> bool {
        self.speed.allowance.is_none_or(|allowance| self.outstanding() + bytes <= allowance)
    }

    /// A probe of a link that came back took this long. One that was dark answers at once now; one that is slow takes long because of
    /// what waits in its port, and so will acknowledgements.
    pub fn bear_with(&mut self, trip: Time) {
        self.sent.gap = self.sent.gap.max(trip);
    }

    /// How long the link has owed an acknowledgement.
    #[must_use]
    pub fn silence(&self, now: Time) -> Time {
        self.owes_since().map_or(Time::ZERO, |since| now.saturating_sub(since))
    }

    /// Since when the link owes an acknowledgement. What is on its way from the peer waits as long as what came last: it is not owed
    /// before that.
    #[must_use]
    pub fn owes_since(&self) -> Option<Time> {
        self.owed_since().map(|since| since + self.way.late())
    }

    fn owed_since(&self) -> Option<Time> {
        let front = self.sent.on_way.front().filter(|_| self.is_up())?;
        Some(front.since.max(self.sent.last_ack))
    }

    /// Silence after which a link that owes an acknowledgement counts as dead: at least `floor`, more if it was as silent
    /// before and went on.
    #[must_use]
    pub fn patience(&self, floor: Time) -> Time {
        floor.max(2 * self.sent.gap).min(MOST_PATIENCE.max(floor))
    }
}
