//! iperf3's command line.

mod options;
mod spec;
mod values;

pub use spec::{Asked, Output, Role, Spec};

use metrics::{SECOND, parse_dscp};
use model::BulkTerms;
use options::{OPTIONS, Value, named};
use values::{amount, any_base, keepalive, number};

/// What is being gathered.
struct Draft {
    spec: Spec,
    server: bool,
    client: Option<String>,
    /// Options that only one of the two takes, in the order given.
    servers: Vec<&'static str>,
    clients: Vec<&'static str>,
    time_given: bool,
    bitrate: Option<u64>,
    user: Option<String>,
    public_key: Option<String>,
    private_key: Option<String>,
    users: Option<String>,
}

/// Reads a command line, without the program's name.
///
/// # Errors
/// One sentence: what was wrong, and what is expected.
pub fn read(arguments: &[String]) -> Result<Asked, String> {
    let mut draft = Draft::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if let Some(long) = word.strip_prefix("--") {
            let (name, given) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let option = named(name)?;
            let value = match (option.2, given) {
                (Value::None, Some(_)) => return Err(format!("option '--{}' takes no value", option.1)),
                (Value::Needed, None) => Some(
                    words.next().cloned().ok_or_else(|| format!("option '--{}' needs a value", option.1))?,
                ),
                (_, given) => given,
            };
            if let Some(asked) = draft.set(option.1, value)? {
                return Ok(asked);
            }
            continue;
        }
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            return Err(format!("'{word}' is not an option: iperf3 takes options only"));
        };
        for (at, letter) in letters.char_indices() {
            let found = OPTIONS.iter().find(|option| option.0 == letter && letter != '\0');
            let option = found.ok_or_else(|| format!("'-{letter}' is not an option of iperf3"))?;
            let rest = &letters[at + letter.len_utf8()..];
            let value = match option.2 {
                Value::Needed if !rest.is_empty() => Some(rest.to_owned()),
                Value::Needed => {
                    Some(words.next().cloned().ok_or_else(|| format!("option '-{letter}' needs a value"))?)
                }
                Value::None | Value::Maybe => None,
            };
            if let Some(asked) = draft.set(option.1, value)? {
                return Ok(asked);
            }
            if option.2 == Value::Needed {
                break;
            }
        }
    }
    draft.finish().map(|spec| Asked::Run(Box::new(spec)))
}

impl Draft {
    fn new() -> Self {
        let spec = Spec {
            role: Role::Server,
            port: 5201,
            interval_ns: SECOND,
            format: 'a',
            verbose: false,
            output: Output::Text,
            logfile: None,
            timestamps: None,
            pidfile: None,
            terms: BulkTerms::default(),
            length_given: false,
            bind: None,
            device: None,
            family: (false, false),
            file: None,
            user_timeout_ns: None,
            keepalive_ns: None,
            affinity: None,
            local_port: None,
            connect_timeout_ns: None,
            silence_ns: 120 * SECOND,
            user: None,
            pkcs1: false,
            one_off: false,
            daemon: false,
            rate_limit: None,
            longest: None,
            idle_s: None,
            keys: None,
            skew_s: 10,
            ignored: Vec::new(),
        };
        Draft {
            spec,
            server: false,
            client: None,
            servers: Vec::new(),
            clients: Vec::new(),
            time_given: false,
            bitrate: None,
            user: None,
            public_key: None,
            private_key: None,
            users: None,
        }
    }

