//! The parameters: one JSON document, from the client to the server.
//!
//! ```text
//! {"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,"len":8000,"bandwidth":2000000,
//!  "pacing_timer":1000,"client_version":"3.21+"}
//! ```
//!
//! Keys that are not known are ignored, missing ones have the values that old clients mean by
//! leaving them out. Numbers may be written as whole ones or not, flags as `true` or as a number.

use super::codec::code;
use crate::BulkTerms;
use metrics::Clamped;

use serde_json::{Map, Value, json};

/// Block of a test over TCP unless the client says otherwise, bytes.
pub const BLOCK: u32 = 128 << 10;

/// Most streams in each direction.
pub const MOST_STREAMS: u32 = 128;
/// Largest block of a TCP stream, bytes.
pub const LARGEST_BLOCK: u32 = 1 << 20;
/// Smallest and largest datagram, bytes of UDP payload.
pub const DATAGRAMS: (u32, u32) = (16, 65_507);
/// Longest test, s.
pub const LONGEST: u32 = 86_400;
/// Longest omitted start, s.
pub const LONGEST_OMIT: u32 = 600;
/// Largest socket buffer, bytes.
const LARGEST_WINDOW: u64 = 512 << 20;
/// Most datagrams in a burst.
const LARGEST_BURST: u32 = 1000;
/// Largest TCP segment, bytes.
const LARGEST_MSS: u32 = 32_767;

/// A number, however it is written; `None` when it is none or out of range.
pub(super) fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let number = value.as_f64().filter(|n| n.is_finite() && *n >= 0.0 && *n < 1.8e19)?;
        Some(u64::clamped(number))
    })
}

/// The parameters and the token that proves who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    pub terms: BulkTerms,
    /// The token, as received.
    pub token: Option<String>,
}

/// A document that is refused: the code to say so, and why, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub code: i32,
    pub why: String,
}

fn refused<T>(code: i32, why: impl Into<String>) -> Result<T, Refused> {
    Err(Refused { code, why: why.into() })
}

/// Name of a parameter in JSON, and its field.
#[derive(Clone, Copy)]
enum Field {
    /// `true`, or left out.
    Flag(fn(&mut BulkTerms) -> &mut bool),
    /// 1, or left out.
    One(fn(&mut BulkTerms) -> &mut bool),
    /// Also where it is 0.
    Always(fn(&mut BulkTerms) -> &mut u32),
    AlwaysLarge(fn(&mut BulkTerms) -> &mut u64),
    /// Left out where it is 0.
    Number(fn(&mut BulkTerms) -> &mut u32),
    Large(fn(&mut BulkTerms) -> &mut u64),
    Text(fn(&mut BulkTerms) -> &mut Option<String>),
}

/// The parameters that stand for one field each.
const FIELDS: [(&str, Field); 25] = [
    ("omit", Field::Always(|t| &mut t.omit_s)),
    ("time", Field::Always(|t| &mut t.time_s)),
    ("num", Field::AlwaysLarge(|t| &mut t.bytes)),
    ("blockcount", Field::AlwaysLarge(|t| &mut t.blocks)),
    ("parallel", Field::Always(|t| &mut t.streams)),
    ("len", Field::Always(|t| &mut t.block)),
    ("reverse", Field::Flag(|t| &mut t.reverse)),
    ("bidirectional", Field::Flag(|t| &mut t.bidir)),
    ("nodelay", Field::Flag(|t| &mut t.nodelay)),
    ("mptcp", Field::Flag(|t| &mut t.mptcp)),
    ("get_server_output", Field::One(|t| &mut t.server_output)),
    ("udp_counters_64bit", Field::One(|t| &mut t.wide)),
    ("repeating_payload", Field::One(|t| &mut t.repeating)),
    ("zerocopy", Field::One(|t| &mut t.zerocopy)),
    ("dont_fragment", Field::One(|t| &mut t.dont_fragment)),
    ("skip_rx_copy", Field::One(|t| &mut t.discard)),
    ("bandwidth", Field::Large(|t| &mut t.rate)),
    ("fqrate", Field::Large(|t| &mut t.fq_rate)),
    ("burst", Field::Number(|t| &mut t.burst)),
    ("window", Field::Large(|t| &mut t.window)),
    ("MSS", Field::Number(|t| &mut t.mss)),
    ("flowlabel", Field::Number(|t| &mut t.flow_label)),
    ("congestion", Field::Text(|t| &mut t.congestion)),
    ("title", Field::Text(|t| &mut t.title)),
    ("extra_data", Field::Text(|t| &mut t.extra_data)),
];

