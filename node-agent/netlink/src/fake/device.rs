//! A network device of the fake kernel: its state, and how its driver behaves where drivers differ.

use std::{collections::BTreeMap, net::IpAddr};

use crate::{
    dcb::{App, Buffer, Change, Ets, MaxRate, Pfc, dcbx, selector, table, tsa},
    error::Errno,
    ethtool::Pause,
    private::Driver,
    route::Link,
};

/// How a driver behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Has no DCB, no pause settings (veth, virtio).
    Plain,
    /// Keeps whatever is set in memory; has an APP trust table.
    Simple,
    /// As mlx5 of the upstream kernel (`en_dcbnl.c`): only DSCP entries, of which a new one replaces the old one; the first one
    /// switches trust to DSCP; a change of the PFC mask toggles the link; ETS shares must sum to 100, and classes without
    /// one report 100.
    Mlx5,
}

/// What a driver that has DCB holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bridging {
    /// How traffic classes share the link (ETS).
    pub ets: Ets,
    /// Flow control and its counters.
    pub pfc: Pfc,
    /// Greatest rates of traffic classes.
    pub max_rate: MaxRate,
    /// Sizes of the receive buffers, and which priority uses which.
    pub buffer: Buffer,
    /// Entries, in the order in which they came.
    pub app: Vec<App>,
    /// Selectors; `None` where the driver or kernel has no such table.
    pub trust: Option<Vec<u8>>,
    /// Rewrite entries: the marks that packets of a priority are sent with.
    pub rewrite: Vec<App>,
    /// Who is in charge: flags of [`crate::dcb::dcbx`].
    pub dcbx: u8,
}

impl Bridging {
    /// As after the driver was loaded.
    #[must_use]
    pub fn fresh(style: Style) -> Self {
        let class_of = std::array::from_fn(|priority| priority as u8);
        let mlx5 = style == Style::Mlx5;
        // mlx5 has 100 % for each class that has no share.
        let tx_percent = if mlx5 { [100; 8] } else { [100, 0, 0, 0, 0, 0, 0, 0] };
        let size = std::array::from_fn(|i| if i == 0 { 262_016 } else { 0 });
        Self {
            ets: Ets {
                classes: 8,
                tx_percent,
                tsa: if mlx5 { [tsa::VENDOR; 8] } else { [tsa::STRICT; 8] },
                class_of: if mlx5 { [1, 0, 2, 3, 4, 5, 6, 7] } else { class_of },
                ..Ets::default()
            },
            pfc: Pfc { capable: 8, delay: if mlx5 { 7 } else { 0 }, ..Pfc::default() },
            max_rate: MaxRate::default(),
            buffer: Buffer { buffer_of: [0; 8], size, total: 262_016 },
            app: Vec::new(),
            trust: (style == Style::Simple).then(Vec::new),
            rewrite: Vec::new(),
            dcbx: dcbx::HOST | dcbx::IEEE | if mlx5 { dcbx::CEE } else { 0 },
        }
    }
}

/// A network device of the fake kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// Index, name, MTU and state.
    pub link: Link,
    /// How its driver behaves.
    pub style: Style,
    /// DCB state; `None` for [`Style::Plain`].
    pub dcb: Option<Bridging>,
    /// Pause settings; `None` where the driver has none.
    pub pause: Option<Pause>,
    /// Name and versions of its driver, and its firmware's version.
    pub driver: Driver,
    /// Private statistics (`ethtool -S`), by name.
    pub statistics: Vec<(String, u64)>,
    /// Private flags of the driver, by name.
    pub flags: Vec<(String, bool)>,
    /// The limit against PFC storms in ms; `None` where the driver has none.
    pub storm_limit: Option<u16>,
    /// IP addresses of the device.
    pub addresses: Vec<IpAddr>,
    /// Errnos that the next requests of a kind are answered with: `dcb`, `pause`, `mtu`, `ioctl`.
    pub failures: BTreeMap<&'static str, Vec<Errno>>,
    /// Changes of the APP trust table are answered with "done" and forgotten, as by kernels before 6.2.
    pub forgets_trust: bool,
}

