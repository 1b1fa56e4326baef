//! The command line of Windows NTttcp: words of several letters behind one dash, and a mapping of
//! threads to receivers.

use super::args::{MOST_PORTS, Role, Spec, address, check_ports, mapping, one_role, scaled};
use crate::{Layout, READY_OFFSET};
use compat::options::{Opt, Stop, Takes, Value, find, stop};

struct RawOptions {
    spec: Spec,
    buffers: Option<u64>,
    v6: bool,
}

impl RawOptions {
    /// Records an option without effect.
    fn idle(&mut self, value: &Value<'_>, why: &str) {
        self.spec.ignored.push(format!("{} ({why})", value.name));
    }
}

const OPTIONS: &[Opt<RawOptions>] = ::compat::options! { RawOptions:
    "h help ?" Flag |_, _| stop(Stop::Help)?;
    "s" Flag |o, _| one_role(&mut o.spec, Role::Sender)?;
    "r" Flag |o, _| one_role(&mut o.spec, Role::Receiver)?;
    "ns" Flag |o, _| o.spec.layout.token = false;
    "ndl" Flag |o, _| o.spec.nodelay = true;
    "u" Flag |o, _| o.spec.layout.udp = true;
    "v" Flag |o, _| o.spec.verbose = true;
    "6" Flag |o, _| o.v6 = true;
    "windows" Flag |_, _| ();
    "l" Value |o, v| o.spec.buffer = Some(size(v)?.clamp(1, 16 << 20));
    "n" Value |o, v| o.buffers = Some(v.whole(1, 1 << 32)?);
    "p" Value |o, v| o.spec.layout.port = v.whole(1, 65_535)?;
    "t" Value |o, v| o.spec.layout.seconds = v.whole(1, 31_536_000)?;
    "wu" Value |o, v| o.spec.layout.warmup_s = v.whole(0, 86_400)?;
    "cd" Value |o, v| o.spec.layout.cooldown_s = v.whole(0, 86_400)?;
    "rb" Value |o, v| o.spec.rcvbuf = socket_buffer(v)?.or(o.spec.rcvbuf);
    "sb" Value |o, v| o.spec.sndbuf = socket_buffer(v)?.or(o.spec.sndbuf);
    "to" Value |o, v| o.spec.patience_ms = Some(v.whole(1, 86_400_000)?);
    "thr" Value |o, v| o.spec.thread_limit = Some(v.whole::<u64>(1, 1 << 30)?.saturating_mul(8_192));
    "nic" Value |o, v| o.spec.local = Some(address(&Value { name: "-nic", ..*v })?);
    "xml" Maybe |o, v| o.spec.xml = Some(v.text.unwrap_or("xml.txt").to_owned());
    "a icp w" Maybe |o, v| o.idle(v, "sends and receives are not queued here");
    "wa" Maybe |o, v| o.idle(v, "reads take what there is");
    "na hpt cfi nsb hv" Maybe |o, v| o.idle(v, "there is nothing like it on Linux");
    "uso uro uc" Maybe |o, v| o.idle(v, "how datagrams are cut and merged is found out by itself");
    "brn" Maybe |o, v| o.idle(v, "nothing is burnt");
    "es sam" Maybe |o, v| o.idle(v, "TCP_INFO is read at the end of each connection");
    "d" Maybe |o, v| o.idle(v, "receivers of this protocol compare nothing");
    "qos" Maybe |o, v| o.idle(v, "DSCP is not set here");
    "x" Maybe |o, v| o.idle(v, "all buffers have one length");
    "ps" Maybe |o, v| o.idle(v, "-thr keeps a rate evenly");
    "sp" Flag |_, _| stop("-sp: data ports that are handed out over the synchronisation port are not spoken here; use -ns or neither")?;
    "rt" Flag |_, _| stop("-rt: round trips are not measured by this; netcaliper ping does")?;
    "lm" Flag |_, _| stop("-lm: latency is not measured by this; netcaliper ping does")?;
    "jm" Flag |_, _| stop("-jm: jitter is not measured by this; netcaliper delay does")?;
};

/// Options that ntttcp for Linux has, too.
const LINUX: &str = "h help ? s r u 6 l n p t a x";

