//! Delay of datagrams between two machines in virtual time: what is reported against what the link
//! did.

use crate::support::run::{Told, client_ip, client_plan, serve, server_plan, told};
use crate::support::sized;
use metrics::{ClockKind, Ecn, Mono, SECOND, StampKind, Verdict};
use model::{
    Event, Kind, PacketReport, PacketRow, Pattern, Phase, Probe, SocketSettings, Spacing, Status, Totals,
    Trace,
};
use native::{Client, ClientPlan, ServerPlan};
use sim::{Card, Host, Link, Network, Quirks, START};

const MS: u64 = 1_000_000;
const HEADER: u32 = 40;

fn phase(pattern: Pattern, pps: u64, size: u32, ms: u64) -> Phase {
    Phase {
        kind: Kind::Delay,
        pattern,
        connections: 1,
        duration_ns: Some(ms * MS),
        interval_ns: 100 * MS,
        rate: Some(pps * u64::from(size) * 8),
        sockets: SocketSettings { card_stamps: true, ..SocketSettings::default() },
        probe: Some(Probe { size, lead_ns: 500 * MS, late_ns: 400 * MS, ..Probe::default() }),
        ..Phase::default()
    }
}

struct Run {
    network: Network,
    client: Host,
    told: Told,
}

fn run(phase: Phase, up: Link, down: Link, seed: u64, remote_clock: u64) -> Run {
    run_with(phase, up, down, seed, Quirks { host_clock: remote_clock, ..Quirks::default() })
}

fn run_with(phase: Phase, up: Link, down: Link, seed: u64, remote: Quirks) -> Run {
    run_between(phase, up, down, seed, remote, "")
}

/// The same between two ends that both say to read the clock `clock_id`.
fn run_between(phase: Phase, up: Link, down: Link, seed: u64, remote: Quirks, clock_id: &str) -> Run {
    let mut network = Network::new(seed);
    network.datagram_links(up, down);
    let clock_id = clock_id.to_owned();
    let server = serve(&mut network, ServerPlan { clock_id: clock_id.clone(), ..server_plan() });
    network.quirks(server, remote);
    let plan = ClientPlan { workers: 1, clock_id, ..client_plan(&phase) };
    let client = network.join(client_ip(1), 1, Box::new(Client::new(plan, START)));
    network.run();
    let told = told(&network, client);
    Run { network, client, told }
}

impl Run {
    fn totals(&self) -> (&Totals, &Totals) {
        (self.told.local(), &self.told.remote[0])
    }

    fn packets(&self) -> (&PacketReport, &PacketReport) {
        let (local, remote) = self.totals();
        (local.packets.as_deref().unwrap(), remote.packets.as_deref().unwrap())
    }

    fn complete(&self) -> &Self {
        assert_eq!((self.told.status(), self.told.reason()), (Status::Complete, ""));
        let (local, remote) = self.totals();
        assert_eq!((local.completed, remote.completed, local.errors() + remote.errors()), (1, 1, 0));
        self
    }

    /// The datagrams of one direction as both ends' lists have them.
    fn rows(&self, up: bool) -> Vec<PacketRow> {
        let mut all = Vec::new();
        for (_, event) in self.network.events(self.client) {
            if let Event::Packets { rows } = event {
                all.extend(rows.iter().copied().filter(|row| row.up == up));
            }
        }
        all
    }
}

