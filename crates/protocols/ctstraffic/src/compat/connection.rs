//! Ended connections and frames: lines for people, rows for tables.

use super::line::{layout, per_second, seconds};
use super::spec::{Role, Transport};
use super::windows::{ConnectionOutcome, one_line};
use metrics::{FrameJitter, FrameStamps, Frames};
use model::{ConnectionRecord, FrameRow, FrameVerdict};
use std::net::{IpAddr, SocketAddr};

/// The heading of the TCP-info CSV, without its line end.
pub(super) const TCP_INFO_CSV: &str = "TimeSlice,LocalAddress,RemoteAddress,ConnectionId,SendBytes,SendBps,\
RecvBytes,RecvBps,TimeMs,BytesReordered,BytesRetransmitted,SynRetransmitted,DupAcksIn,MinRttUs,Mss,\
TimeoutEpisodes,FastRetransmit,SndLimBytesCwnd,SndLimBytesRwin,SndLimBytesSnd";

/// The heading of the jitter CSV, without its line end.
pub(super) const JITTER_CSV: &str = "SequenceNumber,SenderQpc,SenderQpf,ReceiverQpc,ReceiverQpf,\
RelativeInFlightTimeMs,PrevToCurrentInFlightTimeJitter";

/// An ended connection in the original's form.
pub(super) struct ConnectionEnd {
    transport: Transport,
    /// When it ended, as text.
    pub(super) at: String,
    local: String,
    remote: String,
    id: String,
    /// Sent, its rate, received, its rate, ms; or bits/s, and frames completed, dropped, repeated,
    /// in error.
    numbers: [u64; 5],
    /// Outcome of the connection.
    pub(super) verdict: ConnectionOutcome,
}

impl ConnectionEnd {
    /// A connection of this end with `verdict`.
    pub(super) fn new(
        record: &ConnectionRecord,
        verdict: ConnectionOutcome,
        role: Role,
        transport: Transport,
    ) -> ConnectionEnd {
        let was_up = match (role, transport) {
            (Role::Client, Transport::Tcp) => record.connect_ns.is_some(),
            (Role::Client, Transport::Udp) => record.duration_ns > 0 || !record.id.is_nil(),
            (Role::Server, _) => true,
        };
        let has_id = was_up && (transport == Transport::Tcp || !record.id.is_nil());
        let (sent, received, ms) = (record.tx_bytes, record.rx_bytes, record.duration_ns / 1_000_000);
        let numbers = match transport {
            Transport::Tcp => [sent, per_second(sent, ms), received, per_second(received, ms), ms],
            Transport::Udp => {
                let Frames { completed, dropped, repeated, errors } = record.frames.unwrap_or_default();
                let bits = (sent + received).saturating_mul(8);
                [per_second(bits, ms), completed, dropped, repeated, errors]
            }
        };
        ConnectionEnd {
            transport,
            at: seconds(record.ended_ns / 1_000_000),
            local: record.local.filter(|_| was_up).map_or_else(String::new, address),
            remote: address(record.remote),
            id: if has_id { record.id.to_string() } else { String::new() },
            numbers,
            verdict,
        }
    }

    pub(super) fn line(&self) -> String {
        let ConnectionEnd { at, local, remote, id, numbers: [a, b, c, d, e], .. } = self;
        let (how, gap) = match &self.verdict {
            ConnectionOutcome::Succeeded => ("succeeded".to_owned(), ""),
            ConnectionOutcome::Protocol(name) => (format!("failed with the protocol error {name}"), " "),
            ConnectionOutcome::System(number, words) => {
                (format!("failed with the error {number}: {}", one_line(words)), " ")
            }
        };
        let gap = if self.transport == Transport::Udp { " " } else { gap };
        let name = layout(self.transport).name;
        let head = format!("[{at}] {name} connection {how} : [{local} - {remote}] [{id}]{gap}: ");
        match self.transport {
            Transport::Tcp => {
                format!("{head}SendBytes[{a}]  SendBps[{b}]  RecvBytes[{c}]  RecvBps[{d}]  Time[{e} ms]")
            }
            Transport::Udp => format!(
                "{head}BitsPerSecond [{a}]  Completed [{b}]  Dropped [{c}]  Repeated [{d}]  Errors [{e}]"
            ),
        }
    }

