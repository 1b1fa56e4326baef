//! iperf3's command line.

mod spec;
mod values;

pub(crate) use spec::{Output, RunRole, Spec};

use crate::BulkTerms;
use compat::options::{Letters, Opt, Request, Stop, Takes, Value, Words, find, parse, request, stop};
use metrics::{Clamped, SECOND, parse_dscp};
use values::{amount, any_base, keepalive};

/// Options of both ends, and of servers only; all others are of clients only.
const BOTH: &str = "help version server client port format interval pidfile affinity file forceflush snd-timeout cntl-ka bind bind-dev \
    verbose json json-stream json-stream-full-output logfile timestamps rcv-timeout use-pkcs1-padding version4 version6 debug mptcp";
const SERVERS: &str = "daemon one-off server-bitrate-limit server-max-duration idle-timeout rsa-private-key-path \
    authorized-users-path time-skew-threshold";

/// Refusal of `--sctp`.
const SCTP: &str = "SCTP is not supported here; there is TCP, multipath TCP (-m) and UDP (-u)";

const OPTIONS: &[Opt<RawOptions>] = ::compat::options! { RawOptions:
    "h help" Flag |_, _| stop(Stop::Help)?;
    "v version" Flag |_, _| stop(Stop::Version)?;
    "s server" Flag |o, _| o.server = true;
    "c client" Value |o, v| o.client = Some(v.owned());
    "p port" Value |o, v| o.spec.port = v.parse("port")?;
    "f format" Value |o, v| {
        let letter = v.text().chars().next().filter(|c| v.text().len() == 1 && "kmgtKMGT".contains(*c));
        o.spec.format = letter.ok_or("a format must be one of k, m, g, t, K, M, G, T")?;
    };
    "i interval" Value |o, v| {
        let seconds: f64 = v.parse("number of seconds")?;
        if seconds != 0.0 && !(0.1..=60.0).contains(&seconds) {
            return Err("the interval must be 0.1 to 60 seconds, or 0 for none".into());
        }
        o.spec.interval_ns = u64::clamped((seconds * 1e9).round());
    };
    "I pidfile" Value |o, v| o.spec.pidfile = Some(v.owned());
    "A affinity" Value |o, v| {
        let (own, theirs) = v.text().split_once([',', '/']).unwrap_or((v.text(), ""));
        o.spec.affinity = Some(parse(own, "core number")?);
        // Upstream's own scripts write n/m, and mean the first alone.
        if v.text().contains(',') {
            o.spec.terms.server_core = Some(parse(theirs, "core number")?);
        }
    };
    "F file" Value |o, v| o.spec.file = Some(v.owned());
    "forceflush" Flag |_, _| ();
    "snd-timeout" Value |o, v| {
        let ms: u64 = v.parse("number of milliseconds")?;
        o.spec.user_timeout_ns = Some(ms.saturating_mul(1_000_000)).filter(|ns| *ns > 0);
    };
    "cntl-ka" Maybe |o, v| o.spec.keepalive_ns = keepalive(v.text)?;
    "B bind" Value |o, v| {
        let (address, device) = v.text().split_once('%').map_or((v.text(), None), |(a, d)| (a, Some(d.to_owned())));
        o.spec.bind = Some(parse(address, "address")?);
        o.spec.device = device.or(o.spec.device.take());
    };
    "bind-dev" Value |o, v| o.spec.device = Some(v.owned());
    "V verbose" Flag |o, _| o.spec.verbose = true;
    "J json" Flag |o, _| o.spec.output = o.spec.output.max(Output::Json);
    "json-stream" Flag |o, _| o.spec.output = o.spec.output.max(Output::Stream);
    "json-stream-full-output" Flag |o, _| o.spec.output = Output::StreamAndAll;
    "logfile" Value |o, v| o.spec.logfile = Some(v.owned());
    "timestamps" Maybe |o, v| o.spec.timestamps = Some(v.text.unwrap_or("%c ").to_owned());
    "rcv-timeout" Value |o, v| {
        let ms: u64 = v.parse("number of milliseconds")?;
        if ms < 100 {
            return Err("the receive timeout must be 100 ms at least".into());
        }
        o.spec.limits.silence_ns = ms * 1_000_000;
    };
    "D daemon" Flag |o, _| o.spec.daemon = true;
    "1 one-off" Flag |o, _| o.spec.one_off = true;
    "server-bitrate-limit" Value |o, v| {
        let (rate, over) = v.text().split_once('/').unwrap_or((v.text(), "5"));
        let over = parse(over, "number of seconds")?;
        o.spec.limits.rate = Some((amount(rate, 1000.0)?, over)).filter(|(rate, _)| *rate > 0);
    };
    "server-max-duration" Value |o, v| o.spec.limits.duration_s = Some(v.parse("number of seconds")?);
    "idle-timeout" Value |o, v| {
        let seconds = v.parse("number of seconds")?;
        if !(1..=86_400).contains(&seconds) {
            return Err("the idle timeout must be 1 to 86400 seconds".into());
        }
        o.spec.idle_s = Some(seconds);
    };
    "rsa-private-key-path" Value |o, v| o.spec.keys.0 = Some(v.owned());
    "authorized-users-path" Value |o, v| o.spec.keys.1 = Some(v.owned());
    "time-skew-threshold" Value |o, v| o.spec.skew_s = v.parse("number of seconds")?;
    "use-pkcs1-padding" Flag |o, _| o.spec.pkcs1 = true;
    "u udp" Flag |o, _| o.spec.terms.udp = true;
    "sctp" Flag |_, v| stop(format!("--{}: {SCTP}", v.name))?;
    "X xbind nstreams" Value |_, v| stop(format!("--{}: {SCTP}", v.name))?;
    "connect-timeout" Value |o, v| {
        o.spec.connect_timeout_ns = Some(v.parse::<u64>("number of milliseconds")? * 1_000_000);
    };
    "b bitrate bandwidth" Value |o, v| {
        let (rate, burst) = v.text().split_once('/').map_or((v.text(), None), |(r, b)| (r, Some(b)));
        o.bitrate = Some(amount(rate, 1000.0)?);
        if let Some(burst) = burst {
            o.spec.terms.burst = parse(burst, "number of packets")?;
        }
    };
    "fq-rate" Value |o, v| o.spec.terms.fq_rate = amount(v.text(), 1000.0)?;
    "t time" Value |o, v| {
        o.spec.terms.time_s = v.parse("whole number of seconds")?;
        o.time_given = true;
    };
    "n bytes" Value |o, v| o.spec.terms.bytes = amount(v.text(), 1024.0)?;
    "k blockcount" Value |o, v| o.spec.terms.blocks = amount(v.text(), 1024.0)?;
    "l length" Value |o, v| {
        o.spec.terms.block = u32::try_from(amount(v.text(), 1024.0)?).unwrap_or(u32::MAX);
        o.spec.length_given = true;
    };
    "cport" Value |o, v| o.spec.local_port = Some(v.parse("port")?);
    "P parallel" Value |o, v| o.spec.terms.streams = v.parse("number of streams")?;
    "R reverse" Flag |o, _| o.spec.terms.reverse = true;
    "bidir" Flag |o, _| o.spec.terms.bidir = true;
    "w window" Value |o, v| o.spec.terms.window = amount(v.text(), 1024.0)?;
    "C congestion linux-congestion" Value |o, v| o.spec.terms.congestion = Some(v.owned());
    "M set-mss" Value |o, v| o.spec.terms.mss = v.parse("number of bytes")?;
    "N no-delay" Flag |o, _| o.spec.terms.nodelay = true;
    "4 version4" Flag |o, _| o.spec.family.0 = true;
    "6 version6" Flag |o, _| o.spec.family.1 = true;
    "S tos" Value |o, v| {
        let octet = any_base(v.text(), "type of service (0 to 255)")?;
        o.spec.terms.tos = u8::try_from(octet).map_err(|_| "the type of service must be 0 to 255")?;
    };
    "dscp" Value |o, v| o.spec.terms.tos = parse_dscp(v.text())? << 2;
    "L flowlabel" Value |o, v| o.spec.terms.flow_label = any_base(v.text(), "flow label")?;
    "Z zerocopy" Flag |o, _| o.spec.terms.zerocopy = true;
    "skip-rx-copy" Flag |o, _| o.spec.terms.discard = true;
    "O omit" Value |o, v| o.spec.terms.omit_s = u32::clamped(v.parse::<f64>("number of seconds")?.ceil());
    "T title" Value |o, v| o.spec.terms.title = Some(v.owned());
    "extra-data" Value |o, v| o.spec.terms.extra_data = Some(v.owned());
    "get-server-output" Flag |o, _| o.spec.terms.server_output = true;
    "udp-counters-64bit" Flag |o, _| o.spec.terms.wide = true;
    "gsro" Flag |o, _| (o.spec.terms.gso, o.spec.terms.gro) = (true, true);
    "repeating-payload" Flag |o, _| o.spec.terms.repeating = true;
    "dont-fragment" Flag |o, _| o.spec.terms.dont_fragment = true;
    "m mptcp" Flag |o, _| o.spec.terms.mptcp = true;
    "username" Value |o, v| o.spec.user.0 = Some(v.owned());
    "rsa-public-key-path" Value |o, v| o.spec.user.1 = Some(v.owned());
    "d debug" Maybe |o, _| o.spec.ignored.push("--debug".to_owned());
    "pacing-timer" Value |o, _| o.spec.ignored.push("--pacing-timer".to_owned());
    "no-fq-socket-pacing" Flag |o, _| o.spec.ignored.push("--no-fq-socket-pacing".to_owned());
};