#[test]
fn a_clean_path_loses_nothing_and_its_delay_is_known() {
    // 20 ms there, 5 ms back: the clocks may be taken for 7.5 ms off, and that is said.
    let run = run(
        phase(Pattern::Push, 1_000, 200, 1_000),
        Link::new().delay(20 * MS),
        Link::new().delay(5 * MS),
        1,
        77 * SECOND,
    );
    let (local, remote) = run.complete().packets();
    assert_eq!((local.counts.sent, remote.counts.received, remote.counts.lost), (1_000, 1_000, 0));
    assert_eq!((remote.counts.corrupt, remote.counts.duplicated, remote.counts.reordered), (0, 0, 0));
    let delay = remote.delay_ns.as_ref().unwrap();
    let bound = remote.clock_bound_ns.unwrap();
    assert_eq!(delay.count, 1_000);
    for value in [delay.min, delay.p50, delay.max] {
        assert!(value.abs_diff(20 * MS) <= bound, "{value} {bound}");
    }
    assert!((12 * MS..14 * MS).contains(&bound), "half the round trip of 25 ms, and drift: {bound}");
    let intervals = &run.told.intervals;
    assert_eq!(intervals.len(), 10);
    for interval in &intervals[1..9] {
        let (local, remote) = (interval.packets.as_ref().unwrap(), interval.remote_packets.as_ref().unwrap());
        assert!((99..=101).contains(&local.counts.sent) && (99..=101).contains(&remote.counts.received));
    }
}

/// A path of 32 kbit/s: 128 bytes of a packet take 32 ms, an exchange of clocks 41 ms each way.
#[test]
fn a_slow_path_carries_what_was_asked_for_and_little_else() {
    let link = || Link::new().delay(5 * MS).rate(32_000).queue(8_000);
    for (rate, length) in [(32_000, 5_000), (9_600, 10_000)] {
        let link = || link().rate(rate);
        let mut asked = Phase { interval_ns: SECOND, ..phase(Pattern::Duplex, 5, 100, length) };
        // The control connection has a path of its own here: six round trips that it would measure
        // over this one.
        let trip = 10 * MS + 2 * 172 * 8 * SECOND / rate;
        asked.probe = asked.probe.map(|probe| Probe { lead_ns: probe.lead_ns + 6 * trip, ..probe });
        let run = run(asked, link(), link(), 4, 77 * SECOND);
        let (local, remote) = run.complete().packets();
        let own = run.told.local().own;
        let seconds = length / 1_000;
        // An exchange is two datagrams; one in 3 s, the one that says when data begins, and three
        // that ask for the end.
        assert!((2..=2 * (seconds / 3 + 2) + 6).contains(&own.datagrams), "{own:?}");
        assert!(own.messages <= 2 * seconds + 4, "{own:?}");
        assert_eq!((local.counts.lost, remote.counts.lost), (0, 0));
        // Nothing stands before the median datagram.
        let empty = 5 * MS + 128 * 8 * SECOND / rate;
        for report in [local, remote] {
            let (delay, bound) = (report.delay_ns.as_ref().unwrap(), report.clock_bound_ns.unwrap());
            assert!(delay.p50 <= empty + empty / 10 + bound, "{rate}: {delay:?} ± {bound}");
        }
        let found = local.clock_found.unwrap();
        assert!(found.exchanges <= 16 + seconds, "{found:?}");
    }
}

