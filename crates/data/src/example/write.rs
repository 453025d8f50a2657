//! Writing an Example: lengths first computed, then the bytes, so that nothing is moved or allocated twice.

/// A feature to be written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A list of byte strings.
    Bytes(&'a [&'a [u8]]),
    /// A list of floats.
    Floats(&'a [f32]),
    /// A list of integers.
    Ints(&'a [i64]),
}

/// Appends an Example to `out`; features are written in the given order, numbers packed. The same features give the same
/// bytes.
pub fn write(features: &[(&str, Value<'_>)], out: &mut Vec<u8>) {
    let sizes = |name: &str, value: &Value<'_>| {
        let list = list_size(value);
        let feature = field_size(list);
        (list, feature, field_size(name.len()) + field_size(feature))
    };
    let all = features.iter().map(|(name, value)| field_size(sizes(name, value).2)).sum();
    out.reserve(field_size(all));
    open(1, all, out);
    for (name, value) in features {
        let (list, feature, entry) = sizes(name, value);
        open(1, entry, out);
        field(1, name.as_bytes(), out);
        open(2, feature, out);
        match value {
            Value::Bytes(strings) => {
                open(1, list, out);
                strings.iter().for_each(|string| field(1, string, out));
            }
            Value::Floats([]) => open(2, list, out),
            Value::Floats(floats) => {
                open(2, list, out);
                open(1, 4 * floats.len(), out);
                floats.iter().for_each(|float| out.extend_from_slice(&float.to_le_bytes()));
            }
            Value::Ints([]) => open(3, list, out),
            Value::Ints(ints) => {
                open(3, list, out);
                open(1, packed_size(ints), out);
                ints.iter().for_each(|&int| varint(int as u64, out));
            }
        }
    }
}

/// Bytes of a list message.
fn list_size(value: &Value<'_>) -> usize {
    match value {
        Value::Bytes(strings) => strings.iter().map(|string| field_size(string.len())).sum(),
        Value::Floats([]) | Value::Ints([]) => 0,
        Value::Floats(floats) => field_size(4 * floats.len()),
        Value::Ints(ints) => field_size(packed_size(ints)),
    }
}

fn packed_size(ints: &[i64]) -> usize {
    ints.iter().map(|&int| varint_size(int as u64)).sum()
}

/// Bytes of a field (numbers up to 15) that holds `length` bytes.
fn field_size(length: usize) -> usize {
    1 + varint_size(length as u64) + length
}

fn varint_size(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The beginning of a field that holds bytes.
fn open(number: u8, length: usize, out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    varint(length as u64, out);
}

fn field(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    open(number, bytes.len(), out);
    out.extend_from_slice(bytes);
}