impl Device {
    /// A device whose link is up.
    #[must_use]
    pub fn new(name: &str, index: u32, style: Style) -> Self {
        let mlx5 = style == Style::Mlx5;
        let word = |yes: &str, no: &str| if mlx5 { yes.to_owned() } else { no.to_owned() };
        Self {
            link: Link {
                index,
                name: name.to_owned(),
                on: true,
                up: true,
                mtu: 1500,
                mtu_least: Some(68),
                mtu_most: Some(9978),
                carrier_changes: Some(1),
                parent: None,
            },
            style,
            dcb: (style != Style::Plain).then(|| Bridging::fresh(style)),
            pause: (style != Style::Plain).then(|| Pause { rx: true, tx: true, ..Pause::default() }),
            driver: Driver {
                name: word("mlx5_core", "fake"),
                version: "6.12.0".into(),
                firmware: word("28.39.1002", ""),
                bus: String::new(),
            },
            statistics: Vec::new(),
            flags: Vec::new(),
            storm_limit: mlx5.then_some(0),
            addresses: Vec::new(),
            failures: BTreeMap::new(),
            forgets_trust: false,
        }
    }

    /// The errno that the next request of this kind is to fail with, if one is.
    pub(super) fn failure(&mut self, kind: &'static str) -> Result<(), Errno> {
        match self.failures.get_mut(kind).and_then(Vec::pop) {
            Some(errno) => Err(errno),
            None => Ok(()),
        }
    }

    /// Does what a driver does; true if the link is toggled by it.
    ///
    /// # Errors
    /// The driver's.
    pub fn change(&mut self, change: &Change) -> Result<bool, Errno> {
        let style = self.style;
        let forgets = self.forgets_trust;
        let dcb = self.dcb.as_mut().ok_or(Errno::OPNOTSUPP)?;
        match change {
            Change::Ets(ets) => set_ets(dcb, ets, style)?,
            Change::Pfc(pfc) => return Ok(set_pfc(dcb, pfc, style)),
            Change::MaxRate(rate) => dcb.max_rate = rounded(*rate, style),
            Change::Buffer(buffer) => set_buffer(dcb, buffer)?,
            Change::AddApp(apps) => apps.iter().try_for_each(|app| add(dcb, *app, style))?,
            Change::DeleteApp(apps) => apps.iter().try_for_each(|app| delete(&mut dcb.app, *app))?,
            Change::AddRewrite(apps) => dcb.rewrite.extend(apps),
            Change::DeleteRewrite(apps) => apps.iter().try_for_each(|app| delete(&mut dcb.rewrite, *app))?,
            Change::Trust(_) if forgets => {}
            Change::Trust(order) => {
                let twice = order.iter().enumerate().any(|(at, one)| order[..at].contains(one));
                let held = dcb.trust.as_mut().ok_or(Errno::OPNOTSUPP)?;
                if twice {
                    return Err(Errno::INVAL);
                }
                held.clone_from(order);
            }
            Change::Dcbx(flags) => {
                if flags & dcbx::FIRMWARE != 0 || (flags & dcbx::HOST == 0 && *flags != 0) {
                    return Err(Errno::INVAL);
                }
                // mlx5 hands it to its firmware and keeps the versions.
                let handed = style == Style::Mlx5 && *flags == 0;
                dcb.dcbx = if handed { dcb.dcbx & !dcbx::HOST } else { *flags };
            }
        }
        Ok(false)
    }
}

fn set_ets(dcb: &mut Bridging, ets: &Ets, style: Style) -> Result<(), Errno> {
    let shares = || ets.tx_percent.iter().zip(ets.tsa).filter(|(_, kind)| *kind == tsa::ETS);
    let sum: u32 = shares().map(|(share, _)| u32::from(*share)).sum();
    if (shares().next().is_some() && sum != 100) || ets.class_of.iter().any(|class| *class > 7) {
        return Err(Errno::INVAL);
    }
    // mlx5 gives a class that has no share all of the bandwidth, and reports that (`mlx5e_build_tc_tx_bw`).
    let kept = |at: usize| match ets.tsa[at] {
        tsa::STRICT | tsa::VENDOR if style == Style::Mlx5 => 100,
        _ => ets.tx_percent[at],
    };
    let (classes, credit_based) = (dcb.ets.classes, dcb.ets.credit_based);
    dcb.ets = Ets { classes, credit_based, tx_percent: std::array::from_fn(kept), ..*ets };
    Ok(())
}

