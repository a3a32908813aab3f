//! Upper bounds on how often a check flips its verdict when nothing changed.
//!
//! A sample is a rerun of an equal key (tree, layer, check, environment, zone policy) in a fresh
//! copy; which runs are samples is the duty of whoever counts them. All bounds are one-sided and
//! hold with probability `1 - alpha`.

use serde::{Deserialize, Serialize};

/// What the counted reruns say about determinism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// At least one rerun gave another verdict.
    Refuted,
    /// No rerun flipped and the bound is not above the rate that was wanted.
    Bounded,
    /// No rerun flipped, but there are too few of them for the rate that was wanted.
    Unproven,
}

impl Status {
    /// Returns the status of `flips` against a wanted rate and the bound that was reached.
    ///
    /// Without a wanted rate nothing counts as bounded.
    pub fn of(flips: u64, bound: f64, wanted: Option<f64>) -> Self {
        match wanted {
            _ if flips > 0 => Self::Refuted,
            Some(wanted) if bound <= wanted => Self::Bounded,
            _ => Self::Unproven,
        }
    }
}

/// Returns the exact one-sided Clopper-Pearson bound for a number of reruns planned beforehand.
///
/// The bound is the `p` at which `k` or fewer flips in `n` reruns have probability `alpha`
/// (Clopper and Pearson, Biometrika 26, 1934): `I_p(k + 1, n - k) = 1 - alpha`. It is 1 when every
/// rerun flipped or there was none.
pub fn clopper_pearson_upper(n: u64, k: u64, alpha: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    if k == 0 {
        // 1 - alpha^(1/n), without losing digits where n is large.
        return -(alpha.ln() / n as f64).exp_m1();
    }
    let (a, b) = ((k + 1) as f64, (n - k) as f64);
    // The upper tail 1 - I_p(a, b) = I_{1-p}(b, a) falls from 1 to 0 as p grows.
    bisect(|p| ln_beta_inc(1.0 - p, b, a) > alpha.ln())
}

/// Returns the bound that holds however often one looks and whenever one stops.
///
/// For predictable flip probabilities `p_i` and any `t` in (0, 1), the product of
/// `t^X_i / (1 - p_i (1 - t))` is a martingale; by concavity of `ln(1 - p c)` it stays above
/// `t^k (1 - m (1 - t))^-n`, where `m` is the running mean of the `p_i`. Mixed uniformly over `t`
/// this is `M(m) = (1-m)^(k+1-n) m^-(k+1) B(m; k+1, n-k-1)` with the incomplete beta function, not
/// regularised, and Ville's inequality makes `sup { m : M(m) < 1 / alpha }` a bound on the running
/// mean at all times at once. It is 1 for `n < k + 2`.
pub fn anytime_upper(n: u64, k: u64, alpha: f64) -> f64 {
    if n < k.saturating_add(2) {
        return 1.0;
    }
    let (a, b) = ((k + 1) as f64, (n - k - 1) as f64);
    let beta = ln_beta(a, b);
    bisect(|m| -b * (-m).ln_1p() - a * m.ln() + ln_beta_inc(m, a, b) + beta < -alpha.ln())
}

/// Returns how many reruns without a flip bring the Clopper-Pearson bound down to `target`.
///
/// `None` when no number does: `target` or `alpha` is not between 0 and 1, or it would take more
/// than 10^9 reruns.
pub fn planned_n(target: f64, alpha: f64) -> Option<u64> {
    least_n(target, alpha, clopper_pearson_upper)
}

/// Returns how many reruns without a flip bring the anytime bound down to `target`.
///
/// `None` as for [`planned_n`].
pub fn planned_n_anytime(target: f64, alpha: f64) -> Option<u64> {
    least_n(target, alpha, anytime_upper)
}

fn least_n(target: f64, alpha: f64, bound: fn(u64, u64, f64) -> f64) -> Option<u64> {
    let inside = |x: f64| x > 0.0 && x < 1.0;
    if !inside(target) || !inside(alpha) {
        return None;
    }
    // Both bounds fall as n grows.
    let (mut low, mut high) = (0u64, 1_000_000_000u64);
    if bound(high, 0, alpha) > target {
        return None;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if bound(middle, 0, alpha) <= target { high = middle } else { low = middle }
    }
    Some(high)
}

/// Returns where a condition that holds at 0 and fails at 1 stops to hold.
fn bisect(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0f64, 1.0f64);
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return high;
        }
        if holds(middle) { low = middle } else { high = middle }
    }
}

