//! IP fields of received datagrams: time to live, class of service, ECN codepoint. All questions
//! about datagrams count them here.

use crate::percent_of;
use serde::{Deserialize, Serialize};

const ECN: &str = "an ECN codepoint (ect0, ect1, ce or off)";

/// A codepoint of the ECN field (RFC 3168 §5; ECT(1) is that of L4S, RFC 9331 §4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Ecn {
    /// Not-ECT: the transport does not understand congestion marks.
    #[default]
    Off = 0,
    /// ECT(1): congestion marks are understood, by a scalable congestion control.
    Ect1 = 1,
    /// ECT(0): congestion marks are understood.
    Ect0 = 2,
    /// CE: congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// All of them, in the order of their bits.
    pub const ALL: [Ecn; 4] = [Ecn::Off, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];

    /// The codepoint in a traffic class octet.
    pub fn of(tos: u8) -> Ecn {
        Ecn::ALL[usize::from(tos & 3)]
    }

    /// Its two bits.
    pub fn bits(self) -> u8 {
        self as u8
    }

    /// Its name in RFC 3168.
    pub fn name(self) -> &'static str {
        match self {
            Ecn::Off => "Not-ECT",
            Ecn::Ect1 => "ECT(1)",
            Ecn::Ect0 => "ECT(0)",
            Ecn::Ce => "CE",
        }
    }
}

/// Parses `ect0`, `ect1`, `ce` or `off`.
///
/// # Errors
/// One sentence with the accepted codepoints.
pub fn parse_ecn(text: &str) -> Result<Ecn, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "off" => Ok(Ecn::Off),
        "ect1" => Ok(Ecn::Ect1),
        "ect0" => Ok(Ecn::Ect0),
        "ce" => Ok(Ecn::Ce),
        _ => Err(format!("'{text}' is not {ECN}")),
    }
}

/// IP fields of received datagrams. The datagrams of a merged run have one traffic class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct IpFields {
    /// Smallest and largest time to live or hop limit, where the kernel reports it.
    pub ttl: Option<(u8, u8)>,
    /// Smallest and largest DSCP.
    pub dscp: Option<(u8, u8)>,
    /// Datagrams by ECN field, 0 to 3: not capable, ECT(1), ECT(0), congestion experienced.
    pub ecn: [u64; 4],
}

impl IpFields {
    /// `n` datagrams arrived with this time to live (0: unknown) and traffic class octet.
    pub fn see(&mut self, ttl: u8, tos: u8, n: u64) {
        if ttl > 0 {
            self.ttl = widest(self.ttl, Some((ttl, ttl)));
        }
        self.dscp = widest(self.dscp, Some((tos >> 2, tos >> 2)));
        self.ecn[usize::from(tos & 3)] += n;
    }

    /// Adds others.
    pub fn add(&mut self, more: &IpFields) {
        self.ttl = widest(self.ttl, more.ttl);
        self.dscp = widest(self.dscp, more.dscp);
        add_codepoints(&mut self.ecn, &more.ecn);
    }

    /// True if no datagram was seen.
    pub fn is_empty(&self) -> bool {
        *self == IpFields::default()
    }

    /// Datagrams with this codepoint.
    pub fn count(&self, ecn: Ecn) -> u64 {
        self.ecn[usize::from(ecn.bits())]
    }

    /// Datagrams in all.
    pub fn all(&self) -> u64 {
        self.ecn.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Percent of the datagrams with this codepoint; `None` without any datagram.
    pub fn percent(&self, ecn: Ecn) -> Option<f64> {
        let all = self.all();
        (all > 0).then(|| percent_of(self.count(ecn), all))
    }
}

/// Adds the counts of one codepoint after the other; a peer's may be of any size.
pub(crate) fn add_codepoints(ours: &mut [u64; 4], theirs: &[u64; 4]) {
    for (ours, theirs) in ours.iter_mut().zip(theirs) {
        *ours = ours.saturating_add(*theirs);
    }
}

/// The range that covers both.
pub(crate) fn widest(a: Option<(u8, u8)>, b: Option<(u8, u8)>) -> Option<(u8, u8)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_keep_their_extremes() {
        let mut marks = IpFields::default();
        marks.see(60, 0b1011_1000, 3);
        marks.see(64, 0b0000_0011, 1);
        let mut sum = IpFields::default();
        assert!(sum.is_empty() && sum.percent(Ecn::Ce).is_none());
        sum.see(0, 0b1011_1010, 1);
        sum.add(&marks);
        assert_eq!(sum, IpFields { ttl: Some((60, 64)), dscp: Some((0, 46)), ecn: [3, 0, 1, 1] });
        assert_eq!((sum.count(Ecn::Ect0), sum.all(), sum.percent(Ecn::Ce)), (1, 5, Some(20.0)));
    }

    /// RFC 3168, figure 1: 01 is ECT(1), 10 is ECT(0).
    #[test]
    fn codepoints_have_the_bits_and_names_of_rfc_3168() {
        let words = ["off", "ect1", "ect0", "ce"];
        for (bits, (ecn, word)) in (0..).zip(Ecn::ALL.into_iter().zip(words)) {
            assert_eq!((ecn.bits(), Ecn::of(0b1011_1000 | bits), parse_ecn(word)), (bits, ecn, Ok(ecn)));
        }
        assert_eq!(Ecn::ALL.map(Ecn::name), ["Not-ECT", "ECT(1)", "ECT(0)", "CE"]);
        assert_eq!(parse_ecn("ECT0"), Ok(Ecn::Ect0));
        assert_eq!(parse_ecn("ect2"), Err(format!("'ect2' is not {ECN}")));
    }
}