#[test]
fn the_truth_lies_within_the_bound_however_the_clocks_are_compared() {
    for (clock, clock_id, remote_clock, kind) in [
        (Some(ClockKind::InBand), "", 77 * SECOND, ClockKind::InBand),
        (Some(ClockKind::Realtime), "", 77 * SECOND, ClockKind::Realtime),
        // Clones of a virtual machine share all identifiers and no clock: the exchanges on the flow
        // itself decide.
        (None, "one", 0, ClockKind::SameHost),
        (None, "one", 77 * SECOND, ClockKind::InBand),
    ] {
        let mut asked = phase(Pattern::Duplex, 1_000, 200, 1_000);
        asked.probe = asked.probe.map(|probe| Probe { clock, ..probe });
        let remote = Quirks { host_clock: remote_clock, ..Quirks::default() };
        let (up, down) = (Link::new().delay(20 * MS), Link::new().delay(5 * MS));
        let run = run_between(asked, up, down, 1, remote, clock_id);
        let what = format!("{clock:?} {clock_id} {kind:?}");
        let (local, remote) = run.complete().packets();
        for (report, truth) in [(remote, 20 * MS), (local, 5 * MS)] {
            let (delay, bound) = (report.delay_ns.as_ref().unwrap(), report.clock_bound_ns.unwrap());
            assert_eq!(report.clock, Some(kind), "{what}");
            for value in [delay.min, delay.p50, delay.max] {
                assert!(value.abs_diff(truth) <= bound + truth / 500, "{what}: {value} {bound}");
            }
            if clock.is_none() {
                assert_eq!(bound == 1_000, kind == ClockKind::SameHost, "{what}: {bound}");
                assert_eq!((report.counts.late, report.before_sent), (0, 0), "{what}");
            }
        }
        let found = local.clock_found;
        match clock {
            // Half of 25 ms, as the path cannot tell better, before and during and after.
            Some(ClockKind::InBand) => {
                let found = found.unwrap();
                assert!(found.exchanges > 16 && found.round_trip_ns >= 25 * MS, "{found:?}");
                assert!(found.skew_ppm.0 <= 0.0 && found.skew_ppm.1 >= 0.0, "{found:?}");
            }
            // The wall clocks agree, and each says how far it may be off.
            Some(_) => {
                assert!(found.is_none() && remote.clock_bound_ns.unwrap() < 2 * 20 * SECOND, "{remote:?}");
            }
            None => {}
        }
    }
}

#[test]
fn two_hosts_have_no_clock_in_common() {
    let mut asked = phase(Pattern::Push, 1_000, 200, 100);
    asked.probe = asked.probe.map(|probe| Probe { clock: Some(ClockKind::SameHost), ..probe });
    let run = run(asked, Link::new(), Link::new(), 1, 77 * SECOND);
    let reason = run.told.reason();
    assert!(run.told.status() == Status::Failed && reason.contains("not on this host"), "{reason}");
}

/// The counters, which decide datagram by datagram in a window as they come, and the fates, which
/// look at the lists of both ends afterwards, share no code.
#[test]
fn counters_agree_with_the_path_and_with_the_fate_of_every_datagram() {
    let bad = |pattern| {
        let link = Link::new().loss(0.02).duplicate(0.01).reorder(0.01).delay(2 * MS);
        (phase(pattern, 2_000, 100, 2_000), link, true)
    };
    // 1.6 Mbit/s do not fit through 0.9: after half a second datagrams are late.
    let slow = |pattern| {
        let link = Link::new().rate(900_000).queue(1 << 20).delay(MS);
        (phase(pattern, 1_000, 200, 1_000), link, false)
    };
    let runs = [bad(Pattern::Push), bad(Pattern::Pull), bad(Pattern::Duplex)];
    let runs = runs.into_iter().chain([slow(Pattern::Push), slow(Pattern::Pull)]);
    for (seed, (mut asked, link, is_bad)) in (1..).zip(runs) {
        let pattern = asked.pattern;
        asked.probe = asked.probe.map(|probe| Probe { samples: true, late_ns: 300 * MS, ..probe });
        let run = run(asked, link.clone(), link, seed, 3 * SECOND);
        let (local, remote) = run.packets();
        for (up, sender, receiver) in [(true, local, remote), (false, remote, local)] {
            if !(if up { pattern.sends_up() } else { pattern.sends_down() }) {
                continue;
            }
            if is_bad {
                run.complete();
                let (sent, got) = (sender.counts.sent, &receiver.counts);
                assert_eq!(sent, 4_000, "{pattern} {seed}");
                // Every number is lost or received, once.
                assert_eq!(i64::try_from(got.received).unwrap() + got.lost, 4_000, "{pattern} {seed}");
                assert!((40..130).contains(&got.lost), "{pattern} {seed} {got:?}");
                assert!((15..75).contains(&got.duplicated), "{pattern} {seed} {got:?}");
                assert!((15..75).contains(&got.reordered), "{pattern} {seed} {got:?}");
                assert_eq!(got.corrupt, 0, "{pattern} {seed}");
                assert_eq!(receiver.delay_ns.as_ref().unwrap().count, got.received, "{pattern} {seed}");
                assert_eq!(receiver.intended_ns.as_ref().unwrap().count, got.received, "{pattern} {seed}");
                assert!(receiver.longest_loss.unwrap() >= 1, "{pattern} {seed}");
            }
            let rows = run.rows(up);
            let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count() as u64;
            let got = &receiver.counts;
            assert_eq!(rows.len() as u64, sender.counts.sent, "{pattern} {seed}");
            assert_eq!(i64::try_from(count(Verdict::Lost)), Ok(got.lost), "{pattern} {seed}");
            let late = count(Verdict::Late);
            assert_eq!(late, got.late, "{pattern} {seed}");
            assert_eq!(count(Verdict::Received) + count(Verdict::Reordered) + late, got.received);
            if late == 0 {
                assert_eq!(count(Verdict::Reordered), got.reordered, "{pattern} {seed}");
            }
            let repeats: u64 = rows.iter().map(|row| u64::from(row.repeats)).sum();
            assert_eq!(repeats, got.duplicated, "{pattern} {seed}");
            let least = rows.iter().filter_map(|row| row.delay_ns).min().unwrap();
            let told = receiver.delay_ns.as_ref().unwrap().min;
            assert!((least.max(0) as u64).abs_diff(told) <= told / 500 + 1, "{least} {told}");
        }
    }
}

