//! Keys that fit alone but not together. Only keys that the user wrote can contradict: a default gives way.

use crate::choices::{CacheName, CompressName, OptimizerName, PlacementName, Preset, ScheduleName, StrategyName};
use crate::schema::Config;
use crate::setting::Named;
use paceline_base::{Error, Result};
use paceline_plan::UpdateMode;

impl Config {
    /// Checks that the keys fit together. Call it after the last [`Config::set`].
    ///
    /// # Errors
    /// Names both keys and says what to do.
    pub fn check(&self) -> Result<()> {
        self.check_data()?;
        self.check_model()?;
        self.check_optimizer()?;
        self.check_schedule()?;
        self.check_strategy()
    }

    fn check_data(&self) -> Result<()> {
        if self.is_given("data.fit") && self.data.size.is_none() {
            return contradiction(
                "data.fit is given, but no data.size to fit images to; give data.size or remove data.fit",
            );
        }
        self.only_for("data.cache_limit", "data.cache", self.data.cache, &[CacheName::Memory], "")?;
        if let (PlacementName::Local, Some(plan)) = (self.data.placement, &self.strategy.plan) {
            return contradiction(&format!(
                "data.placement = \"local\" and strategy.plan = {:?} are both given, but under a plan a process may need \
                 samples that it does not have; remove one of them",
                plan.display()
            ));
        }
        if self.augment.crop < 1.0 && self.augment.pad > 0 {
            return contradiction(
                "augment.crop and augment.pad are both given, and both move the image; remove one of them",
            );
        }
        Ok(())
    }

    fn check_model(&self) -> Result<()> {
        let mlp_only = ["model.hidden", "model.activation", "model.dropout"];
        if let Some(file) = &self.model.file {
            let file = file.display();
            if self.is_given("model.preset") {
                return contradiction(&format!(
                    "model.file = {file:?} and model.preset are both given; remove one of them"
                ));
            }
            if let Some(key) = mlp_only.into_iter().find(|key| self.is_given(key)) {
                return contradiction(&format!(
                    "{key} is given, but the layers come from model.file = {file:?}; remove {key} and write it into \
                     that file, or remove model.file"
                ));
            }
        } else if self.model.preset != Preset::Mlp {
            let idle = |key: &str| match key {
                "model.hidden" => self.model.hidden.is_empty(),
                "model.dropout" => self.model.dropout == 0.0,
                _ => false,
            };
            if let Some(key) = mlp_only.into_iter().find(|key| self.is_given(key) && !idle(key)) {
                let lacks = match self.model.preset {
                    Preset::Softmax => "has no hidden layers",
                    _ => "has layers of its own",
                };
                return contradiction(&format!(
                    "{key} is given, but model.preset = \"{}\" {lacks}; remove {key} or set model.preset = \"mlp\"",
                    self.model.preset
                ));
            }
        }
        Ok(())
    }

    fn check_optimizer(&self) -> Result<()> {
        use OptimizerName::{Adagrad, Adam, AdamW, Momentum, Nesterov};
        self.only_for("optimizer.momentum", "optimizer.name", self.optimizer.name, &[Momentum, Nesterov], "")?;
        self.only_for("optimizer.beta1", "optimizer.name", self.optimizer.name, &[Adam, AdamW], "")?;
        self.only_for("optimizer.beta2", "optimizer.name", self.optimizer.name, &[Adam, AdamW], "")?;
        self.only_for("optimizer.eps", "optimizer.name", self.optimizer.name, &[Adam, AdamW, Adagrad], "")?;
        let hint = ", or use model.l2, which works with every optimizer";
        self.only_for("optimizer.weight_decay", "optimizer.name", self.optimizer.name, &[AdamW], hint)
    }

    fn check_schedule(&self) -> Result<()> {
        use ScheduleName::{Cosine, Exponential, Step};
        self.only_for("schedule.step_epochs", "schedule.name", self.schedule.name, &[Step], "")?;
        self.only_for("schedule.gamma", "schedule.name", self.schedule.name, &[Step, Exponential], "")?;
        self.only_for("schedule.length", "schedule.name", self.schedule.name, &[Cosine], "")?;
        self.only_for("schedule.floor", "schedule.name", self.schedule.name, &[Cosine], "")
    }

    fn check_strategy(&self) -> Result<()> {
        let strategy = &self.strategy;
        if let Some(plan) = &strategy.plan {
            let own =
                ["name", "replicas", "device", "update", "bucket", "compress"].map(|key| format!("strategy.{key}"));
            return match own.iter().find(|key| self.is_given(key)) {
                None => Ok(()),
                Some(key) => contradiction(&format!(
                    "{key} is given, but strategy.plan = {:?} says how the work is spread; remove {key} or strategy.plan",
                    plan.display()
                )),
            };
        }
        // One replica is what the strategies of one device have anyway, so that it contradicts nothing.
        if strategy.replicas.chosen().is_some_and(|n| n > 1) {
            let replicas = "strategy.replicas";
            self.only_for(
                replicas,
                "strategy.name",
                strategy.name,
                &[StrategyName::Mirrored, StrategyName::MultiWorker],
                "",
            )?;
        }
        if let (StrategyName::OneDevice, Some(threads @ 2..)) = (strategy.name, strategy.threads.chosen()) {
            return contradiction(&format!(
                "strategy.threads = {threads} is given, but strategy.name = \"one-device\" runs on one core; remove \
                 strategy.threads or set strategy.name = \"single\""
            ));
        }
        self.only_for("strategy.keep", "strategy.compress", strategy.compress, &[CompressName::TopK], "")?;
        if strategy.compress != CompressName::None {
            let shared = [StrategyName::Mirrored, StrategyName::MultiWorker];
            self.only_for("strategy.compress", "strategy.name", strategy.name, &shared, "")?;
            if self.is_given("strategy.update") && strategy.update.chosen() == Some(UpdateMode::Sharded) {
                return contradiction(
                    "strategy.update = \"sharded\" and strategy.compress are both given, but compressed gradients go to \
                     every replica; remove one of them",
                );
            }
        }
        self.only_for("strategy.device", "strategy.name", strategy.name, &[StrategyName::OneDevice], "")
    }

    /// An error if the user gave `key` although `choice` does not use it.
    fn only_for<T: Named>(&self, key: &str, chooser: &str, choice: T, users: &[T], hint: &str) -> Result<()> {
        if !self.is_given(key) || users.contains(&choice) {
            return Ok(());
        }
        let name = super::setting::name_of;
        let users: Vec<_> = users.iter().map(|&user| format!("{:?}", name(user))).collect();
        contradiction(&format!(
            "{key} is given, but {chooser} = {:?} does not use it; remove {key}, or set {chooser} = {}{hint}",
            name(choice),
            users.join(" or ")
        ))
    }
}

fn contradiction(text: &str) -> Result<()> {
    Err(Error::user(text))
}
