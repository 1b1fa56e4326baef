//! A caveat on one line of a terminal: its short forms, written by hand.

use super::Caveat;

/// Longest short form, characters.
pub const LONGEST_SHORT: usize = 60;

/// The code, the short form with the amounts of the text (`{0}` is the first one), and the short
/// form without, for texts that lack them. An empty first form needs no amounts.
const SHORT: [(&str, &str, &str); 51] = [
    ("ephemeral-ports", "{0} connections found no free local port", "connections found no free local port"),
    (
        "file-descriptors",
        "{0} connections met the limit of open files",
        "the limit of open files was reached",
    ),
    ("unconfirmed", "", "the sender's count alone, no receiver's"),
    ("server-not-measured", "", "a named server has no part in the figures"),
    ("unfinished-connections", "", "not all connections moved all their bytes"),
    ("verification-off", "", "received bytes were not compared"),
    ("closed-loop", "stalls took {1} of the time but count once each", "stalls count once each"),
    ("late-or-lost", "", "high percentiles fall among late or lost messages"),
    ("missed-slots", "{0} of the schedule was not sent", "part of the schedule was not sent"),
    ("late-sends", "the slowest sends left {0} late", "sends left late"),
    ("own-share", "{0} of the median round trip is this host's own", "most of it is this host's own"),
    ("server-turnaround", "the server itself took {0} for a message", "the server itself answered late"),
    ("few-messages", "", "too few messages for high percentiles"),
    ("stream-limit", "", "an end was the first limit, not the path"),
    ("not-sent", "{0} of the schedule was not sent", "part of the schedule was not sent"),
    ("sender-throttled", "the sender's socket was full {0} of the time", "the sender's socket was full"),
    ("queue-drops", "a host's own queue dropped {0} packets", "a host's own queue dropped packets"),
    ("receive-buffer-overflow", "", "loss in the receiver's own buffer"),
    ("damaged-on-the-way", "{0} datagrams were damaged", "datagrams were damaged"),
    ("dscp-changed", "", "the path changed the class of packets"),
    ("ecn-changed", "", "the path changed ECN codepoints"),
    ("ecn-loss", "", "the path loses datagrams by their ECN codepoint"),
    ("clock-offset", "one-way delays may be wrong by {0}", "one-way delays may be wrong"),
    ("clock-stepped", "", "a clock was set meanwhile: wrong delays"),
    ("clock-wander", "", "the rate of a clock changed: less exact delays"),
    ("card-stamps", "", "stamps of a network card were rejected"),
    ("train-spacing", "packets left {0} apart instead of {1}", "packets left at another spacing"),
    ("train-not-stretched", "", "no dispersion: rates of the sender"),
    ("loopback", "", "both ends on one host: nothing about a network"),
    ("search-limit", "", "the search reached the highest rate that it may offer"),
    ("cpu-bound", "", "a CPU was the limit, not the path"),
    ("own-allowance", "", "a quota of a host was the limit, not the path"),
    ("host-busy", "", "other programs kept a host busy"),
    ("cpu-steal", "the hypervisor took {0} of the CPU time", "the hypervisor took CPU time"),
    ("listen-drops", "", "a full listen queue dropped connections"),
    ("softnet-drops", "", "a host dropped packets before their sockets"),
    ("late-pacing", "the slowest paced sends left {0} late", "paced sends left late"),
    ("other-sessions", "", "other tests shared a server"),
    ("server-reduced", "", "the server gave less than asked for"),
    ("socket-buffer-shortfall", "", "the kernel gave smaller socket buffers"),
    ("socket-option-differs", "", "socket options took other values"),
    ("window-limited", "", "a window or a buffer limited the rate"),
    ("congestion-control", "", "the congestion control decides the figure"),
    ("placement", "", "which CPUs the ends had decides the figure"),
    ("too-short", "only {0} measured: no word on variation", "too short to show variation"),
    ("slow-start", "the mean has the start, {0} below the rest", "the mean has the start"),
    ("own-traffic", "{0} of all traffic was this program's own", "much traffic was this program's own"),
    ("rate-missed", "reached {1} of the {0} asked for", "less than the rate asked for"),
    ("unstable", "the rate varied by {0} between intervals", "the rate varied between intervals"),
    ("few-connections", "", "too few connections for percentiles"),
    ("", "", "see its advice: -v"),
];