/// Jitter and delay variation by their documents, from the list of every datagram: RFC 3550 A.8
/// over arrivals in their order, RFC 5481 §4.1 over successive numbers.
#[test]
fn jitter_and_variation_are_those_of_all_first_arrivals() {
    let links = [
        ("quiet", Link::new().delay(5 * MS).jitter(MS / 2)),
        ("reordered", Link::new().delay(5 * MS).jitter(8 * MS)),
        ("heavily reordered", Link::new().delay(5 * MS).jitter(300 * MS)),
        ("all of it", Link::new().delay(5 * MS).jitter(8 * MS).loss(0.1).duplicate(0.05).reorder(0.05)),
    ];
    for (what, link) in links {
        let mut asked = phase(Pattern::Duplex, 1_000, 200, 1_000);
        // The order of arrivals is that of their times by one clock, which exchanges over such a
        // path would move about.
        let clock = Some(ClockKind::Realtime);
        asked.probe = asked.probe.map(|probe| Probe { samples: true, clock, ..probe });
        let run = run(asked, link.clone(), link, 7, 3 * SECOND);
        let (local, remote) = run.complete().packets();
        for (up, got) in [(true, remote), (false, local)] {
            let mut rows: Vec<(i64, u64, i64)> = run
                .rows(up)
                .iter()
                .filter_map(|row| Some((row.received_ns?, row.sequence, row.delay_ns?)))
                .collect();
            let reordered = got.counts.reordered as f64 / got.counts.received as f64;
            assert_eq!((what == "quiet", rows.len() as u64), (reordered == 0.0, got.counts.received));
            assert!(what != "heavily reordered" || reordered > 0.9, "{reordered}");
            // Datagrams received merged share one stamp, which is not the arrival of each: neither
            // figure includes them.
            rows.sort_unstable();
            let alone: Vec<bool> = (0..rows.len())
                .map(|at| {
                    let mut beside = [at.checked_sub(1), Some(at + 1)].into_iter().flatten();
                    beside.all(|other| rows.get(other).is_none_or(|row| row.0 != rows[at].0))
                })
                .collect();
            let mut each = alone.iter();
            rows.retain(|_| *each.next().unwrap());
            let (mut estimate, mut sum) = (0.0, 0.0);
            for pair in rows.windows(2) {
                estimate += ((pair[1].2 - pair[0].2).abs() as f64 - estimate) / 16.0;
                sum += estimate;
            }
            let mean = sum / (rows.len() - 1) as f64;
            let found = got.jitter_ns.unwrap();
            assert!((found / mean - 1.0).abs() < 1e-3, "{what}: {found} instead of {mean}");
            // What arrives before the two clocks were compared has no delay, instead of one that is
            // wrong by their difference.
            let longest = if what == "heavily reordered" { 306 * MS } else { 19 * MS };
            assert!(got.delay_ns.as_ref().unwrap().max <= longest, "{what}: {:?}", got.delay_ns);
            rows.sort_unstable_by_key(|row| row.1);
            let mut sizes: Vec<u64> = rows
                .windows(2)
                .filter(|pair| pair[0].1 + 1 == pair[1].1)
                .map(|pair| pair[1].2.abs_diff(pair[0].2))
                .collect();
            sizes.sort_unstable();
            let ipdv = got.ipdv_ns.as_ref().unwrap();
            assert_eq!(ipdv.count, sizes.len() as u64, "{what}");
            let (median, largest) = (sizes[sizes.len().div_ceil(2) - 1], sizes[sizes.len() - 1]);
            for (found, expected) in [(ipdv.p50, median), (ipdv.max, largest)] {
                assert!(
                    found.abs_diff(expected) <= expected / 500 + 1,
                    "{what}: {found} instead of {expected}"
                );
            }
        }
    }
}

