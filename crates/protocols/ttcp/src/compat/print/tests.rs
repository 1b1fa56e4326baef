use super::*;
use metrics::Wall;

fn portion(spec: &Spec, bytes: u64, seconds: f64, calls: u64) -> Event {
    let (tx_bytes, rx_bytes) = if spec.sends() { (bytes, 0) } else { (0, bytes) };
    Event::Portion(Box::new(Portion {
        slot: 0,
        local: ([192, 168, 212, 18], 5001).into(),
        remote: ([192, 168, 212, 19], 40_000).into(),
        tx_bytes,
        rx_bytes,
        from_ns: 5_000,
        to_ns: 5_000 + (seconds * 1e9).round() as u64,
        calls,
        cut: false,
    }))
}

fn printed(spec: &Spec, events: &[Event]) -> (Vec<String>, Vec<String>) {
    let mut printer = Printer::new(spec.clone(), false);
    let (mut out, mut err) = (String::new(), String::new());
    let start = Event::Start { at: Wall(0) };
    let up = Event::Established {
        local: ([192, 168, 212, 18], 5001).into(),
        remote: ([192, 168, 212, 19], 40_000).into(),
        at_ns: 1,
    };
    let end = Event::PhaseEnd { status: Status::Complete, reason: None };
    for event in [&start, &up].into_iter().chain(events).chain([&end]) {
        let printed = printer.on_event(event);
        out += &printed.out.0;
        err += &printed.err.0;
    }
    let lines = |text: String| text.lines().map(str::to_owned).collect();
    (lines(out), lines(err))
}

fn teldat(role: TransferRole) -> Spec {
    Spec { role, ..Spec::new(Dialect::Teldat) }
}

fn to(host: &str) -> TransferRole {
    TransferRole::Transmit(host.to_owned())
}

/// The samples of Teldat's manual on ttcp (Dm805): role, bytes, seconds, rate, calls, ms per call.
const SAMPLES: &[(bool, u64, f64, &str, u64, &str)] = &[
    (false, 16_777_216, 1.485143, "90.374", 2048, "0.725"),
    (true, 16_777_216, 1.473657, "91.078", 2048, "0.720"),
    (false, 117_702_656, 10.022581, "93.950", 14_368, "0.698"),
    (true, 16_777_216, 0.152508, "880.070", 2048, "0.074"),
    (false, 236_847_104, 20.014945, "94.668", 28_912, "0.692"),
    (true, 16_777_216, 1.406833, "95.404", 2048, "0.687"),
];

#[test]
fn the_samples_of_the_manual_come_out_to_the_digit() {
    for &(sends, bytes, seconds, rate, calls, per_call) in SAMPLES {
        let spec = teldat(if sends { to("192.168.212.18") } else { TransferRole::Receive });
        // However many calls there were: the receiver tells full blocks.
        let told = if sends { calls } else { 9_999 };
        let (lines, _) = printed(&spec, &[portion(&spec, bytes, seconds, told)]);
        let name = if sends { "ttcp-tx" } else { "ttcp-rx" };
        let want = [
            format!("{name}: {bytes} bytes in {seconds:.6} real seconds = {rate} Mbit/sec +++"),
            format!("{name}: {calls} I/O calls, {per_call} msec(real)/call"),
        ];
        assert_eq!(lines[lines.len() - 6..lines.len() - 4], want);
    }
}

#[test]
fn the_layout_is_that_of_the_manual() {
    let spec = teldat(TransferRole::Receive);
    let (lines, err) = printed(&spec, &[portion(&spec, 16_777_216, 1.485143, 2048)]);
    assert_eq!(
        lines,
        [
            "",
            "--- TTCP ---",
            "TTCP running (Press any key to abort)...",
            "",
            "ttcp-rx: buflen=8192, nbuf=2048, align=16384/0, port=5001",
            "sockbufsize=65535",
            "",
            "# tcp receiver #",
            "ttcp-rx: accept from 192.168.212.19",
            "",
            "ttcp-rx: 16777216 bytes in 1.485143 real seconds = 90.374 Mbit/sec +++",
            "ttcp-rx: 2048 I/O calls, 0.725 msec(real)/call",
            "ttcp done.",
            "",
            "--- TTCP finished ---",
            "",
        ]
    );
    assert!(err.is_empty());
    let spec = Spec { percent: true, ..teldat(to("192.168.212.18")) };
    let (lines, _) = printed(&spec, &[portion(&spec, 16_777_216, 1.473657, 2048)]);
    assert_eq!(lines[7..10], ["# tcp sender -> 192.168.212.18 #", "# Completed... 100% #", ""]);
}

