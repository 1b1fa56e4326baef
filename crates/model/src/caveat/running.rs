//! Caveats while a phase still runs: the same checks on the data so far.

use super::{Caveat, caveats_about};
use crate::{Begin, CpuUse, Interval, PacketReport, PingCounts, Point, RoundTrips, Totals, Traffic, figures};
use metrics::{TcpTotals, sum_of};

/// Codes that say that something is too little or has not ended, which is no wonder meanwhile.
pub(super) const IN_THE_END: &[&str] =
    &["too-short", "unfinished-connections", "unconfirmed", "few-connections", "few-messages"];
/// Codes about rates, which the first intervals cannot show.
pub(super) const STEADY: &[&str] = &["rate-missed", "slow-start"];
/// With fewer intervals nothing is said of rates.
const FEW: usize = 3;

/// Data beside the intervals while a phase runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meanwhile {
    /// This host's CPU time since the phase began.
    pub cpu: Option<CpuUse>,
    /// TCP_INFO of the connections that are open.
    pub tcp: TcpTotals,
    /// True if the phase's first intervals are missing.
    pub cut: bool,
    /// Number of the first intervals that were joined of several: they are no readings of a rate.
    pub joined: usize,
    /// Traffic and duration of the merged intervals that carried any.
    pub busy: Traffic,
}

/// The caveats of `point` so far: from its phase, its sessions and its intervals, and totals made
/// of these. Caveats that need the end of the phase are left out; the outcome's caveats are final.
pub fn caveats_so_far(mut point: Point, begin: &Begin, known: &Meanwhile) -> Vec<Caveat> {
    let mut local = figures::totals_of(&point.intervals);
    local.cpu = known.cpu;
    local.tcp = known.tcp;
    local.packets = packets(&point.intervals, |interval| interval.packets.as_deref());
    local.pings = trips(&point.intervals);
    point.local = local;
    // Final totals hold the interval reports already.
    if point.remote.is_empty() {
        point.remote.extend(remote(&point));
    }
    // The totals include the joined intervals.
    point.intervals.drain(..known.joined.min(point.intervals.len()));
    figures::derive(&mut point, (begin.verb == "serve").then_some(known.busy));
    let early = point.counted().count() < FEW;
    let mut found = caveats_about(&point, begin);
    found.retain(|caveat| {
        let code = caveat.code.as_str();
        let too_soon = IN_THE_END.contains(&code) || (early && STEADY.contains(&code));
        let known_of = (known.cut || known.joined > 0) && code == "slow-start";
        !(too_soon || known_of)
    });
    found
}

/// Reports of the remote ends together; `None` without any.
fn remote(point: &Point) -> Option<Totals> {
    let traffic = sum_of(point.counted().filter_map(|interval| interval.remote), Traffic::add_later)?;
    let who = match point.sessions.as_slice() {
        [one] => one.address.to_string(),
        several => format!("{} together", several.len()),
    };
    let packets = packets(&point.intervals, |interval| interval.remote_packets.as_deref());
    Some(Totals { who, traffic, packets, ..Totals::default() })
}

/// Counts of all intervals; distributions of the last one, the present state.
fn packets(intervals: &[Interval], of: fn(&Interval) -> Option<&PacketReport>) -> Option<Box<PacketReport>> {
    let mut counted = intervals.iter().rev().filter(|interval| !interval.omitted).filter_map(of);
    let mut all = counted.next()?.clone();
    for earlier in counted {
        all.datagrams.add(&earlier.datagrams, |_, _| {});
    }
    Some(Box::new(all))
}

