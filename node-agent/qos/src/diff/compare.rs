//! Every item of a profile beside what was read. One function for one kernel object.

use std::fmt::Display;

use crate::{
    item::Item,
    observed::{Reading, Settings},
    profile::QosProfile,
    settings::{AppEntry, AppTable, CcParam, CcSide, Ets},
    vendor::{Aspect, How, Vendor},
    wanted::{Wanted, host_mode, pause, trust_follows},
    words::{Dscp, Ownership, Priority, PrioritySet, Trust, Tsa},
};

/// How an item compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The port has the value that the profile wants.
    Same,
    /// The port has another value than the profile wants.
    Differs {
        /// The value that the profile wants.
        wanted: String,
        /// The value that the port has.
        found: String,
    },
    /// There is no such thing.
    Unsupported {
        /// The value that the profile wants.
        wanted: String,
    },
    /// It could not be read.
    Unreadable {
        /// The value that the profile wants.
        wanted: String,
        /// Why it could not be read.
        why: String,
    },
}

/// An item and how it compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// The setting that was compared.
    pub item: Item,
    /// The outcome of the comparison.
    pub state: State,
}

impl Compared {
    /// Whether it is known to be otherwise.
    pub const fn differs(&self) -> bool {
        matches!(self.state, State::Differs { .. })
    }
}

/// All items, in a fixed order.
pub fn all(profile: &QosProfile, set: &Settings, vendor: &Vendor) -> Vec<Compared> {
    let wanted = Wanted::of(profile, vendor);
    let mut all = Vec::new();
    ownership(profile, set, vendor, &mut all);
    let spec = profile.spec();
    compare(&mut all, Item::GlobalPause, &set.pause, |found| pause(*found, profile), profile.pause());
    compare(&mut all, Item::Mtu, &set.mtu, |_| spec.mtu, spec.mtu);
    data_classes(spec.data_dscp, &wanted, set, vendor, &mut all);
    classes(&wanted.ets, &set.ets, &mut all);
    rates(profile, set, vendor, &mut all);
    flow(profile, &wanted, set, &mut all);
    connections(profile, set, &mut all);
    congestion(profile, set, vendor, &mut all);
    all
}

/// `found` beside what it should be, which may depend on what is found.
fn compare<T: PartialEq + Display>(
    all: &mut Vec<Compared>,
    item: Item,
    found: &Reading<T>,
    should: impl FnOnce(&T) -> T,
    usual: T,
) {
    let state = match found {
        Reading::Known(found) => {
            let wanted = should(found);
            if wanted == *found {
                State::Same
            } else {
                State::Differs { wanted: wanted.to_string(), found: found.to_string() }
            }
        }
        Reading::Unsupported => State::Unsupported { wanted: usual.to_string() },
        Reading::Unreadable(why) => State::Unreadable { wanted: usual.to_string(), why: why.clone() },
    };
    all.push(Compared { item, state });
}

/// The same for what is shown in another way than it is held.
fn shown<T>(all: &mut Vec<Compared>, item: Item, found: &Reading<T>, same: bool, wanted: &str, text: String) {
    let wanted = wanted.to_owned();
    let state = match found {
        Reading::Known(_) if same => State::Same,
        Reading::Known(_) => State::Differs { wanted, found: text },
        Reading::Unsupported => State::Unsupported { wanted },
        Reading::Unreadable(why) => State::Unreadable { wanted, why: why.clone() },
    };
    all.push(Compared { item, state });
}

fn ownership(profile: &QosProfile, set: &Settings, vendor: &Vendor, all: &mut Vec<Compared>) {
    if profile.spec().dcbx != Ownership::Host {
        return;
    }
    let on = |on: &bool| if *on { "on" } else { "off" }.to_owned();
    if vendor.dcbx.follows_firmware_lldp || set.firmware_lldp.known().is_some() {
        let found = set.firmware_lldp.known();
        let text = found.map(on).unwrap_or_default();
        shown(all, Item::FirmwareLldp, &set.firmware_lldp, found == Some(&false), "off", text);
    }
    let found = set.dcbx.known().copied();
    let hosts = found.is_some_and(crate::settings::DcbxMode::is_hosts);
    let text = found.map(|mode| mode.to_string()).unwrap_or_default();
    let wanted = found.map_or(crate::settings::DcbxMode::HOST_IEEE, |mode| host_mode(mode, vendor));
    shown(all, Item::Dcbx, &set.dcbx, hosts, &wanted.to_string(), text);
}

