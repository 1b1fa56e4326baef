//! Files of other programs by format, version, direction and oddity, each with its truth beside it.

use super::read;
use model::{Figure, Outcome, Point, Stat, Status, Way};

/// The file of this name.
macro_rules! file {
    ($name:literal) => {
        include_bytes!(concat!("../../tests/imported/", $name)).as_slice()
    };
}

/// Of a direction: the rate, Mbit/s, and whether the receiver's own count confirms it.
type Rate = Option<(f64, bool)>;

struct Truth {
    status: Status,
    verb: &'static str,
    up: Rate,
    down: Rate,
    /// Rates of the senders, Mbit/s.
    sent: [Option<f64>; 2],
    /// Percent lost.
    loss: [Option<f64>; 2],
    retransmits: Option<f64>,
}

const TRUTH: Truth = Truth {
    status: Status::Complete,
    verb: "tcp",
    up: None,
    down: None,
    sent: [None; 2],
    loss: [None; 2],
    retransmits: None,
};

impl Truth {
    /// A sender's own count of what it sent back, Mbit/s.
    const fn sends_back(mbit: f64, retransmits: Option<f64>) -> Truth {
        Truth { down: Some((mbit, false)), sent: [None, Some(mbit)], retransmits, ..TRUTH }
    }

    /// A server's own counts of both directions, Mbit/s.
    const fn both_ways(mbit: f64, retransmits: Option<f64>) -> Truth {
        Truth { up: Some((mbit, true)), ..Truth::sends_back(mbit, retransmits) }
    }
}

#[track_caller]
fn runs(bytes: &[u8]) -> Vec<Outcome> {
    let (runs, errors) = read(bytes).unwrap();
    assert_eq!(errors, [""; 0]);
    runs
}

