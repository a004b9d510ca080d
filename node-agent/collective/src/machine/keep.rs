//! The keep: copies of payloads that a rail may still have to carry again although their operation is over and its buffers are
//! the ranks' own again. A ring in the scratch region: taken at the head, freed in any order, reclaimed at the tail.

use std::collections::VecDeque;

use crate::memory::Region;

/// Copies begin at multiples of this.
const ALIGN: usize = 64;

/// Names one copy in the ring; names are never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyId(u64);

#[derive(Debug, Clone, Copy)]
struct Span {
    /// Bytes of the ring up to its end, with what was skipped before it.
    end: usize,
    free: bool,
}

/// The ring of copies, in a part of the scratch region.
#[derive(Debug, Clone)]
pub struct Keep {
    region: Region,
    spans: VecDeque<Span>,
    /// Name of the first of `spans`.
    first: u64,
    /// Where the next copy goes, and bytes in use.
    head: usize,
    used: usize,
}

impl Keep {
    pub fn new(region: Region) -> Self {
        Keep { region, spans: VecDeque::new(), first: 0, head: 0, used: 0 }
    }

    /// Room for `len` bytes; `None` while there is none.
    pub fn take(&mut self, len: usize) -> Option<(CopyId, Region)> {
        let size = len.max(1).next_multiple_of(ALIGN);
        let wraps = self.head + size > self.region.len;
        let (at, skip) = if wraps { (0, self.region.len - self.head) } else { (self.head, 0) };
        if self.used + skip + size > self.region.len {
            return None;
        }
        self.used += skip + size;
        self.head = at + size;
        self.spans.push_back(Span { end: skip + size, free: false });
        Some((CopyId(self.first + self.spans.len() as u64 - 1), self.region.part(at, len)))
    }

    /// All that decides what the ring gives from now on.
    #[cfg(test)]
    pub fn digest(&self, canon: &mut crate::model::Canon) {
        canon.size(self.head);
        canon.size(self.used);
        canon.size(self.spans.len());
        self.spans.iter().for_each(|s| canon.size(2 * s.end + usize::from(s.free)));
    }

    /// A copy is not needed any more.
    pub fn free(&mut self, kept: CopyId) {
        let at = usize::try_from(kept.0 - self.first).unwrap_or(usize::MAX);
        if let Some(span) = self.spans.get_mut(at) {
            span.free = true;
        }
        while let Some(span) = self.spans.front().copied().filter(|s| s.free) {
            self.spans.pop_front();
            self.first += 1;
            self.used -= span.end;
        }
        if self.spans.is_empty() {
            self.head = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::BufferId;
    use proptest::prelude::*;

    proptest! {
        /// Copies in use never overlap and lie within the ring; when all are freed, the whole ring can be taken.
        #[test]
        fn copies_never_overlap(size in 1usize..40, steps in prop::collection::vec((any::<bool>(), 0usize..1500, any::<usize>()), 1..200)) {
            let whole = Region::new(BufferId(3), 128, size * ALIGN);
            let (mut keep, mut live) = (Keep::new(whole), Vec::<(CopyId, Region)>::new());
            for (take, len, which) in steps {
                if take {
                    if let Some((kept, region)) = keep.take(len) {
                        prop_assert_eq!(region.len, len);
                        prop_assert!(region.offset >= 128 && region.offset + len <= 128 + whole.len);
                        prop_assert!(live.iter().all(|(_, other)| !other.overlaps(region)));
                        live.push((kept, region));
                    }
                } else if !live.is_empty() {
                    keep.free(live.swap_remove(which % live.len()).0);
                }
            }
            live.into_iter().for_each(|(kept, _)| keep.free(kept));
            prop_assert!(keep.take(whole.len).is_some());
        }
    }
}
