//! Which image goes into which shard, and where: a pure function of the classes, the settings and the seed.

use super::Settings;
use paceline_base::region::split_range;
use paceline_base::{Error, Result};
use paceline_data::Order;
use paceline_data::split::stratified_by;

/// One shard to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its file name.
    pub file: String,
    /// `train` or `validation`.
    pub part: &'static str,
    /// The images, by their place in the list, in the order of the records.
    pub images: Vec<u32>,
}

/// Spreads images over shards: the validation part is taken class by class, then each part is shuffled and cut.
pub fn assign(
    count: usize,
    classes: usize,
    class: &dyn Fn(usize) -> usize,
    settings: &Settings,
) -> Result<Vec<Wanted>> {
    if u32::try_from(count).is_err() {
        return Err(Error::user(format!("{count} images are more than one run can take (4 G); give fewer")));
    }
    if settings.shards > count {
        return Err(Error::user(format!(
            "--shards {} is more than there are images ({count}); give at most that",
            settings.shards
        )));
    }
    let parts: Vec<(&'static str, Vec<u32>, usize)> = if settings.validation > 0.0 {
        if settings.shards < 2 {
            return Err(Error::user("--validation needs --shards of at least 2: one for each part"));
        }
        let split = stratified_by(count, classes, class, settings.validation, settings.seed)?;
        let share = (settings.validation * settings.shards as f64).round() as usize;
        let small = |v: Vec<usize>| v.into_iter().map(|i| i as u32).collect::<Vec<u32>>();
        let (train, validation) = (small(split.train), small(split.validation));
        // Each part has at least one shard, and no shard is empty.
        let most = validation.len().min(settings.shards - 1);
        let least = settings.shards.saturating_sub(train.len()).max(1);
        let share = share.clamp(least, most.max(least));
        vec![("train", train, settings.shards - share), ("validation", validation, share)]
    } else {
        vec![("train", (0..count as u32).collect(), settings.shards)]
    };
    let mut shards = Vec::with_capacity(settings.shards);
    for (part, images, number) in parts {
        let order = Order::new(images.len(), settings.seed);
        for shard in 0..number {
            let range = split_range(images.len(), number, shard);
            shards.push(Wanted {
                file: format!("{part}-{shard:05}-of-{number:05}.tfrec"),
                part,
                images: range.map(|position| images[order.at(0, position)]).collect(),
            });
        }
    }
    Ok(shards)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_image_is_in_one_shard(count in 1usize..500, shards in 1usize..20, validation in 0usize..8, seed in 0u64..9) {
            let classes = 3.min(count);
            let settings = Settings { shards, seed, validation: validation as f64 / 10.0, ..Settings::default() };
            let class = |i: usize| i * classes / count;
            let Ok(made) = assign(count, classes, &class, &settings) else {
                // Refused only for a reason that a person understands.
                let wanted = (settings.validation * count as f64).round() as usize;
                prop_assert!(shards > count || (validation > 0 && (shards < 2 || wanted == 0 || wanted >= count)));
                return Ok(());
            };
            prop_assert_eq!(made.len(), shards);
            prop_assert!(made.iter().all(|s| !s.images.is_empty()));
            let mut all: Vec<u32> = made.iter().flat_map(|s| s.images.clone()).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..count as u32).collect::<Vec<_>>());
            let sizes: Vec<usize> = made.iter().filter(|s| s.part == "train").map(|s| s.images.len()).collect();
            prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn the_validation_part_has_the_mixture_of_the_whole() {
        let class = |i: usize| if i < 800 { 0 } else { 1 };
        let settings = Settings { shards: 10, validation: 0.2, ..Settings::default() };
        let made = assign(1000, 2, &class, &settings).unwrap();
        let of = |part: &str, c: usize| {
            made.iter().filter(|s| s.part == part).flat_map(|s| &s.images).filter(|&&i| class(i as usize) == c).count()
        };
        assert_eq!((of("validation", 0), of("validation", 1)), (160, 40));
        assert_eq!(made.iter().filter(|s| s.part == "validation").count(), 2);
        // Shuffled: the classes are mixed within a shard.
        assert!(made[0].images.iter().any(|&i| i >= 800) && made[0].images.iter().any(|&i| i < 800));
    }
}