/// Buffers that each thread sends where no time is given.
const BUFFERS: u64 = 20_480;

/// True if a command line is Windows': it has a word that no command line of ntttcp for Linux has.
pub(crate) fn is_meant(arguments: &[String]) -> bool {
    arguments.iter().any(|word| {
        let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).unwrap_or_default();
        find(OPTIONS, name).is_some() && !LINUX.split(' ').any(|both| both == name)
    })
}

/// Reads the command line of Windows NTttcp.
pub(super) fn read(arguments: &[String]) -> Result<Box<Spec>, Stop> {
    let layout = Layout {
        sync: false,
        token: true,
        windows: true,
        ports: 0,
        threads: 1,
        seconds: 0,
        ..Layout::default()
    };
    let spec = Spec { windows: true, layout, ..Spec::default() };
    let mut options = RawOptions { spec, buffers: None, v6: false };
    let mut words = arguments.iter().map(String::as_str).peekable();
    while let Some(word) = words.next() {
        let name = word.trim_start_matches('-');
        if name == "m" && word != name {
            while let Some(tuple) = words.next_if(|next| !next.starts_with('-')) {
                add_hosts(&mut options.spec, tuple)?;
            }
            continue;
        }
        // Help may be asked for without a dash.
        let option = find(OPTIONS, name).filter(|option| word != name || option.names.starts_with("h "));
        let option = option.ok_or_else(|| format!("'{word}' is not an option of NTttcp: see ntttcp -h"))?;
        let flag = option.takes == Takes::Flag;
        let refused = matches!(name, "sp" | "rt" | "lm" | "jm");
        let text = words.next_if(|next| !refused && (!flag && !next.starts_with('-') || *next == "-1"));
        if option.takes == Takes::Value && text.is_none() {
            return Err(format!("{word} needs a value").into());
        }
        (option.set)(&mut options, &Value { name: word, text })?;
    }
    let RawOptions { mut spec, buffers, v6 } = options;
    finish(&mut spec, buffers, v6)?;
    Ok(Box::new(spec))
}

fn size(value: &Value<'_>) -> Result<u64, String> {
    let name = format!("-{}", value.name.trim_start_matches('-'));
    scaled(&Value { name: &name, ..*value }, 1024)
}

/// The size of a socket's buffer; -1 and 0 leave it to the system.
fn socket_buffer(value: &Value<'_>) -> Result<Option<u64>, String> {
    match value.text() {
        "-1" | "0" => Ok(None),
        _ => Ok(Some(size(value)?.min(1 << 30))),
    }
}

/// Adds the address of a mapping, once for each thread.
fn add_hosts(spec: &mut Spec, tuple: &str) -> Result<(), String> {
    let (threads, host) = mapping(spec, tuple)?;
    if spec.hosts.len() + usize::from(threads) > usize::from(MOST_PORTS) {
        return Err(format!("the mappings of -m have more than {MOST_PORTS} threads together"));
    }
    spec.hosts.extend((0..threads).map(|_| host.to_owned()));
    Ok(())
}

