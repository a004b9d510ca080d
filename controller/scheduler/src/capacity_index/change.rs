//! Changes of the capacity index: nodes come, go and change; gangs take and give back.

use std::sync::Arc;

use controller_topology::{NodeIx, RailSet};
use proto_model::{NodeName, TenantName};

use super::{
    CapacityIndex, Facts, Pick, Record, Value, WORD,
    log::mix,
    owners::{Owners, Tenants},
    word::{NodeBlock, set_rails},
};
use crate::{capacity::Allocated, host::Host};

/// Nodes of one word that get the same value, so that its planes are written once.
#[derive(Default)]
struct Run {
    word: u32,
    mask: u64,
    /// The value that each of these nodes had before the change.
    old: Value,
    value: Value,
}

/// Nodes of a gang that change alike, so that what is offered is counted once for all.
#[derive(Default)]
struct Tally {
    old: Value,
    value: Value,
    nodes: usize,
}

/// A node that changes hands. Most nodes of a gang are alike, and what became of one becomes of the next.
struct Like {
    was: Record,
    taken: u64,
    held: Allocated,
    old: Value,
    value: Value,
}

impl Like {
    fn new(record: &Record, taken: u64, held: Allocated) -> Self {
        let then = Record { held, ..*record };
        Self { was: *record, taken, held, old: record.value(), value: then.value() }
    }

    fn is(&self, record: &Record, taken: u64) -> bool {
        let (a, b) = (&self.was, record);
        a.held == b.held
            && a.gpus == b.gpus
            && a.host == b.host
            && a.usable == b.usable
            && a.open == b.open
            && self.taken == taken
    }
}

impl CapacityIndex {
    /// The same places and loads without nodes, for so many rails.
    #[must_use]
    pub fn cleared(&self, rails: u32) -> Self {
        let mut capacity_index = Self::empty(Arc::clone(&self.layout), rails);
        capacity_index.load.clone_from(&self.load);
        capacity_index.log.cut(u64::from(rails));
        capacity_index
    }

    /// A node comes, or it changes.
    pub fn set_node(&mut self, ix: NodeIx, name: &NodeName, facts: Facts) {
        let drained = facts.traits.drained;
        if self.undrained.is_none() && !drained.is_empty() {
            self.undrained = Some(Box::new(Self { owners: Owners::default(), ..self.clone() }));
        }
        if let Some(other) = &mut self.undrained {
            let usable = facts.usable.without(drained);
            other.put_node(ix, name, Facts { usable, traits: Arc::clone(&facts.traits), ..facts });
        }
        self.put_node(ix, name, facts);
        self.drop_undrained();
    }

    /// Where nothing is drained any more one view of the nodes is enough.
    fn drop_undrained(&mut self) {
        if self.undrained.is_some() && self.classes.used().all(|(_, traits)| traits.drained.is_empty()) {
            self.undrained = None;
        }
    }

    fn put_node(&mut self, ix: NodeIx, name: &NodeName, facts: Facts) {
        self.owners.set_apart(ix, !facts.traits.isolation.may_share_tenants());
        let (class, new) = self.classes.enter(&facts.traits);
        let Facts { open, gpus, host, present, usable, held, .. } = facts;
        let old = self.record(ix).copied();
        let slot = match old {
            Some(old) => old.slot,
            None => self.layout.slot(name).unwrap_or_else(|| self.outsider(ix, name)),
        };
        if self.records.len() <= ix.index() {
            self.records.resize(ix.index() + 1, None);
        }
        self.records[ix.index()] = Some(Record { slot, class, open, gpus, host, present, usable, held });
        self.nodes[slot as usize] = Some(ix);
        let was = old.map(|old| old.value()).unwrap_or_default();
        if let Some(old) = old {
            self.unclass(old.class, slot);
        }
        let (word, bit) = (slot / WORD, 1 << (slot % WORD));
        let kinds = &mut self.kinds[word as usize];
        match kinds.iter_mut().find(|(other, _)| *other == class) {
            Some((_, mask)) => *mask |= bit,
            None => kinds.push((class, bit)),
        }
        if new || old.is_none_or(|old| old.class != class) {
            // Who looked before does not know whether it admits this node.
            self.log.cut(u64::from(slot) << 32 | u64::from(class));
        }
        self.refresh(ix, was);
    }

