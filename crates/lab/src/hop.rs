//! The hops of a path: routers between client and server, and how people write them
//! (`delay=2ms,ways=4,way3.up.loss=1%`).

use crate::grammar::number;
use crate::nat::Nat;
use crate::setup::{Path, PathMtu};
use metrics::{Clamped, Mono, SECOND, real};
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The most hops of a lab.
pub const MOST_HOPS: usize = 16;
/// The most routers side by side.
pub const MOST_WAYS: u8 = 16;
/// The most labels of a stack: the message of an expired packet has room for more.
const MOST_LABELS: usize = 8;
/// Every label has 20 bits (RFC 3032).
const LAST_LABEL: u32 = 0xf_ffff;

/// Choice among routers side by side, made for each packet where it leaves the router before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// By a hash of protocol, addresses and ports, another for each hop and direction.
    #[default]
    Flow,
    /// At random, each packet by itself.
    Packet,
    /// The way of the hop before (on the client's side) goes on: parallel lines.
    Same,
}

/// A hop: a router, or several side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Hop {
    /// Choice of the way.
    pub choice: Choice,
    /// Way 1, way 2, …: 1 to 16.
    pub routers: Vec<Router>,
}

/// Limit of a router's ICMP errors: a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IcmpRate {
    /// Messages per second.
    pub per_second: f64,
    /// Messages that may follow each other at once after a pause.
    pub burst: u32,
}

impl Default for IcmpRate {
    /// `icmp_msgs_per_sec` and `icmp_msgs_burst` of Linux.
    fn default() -> Self {
        IcmpRate { per_second: 1000.0, burst: 50 }
    }
}

/// A router, and the link that joins it with the hop before, or with the client.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Router {
    /// Source of its ICMPv4 messages.
    pub v4: Ipv4Addr,
    /// Source of its ICMPv6 messages.
    pub v6: Ipv6Addr,
    /// Conditions of the link, client to server.
    pub up: Path,
    /// Conditions of the link, server to client.
    pub down: Path,
    /// Limit of its ICMP errors; `None` for a router that sends none.
    pub icmp: Option<IcmpRate>,
    /// Bytes of a packet that an ICMP error quotes behind the IP header; `None` for as many as fit
    /// (RFC 1812, RFC 4443).
    pub quote: Option<u32>,
    /// Translation of the client's IPv4 address.
    pub nat: Option<Nat>,
    /// MPLS label stack that time exceeded messages name, the outermost first (RFC 4950).
    pub labels: Vec<u32>,
}