#[derive(Default)]
struct RawOptions {
    spec: Spec,
    server: bool,
    client: Option<String>,
    /// All names in the order given.
    names: Vec<&'static str>,
    time_given: bool,
    bitrate: Option<u64>,
}

/// Reads a command line, without the program's name.
///
/// # Errors
/// One sentence: the wrong part, and the expected form.
pub(crate) fn read(arguments: &[String]) -> Result<Request<Box<Spec>>, String> {
    request(read_options(arguments.iter()))
}

fn read_options(mut words: Words<'_>) -> Result<Box<Spec>, Stop> {
    let spec = Spec {
        port: 5201,
        interval_ns: SECOND,
        format: 'a',
        skew_s: 10,
        terms: BulkTerms::usual(),
        ..Spec::default()
    };
    let mut options = RawOptions { spec, ..RawOptions::default() };
    let letters = Letters {
        find: &|letter| find(OPTIONS, letter),
        unknown: &|letter| format!("'-{letter}' is not an option of iperf3"),
        missing: &|letter| format!("option '-{letter}' needs a value"),
    };
    while let Some(word) = words.next() {
        if let Some(long) = word.strip_prefix("--") {
            let (name, given) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let (name, option) = named(name)?;
            let text = match (option.takes, given) {
                (Takes::Flag, Some(_)) => return Err(format!("option '--{name}' takes no value").into()),
                (Takes::Value, None) => {
                    Some(words.next().ok_or_else(|| format!("option '--{name}' needs a value"))?.as_str())
                }
                (_, given) => given,
            };
            options.take(option, name, text)?;
        } else if let Some(word) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            letters.read(word, &mut words, &mut |option, value| {
                options.take(option, long_names(option).next().unwrap_or_default(), value.text)
            })?;
        } else {
            return Err(format!("'{word}' is not an option: iperf3 takes options only").into());
        }
    }
    options.finish()
}

