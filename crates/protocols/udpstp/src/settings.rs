//! Settings of tests, and of a server the most that it grants.

use crate::NAME;
use crate::codec::{AUTOMATIC, JUMBO, MOST_CONNECTIONS, Parameters, RANDOM_FILLER, START_ROW, TRADITIONAL};
use common::capacity::{Algorithm, LAST, RateTable, SearchSettings};
use common::options::{KeyOption, OptionValue, ProtocolOption};
use model::{Extra, Kind, Pattern, Phase, Range, SocketSettings};
use serde::{Deserialize, Serialize};

/// Settings of a test, as a phase has them. The direction, the connections and the sockets are the
/// phase's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Rate control.
    pub search: SearchSettings,
    /// Time from one report to the next, ms.
    pub trial_ms: u16,
    /// Length of the test, s; of a server the most.
    pub test_s: u16,
    /// Length of a sub-interval, ms.
    pub sub_interval_ms: u16,
    /// Sub-intervals at the start whose rate is not adjusted.
    pub suppressed: u16,
    /// Traffic class octet of the test's packets; of a server the most.
    pub traffic_class: u8,
    /// Only row, or first one with `start`; `None` searches from row 0. Of a server the highest
    /// that may be asked for.
    pub row: Option<u16>,
    /// The row is the first of a search.
    pub start: bool,
    /// Filler is random; a server grants it.
    pub random: bool,
    /// Datagrams may be longer than a packet of Ethernet, above 1 Gbit/s.
    pub jumbo: bool,
    /// Datagrams fill packets of 1,500 bytes.
    pub traditional: bool,
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
            search: SearchSettings::default(),
            trial_ms: 50,
            test_s: 10,
            sub_interval_ms: 1_000,
            suppressed: 0,
            traffic_class: 0,
            row: None,
            start: false,
            random: false,
            jumbo: true,
            traditional: false,
            bandwidth: 0,
            key: 0,
            least: 1,
        }
    }
}

/// Longest test, s.
pub(crate) const LONGEST_S: u16 = 3_600;

impl Settings {
    /// Settings of a server that grants all that the protocol has, but random filler.
    pub const fn of_server() -> Self {
        Settings {
            search: SearchSettings {
                algorithm: Algorithm::B,
                low_ms: 30,
                upper_ms: 90,
                sequence_errors: 10,
                loss_only: true,
                one_way: false,
                fast_rows: 10,
                bad_reports: 3,
                ce_share: 0,
            },
            trial_ms: 50,
            test_s: LONGEST_S,
            sub_interval_ms: 1_000,
            suppressed: 0,
            traffic_class: u8::MAX,
            row: Some(LAST),
            start: false,
            random: false,
            jumbo: true,
            traditional: false,
            bandwidth: 0,
            key: 0,
            least: 1,
        }
    }

    /// The settings of a phase.
    pub fn of(phase: &Phase) -> Option<Self> {
        phase.extra.as_ref()?.read(NAME)
    }

    /// A phase of a test with these settings.
    pub fn phase(&self, pattern: Pattern, connections: u32) -> Phase {
        Phase {
            kind: Kind::Delay,
            pattern,
            connections,
            iterations: Some(1),
            // The server ends a test.
            duration_ns: None,
            interval_ns: u64::from(self.sub_interval_ms.max(100)) * 1_000_000,
            buffer: Range::just(1 << 16),
            verify: model::Verify::Connection,
            payload: if self.random { model::Payload::Random } else { model::Payload::Zeros },
            sockets: SocketSettings {
                gro: true,
                rcvbuf: Some(BUFFER),
                sndbuf: Some(BUFFER),
                ..SocketSettings::default()
            },
            extra: Some(Extra::new(NAME, self)),
            ..Phase::default()
        }
    }

    /// The table of rates.
    pub fn table(&self) -> RateTable {
        RateTable { jumbo: self.jumbo, traditional: self.traditional }
    }

    /// The modifiers of a Setup PDU.
    pub(crate) fn modifiers(&self) -> u8 {
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        bit(self.jumbo, JUMBO) | bit(self.traditional, TRADITIONAL)
    }