/// Trust and the application table.
fn data_classes(data: Dscp, wanted: &Wanted, set: &Settings, vendor: &Vendor, all: &mut Vec<Compared>) {
    compare(all, Item::Trust, &set.trust, |_| wanted.trust, wanted.trust);
    let nothing = AppTable::new();
    let table = set.app.known().unwrap_or(&nothing);
    // Where trust follows entries, a port that trusts PCP has none, and one item says it all.
    let follows = trust_follows(vendor) && set.trust.known().is_some_and(|trust| *trust != wanted.trust);
    let one_word = follows && (wanted.trust == Trust::Pcp || !table.iter().any(AppEntry::is_dscp));
    if set.app.known().is_none() {
        // One finding for all of them: that of RDMA data.
        if let Some(entry) = of_dscp(&wanted.dscp, data).first() {
            shown(
                all,
                Item::Dscp(data),
                &set.app,
                false,
                &format!("priority {}", entry.priority),
                String::new(),
            );
        }
    } else if !one_word {
        for dscp in Dscp::all() {
            one_key(Item::Dscp(dscp), &of_dscp(&wanted.dscp, dscp), &of_dscp(table, dscp), set, all);
        }
    }
    if let Some(entry) = wanted.roce_port {
        let found: Vec<AppEntry> = table.iter().filter(|entry| entry.is_roce_port()).copied().collect();
        one_key(Item::RocePort, &[entry], &found, set, all);
    }
}

/// The entries of one DSCP. The table is in order, so they are one range of it.
fn of_dscp(table: &AppTable, dscp: Dscp) -> Vec<AppEntry> {
    let end = |priority| AppEntry { selector: AppEntry::DSCP, protocol: u16::from(dscp.get()), priority };
    table.range(end(0)..=end(u8::MAX)).copied().collect()
}

/// The entries of one key: exactly those that are wanted.
fn one_key(item: Item, wanted: &[AppEntry], found: &[AppEntry], set: &Settings, all: &mut Vec<Compared>) {
    let list = |entries: &[AppEntry]| match entries {
        [] => "no entry".to_owned(),
        [one] => format!("priority {}", one.priority),
        many => {
            let each: Vec<String> = many.iter().map(|entry| entry.priority.to_string()).collect();
            format!("{} entries: priorities {}", many.len(), each.join(" and "))
        }
    };
    if wanted == found {
        all.push(Compared { item, state: State::Same });
        return;
    }
    shown(all, item, &set.app, false, &list(wanted), list(found));
}

/// ETS. The share of a class that is not served by share means nothing, and drivers report what they like there.
fn classes(wanted: &Ets, reading: &Reading<Ets>, all: &mut Vec<Compared>) {
    let Some(found) = reading.known() else {
        // One word for the whole object.
        shown(all, Item::Tsa(0), reading, false, &wanted.tsa[0].to_string(), String::new());
        return;
    };
    let word = |willing: bool| if willing { "willing" } else { "not willing" };
    let same = wanted.willing == found.willing;
    shown(all, Item::EtsWilling, reading, same, word(wanted.willing), word(found.willing).into());
    for priority in Priority::all() {
        let (should, is) = (wanted.prio_tc[priority.index()], found.prio_tc[priority.index()]);
        shown(
            all,
            Item::PrioTc(priority),
            reading,
            should == is,
            &format!("class {should}"),
            format!("class {is}"),
        );
    }
    for tc in Priority::all() {
        let at = tc.index();
        let (should, is) = (wanted.tsa[at], found.tsa[at]);
        shown(all, Item::Tsa(tc.get()), reading, should == is, &should.to_string(), is.to_string());
        if should == Tsa::Ets && is == Tsa::Ets {
            let (should, is) = (wanted.bandwidth[at], found.bandwidth[at]);
            shown(
                all,
                Item::Bandwidth(tc.get()),
                reading,
                should == is,
                &format!("{should} %"),
                format!("{is} %"),
            );
        }
    }
}

fn rates(profile: &QosProfile, set: &Settings, vendor: &Vendor, all: &mut Vec<Compared>) {
    let Some(wanted) = profile.spec().max_rate else { return };
    let text = |rate: u64| if rate == 0 { "no limit".to_owned() } else { format!("{rate} kbit/s") };
    match set.max_rate.known() {
        Some(found) => {
            for (tc, (should, is)) in (0..).zip(wanted.into_iter().zip(*found)) {
                let same = vendor.rate_kept(should) == is;
                shown(all, Item::MaxRate(tc), &set.max_rate, same, &text(should), text(is));
            }
        }
        None => shown(all, Item::MaxRate(0), &set.max_rate, false, &text(wanted[0]), String::new()),
    }
}

