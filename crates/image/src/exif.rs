//! The orientation in EXIF data (a TIFF structure, big or little endian), and turning pixels upright by it.

/// The orientation, 1 to 8, in a TIFF structure; `None` where none is stated or the structure is damaged (a damaged
/// EXIF block says nothing about the pixels, so it is no reason to refuse them).
pub(crate) fn orientation(tiff: &[u8]) -> Option<u8> {
    let big = match tiff.get(..4)? {
        b"MM\0*" => true,
        b"II*\0" => false,
        _ => return None,
    };
    let u16_at = |at: usize| {
        let b = tiff.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if big { u16::from_be_bytes(b) } else { u16::from_le_bytes(b) })
    };
    let u32_at = |at: usize| {
        let b = tiff.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if big { u32::from_be_bytes(b) } else { u32::from_le_bytes(b) })
    };
    let directory = u32_at(4)? as usize;
    let entries = u16_at(directory)? as usize;
    for i in 0..entries {
        let entry = directory.checked_add(2 + 12 * i)?;
        const TAG_ORIENTATION: u16 = 0x0112;
        const TYPE_SHORT: u16 = 3;
        if u16_at(entry)? == TAG_ORIENTATION {
            let value = u16_at(entry + 8)?;
            let right = u16_at(entry + 2)? == TYPE_SHORT && u32_at(entry + 4)? == 1 && (1..=8).contains(&value);
            return right.then_some(value as u8);
        }
    }
    None
}

/// Whether (left and right, top and bottom) of the upright image come from the right or the bottom edge of the stored one:
/// there a scaled image that does not end on a whole pixel has the rest of it.
pub(crate) fn reversed(orientation: u8) -> (bool, bool) {
    (matches!(orientation, 2 | 3 | 6 | 7), matches!(orientation, 3 | 4 | 7 | 8))
}

/// Whether width and height change places.
pub(crate) fn swaps(orientation: u8) -> bool {
    orientation >= 5
}

/// Writes `from` (`width` × `height` as stored) upright into `to`.
pub(crate) fn upright(from: &[u8], width: usize, height: usize, channels: usize, orientation: u8, to: &mut Vec<u8>) {
    to.clear();
    to.resize(width * height * channels, 0);
    if width == 0 || height == 0 {
        return;
    }
    // Where stored row y begins in the upright image, and the step from one stored pixel to the next.
    let (w, h) = (width as isize, height as isize);
    let place = |y: isize| -> (isize, isize) {
        match orientation {
            2 => (y * w + w - 1, -1),
            3 => ((h - 1 - y) * w + w - 1, -1),
            4 => ((h - 1 - y) * w, 1),
            5 => (y, h),
            6 => (h - 1 - y, h),
            7 => ((w - 1) * h + h - 1 - y, -h),
            8 => ((w - 1) * h + y, -h),
            _ => (y * w, 1),
        }
    };
    for (y, row) in from.chunks_exact(width * channels).take(height).enumerate() {
        let (mut at, step) = place(y as isize);
        for pixel in row.chunks_exact(channels) {
            let start = at as usize * channels;
            to[start..start + channels].copy_from_slice(pixel);
            at += step;
        }
    }
}

/// A rectangle of the upright image, as it is stored: `(left, top, width, height)` of an image that is stored
/// `width` × `height`.
pub(crate) fn stored_rectangle(
    (left, top, w, h): (usize, usize, usize, usize),
    (width, height): (usize, usize),
    orientation: u8,
) -> (usize, usize, usize, usize) {
    let (w, h, left, top) = if swaps(orientation) { (h, w, top, left) } else { (w, h, left, top) };
    let mirror_x = matches!(orientation, 2 | 3 | 7 | 8);
    let mirror_y = matches!(orientation, 3 | 4 | 6 | 7);
    let left = if mirror_x { width - w - left } else { left };
    let top = if mirror_y { height - h - top } else { top };
    (left, top, w, h)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiff(big: bool, orientation: u16) -> Vec<u8> {
        let mut t = if big { b"MM\0*".to_vec() } else { b"II*\0".to_vec() };
        let p16 = |t: &mut Vec<u8>, v: u16| t.extend(if big { v.to_be_bytes() } else { v.to_le_bytes() });
        let p32 = |t: &mut Vec<u8>, v: u32| t.extend(if big { v.to_be_bytes() } else { v.to_le_bytes() });
        p32(&mut t, 8);
        p16(&mut t, 1);
        p16(&mut t, 0x0112);
        p16(&mut t, 3);
        p32(&mut t, 1);
        p16(&mut t, orientation);
        p16(&mut t, 0);
        p32(&mut t, 0);
        t
    }

    #[test]
    fn both_byte_orders_and_damage() {
        for big in [true, false] {
            for o in 1..=8 {
                assert_eq!(orientation(&tiff(big, o)), Some(o as u8));
            }
            assert_eq!(orientation(&tiff(big, 9)), None);
            let whole = tiff(big, 6);
            for n in 0..20 {
                assert_eq!(orientation(&whole[..n]), None);
            }
        }
    }

    #[test]
    fn a_window_of_the_upright_image_is_the_same_window_of_the_stored_one() {
        let (w, h) = (7, 5);
        let stored: Vec<u8> = (0..(w * h) as u8).collect();
        for o in 1..=8 {
            let mut whole = Vec::new();
            upright(&stored, w, h, 1, o, &mut whole);
            let across = if swaps(o) { h } else { w };
            let (l, t, rw, rh) = (1, 2, 3, 2);
            let (sl, st, sw, sh) = stored_rectangle((l, t, rw, rh), (w, h), o);
            let part: Vec<u8> = (0..sh)
                .flat_map(|y| (0..sw).map(move |x| (y, x)))
                .map(|(y, x)| stored[(st + y) * w + sl + x])
                .collect();
            let mut turned = Vec::new();
            upright(&part, sw, sh, 1, o, &mut turned);
            let expected: Vec<u8> = (0..rh)
                .flat_map(|y| (0..rw).map(move |x| (y, x)))
                .map(|(y, x)| whole[(t + y) * across + l + x])
                .collect();
            assert_eq!(turned, expected, "orientation {o}");
        }
    }
}