    /// Takes one option in; what is asked for at once, if it is.
    fn set(&mut self, name: &'static str, value: Option<String>) -> Result<Option<Asked>, String> {
        let given = value.clone().unwrap_or_default();
        let text = given.as_str();
        let spec = &mut self.spec;
        match name {
            "help" => return Ok(Some(Asked::Help)),
            "version" => return Ok(Some(Asked::Version)),
            "server" => self.server = true,
            "client" => self.client = Some(given),
            "port" => spec.port = number(text, "port")?,
            "format" => {
                let letter = text.chars().next().filter(|c| text.len() == 1 && "kmgtKMGT".contains(*c));
                spec.format = letter.ok_or("a format must be one of k, m, g, t, K, M, G, T")?;
            }
            "interval" => {
                let seconds: f64 = number(text, "number of seconds")?;
                if seconds != 0.0 && !(0.1..=60.0).contains(&seconds) {
                    return Err("the interval must be 0.1 to 60 seconds, or 0 for none".into());
                }
                spec.interval_ns = (seconds * 1e9).round() as u64;
            }
            "pidfile" => spec.pidfile = Some(given),
            "affinity" => {
                let (own, theirs) = text.split_once([',', '/']).unwrap_or((text, ""));
                spec.affinity = Some(number(own, "core number")?);
                // Upstream's own scripts write n/m, and mean the first alone.
                if text.contains(',') {
                    spec.terms.server_core = Some(number(theirs, "core number")?);
                }
            }
            "file" => spec.file = Some(given),
            "forceflush" => {}
            "snd-timeout" => {
                let ms: u64 = number(text, "number of milliseconds")?;
                spec.user_timeout_ns = Some(ms.saturating_mul(1_000_000)).filter(|ns| *ns > 0);
            }
            "cntl-ka" => spec.keepalive_ns = keepalive(value.as_deref())?,
            "bind" => {
                let (address, device) = match text.split_once('%') {
                    Some((address, device)) => (address, Some(device.to_owned())),
                    None => (text, None),
                };
                spec.bind = Some(number(address, "address")?);
                spec.device = device.or(spec.device.take());
            }
            "bind-dev" => spec.device = Some(given),
            "verbose" => spec.verbose = true,
            "json" if spec.output == Output::Text => spec.output = Output::Json,
            "json" => {}
            "json-stream" if spec.output != Output::StreamAndAll => spec.output = Output::Stream,
            "json-stream" => {}
            "json-stream-full-output" => spec.output = Output::StreamAndAll,
            "logfile" => spec.logfile = Some(given),
            "timestamps" => spec.timestamps = Some(value.unwrap_or_else(|| "%c ".to_owned())),
            "rcv-timeout" => {
                let ms: u64 = number(text, "number of milliseconds")?;
                if ms < 100 {
                    return Err("the receive timeout must be 100 ms at least".into());
                }
                spec.silence_ns = ms * 1_000_000;
            }
            _ if self.set_server(name, text)? => {}
            _ => self.set_client(name, text)?,
        }
        Ok(None)
    }

    /// Options of servers; false when it is none.
    fn set_server(&mut self, name: &'static str, text: &str) -> Result<bool, String> {
        let spec = &mut self.spec;
        match name {
            "daemon" => spec.daemon = true,
            "one-off" => spec.one_off = true,
            "server-bitrate-limit" => {
                let (rate, over) = text.split_once('/').map_or((text, "5"), |(rate, over)| (rate, over));
                let over = number(over, "number of seconds")?;
                spec.rate_limit = Some((amount(rate, 1000.0)?, over)).filter(|(rate, _)| *rate > 0);
            }
            "server-max-duration" => spec.longest = Some(number(text, "number of seconds")?),
            "idle-timeout" => {
                let seconds = number(text, "number of seconds")?;
                if !(1..=86_400).contains(&seconds) {
                    return Err("the idle timeout must be 1 to 86400 seconds".into());
                }
                spec.idle_s = Some(seconds);
            }
            "rsa-private-key-path" => self.private_key = Some(text.to_owned()),
            "authorized-users-path" => self.users = Some(text.to_owned()),
            "time-skew-threshold" => spec.skew_s = number(text, "number of seconds")?,
            // Ours helps a client, too.
            "use-pkcs1-padding" => {
                spec.pkcs1 = true;
                return Ok(true);
            }
            _ => return Ok(false),
        }
        self.servers.push(name);
        Ok(true)
    }

