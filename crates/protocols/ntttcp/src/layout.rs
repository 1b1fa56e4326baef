//! Layout of a test of ntttcp over ports and connections, and its times.

use metrics::{Mono, SECOND};
use model::at_port;
use std::net::SocketAddr;

/// Distance from a data port to the port on which Windows' ends report that they are ready.
pub const READY_OFFSET: u16 = 1_000;

/// Layout and times of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The first data port.
    pub port: u16,
    /// Data ports, each of them a receiver's thread (`-P`).
    pub ports: u16,
    /// The sender's threads per port (`-n`).
    pub threads: u32,
    /// Connections per thread (`-l`).
    pub connections: u32,
    /// Warm-up, s (`-W`).
    pub warmup_s: u32,
    /// Length, s (`-t`); 0 is without end.
    pub seconds: u32,
    /// Cool-down, s (`-C`).
    pub cooldown_s: u32,
    /// True if the ends talk (without `-N`).
    pub sync: bool,
    /// Several senders, one receiver: the receiver's `-M`, the last sender's `-L`.
    pub multi: bool,
    /// Data in datagrams (`-u`).
    pub udp: bool,
    /// True if the ends report their readiness as Windows' ends do: for each data port a connection
    /// to the port [`READY_OFFSET`] above it.
    pub token: bool,
    /// The receiver accepts unsynchronised senders, and Windows' senders with their
    /// synchronisation, beside synchronised ones; each of their addresses has a test of its own.
    pub unsynced: bool,
    /// Windows NTttcp's behaviour: a reset by the receiver is the regular end of a connection, a
    /// receiver without synchronisation closes at the end of its time, and a sender retries
    /// connects for ten seconds.
    pub windows: bool,
}

impl Layout {
    /// The default port of the first data connections.
    pub const PORT: u16 = 5_001;
    /// Failure reason: the receiver runs another test.
    pub const BUSY: &str = "the receiver is busy with another test";
    /// Failure reason: the receiver refused to start.
    pub const REFUSED: &str = "the receiver refuses to start the test";

    /// Connections of a sender.
    pub fn all(&self) -> u32 {
        u32::from(self.ports).saturating_mul(self.threads).saturating_mul(self.connections)
    }

    /// True if this port of the receiver is for conversations instead of data.
    pub fn talks(&self, port: u16) -> bool {
        port < self.port || self.announces(port)
    }

    /// True if senders of Windows' report on this port of the receiver that they are ready.
    pub fn announces(&self, port: u16) -> bool {
        (self.token || self.unsynced) && port >= self.port.saturating_add(READY_OFFSET)
    }

    /// The port of a connection, counted from 0.
    pub fn port_of(&self, slot: u32) -> u16 {
        let each = self.threads.saturating_mul(self.connections).max(1);
        self.port.saturating_add(u16::try_from(slot / each).unwrap_or(u16::MAX))
    }

    /// Address of a data port: each has a receiver of its own, or the remaining ones share the last
    /// one.
    pub fn address(&self, hosts: &[SocketAddr], port: u16) -> Option<SocketAddr> {
        let at = usize::from(port.saturating_sub(self.port));
        hosts.get(at).or(hosts.last()).map(|host| at_port(*host, port))
    }

    /// Warm-up, test and cool-down, s; 0 is without end.
    pub fn cycle_s(&self) -> u32 {
        if self.seconds == 0 {
            0
        } else {
            self.warmup_s.saturating_add(self.seconds).saturating_add(self.cooldown_s)
        }
    }

    /// The measured time of a test that begins at `now` and is to last `cycle` seconds: from, to,
    /// and the end of sending.
    pub fn times(&self, now: Mono, cycle: u32) -> (Mono, Mono, Mono) {
        let after = |s: u32| now.plus(u64::from(s) * SECOND);
        let from = after(self.warmup_s);
        if cycle == 0 {
            return (from, Mono(u64::MAX), Mono(u64::MAX));
        }
        let to = if self.seconds == 0 { after(cycle) } else { from.plus(u64::from(self.seconds) * SECOND) };
        (from, to.min(after(cycle)), after(cycle))
    }
}

impl Default for Layout {
    /// The defaults of the original: one synchronised sender with 64 data connections for a
    /// minute.
    fn default() -> Self {
        Layout {
            port: Layout::PORT,
            ports: 16,
            threads: 4,
            connections: 1,
            warmup_s: 0,
            seconds: 60,
            cooldown_s: 0,
            sync: true,
            multi: false,
            udp: false,
            token: false,
            unsynced: false,
            windows: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_where_the_capture_has_them() {
        // ntttcp_nosync_tcp_P2n2l2.pcap, -P 2 -n 2 -l 2 -p 5201: four connections to 5201, then
        // four to 5202.
        let layout = Layout { port: 5201, ports: 2, threads: 2, connections: 2, ..Layout::default() };
        let ports: Vec<u16> = (0..layout.all()).map(|slot| layout.port_of(slot)).collect();
        assert_eq!(ports, [5201, 5201, 5201, 5201, 5202, 5202, 5202, 5202]);
    }

    #[test]
    fn warm_up_and_cool_down_do_not_count() {
        // ntttcp_warm_cool_ctrl.pcap: -W 1 -t 2 -C 1 proposes 4.
        let layout = Layout { warmup_s: 1, seconds: 2, cooldown_s: 1, ..Layout::default() };
        assert_eq!(layout.cycle_s(), 4);
        let at = |s: u64| Mono(s * SECOND);
        assert_eq!(layout.times(at(10), 4), (at(11), at(13), at(14)));
        // A longer cycle was agreed on: the sender goes on sending, and measures its own length.
        assert_eq!(layout.times(at(10), 6), (at(11), at(13), at(16)));
        let endless = Layout { seconds: 0, ..Layout::default() };
        assert_eq!((endless.cycle_s(), endless.times(at(1), 0).2), (0, Mono(u64::MAX)));
    }
}
