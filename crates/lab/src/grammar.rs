//! Conditions as people write them: `delay=20ms,jitter=2ms:normal,loss=0.5%`.
//!
//! A value's parts are separated by colons, conditions by commas. Each condition has the name of
//! the option that sets it for both directions.

use crate::setup::{
    Behind, Bottleneck, Bursts, Corrupt, Duplicate, Jitter, Limit, Only, Path, PathMtu, Reorder, Shape,
    Window,
};
use metrics::{Clamped, parse_bytes, parse_duration, parse_ecn, parse_rate};

/// A condition: its name, its values, and its effect. The command line's options and help are made
/// from these.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    pub name: &'static str,
    pub value: &'static str,
    pub help: &'static str,
    /// True if it may be given several times.
    pub repeats: bool,
    set: fn(&mut Path, &str) -> Result<(), String>,
}

/// Of each condition its name, its value, whether it may be given several times, how it is set, its
/// help.
macro_rules! keys {
    ($($name:literal $value:literal $repeats:literal $set:expr, $help:literal;)*) => {
        &[$(Key { name: $name, value: $value, help: $help, repeats: $repeats, set: $set },)*]
    };
}

pub const KEYS: &[Key] = keys! {
    "delay" "TIME" false |path, text| set(&mut path.delay_ns, time(text)),
        "Delay of every packet. In both directions: a round trip takes twice as long.";
    "jitter" "TIME[:SHAPE][:reorder]" false |path, text| set(&mut path.jitter, jitter(text).map(Some)),
        "Delay that differs: uniform (±TIME), normal (TIME is the standard deviation), exponential or pareto[=SHAPE] (only more, TIME is the mean; pareto has a heavy tail). Packets keep their order, unless `reorder` lets them overtake.";
    "rate" "RATE" false |path, text| parse_rate(text).map(|bps| bottleneck(path).rate_bps = bps),
        "Bottleneck, in bits per second of IP packets.";
    "queue" "TIME|BYTES|Np" false |path, text| limit(text).map(|limit| bottleneck(path).limit = limit),
        "Size of the queue at the bottleneck: 100ms (the default), 64Ki, or 50p (packets); further packets are dropped.";
    "overhead" "BYTES" false |path, text| number(text, 10_000).map(|bytes| bottleneck(path).overhead = bytes),
        "Bytes that each packet takes at the bottleneck beside its own: 38 for Ethernet.";
    "loss" "P" false |path, text| set(&mut path.loss, chance(text)),
        "Random loss, a probability such as 0.5% or 0.005.";
    "burst-loss" "ENTER:LEAVE[:BAD[:GOOD]]" false |path, text| set(&mut path.bursts, bursts(text).map(Some)),
        "Loss in bursts (Gilbert-Elliott): probabilities, per packet, of entering and leaving a bad time, and of loss in bad [100%] and good [0] times. 0.1%:20% loses 0.5 % in bursts of 5.";
    "duplicate" "P[:COPIES[:TIME]]" false |path, text| set(&mut path.duplicate, duplicate(text).map(Some)),
        "Packets that arrive more than once, and the time from one copy to the next.";
    "reorder" "P:N|P:TIME" false |path, text| set(&mut path.reorder, reorder(text).map(Some)),
        "Packets that are overtaken by N later ones, or that leave TIME later while others do not wait.";
    "corrupt" "P[:BITS][:wire]" false |path, text| set(&mut path.corrupt, corrupt(text).map(Some)),
        "Packets with BITS [1] flipped bits of payload. Checksums are made to fit, so that the application gets them; with `wire` they are not, and the receiver's kernel drops them.";
    "outage" "START+LENGTH[/PERIOD]" true |path, text| window(text).map(|window| path.outages.push(window)),
        "Packets that arrive during an outage are lost. Times count from the start of the command. Repeatable.";
    "stall" "START+LENGTH[/PERIOD]" true |path, text| window(text).map(|window| path.stalls.push(window)),
        "While it lasts, nothing leaves; all that waited leaves at its end. Repeatable.";
    "mtu" "BYTES" false |path, text| set(&mut path.mtu.0, number(text, 65_535)),
        "MTU of the sending device [1500]: the sender's kernel knows it.";
    "path-mtu" "BYTES[:silent]" false |path, text| set(&mut path.path_mtu, path_mtu(text).map(Some)),
        "Larger packets are dropped on the way; an ICMP message reports each to its sender, unless silent.";
    "dscp" "DSCP" false |path, text| set(&mut path.dscp, metrics::parse_dscp(text).map(Some)),
        "Gives all packets this code point: 0 to 63 or a name such as ef, af41, cs1.";
    "ecn-ce" "P" false |path, text| set(&mut path.ecn_ce, chance(text)),
        "Marks packets of senders that understand it: congestion experienced.";
    "ecn-above" "TIME" false |path, text| set(&mut path.ecn_above_ns, time(text).map(Some)),
        "Marks them when they had to wait for the bottleneck for longer.";
    "ecn-bleach" "yes|no" false |path, text| set(&mut path.ecn_bleach, yes(text)),
        "Clears the ECN bits.";
    "only" "PROTOCOL[:PORT][+CODEPOINT]" false |path, text| set(&mut path.only, only(text).map(Some)),
        "The conditions are for these packets only (tcp, udp, icmp, or a number; with an ECN codepoint: udp+ect1); others pass at once.";
};

