//! Events of a client's test for the reporters.

use super::{Client, TestState};
use crate::BulkNews;
use metrics::{Clamped, Packets, TcpTotals};
use model::{
    Accepted, Counts, CpuUse, Event, HostSnapshot, Kind, Level, PacketReport, SessionInfo, Status, Totals,
    Traffic,
};
use transport::Context;

impl Client {
    pub(super) fn report_begin(&mut self, cx: &Context<'_>, test_state: &TestState) {
        let common::Peer { name: target, address, .. } = self.plan.server.clone();
        let session = SessionInfo {
            target,
            address,
            // The protocol has nothing about the server itself.
            version: String::new(),
            accepted: Accepted::default(),
            host: HostSnapshot::default(),
            workers: 0,
            placement: String::new(),
            authenticated: self.plan.parameters.token.is_some(),
            base_rtt_ns: 0,
            udp_rtt_ns: None,
            same_host: false,
        };
        let begun = test_state.begun(&self.joined, cx.clock.wall(cx.now));
        self.driver.ask(Event::Session(Box::new(session)));
        self.driver.ask(Event::Start { at: cx.clock.wall(cx.now) });
        self.report(BulkNews::Begun(Box::new(begun)));
    }

    /// Reports the end of the test, once.
    pub(super) fn report_result(&mut self) {
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        self.settle();
        let error = self.driver.reason.clone();
        let news = match &self.stats {
            Some(stats) => stats.ended(&self.plan.congestion, error),
            None => BulkNews::Failed { error: error.unwrap_or_default() },
        };
        self.report(news);
    }

    pub(super) fn report_totals(&mut self, local: Option<Box<Totals>>) {
        let ours = local.as_ref().map(|local| local.traffic);
        if let Some(mut local) = local {
            local.receive = self.plan.phase.verify.receive().to_owned();
            local.pings = None;
            self.driver.ask(Event::Local(local));
        }
        if let Some(mut remote) = self.remote_totals() {
            remote.traffic.rx_ns = ours.and_then(|ours| self.arrival_ns(&ours, &remote.traffic));
            self.driver.ask(Event::Remote(Box::new(remote)));
        }
        let kind = self.plan.phase.kind;
        if self.driver.status != Status::Failed && self.stats.is_some() {
            if kind == Kind::Delay {
                let text = "an iperf3 server reports loss and jitter of datagrams, not their delay, which stays unknown";
                self.driver.notice(Level::Info, text);
            }
            self.driver.notice(Level::Info, "the payload was not compared: iperf3's is random");
        }
    }

    /// The time in which payload arrived at the server, ns.
    fn arrival_ns(&self, ours: &Traffic, server: &Traffic) -> Option<u64> {
        let limited = self.test_state.as_ref()?.is_limited();
        let ns = arrival_ns(ours.tx_ns.filter(|_| !limited), server.ns, self.round_trip_ns);
        (ns > 0 && server.rx_bytes > 0).then_some(ns)
    }

    fn remote_totals(&self) -> Option<Totals> {
        let (stats, test_state) = (self.stats.as_ref()?, self.test_state.as_ref()?);
        let remote = stats.remote.as_ref()?;
        let udp = test_state.terms.udp;
        let mut totals = Totals { who: self.plan.server.address.to_string(), ..Totals::default() };
        let (mut traffic, mut packets) = (Traffic::default(), Packets::default());
        let mut jitter: f64 = 0.0;
        let mut tcp = TcpTotals::default();
        let mut unknown = Counts::NONE;
        for line in &remote.lines {
            let row = line.row;
            let of_end = if test_state.sends(row.slot) { Counts::RECEIVER } else { Counts::SENDER };
            unknown = unknown.and(line.unknown.common(of_end));
            traffic.ns = traffic.ns.max(row.ns.unwrap_or(0));
            tcp.connections += 1;
            if test_state.sends(row.slot) {
                traffic.rx_bytes += row.bytes;
                // The numbers up to the highest seen, without the missing ones.
                packets.received += row.packets.saturating_sub(row.lost).max(0) as u64;
                packets.lost += row.lost;
                packets.duplicated += line.repeated;
                packets.reordered += line.reordered;
                jitter = jitter.max(row.jitter_ns);
            } else {
                traffic.tx_bytes += row.bytes;
                packets.sent += row.packets.max(0) as u64;
                tcp.retransmits += row.retransmits.unwrap_or(0);
            }
        }
        if traffic.ns == 0 {
            // Peers before 3.2 do not say how long it took.
            let rows = stats.rows();
            traffic.ns = rows.iter().map(|row| row.end_ns.saturating_sub(row.start_ns)).max().unwrap_or(0);
        }
        let seconds = traffic.ns as f64 / 1e9;
        totals.opened = u64::clamped(remote.lines.len());
        totals.completed = totals.opened;
        totals.cpu = Some(CpuUse {
            user_s: remote.cpu.user / 100.0 * seconds,
            system_s: remote.cpu.system / 100.0 * seconds,
            ..CpuUse::default()
        });
        totals.packets = udp.then(|| {
            // The results have a jitter of 0 where no datagram arrived.
            let jitter_ns = (packets.received > 0).then_some(jitter);
            Box::new(PacketReport { jitter_ns, unknown, ..PacketReport::from(packets) })
        });
        totals.unknown = unknown;
        totals.tcp = tcp;
        totals.traffic = traffic;
        Some(totals)
    }
}

/// The time in which a server that measured for `server_ns` received payload, ns: `scheduled_ns`
/// where a schedule had it leave, since scheduled payload arrives in as much time as it leaves.
/// Other payload goes on arriving out of queues and our send buffer until the server reads our word
/// to end, which passes the same queues. The server's own time begins with its word to begin, a
/// round trip of the idle path before the first byte can arrive.
fn arrival_ns(scheduled_ns: Option<u64>, server_ns: u64, round_trip_ns: u64) -> u64 {
    match scheduled_ns {
        Some(ns) => ns.min(server_ns),
        None => server_ns.saturating_sub(round_trip_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_queues_hold_at_the_end_is_divided_by_the_time_in_which_it_arrives() {
        const MS: u64 = 1_000_000;
        // One second of sending into a queue of 0.4 s.
        assert_eq!(arrival_ns(None, 1_420 * MS, 20 * MS), 1_400 * MS);
        // A schedule of one second over a path of 300 ms each way.
        assert_eq!(arrival_ns(Some(1_000 * MS), 1_600 * MS, 600 * MS), 1_000 * MS);
        assert_eq!(arrival_ns(Some(1_000 * MS), 800 * MS, 0), 800 * MS, "a server that ended early");
    }
}
