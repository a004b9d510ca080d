//! Where the file of an aspect is for a device: a vendor's template with the device's names filled in.

use crate::{
    edit::Change,
    observed::Device,
    settings::{CcParam, CcSide},
    words::Priority,
};

/// What fills a path besides the device's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Filling {
    /// What `{priority}` stands for; `None` where the path has no such part.
    pub priority: Option<Priority>,
    /// What `{end}` stands for; `None` where the path has no such part.
    pub side: Option<CcSide>,
    /// What `{param}` stands for; `None` where the path has no such part.
    pub param: Option<CcParam>,
}

impl Filling {
    /// What a change is about.
    #[must_use]
    pub const fn of(change: &Change) -> Self {
        match change {
            Change::CcEnable { side, priority, .. } => {
                Self { priority: Some(*priority), side: Some(*side), param: None }
            }
            Change::CcParam { param, .. } => Self { priority: None, side: None, param: Some(*param) },
            _ => Self { priority: None, side: None, param: None },
        }
    }
}

/// The template with all names filled in; none where something that it needs is not there.
#[must_use]
pub fn fill(template: &str, device: &Device, filling: Filling) -> Option<String> {
    let port = device.port.to_string();
    let priority = filling.priority.map(|priority| priority.to_string());
    let end = filling.side.map(|side| match side {
        CcSide::NotificationPoint => "roce_np",
        CcSide::ReactionPoint => "roce_rp",
    });
    let param = filling.param.map(param_file);
    let names = [
        ("{pci}", device.pci.as_deref()),
        ("{rdma}", device.rdma.as_deref()),
        ("{netdev}", Some(device.netdev.as_str())),
        ("{port}", Some(port.as_str())),
        ("{priority}", priority.as_deref()),
        ("{end}", end),
        ("{param}", param.as_deref()),
    ];
    let mut path = template.to_owned();
    for (place, name) in names {
        if path.contains(place) {
            path = path.replace(place, name?);
        }
    }
    Some(path)
}

/// `drivers/infiniband/hw/mlx5/cong.c`: those of the reaction point and of the notification point have a prefix.
fn param_file(param: CcParam) -> String {
    let end = match param {
        CcParam::MinTimeBetweenCnps | CcParam::CnpPrioMode => "np",
        _ => "rp",
    };
    format!("{end}_{}", param.as_str())
}