#[track_caller]
fn run(bytes: &[u8]) -> Outcome {
    let mut runs = runs(bytes);
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

/// The phase of the streams.
fn point(outcome: &Outcome) -> &Point {
    outcome.points.last().unwrap()
}

#[track_caller]
fn near(name: &str, got: Option<f64>, want: Option<f64>) {
    match (got, want) {
        (Some(got), Some(want)) => {
            assert!((got - want).abs() <= want.abs() * 5e-3, "{name}: {got}, not {want}");
        }
        _ => assert_eq!(got, want, "{name}"),
    }
}

#[track_caller]
fn is(name: &str, bytes: &[u8], truth: &Truth) -> Outcome {
    let outcome = run(bytes);
    let point = point(&outcome);
    assert_eq!((outcome.status, outcome.begin.verb.as_str()), (truth.status, truth.verb), "{name}");
    for (at, way) in Way::ALL.into_iter().enumerate() {
        let want = if at == 0 { truth.up } else { truth.down };
        let name = format!("{name}, {}", way.words());
        near(&name, Figure::Goodput(way).of(point), want.map(|(mbit, _)| mbit * 1e6));
        assert_eq!(
            way.direction(point).map(|of| of.confirmed),
            want.map(|(_, confirmed)| confirmed),
            "{name}"
        );
        near(&format!("{name}, sent"), Figure::Sent(way).of(point), truth.sent[at].map(|mbit| mbit * 1e6));
        near(&format!("{name}, lost"), Figure::Loss(way).of(point), truth.loss[at]);
    }
    near(&format!("{name}, retransmits"), Figure::Retransmits.of(point), truth.retransmits);
    outcome
}

#[test]
fn iperf3_by_version_end_and_direction() {
    // Bytes over seconds of the file itself; a server has its own counts only.
    let mbit = |bytes: f64, seconds: f64| bytes * 8.0 / seconds / 1e6;
    let tcp = mbit(50_069_504.0, 2.000_662);
    let both = mbit(25_034_752.0, 2.000_208);
    let back = mbit(50_069_504.0, 2.000_105);
    let udp = mbit(1_277_952.0, 2.000_43);
    let udp_back = mbit(1_277_952.0, 2.000_189);
    let slow = mbit(524_288.0, 1.999_604);
    let zero = Some(0.0);
    for (name, bytes, truth) in [
        ("3.12 server", file!("iperf3-3.12-tcp.server.json"), Truth { up: Some((tcp, true)), ..TRUTH }),
        ("3.21 server", file!("iperf3-3.21-tcp.server.json"), Truth { up: Some((tcp, true)), ..TRUTH }),
        ("3.12 server -R", file!("iperf3-3.12-tcp-R.server.json"), Truth::sends_back(back, Some(2.0))),
        (
            "3.12 client -R",
            file!("iperf3-3.12-tcp-R.json"),
            Truth { down: Some((back, true)), sent: [None, Some(back)], retransmits: Some(2.0), ..TRUTH },
        ),
        (
            "3.21 server -R",
            file!("iperf3-3.21-tcp-R.server.json"),
            Truth::sends_back(mbit(51_511_296.0, 2.059_34), zero),
        ),
        ("3.12 server --bidir", file!("iperf3-3.12-bidir.server.json"), Truth::both_ways(both, zero)),
        ("3.21 server --bidir", file!("iperf3-3.21-bidir.server.json"), Truth::both_ways(both, zero)),
        (
            "3.12 server -u",
            file!("iperf3-3.12-udp.server.json"),
            Truth { verb: "delay", up: Some((udp, true)), loss: [zero, None], ..TRUTH },
        ),
        (
            "3.12 server -u -R",
            file!("iperf3-3.12-udp-R.server.json"),
            Truth { verb: "delay", ..Truth::sends_back(udp_back, None) },
        ),
        (
            "3.21 server -u -R",
            file!("iperf3-3.21-udp-R.server.json"),
            Truth { verb: "delay", ..Truth::sends_back(mbit(1_277_952.0, 2.005_029), None) },
        ),
        (
            "3.12 server -u --bidir",
            file!("iperf3-3.12-udp-bidir.server.json"),
            Truth { verb: "delay", loss: [zero, None], ..Truth::both_ways(slow, None) },
        ),
        (
            "3.12 client -u --bidir",
            file!("iperf3-3.12-udp-bidir.json"),
            Truth {
                verb: "delay",
                up: Some((slow, true)),
                down: Some((slow, true)),
                sent: [Some(slow), Some(slow)],
                loss: [zero, zero],
                ..TRUTH
            },
        ),
        ("server -R, by hand", file!("iperf3-server-reverse.json"), Truth::sends_back(200.0, Some(2.0))),
        ("server --bidir, by hand", file!("iperf3-server-bidir.json"), Truth::both_ways(200.0, zero)),
        (
            "3.1 -u, half lost",
            file!("iperf3-3.1-udp-half-lost.json"),
            Truth {
                verb: "delay",
                up: Some((40.96, true)),
                sent: [Some(81.92), None],
                loss: [Some(50.0), None],
                ..TRUTH
            },
        ),
        (
            "--json-stream",
            file!("iperf3-stream.jsonl"),
            Truth { up: Some((196.0, true)), sent: [Some(200.0), None], retransmits: zero, ..TRUTH },
        ),
        (
            "interrupted",
            file!("iperf3-interrupted.json"),
            Truth {
                status: Status::Interrupted,
                up: Some((160.0, false)),
                sent: [Some(160.0), None],
                retransmits: zero,
                ..TRUTH
            },
        ),
    ] {
        let outcome = is(name, bytes, &truth);
        for interval in &point(&outcome).intervals {
            // What a server does not know is no reading of 0.
            let rate = Figure::Goodput(Way::Down).of_interval(interval);
            assert!(rate != Some(0.0) || truth.down.is_none_or(|(_, confirmed)| confirmed), "{name}");
        }
    }
    let stream = run(file!("iperf3-stream.jsonl"));
    assert_eq!(point(&stream).intervals.len(), 2);
    assert!(run(file!("iperf3-interrupted.json")).reason.unwrap().contains("terminated"));
    assert_eq!(run(file!("iperf3-3.21-stream.jsonl")).points[0].intervals.len(), 2);
    let refused = read(file!("iperf3-3.21-connrefused.json")).unwrap().1.concat();
    assert!(refused.contains("Connection refused"), "{refused}");
}

#[test]
fn a_good_document_is_read_whatever_is_around_it() {
    let plain = file!("iperf3-plain.json");
    let text = String::from_utf8(plain.to_vec()).unwrap();
    let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let loose = text.replacen("\"retransmits\": 0", "\"retransmits\": -nan, \"x\": 5.9e 06", 1);
    let same = Truth { up: Some((200.0, true)), sent: [Some(200.0), None], retransmits: Some(0.0), ..TRUTH };
    for (name, bytes, notice) in [
        ("plain", plain.to_vec(), ""),
        ("marked", [&[0xef, 0xbb, 0xbf][..], plain].concat(), ""),
        ("UTF-16", [&[0xff, 0xfe][..], &wide].concat(), ""),
        ("UTF-16 without mark", wide, ""),
        ("a line before", [&b"warning: x\n"[..], plain].concat(), "line 1 ('warning: x')"),
        ("a line behind", [plain, b"\niperf3: error - x\n"].concat(), "('iperf3: error - x')"),
    ] {
        let outcome = is(name, &bytes, &same);
        assert!(notice.is_empty() || outcome.notices[0].contains(notice), "{name}: {:?}", outcome.notices);
    }
    is("numbers of printf", loose.as_bytes(), &Truth { retransmits: None, ..same });
    let both = runs(&[plain, b"\n", plain].concat());
    assert_eq!(both.len(), 2, "of two documents two runs");
}

#[test]
fn numbers_that_no_test_can_have_are_unknown_and_named() {
    let text = String::from_utf8(file!("iperf3-plain.json").to_vec()).unwrap();
    for odd in ["1e308", "18446744073709551615", "1e40", "-5", "\"x\""] {
        // The bytes received, which are the last ones.
        let at = text.rfind("\"bytes\": 50000000").unwrap();
        let changed = format!("{}\"bytes\": {odd}{}", &text[..at], &text[at + "\"bytes\": 50000000".len()..]);
        let outcome = run(changed.as_bytes());
        let up = point(&outcome).up.unwrap();
        assert_eq!((up.confirmed, up.sent_bytes), (false, 50_000_000), "{odd}");
        assert!(outcome.notices.concat().contains("no test can have"), "{odd}: {:?}", outcome.notices);
    }
    let more = text.replace("\"bytes\": 50000000", "\"bytes\": 99000000");
    let at = more.find("\"sum_sent\"").unwrap();
    let more = format!("{}{}", &more[..at], more[at..].replacen("99000000", "50000000", 1));
    let outcome = run(more.as_bytes());
    assert!(!point(&outcome).up.unwrap().confirmed, "more received than sent");
    assert!(outcome.notices.concat().contains("more bytes received"), "{:?}", outcome.notices);
    let streams = text.replace("\"num_streams\": 1", "\"num_streams\": 4294967295");
    assert_eq!(point(&run(streams.as_bytes())).phase.connections, 1);
}

#[test]
fn flents_places_without_a_reading_are_no_reading_of_0() {
    let slow = Truth { up: Some((0.84, false)), sent: [Some(0.84), None], ..TRUTH };
    let outcome = is("slow streams", file!("flent-slow-streams.flent"), &slow);
    assert_eq!(point(&outcome).phase.connections, 4);
    let up: Vec<f64> =
        point(&outcome).intervals.iter().filter_map(|i| i.sent_bps()).filter(|bps| *bps > 0.0).collect();
    assert!(up.len() > 190, "{}", up.len());
    let fair = Truth { up: Some((50.0, false)), sent: [Some(50.0), None], ..TRUTH };
    let outcome = is("fairness", file!("flent-fairness.flent"), &fair);
    assert_eq!(point(&outcome).phase.connections, 2);
    assert!(outcome.notices.concat().contains("TCP upload fairness"), "{:?}", outcome.notices);
    assert_eq!(Figure::RoundTrip(Stat::MEDIAN).of(&outcome.points[0]).map(f64::round), Some(10e6));
    let http = read(file!("flent-http-only.flent")).unwrap().1.concat();
    assert!(http.contains("HTTP latency"), "{http}");
}

#[test]
fn ntttcp_over_datagrams_is_no_run_of_connections() {
    let truth = Truth { verb: "delay", up: Some((800.0, false)), sent: [Some(800.0), None], ..TRUTH };
    is("XML", file!("ntttcp-udp.xml"), &truth);
    let json = br#"{"ntttcps":{"computername":"a","version":"5.33-linux","parameters":{"udp":"True"},"threads":[],
        "totalBytes":{"metric":"MB","value":"300"},"realTime":{"metric":"s","value":"3"},"packetsRetransmitted":"7"}}"#;
    is("JSON", json, &truth);
}

