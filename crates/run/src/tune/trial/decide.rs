//! What rounds of a trial say: which layout, how sure that is, and whether another round is worth its time. Functions of timings alone.

/// A candidate with more ranks or threads must be this much faster.
const MARGIN: f64 = 0.97;
/// Rounds over all candidates at least, unless steps are long; the machine may be busy in some of them. The median is taken and not the
/// best: a layout on all cores that is fast only while nobody else runs is not the fast one.
pub(super) const ROUNDS: usize = 5;
/// Rounds at most.
const MOST_ROUNDS: usize = 60;
/// Seconds that a trial may take in any case: with large networks one round of a step each has to do.
const ENOUGH: f64 = 3.0;
/// The share of the expected run that a trial may take beyond that, and seconds at most.
const SHARE: f64 = 0.01;
const MOST: f64 = 60.0;
/// A candidate that took so many times the best one's time in every round is not tried again.
const HOPELESS: f64 = 1.5;

/// One layout, and what its rounds took.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Ranks × threads.
    pub cores: usize,
    /// Seconds for each sample, by round, with whatever is to be counted in.
    pub rounds: Vec<f64>,
}

/// What the rounds say.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    /// Index of the layout.
    pub chosen: usize,
    /// Seconds for each sample of all candidates: their medians.
    pub typical: Vec<f64>,
    /// The candidate that rounds do not tell from the chosen one, if there is such a one.
    pub rival: Option<usize>,
}

/// Chooses the fastest by medians; candidates are ordered from few to many ranks and threads, and one that needs more must win by a margin.
pub(super) fn choose(candidates: &[Candidate]) -> Choice {
    let typical: Vec<f64> = candidates.iter().map(|c| median(&c.rounds)).collect();
    let needed = |than: usize, i: usize| if candidates[i].cores == candidates[than].cores { 1.0 } else { MARGIN };
    let mut chosen = 0;
    for i in 1..candidates.len() {
        if typical[i] < typical[chosen] * needed(chosen, i) {
            chosen = i;
        }
    }
    // The chosen one beat those before it by the margin, or those behind it did not.
    let told_apart = |i: usize| match i < chosen {
        true => beyond(&ratios(candidates, chosen, i), needed(i, chosen)),
        false => beyond(&ratios(candidates, i, chosen), needed(chosen, i)),
    };
    let rival = (0..candidates.len())
        .filter(|&i| i != chosen && !told_apart(i))
        .min_by(|a, b| typical[*a].total_cmp(&typical[*b]));
    Choice { chosen, typical, rival }
}

/// Times of one candidate over another's in the rounds that both had: what disturbs a round disturbs both.
fn ratios(candidates: &[Candidate], one: usize, other: usize) -> Vec<f64> {
    let mut list: Vec<f64> =
        candidates[one].rounds.iter().zip(&candidates[other].rounds).map(|(one, other)| one / other).collect();
    list.sort_by(f64::total_cmp);
    list
}

/// Whether the median of what these ratios are drawn from is not `limit`, with 95 %: its interval, between order statistics, leaves it out.
fn beyond(sorted: &[f64], limit: f64) -> bool {
    let Some((low, high)) = median_interval(sorted.len()) else { return false };
    !(sorted[low]..=sorted[high]).contains(&limit)
}

/// Indices of the sorted values between which the median lies with at least 93 %; none of fewer than five values are that sure.
fn median_interval(count: usize) -> Option<(usize, usize)> {
    if count < ROUNDS {
        return None;
    }
    // The chance that fewer than k of them lie below the median is a binomial sum.
    let (mut below, mut term, mut low) = (0.0, 0.5f64.powi(count as i32), 0);
    for k in 0..count / 2 {
        below += term;
        if 2.0 * below > 0.07 {
            break;
        }
        low = k;
        term *= (count - k) as f64 / (k + 1) as f64;
    }
    Some((low, count - 1 - low))
}

/// Whether a further round begins: after `elapsed` seconds, the last round having taken `last`. `expected` is how long the run will take, by
/// what is known so far.
pub(super) fn goes_on(candidates: &[Candidate], elapsed: f64, last: f64, expected: f64) -> bool {
    let rounds = candidates.iter().map(|c| c.rounds.len()).max().unwrap_or(0);
    let share = (SHARE * expected).min(MOST);
    match rounds {
        0 => true,
        n if n < ROUNDS => elapsed + last < share.max(ENOUGH),
        n => n < MOST_ROUNDS && elapsed + last < share && choose(candidates).rival.is_some(),
    }
}

