//! Where the file of an aspect is for a device, by its vendor's table.

use node_agent_qos::{
    Device, FileRoot,
    vendor::{
        Aspect, How, Interface, Vendor,
        path::{Filling, fill},
    },
};

/// A path from `/`, without a leading slash, as the kernel trait takes it.
pub(super) fn below(root: FileRoot, path: &str) -> String {
    format!("{}/{path}", root.usual().trim_start_matches('/'))
}

/// The file of `aspect`; `None` where the vendor has none, or the device has no name that its path needs.
pub(super) fn file(vendor: &Vendor, aspect: Aspect, device: &Device, filling: Filling) -> Option<String> {
    let How::Set { by: Interface::File(root, template, _), .. } = vendor.row(aspect).how else { return None };
    Some(below(root, &fill(template, device, filling)?))
}
