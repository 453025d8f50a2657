//! What runs were asked to do, told apart by what it means for a comparison: settings that make the work another work, so that
//! throughputs cannot be compared; and all others, which are worth naming where they differ.

use std::collections::BTreeMap;

use paceline_record::Summary;

/// Sections of a configuration that say how a run is shown or kept, not what it does.
const ASIDE: [&str; 3] = ["run", "record", "checkpoint"];
/// Keys that have a column of their own, or say again what another does.
const SHOWN: [&str; 10] = [
    "data.name",
    "model.preset",
    "model.file",
    "train.batch",
    "train.epochs",
    "strategy.name",
    "strategy.replicas",
    "strategy.threads",
    "strategy.device",
    "strategy.plan",
];
/// Keys of `data` that make it faster or slower to read, but not another work; they may be what is compared.
const SPEED: [&str; 7] = [
    "data.threads",
    "data.prefetch",
    "data.cache",
    "data.cache_limit",
    "data.placement",
    "data.shuffle",
    "data.verify",
];

/// The settings of one run by key, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings(BTreeMap<String, String>);

impl Settings {
    /// From `run.toml`. What is not a table of sections has no settings.
    pub(crate) fn of(run_toml: &toml::Table) -> Self {
        let mut all = BTreeMap::new();
        let Some(config) = run_toml.get("config").and_then(toml::Value::as_table) else { return Self(all) };
        for (section, keys) in config.iter().filter(|(section, _)| !ASIDE.contains(&section.as_str())) {
            for (key, value) in keys.as_table().into_iter().flatten() {
                let value = match value {
                    toml::Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                all.insert(format!("{section}.{key}"), value);
            }
        }
        Self(all)
    }

    /// Without what says nothing here: one replica has nobody to share updates with.
    pub(crate) fn telling(&self, summary: &Summary) -> Self {
        let alone = |key: &str| matches!(key, "strategy.update" | "strategy.bucket") && summary.replicas <= 1;
        Self(self.0.iter().filter(|(key, _)| !alone(key)).map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    /// What must be equal for two accuracies or losses to be comparable: the samples they were measured on.
    pub(crate) fn evaluation(&self, summary: &Summary) -> [String; 2] {
        [summary.data.clone(), self.0.get("data.validation").cloned().unwrap_or_default()]
    }

    /// What must be equal for two throughputs to be comparable: the network, the samples, the batch, the rule, the epochs. A rate
    /// or a seed changes what is learnt, not how much there is to do.
    pub(crate) fn work(&self, summary: &Summary) -> Vec<String> {
        let mut work = vec![
            summary.model.clone(),
            summary.parameters.to_string(),
            summary.data.clone(),
            summary.batch.to_string(),
            summary.epochs_planned.to_string(),
        ];
        let counts = |key: &str| match key.split_once('.') {
            Some(("model" | "augment", _)) => key != "model.file",
            Some(("data", _)) => !SPEED.contains(&key),
            _ => key == "optimizer.name",
        };
        work.extend(self.0.iter().filter(|(key, _)| counts(key)).map(|(key, value)| format!("{key} {value}")));
        work
    }
}

/// For each run, the settings in which the runs differ: `optimizer sgd, rate 0.1`. Those with a column of their own are left out.
pub(crate) fn differences(all: &[Settings]) -> Vec<String> {
    let mut keys: Vec<&String> = all.iter().flat_map(|s| s.0.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.retain(|key| {
        // What a run does not say (another version wrote it) is no difference.
        let mut values = all.iter().filter_map(|s| s.0.get(*key));
        let first = values.next();
        !SHOWN.contains(&key.as_str()) && values.any(|value| Some(value) != first)
    });
    let words = |s: &Settings| {
        let one = |key: &&String| s.0.get(*key).map(|value| format!("{} {value}", short(key)));
        keys.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    };
    all.iter().map(words).collect()
}

/// `optimizer.name` is the optimizer, `optimizer.rate` the rate.
fn short(key: &str) -> &str {
    match key.split_once('.') {
        Some((section, "name")) => section,
        Some((_, key)) => key,
        None => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Settings {
        Settings::of(&text.parse().unwrap())
    }

    #[test]
    fn work_and_differences_are_told_apart() {
        let a =
            settings("[config.optimizer]\nname='sgd'\nrate=0.1\n[config.data]\ncache='none'\n[config.run]\nname='a'");
        let b =
            settings("[config.optimizer]\nname='sgd'\nrate=0.2\n[config.data]\ncache='memory'\n[config.run]\nname='b'");
        let c = settings("[config.optimizer]\nname='adam'\nrate=0.1\n[config.data]\ncache='none'");
        let summary = Summary::default();
        assert_eq!(a.work(&summary), b.work(&summary));
        assert_ne!(a.work(&summary), c.work(&summary));
        assert_eq!(differences(&[a.clone(), b]), ["cache none, rate 0.1", "cache memory, rate 0.2"]);
        assert_eq!(differences(&[a.clone(), c]), ["optimizer sgd", "optimizer adam"]);
        let update = |how: &str| settings(&format!("[config.strategy]\nupdate='{how}'"));
        assert_eq!(differences(&[update("sharded").telling(&summary), update("replicated")]), ["", ""], "one replica");
        assert_eq!(differences(&[a, Settings::default()]), ["", ""], "what is not known does not differ");
    }
}