/// Logarithm of the gamma function for positive arguments.
///
/// Lanczos, SIAM J. Numer. Anal. B 1, 1964, with the widely used coefficients for g = 7, n = 9;
/// above 15 Stirling's series (Abramowitz and Stegun 6.1.41), which is exact to the last digits.
fn ln_gamma(x: f64) -> f64 {
    let half_ln_two_pi = 0.5 * std::f64::consts::TAU.ln();
    if x > 15.0 {
        let square = x * x;
        let series = (1.0 / 12.0
            - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * square)) / square) / square)
            / x;
        return (x - 0.5) * x.ln() - x + half_ln_two_pi + series;
    }
    const G: f64 = 7.0;
    const C: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let sum = (1..9).fold(C[0], |sum, i| sum + C[i] / (x + i as f64));
    let t = x + G + 0.5;
    half_ln_two_pi + (x + 0.5) * t.ln() - t + sum.ln()
}

fn ln_beta(a: f64, b: f64) -> f64 {
    ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b)
}

/// Logarithm of the regularised incomplete beta function `I_x(a, b)`.
///
/// The continued fraction of the DLMF 8.17.22, evaluated after Lentz; where it converges slowly,
/// the reflection `I_x(a, b) = 1 - I_{1-x}(b, a)` (DLMF 8.17.4).
fn ln_beta_inc(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if x >= 1.0 {
        return 0.0;
    }
    let front = a * x.ln() + b * (-x).ln_1p() - ln_beta(a, b);
    if x < (a + 1.0) / (a + b + 2.0) {
        front - a.ln() + continued_fraction(x, a, b).ln()
    } else {
        let other = front - b.ln() + continued_fraction(1.0 - x, b, a).ln();
        (-other.exp().min(1.0)).ln_1p()
    }
}

fn continued_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut h = d;
    // It takes about the square root of the larger argument; the cap only guards against NaN.
    for i in 1..100_000 {
        let m = f64::from(i);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away_from_zero(1.0 + even * d);
        c = away_from_zero(1.0 + even / c);
        h *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away_from_zero(1.0 + odd * d);
        c = away_from_zero(1.0 + odd / c);
        h *= d * c;
        if (d * c - 1.0).abs() < 1e-16 {
            break;
        }
    }
    h
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Vectors {
        alpha: f64,
        bounds: Vec<(u64, u64, f64, f64)>,
        runs: Vec<(f64, u64, u64)>,
    }

    fn vectors() -> Vectors {
        serde_json::from_str(include_str!("../../tests/vectors/flake.json")).unwrap()
    }

    #[test]
    fn both_bounds_reproduce_every_vector() {
        let vectors = vectors();
        assert!(vectors.bounds.len() >= 28);
        for (n, k, fixed, anytime) in vectors.bounds {
            let found = clopper_pearson_upper(n, k, vectors.alpha);
            assert!((found - fixed).abs() < 1e-8, "clopper_pearson_upper({n}, {k}) is {found}");
            let found = anytime_upper(n, k, vectors.alpha);
            assert!((found - anytime).abs() < 1e-8, "anytime_upper({n}, {k}) is {found}");
        }
    }

    #[test]
    fn the_planned_numbers_are_the_least_that_suffice() {
        let vectors = vectors();
        for (target, fixed, anytime) in vectors.runs {
            assert_eq!(planned_n(target, vectors.alpha), Some(fixed), "{target}");
            assert_eq!(planned_n_anytime(target, vectors.alpha), Some(anytime), "{target}");
        }
        assert_eq!(planned_n(0.0, 0.05), None);
        assert_eq!(planned_n(f64::NAN, 0.05), None);
        assert_eq!(planned_n(1e-12, 0.05), None);
    }

    #[test]
    fn bounds_grow_with_flips_fall_with_runs_and_looking_often_costs() {
        for n in [1u64, 2, 7, 40, 333, 5000] {
            let mut last = (0.0, 0.0);
            for k in (0..=n).step_by((n as usize / 20).max(1)) {
                let now = (clopper_pearson_upper(n, k, 0.05), anytime_upper(n, k, 0.05));
                assert!(now.0 >= last.0 && now.1 >= last.1, "{n} {k}");
                assert!(now.1 >= now.0 && now.0 > k as f64 / n as f64 - 1e-12, "{n} {k}");
                assert!(clopper_pearson_upper(n + 1, k, 0.05) <= now.0 + 1e-12);
                assert!(anytime_upper(n + 1, k, 0.05) <= now.1 + 1e-12);
                last = now;
            }
        }
        assert_eq!(clopper_pearson_upper(0, 0, 0.05).to_bits(), 1.0f64.to_bits());
    }

    #[test]
    fn one_flip_refutes_whatever_the_bound() {
        assert_eq!(Status::of(1, 0.0001, Some(0.5)), Status::Refuted);
        assert_eq!(Status::of(0, 0.04, Some(0.05)), Status::Bounded);
        assert_eq!(Status::of(0, 0.06, Some(0.05)), Status::Unproven);
        assert_eq!(Status::of(0, 0.0001, None), Status::Unproven);
    }
}
