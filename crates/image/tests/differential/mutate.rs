//! Damaged files: each is a function of its number, so that one that shows a difference can be made again.

/// Random numbers (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5EED)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `end` (which is not 0).
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Where the segments of a file begin (each at its 0xFF), the last one being the first scan's.
fn segments(bytes: &[u8]) -> Vec<usize> {
    let (mut found, mut at) = (Vec::new(), 2);
    while at + 4 <= bytes.len() && bytes[at] == 0xFF {
        found.push(at);
        if bytes[at + 1] == 0xDA {
            break;
        }
        at += 2 + usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]));
    }
    found
}

/// The file of this number.
pub(crate) fn file(seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    let mut bytes = seeds[random.below(seeds.len())].clone();
    // Most have one fault; some have none at all.
    let faults = [1, 1, 1, 1, 2, 2, 3, 0][random.below(8)];
    for _ in 0..faults {
        mutate(&mut bytes, seeds, &mut random);
    }
    bytes
}

fn mutate(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    if bytes.len() < 8 {
        return;
    }
    let found = segments(bytes);
    let data = found.last().map_or(2, |&at| at + 2).min(bytes.len() - 1);
    match random.below(16) {
        // One bit, or one byte, of the coded picture.
        0..=4 => {
            let at = data + random.below(bytes.len() - data);
            bytes[at] ^= 1 << random.below(8);
        }
        5 | 6 => {
            let at = data + random.below(bytes.len() - data);
            bytes[at] = [0, 0xFF, 0x7F, 0x80, random.next() as u8][random.below(5)];
        }
        // A byte of a segment: a field of the frame or scan header, a table, a length.
        7..=10 if !found.is_empty() => {
            let which = random.below(found.len());
            let from = found[which];
            let to = found.get(which + 1).copied().unwrap_or(from + 16).min(bytes.len());
            // The fields are at the beginning; tables are long.
            let span = if random.below(2) == 0 { (to - from).min(20) } else { to - from };
            let at = from + random.below(span.max(1));
            bytes[at] = match random.below(4) {
                0 => bytes[at] ^ (1 << random.below(8)),
                1 => bytes[at].wrapping_add(1),
                2 => bytes[at].wrapping_sub(1),
                _ => random.next() as u8,
            };
        }
        // A segment is moved, doubled, lost, or comes from another file.
        11 if found.len() > 2 => {
            let which = random.below(found.len() - 1);
            let segment: Vec<u8> = bytes[found[which]..found[which + 1]].to_vec();
            match random.below(3) {
                0 => drop(bytes.drain(found[which]..found[which + 1])),
                _ => {
                    let to = found[random.below(found.len())];
                    bytes.splice(to..to, segment);
                }
            }
        }
        12 if !found.is_empty() => {
            let other = &seeds[random.below(seeds.len())];
            let theirs = segments(other);
            if theirs.len() > 2 {
                let which = random.below(theirs.len() - 1);
                let to = found[random.below(found.len())];
                bytes.splice(to..to, other[theirs[which]..theirs[which + 1]].iter().copied());
            }
        }
        // The end is missing, or a piece in the middle is missing or comes twice.
        13 => bytes.truncate(bytes.len() - random.below(bytes.len() - 4)),
        14 => {
            let from = random.below(bytes.len() - 2);
            let length = 1 + random.below((bytes.len() - from).min(16));
            bytes.drain(from..(from + length).min(bytes.len()));
        }
        _ => {
            let from = random.below(bytes.len() - 2);
            let length = 1 + random.below((bytes.len() - from - 1).min(16));
            let piece: Vec<u8> = bytes[from..from + length].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, piece);
        }
    }
}
