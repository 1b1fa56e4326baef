use super::*;
use crate::compare::ALPHA;

/// Random numbers (SplitMix64: Steele, Lea and Flood, 2014), others than those of the crates that
/// use this one.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }

    /// Of a normal distribution with mean 0 and deviation 1 (Box and Muller).
    fn normal(&mut self) -> f64 {
        (2.0 * self.exponential()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// `n` readings around `mean` with this deviation, each `phi` times the one before and
    /// something new.
    fn series(&mut self, n: usize, phi: f64, mean: f64, sd: f64) -> Vec<f64> {
        let mut x = self.normal();
        let next = |_| {
            let now = x;
            x = phi * x + (1.0 - phi * phi).sqrt() * self.normal();
            mean + sd * now
        };
        (0..n).map(next).collect()
    }
}

fn plain(values: &[f64]) -> Series<'_> {
    Series { values, events: &[] }
}

fn compare(a: &[f64], b: &[f64]) -> Contrast {
    Contrast::of_series(plain(a), plain(b), ALPHA).unwrap()
}

/// Losses of intervals of `sent` datagrams each, as percentages.
struct Losses(Vec<f64>, Vec<u64>);

impl Losses {
    fn new(sent: u64, lost: impl IntoIterator<Item = u32>) -> Losses {
        let values: Vec<f64> = lost.into_iter().map(|lost| 100.0 * f64::from(lost) / sent as f64).collect();
        let events = vec![sent; values.len()];
        Losses(values, events)
    }

    fn series(&self) -> Series<'_> {
        Series { values: &self.0, events: &self.1 }
    }

    fn against(&self, after: &Losses) -> Contrast {
        Contrast::of_series(self.series(), after.series(), ALPHA).unwrap()
    }
}

/// How datagrams are lost in intervals of 500.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// Each with this probability.
    Independent(f64),
    /// In bursts of this mean length, 1 % of all.
    Bursts(f64),
    /// 10 % of them in phases of this mean length in intervals, a quarter of the time (Gilbert and
    /// Elliott).
    Phases(f64),
    /// With a probability whose logarithm is autoregressive.
    Drifting(f64),
}

impl Loss {
    const SENT: u32 = 500;

    fn intervals(self, n: usize, random: &mut Random) -> Losses {
        let sent = f64::from(Loss::SENT);
        let (mut left, mut bad) = (0.0, random.uniform() < 0.25);
        let rates = match self {
            Loss::Drifting(phi) => random.series(n, phi, 0.01f64.ln(), 1.0),
            _ => vec![0.0; n],
        };
        let mut is_lost = |rate: f64| match self {
            Loss::Independent(p) => random.uniform() < p,
            Loss::Bursts(mean) => {
                let goes_on = left >= 1.0;
                let begins = !goes_on && random.uniform() < 0.01 / mean;
                left = if begins { (mean - 1.0) * random.exponential() } else { left - 1.0 };
                goes_on || begins
            }
            Loss::Phases(mean) => {
                if left <= 0.0 {
                    bad = !bad;
                    left = random.exponential() * mean * sent * if bad { 1.0 } else { 3.0 };
                }
                left -= 1.0;
                bad && random.uniform() < 0.1
            }
            Loss::Drifting(_) => random.uniform() < rate.exp(),
        };
        let lost: Vec<u32> =
            rates.into_iter().map(|rate| (0..Loss::SENT).map(|_| u32::from(is_lost(rate))).sum()).collect();
        Losses::new(u64::from(Loss::SENT), lost)
    }
}

#[test]
fn readings_that_do_not_vary_do_not_follow_each_other() {
    // Rates of a run that lost nothing against one that lost 4.75 %: 5.60 against 5.26 to 5.43
    // Mbit/s.
    let after = [5.33, 5.41, 5.26, 5.36, 5.31, 5.43, 5.29, 5.38, 5.34, 5.27, 5.40, 5.32];
    let c = compare(&[5.6; 12], &after);
    assert!(c.p < 1e-3 && c.shift < 0.0 && !c.is_more(), "{c:?}");
    let both = compare(&[5.6; 12], &[5.3; 12]);
    assert_eq!((both.inflation, both.p), (1.0, both.least_p), "sets that do not overlap");
    assert_eq!(compare(&[5.6; 12], &[5.6; 12]).p, 1.0);
    assert_eq!(compare(&[0.1; 10], &[0.1; 9]).p, 1.0, "means that differ by rounding");
    // The mean of ten times 0.1 is not 0.1.
    let c = compare(&[0.0; 10], &[0.1; 10]);
    assert!(c.inflation == 1.0 && c.p < ALPHA, "{c:?}");
}

