//! `speedtest.csv`: one line per measurement with all its parameters, for spreadsheets and other programs.

use paceline_record::Measurement;

const TITLES: [&str; 25] = [
    "order",
    "source",
    "form",
    "engine",
    "host",
    "batch_size",
    "batch_number",
    "data_size",
    "repetition",
    "page_cache",
    "variant",
    "caching",
    "partitions",
    "partitions_used",
    "threads",
    "decode",
    "size",
    "verify",
    "images",
    "from_cache",
    "bytes",
    "seconds",
    "images_per_s",
    "mb_per_s",
    "resident",
];

/// The measurements as a table (RFC 4180, with line feeds), in the order of measuring.
pub fn csv(measurements: &[Measurement]) -> String {
    let mut out = TITLES.join(",");
    out.push('\n');
    for m in measurements {
        let c = &m.cell;
        let fields: [String; TITLES.len()] = [
            c.id.to_string(),
            quoted(&c.source),
            c.form.name().into(),
            quoted(&m.engine),
            quoted(&m.host),
            c.batch.to_string(),
            c.batches.to_string(),
            c.images().to_string(),
            c.repetition.to_string(),
            c.page_cache.name().into(),
            c.variant().name().into(),
            c.caching.to_string(),
            c.partitions.to_string(),
            m.partitions_used.to_string(),
            c.threads.to_string(),
            c.decode.to_string(),
            c.size.to_string(),
            c.verify.to_string(),
            m.images.to_string(),
            m.from_cache.to_string(),
            m.bytes.to_string(),
            m.seconds.to_string(),
            format!("{:.3}", m.images_per_s()),
            format!("{:.4}", m.mb_per_s()),
            m.resident.map_or(String::new(), |share| format!("{share:.4}")),
        ];
        out.push_str(&fields.join(","));
        out.push('\n');
    }
    out
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_string() }
}
