//! The tables here are written by hand after the description of ctsTraffic's files: headers and
//! order of columns, UTF-16LE with a byte order mark and CR LF, comma and space in the rows of the
//! TCP-info table, the sender's stamps times 65536.

use super::*;

fn utf16(text: &str) -> Vec<u8> {
    let mut bytes = vec![0xff, 0xfe];
    bytes.extend(text.replace('\n', "\r\n").encode_utf16().flat_map(u16::to_le_bytes));
    bytes
}

fn report_text(files: &[(&str, Vec<u8>)]) -> String {
    let files: Vec<NamedFile> = files
        .iter()
        .map(|(name, bytes)| NamedFile { name: (*name).to_owned(), bytes: bytes.clone() })
        .collect();
    report(&files).unwrap()
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "'{part}' is missing in:\n{text}");
    }
}

const STATUS: &str = "TimeSlice,SendBps,RecvBps,In-Flight,Completed,NetError,DataError\n";

/// The status table of the practical guide.
#[test]
fn the_guides_status_table() {
    let rows = "0.001,2,0,8,0,0,0\n5.002,2635514317,124,8,8,0,0\n10.003,2519781898,171,8,19,0,0\n\
                15.001,2437029014,202,8,32,0,0\n20.002,2639838829,171,8,43,0,0\n25.002,2557568614,218,8,57,0,0\n";
    let text = report_text(&[("s.csv", utf16(&format!("{STATUS}{rows}")))]);
    // (2635514317 + 2519781898 + 2437029014 + 2639838829 + 2557568614) / 5 = 2557946534.4 bytes/s.
    has(&text, &["s.csv: ctsTraffic, status (TCP), 6 rows", "until 25.002 s", "sent: mean 20.5 Gbit/s"]);
    has(&text, &["19.5 Gbit/s to 21.1 Gbit/s", "completed 57, network errors 0, data errors 0", "at most 8"]);
    assert!(is_table(&utf16(STATUS)) && is_table(STATUS.as_bytes()));
    assert!(!is_table(b"{\"event\":\"begin\"}") && !is_table(b"") && !is_table(&[0xff]));
}

#[test]
fn a_streams_status_table() {
    let text = "TimeSlice,Bits/Sec,Streams,Completed,Dropped,Repeated,Errors\n5.000,290,1,240,0,0,0\n\
                10.000,24999840,1,298,2,0,0\n11.273,327566,0,60,0,1,3\n";
    let text = report_text(&[("u.csv", text.into())]);
    has(
        &text,
        &["frames completed 598, dropped 2, repeated 1, errors 3", "until 10.000 s: 2", "streams at most 1"],
    );
}

const CONNECTIONS: &str =
    "TimeSlice,LocalAddress,RemoteAddress,SendBytes,SendBps,RecvBytes,RecvBps,TimeMs,Result,ConnectionId\n";

const CLIENT: &str = "\
1.000,192.168.0.2:5001,203.0.113.1:4444,1000,2000,0,0,500,Succeeded,AAAAAAAA-0000-4000-8000-000000000001
1.500,192.168.0.2:5002,203.0.113.1:4444,900,1800,0,0,500,10054: An existing connection was forcibly closed.,aaaaaaaa-0000-4000-8000-000000000002
2.000,192.168.0.2:5003,203.0.113.2:4444,1000,1000,0,0,1000,Succeeded,aaaaaaaa-0000-4000-8000-000000000003
9.500,,,0,0,0,0,0,10061: refused,
10.000,192.168.0.2:5004,203.0.113.2:4444,0,0,0,0,10,10054: An existing connection was forcibly closed.,00000000-0000-0000-0000-000000000000
";
const SERVER: &str = "\
1.001,203.0.113.1:4444,198.51.100.7:61001,0,0,1000,2000,500,Succeeded,aaaaaaaa-0000-4000-8000-000000000001
1.501,203.0.113.1:4444,198.51.100.7:61002,0,0,800,1600,500,ErrorDataDidNotMatchBitPattern,aaaaaaaa-0000-4000-8000-000000000002
3.000,203.0.113.1:4444,198.51.100.7:61009,0,0,1000,1000,1000,Succeeded,aaaaaaaa-0000-4000-8000-000000000004
";

