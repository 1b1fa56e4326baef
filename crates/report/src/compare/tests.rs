use super::*;
use metrics::{Packets, SECOND};
use model::{Direction, Interval, PacketReport, Point, Totals, Traffic, Way};

/// Random numbers (xorshift, Marsaglia 2003).
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Of a normal distribution with mean 0 and deviation 1 (Box and Muller).
    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// `n` readings around 100, of deviation 1, each of which is `phi` times the one before and
    /// something new: AR(1).
    fn series(&mut self, n: usize, phi: f64) -> Vec<f64> {
        let mut x = self.normal();
        let next = |_| {
            let now = x;
            x = phi * x + (1.0 - phi * phi).sqrt() * self.normal();
            100.0 + now
        };
        (0..n).map(next).collect()
    }
}

/// What is simulated: readings of a side, whether they are runs, how alike they are, and how many
/// figures there are.
#[derive(Clone, Copy)]
struct Case {
    n: usize,
    runs: bool,
    phi: f64,
    figures: usize,
}

impl Case {
    /// In how many of `pairs` a difference is told in any figure, when the second side of the first
    /// figure is smaller by `change` deviations.
    fn verdicts(self, pairs: u32, change: f64) -> u32 {
        let mut random = Random(88_172_645_463_325_252);
        let mut told = 0;
        for _ in 0..pairs {
            let all = (0..self.figures).map(|at| Readings {
                setting: String::new(),
                figure: Figure::Goodput(Way::Up).into(),
                value: [None, None],
                of: [0.0, if at == 0 { change } else { 0.0 }]
                    .map(|less| random.series(self.n, self.phi).iter().map(|value| value - less).collect()),
                events: [Vec::new(), Vec::new()],
                interval_ns: SECOND,
                whole_runs: self.runs,
            });
            let rows = judged(all.collect());
            told += u32::from(
                rows.iter().any(|row| matches!(row.verdict, FigureVerdict::Better | FigureVerdict::Worse)),
            );
        }
        told
    }

    /// The row of the table in docs/compare.md: false alarms in 1,000 pairs of equal sides, then
    /// differences told of 1, 2, 4 and 5 deviations in 200 pairs each, all in percent.
    fn row(self) -> String {
        let Case { n, runs, phi, figures } = self;
        let alarms = self.verdicts(1_000, 0.0);
        assert!(alarms <= 50, "{alarms} false alarms in 1000: {n} readings, phi {phi}, {figures} figures");
        let power = [1.0, 2.0, 4.0, 5.0].map(|change| format!("{} %", self.verdicts(200, change) / 2));
        let what = if runs { "runs" } else { "intervals" };
        let (alarms, power) = (f64::from(alarms) / 10.0, power.join(" | "));
        format!("| {n} {what} | {phi} | {figures} | {alarms:.1} % | {power} |")
    }
}

/// The false alarms and the power that docs/compare.md states are those of this code.
#[test]
fn alarms_and_power_are_those_that_the_documents_state() {
    let mut cases = Vec::new();
    for (n, figures) in [(10, 1), (10, 4), (30, 1), (30, 4)] {
        cases.extend([0.0, 0.3, 0.5, 0.7].map(|phi| Case { n, runs: false, phi, figures }));
    }
    let of_runs = |(n, figures)| Case { n, runs: true, phi: 0.0, figures };
    cases.extend([(4, 1), (5, 4), (8, 1), (8, 4)].map(of_runs));
    // A change of the code changes all of them: `./test` looks at one without and one with strong
    // autocorrelation, at one with four figures and at the fewest runs, `bench/deep` at all.
    let all = std::env::var_os("NETCALIPER_DEEP").is_some();
    let chosen = cases.into_iter().enumerate().filter(|(at, _)| all || [0, 7, 11, 16].contains(at));
    let rows: Vec<String> = chosen.map(|(_, case)| case.row()).collect();
    println!("{}", rows.join("\n"));
    let page = include_str!("../../../../docs/compare.md");
    for row in rows {
        assert!(page.lines().any(|line| line.trim() == row), "docs/compare.md does not state {row}");
    }
}

