//! Which image goes into which shard, and where: a pure function of the classes, the settings and the seed.

use super::setting::JobError;
use super::{SettingError, Settings};
use paceline_base::region::split_range;
use paceline_base::{Error, Result};
use paceline_data::stratified_by;
use paceline_data::{Order, Role};

/// One shard to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AssignedShard {
    /// Its file name.
    pub file: String,
    /// `train`, `validation` or `test`.
    pub part: &'static str,
    /// The images, by their place in the list, in the order of the records.
    pub images: Vec<u32>,
}

/// Spreads images over shards. `given` has the parts that they come in, one after another, with the number of images of
/// each; where none is for validation, that part is taken class by class from the training part if the settings ask for
/// it. Then each part is shuffled and cut.
pub(crate) fn assign(
    given: &[(Role, usize)],
    classes: usize,
    class: &dyn Fn(usize) -> usize,
    settings: &Settings,
) -> Result<Vec<AssignedShard>, JobError> {
    let count: usize = given.iter().map(|(_, images)| images).sum();
    if u32::try_from(count).is_err() {
        let text = format!("{count} images are more than one run can take (4 G); give fewer");
        return Err(Error::user(text).into());
    }
    if settings.shards > count {
        return Err(SettingError::MoreShardsThanImages { shards: settings.shards, images: count }.into());
    }
    let mut parts: Vec<(Role, Vec<u32>)> = Vec::new();
    let mut from = 0;
    for &(role, images) in given {
        let all = (from..from + images).map(|i| i as u32).collect();
        from += images;
        if role != Role::Train || settings.validation == 0.0 {
            parts.push((role, all));
            continue;
        }
        if given.iter().any(|(role, _)| *role == Role::Validation) {
            return Err(SettingError::ValidationIsThere(settings.validation).into());
        }
        // The training part comes first: its images are numbered from 0.
        let split = stratified_by(images, classes, class, settings.validation, settings.seed)?;
        let small = |v: Vec<usize>| v.into_iter().map(|i| i as u32).collect::<Vec<u32>>();
        parts.extend([(Role::Train, small(split.train)), (Role::Validation, small(split.validation))]);
    }
    let numbers = numbers(&parts, settings)?;
    let mut shards = Vec::with_capacity(settings.shards);
    for ((role, images), number) in parts.into_iter().zip(numbers) {
        let part = role.name();
        let order = Order::new(images.len(), settings.seed);
        for shard in 0..number {
            let range = split_range(images.len(), number, shard);
            shards.push(AssignedShard {
                file: format!("{part}-{shard:05}-of-{number:05}.tfrec"),
                part,
                images: range.map(|position| images[order.at(0, position)]).collect(),
            });
        }
    }
    Ok(shards)
}

/// How many shards each part has: at least one, and no shard is empty.
fn numbers(parts: &[(Role, Vec<u32>)], settings: &Settings) -> Result<Vec<usize>, SettingError> {
    let shards = settings.shards;
    if shards < parts.len() {
        let parts = parts.iter().map(|(role, _)| role.name()).collect();
        return Err(SettingError::FewerShardsThanParts { shards, parts });
    }
    // A fraction of the images is the same fraction of the shards.
    if let ([(_, train), (_, validation)], true) = (parts, settings.validation > 0.0) {
        let share = (settings.validation * shards as f64).round() as usize;
        let most = validation.len().min(shards - 1);
        let least = shards.saturating_sub(train.len()).max(1);
        let share = share.clamp(least, most.max(least));
        return Ok(vec![shards - share, share]);
    }
    // Else one after another goes where shards would be largest.
    let mut numbers = vec![1; parts.len()];
    for _ in parts.len()..shards {
        let larger = |&a: &usize, &b: &usize| {
            let [x, y] = [(a, b), (b, a)].map(|(i, j)| parts[i].1.len() as u128 * numbers[j] as u128);
            x.cmp(&y).then(b.cmp(&a))
        };
        let open = (0..parts.len()).filter(|&part| numbers[part] < parts[part].1.len());
        if let Some(part) = open.max_by(larger) {
            numbers[part] += 1;
        }
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::super::SettingNames;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_image_is_in_one_shard(count in 1usize..500, shards in 1usize..20, validation in 0usize..8, seed in 0u64..9) {
            let classes = 3.min(count);
            let settings = Settings { shards, seed, validation: validation as f64 / 10.0, ..Settings::default() };
            let class = |i: usize| i * classes / count;
            let Ok(made) = assign(&[(Role::Train, count)], classes, &class, &settings) else {
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
        let made = assign(&[(Role::Train, 1000)], 2, &class, &settings).unwrap();
        let of = |part: &str, c: usize| {
            made.iter().filter(|s| s.part == part).flat_map(|s| &s.images).filter(|&&i| class(i as usize) == c).count()
        };
        assert_eq!((of("validation", 0), of("validation", 1)), (160, 40));
        assert_eq!(made.iter().filter(|s| s.part == "validation").count(), 2);
        // Shuffled: the classes are mixed within a shard.
        assert!(made[0].images.iter().any(|&i| i >= 800) && made[0].images.iter().any(|&i| i < 800));
    }

    #[test]
    fn given_parts_are_kept() {
        let given = [(Role::Train, 60), (Role::Validation, 30), (Role::Test, 10)];
        let settings = Settings { shards: 10, ..Settings::default() };
        let made = assign(&given, 2, &|i| i % 2, &settings).unwrap();
        let of = |part: &str| {
            let shards = made.iter().filter(|s| s.part == part);
            let mut images: Vec<u32> = shards.clone().flat_map(|s| s.images.clone()).collect();
            images.sort_unstable();
            (shards.count(), images)
        };
        assert_eq!(of("train"), (6, (0..60).collect()));
        assert_eq!(of("validation"), (3, (60..90).collect()));
        assert_eq!(of("test"), (1, (90..100).collect()));
        // A fraction goes with a part that has none of its own, and not with one that has.
        let both = Settings { validation: 0.25, ..settings.clone() };
        assert!(
            assign(&given, 2, &|i| i % 2, &both)
                .unwrap_err()
                .named(SettingNames::default())
                .message()
                .contains("validation part of their own")
        );
        let made = assign(&[(Role::Train, 60), (Role::Test, 10)], 2, &|i| i % 2, &both).unwrap();
        let images = |part: &str| made.iter().filter(|s| s.part == part).map(|s| s.images.len()).sum::<usize>();
        assert_eq!((images("train"), images("validation"), images("test")), (45, 15, 10));
        assert_eq!(made.len(), 10);
        let few = Settings { shards: 2, ..settings };
        assert!(
            assign(&given, 2, &|i| i % 2, &few)
                .unwrap_err()
                .named(SettingNames::default())
                .message()
                .contains("at least 3")
        );
    }
}