#[test]
fn json_lines_of_other_programs_are_refused_and_a_run_has_a_verb() {
    for text in [
        "{\"event\":\"begin\",\"x\":1}\n{\"event\":\"end\"}\n",
        "{\"event\":\"interval\"}\n",
        "{\"level\":\"info\"}\n{\"level\":\"warn\"}\n",
        "{\"schema\":\"other.v1\"}",
        "{\"event\":\"start\",\"data\":{\"a\":1}}\n{\"event\":\"end\",\"data\":{}}\n",
    ] {
        let (runs, errors) = read(text.as_bytes()).unwrap();
        assert!(runs.is_empty() && !errors.is_empty(), "{text}");
    }
}

#[test]
fn names_of_a_file_are_clean() {
    let text = String::from_utf8(file!("iperf3-plain.json").to_vec()).unwrap();
    let text = text.replace("host-a", "host\\u001b[31m\\u202e").replace("192.0.2.2", "a\\u009bb");
    let outcome = run(text.as_bytes());
    let bad = |text: &str| text.chars().any(|c| c.is_control() || c == '\u{202e}');
    assert!(!bad(&outcome.begin.host.name) && !outcome.begin.targets.iter().any(|name| bad(name)));
}

/// `value` with `to` in place of each member called `key`.
fn changed(value: &serde_json::Value, key: &str, to: f64) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Array(items) => items.iter().map(|item| changed(item, key, to)).collect(),
        Value::Object(map) => {
            let member = |(name, value): (&String, &Value)| {
                let value =
                    if name == key && value.is_number() { to.into() } else { changed(value, key, to) };
                (name.clone(), value)
            };
            Value::Object(map.iter().map(member).collect())
        }
        other => other.clone(),
    }
}