    /// Only whether a node takes new jobs changes.
    pub fn set_open(&mut self, ix: NodeIx, open: bool) {
        if let Some(other) = &mut self.undrained {
            other.set_open(ix, open);
        }
        if let Some(Some(record)) = self.records.get_mut(ix.index())
            && record.open != open
        {
            let old = record.value();
            record.open = open;
            self.refresh(ix, old);
        }
    }

    /// Only what jobs hold on a node changes.
    pub fn set_held(&mut self, ix: NodeIx, held: Allocated) {
        if let Some(other) = &mut self.undrained {
            other.set_held(ix, held);
        }
        if let Some(Some(record)) = self.records.get_mut(ix.index())
            && record.held != held
        {
            let old = record.value();
            record.held = held;
            self.refresh(ix, old);
        }
    }

    /// Another capacity index is made for the same nodes: who is on them stays.
    pub(crate) fn with_owners_of(self, other: &mut Self) -> Self {
        Self { owners: std::mem::take(&mut other.owners), ..self }
    }

    /// The number of a tenant, for [`Self::own`].
    pub(crate) fn tenant(&mut self, tenant: &TenantName) -> u32 {
        self.owners.number(tenant)
    }

    /// A job of a tenant comes to a node, or leaves it.
    pub(crate) fn own(&mut self, ix: NodeIx, tenant: u32, take: bool) {
        self.owners.change(ix, tenant, take);
        // What it offers to others may be something else now, whatever is held there.
        if self.owners.is_apart(ix)
            && let Some(record) = self.record(ix)
        {
            self.log.push(record.slot / WORD, mix(u64::from(tenant), u64::from(take)));
        }
    }

    /// A node leaves, with who is on it; [`Self::put_tenants`] brings them back.
    pub(crate) fn take_tenants(&mut self, ix: NodeIx) -> Tenants {
        self.owners.remove(ix)
    }

    /// Puts the tenants back that [`Self::take_tenants`] took off the node.
    pub(crate) fn put_tenants(&mut self, ix: NodeIx, tenants: &Tenants) {
        self.owners.put(ix, tenants);
    }

    /// Removes a node, with everything that the capacity index knows of it; an unknown node changes nothing.
    pub fn remove_node(&mut self, ix: NodeIx) {
        if let Some(other) = &mut self.undrained {
            other.drop_node(ix);
        }
        self.drop_node(ix);
        self.drop_undrained();
    }

    fn drop_node(&mut self, ix: NodeIx) {
        let Some(record) = self.records.get_mut(ix.index()).and_then(Option::take) else { return };
        while self.records.last() == Some(&None) {
            self.records.pop();
        }
        self.unclass(record.class, record.slot);
        if self.layout.block_of(record.slot / WORD) == self.layout.outside() {
            self.offer(record.value(), Value::default(), 1);
            self.outsider_leaves(ix);
            return;
        }
        self.nodes[record.slot as usize] = None;
        self.apply(&Run {
            word: record.slot / WORD,
            mask: 1 << (record.slot % WORD),
            old: record.value(),
            value: Value::default(),
        });
        // The word does not say any more which node it was.
        self.log.cut(u64::from(record.slot));
    }

    /// A gang takes its GPUs, rails, CPUs and memory; `whole` keeps others off its nodes.
    pub fn take(&mut self, nodes: &[Pick], rails: RailSet, host: Host, whole: bool) {
        self.hold(nodes, |held, gpus| held.with(Allocated { gpus, rails, whole, host }));
        self.share(rails.len(), true);
    }

    /// A gang gives them back.
    pub fn give(&mut self, nodes: &[Pick], rails: RailSet, host: Host, whole: bool) {
        self.hold(nodes, |held, gpus| held.without(Allocated { gpus, rails, whole, host }));
        self.share(rails.len(), false);
    }

    /// Changes what is held; and counts the nodes block by block, in their order, into `spans`.
    pub(crate) fn hold(&mut self, nodes: &[Pick], change: impl Fn(Allocated, u64) -> Allocated) {
        if let Some(other) = &mut self.undrained {
            other.hold_here(nodes, &change);
        }
        self.hold_here(nodes, &change);
    }

