//! The learning rate of every step, as a pure function.
//!
//! A warm-up rises in a straight line to the base rate (Goyal et al. 2017, "Accurate, large minibatch SGD"); what
//! follows begins where it ends, so that every schedule goes on from the base rate without a jump. Cosine is
//! Loshchilov & Hutter's (2017, "SGDR") without restarts.

use crate::choices::ScheduleName;
use crate::schema::RateSchedule;

/// The factor of `step` where `gamma` is `auto`.
const STEP_GAMMA: f64 = 0.1;
/// The factor per epoch of `exponential` where `gamma` is `auto`.
const EXPONENTIAL_GAMMA: f64 = 0.95;

impl RateSchedule {
    /// The factor of `step` and `exponential`: the user's, or 0.1 for `step` and 0.95 for `exponential`.
    pub fn gamma(&self) -> f64 {
        self.gamma.chosen().unwrap_or(match self.name {
            ScheduleName::Exponential => EXPONENTIAL_GAMMA,
            _ => STEP_GAMMA,
        })
    }

    /// The steps (with parts of one) after which the schedule is at its end, in a run of `epochs` epochs.
    pub fn length(&self, steps_per_epoch: u64, epochs: u64) -> f64 {
        self.length.chosen().unwrap_or(epochs as f64) * steps_per_epoch as f64
    }

    /// The rate of `step` (from 0), where the schedule is `length` steps long.
    ///
    /// ```
    /// use paceline_config::Config;
    /// let mut config = Config::default();
    /// config.set("schedule.name", "cosine")?;
    /// config.set("schedule.warmup", "1")?;
    /// let rate = |step| config.schedule.rate_at(0.1, step, 10, 50.0);
    /// assert_eq!(rate(4), 0.05); // half-way through the warm-up
    /// assert_eq!(rate(10), 0.1); // its end
    /// assert!(rate(49) < 0.001);
    /// # Ok::<(), paceline_base::Error>(())
    /// ```
    pub fn rate_at(&self, base_rate: f64, step: u64, steps_per_epoch: u64, length: f64) -> f64 {
        let per_epoch = steps_per_epoch.max(1) as f64;
        let warm_steps = self.warmup * per_epoch;
        // Never 0: a first step at rate 0 would be wasted.
        let reached = step as f64 + 1.0;
        let warm = if reached >= warm_steps { 1.0 } else { reached / warm_steps };
        let after = (step as f64 - warm_steps).max(0.0);
        let factor = match self.name {
            ScheduleName::Constant => 1.0,
            ScheduleName::Step => self.gamma().powf((after / (self.step_epochs * per_epoch)).floor()),
            ScheduleName::Exponential => self.gamma().powf(after / per_epoch),
            ScheduleName::Cosine => {
                let length = length - warm_steps;
                let progress = if length > 0.0 { (after / length).min(1.0) } else { 0.0 };
                self.floor + (1.0 - self.floor) * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos())
            }
        };
        base_rate * warm * factor
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::Auto;

    const PER_EPOCH: u64 = 10;
    const TOTAL: u64 = 200;
    const LENGTH: f64 = TOTAL as f64;

    fn schedule(name: ScheduleName) -> RateSchedule {
        RateSchedule { name, ..RateSchedule::default() }
    }

    fn check(schedule: &RateSchedule, expected: &[(u64, f64)]) {
        for &(step, rate) in expected {
            let got = schedule.rate_at(0.1, step, PER_EPOCH, LENGTH);
            assert!((got - rate).abs() < 1e-12, "{:?} at {step}: {got}, wanted {rate}", schedule.name);
        }
    }

    #[test]
    fn rates_at_the_boundaries() {
        check(&schedule(ScheduleName::Constant), &[(0, 0.1), (1, 0.1), (TOTAL, 0.1)]);
        check(&schedule(ScheduleName::Step), &[(0, 0.1), (99, 0.1), (100, 0.01), (199, 0.01), (200, 0.001)]);
        check(&schedule(ScheduleName::Exponential), &[(0, 0.1), (10, 0.095), (20, 0.09025)]);
        check(&schedule(ScheduleName::Cosine), &[(0, 0.1), (100, 0.05), (TOTAL, 0.0), (TOTAL + 50, 0.0)]);
        let floored = RateSchedule { floor: 0.2, ..schedule(ScheduleName::Cosine) };
        check(&floored, &[(0, 0.1), (100, 0.06), (TOTAL, 0.02)]);
        let halving = RateSchedule { gamma: Auto::Is(0.5), step_epochs: 0.5, ..schedule(ScheduleName::Step) };
        check(&halving, &[(4, 0.1), (5, 0.05), (10, 0.025)]);
    }

    #[test]
    fn warm_up_rises_and_goes_on_without_a_jump() {
        for name in [ScheduleName::Constant, ScheduleName::Step, ScheduleName::Exponential, ScheduleName::Cosine] {
            for warmup in [0.0, 0.05, 0.25, 1.0, 3.0] {
                let schedule = RateSchedule { warmup, ..schedule(name) };
                let rate = |step| schedule.rate_at(0.1, step, PER_EPOCH, LENGTH);
                let end = (warmup * PER_EPOCH as f64).floor() as u64;
                assert!(rate(0) > 0.0);
                for step in 1..end {
                    assert!(rate(step) > rate(step - 1), "{name} falls in its warm-up at {step}");
                }
                assert!((rate(end) - 0.1).abs() < 0.1 * 0.01, "{name} does not begin at the base rate: {}", rate(end));
                for step in end + 1..TOTAL {
                    assert!(rate(step) <= rate(step - 1), "{name} rises after its warm-up at {step}");
                }
            }
        }
    }

    #[test]
    fn smooth_schedules_have_no_jumps() {
        for name in [ScheduleName::Exponential, ScheduleName::Cosine] {
            let schedule = RateSchedule { warmup: 2.0, ..schedule(name) };
            for step in 20..TOTAL {
                let (now, next) = (step, step + 1);
                let jump =
                    schedule.rate_at(0.1, now, PER_EPOCH, LENGTH) - schedule.rate_at(0.1, next, PER_EPOCH, LENGTH);
                assert!(jump.abs() < 0.1 * 0.01, "{name} jumps by {jump} at {step}");
            }
        }
    }

    #[test]
    fn the_length_is_the_epochs_of_the_run_or_its_own() {
        let mut cosine = schedule(ScheduleName::Cosine);
        assert_eq!(cosine.length(PER_EPOCH, 20), LENGTH);
        cosine.length = Auto::Is(2.5);
        assert_eq!(cosine.length(PER_EPOCH, 20), 25.0);
    }

    #[test]
    fn odd_lengths_give_finite_rates() {
        for name in [ScheduleName::Constant, ScheduleName::Step, ScheduleName::Exponential, ScheduleName::Cosine] {
            let schedule = RateSchedule { warmup: 5.0, ..schedule(name) };
            for (step, per_epoch, total) in [(0, 0, 0.0), (0, 1, 1.0), (7, 10, 5.0), (u64::MAX - 1, 1, 1.0)] {
                let rate = schedule.rate_at(0.1, step, per_epoch, total);
                assert!(rate.is_finite() && rate >= 0.0, "{name}: {rate}");
            }
        }
    }
}
