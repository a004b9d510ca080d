//! How memory of GPUs reaches their NICs, for people: the way taken, and why not a better one.

use std::collections::BTreeMap;

use proto_wire::v1::{self, gpu_direct::Path};

use super::Table;

/// A way in words, of programs that hold NICs themselves and of the engine where the two differ; empty where the agent does not tell.
#[must_use]
pub fn way(facts: &v1::GpuFacts) -> String {
    let path = facts.gpu_direct.as_ref().map(v1::GpuDirect::path).unwrap_or_default();
    match path {
        Path::PeerMemory => format!("{}, engine: {}", words(path), words(engine(path))),
        _ => words(path).to_owned(),
    }
}

/// The way that the engine takes where this is that of programs which hold NICs themselves (NCCL): it never goes by peer memory.
#[must_use]
pub fn engine(path: Path) -> Path {
    if path == Path::PeerMemory { Path::HostStaging } else { path }
}

/// A way in words.
#[must_use]
pub fn words(path: Path) -> &'static str {
    match path {
        Path::Unspecified => "",
        Path::DmaBuf => "dma-buf",
        Path::PeerMemory => "peer memory",
        Path::HostStaging => "host staging",
    }
}

/// What is said of several GPUs at once.
type Said = BTreeMap<(i32, String, String, String), Vec<String>>;

/// Why GPUs of a server do not take a better way, and what makes theirs slow; the same of several GPUs in one row.
#[must_use]
pub fn causes(inventory: &v1::Inventory) -> String {
    let mut said: Said = BTreeMap::new();
    for gpu in &inventory.gpus {
        let direct = gpu.facts.as_ref().and_then(|facts| facts.gpu_direct.as_ref());
        for cause in direct.iter().flat_map(|direct| &direct.causes) {
            let what = (cause.path, cause.code.clone(), cause.message.clone(), cause.fix.clone());
            said.entry(what).or_default().push(gpu.index.to_string());
        }
    }
    if said.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["GPU", "WAY", "WHY NOT, OR WHY SLOW", "WHAT", "FIX"]);
    for ((path, code, message, fix), gpus) in said {
        let path = Path::try_from(path).unwrap_or_default();
        table.row([gpus.join(","), words(path).to_owned(), code, message, fix]);
    }
    format!("\n{}", table.render("  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_of_several_gpus_is_said_once() {
        let cause = v1::gpu_direct::Cause {
            path: Path::DmaBuf.into(),
            code: "KernelTooOld".into(),
            message: "Linux 5.4 registers no dma-bufs".into(),
            fix: "run Linux 5.12 or newer".into(),
        };
        let direct =
            v1::GpuDirect { path: Path::PeerMemory.into(), reason: String::new(), causes: vec![cause] };
        let facts = v1::GpuFacts { gpu_direct: Some(direct), ..Default::default() };
        assert_eq!(way(&facts), "peer memory, engine: host staging");
        let gpu = |index| v1::Gpu { index, facts: Some(facts.clone()), ..Default::default() };
        let inventory =
            v1::Inventory { gpus: vec![gpu(0), gpu(1), v1::Gpu::default()], ..Default::default() };
        let expected = "
  GPU  WAY      WHY NOT, OR WHY SLOW  WHAT                             FIX
  0,1  dma-buf  KernelTooOld          Linux 5.4 registers no dma-bufs  run Linux 5.12 or newer
";
        assert_eq!(causes(&inventory), expected);
        assert_eq!((causes(&v1::Inventory::default()), way(&v1::GpuFacts::default())), Default::default());
    }
}