#[test]
fn a_time_of_0_and_counts_without_a_use_are_no_result() {
    let plain: serde_json::Value = serde_json::from_slice(file!("iperf3-plain.json")).unwrap();
    let same = Truth { up: Some((200.0, true)), sent: [Some(200.0), None], retransmits: Some(0.0), ..TRUTH };
    // The ends of a span have its time, too.
    let timeless = changed(&plain, "seconds", 0.0);
    is("seconds of 0", timeless.to_string().as_bytes(), &same);
    let nowhere = changed(&changed(&timeless, "start", 0.0), "end", 0.0);
    let odd = changed(&plain, "bytes", 1e308);
    for (document, words) in [(nowhere, "moved in 0 s"), (odd, "none of its counts of bytes can be used")] {
        let (runs, errors) = read(document.to_string().as_bytes()).unwrap();
        assert!(runs.is_empty() && errors.concat().contains(words), "{errors:?}");
    }
    assert_eq!(runs(format!("[{plain}, {plain}]").as_bytes()).len(), 2);
}

/// A client's iperf3 document of 2 s at 200 Mbit/s, with `change` applied.
fn iperf3_with(change: impl Fn(&mut serde_json::Value)) -> serde_json::Value {
    let row = |from: u32| serde_json::json!({"sum": {"start": from, "end": from + 1, "seconds": 1, "bytes": 25_000_000}});
    let sum = serde_json::json!({"start": 0, "end": 2, "seconds": 2, "bytes": 50_000_000, "retransmits": 0});
    let mut document = serde_json::json!({
        "start": {"version": "iperf 3.12", "timestamp": {"timesecs": 1_795_148_460},
            "connecting_to": {"host": "192.0.2.2"},
            "test_start": {"protocol": "TCP", "num_streams": 1, "duration": 2, "blksize": 131_072}},
        "intervals": [row(0), row(1)],
        "end": {"sum_sent": sum, "sum_received": sum},
    });
    change(&mut document);
    document
}

/// An assumption is a notice, and a part larger than its whole is unknown.
#[test]
fn odd_documents_of_iperf3_are_read_as_far_as_they_are_sound() {
    let bytes = |document: &serde_json::Value| document.to_string().into_bytes();
    let timeless = iperf3_with(|document| {
        for sum in ["sum_sent", "sum_received"] {
            document["end"][sum]["seconds"] = 0.into();
            document["end"][sum]["end"] = 0.into();
        }
    });
    is(
        "no time in the sums",
        &bytes(&timeless),
        &Truth { up: Some((200.0, true)), sent: [Some(200.0), None], retransmits: Some(0.0), ..TRUTH },
    );
    let sctp = iperf3_with(|document| document["start"]["test_start"]["protocol"] = "SCTP".into());
    assert!(read(&bytes(&sctp)).unwrap().1[0].contains("its test was over SCTP"));
    for (is_udp, verb) in [(false, "tcp"), (true, "delay")] {
        let unnamed = iperf3_with(|document| {
            document["start"]["test_start"].as_object_mut().unwrap().remove("protocol");
            if is_udp {
                for sum in ["sum_sent", "sum_received"] {
                    document["end"][sum]["packets"] = 1_000.into();
                    document["end"][sum]["lost_packets"] = 100.into();
                }
            }
        });
        let outcome = run(&bytes(&unnamed));
        assert_eq!(outcome.begin.verb, verb);
        assert!(outcome.notices.iter().any(|text| text.contains("is assumed")), "{:?}", outcome.notices);
    }
    let beyond = iperf3_with(|document| {
        document["start"]["test_start"]["protocol"] = "UDP".into();
        document["end"] = serde_json::json!({"sum": {"start": 0, "end": 2, "seconds": 2, "bytes": 20_000_000,
            "packets": 10_000, "lost_packets": 20_000, "jitter_ms": 0.1}});
    });
    let outcome = run(&bytes(&beyond));
    let direction = point(&outcome).up.unwrap();
    assert_eq!((outcome.status, direction.confirmed), (Status::Complete, false), "{outcome:?}");
    near("sent", Figure::Goodput(Way::Up).of(point(&outcome)), Some(80e6));
    assert_eq!(Figure::Loss(Way::Up).of(point(&outcome)), None);
    let nothing = iperf3_with(|document| document["end"]["sum_received"]["bytes"] = 0.into());
    let outcome = run(&bytes(&nothing));
    let reason = outcome.reason.unwrap();
    assert_eq!((outcome.status, reason.as_str()), (Status::Failed, "no payload arrived at the server"));
}