    fn hold_here(&mut self, nodes: &[Pick], change: &impl Fn(Allocated, u64) -> Allocated) {
        let (mut run, mut content) = (Run::default(), 0);
        let mut like: Option<Like> = None;
        let mut tally = Tally::default();
        self.spans.clear();
        for pick in nodes {
            let Some(Some(record)) = self.records.get_mut(pick.node.index()) else { continue };
            if like.as_ref().is_none_or(|like| !like.is(record, pick.gpus)) {
                like = Some(Like::new(record, pick.gpus, change(record.held, pick.gpus)));
            }
            let Some(now) = &like else { continue };
            record.held = now.held;
            let (word, bit) = (record.slot / WORD, 1 << (record.slot % WORD));
            if run.word == word && run.mask != 0 && run.old == now.old && run.value == now.value {
                run.mask |= bit;
                continue;
            }
            let (old, value) = (now.old, now.value);
            content = self.end(&run, content, run.word != word, &mut tally);
            run = Run { word, mask: bit, old, value };
        }
        self.end(&run, content, true, &mut tally);
        self.offer(tally.old, tally.value, tally.nodes);
    }

    /// Writes nodes that get the same value; `last` if these are the last ones of their word. The digest so far.
    fn end(&mut self, run: &Run, content: u64, last: bool, tally: &mut Tally) -> u64 {
        if run.mask == 0 {
            return content;
        }
        let content = mix(content, self.draw(run));
        if last {
            self.log.push(run.word, content);
        }
        let (block, nodes) = (self.layout.block_of(run.word), run.mask.count_ones());
        if (tally.old, tally.value) != (run.old, run.value) {
            self.offer(tally.old, tally.value, tally.nodes);
            *tally = Tally { old: run.old, value: run.value, nodes: 0 };
        }
        tally.nodes += nodes as usize;
        match self.spans.last_mut() {
            Some((last, count)) if *last == block => *count += nodes,
            _ => self.spans.push((block, nodes)),
        }
        content
    }

    /// Gangs over several blocks load the uplinks of each of them, as [`Self::share_blocks`] says; of `spans`.
    fn share(&mut self, rails: u32, more: bool) {
        if let Some(other) = &mut self.undrained {
            other.share(rails, more);
        }
        if self.spans.len() < 2 {
            return;
        }
        for (block, nodes) in &self.spans {
            let (load, all) = (&mut self.load[*block as usize], rails * nodes);
            *load = if more { *load + all } else { load.saturating_sub(all) };
        }
    }

    /// Gangs over several blocks load the uplinks of each of them: once per node and rail.
    pub(crate) fn share_blocks(&mut self, blocks: impl Iterator<Item = u32> + Clone, rails: u32, more: bool) {
        if let Some(other) = &mut self.undrained {
            other.load_blocks(blocks.clone(), rails, more);
        }
        self.load_blocks(blocks, rails, more);
    }

    fn load_blocks(&mut self, blocks: impl Iterator<Item = u32> + Clone, rails: u32, more: bool) {
        let mut all = blocks.clone();
        let first = all.next();
        if all.all(|block| Some(block) == first) {
            return;
        }
        for block in blocks {
            let load = &mut self.load[block as usize];
            *load = if more { *load + rails } else { load.saturating_sub(rails) };
        }
    }

    /// The block where a node stands or would stand.
    pub(crate) fn block_named(&self, name: &NodeName) -> u32 {
        self.layout.slot(name).map_or_else(|| self.layout.outside(), |slot| self.layout.block_of(slot / WORD))
    }

    /// The block of nodes without cables.
    pub(crate) fn outside_block(&self) -> u32 {
        self.layout.outside()
    }

    /// Brings the planes up to date with a node's record.
    fn refresh(&mut self, ix: NodeIx, old: Value) {
        if let Some(record) = self.record(ix).copied() {
            let (word, mask) = (record.slot / WORD, 1 << (record.slot % WORD));
            let content = self.write(&Run { word, mask, old, value: record.value() });
            // The planes do not show all of it: a held node's NICs, or whether it would take jobs.
            self.log.push(word, mix(content, record.digest()));
        }
    }

    /// So many nodes offer something else than before.
    fn offer(&mut self, old: Value, new: Value, nodes: usize) {
        for (value, more) in [(old, false), (new, true)] {
            if value.open
                && !value.idle
                && let Some(count) = self.broken.get_mut(value.free as usize)
            {
                *count = if more { *count + nodes } else { count.saturating_sub(nodes) };
            }
        }
        if (old.open, old.rails) == (new.open, new.rails) {
            return;
        }
        if old.open
            && let Some(count) = self.offers.get_mut(&old.rails)
        {
            *count -= nodes.min(*count);
            if *count == 0 {
                self.offers.remove(&old.rails);
            }
        }
        if new.open {
            *self.offers.entry(new.rails).or_default() += nodes;
        }
    }

