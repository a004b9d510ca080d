//! What a device's driver says of its DCB state, and the requests that read and change it (kernel `net/dcb/dcbnl.c`).

use super::layout::{App, Buffer, Ets, MaxRate, Pfc};
use crate::wire::{ACK, Attribute, Builder, Message, REQUEST, WireError};

/// `RTM_GETDCB` (`rtnetlink.h`): the type of a request that reads DCB state.
pub const GET: u16 = 78;
/// `RTM_SETDCB` (`rtnetlink.h`): the type of a request that changes DCB state.
pub const SET: u16 = 79;
/// Bytes of `struct dcbmsg`: family 0, command, two of padding.
pub const FIXED: usize = 4;

/// What a request does: `DCB_CMD_*` of the kernel's `dcbnl.h`.
pub mod command {
    /// `DCB_CMD_IEEE_SET`: sets tables of IEEE 802.1Qaz, and adds APP and rewrite entries.
    pub const IEEE_SET: u8 = 20;
    /// `DCB_CMD_IEEE_GET`: reads all tables of IEEE 802.1Qaz.
    pub const IEEE_GET: u8 = 21;
    /// Read who is in charge.
    pub const GET_DCBX: u8 = 22;
    /// Say who is in charge.
    pub const SET_DCBX: u8 = 23;
    /// Remove APP or rewrite entries.
    pub const IEEE_DEL: u8 = 27;
}

/// `DCB_ATTR_*`, and those nested in `DCB_ATTR_IEEE`.
pub mod attribute {
    /// The device's name; there is no index.
    pub const NAME: u16 = 1;
    /// Nest, or in the answer to a change a u8 status.
    pub const IEEE: u16 = 13;
    /// Who is in charge: a u8 with flags of [`dcbx`].
    pub const DCBX: u16 = 14;
    /// How traffic classes share the link: a `struct ieee_ets`.
    pub const ETS: u16 = 1;
    /// Priorities with flow control: a `struct ieee_pfc`.
    pub const PFC: u16 = 2;
    /// Nest of APP entries.
    pub const APP: u16 = 3;
    /// `ieee_ets` as the peer advertises it.
    pub const PEER_ETS: u16 = 4;
    /// `ieee_pfc` as the peer advertises it.
    pub const PEER_PFC: u16 = 5;
    /// APP entries as the peer advertises them.
    pub const PEER_APP: u16 = 6;
    /// Greatest rates of traffic classes: a `struct ieee_maxrate`.
    pub const MAXRATE: u16 = 7;
    /// Receive buffers: a `struct dcbnl_buffer`.
    pub const BUFFER: u16 = 10;
    /// Nest of u8 selectors; kernel 6.2 and later.
    pub const TRUST: u16 = 11;
    /// Nest of entries as in APP; kernel 6.3 and later.
    pub const REWRITE: u16 = 12;
    /// One selector in TRUST.
    pub const TRUSTED: u16 = 1;
}

/// Who is in charge of the device's DCB state: flags (`DCB_CAP_DCBX_*`).
pub mod dcbx {
    /// The host sets it.
    pub const HOST: u8 = 1;
    /// An agent in firmware speaks LLDP.
    pub const FIRMWARE: u8 = 2;
    /// The old Converged Enhanced Ethernet protocol.
    pub const CEE: u8 = 4;
    /// IEEE 802.1Qaz is spoken (`DCB_CAP_DCBX_VER_IEEE`).
    pub const IEEE: u8 = 8;
    /// No protocol: what is set stays.
    pub const STATIC: u8 = 0x10;
}

/// A device's DCB state. `None` is what its driver does not say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// The device, as the answer names it.
    pub device: String,
    /// How traffic classes share the link (ETS).
    pub ets: Option<Ets>,
    /// Priorities with flow control (PFC), and the counters of pause frames.
    pub pfc: Option<Pfc>,
    /// Greatest rates of traffic classes.
    pub max_rate: Option<MaxRate>,
    /// Sizes of the receive buffers, and which priority uses which.
    pub buffer: Option<Buffer>,
    /// Priorities by DSCP and other selectors, in the kernel's order.
    pub app: Option<Vec<App>>,
    /// Selectors that the device looks at, first first.
    pub trust: Option<Vec<u8>>,
    /// The DSCP or PCP that packets of a priority are marked with when they are sent.
    pub rewrite: Option<Vec<App>>,
    /// Who is in charge: flags of [`dcbx`].
    pub dcbx: Option<u8>,
    /// The ETS table that the peer advertises.
    pub peer_ets: Option<Ets>,
    /// The PFC table that the peer advertises.
    pub peer_pfc: Option<Pfc>,
    /// The APP entries that the peer advertises.
    pub peer_app: Option<Vec<App>>,
}

impl Table {
    /// From the body of an answer to a GET, or of an event.
    ///
    /// # Errors
    /// Bytes that no kernel sends.
    pub fn decode(message: Message<'_>) -> Result<Self, WireError> {
        let mut table = Self::default();
        for attribute in message.attributes(FIXED) {
            let attribute = attribute?;
            match attribute.kind {
                attribute::NAME => table.device = attribute.text("DCB_ATTR_IFNAME")?.to_owned(),
                attribute::DCBX => table.dcbx = Some(attribute.u8("DCB_ATTR_DCBX")?),
                attribute::IEEE => {
                    for inside in attribute.nest() {
                        table.take(inside?)?;
                    }
                }
                _ => {}
            }
        }
        Ok(table)
    }