fn interval(index: u32, packets: Option<(i64, u64)>) -> Interval {
    let start_ns = u64::from(index) * SECOND;
    let local = Traffic { ns: SECOND, ..Traffic::default() };
    let packets = packets.map(|(lost, received)| {
        let counts = Packets { lost, received, ..Packets::default() };
        Box::new(PacketReport::from(counts))
    });
    Interval { index, start_ns, end_ns: start_ns + SECOND, local, packets, ..Interval::default() }
}

/// A run in which so many datagrams of a thousand were lost in each second.
fn losing(lost: &[i64]) -> Outcome {
    let intervals: Vec<Interval> =
        (0..).zip(lost).map(|(at, &lost)| interval(at, Some((lost, (1_000 - lost) as u64)))).collect();
    let sum = lost.iter().sum();
    let counts =
        Packets { lost: sum, received: 1_000 * lost.len() as u64 - sum as u64, ..Packets::default() };
    let packets = Some(Box::new(PacketReport::from(counts)));
    let local = Totals { packets, ..Totals::default() };
    let point = Point { status: Status::Complete, intervals, local, ..Point::default() };
    Outcome { points: vec![point], ..Outcome::default() }
}

/// Runs in which the server received at these rates, one each.
fn rates(rates: &[f64]) -> Vec<Outcome> {
    let one = |&goodput_bps: &f64| {
        let up = Some(Direction { goodput_bps, confirmed: true, ..Direction::default() });
        let point = Point { status: Status::Complete, up, ..Point::default() };
        Outcome { points: vec![point], ..Outcome::default() }
    };
    rates.iter().map(one).collect()
}

fn verdicts(before: &[Outcome], after: &[Outcome]) -> Vec<String> {
    let comparison = Comparison::of(before, after).unwrap();
    comparison.rows.iter().map(|row| row.verdict.to_string()).collect()
}

#[test]
fn loss_that_was_not_there_before_is_worse() {
    let (none, some) = (losing(&[0; 10]), losing(&[80, 75, 84, 79, 81, 77, 82, 80, 76, 83]));
    let (none, some) = (std::slice::from_ref(&none), std::slice::from_ref(&some));
    assert_eq!(verdicts(none, some), ["worse"]);
    assert_eq!(verdicts(some, none), ["better"]);
    assert_eq!(verdicts(none, none), ["no significant difference"]);
    let worse = |before, after, share| Comparison::of(before, after).unwrap().worse_by(share).unwrap();
    // Of a base of 0 there is no share: all of it is more than any.
    assert!(worse(none, some, 0.0) && worse(none, some, 10.0));
    assert!(!worse(some, none, 0.0) && !worse(none, none, 0.0));
    // A datagram in each interval is enough, and one in a single interval is not.
    let each = [losing(&[1; 10])];
    assert!(worse(none, &each, 0.0));
    let once = [losing(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0])];
    assert!(!worse(none, &once, 0.0));
    // In half of the intervals: the median of the differences is 0, and yet it is worse.
    let half: Vec<i64> = (0..40).map(|at| if at % 2 == 0 { 9 } else { 0 }).collect();
    assert!(worse(&[losing(&[0; 40])], &[losing(&half)], 0.5));
}

#[test]
fn the_threshold_asks_the_local_end_of_the_interval() {
    // From a median of 100.5 the differences are -20 to -2, and their median is -11: it may be 2 %
    // only.
    let before = rates(&[98.0, 99.0, 100.0, 101.0, 102.0, 103.0]);
    let after = rates(&[83.0, 85.0, 88.0, 91.0, 94.0, 96.0]);
    let comparison = Comparison::of(&before, &after).unwrap();
    let contrast = comparison.rows[0].contrast.unwrap();
    let local = -contrast.local_end() / contrast.median.0;
    assert!(local > 0.0 && local < -contrast.relative().unwrap(), "{contrast:?}");
    assert!(comparison.worse_by(0.0).unwrap() && comparison.worse_by(local * 0.99).unwrap());
    // Beyond the interval's end, and within the difference of the means: not worse by so much for
    // certain, and no pass either.
    let why = comparison.worse_by(local * 1.01).unwrap_err();
    assert!(why.contains("over all of each side goodput to server is worse by 10.9 %"), "{why}");
    assert!(!comparison.worse_by(0.11).unwrap());
    assert!(!Comparison::of(&after, &before).unwrap().worse_by(0.0).unwrap(), "better is not worse");
}

