//! Places for buffers that live for a time: each at the lowest place that is free during its life.
//!
//! A tree over time, as for stabbing queries, knows what is occupied: each node stands for a span of time, and a life is noted in the few nodes that
//! make it up and in those above. Ranges that touch are kept as one, and since every buffer goes as low as it can there are few of
//! them, so that a place costs about the logarithm of time, however many buffers there are.

use super::Life;

/// Places of some lives, in their order, and the end of the highest.
pub(super) fn pack(lives: &[Life]) -> (Vec<usize>, usize) {
    let mut tree = Tree::new(lives.iter().map(|life| life.last + 1).max().unwrap_or(0));
    let places: Vec<usize> = lives.iter().map(|life| tree.place(life)).collect();
    let end = lives.iter().zip(&places).map(|(life, place)| place + life.bytes).max().unwrap_or(0);
    (places, end)
}

/// Occupied bytes: ranges that ascend and neither overlap nor touch.
#[derive(Clone, Default)]
struct Occupied(Vec<(usize, usize)>);

impl Occupied {
    /// The lowest place from `from` on where `len` bytes are free.
    fn lowest(&self, from: usize, len: usize) -> usize {
        let Self(ranges) = self;
        // Most often the place is above all of them.
        if ranges.last().is_none_or(|range| range.1 <= from) {
            return from;
        }
        let next = ranges.partition_point(|range| range.1 <= from);
        let mut place = from;
        for &(start, end) in &ranges[next..] {
            if place + len <= start {
                break;
            }
            place = end;
        }
        place
    }

    fn insert(&mut self, start: usize, end: usize) {
        let Self(ranges) = self;
        let first = ranges.partition_point(|range| range.1 < start);
        let touched = ranges[first..].partition_point(|range| range.0 <= end);
        if touched == 0 {
            ranges.insert(first, (start, end));
            return;
        }
        let last = ranges[first + touched - 1].1;
        ranges[first] = (ranges[first].0.min(start), last.max(end));
        ranges.drain(first + 1..first + touched);
    }
}

/// What is occupied in a span of time.
#[derive(Clone, Default)]
struct Span {
    /// By lives that fill it.
    throughout: Occupied,
    /// At any time in it, except for what fills a span above.
    ever: Occupied,
}

/// Spans of time: node 1 is all of it, node `n` is made up of `2n` and `2n + 1`, and the last `times` nodes are the single times.
struct Tree {
    times: usize,
    spans: Vec<Span>,
    /// Room for the spans of one life: those that make it up, and those that hold its first or last time.
    inside: Vec<usize>,
    holding: Vec<usize>,
}

impl Tree {
    fn new(times: usize) -> Self {
        let times = times.next_power_of_two();
        Self { times, spans: vec![Span::default(); 2 * times], inside: Vec::new(), holding: Vec::new() }
    }

    /// Finds the lowest place that is free during a life, and occupies it.
    fn place(&mut self, life: &Life) -> usize {
        if life.bytes == 0 {
            return 0; // it is in nobody's way
        }
        self.find_spans(life);
        let Self { spans, inside, holding, .. } = self;
        // A life that overlaps this one was noted below or at a span that is inside, or fills a span that holds one of the ends.
        let ever = inside.iter().map(|&span| &spans[span].ever);
        let throughout = holding.iter().map(|&span| &spans[span].throughout);
        let occupied: Vec<&Occupied> = ever.chain(throughout).filter(|occupied| !occupied.0.is_empty()).collect();
        let mut place = 0;
        let mut agreed = 0; // so many in turn have it free
        for among in occupied.iter().cycle() {
            if agreed == occupied.len() {
                break;
            }
            let lowest = among.lowest(place, life.bytes);
            agreed = if lowest == place { agreed + 1 } else { 1 };
            place = lowest;
        }
        let end = place + life.bytes;
        for &span in &*inside {
            spans[span].throughout.insert(place, end);
        }
        for &span in inside.iter().chain(&*holding) {
            spans[span].ever.insert(place, end);
        }
        place
    }

    fn find_spans(&mut self, life: &Life) {
        let Self { times, inside, holding, .. } = self;
        inside.clear();
        holding.clear();
        let (mut first, mut last) = (life.first + *times, life.last + *times);
        let (mut from, mut to) = (first, last + 1);
        while from < to {
            if from % 2 == 1 {
                inside.push(from);
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                inside.push(to);
            }
            (from, to) = (from / 2, to / 2);
        }
        while first > 0 {
            holding.push(first);
            if first != last {
                holding.push(last);
            }
            (first, last) = (first / 2, last / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Looks at all that were placed before.
    fn pack_slowly(lives: &[Life]) -> (Vec<usize>, usize) {
        let mut placed: Vec<(usize, Life)> = Vec::new();
        for &life in lives {
            let overlap = |p: &Life| p.first <= life.last && life.first <= p.last;
            let mut rivals: Vec<_> = placed.iter().filter(|p| overlap(&p.1)).map(|p| (p.0, p.1.bytes)).collect();
            rivals.sort_unstable();
            let mut place = 0;
            for (start, len) in rivals {
                if place + life.bytes <= start {
                    break;
                }
                place = place.max(start + len);
            }
            placed.push((place, life));
        }
        let end = placed.iter().map(|(place, life)| place + life.bytes).max().unwrap_or(0);
        (placed.into_iter().map(|p| p.0).collect(), end)
    }

    /// Lives of a few lengths or of many, short ones and long ones among them.
    fn lives() -> impl Strategy<Value = Vec<Life>> {
        (1_usize..200, 1_usize..60).prop_flat_map(|(times, lengths)| {
            let life = (0..lengths, 0..times, prop_oneof![3 => 0_usize..4, 1 => 0..times]);
            let of = |(len, first, more): (usize, usize, usize)| Life { bytes: len, first, last: first + more };
            prop::collection::vec(life.prop_map(of), 0..150)
        })
    }

    proptest! {
        #[test]
        fn places_are_those_of_looking_at_all(mut lives in lives(), largest_first: bool) {
            if largest_first {
                lives.sort_by_key(|life| (std::cmp::Reverse(life.bytes), life.first));
            }
            prop_assert_eq!(pack(&lives), pack_slowly(&lives));
        }
    }
}