    fn take(&mut self, attribute: Attribute<'_>) -> Result<(), WireError> {
        let value = attribute.value;
        match attribute.kind {
            attribute::ETS => self.ets = Some(Ets::decode(value)?),
            attribute::PFC => self.pfc = Some(Pfc::decode(value)?),
            attribute::MAXRATE => self.max_rate = Some(MaxRate::decode(value)?),
            attribute::BUFFER => self.buffer = Some(Buffer::decode(value)?),
            attribute::APP => self.app = Some(entries(attribute)?),
            attribute::REWRITE => self.rewrite = Some(entries(attribute)?),
            attribute::TRUST => self.trust = Some(selectors(attribute)?),
            attribute::PEER_ETS => self.peer_ets = Some(Ets::decode(value)?),
            attribute::PEER_PFC => self.peer_pfc = Some(Pfc::decode(value)?),
            attribute::PEER_APP => self.peer_app = Some(entries(attribute)?),
            // Congestion notification by 802.1Qau is not for RoCE; what is newer is not known.
            _ => {}
        }
        Ok(())
    }
}

/// Entries of an APP table; attributes of other kinds in it are skipped, as the kernel does.
pub(crate) fn entries(table: Attribute<'_>) -> Result<Vec<App>, WireError> {
    let mut entries = Vec::new();
    for attribute in table.nest() {
        let attribute = attribute?;
        if matches!(attribute.kind, 1 | 2) {
            entries.push(App::decode(attribute.value)?);
        }
    }
    Ok(entries)
}

pub(crate) fn selectors(table: Attribute<'_>) -> Result<Vec<u8>, WireError> {
    let mut selectors = Vec::new();
    for attribute in table.nest() {
        let attribute = attribute?;
        if attribute.kind == attribute::TRUSTED {
            selectors.push(attribute.u8("DCB_ATTR_DCB_APP_TRUST")?);
        }
    }
    Ok(selectors)
}

/// One change. Whatever a change does not name stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Sets how traffic classes share the link (ETS), the whole table.
    Ets(Ets),
    /// Flow control; the counters in it are ignored.
    Pfc(Pfc),
    /// Sets the greatest rates of traffic classes.
    MaxRate(MaxRate),
    /// Sets the receive buffers.
    Buffer(Buffer),
    /// Adds these APP entries.
    AddApp(Vec<App>),
    /// Removes these APP entries.
    DeleteApp(Vec<App>),
    /// The selectors that are looked at, whole.
    Trust(Vec<u8>),
    /// Adds these rewrite entries, which mark packets by priority.
    AddRewrite(Vec<App>),
    /// Removes these rewrite entries.
    DeleteRewrite(Vec<App>),
    /// Says who is in charge: flags of [`dcbx`].
    Dcbx(u8),
}

impl Change {
    /// The change in words, for messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ets(_) => "set ETS",
            Self::Pfc(_) => "set PFC",
            Self::MaxRate(_) => "set the rates of traffic classes",
            Self::Buffer(_) => "set the receive buffers",
            Self::AddApp(_) => "add APP entries",
            Self::DeleteApp(_) => "delete APP entries",
            Self::Trust(_) => "set the APP trust order",
            Self::AddRewrite(_) => "add rewrite entries",
            Self::DeleteRewrite(_) => "delete rewrite entries",
            Self::Dcbx(_) => "set the DCBX mode",
        }
    }

    /// The kind of the status in its answer.
    #[must_use]
    pub fn status_attribute(&self) -> u16 {
        if matches!(self, Self::Dcbx(_)) { attribute::DCBX } else { attribute::IEEE }
    }

    /// The request that makes this change on `device`.
    #[must_use]
    pub fn request(&self, device: &str) -> Builder {
        let ieee = |command, fill: &dyn Fn(Builder) -> Builder| {
            start(SET, command, device).nest(attribute::IEEE, fill)
        };
        let set = |fill: &dyn Fn(Builder) -> Builder| ieee(command::IEEE_SET, fill);
        let table = |kind: u16, entries: &[App], builder: Builder| {
            builder.nest(kind, |table| {
                entries.iter().fold(table, |table, app| table.put(app.attribute(), &app.encode()))
            })
        };
        match self {
            Self::Ets(ets) => set(&|b| b.put(attribute::ETS, &ets.encode())),
            Self::Pfc(pfc) => set(&|b| b.put(attribute::PFC, &pfc.encode())),
            Self::MaxRate(rate) => set(&|b| b.put(attribute::MAXRATE, &rate.encode())),
            Self::Buffer(buffer) => set(&|b| b.put(attribute::BUFFER, &buffer.encode())),
            Self::AddApp(apps) => set(&|b| table(attribute::APP, apps, b)),
            Self::DeleteApp(apps) => ieee(command::IEEE_DEL, &|b| table(attribute::APP, apps, b)),
            Self::AddRewrite(apps) => set(&|b| table(attribute::REWRITE, apps, b)),
            Self::DeleteRewrite(apps) => ieee(command::IEEE_DEL, &|b| table(attribute::REWRITE, apps, b)),
            Self::Trust(order) => set(&|b| {
                b.nest(attribute::TRUST, |nest| {
                    order.iter().fold(nest, |nest, one| nest.put(attribute::TRUSTED, &[*one]))
                })
            }),
            Self::Dcbx(flags) => start(SET, command::SET_DCBX, device).put(attribute::DCBX, &[*flags]),
        }
    }
}

/// A request for a device's state.
#[must_use]
pub fn get(device: &str) -> Builder {
    start(GET, command::IEEE_GET, device)
}

/// A request for who is in charge alone.
#[must_use]
pub fn get_dcbx(device: &str) -> Builder {
    start(GET, command::GET_DCBX, device)
}

fn start(kind: u16, command: u8, device: &str) -> Builder {
    Builder::message(kind, REQUEST | ACK, &[0, command, 0, 0]).put_text(attribute::NAME, device)
}