/// A run whose server received at these rates, Mbit/s, in turn.
fn paced(rates: &[f64]) -> Outcome {
    let one = |(index, rate): (u32, &f64)| {
        let remote = Some(Traffic { ns: SECOND, rx_bytes: (rate * 125e3) as u64, ..Traffic::default() });
        Interval { remote, ..interval(index, None) }
    };
    let goodput_bps = 1e6 * rates.iter().sum::<f64>() / rates.len() as f64;
    let up = Some(Direction { goodput_bps, confirmed: true, ..Direction::default() });
    let intervals = (0..).zip(rates).map(one).collect();
    let point = Point { status: Status::Complete, up, intervals, ..Point::default() };
    Outcome { points: vec![point], ..Outcome::default() }
}

/// Whether `after` breaks a threshold of 5 % against `before`; `None` where that cannot be judged.
fn five_percent_worse(before: &Outcome, after: &Outcome) -> Option<bool> {
    let sides = [before, after].map(std::slice::from_ref);
    Comparison::of(sides[0], sides[1]).unwrap().worse_by(0.05).ok()
}

#[test]
fn dead_intervals_never_pass_a_threshold() {
    let mut random = Random(5);
    for n in [10, 15, 20] {
        let alive = random.series(n, 0.0);
        let before = paced(&random.series(n, 0.0));
        for every in [2, 3, 5] {
            // Here and there, and one after the other.
            let here_and_there = |at: usize| at % every == every - 1;
            let at_once = |at: usize| at < n.div_ceil(every);
            for dead in [&here_and_there as &dyn Fn(usize) -> bool, &at_once] {
                let rate = |(at, rate): (usize, &f64)| if dead(at) { 0.0 } else { *rate };
                let after = paced(&alive.iter().enumerate().map(rate).collect::<Vec<f64>>());
                assert_ne!(five_percent_worse(&before, &after), Some(false), "one in {every} of {n}");
                assert_eq!(five_percent_worse(&after, &before), Some(false), "one in {every} of {n}");
            }
        }
        // Of half of many it is known.
        let half: Vec<f64> = (0..n).map(|at| if at % 2 == 0 { 0.0 } else { alive[at] }).collect();
        let known = five_percent_worse(&before, &paced(&half));
        assert!(n < 15 || known == Some(true), "half of {n}");
        assert_eq!(five_percent_worse(&before, &paced(&vec![0.0; n])), Some(true));
    }
}

#[test]
fn equal_runs_pass_a_threshold_and_plain_differences_break_it() {
    let mut random = Random(6);
    let run = |mean: f64, random: &mut Random| {
        let rates: Vec<f64> = random.series(10, 0.0).iter().map(|value| value - 100.0 + mean).collect();
        paced(&rates)
    };
    let count = |after: f64, random: &mut Random, verdict| {
        let pairs = (0..200).map(|_| five_percent_worse(&run(100.0, random), &run(after, random)));
        pairs.filter(|found| *found == verdict).count()
    };
    assert_eq!(count(100.0, &mut random, Some(false)), 200);
    let far = count(90.0, &mut random, Some(true));
    assert!(far >= 190, "{far} of 200");
    // Rates that do not vary, as a schedule that loses nothing has them.
    assert_eq!(five_percent_worse(&paced(&[5.6; 12]), &paced(&[5.6; 12])), Some(false));
    assert_eq!(five_percent_worse(&paced(&[5.6; 12]), &paced(&[5.6 * 0.94; 12])), Some(true));
    assert_eq!(five_percent_worse(&paced(&[5.6; 12]), &paced(&[5.6 * 0.96; 12])), Some(false));
}

