//! The memory of calls: the ranks' own buffers, and private copies.
//!
//! Operands stay where they are, in memory that the rank can write at any moment. So there are no slices of them: the kernel moves
//! their bytes between that memory and the rails, sums read them tile by tile, each byte once, and write results back. A hostile
//! rank can only spoil what its own job computes. Private copies are made where the bytes must stay still in between (see
//! `calls.rs`), and of what the core needs for itself; freed ones are kept for the next call, up to a bound.

use std::collections::BTreeMap;
use std::sync::Arc;

use node_agent_collective::{BufferId, Dtype, Memory, ReduceOp, Region};
use node_agent_engine_transport::Buffers;
use node_agent_ipc::pieces::{Source, Target};

/// Bytes of freed copies that are kept: two operands of 64 MiB for each of two ranks.
const KEEP: usize = 256 << 20;

/// Memory that a rank shares.
type Shared = Arc<node_agent_ipc::Region>;

/// Operands in ordinary memory of this process, each under the name that collectives know it by.
#[derive(Debug, Default)]
pub(crate) struct Operands {
    live: BTreeMap<BufferId, Vec<u8>>,
    /// The ranks' buffers, and where in them an operand begins.
    shared: BTreeMap<BufferId, (Shared, usize)>,
    /// Inputs on a GPU, each with the output in which its rank puts its own part itself, on the GPU.
    own: BTreeMap<BufferId, BufferId>,
    spare: BTreeMap<usize, Vec<Vec<u8>>>,
    spare_bytes: usize,
    next: u64,
}

impl Operands {
    /// An operand in memory that a rank shares: `len` bytes from `offset`, which lie within it.
    pub(crate) fn share(&mut self, memory: &Shared, offset: usize, len: usize) -> Region {
        let id = self.name();
        self.shared.insert(id, (memory.clone(), offset));
        Region::new(id, 0, len)
    }

    /// What the input has of its own rank's in the output is copied by that rank: nobody reads it here.
    pub(crate) fn copied_by_rank(&mut self, input: Region, output: Region) {
        self.own.insert(input.buffer, output.buffer);
    }

    fn name(&mut self) -> BufferId {
        self.next += 1;
        BufferId(self.next - 1)
    }

    /// Where the bytes of a region are that a rank shares.
    fn find(&self, region: Region) -> Option<(&Shared, usize)> {
        let (memory, offset) = self.shared.get(&region.buffer)?;
        Some((memory, offset.checked_add(region.offset)?))
    }

    /// A buffer of `len` bytes with any content.
    pub(crate) fn take(&mut self, len: usize) -> Region {
        if len == 0 {
            return Region::EMPTY;
        }
        let bytes = self.reuse(len).unwrap_or_else(|| vec![0; len]);
        let id = self.name();
        self.live.insert(id, bytes);
        Region::new(id, 0, len)
    }

    /// Gives a buffer back.
    pub(crate) fn release(&mut self, region: Region) {
        self.shared.remove(&region.buffer);
        self.own.remove(&region.buffer);
        let Some(bytes) = self.live.remove(&region.buffer) else { return };
        if self.spare_bytes + bytes.len() > KEEP {
            // Better keep the sizes in use now than those of an earlier phase.
            self.spare.clear();
            self.spare_bytes = 0;
        }
        if bytes.len() <= KEEP {
            self.spare_bytes += bytes.len();
            self.spare.entry(bytes.len()).or_default().push(bytes);
        }
    }

    fn reuse(&mut self, len: usize) -> Option<Vec<u8>> {
        let list = self.spare.get_mut(&len)?;
        let bytes = list.pop()?;
        if list.is_empty() {
            self.spare.remove(&len);
        }
        self.spare_bytes -= len;
        Some(bytes)
    }
}

impl Memory for Operands {
    fn bytes(&self, region: Region) -> Option<&[u8]> {
        if region.len == 0 {
            return Some(&[]);
        }
        self.live.get(&region.buffer)?.get(region.offset..region.offset.checked_add(region.len)?)
    }

    fn bytes_mut(&mut self, region: Region) -> Option<&mut [u8]> {
        if region.len == 0 {
            return Some(&mut []);
        }
        self.live.get_mut(&region.buffer)?.get_mut(region.offset..region.offset.checked_add(region.len)?)
    }

    fn read(&self, region: Region, to: &mut [u8]) -> Option<()> {
        match self.find(region) {
            Some((memory, offset)) => memory.read(offset, to).ok(),
            None => {
                to.copy_from_slice(self.bytes(region)?);
                Some(())
            }
        }
    }

    fn write(&mut self, region: Region, from: &[u8]) -> Option<()> {
        if let Some((memory, offset)) = self.find(region) {
            return memory.write(offset, from).ok();
        }
        self.bytes_mut(region)?.copy_from_slice(from);
        Some(())
    }

    fn is_readable(&self, region: Region) -> bool {
        self.find(region).is_none_or(|(memory, _)| memory.device().is_none())
    }

    fn copy(&mut self, from: Region, to: Region) -> Option<()> {
        let done = from == to || self.own.get(&from.buffer).is_some_and(|output| *output == to.buffer);
        if done { Some(()) } else { self.copy_bytes(from, to) }
    }

