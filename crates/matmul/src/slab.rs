//! Blocks in one piece of memory, on huge pages where the system has them: blocks of their own would waste the rest of their
//! last huge page, and memory that comes and goes while ranks multiply interrupts the cores of all ranks of the process.

use paceline_base::Result;
use paceline_kernels::cpu::Floats;
use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

/// Blocks start at borders of cache lines.
const LINE: usize = 16;

/// Blocks of equal or smaller size, found by a key `K`, in memory that is taken once.
pub(crate) struct Slab<K> {
    values: Floats,
    places: HashMap<K, Range<usize>>,
}

impl<K: Copy + Eq + Hash> Slab<K> {
    /// Room for no block.
    pub(crate) fn empty() -> Result<Self> {
        Self::new([])
    }

    /// Room for blocks of so many elements.
    pub(crate) fn new(blocks: impl IntoIterator<Item = (K, usize)>) -> Result<Self> {
        let (places, len) = place(blocks);
        Ok(Self { values: Floats::new(len)?, places })
    }

    /// Makes room for other blocks in the same memory, if it is large enough. What lies in them is not said.
    pub(crate) fn renew(&mut self, blocks: impl IntoIterator<Item = (K, usize)>) -> Result<()> {
        let (places, len) = place(blocks);
        if len > self.values.len() {
            self.values = Floats::new(0)?; // not both at once
            self.values = Floats::new(len)?;
        }
        self.places = places;
        Ok(())
    }

    /// All elements of all blocks become zero, and their memory is there.
    pub(crate) fn clear(&mut self) {
        self.values.fill(0.0);
    }

    /// Where a block lies among all elements.
    pub(crate) fn place(&self, block: K) -> Option<Range<usize>> {
        self.places.get(&block).cloned()
    }

    /// A block.
    pub(crate) fn get(&self, block: K) -> Option<&[f32]> {
        Some(&self.values[self.place(block)?])
    }

    /// A block, to be changed.
    pub(crate) fn get_mut(&mut self, block: K) -> Option<&mut [f32]> {
        let place = self.place(block)?;
        Some(&mut self.values[place])
    }

    /// All blocks, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &[f32])> {
        self.places.iter().map(|(block, place)| (*block, &self.values[place.clone()]))
    }
}

impl<K> AsRef<[f32]> for Slab<K> {
    fn as_ref(&self) -> &[f32] {
        &self.values
    }
}

fn place<K: Eq + Hash>(blocks: impl IntoIterator<Item = (K, usize)>) -> (HashMap<K, Range<usize>>, usize) {
    let mut end = 0usize;
    let mut next = |(block, len): (K, usize)| {
        let start = end;
        end = (start + len).next_multiple_of(LINE);
        (block, start..start + len)
    };
    let places = blocks.into_iter().map(&mut next).collect();
    (places, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_apart_and_may_be_renewed() {
        let mut slab = Slab::new([('a', 5), ('b', 33)]).unwrap();
        slab.get_mut('a').unwrap().fill(1.0);
        slab.get_mut('b').unwrap().fill(2.0);
        assert_eq!(slab.get('a'), Some(&[1.0; 5][..]));
        assert_eq!(slab.get('b'), Some(&[2.0; 33][..]));
        assert_eq!(slab.place('b'), Some(16..49));
        assert_eq!(slab.as_ref()[16..49], [2.0; 33]);
        let before = slab.as_ref().as_ptr();
        slab.renew([('c', 40)]).unwrap();
        assert_eq!(slab.as_ref().as_ptr(), before);
        assert_eq!((slab.get('a'), slab.iter().count()), (None, 1));
        slab.renew([('d', 100), ('e', 100)]).unwrap();
        slab.clear();
        assert!(slab.iter().all(|(_, values)| values == [0.0; 100]));
    }
}