#[test]
fn a_verdict_that_is_left_open_says_how_long_a_run_has_to_be() {
    let [before, after] = [[9.0, 11.0, 10.0], [4.0, 6.0, 5.0]].map(|rates| [paced(&rates)]);
    assert_eq!(verdicts(&before, &after), ["too few intervals to tell: runs of 4.00 s needed"]);
    // One of five intervals dead: 20 % less, of which so few say nothing.
    let [before, after] = [[10.0; 10], [10.0, 10.0, 0.0, 10.0, 10.0, 10.0, 10.0, 0.0, 10.0, 10.0]];
    let open = Comparison::of(&[paced(&before)], &[paced(&after)]).unwrap();
    let why = open.worse_by(0.05).unwrap_err();
    let begin = "the threshold cannot be judged: over all of each side goodput to server is worse by 20.0 %, and 10 + 10 \
                 intervals scatter too much to say that for certain: runs of ";
    assert!(why.starts_with(begin) && why.ends_with(" needed"), "{why}");
    // As long, and much the same, it is known.
    let again = |rates: &[f64]| [paced(&rates.repeat(6))];
    assert_eq!(Comparison::of(&again(&before), &again(&after)).unwrap().worse_by(0.05), Ok(true));
}

#[test]
fn a_percentage_is_judged_in_points() {
    // 1.0 and 1.1 % lost: a tenth more of what was lost, and a thousandth of what was sent.
    let (one, more) =
        (losing(&[10, 9, 11, 10, 10, 12, 8, 10, 9, 11]), losing(&[11, 10, 12, 11, 11, 13, 9, 11, 10, 12]));
    assert_eq!(five_percent_worse(&one, &more), Some(false));
    // An outage of two intervals in ten: one event, and a fifth of what was sent.
    let outage = losing(&[0, 0, 0, 1_000, 1_000, 0, 0, 0, 0, 0]);
    assert_eq!(five_percent_worse(&losing(&[0; 10]), &outage), None);
}

#[test]
fn too_few_runs_are_said_and_no_threshold_passes_with_them() {
    let (fast, slow) = (rates(&[1e10, 1.1e10, 0.9e10]), rates(&[1e6, 1.1e6, 0.9e6]));
    assert_eq!(verdicts(&fast, &slow), ["too few runs to tell: 4 + 4 needed"]);
    let why = "the threshold cannot be judged: goodput to server (3 + 3): too few runs to tell: 4 + 4 needed";
    assert_eq!(Comparison::of(&fast, &slow).unwrap().worse_by(0.05).unwrap_err(), why);
    // One against several are runs, too.
    assert_eq!(verdicts(&fast[..1], &slow), ["too few runs to tell: 4 + 4 needed"]);
    // Four are enough for one figure.
    let (fast, slow) = (rates(&[1e10, 1.1e10, 0.9e10, 1.05e10]), rates(&[1e6, 1.1e6, 0.9e6, 1.05e6]));
    assert_eq!(verdicts(&fast, &slow), ["worse"]);
    assert_eq!(Comparison::of(&fast, &slow).unwrap().worse_by(0.05), Ok(true));
    assert_eq!(Comparison::of(&slow, &fast).unwrap().worse_by(0.05), Ok(false));
}

#[test]
fn a_failed_run_is_no_reading_and_keeps_the_threshold_from_passing() {
    let (before, mut after) = (rates(&[9.0, 10.0, 11.0, 12.0]), rates(&[9.5, 10.5, 11.5, 12.5, 0.0]));
    after[4].points[0].status = Status::Failed;
    let comparison = Comparison::of(&before, &after).unwrap();
    assert_eq!(comparison.rows[0].readings(), "4 + 4 runs");
    assert!(comparison.worse_by(0.0).unwrap_err().contains("1 phase"));
    assert_eq!(comparison.json()["failed"], json!({ "before": 0, "after": 1 }));
    after.pop();
    assert_eq!(Comparison::of(&before, &after).unwrap().worse_by(0.0), Ok(false));
}

