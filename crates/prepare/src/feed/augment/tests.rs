use super::*;

fn image(width: usize, height: usize, channels: usize) -> Vec<u8> {
    (0..width * height * channels).map(|i| (i * 37 % 251) as u8).collect()
}

fn apply(augment: &Augment, epoch: u64, sample: u64, shape: &[usize], from: &[u8]) -> Vec<u8> {
    let mut to = vec![0; from.len()];
    Augmenter::default().apply(augment, 7, epoch, sample, shape, from, &mut to);
    to
}

#[test]
fn nothing_changes_nothing_and_every_setting_changes_something() {
    let (shape, from) = ([9, 12, 3], image(12, 9, 3));
    assert_eq!(apply(&Augment::default(), 0, 0, &shape, &from), from);
    let none = Augment::default();
    for augment in [
        Augment { flip: true, ..none },
        Augment { crop: 0.3, ..none },
        Augment { pad: 3, ..none },
        Augment { brightness: 0.5, ..none },
        Augment { contrast: 0.5, ..none },
        Augment { saturation: 0.5, ..none },
        Augment { hue: 0.3, ..none },
    ] {
        let seen: std::collections::BTreeSet<_> =
            (0..40).map(|epoch| apply(&augment, epoch, 5, &shape, &from)).collect();
        assert!(seen.len() >= 2, "{augment:?} never does anything");
        assert_eq!(apply(&augment, 3, 5, &shape, &from), apply(&augment, 3, 5, &shape, &from));
        let samples: std::collections::BTreeSet<_> = (0..40).map(|n| apply(&augment, 1, n, &shape, &from)).collect();
        assert!(samples.len() >= 2, "{augment:?} is the same for all samples");
    }
}

#[test]
fn a_mirror_is_its_own_inverse_and_comes_half_of_the_time() {
    let mut row = image(5, 2, 3);
    let before = row.clone();
    mirror(&mut row, 5, 3);
    assert_eq!(&row[..3], &before[12..15]);
    mirror(&mut row, 5, 3);
    assert_eq!(row, before);
    let augment = Augment { flip: true, ..Augment::default() };
    let from = image(4, 4, 1);
    let flips = (0..1000).filter(|&n| apply(&augment, 0, n, &[4, 4], &from) != from).count();
    assert!((400..600).contains(&flips), "{flips} of 1000");
}

#[test]
fn windows_lie_inside_and_have_the_wanted_area() {
    for n in 0..2000 {
        let draws = Draws::new(1, 2, n);
        let (x, y, w, h) = window(0.25, 60, 40, &draws);
        assert!(x + w <= 60 && y + h <= 40);
        let area = (w * h) as f64 / 2400.0;
        assert!((0.23..=1.0).contains(&area), "{area}");
    }
}

#[test]
fn zooming_the_whole_is_the_identity_and_flat_stays_flat() {
    let from = image(7, 5, 3);
    let mut to = vec![0; from.len()];
    Augmenter::default().zoom::<3>(&from, (7, 5), (0, 0, 7, 5), &mut to);
    assert_eq!(to, from);
    let flat = vec![200; from.len()];
    Augmenter::default().zoom::<3>(&flat, (7, 5), (2, 1, 3, 2), &mut to);
    assert_eq!(to, flat);
}

/// The obvious bilinear, in floats.
#[test]
fn zooming_is_bilinear() {
    let (width, height, channels) = (16, 11, 3);
    let from = image(width, height, channels);
    let mut to = vec![0; from.len()];
    let (x, y, w, h) = (3, 2, 9, 7);
    Augmenter::default().zoom::<3>(&from, (width, height), (x, y, w, h), &mut to);
    let at = |px: usize, py: usize, c: usize| f64::from(from[((y + py) * width + x + px) * channels + c]);
    for oy in 0..height {
        for ox in 0..width {
            let place = |o: usize, outer: usize, inner: usize| {
                let p = ((o as f64 + 0.5) * inner as f64 / outer as f64 - 0.5).max(0.0);
                (p as usize, (p as usize + 1).min(inner - 1), p.fract())
            };
            let ((x0, x1, fx), (y0, y1, fy)) = (place(ox, width, w), place(oy, height, h));
            for c in 0..channels {
                let top = at(x0, y0, c) * (1.0 - fx) + at(x1, y0, c) * fx;
                let bottom = at(x0, y1, c) * (1.0 - fx) + at(x1, y1, c) * fx;
                let expected = top * (1.0 - fy) + bottom * fy;
                let found = f64::from(to[(oy * width + ox) * channels + c]);
                assert!((expected - found).abs() <= 2.5, "{ox},{oy}: {found} for {expected}");
            }
        }
    }
}

#[test]
fn shifts_bring_in_black() {
    let from = image(4, 3, 1);
    let mut to = vec![9; 12];
    shifted(&from, (4, 3, 1), (1, -1), &mut to);
    assert_eq!(to, [&[0][..], &from[4..7], &[0], &from[8..11], &[0; 4]].concat());
    shifted(&from, (4, 3, 1), (-9, 9), &mut to);
    assert_eq!(to, [0; 12]);
}

#[test]
fn colours_change_as_they_should() {
    let (sine, cosine) = sine_and_cosine(2.0);
    assert!((sine - 2f64.sin()).abs() < 1e-14 && (cosine - 2f64.cos()).abs() < 1e-14);
    let (sine, cosine) = sine_and_cosine(-std::f64::consts::PI);
    assert!(sine.abs() < 1e-14 && (cosine + 1.0).abs() < 1e-14);
    // A third of the circle turns red into green.
    let third = turned(1.0 / 3.0);
    assert!((third[1][0] - 1.0).abs() < 1e-12 && third[0][0].abs() < 1e-12 && third[2][0].abs() < 1e-12);
    // Grey stays grey under saturation and hue, and the mean stays under contrast.
    let grey = vec![77; 30];
    let only = |saturation, hue| Augment { saturation, hue, ..Augment::default() };
    assert_eq!(apply(&only(0.9, 0.5), 1, 2, &[2, 5, 3], &grey), grey);
    assert_eq!(apply(&Augment { contrast: 0.9, ..Augment::default() }, 1, 2, &[2, 5, 3], &grey), grey);
}

/// Bytes that must never change: earlier runs were trained on them.
#[test]
fn augmentation_never_changes() {
    let augment = Augment {
        flip: true,
        crop: 0.4,
        brightness: 0.4,
        contrast: 0.4,
        saturation: 0.4,
        hue: 0.1,
        ..Augment::default()
    };
    let out = apply(&augment, 4, 11, &[6, 6, 3], &image(6, 6, 3));
    assert_eq!(crc32c::crc32c(&out), FROZEN);
}

const FROZEN: u32 = 109_944_748;
