//! The cosines of the discrete cosine transforms, forward and inverse, in fixed point, and the order in which blocks
//! are kept.
//!
//! A pass of libjpeg's accurate integer transform is a sum of products with one rounding at its end. Its factored form
//! saves multiplications; the plain products with the sums of its constants give the same bits, and a vector unit that
//! multiplies and adds pairs does those faster. So the eight-point rows below are libjpeg's constants (its transforms are
//! each other's transpose), and the shorter ones are √2·cos((2i+1)kπ/2m)·2¹³, rounded.

/// Fraction bits of the constants.
pub(crate) const CONST_BITS: u32 = 13;
/// Fraction bits that are kept between the passes.
pub(crate) const PASS_BITS: u32 = 2;

/// Of the transform with m points: `BASIS[m][i][k]` is the weight of frequency k at sample i, for the first half of the
/// samples; the other half is the mirror image, with odd frequencies negated.
#[rustfmt::skip]
pub(crate) const BASIS: [[[i16; 8]; 4]; 9] = [
    [[0; 8]; 4],
    [
        [8192, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ],
    [
        [8192, 8192, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ],
    [
        [8192, 10033, 5793, 0, 0, 0, 0, 0],
        [8192, 0, -11585, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ],
    [
        [8192, 10703, 8192, 4433, 0, 0, 0, 0],
        [8192, 4433, -8192, -10703, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ],
    [
        [8192, 11018, 9373, 6810, 3580, 0, 0, 0],
        [8192, 6810, -3580, -11018, -9373, 0, 0, 0],
        [8192, 0, -11585, 0, 11585, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ],
    [
        [8192, 11190, 10033, 8192, 5793, 2998, 0, 0],
        [8192, 8192, 0, -8192, -11585, -8192, 0, 0],
        [8192, 2998, -10033, -8192, 5793, 11190, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ],
    [
        [8192, 11295, 10438, 9058, 7223, 5027, 2578, 0],
        [8192, 9058, 2578, -5027, -10438, -11295, -7223, 0],
        [8192, 5027, -7223, -11295, -2578, 9058, 10438, 0],
        [8192, 0, -11585, 0, 11585, 0, -11585, 0],
    ],
    [
        [8192, 11363, 10703, 9633, 8192, 6437, 4433, 2260],
        [8192, 9633, 4433, -2259, -8192, -11362, -10704, -6436],
        [8192, 6437, -4433, -11362, -8192, 2261, 10704, 9633],
        [8192, 2260, -10703, -6436, 8192, 9633, -4433, -11363],
    ],
];

/// Where frequency or column c of a row is kept: even ones first, so that a vector of pairs holds what is multiplied
/// together.
pub(crate) const COLUMN: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// From the zigzag order of the file to the order in which blocks are kept.
pub(crate) const ORDER: [u8; 64] = {
    let mut order = [0; 64];
    let (mut row, mut column, mut up) = (0usize, 0usize, true);
    let mut k = 0;
    while k < 64 {
        order[k] = (row * 8 + COLUMN[column]) as u8;
        if up {
            if column == 7 {
                row += 1;
                up = false;
            } else if row == 0 {
                column += 1;
                up = false;
            } else {
                row -= 1;
                column += 1;
            }
        } else if row == 7 {
            column += 1;
            up = true;
        } else if column == 0 {
            row += 1;
            up = true;
        } else {
            row += 1;
            column -= 1;
        }
        k += 1;
    }
    order
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_the_zigzag_of_the_standard() {
        let natural: Vec<usize> = ORDER
            .iter()
            .map(|&at| at as usize / 8 * 8 + COLUMN.iter().position(|&c| c == at as usize % 8).unwrap())
            .collect();
        assert_eq!(natural[..12], [0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25]);
        assert_eq!(natural[55..], [46, 53, 60, 61, 54, 47, 55, 62, 63]);
        let mut sorted = ORDER;
        sorted.sort_unstable();
        assert!(sorted.iter().enumerate().all(|(i, &at)| i == at as usize));
    }

    #[test]
    fn the_basis_is_the_cosine() {
        for (m, basis) in BASIS.iter().enumerate().skip(1) {
            for (i, row) in basis.iter().enumerate().take(m.div_ceil(2)) {
                for (k, &weight) in row.iter().enumerate().take(m) {
                    let angle = ((2 * i + 1) * k) as f64 * std::f64::consts::PI / (2 * m) as f64;
                    let exact = if k == 0 { 8192.0 } else { 8192.0 * 2f64.sqrt() * angle.cos() };
                    assert!((f64::from(weight) - exact).abs() < 1.6, "{m} {i} {k}");
                }
            }
        }
    }
}