/// PFC, the cable, buffers, and what ends a storm.
fn flow(profile: &QosProfile, wanted: &Wanted, set: &Settings, all: &mut Vec<Compared>) {
    let spec = profile.spec();
    let on = |set: PrioritySet| format!("on for {set}");
    let found = set.pfc.known();
    let text = found.map(|pfc| on(pfc.enabled)).unwrap_or_default();
    shown(
        all,
        Item::Pfc,
        &set.pfc,
        found.is_some_and(|pfc| pfc.enabled == wanted.pfc),
        &on(wanted.pfc),
        text,
    );
    if let (Some(metres), Some(pfc)) = (wanted.delay, found) {
        // mlx5 reports 0 where the device has no buffers to be laid out by the length of a cable.
        let reading = if pfc.delay == 0 { Reading::Unsupported } else { Reading::Known(pfc.delay) };
        let text = format!("{} m", pfc.delay);
        shown(all, Item::CableLength, &reading, pfc.delay == metres, &format!("{metres} m"), text);
    }
    if let Some(buffer) = spec.buffer {
        let text = |buffer: &crate::settings::Buffer| {
            let list = |values: &[String]| values.join(" ");
            let buffers: Vec<String> = buffer.prio_buffer.iter().map(ToString::to_string).collect();
            let sizes: Vec<String> = buffer.size.iter().map(ToString::to_string).collect();
            format!("prio-buffer {} size {}", list(&buffers), list(&sizes))
        };
        let found = set.buffer.known();
        let is = found.map(text).unwrap_or_default();
        shown(all, Item::Buffer, &set.buffer, found == Some(&buffer), &text(&buffer), is);
    }
    if let Some(ms) = spec.pfc_prevention {
        let text = |ms: u16| match ms {
            0 => "never".to_owned(),
            u16::MAX => "automatic".to_owned(),
            ms => format!("{ms} ms"),
        };
        let found = set.pfc_prevention.known().copied();
        let is = found.map(text).unwrap_or_default();
        shown(all, Item::PfcPrevention, &set.pfc_prevention, found == Some(ms), &text(ms), is);
    }
}

/// What RDMA connections get.
fn connections(profile: &QosProfile, set: &Settings, all: &mut Vec<Compared>) {
    let spec = profile.spec();
    let text =
        |tos: u8| format!("{tos} (DSCP {}, {})", tos >> 2, if tos & 3 == 0 { "no ECT" } else { "ECT" });
    // A class that all queue pairs are forced to hides what they choose; it may be there if it is the right one.
    if let Reading::Known(Some(forced)) = &set.forced_tos {
        let same = *forced == spec.default_tos;
        shown(all, Item::ForcedTos, &set.forced_tos, same, &text(spec.default_tos), text(*forced));
    }
    compare(all, Item::DefaultMode, &set.default_mode, |_| spec.default_mode, spec.default_mode);
    let found = set.default_tos.known().copied();
    let is = found.map(text).unwrap_or_default();
    shown(
        all,
        Item::DefaultTos,
        &set.default_tos,
        found == Some(spec.default_tos),
        &text(spec.default_tos),
        is,
    );
}

/// DCQCN of the lossless priority. On others it does no harm.
fn congestion(profile: &QosProfile, set: &Settings, vendor: &Vendor, all: &mut Vec<Compared>) {
    let spec = profile.spec();
    let lossless = spec.lossless_priority;
    let word = |on: bool| if on { "on" } else { "off" };
    let ends = [
        (CcSide::NotificationPoint, spec.dcqcn.notification, &set.congestion.notification),
        (CcSide::ReactionPoint, spec.dcqcn.reaction, &set.congestion.reaction),
    ];
    for (side, wanted, reading) in ends {
        let should = wanted.contains(lossless);
        let is = reading.known().is_some_and(|mask| mask.contains(lossless));
        shown(all, Item::Dcqcn(side, lossless), reading, should == is, word(should), word(is).into());
    }
    let congestion = &set.congestion;
    compare(all, Item::CnpDscp, &congestion.cnp_dscp, |_| spec.cnp_dscp, spec.cnp_dscp);
    compare(all, Item::CnpPriority, &congestion.cnp_priority, |_| spec.cnp_priority, spec.cnp_priority);
    let missing = Reading::Unreadable("it was not asked for".to_owned());
    let param = |param: &CcParam| congestion.params.get(param).unwrap_or(&missing);
    // A device that has no mode has the priority that is set.
    let mode = param(&CcParam::CnpPrioMode);
    if matches!(vendor.row(Aspect::CnpMode).how, How::Set { .. }) && *mode != Reading::Unsupported {
        compare(all, Item::CcParam(CcParam::CnpPrioMode), mode, |_| 0, 0);
    }
    compare(all, Item::RoceDscp, &congestion.roce_dscp, |_| spec.data_dscp, spec.data_dscp);
    compare(all, Item::RocePriority, &congestion.roce_priority, |_| lossless, lossless);
    for (name, wanted) in spec.dcqcn.params.iter().filter(|(name, _)| **name != CcParam::CnpPrioMode) {
        compare(all, Item::CcParam(*name), param(name), |_| *wanted, *wanted);
    }
}