    /// The row of the connection CSV.
    pub(super) fn row(&self) -> String {
        let ConnectionEnd { at, local, remote, id, verdict, .. } = self;
        format!("{at},{local},{remote},{},{},{id}", self.cells(","), verdict.cell())
    }

    fn cells(&self, between: &str) -> String {
        self.numbers.map(|n| n.to_string()).join(between)
    }

    /// The row of the TCP-info CSV, with a comma and a space between its cells as in the original;
    /// a cell that Linux has no value for is empty. `None` for a connection without TCP_INFO.
    pub(super) fn tcp_info_row(&self, record: &ConnectionRecord) -> Option<String> {
        let info = record.tcp.as_ref()?;
        // Time instead of bytes: how long each was what kept the sender from sending.
        let (rwnd, sndbuf) = (info.rwnd_limited_us, info.sndbuf_limited_us);
        let limited = rwnd.unwrap_or(0).saturating_add(sndbuf.unwrap_or(0));
        let cells = [
            info.reord_seen.map(u64::from),
            info.bytes_retrans,
            None,
            None,
            info.min_rtt_us.map(u64::from),
            Some(info.snd_mss.into()),
            None,
            Some(info.retransmits.into()),
            info.busy_us.map(|busy| busy.saturating_sub(limited)),
            rwnd,
            sndbuf,
        ];
        let cells = cells.map(|cell| cell.map_or_else(String::new, |n| n.to_string())).join(", ");
        let ConnectionEnd { at, local, remote, id, .. } = self;
        Some(format!("{at}, {local}, {remote}, {id}, {}, {cells}", self.cells(", ")))
    }
}

/// The row of a frame in the jitter CSV, as the original computes it; `None` for a repeated one,
/// which the original leaves out.
pub(super) fn jitter_row(jitter: &mut FrameJitter, frame: &FrameRow) -> Option<String> {
    let FrameRow { seq, sender_ticks, sender_hz, receiver_ticks, receiver_hz, .. } = *frame;
    match frame.verdict {
        FrameVerdict::Repeated => None,
        FrameVerdict::Dropped => Some(format!("{seq},0,0,0,0,0.000,0.000")),
        FrameVerdict::Completed => {
            let stamps = FrameStamps { sender_ticks, sender_hz, receiver_ticks, receiver_hz };
            let (flight, jitter) = jitter.see(stamps);
            Some(format!(
                "{seq},{sender_ticks},{sender_hz},{receiver_ticks},{receiver_hz},{flight:.3},{jitter:.3}"
            ))
        }
    }
}

/// The line of an established connection.
pub(super) fn established(transport: Transport, local: SocketAddr, remote: SocketAddr, at_ns: u64) -> String {
    let (at, name) = (seconds(at_ns / 1_000_000), layout(transport).name);
    format!("[{at}] {name} connection established [{} - {}]", address(local), address(remote))
}

