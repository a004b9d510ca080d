//! A set of small numbers that is filled and emptied in every turn, without allocating.

/// The set, in the order of marking.
#[derive(Debug, Default)]
pub struct Marks {
    list: Vec<usize>,
    marked: Vec<bool>,
}

impl Marks {
    /// Marks a number, if it is not yet.
    pub fn insert(&mut self, at: usize) {
        if at >= self.marked.len() {
            self.marked.resize(at + 1, false);
        }
        if !std::mem::replace(&mut self.marked[at], true) {
            self.list.push(at);
        }
    }

    /// Takes a mark away.
    pub fn remove(&mut self, at: usize) {
        if let Some(marked) = self.marked.get_mut(at)
            && std::mem::take(marked)
        {
            self.list.retain(|&other| other != at);
        }
    }

    /// Whether nothing is marked.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes all marks, in an order that begins elsewhere in every turn, so that none is always the first.
    pub fn take(&mut self, turn: usize, into: &mut Vec<usize>) {
        into.clear();
        std::mem::swap(&mut self.list, into);
        into.iter().for_each(|&at| self.marked[at] = false);
        into.sort_unstable();
        let first = turn % into.len().max(1);
        into.rotate_left(first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_taken_once_and_in_turn() {
        let (mut marks, mut taken) = (Marks::default(), vec![9]);
        for at in [3, 1, 3, 2, 0] {
            marks.insert(at);
        }
        marks.remove(2);
        marks.remove(7);
        marks.take(1, &mut taken);
        assert_eq!((&taken[..], marks.is_empty()), (&[1, 3, 0][..], true));
        marks.insert(3);
        marks.take(0, &mut taken);
        assert_eq!(taken, [3]);
    }
}