#[test]
fn intervals_tell_jitter_bursts_and_extents() {
    let links = [
        ("lossy", Link::new().delay(5 * MS).loss(0.4)),
        ("reordering", Link::new().delay(5 * MS).jitter(20 * MS)),
    ];
    for (what, link) in links {
        let run = run(phase(Pattern::Push, 1_000, 200, 1_000), link, Link::new().delay(5 * MS), 3, SECOND);
        let (_, remote) = run.complete().packets();
        let told: Vec<&PacketReport> =
            run.told.intervals.iter().filter_map(|interval| interval.remote_packets.as_deref()).collect();
        assert_eq!(told.len(), 10, "{what}");
        let largest = |of: fn(&PacketReport) -> Option<u64>| told.iter().map(|told| of(told).unwrap()).max();
        assert_eq!(largest(|told| told.max_extent), remote.max_extent, "{what}");
        // What has come meanwhile is in no burst.
        assert!(
            told.iter().all(|told| told.longest_loss.unwrap() as i64 <= told.counts.lost.max(0)),
            "{what}"
        );
        if what == "lossy" {
            assert_eq!(largest(|told| told.longest_loss), remote.longest_loss);
            assert!(told.iter().all(|told| told.loss_bursts.is_none() && told.longest_loss > Some(1)));
        }
        let jitter: Vec<f64> = told.iter().map(|told| told.jitter_ns.unwrap()).collect();
        assert_eq!(jitter.iter().copied().reduce(f64::max), remote.jitter_max_ns, "{what}");
        let mean = jitter.iter().sum::<f64>() / 10.0;
        assert!((remote.jitter_ns.unwrap() - mean).abs() <= mean / 20.0, "{what}: {jitter:?} {remote:?}");
        assert!(told.iter().all(|told| told.jitter_max_ns.is_none()), "{what}");
    }
}

#[test]
fn the_kernel_tells_when_a_datagram_left() {
    for pattern in [Pattern::Push, Pattern::Pull] {
        let mut asked = phase(pattern, 1_000, 200, 500);
        asked.probe = asked.probe.map(|probe| Probe { tx_stamps: true, samples: true, ..probe });
        let run = run(asked, Link::new().delay(MS), Link::new().delay(MS), 3, 3 * SECOND);
        let (local, remote) = run.complete().packets();
        let sender = if pattern == Pattern::Push { local } else { remote };
        // The simulator's kernel takes 5 µs, and the send call its part.
        let stack = sender.stack_ns.as_ref().unwrap();
        assert_eq!(stack.count, 500);
        assert!(stack.min >= 4_990 && stack.max <= 10_000, "{stack:?}");
        let rows = run.rows(pattern == Pattern::Push);
        assert_eq!(rows.iter().filter(|row| row.sent_stamp == StampKind::KernelTx).count(), 500);
        assert!(rows.iter().all(|row| row.sent_ns >= row.intended_ns + 4_990), "{:?}", rows[0]);
    }
}

