//! A test of a plan from the words of a command line: its length, its bytes, and how much it disturbs others.

use crate::args::{Cli, Command};
use crate::{CliError, delay, load, ping, plan, train};
use clap::Parser as _;
use fleet::plan::{CostClass, Test, Verb};
use metrics::{Clamped, SECOND, real};
use model::{Kind, Pattern, Phase, Schedule};

/// Start and end of a test: the processes, the conversation, the local baseline of pings.
const AROUND_NS: u64 = SECOND / 2;
/// Datagrams of at most this rate are limited tests, bits a second.
const PACED: u64 = 10_000_000;
/// Round trip of a message of a closed loop, about, ns.
const TRIP_NS: u64 = SECOND / 1000;
/// How much longer a test may take at most when answers are lost, ns.
const MOST_WAIT_NS: u64 = 30 * SECOND;
/// Options that agents take and tests of a plan must not have: the fleet decides on direction and repetition.
const FORBIDDEN: [&str; 4] = ["-R", "--reverse", "--bidir", "--repeat"];

/// The test that the words mean.
pub(super) fn test(text: &str, class: Option<&str>) -> Result<Test, CliError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let wrong = |why: &str| CliError::usage(format!("--test '{text}': {why}"));
    let (first, arguments) =
        words.split_first().ok_or_else(|| wrong("expected a test such as 'ping -n 20'"))?;
    let verb = Verb::ALL.into_iter().find(|verb| verb.name() == *first);
    let verb = verb.ok_or_else(|| wrong("expected ping, delay, tcp, load or train"))?;
    if let Some(word) =
        arguments.iter().find(|word| FORBIDDEN.contains(&word.split('=').next().unwrap_or(word)))
    {
        return Err(wrong(&format!("{word} is decided by the fleet, leave it out")));
    }
    let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
    fleet::agent::options::parse(verb, &arguments).map_err(|why| wrong(&why))?;
    let line = ["netcaliper", first, "192.0.2.1"].into_iter().chain(arguments.iter().map(String::as_str));
    let cli = Cli::try_parse_from(line).map_err(|e| {
        let said = e.to_string();
        wrong(said.lines().next().unwrap_or_default().trim_start_matches("error: "))
    })?;
    let test = match &cli.command {
        Command::Ping(args) => of_phase(&ping::phase(args, false)?),
        Command::Delay(args) => of_phase(&delay::phase(args)?),
        Command::Tcp(args) => of_phase(&plan::tcp(args)),
        Command::Train(args) => of_phase(&train::checked(args).map_err(|e| wrong(&e.text))?),
        Command::Load(args) => Test { length_ns: load::length_ns(args), ..Test::default() },
        _ => return Err(wrong("expected ping, delay, tcp, load or train")),
    };
    let class = match class {
        Some("exclusive") => CostClass::Exclusive,
        Some("limited") => CostClass::Limited,
        Some("background") => CostClass::Background,
        _ => test.class,
    };
    Ok(Test { verb, arguments, class, length_ns: test.length_ns.saturating_add(AROUND_NS), ..test })
}