impl Path {
    /// Sets the condition `name`, as written on a command line.
    ///
    /// # Errors
    /// Sets one condition. The error names the fault of the name or the value in one sentence.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let Some(key) = KEYS.iter().find(|key| key.name == name) else {
            let all: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
            return Err(format!("'{name}' is not a condition of a path; there are {}", all.join(", ")));
        };
        (key.set)(self, value.trim()).map_err(|why| format!("{name}: {why}"))
    }

    /// Sets conditions written as `delay=5ms,loss=1%`.
    ///
    /// # Errors
    /// Sets several conditions. The error names the fault of the first bad one in one sentence.
    pub fn set_all(&mut self, text: &str) -> Result<(), String> {
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| format!("'{part}' is not a condition such as delay=5ms"))?;
            self.set(name.trim(), value)?;
        }
        Ok(())
    }
}

fn set<T>(field: &mut T, value: Result<T, String>) -> Result<(), String> {
    *field = value?;
    Ok(())
}

/// The bottleneck, made when it is first spoken of. A rate of 0 stands for none given yet and is
/// refused by the check.
fn bottleneck(path: &mut Path) -> &mut Bottleneck {
    path.bottleneck.get_or_insert(Bottleneck { rate_bps: 0, limit: Limit::Time(100_000_000), overhead: 0 })
}

pub(crate) fn number(text: &str, most: u32) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|n| *n <= most)
        .ok_or_else(|| format!("'{text}' is not a whole number up to {most}"))
}

/// A duration with its unit. A bare number, which is microseconds to tc, is refused.
fn time(text: &str) -> Result<u64, String> {
    let ns = parse_duration(text)?;
    match is_bare(text) && ns > 0 {
        true => Err(format!("'{text}' has no unit: write {text}ms or {text}s")),
        false => Ok(ns),
    }
}

fn is_bare(text: &str) -> bool {
    text.trim().parse::<f64>().is_ok()
}

/// A probability: `0.5%` or `0.005`. A bare 1, which is 1 % to tc, is refused.
fn chance(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 0.01),
        None => (text, 1.0),
    };
    if text.trim().parse::<f64>().is_ok_and(|n| (n - 1.0).abs() < f64::EPSILON) {
        return Err(format!("'{text}' is either 1 % or every packet: write 1% or 100%"));
    }
    let p = number.trim().parse::<f64>().ok().map(|n| n * scale).filter(|p| (0.0..=1.0).contains(p));
    p.ok_or_else(|| format!("'{text}' is not a probability such as 0.5% or 0.005"))
}

fn yes(text: &str) -> Result<bool, String> {
    match text {
        "yes" | "on" => Ok(true),
        "no" | "off" => Ok(false),
        _ => Err(format!("'{text}' is neither yes nor no")),
    }
}

fn jitter(text: &str) -> Result<Jitter, String> {
    let mut parts = text.split(':');
    let amount_ns = time(parts.next().unwrap_or_default())?;
    let mut jitter = Jitter { amount_ns, shape: Shape::Uniform, reorder: false };
    for part in parts {
        match part.split_once('=').unwrap_or((part, "")) {
            ("uniform", "") => jitter.shape = Shape::Uniform,
            ("normal", "") => jitter.shape = Shape::Normal,
            ("exponential", "") => jitter.shape = Shape::Exponential,
            ("pareto", "") => jitter.shape = Shape::Pareto(2.5),
            ("pareto", shape) => {
                let shape =
                    shape.parse().map_err(|_| format!("'{shape}' is not a Pareto shape such as 2.5"))?;
                jitter.shape = Shape::Pareto(shape);
            }
            ("reorder", "") => jitter.reorder = true,
            _ => {
                return Err(format!(
                    "'{part}' is neither a shape (uniform, normal, exponential, pareto) nor 'reorder'"
                ));
            }
        }
    }
    Ok(jitter)
}