fn finish(spec: &mut Spec, buffers: Option<u64>, v6: bool) -> Result<(), String> {
    if !spec.role_given {
        return Err("NTttcp either sends (-s) or receives (-r)".to_owned());
    }
    let Some(first) = spec.hosts.first() else {
        return Err("NTttcp needs its mapping: ntttcp -s -m 1,*,192.0.2.1".to_owned());
    };
    spec.address = Some(first.clone()).filter(|host| host != "*");
    if spec.role == Role::Sender && spec.hosts.iter().any(|host| host == "*") {
        return Err("a sender needs the receiver's address in its mapping: -m 1,*,192.0.2.1".to_owned());
    }
    if v6 && spec.address.as_deref().is_some_and(|host| host.parse::<std::net::Ipv4Addr>().is_ok()) {
        return Err("-6 needs IPv6 addresses in the mapping".to_owned());
    }
    spec.layout.ports = u16::try_from(spec.hosts.len()).unwrap_or(u16::MAX);
    // A thread's token has a port a thousand above its own.
    check_ports(&spec.layout, if spec.layout.token { READY_OFFSET } else { 0 })?;
    let length = spec.buffer.unwrap_or(if spec.layout.udp { 128 } else { 65_536 });
    spec.buffer = Some(length);
    if spec.layout.udp && length > 65_507 {
        return Err(format!("a UDP datagram holds at most 65507 bytes, and -l is {length}"));
    }
    if spec.layout.seconds == 0 {
        if spec.layout.warmup_s + spec.layout.cooldown_s > 0 {
            return Err("-wu and -cd need a length: -t 10".to_owned());
        }
        spec.transfer = Some(buffers.unwrap_or(BUFFERS).saturating_mul(length).min((1 << 50) - 1));
    } else if buffers.is_some() {
        spec.ignored.push("-n (-t decides)".to_owned());
    }
    if spec.layout.udp && spec.nodelay {
        return Err("-ndl is for TCP, and -u is UDP".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::args::tests::read_words;
    use super::*;

    #[test]
    fn the_spelling_of_the_manual_is_windows_s() {
        let spec = read_words("-s -m 1,*,192.168.212.18 -ns").unwrap();
        assert!(spec.windows && !spec.layout.sync && !spec.layout.token && spec.role == Role::Sender);
        assert_eq!(
            (spec.address.as_deref(), spec.layout.ports, spec.layout.threads),
            (Some("192.168.212.18"), 1, 1)
        );
        // 20480 buffers of 64 KiB.
        assert_eq!(spec.transfer, Some(20_480 << 16));
        let spec =
            read_words("-r -m 2,*,10.0.0.1 3,0,10.0.0.2 -l 128k -t 60 -wu 2 -cd 2 -rb 2M -a 16 -p 6000")
                .unwrap();
        assert!(spec.windows && spec.layout.token && spec.role == Role::Receiver);
        assert_eq!(
            (spec.layout.ports, spec.layout.all(), spec.layout.port, spec.buffer),
            (5, 5, 6_000, Some(131_072))
        );
        assert_eq!(spec.hosts[1..4], ["10.0.0.1", "10.0.0.2", "10.0.0.2"]);
        assert_eq!(
            (spec.layout.seconds, spec.layout.warmup_s, spec.layout.cooldown_s, spec.transfer),
            (60, 2, 2, None)
        );
        assert_eq!((spec.sndbuf, spec.rcvbuf), (None, Some(2 << 20)));
        assert_eq!(spec.ignored.len(), 2, "{:?}", spec.ignored);
        let spec = read_words("-s -m 1,*,10.0.0.1 -u -ns -thr 100 -t 5").unwrap();
        assert_eq!((spec.buffer, spec.layout.udp, spec.thread_limit), (Some(128), true, Some(819_200)));
    }

    #[test]
    fn linux_s_spelling_stays_linux_s() {
        for words in [
            "-s -m 1,*,10.0.0.1",
            "-s10.0.0.1 -N -P4",
            "-r -V -W 1 -C 1",
            "-r -x file.xml",
            "-s10.0.0.1 -a 10.0.0.2",
        ] {
            assert!(!read_words(words).unwrap().windows, "{words}");
        }
        assert!(read_words("-s -m 1,*,10.0.0.1 --windows -t 1").unwrap().layout.token);
    }

    #[test]
    fn what_cannot_be_is_told_in_a_sentence() {
        for (words, why) in [
            ("-ns -s", "needs its mapping"),
            ("-ns -m 1,*,h", "either sends (-s) or receives"),
            ("-s -ns -m 1,*", "threads,cpu,address"),
            ("-s -ns -m 1,*,*", "receiver's address"),
            ("-s -sp -m 1,*,h", "not spoken here"),
            ("-s -ns -jm -m 1,*,h", "netcaliper delay"),
            ("-s -ns -m 600,*,h", "1 to 512"),
            ("-s -v -p 64800 -m 1,*,h", "beyond 65535"),
            ("-s -ns -wu 1 -m 1,*,h", "need a length"),
            ("-s -ns -zz -m 1,*,h", "not an option of NTttcp"),
            ("-s -ns -u -l 70000 -m 1,*,h", "at most 65507"),
        ] {
            let told = read_words(words).unwrap_err();
            assert!(told.contains(why), "{words}: {told}");
        }
    }
}
