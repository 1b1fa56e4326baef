use super::*;

const A: [f64; 5] = [9.1, 9.4, 8.7, 9.9, 9.0];
const B: [f64; 6] = [9.8, 10.4, 10.1, 9.95, 10.9, 9.3];

fn runs(a: &[f64], b: &[f64]) -> Contrast {
    Contrast::of_sets(a, b, ALPHA).unwrap()
}

/// The slow obvious version: of all ways to choose which readings are those of `b`, the share whose
/// statistic is at least as far from its mean.
fn by_counting(a: &[f64], b: &[f64]) -> f64 {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let remote = |chosen: &dyn Fn(usize) -> bool| {
        let (mut u, mut pairs) = (0.0, 0.0);
        for i in (0..all.len()).filter(|&i| chosen(i)) {
            for j in (0..all.len()).filter(|&j| !chosen(j)) {
                u += if all[i] > all[j] {
                    1.0
                } else if all[i] < all[j] {
                    0.0
                } else {
                    0.5
                };
                pairs += 1.0;
            }
        }
        (u - pairs / 2.0f64).abs()
    };
    let seen = remote(&|i| i >= a.len());
    let splits = (0u32..1 << all.len()).filter(|split| split.count_ones() as usize == b.len());
    let (mut uneven, mut ways) = (0u32, 0u32);
    for split in splits {
        ways += 1;
        uneven += u32::from(remote(&|i| split >> i & 1 == 1) >= seen - 1e-9);
    }
    f64::from(uneven) / f64::from(ways)
}

#[test]
fn small_sets_agree_with_scipy_and_with_tables() {
    // scipy.stats.mannwhitneyu(b, a, method='exact'): U 27, p 0.0303; the differences sorted by
    // numpy: the median is 0.9, the 4th 0.05, the 27th 1.7 (of 462 orders 7 have a statistic of at
    // most 3, and 12 one of at most 4).
    let c = runs(&A, &B);
    assert!((c.p - 0.030_303_030_3).abs() < 1e-9, "{c:?}");
    assert!((c.superiority - 27.0 / 30.0).abs() < 1e-12);
    assert!((c.shift - 0.9).abs() < 1e-9);
    let (low, high) = c.interval.unwrap();
    assert!((low - 0.05).abs() < 1e-9 && (high - 1.7).abs() < 1e-9, "{c:?}");
    assert_eq!(c.local_end(), low);
    assert!((c.least_p - 2.0 / 462.0).abs() < 1e-12);
    // Three against three cannot be told apart at 5 %: the least probability is 2 / 20.
    let apart = runs(&[1.0, 2.0, 3.0], &[7.0, 8.0, 9.0]);
    assert!((apart.p - 0.1).abs() < 1e-12 && (apart.least_p - 0.1).abs() < 1e-12);
    assert_eq!((apart.interval, apart.local_end()), (None, 0.0), "nor is there an interval");
    // Four can, at 2 / 70, and the interval is that of all differences.
    let apart = runs(&[1.0, 2.0, 3.0, 4.0], &[7.0, 8.0, 9.0, 10.0]);
    assert!((apart.p - 2.0 / 70.0).abs() < 1e-12);
    assert_eq!(apart.interval, Some((3.0, 9.0)));
}

/// The two-tailed critical values of U at 5 % of the tables in textbooks (Siegel and Castellan,
/// table J, and others): the largest U that is significant.
#[test]
fn critical_values_are_those_of_the_tables() {
    for (n, m, critical) in
        [(4, 4, 0), (5, 5, 2), (5, 8, 6), (6, 6, 5), (8, 8, 13), (10, 10, 23), (12, 15, 49), (20, 20, 127)]
    {
        let ranks = Ranks { n, m };
        assert_eq!(ranks.least_inside(ALPHA), Some(critical + 1), "{n} and {m}");
    }
    assert_eq!(Ranks { n: 3, m: 4 }.least_inside(ALPHA), None);
}

