//! Registrations of memory that messages are sent from in place, kept from one message to the next. No IO.
//!
//! What unmaps memory is its last owner, and a registration is an owner: no device can reach memory that is gone, and memory that is
//! mapped later at the same address is other memory, because it has another owner. The other way round, memory that nobody holds but
//! its registrations is given back by [`Cache::sweep`]; registrations that messages under way hold end with those.

use std::collections::HashMap;
use std::sync::Arc;

/// Most memories, and most bytes of them, that are kept registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Most memories that are kept registered.
    pub memories: usize,
    /// Bytes of all of them together, each counted once.
    pub bytes: u64,
}

/// What is known of a memory on one rail.
#[derive(Debug)]
enum Known<R> {
    Nothing,
    Registered(Arc<R>),
    /// It could not be registered; it is not tried again, since messages can be copied.
    Refused,
}

#[derive(Debug)]
struct Entry<M, R> {
    memory: Arc<M>,
    bytes: u64,
    rails: Vec<Known<R>>,
    /// By the count of look-ups.
    used: u64,
}

impl<M, R> Entry<M, R> {
    /// Whether somebody else holds the memory: its registrations hold it once each, and this entry once.
    fn is_wanted(&self) -> bool {
        let registered = self.rails.iter().filter(|known| matches!(known, Known::Registered(_))).count();
        Arc::strong_count(&self.memory) > 1 + registered
    }
}

/// Registrations `R` of memories `M`, by rail. Each registration holds its memory's `Arc` exactly once.
#[derive(Debug)]
pub struct Cache<M, R> {
    bounds: Bounds,
    rails: usize,
    /// By the address of the memory's owner, which no other has as long as the entry holds it.
    entries: HashMap<usize, Entry<M, R>>,
    bytes: u64,
    lookups: u64,
}

impl<M, R> Cache<M, R> {
    /// An empty cache for memories that are registered on `rails` rails.
    #[must_use]
    pub fn new(rails: usize, bounds: Bounds) -> Self {
        Cache { bounds, rails, entries: HashMap::new(), bytes: 0, lookups: 0 }
    }

    /// How many memories are known, and their bytes.
    #[must_use]
    pub fn held(&self) -> (usize, u64) {
        (self.entries.len(), self.bytes)
    }

    /// The registration of a memory of this many bytes on a rail, made by `register` if there is none; nothing if it cannot be
    /// registered, or is larger than all that is kept. To keep the bounds, those go that were not asked for longest.
    pub fn get<E>(
        &mut self,
        memory: &Arc<M>,
        bytes: u64,
        rail: usize,
        register: impl FnOnce(&Arc<M>) -> Result<R, E>,
    ) -> Option<Arc<R>> {
        self.lookups += 1;
        let name = Arc::as_ptr(memory).addr();
        if let Some(entry) = self.entries.get_mut(&name) {
            entry.used = self.lookups;
            match entry.rails.get(rail)? {
                Known::Registered(registration) => return Some(Arc::clone(registration)),
                Known::Refused => return None,
                Known::Nothing => {}
            }
        } else if rail >= self.rails || !self.make_room(bytes) {
            return None;
        }
        self.register(memory, bytes, rail, register)
    }

    #[cold]
    fn register<E>(
        &mut self,
        memory: &Arc<M>,
        bytes: u64,
        rail: usize,
        register: impl FnOnce(&Arc<M>) -> Result<R, E>,
    ) -> Option<Arc<R>> {
        let (rails, used) = (self.rails, self.lookups);
        let entry = self.entries.entry(Arc::as_ptr(memory).addr()).or_insert_with(|| {
            self.bytes += bytes;
            let rails = (0..rails).map(|_| Known::Nothing).collect();
            Entry { memory: Arc::clone(memory), bytes, rails, used }
        });
        let registration = register(memory).ok().map(Arc::new);
        *entry.rails.get_mut(rail)? = match &registration {
            Some(registration) => Known::Registered(Arc::clone(registration)),
            None => Known::Refused,
        };
        registration
    }