#[test]
fn failures_by_kind_time_and_address() {
    let text = report_text(&[("c.csv", utf16(&format!("{CONNECTIONS}{CLIENT}")))]);
    has(&text, &["c.csv: ctsTraffic, connections (TCP), 5 rows", "2 succeeded, 3 failed"]);
    has(&text, &["       2  10054: An existing connection", "       1  10061: refused"]);
    // Ten stretches of a second: one failure from 1 to 2, two from 9 to 10.
    has(&text, &["     1.000 to 2.000             1 of 2", "     9.000 to 10.000            2 of 2"]);
    let address = |host: &str, rest: &str| format!("    {host:<40} {rest}");
    has(&text, &[&address("203.0.113.1", "       1 of 2, the first at 1.500 s")]);
    has(&text, &[&address("(not known)", "       1 of 1, the first at 9.500 s")]);
}

#[test]
fn two_hosts_are_joined_by_identifier() {
    let text = report_text(&[
        ("client.csv", utf16(&format!("{CONNECTIONS}{CLIENT}"))),
        ("server.csv", format!("{CONNECTIONS}{SERVER}").into()),
    ]);
    has(&text, &["2 connections are in two files", "1 ended differently, 1 moved different bytes"]);
    has(
        &text,
        &[
            "aaaaaaaa-0000-4000-8000-000000000002: 10054: An existing connection was forcibly closed. (client.csv), \
                  ErrorDataDidNotMatchBitPattern (server.csv)",
        ],
    );
    has(&text, &["900 sent by client.csv, 800 received by server.csv"]);
    has(&text, &["Only in client.csv: 1 connections\n  aaaaaaaa-0000-4000-8000-000000000003"]);
    has(&text, &["and 2 without an identifier"]);
    has(&text, &["Only in server.csv: 1 connections\n  aaaaaaaa-0000-4000-8000-000000000004"]);
    has(&text, &["2 have other addresses at their two ends"]);
}

const JITTER: &str = "SequenceNumber,SenderQpc,SenderQpf,ReceiverQpc,ReceiverQpf,RelativeInFlightTimeMs,\
PrevToCurrentInFlightTimeJitter\n";

/// 10 MHz at both ends, a frame every 100 ms; the second is 3 ms late, the third lost.
fn jitter_rows(times: i64) -> String {
    let row = |seq: i64, sent: i64, came: i64, flight: &str, jitter: &str| {
        format!("{seq},{},{},{came},10000000,{flight},{jitter}\n", sent * times, 10_000_000 * times)
    };
    [
        row(1, 1_000_001, 5_000_000, "0.000", "0.000"),
        row(2, 2_000_001, 6_030_000, "3.000", "3.000"),
        "3,0,0,0,0,0.000,0.000\n".to_owned(),
        row(4, 4_000_001, 8_000_000, "0.000", "3.000"),
    ]
    .concat()
}

#[test]
fn stamps_read_two_bytes_early_are_put_right() {
    let plain = report_text(&[("j.csv", format!("{JITTER}{}", jitter_rows(1)).into())]);
    let shifted = report_text(&[("j.csv", utf16(&format!("{JITTER}{}", jitter_rows(65_536))))]);
    let note = "  the sender's stamps were read two bytes early (ctsTraffic on Windows): divided by 65536\n";
    has(&shifted, &[note]);
    assert_eq!(shifted.replace(note, ""), plain, "the same figures");
    has(&plain, &["3 whole frames, 1 dropped", "mean 3.000, median 3.000", "0.000 to 3.000"]);
    has(&plain, &["widest gap between frames in a row, ms: 100.000 sent, 103.000 received"]);
    let Some(CsvTable::Jitter { rows, undone: true, .. }) =
        CsvTable::read(format!("{JITTER}{}", jitter_rows(65_536)).as_bytes())
    else {
        panic!("no jitter table")
    };
    let FrameStamps { sender_ticks, sender_hz, receiver_ticks, receiver_hz } = rows[0].stamps;
    let stamps = [sender_ticks, sender_hz, receiver_ticks, receiver_hz];
    assert_eq!(stamps, [1_000_001, 10_000_000, 5_000_000, 10_000_000]);
}

