//! What decides which epoch is the best: as asked for, or by what the loss counts.

use paceline_base::metric::{Metric, Reduction};
use paceline_base::{Error, Monitor, Result};
use paceline_config::Auto;

/// What `train.monitor` comes to with a loss that counts these, and why if it is not what it usually is.
///
/// # Errors
/// If it was asked for and the loss does not count it.
pub(crate) fn choose(asked: Auto<Monitor>, counted: &[Metric]) -> Result<(Monitor, Option<String>)> {
    let counts = |monitor: Monitor| counted.iter().any(|metric| metric.name == monitor.metric());
    let (usual, other) = (Monitor::ValAccuracy, Monitor::ValLoss);
    match asked {
        Auto::Is(monitor) if counts(monitor) => Ok((monitor, None)),
        Auto::Is(monitor) => Err(Error::user(format!(
            "train.monitor is {}, but this model's loss counts {}, no {}; remove train.monitor or set it to {}",
            monitor.name(),
            names(counted),
            monitor.metric(),
            other.name()
        ))),
        Auto::Auto if counts(usual) => Ok((usual, None)),
        Auto::Auto => {
            let why =
                format!("best epoch by {}: the loss counts {}, no {}", other.words(), names(counted), usual.metric());
            Ok((other, Some(why)))
        }
    }
}

/// "loss and absolute error"
fn names(counted: &[Metric]) -> String {
    let figures = counted.iter().filter(|metric| metric.reduction == Reduction::Mean);
    figures.map(|metric| metric.name.as_str()).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_base::metric::{ABSOLUTE_ERROR, ACCURACY, LOSS, SAMPLES};

    fn counting(second: &str) -> [Metric; 3] {
        [Metric::new(LOSS, Reduction::Mean), Metric::new(second, Reduction::Mean), Metric::new(SAMPLES, Reduction::Sum)]
    }

    #[test]
    fn accuracy_decides_where_it_is_counted() {
        let classes = counting(ACCURACY);
        assert_eq!(choose(Auto::Auto, &classes).unwrap(), (Monitor::ValAccuracy, None));
        for asked in [Monitor::ValAccuracy, Monitor::ValLoss] {
            assert_eq!(choose(Auto::Is(asked), &classes).unwrap(), (asked, None));
        }
    }

    #[test]
    fn elsewhere_the_loss_decides_with_its_reason() {
        let numbers = counting(ABSOLUTE_ERROR);
        let (monitor, why) = choose(Auto::Auto, &numbers).unwrap();
        assert_eq!(monitor, Monitor::ValLoss);
        assert_eq!(why.unwrap(), "best epoch by validation loss: the loss counts loss and absolute error, no accuracy");
        assert_eq!(choose(Auto::Is(Monitor::ValLoss), &numbers).unwrap(), (Monitor::ValLoss, None));
        let error = choose(Auto::Is(Monitor::ValAccuracy), &numbers).unwrap_err();
        let words = "train.monitor is val-accuracy, but this model's loss counts loss and absolute error, no accuracy; remove \
                     train.monitor or set it to val-loss";
        assert_eq!((error.kind(), error.message()), (paceline_base::Kind::User, words));
    }
}