/// Reads a document.
///
/// # Errors
/// When it is no object, or a value has the wrong type or cannot be.
pub fn read(text: &str) -> Result<Parameters, Refused> {
    let Ok(Value::Object(map)) = serde_json::from_str::<Value>(text) else {
        return refused(code::PARAMETERS, "the parameters are no JSON object");
    };
    let fields = Fields { map };
    if fields.flag("sctp")? {
        return refused(code::UNKNOWN, "SCTP is not spoken here");
    }
    let mut terms = BulkTerms {
        udp: fields.flag("udp")?,
        tos: u8::try_from(fields.number("TOS")?.unwrap_or(0)).unwrap_or_default(),
        server_core: fields.number("server_affinity")?.and_then(|core| u32::try_from(core).ok()),
        gso: fields.flag("gso")?,
        gro: fields.flag("gro")?,
        version: fields.text("client_version")?.unwrap_or_default(),
        ..BulkTerms::usual()
    };
    for (key, field) in FIELDS {
        match field {
            Field::Flag(of) | Field::One(of) => *of(&mut terms) = fields.flag(key)?,
            Field::Always(of) | Field::Number(of) => {
                let number = fields.number(key)?.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
                *of(&mut terms) = number.unwrap_or(*of(&mut terms));
            }
            Field::AlwaysLarge(of) | Field::Large(of) => *of(&mut terms) = fields.number(key)?.unwrap_or(0),
            Field::Text(of) => *of(&mut terms) = fields.text(key)?,
        }
    }
    // Old clients leave out zeros.
    if fields.number("time")?.is_none() && (terms.bytes > 0 || terms.blocks > 0) {
        terms.time_s = 0;
    }
    check(&terms)?;
    Ok(Parameters { terms, token: fields.text("authtoken")? })
}

/// Checks a client's demands.
///
/// # Errors
/// The first value that cannot be.
pub fn check(terms: &BulkTerms) -> Result<(), Refused> {
    let must = |ok: bool, code, why: &str| if ok { Ok(()) } else { refused(code, why) };
    must((1..=MOST_STREAMS).contains(&terms.streams), code::STREAMS, "parallel streams must be 1 to 128")?;
    must(!(terms.reverse && terms.bidir), code::BOTH, "reverse and bidirectional exclude each other")?;
    must(terms.omit_s <= LONGEST_OMIT, code::OMIT, "the omitted start must be 600 s at most")?;
    must(terms.time_s <= LONGEST, code::DURATION, "a test takes 86400 s at most")?;
    let block = terms.block;
    let datagram = (DATAGRAMS.0..=DATAGRAMS.1).contains(&block);
    must(!terms.udp || datagram, code::DATAGRAM, "a datagram must have 16 to 65507 bytes")?;
    must(
        terms.udp || (1..=LARGEST_BLOCK).contains(&block),
        code::BLOCK,
        "a block must have 1 byte to 1 MiB",
    )?;
    must(terms.window <= LARGEST_WINDOW, code::BUFFER, "a socket buffer has 512 MiB at most")?;
    must(terms.mss <= LARGEST_MSS, code::MSS, "the largest segment has 32767 bytes at most")?;
    must(terms.burst <= LARGEST_BURST, 15, "a burst has 1000 blocks at most")?;
    let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let known = terms.congestion.as_deref().is_none_or(|it| it.len() < 16 && it.chars().all(name));
    must(known, code::CONGESTION, "the name of the congestion control cannot be")
}

struct Fields {
    map: Map<String, Value>,
}

impl Fields {
    fn number(&self, key: &'static str) -> Result<Option<u64>, Refused> {
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match whole(value) {
                Some(n) => Ok(Some(n)),
                None => refused(code::PARAMETERS, format!("'{key}' is not a number of 0 or more")),
            },
        }
    }

    fn flag(&self, key: &'static str) -> Result<bool, Refused> {
        match self.map.get(key) {
            Some(Value::Bool(flag)) => Ok(*flag),
            _ => Ok(self.number(key)?.is_some_and(|n| n != 0)),
        }
    }

    fn text(&self, key: &'static str) -> Result<Option<String>, Refused> {
        match self.map.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => refused(code::PARAMETERS, format!("'{key}' is not a text")),
        }
    }
}