/// Outcomes of messages; no distribution.
fn trips(intervals: &[Interval]) -> Option<Box<RoundTrips>> {
    let counted = intervals.iter().filter(|interval| !interval.omitted);
    let counts = sum_of(counted.filter_map(|interval| Some(interval.pings?.counts)), PingCounts::add)?;
    Some(Box::new(RoundTrips { counts, ..RoundTrips::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::tests::second;
    use crate::{Kind, Pattern, Phase, Ping, PingCounts, Schedule, Traffic};
    use metrics::SECOND;

    fn intervals(rates: &[u64]) -> Vec<Interval> {
        let interval = |(n, &bytes)| Interval { opened: 8, in_flight: 8, ..second(n, bytes, Some(bytes)) };
        (0..).zip(rates).map(interval).collect()
    }

    fn codes(point: Point, known: &Meanwhile) -> Vec<String> {
        caveats_so_far(point, &Begin::default(), known).into_iter().map(|caveat| caveat.code).collect()
    }

    fn tcp(rates: &[u64]) -> Point {
        Point { intervals: intervals(rates), phase: Phase::default(), ..Point::default() }
    }

    #[test]
    fn a_run_that_goes_well_gets_no_caveat_for_being_under_way() {
        assert_eq!(codes(tcp(&[]), &Meanwhile::default()), [""; 0]);
        assert_eq!(codes(tcp(&[1_000]), &Meanwhile::default()), [""; 0]);
        assert_eq!(codes(tcp(&[1_000; 5]), &Meanwhile::default()), [""; 0]);
    }

    #[test]
    fn caveats_arise_as_their_reasons_do() {
        // The mean of 1000, 100 and 1000 is 700 and their standard deviation 520: 74 %, where 20 %
        // are steady.
        assert_eq!(codes(tcp(&[1_000, 100, 1_000]), &Meanwhile::default()), ["unstable"]);
        // 500 is half of what came later.
        assert_eq!(codes(tcp(&[500, 1_000, 1_000]), &Meanwhile::default()), ["slow-start", "unstable"]);
        let cut = Meanwhile { cut: true, ..Meanwhile::default() };
        assert_eq!(codes(tcp(&[500, 1_000, 1_000]), &cut), ["unstable"], "its start is not known any more");
        let joined = Meanwhile { joined: 1, ..Meanwhile::default() };
        let found = codes(tcp(&[500, 1_000, 1_000, 1_000]), &joined);
        assert_eq!(found, [""; 0], "merged intervals are no readings");
        let cpu =
            CpuUse { user_s: 9.0, machine_s: 9.8, available_s: 10.0, busiest: 1.0, ..CpuUse::default() };
        let busy = Meanwhile { cpu: Some(cpu), ..Meanwhile::default() };
        assert_eq!(codes(tcp(&[1_000; 5]), &busy), ["cpu-bound"]);
        let tcp_info = TcpTotals { busy_us: 100, rwnd_limited_us: 50, ..TcpTotals::default() };
        let limited = Meanwhile { tcp: tcp_info, ..Meanwhile::default() };
        assert_eq!(codes(tcp(&[1_000; 5]), &limited), ["window-limited"]);
        // 1000 bytes are 8 kbit/s, which is less than the ten times 8 that were asked for.
        let mut asked = tcp(&[1_000; 2]);
        asked.phase.rate = Some(8_000);
        assert_eq!(codes(asked, &Meanwhile::default()), [""; 0], "two intervals are too few to tell");
        let mut asked = tcp(&[1_000; 4]);
        asked.phase.rate = Some(8_000);
        assert_eq!(codes(asked, &Meanwhile::default()), ["rate-missed"]);
    }

    #[test]
    fn a_remote_end_that_has_told_its_totals_counts_once() {
        let mut point = tcp(&[1_000; 5]);
        // 1,000 bytes a second are 8 kbit/s: a tenth less than was asked for.
        (point.phase.rate, point.phase.connections) = (Some(8_800), 1);
        point.phase.pattern = Pattern::Pull;
        point.intervals.iter_mut().for_each(|interval| {
            (interval.local, interval.remote) = (interval.remote.unwrap_or_default(), Some(interval.local));
        });
        let traffic = Traffic { tx_bytes: 5_000, ns: 5 * SECOND, ..Traffic::default() };
        point.remote = vec![Totals { traffic, ..Totals::default() }];
        assert_eq!(codes(point, &Meanwhile::default()), ["rate-missed"]);
    }

    #[test]
    fn schedules_that_are_not_kept_are_noticed_meanwhile() {
        let counts = PingCounts { sent: 90, received: 90, missed: 10, ..PingCounts::default() };
        let pings = crate::PingInterval { counts, count: 90, ..crate::PingInterval::default() };
        let ping = Ping { schedule: Schedule::Fixed { gap_ns: SECOND / 100 }, ..Ping::default() };
        let mut point = tcp(&[0, 0]);
        point.phase = Phase { kind: Kind::Ping, ping: Some(ping), ..Phase::default() };
        point.intervals.iter_mut().for_each(|interval| interval.pings = Some(pings));
        assert_eq!(codes(point, &Meanwhile::default()), ["missed-slots"]);
    }
}