#[test]
fn what_the_sender_of_datagrams_tells_is_compared_with_what_came() {
    let spec = Spec { udp: true, epi: true, ..teldat(TransferRole::Receive) };
    // 97 of 100 buffers between 4 starts and the first end; one of the 97 came twice.
    let found = Marked { data: 97, starts: 4, ends: 1, told: Some(100), reordered: 2, repeated: 1 };
    let portion = portion(&spec, 97 * 1_000, 0.5, 103);
    let (lines, _) = printed(&spec, &[portion, Event::extra("ttcp", &found)]);
    let at = lines.iter().position(|line| line.ends_with(" +++")).unwrap();
    assert_eq!(
        lines[at + 1..at + 4],
        [
            // 500 / 103 = 4.854
            "ttcp-rx: 103 I/O calls, 4.854 msec(real)/call",
            "ttcp-rx: packets 97 data, 4 start, 1 end",
            "ttcp-rx: 4.000% (4/100) packet loss",
        ]
    );
    assert!(lines.contains(&"# udp receiver #".to_owned()) && !lines.iter().any(|l| l.contains("accept")));
}

#[test]
fn the_classic_report_divides_by_1024() {
    // CERN's ttcp -r fed by ntttcp -N: 20971520 bytes in 2.002 s, 2615 calls, with -f m.
    let spec = Spec {
        unit: Unit::Fixed { bytes: false, prefix: 2 },
        as_original: true,
        ..Spec::new(Dialect::Classic)
    };
    let (lines, err) = printed(&spec, &[portion(&spec, 20_971_520, 2.001_892, 2615)]);
    assert_eq!(err, ["ttcp-r: accept from 192.168.212.19"]);
    assert_eq!(lines[0], "ttcp-r: buflen=8192, nbuf=2048, align=16384/0, port=5001");
    assert_eq!(lines[1], "ttcp-r: sockbufsndsize=0, sockbufrcvsize=0, sockbufsize=0,  # tcp #");
    // The original printed 79.924 from a time of which it printed three digits.
    assert_eq!(lines[2], "ttcp-r: 20971520 bytes in 2.002 real seconds = 79.924 Mbit/sec +++");
    assert!(
        lines[3].starts_with("ttcp-r: 2615 I/O calls, msec/call = 0.784, calls/sec = 1306.26"),
        "{}",
        lines[3]
    );
    // The true time per call, without being asked for the original's.
    let spec = Spec { as_original: false, ..spec };
    let (lines, _) = printed(&spec, &[portion(&spec, 20_971_520, 2.001_892, 2615)]);
    assert!(lines[3].contains("msec/call = 0.766"), "{}", lines[3]);
}

#[test]
fn the_default_unit_of_the_classic_report_is_kilobytes() {
    // ttcp -r fed by nuttcp: 16777216 bytes, 884856.340 KB/sec.
    let seconds = 16_777_216.0 / 1024.0 / 884_856.340;
    let spec = Spec::new(Dialect::Classic);
    let (lines, _) = printed(&spec, &[portion(&spec, 16_777_216, seconds, 2089)]);
    let (_, rate) = lines[2].split_once(" = ").unwrap();
    let value: f64 = rate.split(' ').next().unwrap().parse().unwrap();
    assert!((value - 884_856.340).abs() < 1.0 && rate.ends_with(" KB/sec +++"), "{rate}");
}

#[test]
fn units_are_as_asked() {
    let of = |bytes, prefix| rate(Unit::Fixed { bytes, prefix }, Dialect::Teldat, 1_250_000, 1.0);
    assert_eq!(of(false, 0), "10000000.000 bit");
    assert_eq!((of(false, 1), of(true, 1)), ("10000.000 Kbit".to_owned(), "1250.000 KB".to_owned()));
    assert_eq!((of(true, 0), of(false, 3)), ("1250000.000 bytes".to_owned(), "0.010 Gbit".to_owned()));
    assert_eq!(rate(Unit::Fitting, Dialect::Teldat, 100, 1.0), "800.000 bit");
    assert_eq!(rate(Unit::Fitting, Dialect::Teldat, 100, 0.0), "0.000 bit");
}

#[test]
fn marks_come_as_buffers_move() {
    let spec = Spec { marks: Some(4), ..teldat(to("h")) };
    let interval = |buffers: u64| {
        let local =
            model::Traffic { tx_bytes: buffers * 8192, rx_bytes: 0, ns: 1, ..model::Traffic::default() };
        Event::Interval(Box::new(model::Interval { local, ..model::Interval::default() }))
    };
    let (lines, _) =
        printed(&spec, &[interval(9), interval(1), interval(2), portion(&spec, 16 * 8192, 1.0, 16)]);
    assert_eq!(lines[8], "####", "16 buffers, one for each four");
}

#[test]
fn nothing_measured_is_a_failure_unless_the_user_ended_it() {
    for (status, failed) in [(Status::Complete, true), (Status::Failed, true), (Status::Interrupted, false)] {
        let mut printer = Printer::new(teldat(TransferRole::Receive), false);
        let end = Event::PhaseEnd { status, reason: None };
        printer.on_event(&end);
        assert_eq!(printer.failed, failed, "{status:?}");
    }
}
