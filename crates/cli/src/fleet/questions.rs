//! A test of a plan from the words of a command line: its length, its bytes, and how much it
//! disturbs others.

use crate::verbs::Question;
use console::error::CliError;
use fleet::agent::Demand;
use fleet::plan::{CostClass, Test, Verb};
use metrics::SECOND;
use model::Cost;

/// Start and end of a test: the processes, the conversation, the local baseline of pings.
const AROUND_NS: u64 = SECOND / 2;
/// Options that agents take and tests of a plan must not have: the fleet decides on direction and
/// repetition.
const FORBIDDEN: [&str; 4] = ["-R", "--reverse", "--bidir", "--repeat"];

/// The test that the words mean.
pub(super) fn test(text: &str, class: Option<&str>) -> Result<Test, CliError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let wrong = |why: &str| CliError::usage(format!("--test '{text}': {why}"));
    let (first, arguments) =
        words.split_first().ok_or_else(|| wrong("expected a test such as 'ping -n 20'"))?;
    let verb = Verb::ALL.into_iter().find(|verb| verb.name() == *first);
    let verb = verb.ok_or_else(|| wrong("expected ping, delay, tcp, load, train or capacity"))?;
    if let Some(word) =
        arguments.iter().find(|word| FORBIDDEN.contains(&word.split('=').next().unwrap_or(word)))
    {
        return Err(wrong(&format!("{word} is decided by the fleet, leave it out")));
    }
    let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
    fleet::agent::options::parse(verb, &arguments).map_err(|why| wrong(&why))?;
    let Demand { class: own, cost: Cost { length_ns, wait_ns, bytes, .. }, .. } =
        demand(verb, &arguments).map_err(|why| wrong(&why))?;
    let chosen = match class {
        Some("exclusive") => CostClass::Exclusive,
        Some("limited") => CostClass::Limited,
        Some("background") => CostClass::Background,
        _ => own,
    };
    if chosen > own {
        let (chosen, own) = (class.unwrap_or_default(), own.words());
        let why =
            format!("its bits make it {own}, and agents run it as nothing less than that, not as {chosen}");
        return Err(wrong(&why));
    }
    let length_ns = length_ns.unwrap_or(10 * SECOND).saturating_add(AROUND_NS);
    Ok(Test { verb, arguments, class: chosen, length_ns, wait_ns, bytes })
}

/// The demand of a test's words: of plans, and of agents' orders.
pub(crate) fn demand(verb: Verb, arguments: &[String]) -> Result<Demand, String> {
    let line = [verb.name(), "192.0.2.1"].into_iter();
    let question = Question::parse(line.chain(arguments.iter().map(String::as_str))).map_err(|e| {
        let said = e.to_string();
        said.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })?;
    let (cost, phase) = match question.cost().map_err(|e| e.text)? {
        Some((cost, Some(phase))) => (cost, phase),
        // The load of the path has no bound.
        Some((cost, None)) => return Ok(Demand { class: CostClass::Exclusive, cost, connections: 1 }),
        None => return Err("expected ping, delay, tcp, load, train or capacity".to_owned()),
    };
    Ok(Demand { class: CostClass::of(&phase), cost, connections: phase.connections })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_read_with_their_length_bytes_and_class() {
        let read = |text: &str| test(text, None).unwrap();
        let ping = read("ping -n 20 --rate 100 -l 100");
        // 20 messages in 200 ms, half a second around; 100 bytes there and back. The last echo may
        // take a second.
        assert_eq!((ping.verb, ping.length_ns, ping.bytes), (Verb::Ping, 700_000_000, Some(4_000)));
        assert_eq!(ping.wait_ns, SECOND);
        // Messages of about a millisecond each, of which each one may be lost.
        let closed = read("ping -n 20 --closed-loop --timeout 1s");
        assert_eq!((closed.length_ns, closed.wait_ns), (520_000_000, 21 * SECOND));
        assert_eq!(read("ping -n 1000 --closed-loop").wait_ns, 30 * SECOND);
        assert_eq!(ping.class, CostClass::Background);
        assert_eq!(ping.arguments, ["-n", "20", "--rate", "100", "-l", "100"]);
        // Nothing but the path bounds a flood.
        assert_eq!(read("ping --flood -t 1s").class, CostClass::Exclusive);
        assert_eq!(closed.class, CostClass::Limited);
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
        assert_eq!(test("ping", Some("exclusive")).unwrap().class, CostClass::Exclusive);
        // Agents take no less than what the bits of a test make it.
        for (text, class) in
            [("tcp", "background"), ("ping --flood -t 1s", "limited"), ("delay -b 1M", "background")]
        {
            let refused = test(text, Some(class)).unwrap_err();
            assert!(refused.text.contains(class), "{}", refused.text);
        }
    }

    #[test]
    fn the_class_of_a_ping_is_that_of_its_bits() {
        for (text, class) in [
            ("ping", CostClass::Background),
            ("ping --rate 100", CostClass::Background),
            ("ping -u --rate 50 -l 60000", CostClass::Exclusive),
            ("ping --rate 100 -l 1400", CostClass::Limited),
            ("ping --rate 1000 -l 1000", CostClass::Limited),
            ("ping --rate 1e6 -l 1400", CostClass::Exclusive),
            ("ping --rate 1e6 -l 1", CostClass::Exclusive),
            ("ping --rate 100 -P 200", CostClass::Exclusive),
            ("ping --flood -t 1s -l 60000", CostClass::Exclusive),
            ("ping -n 1000 --closed-loop -l 60000", CostClass::Exclusive),
            ("delay -b 0 -t 1s", CostClass::Exclusive),
        ] {
            assert_eq!(test(text, None).unwrap().class, class, "{text}");
        }
        for text in ["tcp -b 0", "tcp -b 7", "ping --rate 0", "ping --rate nan", "ping --rate inf"] {
            assert!(test(text, None).is_err(), "{text}");
        }
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