/// Whether a candidate is worth another round: none is that was far behind in every one of at least two.
pub(super) fn hopeful(candidates: &[Candidate], at: usize) -> bool {
    let best = choose(candidates).chosen;
    let ratios = ratios(candidates, at, best);
    ratios.len() < 2 || ratios.iter().any(|r| *r < HOPELESS)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(list: &[(usize, &[f64])]) -> Vec<Candidate> {
        list.iter().map(|&(cores, rounds)| Candidate { cores, rounds: rounds.to_vec() }).collect()
    }

    #[test]
    fn more_cores_must_win_by_a_margin() {
        let even: [f64; 5] = [0.98; 5];
        assert_eq!(choose(&of(&[(1, &[1.0; 5]), (2, &even)])).chosen, 0);
        assert_eq!(choose(&of(&[(1, &[1.0; 5]), (2, &[0.9; 5])])).chosen, 1);
        assert_eq!(choose(&of(&[(2, &[1.0; 5]), (2, &even)])).chosen, 1, "as many cores: no margin");
    }

    #[test]
    fn a_busy_round_hurts_both_and_decides_nothing() {
        let choice = choose(&of(&[(1, &[1.0, 5.0, 1.0, 1.0, 4.0]), (2, &[0.6, 3.0, 0.6, 0.6, 2.4])]));
        assert_eq!((choice.chosen, choice.rival), (1, None));
        assert_eq!(choice.typical, [1.0, 0.6]);
    }

    #[test]
    fn rounds_that_contradict_each_other_leave_a_rival() {
        let choice = choose(&of(&[(1, &[1.0; 5]), (2, &[0.8, 1.3, 0.9, 1.2, 0.9])]));
        assert_eq!((choice.chosen, choice.rival), (1, Some(0)));
        // Fewer rounds than can tell anything: every other one is a rival.
        assert_eq!(choose(&of(&[(1, &[1.0]), (2, &[0.2])])).rival, Some(0));
    }

    #[test]
    fn a_short_run_gets_five_rounds_and_a_long_one_as_many_as_it_needs() {
        let open = of(&[(1, &[1.0; 5]), (2, &[0.8, 1.3, 0.9, 1.2, 0.9])]);
        assert!(!goes_on(&open, 0.3, 0.06, 10.0), "1 % of ten seconds is spent");
        assert!(goes_on(&open, 0.3, 0.06, 3600.0), "an hour may be preceded by 36 s");
        assert!(!goes_on(&open, 36.0, 0.06, 3600.0));
        assert!(!goes_on(&open, 60.0, 0.06, 1e6), "but never by more than a minute");
        let clear = of(&[(1, &[1.0; 5]), (2, &[0.5; 5])]);
        assert!(!goes_on(&clear, 0.3, 0.06, 3600.0), "nothing is left to find out");
    }

    #[test]
    fn one_long_step_does_not_bind_a_run_of_hours() {
        let one = of(&[(1, &[1.0]), (2, &[0.9])]);
        assert!(!goes_on(&one, 4.0, 4.0, 60.0), "a run of a minute");
        assert!(goes_on(&one, 4.0, 4.0, 7200.0));
        assert!(goes_on(&of(&[(1, &[]), (2, &[])]), 0.0, 0.0, f64::INFINITY));
    }

    #[test]
    fn what_is_far_behind_is_not_tried_again() {
        let list = of(&[(1, &[2.0, 2.1]), (2, &[1.0, 1.0]), (4, &[1.1, 1.9])]);
        assert_eq!([0, 1, 2].map(|i| hopeful(&list, i)), [false, true, true]);
        assert!(hopeful(&of(&[(1, &[9.0]), (2, &[1.0])]), 0), "one round may have been a busy moment");
    }

    #[test]
    fn the_interval_of_a_median_narrows_with_the_rounds() {
        assert_eq!(median_interval(4), None);
        assert_eq!(median_interval(5), Some((0, 4)));
        assert_eq!(median_interval(21), Some((5, 15)));
        let (low, high) = median_interval(60).unwrap();
        assert!(low > 20 && high < 39, "{low} {high}");
    }
}
