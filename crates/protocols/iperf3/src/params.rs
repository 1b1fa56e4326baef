//! The parameters: one JSON document, from the client to the server.
//!
//! ```text
//! {"tcp":true,"omit":0,"time":1,"num":0,"blockcount":0,"parallel":1,"len":8000,"bandwidth":2000000,
//!  "pacing_timer":1000,"client_version":"3.21+"}
//! ```
//!
//! Keys that are not known are ignored, missing ones have the values that old clients mean by leaving them out. Numbers may be
//! written as whole ones or not, flags as `true` or as a number.

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
/// UDP without a rate, bits/s: a mebibit, as ever.
pub const UDP_RATE: u64 = 1 << 20;

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
    /// The token, as it came.
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
    let small = |key, otherwise: u32| {
        fields.number(key).map(|n| n.map_or(otherwise, |n| u32::try_from(n).unwrap_or(u32::MAX)))
    };
    let udp = fields.flag("udp")?;
    let (bytes, blocks) = (fields.number("num")?.unwrap_or(0), fields.number("blockcount")?.unwrap_or(0));
    let counted = bytes > 0 || blocks > 0;
    let terms = BulkTerms {
        udp,
        streams: small("parallel", 1)?,
        reverse: fields.flag("reverse")?,
        bidir: fields.flag("bidirectional")?,
        omit_s: small("omit", 0)?,
        // Old clients leave out what is 0.
        time_s: small("time", if counted { 0 } else { 10 })?,
        bytes,
        blocks,
        block: small("len", BLOCK)?,
        rate: fields.number("bandwidth")?.unwrap_or(0),
        burst: small("burst", 0)?,
        window: fields.number("window")?.unwrap_or(0),
        mss: small("MSS", 0)?,
        nodelay: fields.flag("nodelay")?,
        tos: u8::try_from(small("TOS", 0)?).unwrap_or_default(),
        flow_label: small("flowlabel", 0)?,
        congestion: fields.text("congestion")?,
        fq_rate: fields.number("fqrate")?.unwrap_or(0),
        title: fields.text("title")?,
        extra_data: fields.text("extra_data")?,
        server_output: fields.flag("get_server_output")?,
        wide: fields.flag("udp_counters_64bit")?,
        repeating: fields.flag("repeating_payload")?,
        zerocopy: fields.flag("zerocopy")?,
        discard: fields.flag("skip_rx_copy")?,
        dont_fragment: fields.flag("dont_fragment")?,
        mptcp: fields.flag("mptcp")?,
        server_core: fields.number("server_affinity")?.and_then(|core| u32::try_from(core).ok()),
        gso: fields.flag("gso")?,
        gro: fields.flag("gro")?,
        version: fields.text("client_version")?.unwrap_or_default(),
    };
    check(&terms)?;
    Ok(Parameters { terms, token: fields.text("authtoken")? })
}

/// Checks what is asked for.
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
    let terms = &parameters.terms;
    let mut map = Map::new();
    let mut put = |key: &str, value: Value| {
        map.insert(key.to_owned(), value);
    };
    put(if terms.udp { "udp" } else { "tcp" }, json!(true));
    put("omit", json!(terms.omit_s));
    put("time", json!(terms.time_s));
    put("num", json!(terms.bytes));
    put("blockcount", json!(terms.blocks));
    put("parallel", json!(terms.streams));
    put("len", json!(terms.block));
    put("pacing_timer", json!(1000));
    put("client_version", json!(terms.version));
    for (key, set) in [
        ("reverse", terms.reverse),
        ("bidirectional", terms.bidir),
        ("nodelay", terms.nodelay),
        ("mptcp", terms.mptcp),
    ] {
        if set {
            put(key, json!(true));
        }
    }
    for (key, set) in [
        ("get_server_output", terms.server_output),
        ("udp_counters_64bit", terms.wide),
        ("repeating_payload", terms.repeating),
        ("zerocopy", terms.zerocopy),
        ("dont_fragment", terms.dont_fragment),
        ("skip_rx_copy", terms.discard),
    ] {
        if set {
            put(key, json!(1));
        }
    }
    for (key, n) in [
        ("bandwidth", terms.rate),
        ("fqrate", terms.fq_rate),
        ("burst", terms.burst.into()),
        ("window", terms.window),
        ("MSS", terms.mss.into()),
        ("TOS", terms.tos.into()),
        ("flowlabel", terms.flow_label.into()),
    ] {
        if n > 0 {
            put(key, json!(n));
        }
    }
    if let Some(core) = terms.server_core {
        put("server_affinity", json!(core));
    }
    if terms.gso || terms.gro {
        put("gso", json!(u8::from(terms.gso)));
        put("gro", json!(u8::from(terms.gro)));
    }
    let texts =
        [("congestion", &terms.congestion), ("title", &terms.title), ("extra_data", &terms.extra_data)];
    for (key, text) in texts.into_iter().chain([("authtoken", &parameters.token)]) {
        if let Some(text) = text {
            put(key, json!(text));
        }
    }
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
            ..BulkTerms::default()
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
            ..BulkTerms::default()
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