#[test]
fn the_card_tells_when_a_datagram_left() {
    for (card, stamped) in [(Card::Right(700), (500, 700)), (Card::Wrong, (0, 0))] {
        let mut asked = phase(Pattern::Pull, 1_000, 200, 500);
        asked.probe = asked.probe.map(|probe| Probe { tx_stamps: true, samples: true, ..probe });
        let remote = Quirks { host_clock: 3 * SECOND, card, ..Quirks::default() };
        let run = run_with(asked, Link::new().delay(MS), Link::new().delay(MS), 3, remote);
        let (_, sender) = run.complete().packets();
        assert_eq!(sender.stack_ns.as_ref().unwrap().count, 500);
        assert_eq!((sender.card_sent, sender.card_sent_bound_ns), stamped);
        let of_the_card = run.rows(false).iter().filter(|row| row.sent_stamp == StampKind::Hardware).count();
        assert_eq!(of_the_card as u64, stamped.0);
    }
}

#[test]
fn the_card_tells_when_a_datagram_came_and_how_sure_that_is() {
    const EARLIER: u64 = 30_000;
    let with = |card| {
        let mut asked = phase(Pattern::Push, 1_000, 200, 500);
        asked.probe = asked.probe.map(|probe| Probe { samples: true, ..probe });
        let remote = Quirks { host_clock: 3 * SECOND, card, ..Quirks::default() };
        run_with(asked, Link::new().delay(MS), Link::new().delay(MS), 3, remote)
    };
    let came = |run: &Run| -> Vec<i64> {
        run.rows(true).iter().map(|row| row.received_ns.expect("nothing was lost")).collect()
    };
    let silent = with(Card::Silent);
    let (_, kernel) = silent.complete().packets();
    assert_eq!((kernel.kernel_stamped, kernel.card_stamped, kernel.card_refused), (500, 0, 0));

    let right = with(Card::Right(EARLIER));
    let (_, card) = right.complete().packets();
    assert_eq!((card.kernel_stamped, card.card_stamped, card.card_refused), (0, 500, 0));
    assert_eq!(card.card_bound_ns, EARLIER);
    assert_eq!(card.clock_bound_ns, kernel.clock_bound_ns.map(|bound| bound + EARLIER));
    assert!(right.rows(true).iter().all(|row| row.stamp == Some(StampKind::Hardware)));
    // The clocks of the two hosts are compared by the kernel's stamps all the same.
    let earlier: Vec<i64> = came(&silent).iter().map(|at| at - EARLIER as i64).collect();
    assert_eq!(came(&right), earlier);

    let wrong = with(Card::Wrong);
    let (_, card) = wrong.complete().packets();
    assert_eq!((card.kernel_stamped, card.card_stamped, card.card_refused), (500, 0, 500));
    assert_eq!(card.card_unplaced, 0);
    assert_eq!((card.card_bound_ns, card.clock_bound_ns), (0, kernel.clock_bound_ns));
    assert_eq!(came(&wrong), came(&silent));

    let unread = with(Card::Unread);
    let (_, card) = unread.complete().packets();
    assert_eq!((card.kernel_stamped, card.card_stamped), (500, 0));
    assert_eq!((card.card_refused, card.card_unplaced), (0, 500));
    assert_eq!(came(&unread), came(&silent));
}