#[test]
fn small_sets_with_ties_are_counted_out() {
    let zero = [0.0; 4];
    let sets: [(&[f64], &[f64]); 5] = [
        (&A, &B),
        (&zero, &[8.0, 7.0, 9.0, 7.0]),
        (&zero, &[0.0, 0.0, 0.0, 1.0]),
        (&[1.0, 2.0, 2.0, 3.0, 3.0], &[2.0, 3.0, 4.0, 4.0, 5.0, 5.0]),
        (&[5.0, 5.0, 1.0], &[5.0, 7.0, 7.0, 7.0, 9.0, 1.0, 5.0]),
    ];
    for (a, b) in sets {
        let (told, counted) = (runs(a, b).p, by_counting(a, b));
        assert!((told - counted).abs() < 1e-12, "{a:?} {b:?}: {told} and {counted}");
    }
    assert!((runs(&zero, &[8.0, 7.0, 9.0, 7.0]).p - 2.0 / 70.0).abs() < 1e-12);
    assert_eq!(runs(&zero, &[0.0, 0.0, 0.0, 1.0]).p, 1.0);
}

#[test]
fn large_sets_and_ties_agree_with_scipy() {
    // The same sets given to scipy.stats.mannwhitneyu(method='asymptotic').
    let a: Vec<f64> = (0..40u64).map(|i| (i * 7_919 % 100) as f64).collect();
    let b: Vec<f64> = (0..50u64).map(|i| (i * 104_729 % 100) as f64 + 12.0).collect();
    let c = runs(&a, &b);
    assert!((c.p - 0.058_477_235_6).abs() < 1e-6, "{c:?}");
    assert!((c.shift - 12.5).abs() < 1e-9 && (c.superiority - 1_233.5 / 2_000.0).abs() < 1e-12);
    // The approximation agrees with the exact distribution where both can be had.
    for remote in [40.5, 60.5, 80.5] {
        let exact = Ranks { n: 15, m: 15 };
        let (low, high): (Vec<f64>, Vec<f64>) =
            ((0..15).map(f64::from).collect(), (15..30).map(f64::from).collect());
        let p = exact.probability(&low, &high, 112.5 + remote);
        assert!((p - exact.tail(remote, 31.0)).abs() < 0.002, "{remote}: {p}");
    }
}

#[test]
fn several_comparisons_are_corrected_as_holm_did() {
    // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
    let corrected = holm(&[0.01, 0.04, 0.03, 0.005], &[1.0; 4]);
    for (got, want) in corrected.iter().zip([0.03, 0.06, 0.06, 0.02]) {
        assert!((got - want).abs() < 1e-12, "{corrected:?}");
    }
    assert_eq!(holm(&[0.7, 0.9], &[0.5, 0.5]), [1.0, 1.0]);
    assert_eq!(holm(&[0.02], &[1.0]), [0.02]);
    // By hand: 0.03 / 0.8 and 0.004 / 0.1 are the first two in order, with the weights 1 and 0.2 left;
    // then 0.5 / 0.1 with 0.1.
    let weighed = holm(&[0.03, 0.5, 0.004], &[0.8, 0.1, 0.1]);
    for (got, want) in weighed.iter().zip([0.0375, 0.5, 0.0375]) {
        assert!((got - want).abs() < 1e-12, "{weighed:?}");
    }
}

#[test]
fn the_number_of_runs_that_can_be_told_apart() {
    // 2 of 20, 70, 252 and 924 orders: 0.1, 0.0286, 0.0079, 0.0022.
    let least = [1.0, 2.0, 6.0, 7.0, 23.0, 24.0].map(|figures| least_readings(ALPHA / figures));
    assert_eq!(least, [4, 5, 5, 6, 6, 7]);
}

#[test]
fn the_same_is_no_difference() {
    let c = runs(&[4.0; 20], &[4.0; 20]);
    assert_eq!((c.p, c.shift, c.superiority, c.local_end()), (1.0, 0.0, 0.5, 0.0));
    assert_eq!(Contrast::of_sets(&[1.0], &[1.0, 2.0], ALPHA), None);
    assert_eq!(Contrast::of_sets(&[f64::NAN, 1.0], &[1.0, 2.0], ALPHA), None);
}
