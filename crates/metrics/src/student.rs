//! Probabilities and quantiles of Student's t and of the normal distribution.

/// The probability that a variable of Student's t distribution with `df` degrees of freedom
/// (`None`: of the normal one) is further from 0 than `t` >= 0.
#[must_use]
pub fn two_sided(t: f64, df: Option<f64>) -> f64 {
    match df {
        None => complement(t / std::f64::consts::SQRT_2).min(1.0),
        Some(df) => beta(df / (df + t * t), df / 2.0).clamp(0.0, 1.0),
    }
}

/// The value that is exceeded on either side with probability `level` in all.
pub(crate) fn quantile(level: f64, df: Option<f64>) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while two_sided(high, df) > level && high < 1e6 {
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..48 {
        let middle = f64::midpoint(low, high);
        if two_sided(middle, df) > level { low = middle } else { high = middle }
    }
    high
}

/// The regularised incomplete beta function of `x`, for `a` and one half, which is what Student's t
/// needs: by its continued fraction (Abramowitz and Stegun, 26.5.8), from the side on which that
/// converges fast.
fn beta(x: f64, a: f64) -> f64 {
    const B: f64 = 0.5;
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front = (a * x.ln() + B * (1.0 - x).ln() - ln_beta_half(a)).exp();
    match x < (a + 1.0) / (a + B + 2.0) {
        true => front * fraction(x, a, B) / a,
        false => 1.0 - front * fraction(1.0 - x, B, a) / B,
    }
}

/// The continued fraction of the incomplete beta function, evaluated from the front (Lentz, 1976).
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let safe = |v: f64| if v.abs() < TINY { TINY } else { v };
    let (mut c, mut d) = (1.0, 1.0 / safe(1.0 - (a + b) * x / (a + 1.0)));
    let mut value = d;
    for k in 1..200 {
        let k = f64::from(k);
        let even = k * (b - k) * x / ((a + 2.0 * k - 1.0) * (a + 2.0 * k));
        let odd = -(a + k) * (a + b + k) * x / ((a + 2.0 * k) * (a + 2.0 * k + 1.0));
        let before = value;
        for term in [even, odd] {
            d = 1.0 / safe(1.0 + term * d);
            c = safe(1.0 + term / c);
            value *= c * d;
        }
        if (value - before).abs() <= value.abs() * 1e-14 {
            break;
        }
    }
    value
}

/// The logarithm of the beta function of `a` and one half: the ratio of gamma functions for large
/// arguments (Abramowitz and Stegun, 6.1.47), reached from small ones by the recurrence.
fn ln_beta_half(a: f64) -> f64 {
    let (mut a, mut factor) = (a, 1.0);
    while a < 30.0 {
        // B(a, 1/2) = B(a + 1, 1/2) (a + 1/2) / a
        factor *= (a + 0.5) / a;
        a += 1.0;
    }
    // gamma(a + 1/2) / gamma(a), from the asymptotic series in 1/a.
    let series = 1.0 - 1.0 / (8.0 * a) + 1.0 / (128.0 * a.powi(2)) + 5.0 / (1024.0 * a.powi(3))
        - 21.0 / (32_768.0 * a.powi(4));
    (std::f64::consts::PI.sqrt() / (a.sqrt() * series) * factor).ln()
}

/// The complementary error function of `x` >= 0, to 2e-7 (Abramowitz and Stegun, 7.1.26).
fn complement(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = t
        * (0.254_829_592
            + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    (series * (-x * x).exp()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published quantiles of Student's t (scipy.stats.t.ppf(0.975, df) and (0.995, df)), beside
    /// which the degrees between are those of series.
    #[test]
    fn students_t_is_that_of_the_tables() {
        for (df, t95, t99) in [
            (1.0, 12.706_205, 63.656_741),
            (2.0, 4.302_653, 9.924_843),
            (5.0, 2.570_582, 4.032_143),
            (30.0, 2.042_272, 2.749_996),
            (120.0, 1.979_930, 2.617_421),
            (1_000.0, 1.962_339, 2.580_755),
        ] {
            assert!((quantile(0.05, Some(df)) - t95).abs() < 2e-6, "{df}: {}", quantile(0.05, Some(df)));
            assert!((quantile(0.01, Some(df)) - t99).abs() < 1e-5, "{df}: {}", quantile(0.01, Some(df)));
        }
        // Two degrees of freedom have a closed form: 1 - t / sqrt(2 + t^2). Halves of them lie
        // between.
        for t in [0.1, 1.0, 3.0, 40.0] {
            assert!((two_sided(t, Some(2.0)) - (1.0 - t / (2.0 + t * t).sqrt())).abs() < 1e-9);
            let between = two_sided(t, Some(2.5));
            assert!(two_sided(t, Some(3.0)) < between && between < two_sided(t, Some(2.0)));
        }
        assert!((quantile(0.05, None) - 1.959_964).abs() < 1e-5);
    }
}