#[test]
fn results_of_a_protocols_own_are_compared_by_their_settings() {
    use model::{Extra, Reading, Shown, Unit};
    let run = |rates: &[f64]| {
        let result = |rate: &f64| {
            let settings = vec![Reading::new("size", "size", Unit::Bytes, 1_000.0)];
            let figures = vec![Reading::of(Figure::Goodput(Way::Up), "rate", *rate)];
            let shown = Some(Box::new(Shown { settings, figures, ..Shown::default() }));
            Extra { shown, ..Extra::new("ttcp", &()) }
        };
        let point = Point { extras: rates.iter().map(result).collect(), ..Point::default() };
        Outcome { points: vec![point], ..Outcome::default() }
    };
    let compared =
        Comparison::of(&[run(&[8e6, 8.1e6, 8.2e6, 8.3e6])], &[run(&[4e6, 4.1e6, 4.2e6, 4.3e6])]).unwrap();
    let rows: Vec<(String, &FigureVerdict)> =
        compared.rows.iter().map(|row| (row.name(), &row.verdict)).collect();
    assert_eq!(rows, [("size=1000: goodput to server".to_owned(), &FigureVerdict::Worse)]);
    assert!(Comparison::of(&[run(&[8e6])], &[run(&[4e6])]).is_err(), "one result a side is no reading");
}

/// A run of `tcp` over 200 connections, each figure with the spread and the tails of its kind:
/// rates and CPU time vary together, retransmits are few and occur in bursts, times to connect have
/// a long tail.
fn transfer(random: &mut Random, cpu: f64) -> Outcome {
    let common = random.normal();
    let mut around = |mean: f64, sd: f64| mean * (1.0 + sd * (0.5 * common + random.normal()));
    let up = Some(Direction { goodput_bps: around(1e10, 0.01), confirmed: true, ..Direction::default() });
    let (local_cpu, remote_cpu) = (around(0.3 * cpu, 0.02), around(0.4, 0.02));
    let burst = random.uniform() < 0.4;
    let retransmits = if burst { (-50.0 * random.uniform().ln()) as u64 } else { 0 };
    let mut time = |us: f64, tail: f64| (us * 1e3 * (tail * random.normal()).exp()) as u64;
    let (p50, p99, loaded) = (time(50.0, 0.1), time(400.0, 0.8), time(900.0, 0.3));
    let connect_ns = Some(metrics::DistSummary { count: 200, p50, p99, ..metrics::DistSummary::default() });
    let rtt_sum_us = loaded as f64 / 1e3;
    let tcp = metrics::TcpTotals {
        connections: 200,
        retransmits,
        rtt_sum_us,
        rtt_samples: 1,
        ..Default::default()
    };
    let local = Totals { connect_ns, tcp, ..Totals::default() };
    let point = Point {
        status: Status::Complete,
        up,
        local,
        local_cpu_s_per_gb: Some(local_cpu),
        remote_cpu_s_per_gb: Some(remote_cpu),
        fairness: Some(1.0 - 1e-3 * random.normal().exp()),
        ..Point::default()
    };
    Outcome { points: vec![point], ..Outcome::default() }
}

/// In how many of `pairs` comparisons of two sets of runs a figure that `is_meant` differs.
fn differing(pairs: usize, runs: usize, cpu: f64, is_meant: impl Fn(&str) -> bool) -> usize {
    let mut random = Random(424_242);
    let mut side = |cpu: f64| (0..runs).map(|_| transfer(&mut random, cpu)).collect::<Vec<Outcome>>();
    let differs = |_: &usize| {
        let comparison = Comparison::of(&side(1.0), &side(cpu)).unwrap();
        let is_told = |row: &ComparedFigure| {
            matches!(row.verdict, FigureVerdict::Better | FigureVerdict::Worse)
                && is_meant(&row.readings.figure.key)
        };
        comparison.rows.iter().any(is_told)
    };
    (0..pairs).filter(differs).count()
}

