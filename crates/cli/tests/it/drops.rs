//! What a host's own receive buffer drops is no loss of the network: every stand-in that prints
//! losses reports the kernel's count.

use crate::support::lab::on_lab;
use crate::support::net::{Namespace, has_ipv6};
use crate::support::{BIN, Line, Outcome, Proc, as_it_is, at_once, eventually, number, skip};
use std::process::Command;

/// The receiver and the sender of a paced stream, on `PORT`; with `reversed` the receiver is the
/// client.
struct Case {
    receiver: &'static str,
    sender: &'static str,
    port: u16,
    reversed: bool,
    /// The sender has no end.
    endless: bool,
}

const fn case(port: u16, receiver: &'static str, sender: &'static str) -> Case {
    Case { receiver, sender, port, reversed: false, endless: false }
}

/// 200 Mbit/s fill the largest buffer of these in a fifth of a second.
const CASES: [Case; 6] = [
    Case {
        endless: true,
        ..case(8001, "bwdelaytester --port PORT", "bwdelaytester -c 127.0.0.1 -p 1400 -b 200 --port PORT")
    },
    case(8002, "udpmon_recv -u PORT", "udpmon_send -d 127.0.0.1 -u PORT -p 1400 -w 56 -l 70000"),
    case(
        8003,
        "ttcp -r -u -s -p PORT -l 1400",
        "delay 127.0.0.1:PORT --protocol ttcp -b 200M -t 4s -l 1400 -q",
    ),
    case(8004, "iperf3 -s -1 -p PORT", "iperf3 -c 127.0.0.1 -p PORT -u -b 200M -t 4 -l 1400"),
    case(
        8005,
        "RtTcpipServer p=PORT /udp",
        "ping 127.0.0.1:PORT -u --protocol echo --rate 18000 -l 1400 -t 4s -q",
    ),
    Case {
        reversed: true,
        ..case(
            8007,
            "ctstraffic -target:127.0.0.1 -port:PORT -protocol:udp -bitspersecond:200000000 -framerate:60 -streamlength:4 \
             -connections:1 -iterations:1",
            "ctstraffic -listen:* -port:PORT -protocol:udp -bitspersecond:200000000 -framerate:60 -streamlength:4 -serverexitlimit:1",
        )
    },
];

