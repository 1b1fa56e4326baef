//! Command lines of UDPmon's and tcpmon's programs.

use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

pub(in crate::compat) fn spec(program: Program, text: &str) -> Spec {
    match read(program, &words(text)) {
        Ok(Request::Run(spec)) => *spec,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn the_defaults_are_those_of_the_original() {
    let s = spec(Program::BwMon, "-d 10.0.0.1");
    assert_eq!(
        (s.port, s.packet_tests.size, s.packet_tests.packets, s.packet_tests.waits),
        (14_233, 64, 2, vec![0])
    );
    assert_eq!(
        (s.packet_tests.bin_width, s.packet_tests.low, s.packet_tests.bursts, s.packet_tests.histograms),
        (1, 0, 1, false)
    );
    let s = spec(Program::Req, "-d h -p 20");
    assert_eq!(
        (s.packet_tests.size, s.packet_tests.packets, s.packet_tests.responses),
        (64, 10, (1472, 0, 0))
    );
    assert_eq!(s.phase().check(), Ok(()));
}

#[test]
fn every_option_is_understood() {
    let s = spec(
        Program::BwMon,
        "-d ::1 -u77 -U 78 -p 1000 -l 60 -w 20 -e 40.5 -i 10 -H -x -B 5 -M 3 -G 5:20 -N -A 1 -q -S 1000000 -Qb8 -a 3",
    );
    assert_eq!((s.port, s.from, s.v6, s.extended, s.quiet), (77, Some(78), true, true, true));
    assert_eq!(s.packet_tests.waits, [200, 300, 400]);
    assert_eq!(s.packet_tests.records, PacketTestRecords::Packets { skip: 5, n: 20 });
    assert!(s.packet_tests.stamps && s.packet_tests.acks && s.packet_tests.histograms && s.packet_tests.cpu);
    assert_eq!((s.tos, s.cores.clone(), s.buffer), (Some(0xb8), Some(vec![0, 1]), Some(1_000_000)));
    assert_eq!(s.phase().sockets.dscp, Some(46));
    // Seen on the wire: -P 5 -T 4 is 0xa8.
    assert_eq!(spec(Program::BwMon, "-d h -P 5 -T 4").tos, Some(0xa8));
    // 1000 bytes at 100 Mbit/s: 80 µs.
    assert_eq!(spec(Program::BwMon, "-d h -p 1000 -r 100").packet_tests.waits, [800]);
    let s = spec(Program::BwMon, "-d h -l 10 -g 500 -n 5 -t 3");
    assert_eq!(
        (s.packet_tests.gap, s.packet_tests.bursts, s.packet_tests.time_ns),
        (5_000, 5, Some(3 * SECOND))
    );
    let s = spec(Program::Req, "-d h -r 64 -i 128 -e 1500 -w 7 -b 2 -m 1 -H");
    assert_eq!(
        (s.packet_tests.responses, s.packet_tests.waits, s.packet_tests.bin_width),
        ((64, 1500, 128), vec![70], 2)
    );
    let s = spec(Program::Recv, "-t 9 -T 2 -H -L 3 -B 10 -I eth0 --save run.jsonl");
    assert_eq!((s.life_ns, s.packet_tests.every_ns), (Some(9 * SECOND), Some(2 * SECOND)));
    assert_eq!((s.packet_tests.cards, s.save), (vec!["eth0".to_owned()], Some("run.jsonl".into())));
    assert_eq!(spec(Program::BwMon, "-d h -Q b9").ignored.len(), 1);
    assert!(spec(Program::Send, "-d h --as-original").packet_tests.drift);
    // The steps of cmd_throughput: every 0.1 µs must be kept.
    let waits = spec(Program::BwMon, "-d h -w 0.3 -e 0.7 -i 0.1").packet_tests.waits;
    assert_eq!(waits, [3, 4, 5, 6, 7]);
}

#[test]
fn tcpmon_has_letters_of_its_own() {
    let s = spec(Program::TcpMon, "-d h -p 10 -l 40 -w 100 -S 0 -F 1000 -A 1 -N -C");
    assert_eq!((s.packet_tests.size, s.packet_tests.packets, s.buffer, s.mss), (144, 40, None, Some(1000)));
    assert!(s.ignored.iter().any(|text| text.starts_with("-p 10 (144 bytes")), "{:?}", s.ignored);
    assert_eq!((s.cores, s.apart), (Some(vec![1]), (true, true)));
    assert_eq!(spec(Program::TcpMon, "-d h").packet_tests.size, 10_000);
    // The responder's -F has no value, and of some letters the original makes nothing.
    let resp = spec(Program::TcpResp, "-F -S 100000 -L 5 -d h");
    assert_eq!((resp.mss, &resp.packet_tests.records), (Some(1460), &PacketTestRecords::None));
    let phase = resp.phase();
    assert_eq!((phase.check(), phase.kind, phase.sockets.rcvbuf), (Ok(()), Kind::Tcp, Some(100_000)));
}

#[test]
fn what_cannot_be_is_one_sentence() {
    for (program, bad, why) in [
        (Program::BwMon, "", "-d HOST"),
        (Program::BwMon, "-d h -p many", "whole number"),
        (Program::BwMon, "-d h -e 9 -i 0", "never"),
        (Program::BwMon, "-d h -B 0", "bin"),
        (Program::BwMon, "-d h -p 70000", "65507"),
        (Program::BwMon, "-d", "takes a value"),
        (Program::Req, "-d h -x", "'-x' is not an option of udpmon_req"),
        (Program::Resp, "host", "'host' is not an option"),
        (Program::Req, "-d h -r 64 -e 100", "step"),
    ] {
        let told = read(program, &words(bad)).unwrap_err();
        assert!(told.contains(why), "{bad}: {told}");
    }
    assert_eq!(read(Program::Resp, &words("-h")), Ok(Request::Help));
    assert_eq!(read(Program::TcpMon, &words("--help")), Ok(Request::Help));
    assert_eq!(read(Program::Resp, &words("-V")), Ok(Request::Version));
}
