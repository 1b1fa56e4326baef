//! Settings of tests, and of a server the most that it grants.

use crate::NAME;
use crate::codec::{AUTOMATIC, JUMBO, Parameters, RANDOM_FILLER, START_ROW, TRADITIONAL};
use common::capacity::{LAST, RateTable};
use common::options::{KeyOption, OptionValue, ProtocolOption};
use metrics::{Clamped, SECOND};
use model::{CapacitySettings, Extra, Pattern, Payload, Phase};
use serde::{Deserialize, Serialize};

/// Settings of a test, as a phase has them. The direction, the connections and the sockets are the
/// phase's, and so are the settings of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Settings of the measurement. Of a server the row is the highest that may be asked for.
    #[serde(skip)]
    pub test: CapacitySettings,
    /// Length of the test, s; of a server the most.
    pub test_s: u16,
    /// Traffic class octet of the test's packets; of a server the most.
    pub traffic_class: u8,
    /// Filler is random; a server grants it.
    pub random: bool,
    /// Rate that each connection states as wanted, Mbit/s; of a server the most of a direction. 0
    /// is none.
    pub bandwidth: u32,
    /// Which shared key.
    pub key: u8,
    /// Connections without which a test ends.
    pub least: u8,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            test: CapacitySettings::RFC,
            test_s: 10,
            traffic_class: 0,
            random: false,
            bandwidth: 0,
            key: 0,
            least: 1,
        }
    }
}

/// Longest test, s.
pub(crate) const LONGEST_S: u16 = 3_600;
/// Shortest test that servers grant, s.
const SHORTEST_S: u16 = 5;

impl Settings {
    /// Settings of a server that grants all that the protocol has, but random filler.
    pub const fn of_server() -> Self {
        let test = CapacitySettings { row: Some(LAST), ..CapacitySettings::RFC };
        let (test_s, traffic_class) = (LONGEST_S, u8::MAX);
        Settings { test, test_s, traffic_class, random: false, bandwidth: 0, key: 0, least: 1 }
    }

    /// The settings of a phase: of the original's tests, or of the phase itself.
    pub fn of(phase: &Phase) -> Option<Self> {
        let test = phase.capacity?;
        let own = phase.extra.as_ref().and_then(|extra| extra.read(NAME));
        let own = own.unwrap_or_else(|| Settings {
            test_s: u16::clamped(phase.duration_ns.unwrap_or(10 * SECOND) / SECOND),
            traffic_class: phase.sockets.dscp.map_or(0, |dscp| dscp << 2),
            random: phase.payload == Payload::Random,
            bandwidth: u32::clamped(phase.rate.unwrap_or(0).div_ceil(1_000_000)),
            ..Settings::default()
        });
        Some(Settings { test, ..own })
    }

    /// A phase of a test with these settings.
    pub fn phase(&self, pattern: Pattern, connections: u32) -> Phase {
        Phase {
            // The server ends a test.
            duration_ns: None,
            payload: if self.random { Payload::Random } else { Payload::Zeros },
            extra: Some(Extra::new(NAME, self)),
            ..self.test.phase(pattern, connections)
        }
    }

    /// The table of rates.
    pub fn table(&self) -> RateTable {
        RateTable { jumbo: self.test.jumbo, traditional: self.test.traditional }
    }

    /// The modifiers of a Setup PDU.
    pub(crate) fn modifiers(&self) -> u8 {
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        bit(self.test.jumbo, JUMBO) | bit(self.test.traditional, TRADITIONAL)
    }

    /// The parameters that a client asks for.
    pub(crate) fn parameters(&self) -> Parameters {
        Parameters::of(&self.test, self.test_s, self.traffic_class, self.random)
    }