/// A run of one phase: its length, its payload where that is limited, and its class.
fn of_phase(phase: &Phase) -> Test {
    let ways = if phase.pattern == Pattern::Duplex { 2 } else { 1 };
    let in_time = |bps: u64, ns: u64| u64::clamped(real(bps) / 8.0 * real(ns) / 1e9);
    if let Some(ping) = phase.ping.as_ref().filter(|_| phase.kind == Kind::Ping) {
        let gap = match ping.schedule {
            Schedule::Closed => None,
            Schedule::Fixed { gap_ns } | Schedule::Poisson { gap_ns } | Schedule::Trace { gap_ns } => {
                Some(gap_ns.max(1))
            }
        };
        let messages = ping.messages.map(|n| n.saturating_add(ping.warmup));
        let by_count = messages.map(|n| n.saturating_mul(gap.unwrap_or(TRIP_NS)));
        let time = phase.duration_ns.map(|ns| ns.saturating_add(phase.omit_ns));
        let length = [by_count, time].into_iter().flatten().min().unwrap_or(10 * SECOND);
        // Where answers are lost, a closed loop waits for the time-out of each message, an open loop for that of its last one.
        let waits = messages.filter(|_| gap.is_none()).map_or(1, |n| n.saturating_add(1));
        let wait_ns = waits.saturating_mul(ping.timeout_ns).min(MOST_WAIT_NS);
        let sent = messages.or_else(|| Some(length / gap?));
        let each = u64::from(ping.size).saturating_mul(2).saturating_mul(phase.connections.into());
        let light = gap.is_some_and(|gap| gap >= SECOND / 100) && phase.connections == 1;
        let class = if light { CostClass::Background } else { CostClass::Limited };
        let bytes = sent.map(|n| n.saturating_mul(each));
        return Test { class, length_ns: length, wait_ns, bytes, ..Test::default() };
    }
    let rate = phase.rate.map(|bps| bps.saturating_mul(phase.connections.into()).saturating_mul(ways));
    let by_rate =
        phase.total_bytes.zip(rate).map(|(bytes, bps)| u64::clamped(real(bytes) * 8e9 / real(bps.max(1))));
    let length =
        phase.duration_ns.map(|ns| ns.saturating_add(phase.omit_ns)).or(by_rate).unwrap_or(10 * SECOND);
    let bytes = phase.total_bytes.or_else(|| rate.map(|bps| in_time(bps, length)));
    let paced = phase.kind != Kind::Train && rate.is_some_and(|bps| bps <= PACED * ways);
    let class = if paced { CostClass::Limited } else { CostClass::Exclusive };
    Test { class, length_ns: length, bytes, ..Test::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_read_with_their_length_bytes_and_class() {
        let read = |text: &str| test(text, None).unwrap();
        let ping = read("ping -n 20 --rate 100 -l 100");
        // 20 messages in 200 ms, half a second around; 100 bytes there and back. The last echo may take a second.
        assert_eq!((ping.verb, ping.length_ns, ping.bytes), (Verb::Ping, 700_000_000, Some(4_000)));
        assert_eq!(ping.wait_ns, SECOND);
        // Messages of about a millisecond each, of which each one may be lost.
        let closed = read("ping -n 20 --closed-loop --timeout 1s");
        assert_eq!((closed.length_ns, closed.wait_ns), (520_000_000, 21 * SECOND));
        assert_eq!(read("ping -n 1000 --closed-loop").wait_ns, MOST_WAIT_NS);
        assert_eq!(ping.class, CostClass::Background);
        assert_eq!(ping.arguments, ["-n", "20", "--rate", "100", "-l", "100"]);
        assert_eq!(read("ping --flood -t 1s").class, CostClass::Limited);
        let delay = read("delay -b 8M -t 2s");
        // Both directions: 1 MB a second each.
        assert_eq!(
            (delay.length_ns, delay.bytes, delay.class),
            (2_500_000_000, Some(4_000_000), CostClass::Limited)
        );
        assert_eq!(read("delay -b 80M").class, CostClass::Exclusive);
        let tcp = read("tcp -t 3s");
        assert_eq!((tcp.length_ns, tcp.bytes, tcp.class), (3_500_000_000, None, CostClass::Exclusive));
        assert!(read("load -t 1s --ramp 1s").length_ns >= 7_000_000_000);
        assert_eq!(read("train").class, CostClass::Exclusive);
        assert_eq!(test("tcp", Some("background")).unwrap().class, CostClass::Background);
    }

    #[test]
    fn trains_that_no_agent_can_send_are_refused_with_the_sentence_of_train() {
        for (text, why) in [
            (
                "train -n 2 -t 1h",
                "--time has room for 18000 rounds, and at most 10000 are possible: shorten it, or lengthen --every",
            ),
            (
                "train -t 5m",
                "all trains together must have at most 100000 packets: send fewer or shorter ones",
            ),
        ] {
            assert_eq!(test(text, None).unwrap_err().text, format!("--test '{text}': {why}"));
        }
    }

    #[test]
    fn what_the_fleet_decides_is_refused() {
        for text in [
            "",
            "connect",
            "ping HOST",
            "tcp -R",
            "delay --bidir",
            "ping --json",
            "tcp --sweep rate=1M,2M",
            "ping --no",
        ] {
            let error = test(text, None).unwrap_err();
            assert!(error.text.starts_with(&format!("--test '{text}': ")), "{}", error.text);
        }
    }
}
