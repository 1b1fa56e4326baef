//! A receiver: the URL that names it.

use std::fmt;

/// Protocol of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// OpenTelemetry's protocol, metrics as JSON.
    Otlp,
    /// InfluxDB's line protocol.
    Influx,
    /// Prometheus' text format.
    Pushgateway,
}

/// Schemes before `+http` and `+https`, and the usual port of each without TLS.
const SCHEMES: [(&str, Kind, u16); 3] =
    [("otlp", Kind::Otlp, 4318), ("influx", Kind::Influx, 8086), ("pushgateway", Kind::Pushgateway, 9091)];
const HTTPS_PORT: u16 = 443;
const EXAMPLES: &str = "otlp+http://HOST:4318, influx+http://HOST:8086?bucket=B&org=O, influx+http://HOST:8086?db=D or \
                        pushgateway+http://HOST:9091";
/// Longest URL, bytes.
const LONGEST: usize = 1_024;

/// A receiver of figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// The URL as the user gave it: without secrets.
    url: String,
    kind: Kind,
    is_secure: bool,
    host: String,
    port: u16,
    /// Path and query of requests; of a Pushgateway the part before the test's own group.
    path: String,
}

impl fmt::Display for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl Receiver {
    /// The receiver that a URL names.
    ///
    /// # Errors
    /// One sentence for a URL that names none, or that holds a secret: the command line is part of
    /// saved runs, and other users of this host can read it.
    pub fn parse(url: &str) -> Result<Receiver, String> {
        let (scheme, rest) = url.split_once("://").ok_or(format!("a URL is wanted: {EXAMPLES}"))?;
        if url.len() > LONGEST || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "a URL has at most {LONGEST} characters, all of them ASCII, and %20 for a space"
            ));
        }
        let (name, over) = scheme.split_once('+').unwrap_or((scheme, ""));
        let known = SCHEMES.into_iter().find(|(known, ..)| *known == name);
        let (_, kind, usual_port) = known.ok_or(format!("'{scheme}' is no scheme: {EXAMPLES}"))?;
        let is_secure = match over {
            "http" => false,
            "https" => true,
            _ => return Err(format!("'{scheme}' is no scheme: {name}+http or {name}+https is wanted")),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if authority.contains('@') {
            return Err("a password does not stand in a URL: NETCALIPER_EXPORT_TOKEN or a file that \
                        --export-token-file names holds NAME:PASSWORD"
                .to_owned());
        }
        if rest.contains('#') {
            return Err("a URL of a receiver has no '#'".to_owned());
        }
        let (host, port) = host_and_port(authority)?;
        let port = port.unwrap_or(if is_secure { HTTPS_PORT } else { usual_port });
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = kind.path(path, query)?;
        Ok(Receiver { url: url.to_owned(), kind, is_secure, host, port, path })
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// True for the interface of InfluxDB 2.
    pub(crate) fn is_influx2(&self) -> bool {
        self.kind == Kind::Influx && self.path.contains("/api/v2/write?")
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Name or address of its host, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// True if requests go over TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// True if a later entry makes an earlier one of the same target useless: a Pushgateway has no
    /// past.
    pub(crate) fn keeps_the_latest(&self) -> bool {
        self.kind == Kind::Pushgateway
    }
}

impl Kind {
    /// Method of a request, and the content type of its body.
    pub(crate) fn request(self) -> (&'static str, &'static str) {
        match self {
            Kind::Otlp => ("POST", "application/json"),
            Kind::Influx => ("POST", "text/plain; charset=utf-8"),
            Kind::Pushgateway => ("PUT", report::METRICS_TYPE),
        }
    }

    /// Path and query of requests, by path and query of the URL.
    fn path(self, path: &str, query: &str) -> Result<String, String> {
        let base = path.trim_end_matches('/');
        match self {
            Kind::Otlp => {
                let path = if base.is_empty() { "/v1/metrics" } else { path };
                Ok(if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") })
            }
            Kind::Influx => influx_path(base, query),
            Kind::Pushgateway if !query.is_empty() => {
                Err("a URL of a Pushgateway has no '?': pushgateway+http://HOST:9091/job/NAME".to_owned())
            }
            Kind::Pushgateway if base.is_empty() => Ok("/metrics/job/netcaliper".to_owned()),
            Kind::Pushgateway => {
                match base.split_once("/job/") {
                    Some((before, name)) if !name.is_empty() => {
                        let before = before.strip_suffix("/metrics").unwrap_or(before);
                        Ok(format!("{before}/metrics/job/{name}"))
                    }
                    _ => Err("a path at a Pushgateway names a job: pushgateway+http://HOST:9091/job/NAME"
                        .to_owned()),
                }
            }
        }
    }
}

/// Paths of InfluxDB 2 for a bucket, of InfluxDB 1 for a database.
fn influx_path(base: &str, query: &str) -> Result<String, String> {
    let names: Vec<&str> = query.split('&').map(|field| field.split('=').next().unwrap_or(field)).collect();
    let has = |name: &str| names.contains(&name);
    if let Some(secret) = ["u", "p", "token", "password"].into_iter().find(|name| has(name)) {
        return Err(format!(
            "a secret ('{secret}=') does not stand in a URL: NETCALIPER_EXPORT_TOKEN or a file that \
             --export-token-file names holds the token, or NAME:PASSWORD"
        ));
    }
    let (write, fields): (_, &[&str]) = if has("bucket") {
        ("/api/v2/write", &["bucket", "org", "orgID"])
    } else {
        ("/write", &["db", "rp"])
    };
    match names.iter().find(|name| !fields.contains(name)) {
        None => Ok(format!("{base}{write}?{query}&precision=ns")),
        Some(_) if query.is_empty() => {
            Err("a URL of InfluxDB names a bucket (?bucket=B&org=O) or, for InfluxDB \
                                            1, a database (?db=D)"
                .to_owned())
        }
        Some(name) => Err(format!(
            "'{name}' is not known: bucket, org and orgID are for InfluxDB 2, db and rp for InfluxDB 1"
        )),
    }
}

/// `HOST`, `HOST:PORT`, `[V6]` or `[V6]:PORT`.
fn host_and_port(text: &str) -> Result<(String, Option<u16>), String> {
    let wrong = || format!("'{text}' is no host: HOST, HOST:PORT or [V6]:PORT is wanted");
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
            let is_address = host.parse::<std::net::Ipv6Addr>().is_ok();
            (
                Some(host).filter(|_| is_address).ok_or_else(wrong)?,
                rest.strip_prefix(':').or((!rest.is_empty()).then_some("")),
            )
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let is_known = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
    if host.is_empty() || !host.chars().all(is_known) {
        return Err(wrong());
    }
    let port = port.map(|port| port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)).transpose()?;
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_host_port_and_path() {
        for (url, host, port, is_secure, path) in [
            ("otlp+http://collector", "collector", 4318, false, "/v1/metrics"),
            ("otlp+https://x.example/otlp/v1/metrics?a=b", "x.example", 443, true, "/otlp/v1/metrics?a=b"),
            ("otlp+http://[::1]:99/", "::1", 99, false, "/v1/metrics"),
            ("influx+http://h?bucket=b&org=o", "h", 8086, false, "/api/v2/write?bucket=b&org=o&precision=ns"),
            ("influx+https://h/base/?db=d&rp=week", "h", 443, true, "/base/write?db=d&rp=week&precision=ns"),
            ("pushgateway+http://10.0.0.1", "10.0.0.1", 9091, false, "/metrics/job/netcaliper"),
            ("pushgateway+http://h/job/a/instance/b", "h", 9091, false, "/metrics/job/a/instance/b"),
            ("pushgateway+http://h/base/metrics/job/a/", "h", 9091, false, "/base/metrics/job/a"),
        ] {
            let read = Receiver::parse(url).unwrap_or_else(|why| panic!("{url}: {why}"));
            let found = (read.host(), read.port, read.is_secure, read.path());
            assert_eq!(found, (host, port, is_secure, path), "{url}");
            assert_eq!(read.to_string(), url);
        }
    }

    #[test]
    fn what_names_no_receiver_is_one_sentence() {
        for (url, why) in [
            ("collector:4318", "a URL is wanted"),
            ("http://h", "'http' is no scheme"),
            ("otlp+grpc://h", "otlp+http or otlp+https"),
            ("otlp://h", "otlp+http or otlp+https"),
            ("otlp+http://", "is no host"),
            ("otlp+http://h:0", "is no host"),
            ("otlp+http://h:99999", "is no host"),
            ("otlp+http://::1", "is no host"),
            ("otlp+http://[::1]x", "is no host"),
            ("otlp+http://h#x", "no '#'"),
            ("otlp+http://h/a b", "%20"),
            ("influx+http://h", "names a bucket"),
            ("influx+http://h?bucket=b&precision=s", "'precision' is not known"),
            ("influx+http://h?org=o", "'org' is not known"),
            ("pushgateway+http://h?x=y", "no '?'"),
            ("pushgateway+http://h/instance/b", "names a job"),
        ] {
            let said = Receiver::parse(url).unwrap_err();
            assert!(said.contains(why) && !said.contains('\n'), "{url}: {said}");
        }
    }

    #[test]
    fn secrets_do_not_stand_in_urls() {
        for url in [
            "influx+http://name:hidden@h?db=d",
            "influx+http://h?db=d&u=name&p=hidden",
            "influx+http://h?bucket=b&token=hidden",
            "otlp+https://hidden@h",
        ] {
            let said = Receiver::parse(url).unwrap_err();
            assert!(said.contains("NETCALIPER_EXPORT_TOKEN") && !said.contains("hidden"), "{url}: {said}");
        }
    }
}