    /// The parameters that a client asks for.
    pub(crate) fn parameters(&self) -> Parameters {
        let search = &self.search;
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        let small = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
        Parameters {
            low_ms: small(search.low_ms),
            upper_ms: small(search.upper_ms),
            trial_ms: self.trial_ms,
            test_s: self.test_s,
            traffic_class: self.traffic_class,
            row: self.row.unwrap_or(AUTOMATIC),
            one_way: search.one_way,
            fast_rows: u8::try_from(search.fast_rows).unwrap_or(u8::MAX),
            bad_reports: small(search.bad_reports),
            sequence_errors: small(search.sequence_errors),
            loss_only: search.loss_only,
            modifiers: bit(self.start && self.row.is_some(), START_ROW) | bit(self.random, RANDOM_FILLER),
            algorithm: u8::from(search.algorithm == Algorithm::C),
            ce_share: search.ce_share,
            sub_interval_ms: self.sub_interval_ms,
            suppressed: self.suppressed,
        }
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
            let most = self.row.unwrap_or(LAST).min(LAST);
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
            (phase.connections > MOST_CONNECTIONS.into(), "has tests of 1 to 24 connections"),
            (self.test_s == 0 || self.test_s > LONGEST_S, "has tests of 1 to 3600 s"),
            (!(5..=250).contains(&self.trial_ms), "has reports every 5 to 250 ms"),
            (!(100..=10_000).contains(&self.sub_interval_ms), "has sub-intervals of 100 to 10000 ms"),
            (self.search.low_ms > self.search.upper_ms, "needs a lower threshold below the upper one"),
            (self.row.is_some_and(|row| row > LAST), "has the rows 0 to 1152"),
        ])
    }
}

/// Highest fixed row of a client without a key: 1 Gbit/s. Its address was proven by a few octets.
const MOST_UNPROVEN: u16 = common::capacity::HIGH_SPEED;

/// Socket buffers, bytes: the reference asks for as much.
const BUFFER: u64 = 1_024_000;

impl Parameters {
    /// The settings of the search with these parameters.
    pub(crate) fn search(&self) -> SearchSettings {
        SearchSettings {
            algorithm: if self.algorithm == 1 { Algorithm::C } else { Algorithm::B },
            low_ms: self.low_ms.into(),
            upper_ms: self.upper_ms.into(),
            sequence_errors: self.sequence_errors.into(),
            loss_only: self.loss_only,
            one_way: self.one_way,
            fast_rows: self.fast_rows.into(),
            bad_reports: self.bad_reports.into(),
            ce_share: self.ce_share,
        }
    }

    /// The parameters in a server's answer, within their ranges: a test is no longer than
    /// the client asked for.
    pub(crate) fn bounded(self, asked: &Parameters) -> Parameters {
        Parameters {
            trial_ms: self.trial_ms.clamp(5, 250),
            test_s: self.test_s.clamp(1, asked.test_s.max(1)),
            sub_interval_ms: self.sub_interval_ms.clamp(100, 10_000),
            ..self
        }
    }

    /// The only row of the test; `None` where it searches.
    pub(crate) fn fixed_row(&self) -> Option<u16> {
        (self.row != AUTOMATIC && self.modifiers & START_ROW == 0).then_some(self.row)
    }

    /// The first row of the test.
    pub(crate) fn first_row(&self) -> u16 {
        match (self.row, self.fixed_row(), self.suppressed) {
            (AUTOMATIC, _, _) => 0,
            // A fixed rate begins behind the sub-intervals without adjustment.
            (_, Some(_), 1..) => 0,
            (row, _, _) => row,
        }
    }
}

/// Changes the settings of a server.
fn change(phase: &mut Phase, change: impl FnOnce(&mut Settings)) {
    let mut settings = Settings::of(phase).unwrap_or(Settings::of_server());
    change(&mut settings);
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
            change(phase, |settings| settings.jumbo = false);
            Ok(())
        },
        ..ProtocolOption::SWITCH
    },
    ProtocolOption {
        name: "udpstp-traditional",
        help: "Fill packets of 1,500 bytes in UDPSTP tests; clients must do the same (udpst -T)",
        set: |_, phase| {
            change(phase, |settings| settings.traditional = true);
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
        let server = Settings { test_s: 20, traffic_class: 184, row: Some(500), ..Settings::of_server() };
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
        let settings = Settings { key: 3, row: Some(7), ..Settings::default() };
        let phase = settings.phase(Pattern::Pull, 4);
        assert_eq!((Settings::of(&phase), phase.check()), (Some(settings), Ok(())));
        assert_eq!(settings.parameters().fixed_row(), Some(7));
        assert!(settings.check(&Phase { connections: 25, ..phase }).is_err());
    }
}