    fn set_client(&mut self, name: &'static str, text: &str) -> Result<(), String> {
        self.clients.push(name);
        let spec = &mut self.spec;
        let terms = &mut spec.terms;
        match name {
            "udp" => terms.udp = true,
            "sctp" | "xbind" | "nstreams" => {
                let others = "there is TCP, multipath TCP (-m) and UDP (-u)";
                return Err(format!("--{name}: SCTP is not supported here; {others}"));
            }
            "connect-timeout" => {
                spec.connect_timeout_ns = Some(number::<u64>(text, "number of milliseconds")? * 1_000_000);
            }
            "bitrate" | "bandwidth" => {
                let (rate, burst) = text.split_once('/').map_or((text, None), |(r, b)| (r, Some(b)));
                self.bitrate = Some(amount(rate, 1000.0)?);
                if let Some(burst) = burst {
                    terms.burst = number(burst, "number of packets")?;
                }
            }
            "fq-rate" => terms.fq_rate = amount(text, 1000.0)?,
            "time" => {
                terms.time_s = number(text, "whole number of seconds")?;
                self.time_given = true;
            }
            "bytes" => terms.bytes = amount(text, 1024.0)?,
            "blockcount" => terms.blocks = amount(text, 1024.0)?,
            "length" => {
                terms.block = u32::try_from(amount(text, 1024.0)?).unwrap_or(u32::MAX);
                spec.length_given = true;
            }
            "cport" => spec.local_port = Some(number(text, "port")?),
            "parallel" => terms.streams = number(text, "number of streams")?,
            "reverse" => terms.reverse = true,
            "bidir" => terms.bidir = true,
            "window" => terms.window = amount(text, 1024.0)?,
            "congestion" | "linux-congestion" => terms.congestion = Some(text.to_owned()),
            "set-mss" => terms.mss = number(text, "number of bytes")?,
            "no-delay" => terms.nodelay = true,
            "version4" => spec.family.0 = true,
            "version6" => spec.family.1 = true,
            "tos" => {
                let octet = any_base(text, "type of service (0 to 255)")?;
                terms.tos = u8::try_from(octet).map_err(|_| "the type of service must be 0 to 255")?;
            }
            "dscp" => {
                let class = parse_dscp(text).map_err(|error| error.to_string())?;
                terms.tos = class << 2;
            }
            "flowlabel" => terms.flow_label = any_base(text, "flow label")?,
            "zerocopy" => terms.zerocopy = true,
            "skip-rx-copy" => terms.discard = true,
            "omit" => {
                let seconds: f64 = number(text, "number of seconds")?;
                terms.omit_s = seconds.ceil() as u32;
            }
            "title" => terms.title = Some(text.to_owned()),
            "extra-data" => terms.extra_data = Some(text.to_owned()),
            "get-server-output" => terms.server_output = true,
            "udp-counters-64bit" => terms.wide = true,
            "gsro" => (terms.gso, terms.gro) = (true, true),
            "repeating-payload" => terms.repeating = true,
            "dont-fragment" => terms.dont_fragment = true,
            "mptcp" => terms.mptcp = true,
            "username" => self.user = Some(text.to_owned()),
            "rsa-public-key-path" => self.public_key = Some(text.to_owned()),
            other => spec.ignored.push(format!("--{other}")),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Spec, String> {
        // Both may have them.
        let both = ["version4", "version6", "debug", "mptcp"];
        self.clients.retain(|name| !both.contains(name));
        self.spec.role = match (self.server, self.client) {
            (true, Some(_)) => return Err("cannot be both server and client".into()),
            (false, None) => return Err("must either be a client (-c) or server (-s)".into()),
            (true, None) => Role::Server,
            (false, Some(host)) => {
                let (host, device) = match host.split_once('%') {
                    Some((host, device)) if !host.contains(':') => (host.to_owned(), Some(device.to_owned())),
                    _ => (host, None),
                };
                self.spec.device = device.or(self.spec.device.take());
                Role::Client(host)
            }
        };
        let wrong = if self.server { self.clients.first() } else { self.servers.first() };
        if let Some(name) = wrong {
            let whose = if self.server { "client" } else { "server" };
            return Err(format!("option '--{name}' is {whose} only"));
        }
        let terms = &mut self.spec.terms;
        let ends = [self.time_given, terms.bytes > 0, terms.blocks > 0];
        if ends.iter().filter(|given| **given).count() > 1 {
            return Err("only one test end condition (-t, -n, -k) may be specified".into());
        }
        if terms.bytes > 0 || terms.blocks > 0 {
            terms.time_s = 0;
        }
        if self.spec.file.is_some() {
            if terms.udp {
                return Err("cannot transfer a file by UDP".into());
            }
            if terms.bidir {
                return Err("a file goes one way: -F and --bidir exclude each other".into());
            }
            // All of it is sent, unless something else ends the test.
            if !terms.reverse && !self.time_given {
                terms.time_s = 0;
            }
        }
        if self.server && terms.server_core.is_some() {
            return Err("-A n,m is client only: a server's own core is -A n".into());
        }
        if terms.reverse && terms.bidir {
            return Err("cannot be both reverse and bidirectional".into());
        }
        if (terms.gso || terms.gro) && !terms.udp {
            return Err("--gsro is for UDP".into());
        }
        // A mebibit for UDP, as ever; no limit for TCP.
        terms.rate = self.bitrate.unwrap_or(if terms.udp { 1 << 20 } else { 0 });
        self.spec.user = match (self.user, self.public_key) {
            (Some(user), Some(key)) => Some((user, key)),
            (None, None) => None,
            _ => return Err("--username and --rsa-public-key-path are needed together".into()),
        };
        self.spec.keys = match (self.private_key, self.users) {
            (Some(key), Some(users)) => Some((key, users)),
            (None, None) => None,
            _ => return Err("--rsa-private-key-path and --authorized-users-path are needed together".into()),
        };
        Ok(self.spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Spec, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match read(&words)? {
            Asked::Run(spec) => Ok(*spec),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_of_the_original() {
        let spec =
            run("-c host -u -b 5M/10 -t2 -l 1K -P 3 -R -i.5 --get-server-output -w 1M -S 0x28").unwrap();
        let terms = &spec.terms;
        assert_eq!(spec.role, Role::Client("host".into()));
        assert_eq!((terms.rate, terms.burst, terms.time_s, terms.block), (5_000_000, 10, 2, 1024));
        assert_eq!((terms.streams, terms.reverse, terms.server_output), (3, true, true));
        assert_eq!((terms.window, terms.tos, spec.interval_ns), (1 << 20, 0x28, SECOND / 2));
        // Letters in one word, names cut short, values behind an equals sign.
        let spec = run("-sV1 --server-bitrate-limit=1M/1 --idle 5").unwrap();
        assert_eq!((spec.role, spec.verbose, spec.one_off), (Role::Server, true, true));
        assert_eq!((spec.rate_limit, spec.idle_s), (Some((1_000_000, 1)), Some(5)));
        // Rates: UDP has one, TCP has none; bytes instead of time.
        assert_eq!(run("-c h -u").unwrap().terms.rate, 1 << 20);
        let spec = run("-c h -n 5M").unwrap();
        assert_eq!((spec.terms.rate, spec.terms.bytes, spec.terms.time_s), (0, 5 << 20, 0));
        assert_eq!(run("-c h -k 1K --dscp ef").unwrap().terms.tos, 184);
        let spec = run("-c h -A 1,0 -F f --snd-timeout 200 --cntl-ka=30/5/3 --forceflush").unwrap();
        assert_eq!(
            (spec.affinity, spec.terms.server_core, spec.file.as_deref()),
            (Some(1), Some(0), Some("f"))
        );
        assert_eq!((spec.user_timeout_ns, spec.keepalive_ns), (Some(SECOND / 5), Some(30 * SECOND)));
        assert_eq!((spec.terms.time_s, spec.ignored.len()), (0, 0));
        assert_eq!(run("-c h -A 2/2").unwrap().terms.server_core, None);
        assert_eq!(run("-c fe80::1%eth0").unwrap().role, Role::Client("fe80::1%eth0".into()));
        assert_eq!(run("-c 10.0.0.1%eth0").unwrap().device.as_deref(), Some("eth0"));
    }

    #[test]
    fn what_cannot_be_is_said() {
        for (line, why) in [
            ("", "must either be"),
            ("-s -c h", "both server and client"),
            ("-c h -D", "'--daemon' is server only"),
            ("-s -u", "'--udp' is client only"),
            ("-c h -t 5 -n 5M", "only one test end condition"),
            ("-c h -t 0 -n 1M", "only one test end condition"),
            ("-c h -k 3 -t 0", "only one test end condition"),
            ("-c h -n 1M -k 3", "only one test end condition"),
            ("-c h -R --bidir", "both reverse and bidirectional"),
            ("-c h -i 0.01", "0.1 to 60"),
            ("-c h -f x", "one of k, m, g, t"),
            ("-c h --nonsense", "not an option"),
            ("-c h --js", "several"),
            ("-c h -n 5X", "suffix"),
            ("-c h -p", "needs a value"),
            ("-c h --username u", "needed together"),
            ("-c h extra", "options only"),
            ("-c h -S 256", "0 to 255"),
            ("-c h --sctp", "SCTP is not supported"),
            ("-c h -u -F x", "by UDP"),
            ("-c h --bidir -F x", "exclude each other"),
            ("-s -A 1,2", "client only"),
            ("-c h --cntl-ka=10/5/3", "longer than"),
            ("-c h --cntl-ka=x", "idle time"),
        ] {
            let told = run(line).unwrap_err();
            assert!(told.contains(why), "{line}: {told}");
        }
    }
}