    fn fold(&self, dtype: Dtype, op: ReduceOp, acc: &mut [u8], src: &[u8]) {
        node_agent_ipc::fold(dtype, op, acc, src);
    }
}

impl Buffers for Operands {
    fn source(&self, region: Region) -> Option<Source<'_>> {
        match self.find(region) {
            Some((memory, offset)) => Source::of(memory, offset, region.len).ok(),
            None => self.bytes(region).map(Source::from),
        }
    }

    fn target(&mut self, region: Region) -> Option<Target<'_>> {
        if self.shared.contains_key(&region.buffer) {
            let (memory, offset) = self.find(region)?;
            return memory.target(offset, region.len).ok();
        }
        self.bytes_mut(region).map(Target::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shared can be read, written, sent and received into, and never be had as a slice; when it is released it is gone.
    #[test]
    fn shared_operands_have_no_slices() {
        let (memory, _file) = node_agent_ipc::Region::create(100).unwrap();
        let (memory, mut operands) = (Arc::new(memory), Operands::default());
        let region = operands.share(&memory, 40, 20);
        assert!(operands.bytes(region).is_none() && operands.bytes_mut(region).is_none());
        operands.write(region.part(4, 3), &[7, 8, 9]).unwrap();
        let mut seen = [0; 5];
        memory.read(43, &mut seen).unwrap();
        assert_eq!(seen, [0, 7, 8, 9, 0]);
        operands.read(region.part(3, 5), &mut seen).unwrap();
        assert_eq!(seen, [0, 7, 8, 9, 0]);
        assert_eq!(operands.source(region.part(3, 5)).unwrap().to_vec(), seen);
        assert_eq!(operands.target(region.part(0, 2)).unwrap().put(&[1, 2, 3]), 2);
        assert_eq!(operands.checksum(region, 0), Some(crc32c(&memory, 40, 20)));
        let own = operands.take(20);
        operands.copy(region, own).unwrap();
        assert_eq!(operands.bytes(own).unwrap()[..8], [1, 2, 0, 0, 7, 8, 9, 0]);
        assert!(operands.source(region.part(0, 61)).is_none(), "behind the end of the memory");
        operands.release(region);
        assert!(operands.source(region).is_none() && operands.target(region).is_none());
        assert_eq!(operands.read(region.part(3, 5), &mut seen), None);
        assert_eq!(Arc::strong_count(&memory), 1);
    }

    /// Memory of a GPU is never read here: its own part in a result is its rank's affair, and any other copy fails.
    #[test]
    fn memory_of_a_gpu_is_only_sent() {
        let file = rustix::fs::memfd_create("gpu", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        let on_gpu = Arc::new(node_agent_ipc::Region::of_device(file, 0, 4096).unwrap());
        let (staging, _file) = node_agent_ipc::Region::create(8192).unwrap();
        let (staging, mut operands) = (Arc::new(staging), Operands::default());
        let (input, output) = (operands.share(&on_gpu, 0, 4096), operands.share(&staging, 0, 8192));
        let other = operands.share(&staging, 0, 4096);
        assert!(!operands.is_readable(input.part(1, 2)) && operands.is_readable(output));
        assert_eq!(operands.copy(input, output.part(0, 4096)), None);
        operands.copied_by_rank(input, output);
        assert_eq!(operands.copy(input, output.part(0, 4096)), Some(()));
        assert_eq!(operands.copy(input, other), None, "in its own result only");
        assert_eq!(operands.copy(input, input), Some(()));
        assert!(operands.source(input.part(4000, 96)).unwrap().is_on_device());
        assert!(operands.source(input.part(4000, 97)).is_none() && operands.target(input).is_none());
        assert_eq!(operands.checksum(input, 0), None);
        operands.release(input);
        assert!(operands.own.is_empty());
    }

    fn crc32c(memory: &Shared, offset: usize, len: usize) -> u32 {
        let mut bytes = vec![0; len];
        memory.read(offset, &mut bytes).unwrap();
        let mut private = Operands::default();
        let region = private.take(len);
        private.bytes_mut(region).unwrap().copy_from_slice(&bytes);
        private.checksum(region, 0).unwrap()
    }

    #[test]
    fn buffers_are_reused_and_what_is_kept_is_bounded() {
        let mut private = Operands::default();
        let first = private.take(1000);
        private.bytes_mut(first).unwrap().fill(7);
        private.release(first);
        assert_eq!(private.bytes(first), None);
        let again = private.take(1000);
        assert_ne!(again.buffer, first.buffer);
        assert_eq!(private.bytes(again).unwrap(), [7; 1000]);
        for _ in 0..5 {
            let regions: Vec<Region> = (0..4).map(|n| private.take((100 << 20) + n)).collect();
            regions.into_iter().for_each(|region| private.release(region));
            assert!(private.spare_bytes <= KEEP);
            assert_eq!(
                private.spare_bytes,
                private.spare.iter().map(|(len, list)| len * list.len()).sum::<usize>()
            );
        }
        assert_eq!(private.take(0), Region::EMPTY);
    }
}
