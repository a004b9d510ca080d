//! Where the file of an aspect is for a device, by its vendor's table.

use node_agent_qos::{
    Device, FileRoot,
    settings::{CcParam, CcSide},
    vendor::{Aspect, By, How, Vendor},
    words::Priority,
};

/// What fills a path besides the device's names.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Filling {
    /// `{priority}`.
    pub(super) priority: Option<Priority>,
    /// `{end}`.
    pub(super) side: Option<CcSide>,
    /// `{param}`.
    pub(super) param: Option<CcParam>,
}

/// A path from `/`, without a leading slash, as the kernel trait takes it.
pub(super) fn below(root: FileRoot, path: &str) -> String {
    format!("{}/{path}", root.usual().trim_start_matches('/'))
}

/// The file of `aspect`; `None` where the vendor has none, or the device has no name that its path needs.
pub(super) fn file(vendor: &Vendor, aspect: Aspect, device: &Device, filling: Filling) -> Option<String> {
    let How::Set { by: By::File(root, template, _), .. } = vendor.row(aspect).how else { return None };
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
    Some(below(root, &path))
}

/// `drivers/infiniband/hw/mlx5/cong.c`: those of the reaction point and of the notification point have a prefix.
fn param_file(param: CcParam) -> String {
    let end = if param == CcParam::MinTimeBetweenCnps { "np" } else { "rp" };
    format!("{end}_{}", param.as_str())
}