    /// Lets go of the memories that were not asked for longest until this many bytes more are within the bounds; false if they never
    /// can be.
    fn make_room(&mut self, bytes: u64) -> bool {
        if bytes > self.bounds.bytes || self.bounds.memories == 0 {
            return false;
        }
        while self.entries.len() >= self.bounds.memories || self.bytes + bytes > self.bounds.bytes {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(&name, _)| name);
            let Some(gone) = oldest.and_then(|name| self.entries.remove(&name)) else { return false };
            self.bytes -= gone.bytes;
        }
        true
    }

    /// Lets go of all registrations on a rail: its device is another one now.
    pub fn forget(&mut self, rail: usize) {
        for known in self.entries.values_mut().filter_map(|entry| entry.rails.get_mut(rail)) {
            *known = Known::Nothing;
        }
    }

    /// Lets go of memories that nobody else holds any more.
    pub fn sweep(&mut self) {
        let bytes = &mut self.bytes;
        self.entries.retain(|_, entry| {
            let keep = entry.is_wanted();
            if !keep {
                *bytes -= entry.bytes;
            }
            keep
        });
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;

    use super::*;

    /// Memory that says when it is unmapped.
    #[derive(Debug)]
    struct Memory {
        number: usize,
        mapped: Arc<AtomicUsize>,
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            self.mapped.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A registration as a device has it.
    #[derive(Debug)]
    struct Registration {
        memory: Arc<Memory>,
        rail: usize,
    }

    #[derive(Debug, Clone)]
    enum Step {
        Map,
        Unmap(usize),
        Send { memory: usize, rail: usize, fails: bool },
        Complete(usize),
        Sweep,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => Just(Step::Map),
            2 => any::<usize>().prop_map(Step::Unmap),
            8 => (any::<usize>(), 0usize..3, prop::bool::weighted(0.1))
                .prop_map(|(memory, rail, fails)| Step::Send { memory, rail, fails }),
            4 => any::<usize>().prop_map(Step::Complete),
            1 => Just(Step::Sweep),
        ];
        prop::collection::vec(step, 0..200)
    }

    /// What the cache must do, said plainly: memories by number, from the one not asked for longest, with what is known of each rail.
    #[derive(Default)]
    struct Model(Vec<(usize, [Option<bool>; 3])>);

    const BOUNDS: Bounds = Bounds { memories: 4, bytes: 1000 };
    fn bytes_of(number: usize) -> u64 {
        [100, 300, 600, 1200][number % 4]
    }

    impl Model {
        fn bytes(&self) -> u64 {
            self.0.iter().map(|(number, _)| bytes_of(*number)).sum()
        }

        /// Whether a registration is given, and whether one is made for it.
        fn get(&mut self, number: usize, rail: usize, fails: bool) -> (bool, bool) {
            let mut entry = match self.0.iter().position(|(n, _)| *n == number) {
                Some(at) => self.0.remove(at),
                None if bytes_of(number) > BOUNDS.bytes => return (false, false),
                None => {
                    while self.0.len() >= BOUNDS.memories || self.bytes() + bytes_of(number) > BOUNDS.bytes {
                        self.0.remove(0);
                    }
                    (number, [None; 3])
                }
            };
            let asked = entry.1[rail].is_none();
            let given = *entry.1[rail].get_or_insert(!fails);
            self.0.push(entry);
            (given, asked)
        }
    }

    proptest! {
        #[test]
        fn it_does_what_the_model_does_and_gives_back_all(steps in steps()) {
            let mapped = Arc::new(AtomicUsize::new(0));
            let mut cache: Cache<Memory, Registration> = Cache::new(3, BOUNDS);
            let mut model = Model::default();
            let (mut owners, mut under_way, mut next) = (Vec::<Arc<Memory>>::new(), Vec::new(), 0);
            for step in steps {
                match step {
                    Step::Map => {
                        mapped.fetch_add(1, Ordering::Relaxed);
                        owners.push(Arc::new(Memory { number: next, mapped: Arc::clone(&mapped) }));
                        next += 1;
                    }
                    Step::Unmap(at) if !owners.is_empty() => _ = owners.swap_remove(at % owners.len()),
                    Step::Send { memory, rail, fails } if !owners.is_empty() => {
                        let memory = &owners[memory % owners.len()];
                        let (given, made) = model.get(memory.number, rail, fails);
                        let asked = Cell::new(false);
                        let register = |memory: &Arc<Memory>| {
                            asked.set(true);
                            let memory = Arc::clone(memory);
                            if fails { Err(()) } else { Ok(Registration { memory, rail }) }
                        };
                        let got = cache.get(memory, bytes_of(memory.number), rail, register);
                        prop_assert_eq!((got.is_some(), asked.get()), (given, made));
                        if let Some(got) = got {
                            prop_assert!(Arc::ptr_eq(&got.memory, memory), "of this memory and no other");
                            prop_assert_eq!(got.rail, rail);
                            under_way.push(got);
                        }
                    }
                    Step::Complete(at) if !under_way.is_empty() => _ = under_way.swap_remove(at % under_way.len()),
                    Step::Sweep => {
                        // A message under way keeps a memory only by a registration that is not the cache's own any more.
                        let owned = owners.iter().map(|owner| owner.number);
                        let others = under_way.iter().filter(|r| !has(&cache, r)).map(|r| r.memory.number);
                        let wanted: BTreeSet<usize> = owned.chain(others).collect();
                        cache.sweep();
                        model.0.retain(|(number, _)| wanted.contains(number));
                    }
                    _ => {}
                }
                prop_assert_eq!(cache.held(), (model.0.len(), model.bytes()));
                prop_assert!(cache.held().0 <= BOUNDS.memories && cache.held().1 <= BOUNDS.bytes);
            }
            // Whoever held memory lets go: messages first, then the ranks. Registrations alone keep nothing mapped.
            under_way.clear();
            owners.clear();
            cache.sweep();
            prop_assert_eq!((cache.held(), mapped.load(Ordering::Relaxed)), ((0, 0), 0));
        }
    }

    /// Whether a message's registration is the one that the cache has.
    fn has(cache: &Cache<Memory, Registration>, of: &Arc<Registration>) -> bool {
        let entry = cache.entries.get(&Arc::as_ptr(&of.memory).addr());
        entry.is_some_and(
            |entry| matches!(&entry.rails[of.rail], Known::Registered(have) if Arc::ptr_eq(have, of)),
        )
    }

    #[test]
    fn memory_at_an_old_address_is_other_memory() {
        let mut cache: Cache<u64, Arc<u64>> = Cache::new(1, BOUNDS);
        let asked = Cell::new(0);
        for round in 0..100u64 {
            let memory = Arc::new(round);
            let register = |memory: &Arc<u64>| {
                asked.set(asked.get() + 1);
                Ok::<_, ()>(Arc::clone(memory))
            };
            assert_eq!(**cache.get(&memory, 1, 0, register).unwrap(), round);
        }
        assert_eq!(asked.get(), 100);
    }
}
