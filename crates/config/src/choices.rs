//! Settings that are choices among names: optimizers, schedules, strategies, presets, activations, update modes.

use crate::setting::{Named, Setting, Wrong, name_of, one_of, read_name};
use paceline_base::Monitor;
use paceline_base::op::Activation;
use paceline_data::csv::TargetsAre;
use paceline_image::Fit;
use paceline_plan::UpdateMode;
use std::fmt;
use toml::Value;

macro_rules! by_name {
    ($Type:ty) => {
        impl Setting for $Type {
            fn kind() -> String {
                one_of::<Self>()
            }
            fn read(value: &Value) -> Result<Self, Wrong> {
                read_name(value)
            }
            fn write(&self) -> Option<Value> {
                Some(Value::String(name_of(*self).into()))
            }
        }
    };
}

macro_rules! choice {
    ($(#[doc = $doc:literal])* $Type:ident { $( $(#[doc = $choice_doc:literal])* $Choice:ident = $name:literal, )* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $Type {
            $( $(#[doc = $choice_doc])* $Choice, )*
        }

        impl Named for $Type {
            fn all() -> Vec<(&'static str, Self)> {
                vec![$( ($name, $Type::$Choice), )*]
            }
        }

        impl fmt::Display for $Type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(name_of(*self))
            }
        }

        by_name!($Type);
    };
}

choice! {
    /// A network by name.
    Preset {
        /// Softmax regression: one dense layer.
        Softmax = "softmax",
        /// Hidden dense layers, then the classifier.
        Mlp = "mlp",
        /// Two convolutions and three dense layers, for 28×28.
        LeNet = "lenet",
        /// Five 3×3 convolutions, for 192×192: what speed is measured with.
        FlowersCnn = "flowers-cnn",
        /// A residual network for 192×192: what accuracy is measured with.
        FlowersNet = "flowers-net",
        /// AlexNet, for 224×224.
        AlexNet = "alexnet",
        /// ResNet-18, for 224×224.
        ResNet18 = "resnet18",
        /// A small residual network, for 32×32.
        ResNetSmall = "resnet-small",
    }
}

choice! {
    /// The update rule of the optimizer.
    OptimizerName {
        /// Plain gradient descent.
        Sgd = "sgd",
        /// Heavy-ball momentum.
        Momentum = "momentum",
        /// Nesterov's momentum.
        Nesterov = "nesterov",
        /// Adaptive moments.
        Adam = "adam",
        /// Adam with decoupled weight decay.
        AdamW = "adamw",
        /// Rates that shrink with the sum of squared gradients.
        Adagrad = "adagrad",
    }
}

choice! {
    /// How the learning rate moves over a run.
    ScheduleName {
        /// It does not.
        Constant = "constant",
        /// By a factor every few epochs.
        Step = "step",
        /// By a factor per epoch, smoothly.
        Exponential = "exponential",
        /// Down a half cosine to the end of the run.
        Cosine = "cosine",
    }
}

choice! {
    /// A way to spread training over devices.
    StrategyName {
        /// One replica on all threads.
        Single = "single",
        /// One replica, bound to one named device.
        OneDevice = "one-device",
        /// Replicas with equal parameters, each computing a share of every batch.
        Mirrored = "mirrored",
        /// The same over processes, on one machine or many.
        MultiWorker = "multi-worker-mirrored",
    }
}

choice! {
    /// How gradients are made smaller between replicas.
    CompressName {
        /// Not at all.
        None = "none",
        /// Rounded to 16 bits.
        Bf16 = "bf16",
        /// Only the largest travel; the others wait.
        TopK = "top-k",
    }
}

choice! {
    /// Where decoded samples are kept.
    CacheName {
        /// Nowhere: every epoch decodes.
        None = "none",
        /// In memory.
        Memory = "memory",
        /// In a file that later runs use too.
        Disk = "disk",
    }
}

choice! {
    /// Which samples the processes of a job have.
    PlacementName {
        /// All of them the same.
        Shared = "shared",
        /// Each its own.
        Local = "local",
    }
}

choice! {
    /// How an image is brought to a size.
    FitName {
        /// Scale to cover, cut off what hangs over.
        Crop = "crop",
        /// Scale to fit inside, black around it.
        Pad = "pad",
        /// Scale each side on its own.
        Stretch = "stretch",
    }
}

impl Named for Activation {
    fn all() -> Vec<(&'static str, Self)> {
        // A match, so that a new activation does not compile before it has a name here.
        let name = |activation| match activation {
            Activation::Relu => "relu",
            Activation::Tanh => "tanh",
            Activation::Sigmoid => "sigmoid",
            Activation::Gelu => "gelu",
        };
        Activation::ALL.iter().map(|&activation| (name(activation), activation)).collect()
    }
}
by_name!(Activation);

impl Named for UpdateMode {
    fn all() -> Vec<(&'static str, Self)> {
        vec![("replicated", UpdateMode::Replicated), ("sharded", UpdateMode::Sharded)]
    }
}
by_name!(UpdateMode);

impl Named for Monitor {
    fn all() -> Vec<(&'static str, Self)> {
        [Monitor::ValAccuracy, Monitor::ValLoss].map(|monitor| (monitor.name(), monitor)).to_vec()
    }
}
by_name!(Monitor);

impl Named for TargetsAre {
    fn all() -> Vec<(&'static str, Self)> {
        vec![("auto", TargetsAre::Auto), ("classes", TargetsAre::Classes), ("numbers", TargetsAre::Numbers)]
    }
}
by_name!(TargetsAre);

impl From<FitName> for Fit {
    fn from(name: FitName) -> Self {
        match name {
            FitName::Crop => Fit::Crop,
            FitName::Pad => Fit::Pad,
            FitName::Stretch => Fit::Stretch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_other_crates() {
        let presets: Vec<_> = Preset::all().into_iter().map(|(name, _)| name).collect();
        assert_eq!(presets, paceline_graph::presets::NAMES);
        for (name, activation) in Activation::all() {
            assert_eq!(name, activation.to_string());
        }
    }
}