#[test]
fn tcp_info_rows_have_spaces_and_may_be_short() {
    let text = "TimeSlice,LocalAddress,RemoteAddress,ConnectionId,SendBytes,SendBps,RecvBytes,RecvBps,TimeMs,\
                BytesReordered,BytesRetransmitted,SynRetransmitted,DupAcksIn,MinRttUs,Mss,TimeoutEpisodes,FastRetransmit,\
                SndLimBytesCwnd,SndLimBytesRwin,SndLimBytesSnd\n\
                1.000, 10.0.0.1:5, 10.0.0.2:4444, aaaaaaaa-0000-4000-8000-000000000001, 9, 9, 0, 0, 1000, 0, 2896, 1, 5, \
                40, 1448, 0, 2, 7, 8, 9\n\
                2.000, 10.0.0.1:6, 10.0.0.2:4444, aaaaaaaa-0000-4000-8000-000000000002, 9, 9, 0, 0, 1000, 0, 0, 0, , 60, \
                1448, 0, 0\n\
                3.000, cut off";
    let text = report_text(&[("t.csv", text.into())]);
    has(&text, &["TCP info (TCP), 2 rows, 1 damaged ones passed over"]);
    has(&text, &["BytesRetransmitted   sum 2896, least 0, mean 1448, most 2896"]);
    has(&text, &["DupAcksIn            sum 5", "SndLimBytesSnd       sum 9", "10.0.0.2:4444: 2.83 KiB"]);
}

#[test]
fn hostile_tables_do_no_harm() {
    let wild = "99999999999999999999,-1,x,,,,\n,,,,,,\n1e400,1,1,1,1,1,1\nNaN,1,1,1,1,1,1\n\u{0}\n";
    for header in [STATUS, CONNECTIONS, JITTER] {
        report_text(&[("w.csv", format!("{header}{wild}").into())]);
        report_text(&[("w.csv", header.into())]);
    }
    let most = "1,9223372036854775807,-9223372036854775808,-9223372036854775808,0,1e308,-1e308\n";
    report_text(&[("j.csv", format!("{JITTER}{most}{most}").into())]);
    let mut cut = utf16(CONNECTIONS);
    cut.pop();
    report_text(&[("a.csv", utf16(CONNECTIONS)), ("b.csv", utf16(&format!("{CONNECTIONS}{CLIENT}")))]);
    assert!(!is_table(&cut[..cut.len() / 2]));
}

/// Tables with bytes changed, doubled and cut out: reading never panics.
#[test]
fn damaged_tables_do_no_harm() {
    let whole = [
        format!("{STATUS}0.001,2,0,8,0,0,0\n5.002,2635514317,124,8,8,0,0\n"),
        format!("{CONNECTIONS}{CLIENT}"),
        format!("{JITTER}{}", jitter_rows(65_536)),
    ];
    let mut rng = transport::Rng::new(1);
    let mut draw = |below: usize| rng.between(0, below.max(1) as u64 - 1) as usize;
    const LIKELY: &[u8] = b"0123456789-.,\n\r e\xff\0[]:";
    for n in 0..crate::compat::inputs() {
        let mut bytes = whole[draw(3)].clone().into_bytes();
        let header = bytes.iter().position(|b| *b == b'\n').unwrap();
        for _ in 0..1 + draw(6) {
            let at = header + draw(bytes.len() - header);
            match draw(4) {
                0 => bytes[at] = LIKELY[draw(LIKELY.len())],
                1 => bytes.insert(at, b'9'),
                2 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(header + 1)),
            }
            if bytes.len() <= header + 1 {
                break;
            }
        }
        let other = NamedFile { name: "b".to_owned(), bytes: whole[1].clone().into_bytes() };
        let files = [NamedFile { name: "a".to_owned(), bytes }, other];
        // Beside another one or alone.
        report(&files[..if n % 4 == 0 { 2 } else { 1 }]).unwrap_or_default();
    }
}