/// Units behind a number in the texts.
const UNITS: [&str; 17] = [
    "%", "ns", "µs", "ms", "s", "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s", "B", "KiB", "MiB", "GiB",
    "TiB", "k/s", "/s",
];

impl Caveat {
    /// The reason in at most [`LONGEST_SHORT`] characters. A code of a later version has a general
    /// one.
    pub fn short(&self) -> String {
        let row = SHORT.iter().find(|(code, ..)| *code == self.code).or(SHORT.last());
        let Some((_, exact, plain)) = row else { return String::new() };
        let amounts = amounts(&self.text);
        let fill = |text: String, (n, amount): (usize, &String)| text.replace(&format!("{{{n}}}"), amount);
        let filled = amounts.iter().enumerate().fold((*exact).to_owned(), fill);
        match filled.is_empty() || filled.contains('{') || filled.chars().count() > LONGEST_SHORT {
            true => (*plain).to_owned(),
            false => filled,
        }
    }
}

/// The numbers of `text` with their units.
fn amounts(text: &str) -> Vec<String> {
    let inner =
        |word: &str| word.trim_matches(|c: char| "(),;:".contains(c)).trim_end_matches('.').to_owned();
    let words: Vec<String> = text.split_whitespace().map(inner).collect();
    let numbers = words
        .iter()
        .enumerate()
        .filter(|(_, word)| word.starts_with(|c: char| c.is_ascii_digit()) && word.parse::<f64>().is_ok());
    let with_unit = |(at, number): (usize, &String)| match words.get(at + 1) {
        Some(unit) if UNITS.contains(&unit.as_str()) => format!("{number} {unit}"),
        _ => number.clone(),
    };
    numbers.map(with_unit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CaveatLevel, caveat_levels};

    fn short(code: &str, text: &str) -> String {
        let (text, advice) = (text.to_owned(), String::new());
        Caveat { code: code.to_owned(), level: CaveatLevel::Caution, text, advice }.short()
    }

    /// `  caution: late-sends: ` and the short form on a terminal of 80 columns, with amounts as
    /// long as they get.
    #[test]
    fn every_caveat_has_a_short_form_that_fits_a_line() {
        for (code, level) in caveat_levels() {
            assert!(SHORT.iter().any(|(known, ..)| *known == code), "{code} has no short form");
            for text in ["", "99999999 of 99.9 kbit/s, 99.9 Gbit/s (999 ms at 999 ms)"] {
                let form = short(code, text);
                let line = format!("  {}: {code}: {form}", level.name());
                assert!(!form.is_empty() && form.chars().count() <= LONGEST_SHORT, "{code}: {form}");
                assert!(line.chars().count() <= 80 && !line.contains(['{', '…']), "{line}");
            }
        }
        let codes: Vec<&str> = caveat_levels().map(|(code, _)| code).collect();
        let unused = SHORT.iter().find(|(code, ..)| !code.is_empty() && !codes.contains(code));
        assert_eq!(unused, None);
    }

    #[test]
    fn a_short_form_has_the_amounts_of_its_text() {
        let stolen = "The hypervisor gave 2.4 % of the CPU time of this host to others: rates include that.";
        assert_eq!(short("cpu-steal", stolen), "the hypervisor took 2.4 % of the CPU time");
        let missed = "Of 64.0 kbit/s that were asked for, 60.4 kbit/s were sent.";
        assert_eq!(short("rate-missed", missed), "reached 60.4 kbit/s of the 64.0 kbit/s asked for");
        let late = "Sends left late (server 10.0.0.2:7411: p99.9 3.20 ms, at a spacing of 1.00 ms): bursty.";
        assert_eq!(short("late-sends", late), "the slowest sends left 3.20 ms late");
        assert_eq!(short("late-sends", "Sends left late."), "sends left late");
        assert_eq!(short("of-a-later-version", "All is lost."), "see its advice: -v");
    }
}
