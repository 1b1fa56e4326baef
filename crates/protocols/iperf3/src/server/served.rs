//! State of tests, for people who watch the server.

use super::Test;
use crate::{BulkNews, BulkTerms, StreamRow};
use metrics::{Clamped, SECOND};
use model::{Event, Kind, Pattern, Phase, Probe, Range, Served, Standing, Traffic, Verify};
use uuid::Uuid;

/// State of a test after `news` of it; `None` before it has a name.
pub(super) fn stand(test: &mut Test, news: &BulkNews) -> Option<Event> {
    if let BulkNews::Met { peer, at, .. } = news {
        test.served = Some(Served {
            number: test.number,
            peer: *peer,
            run: Uuid::nil(),
            phase: None,
            standing: Standing::Granted,
            since: *at,
            latest: Traffic::default(),
            total: Traffic::default(),
            open: 0,
            opened: 0,
            errors: 0,
        });
    }
    let served = test.served.as_mut()?;
    match news {
        BulkNews::Met { .. } => {}
        BulkNews::Begun(begun) => {
            (served.standing, served.since) = (Standing::Running, begun.at);
            served.phase = Some(Box::new(phase_of(&begun.terms)));
            served.open = u64::clamped(begun.streams.len());
            served.opened = served.open;
        }
        BulkNews::Interval { rows, .. } => {
            served.latest = moved(rows);
            served.total.add_later(&served.latest);
        }
        BulkNews::Ended(ended) => close(served, ended.error.is_some()),
        BulkNews::Failed { .. } => close(served, true),
    }
    Some(Event::Served(Box::new(served.clone())))
}

fn close(served: &mut Served, failed: bool) {
    served.standing = if failed { Standing::Lost } else { Standing::Ended };
    (served.latest, served.open) = (Traffic::default(), 0);
}

/// Traffic of a test's streams in an interval.
fn moved(rows: &[StreamRow]) -> Traffic {
    let mut all = Traffic::default();
    for row in rows {
        let (tx_bytes, rx_bytes) = if row.sender { (row.bytes, 0) } else { (0, row.bytes) };
        all.add_host(&Traffic {
            tx_bytes,
            rx_bytes,
            ns: row.end_ns.saturating_sub(row.start_ns),
            ..Traffic::default()
        });
    }
    all
}

/// The agreed test as a phase.
fn phase_of(terms: &BulkTerms) -> Phase {
    let (omit_ns, time_ns) = (u64::from(terms.omit_s) * SECOND, u64::from(terms.time_s) * SECOND);
    Phase {
        kind: if terms.udp { Kind::Delay } else { Kind::Tcp },
        pattern: match (terms.bidir, terms.reverse) {
            (true, _) => Pattern::Duplex,
            (false, true) => Pattern::Pull,
            (false, false) => Pattern::Push,
        },
        connections: terms.streams,
        // The amount of each stream is not agreed on.
        transfer: 0,
        total_bytes: Some(terms.bytes).filter(|n| *n > 0),
        duration_ns: Some(omit_ns + time_ns).filter(|_| time_ns > 0),
        omit_ns,
        buffer: Range::just(terms.block.into()),
        rate: Some(terms.rate).filter(|n| *n > 0),
        verify: Verify::None,
        probe: terms.udp.then(|| Probe { size: terms.block, ..Probe::default() }),
        ..Phase::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_agreed_on_is_a_phase() {
        let phase = |terms: BulkTerms| phase_of(&terms);
        let tcp = phase(BulkTerms { streams: 4, reverse: true, ..BulkTerms::usual() });
        assert_eq!((tcp.pattern, tcp.connections, tcp.duration_ns), (Pattern::Pull, 4, Some(10 * SECOND)));
        let udp =
            phase(BulkTerms { udp: true, block: 500, rate: 9, time_s: 0, bytes: 5, ..BulkTerms::usual() });
        assert_eq!((udp.kind, udp.probe.map(|probe| probe.size)), (Kind::Delay, Some(500)));
        assert_eq!((udp.duration_ns, udp.total_bytes, udp.rate), (None, Some(5), Some(9)));
    }

    #[test]
    fn bytes_of_both_directions_are_told_apart() {
        let row = StreamRow { bytes: 1_000_000, end_ns: SECOND, ..StreamRow::default() };
        let told = moved(&[row, row, StreamRow { sender: true, ..row }]);
        assert_eq!(
            told,
            Traffic { tx_bytes: 1_000_000, rx_bytes: 2_000_000, ns: SECOND, ..Traffic::default() }
        );
    }
}