/// Files of a namespace, as the kernel has them now.
fn files(space: &Namespace, names: &str) -> String {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", space.name(), "cat"]).args(names.split(' '));
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// Datagrams that sockets took, and that full buffers dropped, over both families.
fn counted(space: &Namespace) -> (u64, u64) {
    let text = files(space, "/proc/net/snmp /proc/net/snmp6");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter_map(|line| line.strip_prefix("Udp: "))
        .map(|rest| rest.split(' ').collect())
        .collect();
    let of = |name: &str| {
        let at = rows[0].iter().position(|column| *column == name).unwrap();
        let six = text.lines().find_map(|line| line.strip_prefix(&format!("Udp6{name}")));
        rows[1][at].parse::<u64>().unwrap() + six.map_or(0, |n| n.trim().parse::<u64>().unwrap())
    };
    (of("InDatagrams"), of("RcvbufErrors"))
}

/// Datagrams that the receiver's sockets dropped. A client's port is the kernel's choice, and its
/// sender's sockets receive nothing.
fn dropped(space: &Namespace, case: &Case) -> u64 {
    if case.reversed {
        return counted(space).1;
    }
    let text = files(space, "/proc/net/udp /proc/net/udp6");
    let port = format!(":{:04X}", case.port);
    let sockets = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let own = sockets.filter(|row| row.get(1).is_some_and(|local| local.ends_with(&port)));
    own.filter_map(|row| row.last()?.parse::<u64>().ok()).sum()
}

fn line(space: &Namespace, words: &str, port: u16) -> Line {
    let words = words.replace("PORT", &port.to_string());
    let (verb, rest) = words.split_once(' ').unwrap();
    space.within(as_it_is(verb).args(rest))
}

/// Starts a server, whose port is taken then.
fn listening(space: &Namespace, words: &str, port: u16) -> Proc {
    let proc = line(space, words, port).spawn();
    let at = format!(":{port:04X} ");
    let all = "/proc/net/udp /proc/net/udp6 /proc/net/tcp /proc/net/tcp6";
    eventually("the port is taken", || files(space, all).contains(&at));
    proc
}

fn reports_its_drops(case: &Case) {
    const TEST: &str = "drops::every_stand_in_that_prints_losses_reports_those_of_its_own_buffer";
    let Some(space) = Namespace::for_test(TEST) else { return };
    let Case { receiver, sender, port, .. } = *case;
    let (mut receiver, mut sender) = if case.reversed {
        let sender = listening(&space, sender, port);
        (line(&space, receiver, port).spawn(), sender)
    } else {
        let receiver = listening(&space, receiver, port);
        (receiver, line(&space, sender, port).spawn())
    };
    eventually("datagrams arrive", || counted(&space).0 > 200);
    receiver.signal("STOP");
    let before = dropped(&space, case);
    // A machine on which the sender got no CPU had no overflow.
    let mut full = false;
    eventually("the buffer is full", || {
        full = dropped(&space, case) > before + 100;
        full || (!case.endless && !sender.is_running())
    });
    let stopped = dropped(&space, case);
    receiver.signal("CONT");
    if !full {
        return skip(TEST, "the sender was too slow to fill a buffer");
    }
    if case.endless {
        let before = counted(&space).0;
        eventually("datagrams arrive again", || counted(&space).0 > before + 5_000);
        sender.signal("INT");
    }
    if !case.reversed {
        sender.wait();
    }
    if receiver.is_running() && !case.reversed {
        // The rest of the socket is read first.
        let mut last = 0;
        eventually("all has been read", || std::mem::replace(&mut last, counted(&space).0) == last);
        receiver.signal("INT");
    }
    let done = receiver.wait();
    let all = done.out.clone() + &done.err;
    let before = all.split_once("were dropped by this host's receive buffer");
    let (before, _) = before.unwrap_or_else(|| panic!("no drop of {stopped}: {}", done.tell()));
    // The kernel counts merged runs: `3 merged runs, up to 114 datagrams, were`.
    let line = before.lines().last().unwrap();
    let (before, _) = line.split_once(" merged run").or_else(|| line.split_once(" datagrams ")).unwrap();
    let reported: u64 = before.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
    // A drop behind the last datagram that was read is not known to the socket; a sender of
    // messages drops answers, too.
    assert!((stopped..=counted(&space).1).contains(&reported), "{reported} of {stopped}: {}", done.tell());
}

#[test]
fn every_stand_in_that_prints_losses_reports_those_of_its_own_buffer() {
    at_once(&(0..CASES.len()).collect::<Vec<_>>(), |at| reports_its_drops(&CASES[at]));
}

#[test]
fn damage_on_the_way_is_no_overflow_of_the_receiver() {
    const TEST: &str = "drops::damage_on_the_way_is_no_overflow_of_the_receiver";
    let delay = format!("{BIN} delay $NETCALIPER_LAB_SERVER --up -t 1s --pps 500 -l 200 --json");
    let Some(done) = on_lab(TEST, "-q --only udp --seed 3 --up corrupt=5%:1:wire", &delay) else { return };
    let outcome = Outcome::of(done);
    let packets = &outcome.remote()[0]["packets"];
    let (lost, damaged) = (number(&packets["counts"]["lost"]), number(&packets["damaged"]));
    assert_eq!(packets["counts"]["dropped"], 0, "{packets}");
    assert!(damaged > 0 && damaged <= lost, "{packets}");
    assert!(outcome.caveat("receive-buffer-overflow").is_none());
    assert!(outcome.caveats("damaged-on-the-way").contains(&format!("{damaged} of {lost}")));
}

#[test]
fn a_class_that_the_path_clears_is_named_in_both_directions() {
    const TEST: &str = "drops::a_class_that_the_path_clears_is_named_in_both_directions";
    let delay = format!("{BIN} delay $NETCALIPER_LAB_SERVER --bidir --dscp ef -t 1s --pps 100 --json");
    let Some(done) = on_lab(TEST, "-q --dscp 0", &delay) else { return };
    let outcome = Outcome::of(done);
    let text = outcome.caveats("dscp-changed");
    assert_eq!(text.matches("sent EF, arrived as 0").count(), 2, "{text}");
    assert!(text.contains("to this host") && text.contains("to server"), "{text}");
}

/// The kernel keeps the class of an IPv4 handshake for the accepting end, and of IPv6 segments for
/// both.
#[test]
fn a_class_that_the_path_clears_is_named_for_tcp_where_the_kernel_keeps_it() {
    const TEST: &str = "drops::a_class_that_the_path_clears_is_named_for_tcp_where_the_kernel_keeps_it";
    let run = |conditions: &str, server: &str| {
        let command = format!("{BIN} tcp ${server} -P 2 --bidir --dscp ef -t 500ms --json");
        Some(Outcome::of(on_lab(TEST, &format!("-q {conditions}"), &command)?))
    };
    let Some(outcome) = run("--dscp 0", "NETCALIPER_LAB_SERVER") else { return };
    let text = outcome.caveats("dscp-changed");
    assert!(text.contains("(to server 10.77.0.2:7411: sent EF, arrived as 0)"), "{text}");
    if !has_ipv6() {
        return skip(TEST, "this machine has no IPv6");
    }
    let outcome = run("--dscp cs1", "NETCALIPER_LAB_SERVER6").unwrap();
    let text = outcome.caveats("dscp-changed");
    assert_eq!(text.matches("sent EF, arrived as CS1").count(), 2, "{text}");
    let outcome = run("", "NETCALIPER_LAB_SERVER6").unwrap();
    assert!(outcome.caveat("dscp-changed").is_none(), "{}", outcome.tell());
}
