//! What it costs that ranks exchange numbers: seconds by bytes, as measured with the transport's own algorithm.

/// Seconds of an all-reduce between two ranks by the bytes that each sends, at some sizes. Between them, and beyond the last, the rate is that of
/// the nearest two; what is smaller than the first costs as much as the first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExchangeCosts {
    points: Vec<[f64; 2]>,
}

impl ExchangeCosts {
    /// Of measured points, with ascending bytes.
    pub(crate) fn new(points: &[[f64; 2]]) -> Self {
        Self { points: points.to_vec() }
    }

    /// A constant part and a rate.
    pub(crate) fn line(latency: f64, bandwidth: f64) -> Self {
        Self { points: vec![[0.0, latency], [1e6, latency + 1e6 / bandwidth]] }
    }

    /// What is wrong with points of a cluster file, if anything.
    pub(crate) fn problem(points: &[[f64; 2]]) -> Option<String> {
        if points.is_empty() {
            return Some("has no points; measure again, or leave the key out".into());
        }
        if let Some([bytes, seconds]) =
            points.iter().find(|p| !(p[0] >= 0.0 && p[0].is_finite() && p[1] > 0.0 && p[1].is_finite()))
        {
            return Some(format!("has the point [{bytes}, {seconds}]; give bytes and seconds, none of them negative"));
        }
        points.windows(2).any(|w| w[1][0] <= w[0][0]).then(|| "has points that do not ascend by bytes".into())
    }

    /// Seconds for so many bytes each way.
    pub(crate) fn seconds(&self, bytes: f64) -> f64 {
        let [first, .., last] = &self.points[..] else { return self.points.first().map_or(0.0, |p| p[1]) };
        if bytes <= first[0] {
            return first[1];
        }
        let at = self.points.partition_point(|p| p[0] < bytes).clamp(1, self.points.len() - 1);
        let (a, b) = (self.points[at - 1], self.points[at]);
        let rate = ((b[1] - a[1]) / (b[0] - a[0])).max(0.0);
        if bytes > last[0] {
            // Beyond what was measured: noise in the last points must not make bytes free.
            return last[1] + (bytes - last[0]) * rate.max(last[1] / last[0] / 4.0);
        }
        a[1] + (bytes - a[0]) * rate
    }

    /// Seconds of the smallest exchange.
    pub(crate) fn least(&self) -> f64 {
        self.points.first().map_or(0.0, |p| p[1])
    }
}

/// A connection between two processes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LinkCosts {
    /// Seconds until a small message arrives.
    pub latency: f64,
    /// Bytes per second one way.
    pub bandwidth: f64,
    /// Of exchanges, in both directions at once.
    pub exchange: ExchangeCosts,
    /// Seconds of a rank's computing that are lost for each second that its process exchanges numbers meanwhile: moving them takes the same cores.
    pub slows: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_joined_by_lines() {
        let costs = ExchangeCosts::new(&[[10.0, 1.0], [20.0, 2.0], [40.0, 6.0]]);
        let of = |bytes: f64| costs.seconds(bytes);
        assert_eq!((of(0.0), of(10.0), of(15.0), of(20.0), of(30.0), of(40.0)), (1.0, 1.0, 1.5, 2.0, 4.0, 6.0));
        assert_eq!(of(50.0), 8.0);
        assert_eq!(ExchangeCosts::line(2.0, 1e6).seconds(3e6), 5.0);
        assert_eq!(ExchangeCosts::new(&[[8.0, 3.0]]).seconds(1e9), 3.0);
    }

    #[test]
    fn a_curve_that_turns_back_is_refused() {
        assert!(ExchangeCosts::problem(&[[1.0, 1.0], [1.0, 2.0]]).unwrap().contains("ascend"));
        assert!(ExchangeCosts::problem(&[[1.0, -1.0]]).unwrap().contains("[1, -1]"));
        assert!(ExchangeCosts::problem(&[]).unwrap().contains("no points"));
        assert!(ExchangeCosts::problem(&[[0.0, 1.0], [5.0, 2.0]]).is_none());
    }
}