/// `--json-stream-full-output` writes the events of a test, then its document: one run. A test that
/// could not begin has an event of its failure alone.
#[test]
fn events_with_their_document_behind_them_are_one_run() {
    let document = iperf3_with(|_| {});
    let mut lines = vec![serde_json::json!({"event": "start", "data": document["start"]})];
    lines.extend(
        document["intervals"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| serde_json::json!({"event": "interval", "data": row})),
    );
    lines.push(serde_json::json!({"event": "end", "data": document["end"]}));
    let events: String = lines.iter().map(|line| format!("{line}\n")).collect();
    for whole in [document.to_string(), format!("{document:#}")] {
        is(
            "events and document",
            format!("{events}{whole}\n").as_bytes(),
            &Truth { up: Some((200.0, true)), sent: [Some(200.0), None], retransmits: Some(0.0), ..TRUTH },
        );
    }
    let (runs, errors) = read(b"{\"event\":\"error\",\"data\":\"unable to connect\"}\n").unwrap();
    assert_eq!((runs.len(), errors.join("")), (0, "the test of iperf3 failed: unable to connect".to_owned()));
}

/// irtt counts repeated packets as received.
#[test]
fn repeats_of_irtt_are_not_received_twice() {
    let trip = |ns: u64| serde_json::json!({"timestamps": {"client": {"send": {"monotonic": 0}}}, "delay": {"rtt": ns}});
    let document = serde_json::json!({
        "version": {"irtt": "0.9.0"}, "config": {"params": {"length": 0, "interval": 10_000_000}},
        "stats": {"packets_sent": 3, "packets_received": 4, "duplicates": 2},
        "round_trips": [trip(1_000), trip(2_000), {"delay": {"rtt": null}}],
    });
    let outcome = run(document.to_string().as_bytes());
    let counts = point(&outcome).local.pings.as_ref().unwrap().counts;
    assert_eq!((counts.sent, counts.received, counts.lost, counts.repeated), (3, 2, 1, 2));
}

#[test]
fn tables_and_reports_that_are_cut_say_so() {
    let header = "TimeSlice,SendBps,RecvBps,In-Flight,Completed,NetError,DataError\n";
    assert!(
        read(header.as_bytes()).unwrap().1[0].contains("holds no result"),
        "{:?}",
        read(header.as_bytes()).unwrap()
    );
    let failed = "TimeSlice,LocalAddress,RemoteAddress,SendBytes,SendBps,RecvBytes,RecvBps,TimeMs,Result,ConnectionId\n\
        2.0,10.0.0.1:5000,10.0.0.2:4444,0,0,0,0,2000,10060,01234567-89ab-cdef-0123-456789abcdef\n\
        3.0,0.0.0.0:0,10.0.0.2:4444,0,0,0,0,0,10061,01234567-89ab-cdef-0123-456789abcdef\n";
    let outcome = run(failed.as_bytes());
    assert_eq!((outcome.status, point(&outcome).local.opened), (Status::Failed, 0));
    assert!(!outcome.reason.unwrap().contains("established"));
    let cut = "<ntttcps computername=\"a\" version=\"5.33-linux\">\n<total_bytes metric=\"MB\">300</total_bytes>\n\
        <realtime metric=\"s\">3</realtime>\n<throughput metric=\"MB/s\">100.0";
    let outcome = run(cut.as_bytes());
    assert!(
        outcome.notices.iter().any(|text| text == "the file ends before it is whole"),
        "{:?}",
        outcome.notices
    );
}