    /// The parameters that a server with these settings grants to a client that asks for `asked`.
    pub(crate) fn granted(&self, asked: &Parameters, proven: bool) -> Parameters {
        let usual = Parameters::default();
        let mut p = *asked;
        let is_ms = |ms: u16| (1..=10_000).contains(&ms);
        p.low_ms = if is_ms(p.low_ms) { p.low_ms } else { usual.low_ms };
        p.upper_ms = if is_ms(p.upper_ms) { p.upper_ms } else { usual.upper_ms };
        if p.low_ms > p.upper_ms {
            (p.low_ms, p.upper_ms) = (usual.low_ms, usual.upper_ms);
        }
        p.trial_ms = if (5..=250).contains(&p.trial_ms) { p.trial_ms } else { usual.trial_ms };
        p.test_s = if (5..=LONGEST_S).contains(&p.test_s) { p.test_s } else { usual.test_s };
        p.test_s = p.test_s.min(self.test_s.max(1));
        let sub = p.sub_interval_ms;
        p.sub_interval_ms = if (100..=10_000).contains(&sub) { sub } else { usual.sub_interval_ms };
        if u32::from(p.sub_interval_ms) > u32::from(p.test_s) * 1_000 {
            p.sub_interval_ms = usual.sub_interval_ms;
        }
        p.traffic_class = p.traffic_class.min(self.traffic_class);
        if p.row != AUTOMATIC {
            let most = self.test.row.unwrap_or(LAST).min(LAST);
            p.row = if p.row > LAST { AUTOMATIC } else { p.row.min(most) };
        }
        if p.row != AUTOMATIC && !proven {
            // A row without a search is a rate that no report lowers.
            p.row = p.row.min(MOST_UNPROVEN);
        }
        p.fast_rows = if p.fast_rows == 0 { usual.fast_rows } else { p.fast_rows };
        p.bad_reports = if p.bad_reports == 0 { usual.bad_reports } else { p.bad_reports };
        if !self.random {
            p.modifiers &= !RANDOM_FILLER;
        }
        p.modifiers &= START_ROW | RANDOM_FILLER;
        p.algorithm = if p.algorithm > 1 { 0 } else { p.algorithm };
        let subs = u32::from(p.test_s) * 1_000 / u32::from(p.sub_interval_ms);
        p.suppressed = if u32::from(p.suppressed) >= subs { 0 } else { p.suppressed };
        let is_ect = matches!(p.traffic_class & 3, 1 | 2);
        p.ce_share = if is_ect { p.ce_share } else { 0 };
        p
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The rest of a sentence about the protocol.
    pub(crate) fn check(&self, phase: &Phase) -> Result<(), &'static str> {
        let one_way = matches!(phase.pattern, Pattern::Push | Pattern::Pull);
        crate::protocol::refused([
            (!one_way, "measures one direction at a time"),
            // Servers answer others with a test of their usual length.
            (phase.duration_ns.is_some() && self.test_s < SHORTEST_S, "has tests of 5 s or more"),
            (self.test_s == 0 || self.test_s > LONGEST_S, "has tests of 1 to 3600 s"),
        ])
    }
}

/// Highest fixed row of a client without a key: 1 Gbit/s. Its address was proven by a few octets.
const MOST_UNPROVEN: u16 = common::capacity::HIGH_SPEED;

/// Changes the settings of a server.
fn change(phase: &mut Phase, change: impl FnOnce(&mut Settings)) {
    let mut settings = Settings::of(phase).unwrap_or(Settings::of_server());
    change(&mut settings);
    phase.capacity = Some(settings.test);
    phase.extra = Some(Extra::new(NAME, &settings));
}

/// A whole number from `low` to `high`, which the option `name` takes.
fn whole(name: &str, text: &str, low: u32, high: u32) -> Result<u32, String> {
    let found = text.parse().ok().filter(|n| (low..=high).contains(n));
    found.ok_or_else(|| format!("'{text}': --{name} takes a whole number from {low} to {high}"))
}

/// Option of `serve` for the keys of clients.
pub(crate) const KEY: KeyOption = KeyOption {
    name: "udpstp-key-file",
    variable: "NETCALIPER_UDPSTP_KEY_FILE",
    help: "File with the keys of UDPSTP clients, a line ID,KEY for each (0 to 255); clients must have one of them, and are served \
           from every address",
};

