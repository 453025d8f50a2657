//! Values in a few characters.

use crate::example::{Feature, FeatureKind};
use crate::shards::is_image_file;
use paceline_image::{Header, Limits};

/// A feature: its first values.
pub(super) fn feature(feature: &Feature<'_, '_>) -> String {
    const MOST: usize = 8;
    let list = |values: Vec<String>| {
        let more = if feature.len() > values.len() { format!(", … {} in all", feature.len()) } else { String::new() };
        match feature.len() {
            1 => values.concat(),
            _ => format!("[{}{more}]", values.join(", ")),
        }
    };
    match feature.kind() {
        FeatureKind::None => "nothing".into(),
        FeatureKind::Bytes => list(feature.byte_strings().take(3).map(bytes).collect()),
        FeatureKind::Floats => list(feature.floats().take(MOST).map(|value| value.to_string()).collect()),
        FeatureKind::Ints => list(feature.ints().take(MOST).map(|value| value.to_string()).collect()),
    }
}

/// A byte string: what image it is, as text, or its first bytes.
pub(super) fn bytes(bytes: &[u8]) -> String {
    const MOST: usize = 60;
    if is_image_file(bytes)
        && let Ok(header) = paceline_image::header(bytes, &Limits::default())
    {
        return format!("{}, {} bytes", image(&header), bytes.len());
    }
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.chars().all(|c| !c.is_control()));
    match text {
        Some(text) if text.chars().count() <= MOST => format!("{text:?}"),
        Some(text) => format!("{:?}…, {} bytes", text.chars().take(MOST).collect::<String>(), bytes.len()),
        None => {
            let first: Vec<String> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            let more = if bytes.len() > first.len() { "…" } else { "" };
            format!("{}{more}, {} bytes", first.join(" "), bytes.len())
        }
    }
}

/// An image by its header.
pub(super) fn image(header: &Header) -> String {
    let kind = header.format.name();
    let colour = match (header.channels, header.format) {
        (1, _) => "grey",
        (2, _) => "grey with alpha",
        (3, _) => "colour",
        (_, paceline_image::Format::Jpeg) => "CMYK",
        _ => "colour with alpha",
    };
    let progressive = match (header.progressive, header.format) {
        (false, _) => "",
        (true, paceline_image::Format::Jpeg) => ", progressive",
        (true, _) => ", interlaced",
    };
    let turned = if header.orientation == 1 { String::new() } else { format!(", orientation {}", header.orientation) };
    format!("{kind} {}×{} {colour}{progressive}{turned}", header.width, header.height)
}