/// Readings that alternate have no positive autocorrelation: the test is that of Welch (1947).
#[test]
fn independent_readings_give_the_test_of_welch() {
    let a = [9.0, 11.0].repeat(20);
    let b = [10.0, 14.0].repeat(15);
    let c = contrast(plain(&a), plain(&b), false, ALPHA).unwrap();
    // Squares of deviations: 40 · 1 and 30 · 4; of the errors of the means 40 / (39 · 40) and 120 /
    // (29 · 30).
    let (of_a, of_b) = (1.0f64 / 39.0, 4.0f64 / 29.0);
    let error = (of_a + of_b).sqrt();
    let df = (of_a + of_b).powi(2) / (of_a.powi(2) / 39.0 + of_b.powi(2) / 29.0);
    assert_eq!((c.inflation, c.shift, c.base), (1.0, 2.0, 10.0));
    assert!((c.p - two_sided(2.0 / error, Some(df))).abs() < 1e-12, "{c:?}");
    let (low, high) = c.interval.unwrap();
    let half = quantile(ALPHA, Some(df)) * error;
    assert!((low - (2.0 - half)).abs() < 1e-9 && (high - (2.0 + half)).abs() < 1e-9);
    // Four times as many readings halve the width of the interval.
    assert!((c.more_readings(half / 2.0).unwrap() - 4.0).abs() < 1e-9);
    assert_eq!(c.more_readings(0.0), None);
}

#[test]
fn a_start_or_a_stall_hides_no_difference_of_the_others() {
    // Two TCP connections through bottlenecks of 50 and 47.5 Mbit/s; each begins slowly.
    let a = [46.16, 47.76, 47.56, 48.18, 48.28, 48.14, 48.05, 47.94, 48.17, 48.42];
    let b = [43.56, 45.82, 45.82, 45.92, 45.87, 45.78, 45.89, 45.76, 45.95, 45.28];
    let c = compare(&a, &b);
    assert!(c.p < ALPHA && !c.is_more(), "{c:?}");
    let mean = |kept: &[f64]| kept.iter().sum::<f64>() / 8.0;
    // Without the smallest and the largest.
    let (before, after) = (mean(&a[1..9]), mean(&[&b[1..8], &b[9..]].concat()));
    assert!((c.shift - (after - before)).abs() < 1e-9 && (c.base - before).abs() < 1e-9, "{c:?}");
    // Of all together the start hides more, and stalls of a tenth are seen there alone.
    assert!(contrast(plain(&a), plain(&b), false, ALPHA).unwrap().p > c.p);
    let stalls: Vec<f64> =
        (0..200).map(|at| if at % 10 == 5 { 0.0 } else { 48.0 + f64::from(at % 3) }).collect();
    let none: Vec<f64> = (0..200).map(|at| 48.0 + f64::from(at % 3)).collect();
    let c = compare(&none, &stalls);
    assert!(c.p < 0.01 && (c.relative().unwrap() + 0.1).abs() < 0.01, "{c:?}");
}

#[test]
fn readings_that_follow_each_other_count_less() {
    // A slow wave: neighbours are nearly equal, so 100 readings are worth a few.
    let wave = |i: u32, up: f64| (f64::from(i) / 16.0).sin() + up;
    let a: Vec<f64> = (0..100).map(|i| wave(i, 0.0)).collect();
    let b: Vec<f64> = (0..100).map(|i| wave(i + 40, 0.35)).collect();
    let (blind, aware) = (Contrast::of_sets(&a, &b, ALPHA).unwrap(), compare(&a, &b));
    assert!(aware.inflation > 10.0 && blind.inflation == 1.0, "{aware:?}");
    assert!(blind.p < ALPHA && aware.p > ALPHA, "{} {}", blind.p, aware.p);
    // Ten readings are weighed as well.
    let rise: Vec<f64> = (0..10).map(f64::from).collect();
    assert!(compare(&rise, &rise).inflation > 10.0);
}