/// Options of `serve`.
pub(crate) const OF_SERVER: &[ProtocolOption] = &[
    ProtocolOption {
        name: "udpstp-bandwidth",
        help: "Most Mbit/s that all UDPSTP tests of a direction state together; clients must then state theirs",
        value: OptionValue::One("MBIT"),
        set: |text, phase| {
            let bandwidth = whole("udpstp-bandwidth", text, 1, 10_000_000)?;
            change(phase, |settings| settings.bandwidth = bandwidth);
            Ok(())
        },
        ..ProtocolOption::SWITCH
    },
    ProtocolOption {
        name: "udpstp-no-jumbo",
        help: "Send and expect no UDPSTP datagrams longer than a packet of Ethernet; clients must do the same (udpst -j)",
        set: |_, phase| {
            change(phase, |settings| settings.test.jumbo = false);
            Ok(())
        },
        ..ProtocolOption::SWITCH
    },
    ProtocolOption {
        name: "udpstp-traditional",
        help: "Fill packets of 1,500 bytes in UDPSTP tests; clients must do the same (udpst -T)",
        set: |_, phase| {
            change(phase, |settings| settings.test.traditional = true);
            Ok(())
        },
        ..ProtocolOption::SWITCH
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_beyond_the_protocol_have_their_defaults_and_others_the_servers_most() {
        let mut server = Settings { test_s: 20, traffic_class: 184, ..Settings::of_server() };
        server.test.row = Some(500);
        let asked = |change: fn(&mut Parameters)| {
            let mut p = Parameters::default();
            change(&mut p);
            server.granted(&p, true)
        };
        assert_eq!(asked(|_| {}), Parameters::default());
        let p = asked(|p| (p.low_ms, p.upper_ms, p.trial_ms) = (0, 10_001, 4));
        assert_eq!((p.low_ms, p.upper_ms, p.trial_ms), (30, 90, 50));
        let p = asked(|p| (p.low_ms, p.upper_ms) = (100, 50));
        assert_eq!((p.low_ms, p.upper_ms), (30, 90));
        assert_eq!(asked(|p| p.test_s = 60).test_s, 20);
        assert_eq!(asked(|p| p.traffic_class = 192).traffic_class, 184, "a numeric minimum");
        assert_eq!(asked(|p| p.row = 900).row, 500);
        assert_eq!(asked(|p| p.row = 2_000).row, AUTOMATIC);
        assert_eq!(asked(|p| p.modifiers = 0xff).modifiers, START_ROW);
        assert_eq!(asked(|p| p.ce_share = 9).ce_share, 0, "without ECT there are no marks");
        assert_eq!(asked(|p| (p.ce_share, p.traffic_class) = (9, 2)).ce_share, 9);
        assert_eq!(asked(|p| p.suppressed = 10).suppressed, 0);
        let fast = Parameters { row: 1_100, ..Parameters::default() };
        assert_eq!(Settings::of_server().granted(&fast, false).row, 1_000);
    }

    #[test]
    fn an_answer_bounds_reports_and_length() {
        let asked = Parameters { test_s: 10, ..Parameters::default() };
        let answer = Parameters { trial_ms: 0, test_s: u16::MAX, sub_interval_ms: 0, ..asked };
        let p = answer.bounded(&asked);
        assert_eq!((p.trial_ms, p.test_s, p.sub_interval_ms), (5, 10, 100));
    }

    #[test]
    fn a_phase_keeps_its_settings() {
        let mut settings = Settings { key: 3, ..Settings::default() };
        settings.test.row = Some(7);
        let phase = settings.phase(Pattern::Pull, 4);
        assert_eq!((Settings::of(&phase), phase.check()), (Some(settings), Ok(())));
        assert_eq!(settings.parameters().fixed_row(), Some(7));
        let verb = Phase { extra: None, duration_ns: Some(4 * SECOND), ..phase };
        assert!(settings.check(&verb).is_ok() && Settings::of(&verb).unwrap().check(&verb).is_err());
    }
}
