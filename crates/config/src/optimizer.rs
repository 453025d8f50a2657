//! From keys to what is executed: the update rule, and how gradients travel.

use crate::choices::{CompressName, OptimizerName};
use crate::schema::{Optimizer, Strategy};
use paceline_base::optim::Rule;
use paceline_plan::Compression;

impl Optimizer {
    /// The learning rate: the user's, or 0.001 for adam and adamw and 0.01 for the others.
    pub fn rate(&self) -> f64 {
        self.rate.chosen().unwrap_or(match self.name {
            OptimizerName::Adam | OptimizerName::AdamW => 0.001,
            _ => 0.01,
        })
    }

    /// What is added below the fraction: the user's, or 1e-10 for adagrad and 1e-8 for the others.
    pub fn eps(&self) -> f64 {
        self.eps.chosen().unwrap_or(match self.name {
            OptimizerName::Adagrad => 1e-10,
            _ => 1e-8,
        })
    }

    /// The update rule.
    ///
    /// ```
    /// use paceline_base::optim::Rule;
    /// let config = paceline_config::Config::default();
    /// assert_eq!(config.optimizer.rule(), Rule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8 });
    /// ```
    pub fn rule(&self) -> Rule {
        let &Self { name, momentum, beta1, beta2, weight_decay: decay, .. } = self;
        match name {
            OptimizerName::Sgd => Rule::Sgd,
            OptimizerName::Momentum => Rule::Momentum { momentum },
            OptimizerName::Nesterov => Rule::Nesterov { momentum },
            OptimizerName::Adam => Rule::Adam { beta1, beta2, eps: self.eps() },
            OptimizerName::AdamW => Rule::AdamW { beta1, beta2, eps: self.eps(), decay },
            OptimizerName::Adagrad => Rule::Adagrad { eps: self.eps() },
        }
    }
}

impl Strategy {
    /// How gradients travel between replicas.
    pub fn compression(&self) -> Compression {
        match self.compress {
            CompressName::None => Compression::None,
            CompressName::Bf16 => Compression::Bf16,
            CompressName::TopK => Compression::TopK { per_million: (self.keep * 1e6).ceil() as u32 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::Auto;

    #[test]
    fn auto_depends_on_the_rule() {
        let of = |name| Optimizer { name, ..Optimizer::default() };
        assert_eq!(of(OptimizerName::Adam).rate(), 0.001);
        assert_eq!(of(OptimizerName::Sgd).rate(), 0.01);
        assert_eq!(of(OptimizerName::Adagrad).rule(), Rule::Adagrad { eps: 1e-10 });
        assert_eq!(of(OptimizerName::Nesterov).rule(), Rule::Nesterov { momentum: 0.9 });
        let chosen = Optimizer { rate: Auto::Is(0.5), eps: Auto::Is(1e-3), ..of(OptimizerName::AdamW) };
        assert_eq!(chosen.rate(), 0.5);
        assert_eq!(chosen.rule(), Rule::AdamW { beta1: 0.9, beta2: 0.999, eps: 1e-3, decay: 0.01 });
    }
}
