//! Cursors at rest: those that no statement uses. The next one that a statement opens is one of
//! them, with its memory, and if it was on the same tree with its place.

use crate::cursor::Position;

/// At most this many are kept.
const MOST: usize = 16;

/// The cursors at rest of a connection.
#[derive(Default)]
pub(crate) struct Rested {
    /// Those that were used last come last. They are boxes because C has their addresses.
    all: Vec<Box<Position>>,
    /// Seats that no cursor has, and the next one that none has ever had.
    seats: Vec<usize>,
    next_seat: usize,
}

impl Rested {
    /// A cursor for a tree.
    pub(crate) fn take(&mut self, root: u32, is_index: bool) -> Box<Position> {
        let of_tree = self.all.iter().rposition(|position| position.is_of(root, is_index));
        let mut position = match of_tree {
            Some(at) => self.all.remove(at),
            None if self.all.len() == MOST => self.all.remove(0),
            None => Box::new(Position::new(self.seat())),
        };
        position.begin(root, is_index);
        position
    }

    /// A cursor that is no longer used.
    pub(crate) fn give(&mut self, position: Box<Position>) {
        if self.all.len() == MOST {
            let oldest = self.all.remove(0);
            self.seats.push(oldest.seat());
        }
        self.all.push(position);
    }

    /// The tree of a root is gone: another one may get its number.
    pub(crate) fn forget(&mut self, root: u32) {
        self.all.iter_mut().for_each(|position| position.forget(root));
    }

    fn seat(&mut self) -> usize {
        self.seats.pop().unwrap_or_else(|| {
            self.next_seat += 1;
            self.next_seat - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_come_back_to_their_trees_and_seats_are_used_again() {
        let mut rested = Rested::default();
        let mut all: Vec<_> = (0..40).map(|root| rested.take(root, false)).collect();
        assert!(all.iter().enumerate().all(|(i, position)| position.seat() == i));
        let seats: Vec<_> = all.iter().map(|position| position.seat()).collect();
        all.drain(..).for_each(|position| rested.give(position));
        assert_eq!(rested.take(39, false).seat(), seats[39]);
        assert_eq!(rested.take(30, false).seat(), seats[30]);
        // Of an index with that number there is none.
        let other = rested.take(31, true);
        assert!(other.seat() < 24 && other.is_of(31, true));
        let more: Vec<_> = (100..160).map(|root| rested.take(root, true)).collect();
        let mut seats: Vec<_> = more.iter().map(|position| position.seat()).collect();
        seats.sort_unstable();
        seats.dedup();
        assert_eq!(seats.len(), 60);
    }
}
