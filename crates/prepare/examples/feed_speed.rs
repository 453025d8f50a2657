//! How fast training input is read and decoded: `feed_speed DATA [THREADS] [EPOCHS] [flip] [crop] [colour]`.
//!
//! DATA is what `data.name` takes: a folder of shards, a file of records, a folder of photos. Rows pass the feed as they
//! do in training, in batches of 32, but nothing is computed on them. The first epoch warms the page cache and is shown apart.

use paceline_data::{Catalogue, DataPart, Options, Order, Supply, Visits};
use paceline_prepare::feed::{Augment, Feed, FeedOptions};
use std::time::Instant;

const BATCH: u64 = 32;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut take = |word: &str| {
        let before = args.len();
        args.retain(|arg| arg != word);
        args.len() < before
    };
    let augment = Augment {
        flip: take("flip"),
        crop: if take("crop") { 0.25 } else { 1.0 },
        brightness: if take("colour") { 0.3 } else { 0.0 },
        ..Augment::default()
    };
    let name = args.first().ok_or("usage: feed_speed DATA [THREADS] [EPOCHS] [flip] [crop] [colour]")?;
    let number = |at: usize, default: usize| args.get(at).map_or(Ok(default), |text| text.parse());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (threads, epochs) = (number(1, cores)?, number(2, 4)? as u64);
    let set = Catalogue::from_env().open(name, &Options::default())?;
    let DataPart::Stream(source) = &set.train else { return Err("this set is in memory: nothing is decoded".into()) };
    let len = source.len() as u64;
    println!("{len} samples of {:?}, {}", source.shape(), paceline_base::text::counted(threads, "thread"));
    let feed = Feed::new(
        source.clone(),
        FeedOptions {
            visits: Visits::all(Order::new(source.len(), 1)),
            augment: Some((augment, 1)),
            threads,
            rows: 128,
            ranks: 0..1,
            start: 0,
            end: epochs * len,
        },
    )?;
    for epoch in 0..epochs {
        let begin = Instant::now();
        let mut sum = 0u64;
        let mut at = epoch * len;
        while at < (epoch + 1) * len {
            let end = (at + BATCH).min((epoch + 1) * len);
            feed.wait(0, at..end)?;
            for position in at..end {
                feed.look(position, &mut |features| {
                    if let paceline_data::Features::U8 { bytes, .. } = features {
                        sum += u64::from(bytes[bytes.len() / 2]);
                    }
                });
            }
            feed.release(0, end);
            at = end;
        }
        let seconds = begin.elapsed().as_secs_f64();
        println!("epoch {epoch}: {:.0} images/s, {seconds:.3} s (check {sum})", len as f64 / seconds);
    }
    for stage in feed.stages() {
        let micros = stage.busy * 1e6 / stage.items.max(1) as f64;
        println!("{:>8}: {:>7} items, {micros:.1} µs each, blocked {:.2} s", stage.name, stage.items, stage.blocked);
    }
    Ok(())
}