impl Router {
    /// Way `way` of hop `hop`, both from 1, without conditions.
    pub fn new(hop: u8, way: u8) -> Self {
        Router {
            v4: Ipv4Addr::new(10, 77, hop, way),
            v6: Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, hop.into(), way.into()),
            up: Path::default(),
            down: Path::default(),
            icmp: Some(IcmpRate::default()),
            quote: None,
            nat: None,
            labels: Vec::new(),
        }
    }

    /// Its address in the family of `other`.
    pub(crate) fn address(&self, other: IpAddr) -> IpAddr {
        if other.is_ipv4() { self.v4.into() } else { self.v6.into() }
    }

    /// Sets one condition: of the router, or of its link in one direction or both.
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let wrong = |why: String| format!("{name}: {why}");
        match name {
            "address" => match value.parse() {
                Ok(IpAddr::V4(v4)) => self.v4 = v4,
                Ok(IpAddr::V6(v6)) => self.v6 = v6,
                Err(_) => return Err(wrong(format!("'{value}' is not an address such as 192.0.2.1"))),
            },
            "icmp" => self.icmp = Some(icmp_rate(value).map_err(wrong)?),
            "silent" if value.is_empty() => self.icmp = None,
            "quote" => self.quote = Some(number(value, 65_535).map_err(wrong)?),
            "nat" => self.nat = Some(nat(value).map_err(wrong)?),
            "mpls" => {
                let labels = value.split(':').map(|label| number(label, LAST_LABEL));
                self.labels = labels.collect::<Result<_, _>>().map_err(wrong)?;
            }
            _ => {
                let paths = match name.split_once('.') {
                    Some(("up", name)) => (name, vec![&mut self.up]),
                    Some(("down", name)) => (name, vec![&mut self.down]),
                    _ => (name, vec![&mut self.up, &mut self.down]),
                };
                for path in paths.1 {
                    match paths.0 {
                        // The routers at both ends of a link know its MTU.
                        "mtu" => {
                            let bytes = number(value, 65_535).map_err(wrong)?;
                            path.path_mtu = Some(PathMtu { bytes, silent: false });
                        }
                        name => path.set(name, value)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        self.up.check()?;
        self.down.check()?;
        let v4 = self.v4;
        if v4.is_multicast() || v4.is_broadcast() || v4.is_unspecified() || v4.is_loopback() {
            return Err(format!("address: {v4} is no address of a router"));
        }
        if self.v6.is_multicast() || self.v6.is_unspecified() || self.v6.is_loopback() {
            return Err(format!("address: {} is no address of a router", self.v6));
        }
        if self.nat.is_some() && v4.octets()[..2] != crate::Side::Server.ipv4().octets()[..2] {
            return Err(format!(
                "nat: the server has no route to {v4}: give the hop an address in 10.77.0.0/16"
            ));
        }
        if self.labels.len() > MOST_LABELS {
            return Err(format!("mpls: {} labels are more than {MOST_LABELS}", self.labels.len()));
        }
        Ok(())
    }
}

impl Hop {
    /// Hops in the order from client to server, each as people write it.
    ///
    /// # Errors
    /// The first thing that cannot be, in one sentence.
    pub fn parse_all<T: AsRef<str>>(texts: &[T]) -> Result<Vec<Hop>, String> {
        if texts.len() > MOST_HOPS {
            return Err(format!("{} hops are more than {MOST_HOPS}", texts.len()));
        }
        let parse = |(number, text): (u8, &T)| {
            Hop::parse(text.as_ref(), number).map_err(|why| format!("hop {number}: {why}"))
        };
        (1..).zip(texts).map(parse).collect()
    }

    /// Hop `number`, from 1, as people write it: `delay=2ms,ways=4,way3.up.loss=1%`.
    fn parse(text: &str, number: u8) -> Result<Hop, String> {
        let parts: Vec<(&str, &str)> = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| match part.split_once('=') {
                Some((name, value)) => Ok((name.trim(), value.trim())),
                None if matches!(part.rsplit('.').next(), Some("silent" | "nat")) => Ok((part, "")),
                None => Err(format!("'{part}' is not a condition such as delay=5ms")),
            })
            .collect::<Result<_, _>>()?;
        let (count, choice) = parts
            .iter()
            .rfind(|(name, _)| *name == "ways")
            .map_or(Ok((1, Choice::Flow)), |(_, value)| ways(value))?;
        let mut routers: Vec<Router> = (1..=count).map(|way| Router::new(number, way)).collect();
        for (full, value) in parts.into_iter().filter(|(name, _)| *name != "ways") {
            let prefix = full.strip_prefix("way").and_then(|rest| rest.split_once('.'));
            let (name, chosen) = match prefix {
                Some((way, name)) => {
                    let way = way.parse::<usize>().ok().filter(|way| (1..=routers.len()).contains(way));
                    let way = way.ok_or_else(|| format!("{full}: the hop has ways 1 to {count} (ways=K)"))?;
                    (name, &mut routers[way - 1..way])
                }
                None => (full, &mut routers[..]),
            };
            chosen.iter_mut().try_for_each(|router| router.set(name, value))?;
        }
        routers.iter().try_for_each(Router::check)?;
        Ok(Hop { choice, routers })
    }
}

fn ways(text: &str) -> Result<(u8, Choice), String> {
    let (count, choice) = match text.split_once(':') {
        None => (text, Choice::Flow),
        Some((count, "packet")) => (count, Choice::Packet),
        Some((count, "same")) => (count, Choice::Same),
        Some((_, other)) => return Err(format!("ways: '{other}' is neither 'packet' nor 'same'")),
    };
    let known = count.parse().ok().filter(|count| (1..=MOST_WAYS).contains(count));
    let count = known.ok_or_else(|| format!("ways: '{count}' is not a number from 1 to {MOST_WAYS}"))?;
    Ok((count, choice))
}

/// `10/s`, or `10/s:5` with a burst; without one, a tenth of a second's messages and at least 1.
fn icmp_rate(text: &str) -> Result<IcmpRate, String> {
    let (rate, burst) = text.split_once(':').map_or((text, None), |(rate, burst)| (rate, Some(burst)));
    let rate = rate.strip_suffix("/s").and_then(|rate| rate.parse().ok());
    let per_second: f64 = rate
        .filter(|rate| (0.001..=1e6).contains(rate))
        .ok_or_else(|| format!("'{text}' is not a rate of messages such as 10/s or 10/s:5"))?;
    let burst = match burst {
        Some(burst) => number(burst, 1_000_000)?.max(1),
        None => u32::clamped((per_second / 10.0).max(1.0)),
    };
    Ok(IcmpRate { per_second, burst })
}

fn nat(text: &str) -> Result<Nat, String> {
    let mut nat = Nat::default();
    for part in text.split(':').filter(|part| !part.is_empty()) {
        match part {
            "ports" => nat.ports = true,
            "full" => nat.full = true,
            _ => return Err(format!("'{part}' is neither 'ports' nor 'full'")),
        }
    }
    Ok(nat)
}

/// The tokens of an [`IcmpRate`], as the instant at which the bucket is full again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bucket(Mono);

impl Bucket {
    /// Takes a token at `now`; false when there is none.
    pub(crate) fn take(&mut self, rate: IcmpRate, now: Mono) -> bool {
        let token = u64::clamped((real(SECOND) / rate.per_second).round());
        let is_left = self.0.since(now) <= token.saturating_mul(u64::from(rate.burst.max(1) - 1));
        if is_left {
            self.0 = self.0.max(now).plus(token);
        }
        is_left
    }
}

#[cfg(test)]
mod tests;