/// An address as the original writes it; IPv4 stays IPv4 on sockets of both families.
pub(super) fn address(at: SocketAddr) -> String {
    let plain = match at.ip().to_canonical() {
        IpAddr::V4(v4) => SocketAddr::new(v4.into(), at.port()),
        IpAddr::V6(_) => at,
    };
    if plain.port() == 0 { plain.ip().to_string() } else { plain.to_string() }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use metrics::{Ending, SECOND, TcpInfo};
    use model::Failure;
    use uuid::Uuid;

    pub(in super::super) fn record() -> ConnectionRecord {
        ConnectionRecord {
            id: Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef),
            local: Some("10.0.0.1:50000".parse().unwrap()),
            remote: "10.0.0.2:4444".parse().unwrap(),
            ended_ns: 5_002_900_000,
            tx_bytes: 1_073_741_824,
            rx_bytes: 0,
            connect_ns: Some(1),
            duration_ns: 4 * SECOND,
            result: Ending::Completed,
            error: None,
            failure: None,
            tcp: None,
            frames: None,
        }
    }

    fn ended(record: &ConnectionRecord, role: Role, transport: Transport) -> ConnectionEnd {
        ConnectionEnd::new(
            record,
            super::super::windows::verdict(record, transport).unwrap(),
            role,
            transport,
        )
    }

    #[test]
    fn a_connection_that_went_well() {
        let ended = ended(&record(), Role::Client, Transport::Tcp);
        assert_eq!(
            ended.row(),
            "5.002,10.0.0.1:50000,10.0.0.2:4444,1073741824,268435456,0,0,4000,Succeeded,\
             01234567-89ab-cdef-0123-456789abcdef"
        );
        assert_eq!(
            ended.line(),
            "[5.002] TCP connection succeeded : [10.0.0.1:50000 - 10.0.0.2:4444] \
             [01234567-89ab-cdef-0123-456789abcdef]: SendBytes[1073741824]  SendBps[268435456]  RecvBytes[0]  \
             RecvBps[0]  Time[4000 ms]"
        );
        let up = established(Transport::Tcp, record().local.unwrap(), record().remote, 1_002_900_000);
        assert_eq!(up, "[1.002] TCP connection established [10.0.0.1:50000 - 10.0.0.2:4444]");
        assert_eq!(layout(Transport::Tcp).connection_csv.split(',').count(), ended.row().split(',').count());
    }

    #[test]
    fn connections_that_failed() {
        let failure = Some(Failure::TooMany);
        let bad = ConnectionRecord { result: Ending::DataError, failure, ..record() };
        let line = ended(&bad, Role::Server, Transport::Tcp).line();
        assert!(
            line.starts_with(
                "[5.002] TCP connection failed with the protocol error ErrorTooMuchDataTransferred : [10.0.0.1:50000 \
                 - 10.0.0.2:4444] [01234567-89ab-cdef-0123-456789abcdef] : SendBytes[1073741824]  SendBps["
            ),
            "{line}"
        );
        // Before the identifier came: all zeros over TCP, nothing over UDP.
        let failure = Some(Failure::System { deed: "receive".to_owned(), errno: 104 });
        let reset = ConnectionRecord {
            id: Uuid::nil(),
            result: Ending::NetworkError,
            failure,
            tx_bytes: 0,
            ..record()
        };
        assert_eq!(
            ended(&reset, Role::Client, Transport::Tcp).row(),
            "5.002,10.0.0.1:50000,10.0.0.2:4444,0,0,0,0,4000,10054: An existing connection was forcibly closed by the \
             remote host.,00000000-0000-0000-0000-000000000000"
        );
        assert!(ended(&reset, Role::Client, Transport::Udp).row().ends_with("remote host.,"));
    }

    #[test]
    fn a_connection_that_never_was() {
        let failure = Some(Failure::System { deed: "connect".to_owned(), errno: 111 });
        let refused = ConnectionRecord {
            id: Uuid::from_u128(9),
            local: None,
            connect_ns: None,
            duration_ns: 0,
            tx_bytes: 0,
            result: Ending::NetworkError,
            failure,
            ..record()
        };
        let ended = ended(&refused, Role::Client, Transport::Tcp);
        assert_eq!(
            ended.row(),
            "5.002,,10.0.0.2:4444,0,0,0,0,0,10061: No connection could be made because the target machine actively \
             refused it.,"
        );
        assert!(ended.line().contains(" : [ - 10.0.0.2:4444] [] : SendBytes[0]"), "{}", ended.line());
    }

    #[test]
    fn a_stream() {
        let frames = Some(Frames { completed: 3590, dropped: 7, repeated: 2, errors: 1 });
        let stream = ConnectionRecord {
            tx_bytes: 0,
            rx_bytes: 187_498_800,
            duration_ns: 60 * SECOND,
            frames,
            ..record()
        };
        let ended = ended(&stream, Role::Client, Transport::Udp);
        // 187,498,800 bytes in 60 s are 24,999,840 bit/s.
        assert_eq!(
            ended.row(),
            "5.002,10.0.0.1:50000,10.0.0.2:4444,24999840,3590,7,2,1,Succeeded,01234567-89ab-cdef-0123-456789abcdef"
        );
        assert!(
            ended.line().ends_with(
                "cdef] : BitsPerSecond [24999840]  Completed [3590]  Dropped [7]  Repeated [2]  Errors [1]"
            ),
            "{}",
            ended.line()
        );
    }

    #[test]
    fn tcp_info_rows_have_twenty_cells_and_spaces() {
        let info = TcpInfo {
            min_rtt_us: Some(40),
            snd_mss: 1448,
            retransmits: 3,
            busy_us: Some(1000),
            rwnd_limited_us: Some(300),
            sndbuf_limited_us: Some(100),
            bytes_retrans: Some(4344),
            reord_seen: Some(2),
            ..TcpInfo::default()
        };
        let record = ConnectionRecord { tcp: Some(info), ..record() };
        let row = ended(&record, Role::Client, Transport::Tcp).tcp_info_row(&record).unwrap();
        let cells: Vec<&str> = row.split(", ").collect();
        let names: Vec<&str> = TCP_INFO_CSV.split(',').collect();
        assert_eq!((cells.len(), names.len()), (20, 20));
        let cell = |name: &str| cells[names.iter().position(|n| *n == name).unwrap()];
        assert_eq!((cell("MinRttUs"), cell("Mss"), cell("FastRetransmit")), ("40", "1448", "3"));
        assert_eq!((cell("SndLimBytesCwnd"), cell("BytesReordered"), cell("DupAcksIn")), ("600", "2", ""));
        let nothing = ConnectionRecord { tcp: None, ..record };
        assert!(ended(&nothing, Role::Client, Transport::Tcp).tcp_info_row(&nothing).is_none());
    }

    #[test]
    fn addresses() {
        let text = |at: &str| address(at.parse().unwrap());
        assert_eq!(text("[::1]:4444"), "[::1]:4444");
        assert_eq!(text("1.2.3.4:0"), "1.2.3.4");
        assert_eq!(text("[::ffff:1.2.3.4]:80"), "1.2.3.4:80");
    }

    /// Frames 100 ms apart by the sender's clock (10 MHz); they come 100, 103 and 99 ms apart by
    /// the receiver's (1 MHz).
    #[test]
    fn time_in_flight_is_relative_to_the_first_frame() {
        let frame = |seq, sent_ms: i64, came_ms: i64| FrameRow {
            seq,
            verdict: FrameVerdict::Completed,
            bytes: 1000,
            sender_ticks: sent_ms * 10_000,
            sender_hz: 10_000_000,
            receiver_ticks: came_ms * 1000,
            receiver_hz: 1_000_000,
        };
        let dropped = FrameRow { seq: 3, verdict: FrameVerdict::Dropped, ..frame(3, 0, 0) };
        let repeated = FrameRow { seq: 4, verdict: FrameVerdict::Repeated, ..frame(4, 300, 800) };
        let mut jitter = FrameJitter::default();
        let mut row = |f: FrameRow| jitter_row(&mut jitter, &f);
        assert_eq!(row(frame(1, 100, 500)).unwrap(), "1,1000000,10000000,500000,1000000,0.000,0.000");
        assert_eq!(row(frame(2, 200, 603)).unwrap(), "2,2000000,10000000,603000,1000000,3.000,3.000");
        assert_eq!(row(dropped).unwrap(), "3,0,0,0,0,0.000,0.000");
        assert_eq!(row(repeated), None);
        assert_eq!(row(frame(5, 300, 699)).unwrap(), "5,3000000,10000000,699000,1000000,-1.000,4.000");
        assert_eq!(JITTER_CSV.split(',').count(), 7);
    }
}
