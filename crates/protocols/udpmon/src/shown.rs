//! Every output's figures of a test.

use crate::{PacketTest, PacketTestLatency, PacketTestRecord};
use metrics::{Binned, percent_of, real};
use model::{Curve, Figure, Reading, Shown, Stat, Unit, Way};

/// A tenth of a microsecond, in which UDPmon counts, ns.
const TENTH: f64 = 100.0;
/// Packets of a test that are drawn one by one.
const MOST_DRAWN: usize = 10_000;

impl PacketTest {
    /// Its figures for outputs: none while it runs.
    pub(super) fn shown(&self) -> Shown {
        match &self.latency {
            _ if !self.over => Shown::default(),
            Some(trips) => self.trips(trips),
            None => self.stream(),
        }
    }

    fn stream(&self) -> Shown {
        // A program that only received knows neither size nor spacing.
        let size = || Reading::new("size", "size", Unit::Bytes, self.size.into());
        let spacing = || Reading::new("spacing", "spacing", Unit::Ns, f64::from(self.wait) * TENTH);
        let settings = [(self.size > 0).then(size), (self.sent > 0).then(spacing)];
        let count = |key: &str, label: &str, n: u64| Reading::new(key, label, Unit::Count, real(n));
        let sent = (self.sent > 0).then(|| count("sent", "sent", self.sent));
        let found = self.counts.map(|found| {
            let received = count("received", "received", found.received);
            let lost =
                [count("lost", "lost", found.lost), count("reordered", "out of order", found.bad_order)];
            let lost = lost.into_iter().filter(|_| !self.is_tcp());
            std::iter::once(received).chain(lost).collect::<Vec<_>>()
        });
        Shown {
            title: "Tests (receiver's count)".to_owned(),
            peer: self.peer.clone(),
            settings: settings.into_iter().flatten().collect(),
            counts: sent.into_iter().chain(found.into_iter().flatten()).collect(),
            figures: self.figures(),
            curves: self.gaps().into_iter().chain(self.packets()).collect(),
            bad: self.counts.is_some_and(|counts| counts.lost > 0),
        }
    }

    /// True for tcpmon: nothing is lost or reordered in its stream.
    fn is_tcp(&self) -> bool {
        self.connection.is_some() || !self.puts.is_empty()
    }

    /// Rates are over the times between packets, as everywhere with UDPmon: one fewer than packets.
    fn figures(&self) -> Vec<Reading> {
        let Some(counts) = self.counts else { return Vec::new() };
        let mut found = Vec::new();
        let bytes = match counts.bytes {
            0 => counts.received.saturating_sub(1).saturating_mul(self.size.into()),
            told => told.saturating_sub(self.size.into()),
        };
        if bytes > 0 && counts.span > 0 {
            // Bits over tenths of a microsecond.
            found.push(Reading::of(Figure::Goodput(Way::Up), "rate", real(bytes) * 8e7 / real(counts.span)));
        }
        let all = if self.sent > 0 { self.sent } else { counts.received + counts.lost };
        if all > 0 && !self.is_tcp() {
            found.push(Reading::of(Figure::Loss(Way::Up), "loss", percent_of(counts.lost, all)));
        }
        found
    }

    fn trips(&self, trips: &PacketTestLatency) -> Shown {
        let bytes = |key: &str, n: u32| Reading::new(key, key, Unit::Bytes, n.into());
        let count = |key: &str, n: u64| Reading::new(key, key, Unit::Count, real(n));
        let figures = [
            (Stat::Min, "min", real(trips.min_ns)),
            (Stat::Mean, "mean", real(trips.sum_ns) / real(trips.count)),
            (Stat::Max, "max", real(trips.max_ns)),
        ];
        let figures = figures.map(|(stat, label, ns)| Reading::of(Figure::RoundTrip(stat), label, ns));
        let histogram = histogram("Round trips", String::new(), ("round trip", 1_000.0), &trips.histogram);
        Shown {
            title: "Round trips by response".to_owned(),
            peer: self.peer.clone(),
            settings: vec![bytes("request", self.size), bytes("response", trips.response)],
            counts: vec![count("answered", trips.count), count("missing", trips.missing)],
            figures: figures.into_iter().filter(|_| trips.count > 0).collect(),
            curves: histogram.into_iter().collect(),
            bad: trips.missing > 0,
        }
    }

    fn gaps(&self) -> Option<Curve> {
        // tcpmon's are the times that messages took to be sent, in µs.
        let unit = if self.connection.is_some() { 1_000.0 } else { TENTH };
        let note = "As the receiver counted it; with tcpmon, how long each message took to be sent. The first test of each \
                    setting.";
        histogram("Time between packets", note.to_owned(), ("time", unit), self.gaps.as_ref()?)
    }

    /// Packets one by one: how much longer each took than the fastest.
    fn packets(&self) -> Option<Curve> {
        let flight = |r: &PacketTestRecord| (r.received != 0).then(|| r.received.saturating_sub(r.sent));
        let least = self.records.iter().filter_map(flight).min()?;
        let above = |record| flight(record).map(|tenths| real(tenths.saturating_sub(least)) * TENTH);
        let records = self.records.iter().take(MOST_DRAWN).enumerate();
        Some(Curve {
            title: "One-way delay of each packet above the least".to_owned(),
            note: "The two clocks have nothing to do with each other: only differences mean something. Gaps are \
                   packets that did not arrive."
                .to_owned(),
            x: ("packet".to_owned(), Unit::Count),
            y: ("above the least".to_owned(), Unit::Ns),
            steps: false,
            points: records.map(|(n, record)| (real(n) + 1.0, above(record))).collect(),
        })
    }
}

/// A histogram whose bins are `unit` ns wide, in percent of all values in them.
fn histogram(title: &str, note: String, (label, unit): (&str, f64), bins: &Binned) -> Option<Curve> {
    let all: u64 = bins.bins.iter().sum();
    let first = bins.bins.iter().position(|n| *n > 0)?;
    let last = bins.bins.iter().rposition(|n| *n > 0)?;
    let edge = |bin: usize| (real(bins.low) + real(bin) * real(bins.width)) * unit;
    let mut points: Vec<(f64, Option<f64>)> =
        (first..=last).map(|bin| (edge(bin), Some(percent_of(bins.bins[bin], all)))).collect();
    points.push((edge(last + 1), None));
    Some(Curve {
        title: title.to_owned(),
        note,
        x: (label.to_owned(), Unit::Ns),
        y: ("share".to_owned(), Unit::Percent),
        steps: true,
        points,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PacketTestCounts;

    #[test]
    fn a_test_has_a_rate_over_its_gaps() {
        let counts = PacketTestCounts { received: 101, lost: 25, span: 20_000, ..Default::default() };
        let test =
            PacketTest { size: 1_000, sent: 125, counts: Some(counts), over: true, ..PacketTest::default() };
        let figures: Vec<_> = test.shown().figures.iter().map(|f| (f.key.clone(), f.value)).collect();
        // 100 gaps of 8000 bits in 2 ms, and a fifth lost.
        assert_eq!(figures, [("goodput.up".to_owned(), 400e6), ("loss.up".to_owned(), 20.0)]);
        assert_eq!(PacketTest { over: false, ..test }.shown(), Shown::default());
    }
}
