#[path = "../../../../../compat/src/import/tests/support.rs"]
mod support;

use crate::compat::line::layout;
use crate::compat::spec::Transport;
use crate::compat::{IMPORTERS, connection};
use compat::file::Source;
use compat::import::import;
use model::{Figure, Way};
use support::{near, only, outcome_of};

#[test]
fn ctstraffics_status_tables() {
    // Lines of ctsTraffic.Status.csv as its guide shows them (rates in bytes/s), as the original
    // writes them.
    let text = "TimeSlice,SendBps,RecvBps,In-Flight,Completed,NetError,DataError\r\n\
        5.001,1000,500,8,0,0,0\r\n10.001,2000,500,8,3,1,0\r\n";
    let point = only(&outcome_of(text.as_bytes())).clone();
    assert_eq!((point.local.completed, point.local.network_errors, point.local.opened), (3, 1, 12));
    assert_eq!(point.intervals[1].local.tx_bytes, 10_000);
    // The original's first slice has no true time: it is left out.
    assert_eq!(only(&outcome_of(&utf16(text))).intervals.len(), 1);
    let frames = "TimeSlice,Bits/Sec,Streams,Completed,Dropped,Repeated,Errors\r\n1.000,8000,1,59,1,0,0\r\n";
    near(Figure::Frames.of(only(&outcome_of(frames.as_bytes()))), 100.0 / 60.0);
}

/// As the original writes files: UTF-16, least byte first, with its mark.
fn utf16(text: &str) -> Vec<u8> {
    [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect()
}

#[test]
fn ctstraffics_other_tables() {
    // Headers and forms of rows as the original's source writes them; the numbers are chosen.
    let text = "TimeSlice,LocalAddress,RemoteAddress,SendBytes,SendBps,RecvBytes,RecvBps,TimeMs,Result,ConnectionId\r\n\
        2.000,10.0.0.1:5000,10.0.0.2:4444,1000000,500000,0,0,2000,Succeeded,01234567-89ab-cdef-0123-456789abcdef\r\n\
        3.000,10.0.0.1:5001,10.0.0.2:4444,1000000,1000000,0,0,1000,Succeeded,11234567-89ab-cdef-0123-456789abcdef\r\n\
        4.000,10.0.0.1:5002,10.0.0.3:4444,0,0,0,0,1500,10060: timed out,00000000-0000-0000-0000-000000000000\r\n";
    let outcome = outcome_of(&utf16(text));
    let point = only(&outcome);
    // The one that timed out before its first byte was not established.
    assert_eq!((point.local.completed, point.local.network_errors, point.local.opened), (2, 1, 2));
    // From the first connection's beginning at 0 to the last one's end at 4 s; the first two do not
    // overlap, the last two do.
    assert_eq!(
        (point.local.traffic.ns, point.local.traffic.tx_bytes, point.local.peak),
        (4_000_000_000, 2_000_000, 2)
    );
    assert_eq!(point.local.transfer_ns.as_ref().map(|t| (t.count, t.min / 1_000_000)), Some((2, 1_000)));
    assert_eq!((point.local.causes[0].count, point.local.causes[0].text.as_str()), (1, "10060: timed out"));
    assert_eq!(
        (outcome.begin.targets.join(" "), point.connections.len()),
        ("10.0.0.2 10.0.0.3".to_owned(), 3)
    );

    let text = "TimeSlice,LocalAddress,RemoteAddress,Bits/Sec,Completed,Dropped,Repeated,Errors,Result,ConnectionId\n\
        5.000,10.0.0.1:5000,10.0.0.2:4444,1000000,97,2,1,0,Succeeded,01234567-89ab-cdef-0123-456789abcdef\n";
    let outcome = outcome_of(text.as_bytes());
    assert_eq!(outcome.begin.verb, "stream");
    near(Figure::Frames.of(only(&outcome)), 3.0);

    // A millisecond between frames at both ends, but the third comes 3 ms late; the fourth does not
    // come.
    let header = "SequenceNumber,SenderQpc,SenderQpf,ReceiverQpc,ReceiverQpf,RelativeInFlightTimeMs,PrevToCurrentInFlightTimeJitter";
    let text = format!(
        "{header}\r\n1,1000,1000,5000,1000,0,0\r\n2,1001,1000,5001,1000,0,0\r\n3,1002,1000,5005,1000,3,3\r\n4,0,0,0,0,0,0\r\n"
    );
    let outcome = outcome_of(&utf16(&text));
    near(Figure::Frames.of(only(&outcome)), 25.0);
    // RFC 3550: 0, 0, then 3 ms / 16.
    near(Figure::Jitter(Way::Down).of(only(&outcome)), 3e6 / 16.0);

    let text = "TimeSlice,LocalAddress,RemoteAddress,ConnectionId,SendBytes,SendBps,RecvBytes,RecvBps,TimeMs,BytesReordered,\
        BytesRetransmitted,SynRetransmitted,DupAcksIn,MinRttUs,Mss,TimeoutEpisodes,FastRetransmit,SndLimBytesCwnd,\
        SndLimBytesRwin,SndLimBytesSnd\n\
        2.000,10.0.0.1:5000,10.0.0.2:4444,01234567-89ab-cdef-0123-456789abcdef,1000000,500000,0,0,2000,0,2920,0,3,150,1460,0,2,0,0,0\n";
    let point = only(&outcome_of(text.as_bytes())).clone();
    assert_eq!((point.local.tcp.bytes_retrans, point.local.tcp.min_rtt_us), (2920, 150));
    assert_eq!(Figure::Retransmits.of(&point), Some(2.0));
    near(point.up.map(|d| d.sent_bps), 4e6);
}

#[test]
fn rows_with_numbers_that_no_run_has_are_left_out_and_counted() {
    let most = u64::MAX;
    let [moved, six] = [5, 6].map(|n| vec![most.to_string(); n].join(","));
    let ends = "10.0.0.1:5000,10.0.0.2:4444";
    let id = "01234567-89ab-cdef-0123-456789abcdef";
    let tables = [
        (layout(Transport::Tcp).status_csv, vec![format!("1e9,{six}"), format!("2e9,{six}")]),
        (layout(Transport::Udp).status_csv, vec![format!("1e9,{six}"), format!("2e9,{six}")]),
        (layout(Transport::Tcp).connection_csv, vec![format!("1,{ends},{moved},Succeeded,{id}"); 2]),
        (layout(Transport::Udp).connection_csv, vec![format!("1,{ends},{moved},Succeeded,{id}"); 2]),
        (connection::TCP_INFO_CSV, vec![format!("1,{ends},{id},{moved},{moved},{six}"); 2]),
    ];
    for (header, rows) in tables {
        let run =
            super::read(&Source::Text(format!("{header}\n{}\n", rows.join("\n")), false)).unwrap().unwrap();
        assert_eq!(run.notices.last().map(String::as_str), Some("2 rows damaged: left out"), "{header}");
    }
}