/// Packets end with `p`, times with `s`, anything else is bytes.
fn limit(text: &str) -> Result<Limit, String> {
    if let Some(packets) = text.strip_suffix('p') {
        return packets
            .parse()
            .map(Limit::Packets)
            .map_err(|_| format!("'{text}' is not a number of packets such as 50p"));
    }
    if text.ends_with('s') {
        return parse_duration(text).map(Limit::Time);
    }
    let wrong = || format!("'{text}' is not a queue such as 100ms, 64Ki or 50p");
    if is_bare(text) {
        return Err(format!("'{text}' has no unit: write {text}p (packets), {text}B (bytes) or {text}ms"));
    }
    parse_bytes(text).map(Limit::Bytes).map_err(|_| wrong())
}

fn bursts(text: &str) -> Result<Bursts, String> {
    let parts: Vec<f64> = text.split(':').map(chance).collect::<Result<_, _>>()?;
    match parts[..] {
        [enter, leave] => Ok(Bursts { enter, leave, bad: 1.0, good: 0.0 }),
        [enter, leave, bad] => Ok(Bursts { enter, leave, bad, good: 0.0 }),
        [enter, leave, bad, good] => Ok(Bursts { enter, leave, bad, good }),
        _ => Err(format!("'{text}' is not ENTER:LEAVE[:BAD[:GOOD]] such as 0.1%:20%")),
    }
}

fn duplicate(text: &str) -> Result<Duplicate, String> {
    let mut parts = text.splitn(3, ':');
    Ok(Duplicate {
        chance: chance(parts.next().unwrap_or_default())?,
        copies: u8::clamped(parts.next().map_or(Ok(1), |n| number(n, 255))?),
        gap_ns: parts.next().map_or(Ok(0), time)?,
    })
}

fn reorder(text: &str) -> Result<Reorder, String> {
    let (p, by) = text.split_once(':').ok_or_else(|| {
        format!("'{text}' does not say by how many packets (1%:3) or by what time (1%:5ms)")
    })?;
    let behind = match by.parse::<u16>() {
        Ok(packets) => Behind::Packets(packets),
        Err(_) => Behind::Time(time(by)?),
    };
    Ok(Reorder { chance: chance(p)?, behind })
}

fn corrupt(text: &str) -> Result<Corrupt, String> {
    let mut parts = text.split(':');
    let chance = chance(parts.next().unwrap_or_default())?;
    let mut corrupt = Corrupt { chance, bits: 1, wire: false };
    for part in parts {
        match part {
            "wire" => corrupt.wire = true,
            bits => corrupt.bits = u8::clamped(number(bits, 255)?),
        }
    }
    Ok(corrupt)
}

fn window(text: &str) -> Result<Window, String> {
    let wrong = || format!("'{text}' is not START+LENGTH or START+LENGTH/PERIOD such as 2s+500ms/10s");
    let (start, rest) = text.split_once('+').ok_or_else(wrong)?;
    let (length, period) = rest.split_once('/').unwrap_or((rest, "0"));
    Ok(Window { start_ns: time(start)?, length_ns: time(length)?, period_ns: time(period)? })
}

fn path_mtu(text: &str) -> Result<PathMtu, String> {
    let (bytes, silent) = match text.split_once(':') {
        Some((bytes, "silent")) => (bytes, true),
        Some((_, other)) => return Err(format!("'{other}' is not 'silent'")),
        None => (text, false),
    };
    Ok(PathMtu { bytes: number(bytes, 65_535)?, silent })
}

