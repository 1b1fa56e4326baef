//! The request of a command line, and the phase that it makes.

use common::bulk::UNLIMITED;
use metrics::{Clamped, SECOND};
use model::{Burst, Kind, Pattern, Payload, Phase, Probe, Range, SocketSettings, Verify};

/// The request of a command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request {
    Help,
    /// Completions of Teldat's command line, as its console lists them.
    Next(String),
    /// Nothing: the user is to be asked.
    Nothing,
    Run(Box<Spec>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Teldat's: words, decimal rates, microseconds.
    #[default]
    Teldat,
    /// The classic program's: letters, rates by 1024, milliseconds.
    Classic,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum TransferRole {
    #[default]
    Receive,
    Transmit(String),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Bits, and the prefix that fits.
    #[default]
    Fitting,
    /// Bits, or bytes, with the prefix: none, k, m, g.
    Fixed {
        /// Bytes instead of bits.
        bytes: bool,
        /// Number of divisions by the base (1000, or 1024 in the classic report).
        prefix: usize,
    },
}

/// A command line, understood.
///
/// Wide: a field for each option of the original.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spec {
    pub(crate) dialect: Dialect,
    pub(crate) role: TransferRole,
    /// Buffers sent (`nsrcb`, `-n`).
    pub(crate) buffers: u64,
    /// Bytes of a buffer (`blen`, `-l`).
    pub(crate) length: u64,
    /// Port (`port`, `-p`).
    pub(crate) port: u16,
    /// Receiver: longest time without data or a connection, ms (`timeout`, `-w`); 0 leaves it to
    /// us.
    pub(crate) timeout_ms: u64,
    /// More of everything (`verbose`, `-v`).
    pub(crate) verbose: bool,
    /// Buffers per `#` (`phmarks`, `nbhmarks`).
    pub(crate) marks: Option<u64>,
    /// Socket buffers, bytes (`sbsize`, `-b`).
    pub(crate) socket_buffer: Option<u64>,
    /// Buffers of a burst (`nsrcbb`, `-Ns`), where the user has said so: else a rate is kept
    /// evenly.
    pub(crate) burst: Option<u64>,
    /// Random payload (`random`, `-x`).
    pub(crate) random: bool,
    /// Seed of the random payload (`iRNG`, `-I`).
    pub(crate) seed: u64,
    /// Unit of printed rates (`frate`, `-f`).
    pub(crate) unit: Unit,
    /// Most kbit/s (`rlimit`, `-c`).
    pub(crate) limit_kbps: Option<u64>,
    /// The progress in percent (`perc`).
    pub(crate) percent: bool,
    /// Largest segment, bytes (`mss`).
    pub(crate) mss: Option<u32>,
    /// Seconds to send (`time`); wins over the number of buffers.
    pub(crate) seconds: Option<u64>,
    /// UDP (`-u`).
    pub(crate) udp: bool,
    /// UDP with epi_ttcp's markers.
    pub(crate) epi: bool,
    /// No delay (`-D`).
    pub(crate) nodelay: bool,
    /// Reads are filled (`-B`); Teldat's always are.
    pub(crate) full_blocks: bool,
    /// Take one connection after the other.
    pub(crate) keep: bool,
    /// The original's arithmetic where it is wrong.
    pub(crate) as_original: bool,
    /// Arguments without an effect here, each with the reason.
    pub(crate) ignored: Vec<String>,
}

/// Largest `sbsize` of Teldat's receiver, whose window is twice as large, bytes.
const LARGEST_BUFFER: u64 = 131_072;

/// Default time that a receiver waits for more, ms. The original waits for ever, for the end of a
/// test whose last datagram was lost, too.
const PATIENCE_TCP_MS: u64 = 300_000;
const PATIENCE_UDP_MS: u64 = 10_000;

impl Spec {
    pub(crate) fn new(dialect: Dialect) -> Spec {
        let teldat = dialect == Dialect::Teldat;
        Spec {
            dialect,
            buffers: 2048,
            length: 8192,
            port: crate::PORT,
            socket_buffer: teldat.then_some(65_535),
            seed: 1,
            unit: if teldat { Unit::Fitting } else { Unit::Fixed { bytes: true, prefix: 1 } },
            mss: teldat.then_some(1340),
            full_blocks: teldat,
            ..Spec::default()
        }
    }

    pub(crate) fn sends(&self) -> bool {
        matches!(self.role, TransferRole::Transmit(_))
    }

    /// Bytes to be sent; `None` when the time decides.
    pub(crate) fn total(&self) -> Option<u64> {
        self.seconds.is_none().then(|| self.buffers.saturating_mul(self.length))
    }