/// Equal sides of eight figures raise at most 5 % of false alarms, and more CPU time of one end by a
/// tenth is found beside seven others.
#[test]
fn all_figures_of_a_transfer_are_compared_with_few_alarms() {
    let keys: Vec<String> = {
        let mut random = Random(7);
        let mut side = || (0..7).map(|_| transfer(&mut random, 1.0)).collect::<Vec<Outcome>>();
        let comparison = Comparison::of(&side(), &side()).unwrap();
        comparison.rows.iter().map(|row| row.readings.figure.key.clone()).collect()
    };
    let want = [
        "goodput.up",
        "cpu-local",
        "cpu-remote",
        "rtt-loaded",
        "connect.p50",
        "connect.p99",
        "retransmits",
        "fairness",
    ];
    assert_eq!(keys, want);
    for runs in [7, 10] {
        // 5 % of 600 and two standard errors of such a count: 30 + 2 * sqrt(600 * 0.05 * 0.95).
        let alarms = differing(600, runs, 1.0, |_| true);
        assert!(alarms <= 40, "{alarms} false alarms in 600 of {runs} runs");
    }
    let found = differing(100, 10, 1.1, |key| key == "cpu-local");
    assert!(found >= 95, "{found} of 100");
    // Beside so many others goodput needs no more runs than alone.
    let mut random = Random(9);
    let slow = |mut run: Outcome| {
        run.points[0].up.as_mut().unwrap().goodput_bps /= 2.0;
        run
    };
    let before: Vec<Outcome> = (0..4).map(|_| transfer(&mut random, 1.0)).collect();
    let after: Vec<Outcome> = (0..4).map(|_| slow(transfer(&mut random, 1.0))).collect();
    let comparison = Comparison::of(&before, &after).unwrap();
    assert_eq!(comparison.rows[0].verdict, FigureVerdict::Worse);
    assert_eq!(comparison.rows[1].verdict.to_string(), "too few runs to tell: 7 + 7 needed");
    assert_eq!(comparison.worse_by(0.05), Ok(true));
    assert_eq!(Comparison::of(&after, &before).unwrap().worse_by(0.05), Ok(false));
}

/// A run of `load` whose round trips grew by these times under the load from the server, ms.
fn loaded(grown_ms: u64) -> Outcome {
    use metrics::Spectrum;
    use model::RoundTrips;
    let point = |stage: &str, part: &str, ms: u64| {
        let ns = ms * 1_000_000;
        let rtt_ns =
            Some(Spectrum { count: 20, min: ns, max: ns, counts: vec![(ns, 20)], ..Spectrum::default() });
        let pings = Some(Box::new(RoundTrips { rtt_ns, ..RoundTrips::default() }));
        let label = [("stage", stage), ("part", part)].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let local = Totals { pings, ..Totals::default() };
        Point { label: label.into(), repeat: 1, status: Status::Complete, local, ..Point::default() }
    };
    let points = vec![
        point("idle", "trips", 20),
        point("down", "trips", 20 + grown_ms),
        point("down", "load", 40 + grown_ms),
    ];
    let begin = model::Begin { verb: "load".to_owned(), ..model::Begin::default() };
    Outcome { begin, points, ..Outcome::default() }
}

#[test]
fn grade_and_responsiveness_of_a_load_are_compared() {
    let side = |ms: [u64; 7]| ms.map(loaded);
    let (before, after) = (side([10, 11, 12, 13, 14, 15, 16]), side([100, 101, 102, 103, 104, 105, 106]));
    let comparison = Comparison::of(&before, &after).unwrap();
    let row = |key: &str| comparison.rows.iter().find(|row| row.readings.figure.key == key).unwrap();
    let (grown, rpm) = (row("rtt-grown"), row("rpm"));
    assert_eq!((grown.name().as_str(), &grown.verdict), ("stage down: added delay", &FigureVerdict::Worse));
    assert_eq!(&cells(grown)[1..3], ["13 ms (A)", "103 ms (C)"]);
    assert_eq!(rpm.verdict, FigureVerdict::Worse);
    // One run a side has no reading of either.
    let single = Comparison::of(&before[..1], &after[..1]).unwrap();
    let row = single.rows.iter().find(|row| row.readings.figure.key == "rtt-grown").unwrap();
    assert_eq!(row.verdict, FigureVerdict::Untold);
}