/// Writes the document, with the types that strict servers want and the keys of the newest version.
pub fn write(parameters: &Parameters) -> String {
    let mut terms = parameters.terms.clone();
    let mut map = Map::new();
    let mut put = |key: &str, value: Value, set: bool| {
        if set {
            map.insert(key.to_owned(), value);
        }
    };
    put(if terms.udp { "udp" } else { "tcp" }, json!(true), true);
    put("pacing_timer", json!(1000), true);
    put("client_version", json!(terms.version), true);
    for (key, field) in FIELDS {
        match field {
            Field::Flag(of) => put(key, json!(true), *of(&mut terms)),
            Field::One(of) => put(key, json!(1), *of(&mut terms)),
            Field::Always(of) => put(key, json!(of(&mut terms)), true),
            Field::AlwaysLarge(of) => put(key, json!(of(&mut terms)), true),
            Field::Number(of) => put(key, json!(of(&mut terms)), *of(&mut terms) > 0),
            Field::Large(of) => put(key, json!(of(&mut terms)), *of(&mut terms) > 0),
            Field::Text(of) => put(key, json!(of(&mut terms)), of(&mut terms).is_some()),
        }
    }
    put("TOS", json!(terms.tos), terms.tos > 0);
    put("server_affinity", json!(terms.server_core), terms.server_core.is_some());
    put("gso", json!(u8::from(terms.gso)), terms.gso || terms.gro);
    put("gro", json!(u8::from(terms.gro)), terms.gso || terms.gro);
    put("authtoken", json!(parameters.token), parameters.token.is_some());
    Value::Object(map).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_real_clients() {
        // iperf3-ctl-tcp.pcap (3.21).
        let text = r#"{"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,"len":8000,"bandwidth":2000000,"pacing_timer":1000,"client_version":"3.21+"}"#;
        let read_21 = read(text).unwrap().terms;
        let expected = BulkTerms {
            time_s: 1,
            block: 8000,
            rate: 2_000_000,
            version: "3.21+".into(),
            ..BulkTerms::usual()
        };
        assert_eq!(read_21, expected);
        // iperf3-ctl-old.pcap (3.1.7).
        let old = r#"{"udp":true,"omit":0,"time":1,"parallel":1,"len":1000,"bandwidth":200000,"client_version":"3.1.7"}"#;
        let terms = read(old).unwrap().terms;
        assert!(terms.udp && terms.bytes == 0 && terms.block == 1000 && terms.rate == 200_000);
        // An old client leaves out a time of 0 where something else ends the test.
        assert_eq!(read(r#"{"tcp":true,"num":5}"#).unwrap().terms.time_s, 0);
        assert_eq!(read(r#"{"tcp":true}"#).unwrap().terms.time_s, 10);
    }

    #[test]
    fn what_is_written_is_read_alike() {
        let terms = BulkTerms {
            udp: true,
            streams: 7,
            bidir: true,
            omit_s: 2,
            time_s: 0,
            bytes: 1 << 40,
            block: 1200,
            rate: 5_000_000_000,
            burst: 10,
            window: 1 << 20,
            mss: 1400,
            nodelay: true,
            tos: 0x28,
            flow_label: 0xfffff,
            server_core: Some(0),
            congestion: Some("reno".into()),
            fq_rate: 9,
            title: Some("a \"b\"".into()),
            extra_data: Some("é".into()),
            server_output: true,
            wide: true,
            gro: true,
            dont_fragment: true,
            version: "3.21".into(),
            ..BulkTerms::usual()
        };
        let parameters = Parameters { terms, token: Some("abc=".into()) };
        assert_eq!(read(&write(&parameters)), Ok(parameters));
    }

    #[test]
    fn numbers_and_flags_may_be_written_in_any_way() {
        let terms =
            read(r#"{"tcp":1,"time":1e+01,"len":1.31072e5,"parallel":2.0,"reverse":1}"#).unwrap().terms;
        assert_eq!((terms.time_s, terms.block, terms.streams, terms.reverse), (10, 131_072, 2, true));
        for (bad, code) in [
            ("[]", code::PARAMETERS),
            ("{", code::PARAMETERS),
            (r#"{"time":"x"}"#, code::PARAMETERS),
            (r#"{"time":-1}"#, code::PARAMETERS),
            (r#"{"congestion":5}"#, code::PARAMETERS),
            (r#"{"parallel":129}"#, code::STREAMS),
            (r#"{"parallel":0}"#, code::STREAMS),
            (r#"{"parallel":1e300}"#, code::PARAMETERS),
            (r#"{"udp":true,"len":15}"#, code::DATAGRAM),
            (r#"{"tcp":true,"len":1048577}"#, code::BLOCK),
            (r#"{"omit":601}"#, code::OMIT),
            (r#"{"reverse":true,"bidirectional":true}"#, code::BOTH),
            (r#"{"sctp":true}"#, code::UNKNOWN),
            (r#"{"congestion":"../x y"}"#, code::CONGESTION),
        ] {
            assert_eq!(read(bad).unwrap_err().code, code, "{bad}");
        }
    }
}