    /// Checks the options against each other.
    ///
    /// # Errors
    /// One sentence that names what cannot be.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.sends() && self.port == 0 {
            return Err("a sender needs the receiver's port, 1 to 65535".to_owned());
        }
        if self.udp && self.length > 65_507 {
            return Err(format!(
                "a UDP datagram holds at most 65507 bytes, and the buffer length is {}",
                self.length
            ));
        }
        if self.total().is_some_and(|total| total >= UNLIMITED) {
            return Err("the number of buffers times their length must stay below 1 PiB".to_owned());
        }
        self.phase().check()
    }

    /// Rate of sending, bits/s.
    fn rate(&self) -> Option<u64> {
        self.limit_kbps.map(|kbps| kbps.saturating_mul(1000)).filter(|bps| self.sends() && *bps > 0)
    }

    /// Buffers per burst, and the time from one burst to the next that the rate makes of it.
    fn bursts(&self) -> Option<Burst> {
        let (bps, count) = (self.rate()?, self.burst.filter(|n| *n > 1)?);
        let bits = u128::from(count) * u128::from(self.length) * 8;
        let delay_ns = u64::try_from(bits * u128::from(SECOND) / u128::from(bps)).unwrap_or(u64::MAX).max(1);
        Some(Burst { count: u32::try_from(count).unwrap_or(u32::MAX), delay_ns })
    }

    /// Receive buffer, bytes; as the original has it where that is asked for.
    fn receive_buffer(&self) -> Option<u64> {
        let most =
            if self.as_original && self.dialect == Dialect::Teldat { LARGEST_BUFFER } else { u64::MAX };
        self.socket_buffer.filter(|_| !self.sends()).map(|bytes| bytes.min(most))
    }

    pub(crate) fn phase(&self) -> Phase {
        let live = self.marks.is_some() || self.percent;
        let patience = if self.udp { PATIENCE_UDP_MS } else { PATIENCE_TCP_MS };
        let patience = if self.timeout_ms > 0 { self.timeout_ms } else { patience };
        let day = 24 * 3600 * SECOND;
        Phase {
            kind: if self.udp { Kind::Delay } else { Kind::Tcp },
            pattern: Pattern::Push,
            connections: 1,
            iterations: Some(1),
            transfer: self.total().unwrap_or(UNLIMITED).max(1),
            duration_ns: match (self.sends(), self.seconds) {
                (true, Some(seconds)) => Some(seconds.saturating_mul(SECOND).max(1)),
                // Datagrams are always measured for a time.
                _ if self.udp => Some(day),
                _ => None,
            },
            interval_ns: if live { SECOND / 10 } else { SECOND },
            buffer: Range::just(self.length),
            rate: self.rate().filter(|_| self.bursts().is_none()),
            burst: self.bursts(),
            verify: Verify::Connection,
            payload: if self.random { Payload::Random } else { Payload::Pattern },
            payload_seed: self.random.then_some(self.seed),
            probe: self
                .udp
                // A probe's size is bounded below; the datagrams sent have the buffer's size.
                .then(|| Probe { size: u32::clamped(self.length.min(65_507)).max(16), ..Probe::default() }),
            stall_ns: patience.saturating_mul(SECOND / 1000),
            sockets: SocketSettings {
                sndbuf: self.socket_buffer.filter(|_| self.sends()),
                rcvbuf: self.receive_buffer(),
                same_host_sndbuf: false,
                nodelay: self.nodelay,
                mss: self.mss.filter(|_| !self.udp),
                ..SocketSettings::default()
            },
            ..Phase::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receive_buffer_is_the_originals_where_that_is_asked_for() {
        let buffer = |dialect, as_original, bytes| {
            let socket_buffer = Some(bytes);
            Spec { as_original, socket_buffer, ..Spec::new(dialect) }.phase().sockets.rcvbuf
        };
        // Twice 131,072 are the 262,144 bytes of the manual's largest window.
        assert_eq!(buffer(Dialect::Teldat, true, 1_000_000), Some(131_072));
        assert_eq!(buffer(Dialect::Teldat, true, 20_000), Some(20_000));
        assert_eq!(buffer(Dialect::Teldat, false, 1_000_000), Some(1_000_000));
        assert_eq!(buffer(Dialect::Classic, true, 1_000_000), Some(1_000_000));
    }

    #[test]
    fn bursts_are_paid_for_by_the_rate() {
        let mut spec = Spec::new(Dialect::Teldat);
        spec.role = TransferRole::Transmit("192.0.2.1".to_owned());
        (spec.limit_kbps, spec.burst) = (Some(8_000), Some(50));
        // 50 buffers of 8192 bytes at 8 Mbit/s: 409.6 ms.
        let phase = spec.phase();
        assert_eq!((phase.rate, phase.burst), (None, Some(Burst { count: 50, delay_ns: 409_600_000 })));
        assert_eq!(spec.check(), Ok(()));
        spec.burst = None;
        assert_eq!((spec.phase().rate, spec.phase().burst), (Some(8_000_000), None));
        (spec.burst, spec.limit_kbps) = (Some(50), None);
        assert_eq!((spec.phase().rate, spec.phase().burst), (None, None));
    }
}