#[test]
fn damage_is_told_from_loss() {
    let run = run(phase(Pattern::Push, 2_000, 400, 1_000), Link::new().corrupt(0.05), Link::new(), 3, 0);
    let (local, remote) = run.complete().packets();
    let got = &remote.counts;
    assert_eq!(local.counts.sent, 2_000);
    assert!((60..150).contains(&got.corrupt), "{got:?}");
    assert_eq!((got.received + got.corrupt, got.lost), (2_000, 0), "{got:?}");
}

/// A flipped bit may lie in the byte that says what a datagram is.
#[test]
fn a_damaged_word_is_no_damaged_data() {
    // Datagrams of a header alone: each flip is in one of its bytes.
    for seed in 0..sized(2, 10) {
        let link = || Link::new().corrupt(0.3);
        let run = run(phase(Pattern::Push, 500, HEADER, 1_000), link(), link(), seed, 0);
        let got = run.complete().packets().1.counts;
        assert_eq!((got.received + got.corrupt, got.lost), (500, 0), "seed {seed}: {got:?}");
    }
}

#[test]
fn refused_sends_are_not_lost() {
    let run = run(phase(Pattern::Push, 1_000, 100, 1_000), Link::new().refuse(0.05), Link::new(), 4, 0);
    let (local, remote) = run.complete().packets();
    let (sent, unsent) = (local.counts.sent, local.counts.unsent);
    assert_eq!(sent + unsent, 1_000);
    assert!((20..90).contains(&unsent) && local.counts.refused >= unsent);
    assert_eq!((remote.counts.received, remote.counts.lost), (sent, 0));
}

#[test]
fn random_schedules_keep_their_mean_and_repeat_from_their_seed() {
    let with = |spacing| {
        let mut phase = phase(Pattern::Push, 2_000, 64, 1_000);
        phase.probe = phase.probe.map(|probe| Probe { spacing, seed: 9, ..probe });
        let run = run(phase, Link::new(), Link::new(), 6, 0);
        let (local, remote) = run.complete().packets();
        assert_eq!(remote.counts.lost, 0);
        local.counts.sent
    };
    for spacing in [Spacing::Uniform, Spacing::Poisson] {
        let sent = with(spacing);
        // Five standard deviations of a Poisson count of 2000.
        assert!((1_776..2_224).contains(&sent) && sent != 2_000, "{spacing:?} {sent}");
        assert_eq!(with(spacing), sent);
    }
}

#[test]
fn a_trace_is_followed_over_and_over() {
    // At 0, 1, 1, 4, 5, 5, 8 ms and so on: three in 4 ms.
    let trace = Trace { gaps_ns: vec![MS, 0, 3 * MS] };
    for pattern in [Pattern::Push, Pattern::Pull] {
        let mut traced = phase(pattern, 1_000, 500, 1_000);
        traced.rate = Some(trace.mean_bps(500));
        traced.probe = traced.probe.map(|probe| Probe { spacing: Spacing::Trace, ..probe });
        traced.trace = Some(trace.clone());
        let run = run(traced, Link::new(), Link::new(), 6, 0);
        let (local, remote) = run.complete().packets();
        let (sender, receiver) = if pattern == Pattern::Push { (local, remote) } else { (remote, local) };
        assert_eq!((sender.counts.sent, receiver.counts.received), (750, 750));
    }
}

#[test]
fn as_fast_as_it_goes_ends_with_the_time() {
    let mut fast = phase(Pattern::Push, 1, 1_000, 10);
    fast.rate = None;
    let run = run(fast, Link::new().rate(200_000_000).queue(10_000), Link::new(), 7, 0);
    let (local, remote) = run.complete().packets();
    // 200 Mbit/s for 10 ms are 250 datagrams of 1000 bytes, and 10 wait in the queue; the rest did
    // not fit.
    assert!((240..=270).contains(&remote.counts.received), "{:?}", remote.counts);
    assert_eq!(local.counts.sent, remote.counts.received + u64::try_from(remote.counts.lost).unwrap());
}