/// The long names of an option.
fn long_names(option: &'static Opt<RawOptions>) -> impl Iterator<Item = &'static str> {
    option.names.split(' ').filter(|name| name.len() > 1)
}

/// An option by its name, which may be cut short as long as only one begins like that.
fn named(name: &str) -> Result<(&'static str, &'static Opt<RawOptions>), String> {
    let all = || OPTIONS.iter().flat_map(|option| long_names(option).map(move |name| (name, option)));
    if let Some(exact) = all().find(|(known, _)| *known == name) {
        return Ok(exact);
    }
    let mut close = all().filter(|(known, _)| known.starts_with(name) && !name.is_empty());
    match (close.next(), close.next()) {
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) => Err(format!("'--{name}' could be several options")),
        _ => Err(format!("'--{name}' is not an option of iperf3")),
    }
}

impl RawOptions {
    fn take(&mut self, option: &Opt<RawOptions>, name: &'static str, text: Option<&str>) -> Result<(), Stop> {
        self.names.push(name);
        (option.set)(self, &Value { name, text })
    }

    fn finish(mut self) -> Result<Box<Spec>, Stop> {
        self.spec.role = match (self.server, self.client) {
            (true, Some(_)) => return Err("cannot be both server and client".into()),
            (false, None) => return Err("must either be a client (-c) or server (-s)".into()),
            (true, None) => RunRole::Server,
            (false, Some(host)) => {
                let (host, device) = match host.split_once('%') {
                    Some((host, device)) if !host.contains(':') => (host.to_owned(), Some(device.to_owned())),
                    _ => (host, None),
                };
                self.spec.device = device.or(self.spec.device.take());
                RunRole::Client(host)
            }
        };
        let among = |names: &str, name: &str| names.split_whitespace().any(|known| known == name);
        let (whose, wrong): (_, &dyn Fn(&&&str) -> bool) = if self.server {
            ("client", &|name| !among(BOTH, name) && !among(SERVERS, name))
        } else {
            ("server", &|name| among(SERVERS, name))
        };
        if let Some(name) = self.names.iter().find(wrong) {
            return Err(format!("option '--{name}' is {whose} only").into());
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
        let apart = |(one, other): &(Option<String>, Option<String>)| one.is_some() != other.is_some();
        if apart(&self.spec.user) {
            return Err("--username and --rsa-public-key-path are needed together".into());
        }
        if apart(&self.spec.keys) {
            return Err("--rsa-private-key-path and --authorized-users-path are needed together".into());
        }
        Ok(Box::new(self.spec))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Spec, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match read(&words)? {
            Request::Run(spec) => Ok(*spec),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_of_the_original() {
        let spec =
            run("-c host -u -b 5M/10 -t2 -l 1K -P 3 -R -i.5 --get-server-output -w 1M -S 0x28").unwrap();
        let terms = &spec.terms;
        assert_eq!(spec.role, RunRole::Client("host".into()));
        assert_eq!((terms.rate, terms.burst, terms.time_s, terms.block), (5_000_000, 10, 2, 1024));
        assert_eq!((terms.streams, terms.reverse, terms.server_output), (3, true, true));
        assert_eq!((terms.window, terms.tos, spec.interval_ns), (1 << 20, 0x28, SECOND / 2));
        // Letters in one word, names cut short, values behind an equals sign.
        let spec = run("-sV1 --server-bitrate-limit=1M/1 --idle 5").unwrap();
        assert_eq!((spec.role, spec.verbose, spec.one_off), (RunRole::Server, true, true));
        assert_eq!((spec.limits.rate, spec.idle_s), (Some((1_000_000, 1)), Some(5)));
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
        assert_eq!(run("-c fe80::1%eth0").unwrap().role, RunRole::Client("fe80::1%eth0".into()));
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