fn only(text: &str) -> Result<Only, String> {
    let (text, ecn) = match text.split_once('+') {
        Some((text, ecn)) => (text, Some(parse_ecn(ecn)?)),
        None => (text, None),
    };
    let (protocol, port) = match text.split_once(':') {
        Some((protocol, port)) => (protocol, Some(u16::clamped(number(port, 65_535)?))),
        None => (text, None),
    };
    let protocol = match protocol {
        "tcp" => 6,
        "udp" => 17,
        "icmp" => 1,
        "icmp6" => 58,
        other => u8::clamped(number(other, 255)?),
    };
    Ok(Only { protocol, port, ecn })
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::Ecn;

    fn path(text: &str) -> Path {
        let mut path = Path::default();
        path.set_all(text).unwrap();
        path.check().unwrap();
        path
    }

    #[test]
    fn what_people_write() {
        let p = path("delay=20ms, jitter=2ms:normal, rate=100M,queue=64Ki,overhead=38,loss=0.5%");
        assert_eq!((p.delay_ns, p.loss), (20_000_000, 0.005));
        assert_eq!(p.jitter, Some(Jitter { amount_ns: 2_000_000, shape: Shape::Normal, reorder: false }));
        let limit = Limit::Bytes(65_536);
        assert_eq!(p.bottleneck, Some(Bottleneck { rate_bps: 100_000_000, limit, overhead: 38 }));
        let p = path("burst-loss=0.1%:20%,duplicate=1%:2:5ms,reorder=1%:3,corrupt=0.1%:2:wire");
        assert_eq!(p.bursts, Some(Bursts { enter: 0.001, leave: 0.2, bad: 1.0, good: 0.0 }));
        assert_eq!(p.duplicate, Some(Duplicate { chance: 0.01, copies: 2, gap_ns: 5_000_000 }));
        assert_eq!(p.reorder, Some(Reorder { chance: 0.01, behind: Behind::Packets(3) }));
        assert_eq!(p.corrupt, Some(Corrupt { chance: 0.001, bits: 2, wire: true }));
        let p = path("outage=2s+500ms,outage=5s+1s/10s,stall=1s+50ms,mtu=1400,path-mtu=1300:silent,dscp=ef");
        let windows = |start_ns, length_ns, period_ns| Window { start_ns, length_ns, period_ns };
        let s = metrics::SECOND;
        assert_eq!(p.outages, [windows(2 * s, s / 2, 0), windows(5 * s, s, 10 * s)]);
        assert_eq!((p.mtu.0, p.path_mtu), (1400, Some(PathMtu { bytes: 1300, silent: true })));
        let p = path("ecn-ce=10%,ecn-above=5ms,ecn-bleach=no,only=udp:7411,reorder=2%:5ms,queue=50p,rate=1G");
        assert_eq!((p.ecn_ce, p.ecn_above_ns, p.dscp), (0.1, Some(5_000_000), None));
        assert_eq!(p.only, Some(Only { protocol: 17, port: Some(7411), ecn: None }));
        let marked = path("only=udp+ect1").only;
        assert_eq!(marked, Some(Only { protocol: 17, port: None, ecn: Some(Ecn::Ect1) }));
        assert_eq!(p.reorder.unwrap().behind, Behind::Time(5_000_000));
        assert_eq!(p.bottleneck.unwrap().limit, Limit::Packets(50));
        assert_eq!(path("jitter=1ms:pareto=3:reorder").jitter.unwrap().shape, Shape::Pareto(3.0));
        assert_eq!(path("rate=5M").bottleneck.unwrap().limit, Limit::Time(100_000_000));
        assert_eq!(path(""), Path::default());
    }

    #[test]
    fn what_is_wrong_is_said_in_a_sentence() {
        let table = [
            ("delay", "'delay' is not a condition such as delay=5ms"),
            ("lag=5ms", "'lag' is not a condition of a path; there are delay"),
            ("delay=soon", "delay: 'soon' is not a duration"),
            ("loss=150%", "loss: '150%' is not a probability"),
            ("loss=nan", "loss: 'nan' is not a probability"),
            ("jitter=1ms:square", "jitter: 'square' is neither a shape"),
            ("reorder=1%", "reorder: '1%' does not say by how many"),
            ("outage=2s", "outage: '2s' is not START+LENGTH"),
            ("queue=many", "queue: 'many' is not a queue"),
            ("burst-loss=1%", "burst-loss: '1%' is not ENTER:LEAVE"),
            ("dscp=64", "dscp: '64' is not a DSCP"),
            ("path-mtu=1300:loud", "path-mtu: 'loud' is not 'silent'"),
            // As tc takes them, each with another meaning.
            ("delay=5", "delay: '5' has no unit: write 5ms or 5s"),
            ("jitter=2:normal", "jitter: '2' has no unit"),
            ("outage=2+1", "outage: '2' has no unit"),
            ("loss=1", "loss: '1' is either 1 % or every packet: write 1% or 100%"),
            ("duplicate=1:2", "duplicate: '1' is either 1 %"),
            ("queue=1000", "queue: '1000' has no unit: write 1000p (packets), 1000B (bytes) or 1000ms"),
        ];
        for (text, want) in table {
            let why = Path::default().set_all(text).unwrap_err();
            assert!(why.starts_with(want), "{text}: {why}");
        }
        // A queue without a rate is found by the check.
        let mut path = Path::default();
        path.set_all("queue=50p").unwrap();
        assert!(path.check().unwrap_err().starts_with("rate"));
    }
}