fn set_pfc(dcb: &mut Bridging, pfc: &Pfc, style: Style) -> bool {
    let mlx5 = style == Style::Mlx5;
    let toggled = mlx5 && dcb.pfc.enabled != pfc.enabled;
    dcb.pfc.enabled = pfc.enabled;
    // mlx5 ignores a cable of no length, and one of 1000 m or more.
    if !mlx5 || (1..1000).contains(&pfc.delay) {
        dcb.pfc.delay = pfc.delay;
    }
    toggled
}

/// mlx5 has steps of 100 Mbit/s up to 25.5 Gbit/s, of 1 Gbit/s above, and drops the rest (`mlx5e_dcbnl_ieee_setmaxrate`).
fn rounded(rate: MaxRate, style: Style) -> MaxRate {
    let step = |rate: u64| match rate {
        0 => 0,
        rate if rate <= 25_500_000 => (rate / 100_000).max(1) * 100_000,
        rate => rate / 1_000_000 * 1_000_000,
    };
    if style == Style::Mlx5 { MaxRate(rate.0.map(step)) } else { rate }
}

fn set_buffer(dcb: &mut Bridging, buffer: &Buffer) -> Result<(), Errno> {
    let sum: u64 = buffer.size.iter().map(|size| u64::from(*size)).sum();
    if sum > dcb.buffer.total.into() || buffer.buffer_of.iter().any(|of| *of > 7) {
        return Err(Errno::INVAL);
    }
    dcb.buffer = Buffer { total: dcb.buffer.total, ..*buffer };
    Ok(())
}

fn add(dcb: &mut Bridging, app: App, style: Style) -> Result<(), Errno> {
    if app.priority > 7 {
        return Err(Errno::INVAL);
    }
    if style == Style::Mlx5 {
        if app.selector != selector::DSCP || app.protocol > 63 {
            return Err(Errno::INVAL);
        }
        dcb.app.retain(|held| held.protocol != app.protocol);
    }
    if dcb.app.contains(&app) {
        return Err(Errno::EXIST);
    }
    dcb.app.push(app);
    Ok(())
}

fn delete(held: &mut Vec<App>, app: App) -> Result<(), Errno> {
    let at = held.iter().position(|held| *held == app).ok_or(Errno::NOENT)?;
    held.remove(at);
    Ok(())
}

/// The answer of `dcbnl_ieee_fill`, in its order.
pub(super) fn describe(
    device: &Device,
    dcb: &Bridging,
    message: crate::wire::Builder,
) -> crate::wire::Builder {
    use table::attribute as a;
    let list = |nest: crate::wire::Builder, apps: &[App]| {
        apps.iter().fold(nest, |nest, app| nest.put(app.attribute(), &app.encode()))
    };
    let message = message.put_text(a::NAME, &device.link.name);
    let message = message.nest(a::IEEE, |nest| {
        let nest = nest
            .put(a::ETS, &dcb.ets.encode())
            .put(a::MAXRATE, &dcb.max_rate.encode())
            .put(a::PFC, &dcb.pfc.encode())
            .put(a::BUFFER, &dcb.buffer.encode())
            .nest(a::APP, |nest| list(nest, &dcb.app))
            .nest(a::REWRITE, |nest| list(nest, &dcb.rewrite));
        match &dcb.trust {
            Some(order) => {
                nest.nest(a::TRUST, |nest| order.iter().fold(nest, |nest, one| nest.put(a::TRUSTED, &[*one])))
            }
            None => nest,
        }
    });
    message.put(a::DCBX, &[dcb.dcbx])
}