    fn apply(&mut self, run: &Run) {
        let content = self.write(run);
        self.log.push(run.word, content);
    }

    /// Counts what is offered and writes the planes; a digest of what was written.
    fn write(&mut self, run: &Run) -> u64 {
        self.offer(run.old, run.value, run.mask.count_ones() as usize);
        self.draw(run)
    }

    /// Writes the planes; a digest of what was written.
    fn draw(&mut self, run: &Run) -> u64 {
        let at = run.word as usize;
        self.words[at].set(run.mask, run.value);
        let (some, bit) = (self.words[at].offers_any(), 1 << (at % 64));
        let known = &mut self.some[at / 64];
        *known = if some { *known | bit } else { *known & !bit };
        let Value { open, idle, free, rails, host } = run.value;
        if run.old.rails != rails {
            set_rails(&mut self.rails[at * self.stride..][..self.stride], run.mask, rails);
        }
        let flags = u64::from(free) << 2 | u64::from(open) << 1 | u64::from(idle);
        let rails = rails.iter().fold(0, |set, rail| set | 1 << rail);
        let content = mix(mix(run.mask, flags), rails);
        if host.is_none() { content } else { mix(mix(content, host.cpus.into()), host.memory) }
    }

    fn unclass(&mut self, class: u32, slot: u32) {
        self.classes.leave(class);
        let kinds = &mut self.kinds[(slot / WORD) as usize];
        let bit = 1 << (slot % WORD);
        if let Some(at) = kinds.iter().position(|(other, mask)| *other == class && mask & bit != 0) {
            kinds[at].1 &= !bit;
            if kinds[at].1 == 0 {
                kinds.swap_remove(at);
            }
        }
    }

    /// Makes room for a node that no document cables, in name order. Its slot.
    fn outsider(&mut self, ix: NodeIx, name: &NodeName) -> u32 {
        let at = self.outside.partition_point(|(other, _)| other < name);
        self.outside.insert(at, (name.clone(), ix));
        self.rebuild_outside(at);
        self.layout.fixed_words() * WORD + u32::try_from(at).unwrap_or(u32::MAX)
    }

    fn outsider_leaves(&mut self, ix: NodeIx) {
        if let Some(at) = self.outside.iter().position(|(_, other)| *other == ix) {
            self.outside.remove(at);
            self.rebuild_outside(at);
        }
    }

    /// Numbers the nodes outside the document anew, from the `from`th on.
    fn rebuild_outside(&mut self, from: usize) {
        let fixed = self.layout.fixed_words() as usize;
        let words = fixed + self.outside.len().div_ceil(WORD as usize);
        let whole = fixed + from / WORD as usize;
        // The word of the first is made anew as a whole, so that no bit of it is left over.
        let from = (whole - fixed) * WORD as usize;
        self.words.truncate(whole);
        self.words.resize(words, NodeBlock::default());
        self.some.resize(words.div_ceil(64), 0);
        for word in whole..words.next_multiple_of(64) {
            self.some[word / 64] &= !(1 << (word % 64));
        }
        self.rails.truncate(whole * self.stride);
        self.rails.resize(words * self.stride, 0);
        self.kinds.truncate(whole);
        self.kinds.resize(words, Vec::new());
        self.nodes.truncate(whole * WORD as usize);
        self.nodes.resize(words * WORD as usize, None);
        let first = u32::try_from(fixed).unwrap_or(u32::MAX) * WORD;
        for at in from..self.outside.len() {
            let ix = self.outside[at].1;
            let slot = first + u32::try_from(at).unwrap_or(u32::MAX);
            // The node that is just coming has no record yet.
            if let Some(Some(record)) = self.records.get_mut(ix.index()) {
                record.slot = slot;
                let value = record.value();
                let (class, bit) = (record.class, 1 << (slot % WORD));
                self.nodes[slot as usize] = Some(ix);
                let kinds = &mut self.kinds[(slot / WORD) as usize];
                match kinds.iter_mut().find(|(other, _)| *other == class) {
                    Some((_, mask)) => *mask |= bit,
                    None => kinds.push((class, bit)),
                }
                // The planes are new and know nothing of it.
                let planes = (slot / WORD) as usize * self.stride;
                set_rails(&mut self.rails[planes..][..self.stride], bit, value.rails);
                self.refresh(ix, value);
            }
        }
        self.log.cut(mix(from as u64, words as u64));
    }
}