/// Without dispersion beyond chance the probability is that of a binomial of all that were lost,
/// counted out.
#[test]
fn losses_are_counts() {
    for (before, after) in [(0, 1), (0, 4), (0, 10), (0, 50), (20, 50), (120, 150)] {
        let spread = |lost: u32| (0..10).map(move |at| lost * (at + 1) / 10 - lost * at / 10);
        let c = Losses::new(500, spread(before)).against(&Losses::new(500, spread(after)));
        let all = before + after;
        // Each of all is one of the side after with probability 1/2: the sum of the two tails.
        let mut chance = 0.5f64.powi(all as i32);
        let mut tail = 0.0;
        for k in 0..=all {
            if k >= before.max(after) {
                tail += 2.0 * chance;
            }
            chance *= f64::from(all - k) / f64::from(k + 1);
        }
        let exact = tail.min(1.0);
        // The normal approximation of the tail is right to a share that grows with its distance.
        assert!(
            (c.p - exact).abs() < 0.01 && (exact > 0.01 || c.p < 0.01),
            "{before} {after}: {c:?} {exact}"
        );
    }
    // 285 of 6,000 against none.
    let after = Losses::new(500, [24, 21, 27, 19, 25, 23, 26, 22, 24, 28, 20, 26]);
    assert!(Losses::new(500, [0; 12]).against(&after).p < 1e-5);
    // One burst is one event, however many it takes; of three in as many intervals nothing is known
    // either.
    let burst = |bursts: usize| Losses::new(500, (0..10).map(|at| if at < bursts { 100 } else { 0 }));
    assert_eq!(Losses::new(500, [0; 10]).against(&burst(1)).p, 1.0);
    assert!(Losses::new(500, [0; 10]).against(&burst(3)).p > ALPHA);
}

/// Of how many in a thousand pairs `differs` holds.
fn of_thousand(mut differs: impl FnMut(&mut Random) -> bool) -> usize {
    let mut random = Random(20_261_128);
    (0..1_000).filter(|_| differs(&mut random)).count()
}

#[test]
fn equal_series_raise_few_alarms() {
    for n in [4, 5, 7, 10, 20, 40] {
        for phi in [-0.4, 0.0, 0.3, 0.5, 0.7] {
            let alarms = of_thousand(|random| {
                let [a, b] = [(); 2].map(|()| random.series(n, phi, 100.0, 1.0));
                compare(&a, &b).p < ALPHA
            });
            assert!(alarms <= 50, "{alarms} of 1000: {n} readings, {phi}");
        }
    }
    for loss in [
        Loss::Independent(0.000_2),
        Loss::Independent(0.01),
        Loss::Independent(0.2),
        Loss::Bursts(3.0),
        Loss::Bursts(50.0),
        Loss::Phases(0.1),
        Loss::Phases(1.0),
        Loss::Drifting(0.0),
        Loss::Drifting(0.7),
    ] {
        let alarms = of_thousand(|random| {
            let [a, b] = [(); 2].map(|()| loss.intervals(10, random));
            a.against(&b).p < ALPHA
        });
        assert!(alarms <= 50, "{alarms} of 1000: {loss:?}");
    }
}

/// Ten intervals of a run are enough for five deviations, and for a percent of 5,000 datagrams,
/// among four figures, too.
#[test]
fn plain_differences_are_significant() {
    for (figures, least) in [(1.0, 970), (2.0, 950)] {
        let found = of_thousand(|random| {
            let [a, b] = [100.0, 95.0].map(|mean| random.series(10, 0.0, mean, 1.0));
            compare(&a, &b).p * figures < ALPHA
        });
        assert!(found >= least, "{found} of 1000, {figures} figures");
    }
    let none = Losses::new(500, [0; 10]);
    let found = of_thousand(|random| {
        let c = none.against(&Loss::Independent(0.01).intervals(10, random));
        c.p * 4.0 < ALPHA && c.is_more()
    });
    assert!(found >= 970, "{found} of 1000");
}