#[test]
fn two_ends_that_send_as_fast_as_they_can_do_not_overrun_each_other() {
    let mut fast = phase(Pattern::Duplex, 1, 1_000, 50);
    fast.rate = None;
    // A host that is four times as slow could not even read what the other sends.
    for slowness in [1, 2] {
        let remote = Quirks { slowness, ..Quirks::default() };
        let link = Link::new().window(1 << 20);
        let run = run_with(fast.clone(), link.clone(), link, 7, remote);
        let (local, remote) = run.complete().packets();
        for (sent, came) in [(local, remote), (remote, local)] {
            let (sent, lost) = (sent.counts.sent, came.counts.lost);
            assert!(sent > 1_000, "slowness {slowness}: {sent} sent");
            assert!(lost * 20 < sent as i64, "slowness {slowness}: {lost} of {sent} lost");
        }
    }
}

#[test]
fn everything_lost_is_a_result_too() {
    let cut = Link::new().cut(sim::At::Time(START.plus(700 * MS)), sim::Cut::Silence);
    let run = run(phase(Pattern::Push, 1_000, 100, 1_000), cut, Link::new(), 8, 0);
    let (local, remote) = run.packets();
    assert_eq!(local.counts.sent, 1_000);
    // It learns over the control connection how many were sent.
    let counts = remote.counts;
    assert!((1..500).contains(&counts.received), "{counts:?}");
    assert_eq!(counts.received as i64 + counts.lost, 1_000, "{counts:?}");
    let flow = run.totals().1;
    assert_eq!((flow.completed, flow.stopped + flow.errors()), (0, 1), "{:?}", flow.causes);
    assert!(run.network.now < Mono(60 * SECOND), "{:?}", run.network.now);
}

#[test]
fn the_smallest_datagram_is_its_header() {
    let run = run(phase(Pattern::Duplex, 1_000, HEADER, 300), Link::new(), Link::new(), 9, 0);
    let (local, remote) = run.complete().packets();
    assert_eq!((local.counts.received, remote.counts.received), (300, 300));
}

/// Datagrams of two codepoints: each pair has both, all arrive as they were sent, and losses of a
/// path that does not look at codepoints are no difference.
#[test]
fn datagrams_of_two_codepoints_are_told_apart_in_both_directions() {
    let mut phase = phase(Pattern::Duplex, 2_000, 200, 1_000);
    phase.sockets.dscp = Some(8);
    phase.sockets.ecn = Some(Ecn::Ect1);
    phase.probe = phase.probe.map(|probe| Probe { paired: Some(Ecn::Off), seed: 3, ..probe });
    let lossy = || Link::new().delay(MS).loss(0.05);
    let run = run(phase, lossy(), lossy(), 4, 0);
    let (local, remote) = run.totals();
    for (end, from) in [(local, remote), (remote, local)] {
        let (report, sent) = (end.packets.as_ref().unwrap(), from.packets.as_ref().unwrap().counts.sent);
        let pairs = report.pairs.as_deref().unwrap();
        assert_eq!(sent, 2_000);
        assert_eq!((report.marks.dscp, report.marks.ecn[2..].to_vec()), (Some((8, 8)), vec![0, 0]));
        for (side, (ecn, bits)) in pairs.sides.iter().zip([(Ecn::Ect1, 1), (Ecn::Off, 0)]) {
            assert_eq!((side.sent, side.received + side.lost), (ecn, sent / 2), "{pairs:?}");
            let mut arrived = [0; 4];
            arrived[bits] = side.received;
            assert_eq!(side.arrived, arrived);
            assert_eq!(side.delay_ns.as_ref().unwrap().count, side.received);
        }
        let lost: u64 = pairs.sides.iter().map(|side| side.lost).sum();
        assert_eq!(i64::try_from(lost), Ok(report.counts.lost));
        assert!(lost > 50 && pairs.loses_more().unwrap().1 > 0.01, "{pairs:?}");
    }
}