#[test]
fn a_comparison_of_loads_leads_with_their_answer_and_says_options_as_typed() {
    let load = |grown_ms: u64, time_s: u64| {
        let mut run = loaded(grown_ms);
        let filler = &mut run.points[2].phase;
        (filler.duration_ns, filler.omit_ns) = (Some(time_s * SECOND), 3 * SECOND);
        run
    };
    let (before, mut after) = (load(10, 8), load(100, 9));
    let host_busy = Caveat {
        code: "host-busy".to_owned(),
        level: CaveatLevel::Caution,
        text: "Busy.".to_owned(),
        advice: String::new(),
    };
    after.points[1].caveats.push(host_busy);
    let comparison = Comparison::of(&[before], &[after]).unwrap();
    assert_eq!(comparison.test, ["-t 5s -> 6s"]);
    let text = printed(&comparison);
    for line in
        ["idle: trip p50", "down: added delay", "+90 ms", "one run a side", "host-busy in the run after"]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("phase.") && !text.contains("0 + 0") && !text.contains("part load"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let json = comparison.json();
    assert_eq!(
        json["caveats"],
        json!([{ "code": "host-busy", "level": "caution", "before": 0, "after": 1 }])
    );
}

#[test]
fn a_difference_is_that_of_the_values_beside_it() {
    let segments = |n: u64| {
        let mut run = rates(&[1e9]).remove(0);
        run.points[0].local.tcp.retransmits = n;
        run.points[0].local.tcp.connections = 8;
        run
    };
    let (before, after) = ([1_150, 3, 9, 12, 20].map(segments), [1_300, 2, 10, 14, 19].map(segments));
    let comparison = Comparison::of(&before, &after).unwrap();
    let row = comparison.rows.iter().find(|row| row.readings.figure.key == "retransmits").unwrap();
    let cells = cells(row);
    assert_eq!(&cells[1..5], ["12", "14", "+16.7 %", "not significant"]);
    assert!(cells[5].starts_with("-100.0 %") || !cells[5].starts_with("-1"), "{cells:?}");
}

fn printed(comparison: &Comparison) -> String {
    let mut bytes = Vec::new();
    comparison.write((false, Some(80), false), &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn the_first_lines_say_what_differs() {
    let (before, mut after) = (rates(&[9.0, 10.0, 11.0, 12.0]), rates(&[4.5, 5.5, 6.5, 7.5]));
    let text = printed(&Comparison::of(&before, &after).unwrap());
    assert!(text.starts_with("Worse: goodput to server -42.9 %.\n"), "{text}");
    let text = printed(&Comparison::of(&before, &before).unwrap());
    assert!(text.starts_with("No significant difference in 1 figure.\n"), "{text}");
    after.iter_mut().for_each(|run| run.points[0].phase.connections = 2);
    let text = printed(&Comparison::of(&before, &after).unwrap());
    assert!(text.starts_with("Not the same test: -P 8 -> 2.\nWorse: "), "{text}");
}

#[test]
fn runs_of_two_verbs_are_refused() {
    let of = |verb: &str| {
        let mut run = rates(&[1.0]).remove(0);
        run.begin.verb = verb.to_owned();
        run
    };
    let why = Comparison::of(&[of("tcp")], &[of("serve")]).err().unwrap();
    let want = "a run of `tcp` and a run of `serve` answer different questions: compare runs of one verb";
    assert_eq!(why, want);
    // Another program's file names no verb.
    assert!(Comparison::of(&[of("")], &[of("tcp")]).is_ok());
}
