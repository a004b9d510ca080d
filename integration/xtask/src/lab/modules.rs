//! Which kernel modules the guest loads, and in which order: what they say of themselves decides, so that no tool has to be
//! run for it, here or in the guest.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// What the suites use. What one of them needs is found by itself, except for what it asks for by another name: Soft-RoCE asks for
/// its checksum as an algorithm of the crypto layer.
const WANTED: [&str; 14] = [
    "crc32_generic",
    "crc32c_generic",
    "rdma_rxe",
    "ib_uverbs",
    "rdma_ucm",
    "veth",
    "sch_netem",
    "sch_red",
    "sch_tbf",
    "sch_ingress",
    "cls_flower",
    "cls_u32",
    "act_gact",
    "configfs",
];

/// What a module needs; nothing for one that is built in; an error for one that nobody has.
type Needs<'a> = dyn Fn(&str) -> Result<Option<Vec<String>>, String> + 'a;

/// The modules below a folder of a kernel, in an order in which each comes after those that it needs. Names of what is built into the
/// kernel are left out.
///
/// # Errors
/// The folder cannot be read, or a module needs one that is not there.
pub fn closure(folder: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let mut found = BTreeMap::new();
    walk(&folder.join("kernel"), &mut found).map_err(|error| format!("{}: {error}", folder.display()))?;
    let builtin = folder.join("modules.builtin");
    let builtin = std::fs::read_to_string(&builtin).map_err(|e| format!("{}: {e}", builtin.display()))?;
    let builtin: Vec<String> = builtin.lines().filter_map(|line| name(Path::new(line))).collect();
    let needs = |module: &str| -> Result<Option<Vec<String>>, String> {
        let Some(path) = found.get(module) else {
            let known = builtin.iter().any(|name| name == module);
            return if known { Ok(None) } else { Err(format!("the kernel has no module {module}")) };
        };
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Some(needed(&bytes)))
    };
    let order = ordered(&WANTED, &needs)?;
    Ok(order.into_iter().filter_map(|name| found.get(&name).map(|path| (name, path.clone()))).collect())
}

fn walk(folder: &Path, found: &mut BTreeMap<String, PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            walk(&path, found)?;
        } else if let Some(name) = name(&path) {
            found.insert(name, path);
        }
    }
    Ok(())
}

/// The name of the module in a file: both kinds of dash are one.
fn name(path: &Path) -> Option<String> {
    let stem = path.file_name()?.to_str()?.strip_suffix(".ko")?;
    Some(stem.replace('-', "_"))
}

/// What a module says it needs: `depends=` in its section of texts that end with zeros.
fn needed(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let text = module[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    text.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

/// Each wanted module after what it needs.
fn ordered(wanted: &[&str], needs: &Needs<'_>) -> Result<Vec<String>, String> {
    fn visit(module: &str, needs: &Needs<'_>, order: &mut Vec<String>, depth: usize) -> Result<(), String> {
        const DEEPEST: usize = 64;
        if order.iter().any(|done| done == module) {
            return Ok(());
        }
        if depth > DEEPEST {
            return Err(format!("module {module} needs itself"));
        }
        let Some(below) = needs(module)? else { return Ok(()) };
        below.iter().try_for_each(|below| visit(below, needs, order, depth + 1))?;
        order.push(module.to_owned());
        Ok(())
    }
    let mut order = Vec::new();
    wanted.iter().try_for_each(|module| visit(module, needs, &mut order, 0))?;
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(module: &str) -> Result<Option<Vec<String>>, String> {
        let needs: &[&str] = match module {
            "rxe" => &["core", "udp"],
            "core" => &["udp", "builtin"],
            "udp" => &[],
            "builtin" => return Ok(None),
            "snake" => &["snake"],
            other => return Err(format!("the kernel has no module {other}")),
        };
        Ok(Some(needs.iter().map(|name| (*name).to_owned()).collect()))
    }

    #[test]
    fn each_comes_after_what_it_needs() {
        assert_eq!(ordered(&["rxe", "core", "builtin"], &kernel).unwrap(), ["udp", "core", "rxe"]);
        assert_eq!(ordered(&["absent"], &kernel).unwrap_err(), "the kernel has no module absent");
        assert!(ordered(&["snake"], &kernel).unwrap_err().contains("needs itself"));
    }

    #[test]
    fn a_module_says_what_it_needs() {
        assert_eq!(
            needed(b"\x7fELF\0license=GPL\0depends=ib-core,udp_tunnel\0name=x\0"),
            ["ib_core", "udp_tunnel"]
        );
        assert!(needed(b"\0depends=\0").is_empty() && needed(b"depends").is_empty());
        assert_eq!(name(Path::new("kernel/lib/udp-tunnel.ko")).unwrap(), "udp_tunnel");
        assert_eq!(name(Path::new("modules.order")), None);
    }
}
