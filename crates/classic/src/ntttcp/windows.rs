//! The command line of Windows NTttcp: words of several letters behind one dash, and a mapping of threads to receivers.

use super::args::{Asked, Role, Spec, scaled};
use model::{Layout, READY_OFFSET};

/// Words that no command line of ntttcp for Linux has: whoever uses one of them means Windows'.
const WINDOWS: [&str; 33] = [
    "-windows", "-ns", "-sp", "-ndl", "-wu", "-cd", "-rb", "-sb", "-to", "-rt", "-wa", "-nic", "-xml", "-na",
    "-hpt", "-uso", "-uro", "-uc", "-hv", "-nsb", "-thr", "-brn", "-lm", "-icp", "-cfi", "-es", "-sam",
    "-qos", "-jm", "-ps", "-w", "-d", "-v",
];

/// Most threads of all mappings together: each has a port, and with synchronisation another one.
const MOST: u64 = 512;
/// Buffers that each thread sends where no time is given.
const BUFFERS: u64 = 20_480;

/// Whether a command line is Windows'.
#[must_use]
pub fn is_meant(arguments: &[String]) -> bool {
    arguments.iter().any(|word| {
        let word = word.strip_prefix('-').filter(|rest| rest.starts_with('-')).unwrap_or(word);
        WINDOWS.contains(&word)
    })
}

/// What a word does that is taken without an effect; with the reason.
fn idle(name: &str) -> Option<&'static str> {
    Some(match name {
        "a" | "icp" | "w" => "sends and receives are not queued here",
        "wa" => "reads take what there is",
        "na" | "hpt" | "cfi" | "nsb" | "hv" => "there is nothing like it on Linux",
        "uso" | "uro" | "uc" => "how datagrams are cut and merged is found out by itself",
        "brn" => "nothing is burnt",
        "es" | "sam" => "TCP_INFO is read at the end of each connection",
        "d" => "receivers of this protocol compare nothing",
        "qos" => "DSCP is not set here",
        "x" => "all buffers have one length",
        "ps" => "-thr keeps a rate evenly",
        _ => return None,
    })
}

/// Why a word cannot be had; one sentence.
fn refused(name: &str) -> Option<&'static str> {
    Some(match name {
        "sp" => {
            "-sp: data ports that are handed out over the synchronisation port are not spoken here; use -ns or neither"
        }
        "rt" => "-rt: round trips are not measured by this; netcaliper ping does",
        "lm" => "-lm: latency is not measured by this; netcaliper ping does",
        "jm" => "-jm: jitter is not measured by this; netcaliper delay does",
        _ => return None,
    })
}

/// Reads the command line of Windows NTttcp.
pub(super) fn read(arguments: &[String]) -> Result<Asked, String> {
    let mut spec = Spec {
        windows: true,
        layout: Layout {
            sync: false,
            token: true,
            windows: true,
            ports: 0,
            threads: 1,
            seconds: 0,
            ..Layout::default()
        },
        ..Spec::default()
    };
    let (mut role, mut buffers, mut v6) = (None, None, false);
    let mut words = arguments.iter().map(String::as_str).peekable();
    while let Some(word) = words.next() {
        let name = word.trim_start_matches('-');
        if matches!(name, "h" | "help" | "?") {
            return Ok(Asked::Help);
        }
        if name.is_empty() || name.len() == word.len() {
            return Err(format!("'{word}' is not an option of NTttcp: see ntttcp -h"));
        }
        if let Some(why) = refused(name) {
            return Err(why.to_owned());
        }
        if name == "m" {
            while let Some(tuple) = words.next_if(|next| !next.starts_with('-')) {
                mapping(&mut spec, tuple)?;
            }
            continue;
        }
        let flag = matches!(name, "s" | "r" | "ns" | "ndl" | "u" | "v" | "6" | "windows");
        let value = words.next_if(|next| !flag && !next.starts_with('-') || *next == "-1");
        if let Some(why) = idle(name) {
            spec.ignored.push(format!("{word} ({why})"));
            continue;
        }
        let text = || value.ok_or_else(|| format!("{word} needs a value"));
        let number = |low: u64, high: u64| number(word, text()?, low, high);
        match name {
            "s" | "r" => {
                let this = if name == "s" { Role::Sender } else { Role::Receiver };
                if role.replace(this).is_some_and(|other| other != this) {
                    return Err("-r and -s exclude each other".to_owned());
                }
            }
            "ns" => spec.layout.token = false,
            "ndl" => spec.nodelay = true,
            "u" => spec.layout.udp = true,
            "v" => spec.verbose = true,
            "6" => v6 = true,
            "windows" => {}
            "l" => spec.buffer = Some(scaled(name, text()?, 1024)?.clamp(1, 16 << 20)),
            "n" => buffers = Some(number(1, 1 << 32)?),
            "p" => spec.layout.port = number(1, 65_535)? as u16,
            "t" => spec.layout.seconds = number(1, 31_536_000)? as u32,
            "wu" => spec.layout.warmup_s = number(0, 86_400)? as u32,
            "cd" => spec.layout.cooldown_s = number(0, 86_400)? as u32,
            "rb" | "sb" => {
                // -1 and 0 leave it to the system.
                let size = text()?;
                if !matches!(size, "-1" | "0") {
                    let size = scaled(name, size, 1024)?.min(1 << 30);
                    let which = if name == "sb" { &mut spec.sndbuf } else { &mut spec.rcvbuf };
                    *which = Some(size);
                }
            }
            "to" => spec.patience_ms = Some(number(1, 86_400_000)?),
            "thr" => spec.thread_limit = Some(number(1, 1 << 30)?.saturating_mul(8_192)),
            "nic" => {
                let address = text()?;
                let parsed = address.parse();
                spec.local = Some(
                    parsed.map_err(|_| format!("'{address}': -nic takes an address such as 192.0.2.1"))?,
                );
            }
            "xml" => spec.xml = Some(value.unwrap_or("xml.txt").to_owned()),
            _ => return Err(format!("'{word}' is not an option of NTttcp: see ntttcp -h")),
        }
    }
    finish(&mut spec, role, buffers, v6)?;
    Ok(Asked::Run(Box::new(spec)))
}

/// `threads,cpu,receiver`.
fn mapping(spec: &mut Spec, tuple: &str) -> Result<(), String> {
    let parts: Vec<&str> = tuple.split(',').collect();
    let [threads, cpu, host] = parts[..] else {
        return Err(format!("'{tuple}': -m takes threads,cpu,address such as 4,*,192.0.2.1"));
    };
    let threads = number("-m", threads, 1, MOST)?;
    if spec.hosts.len() as u64 + threads > MOST {
        return Err(format!("the mappings of -m have more than {MOST} threads together"));
    }
    if cpu != "*" {
        spec.ignored.push(format!("CPU {cpu} of -m (threads are placed one per core)"));
    }
    spec.hosts.extend((0..threads).map(|_| host.to_owned()));
    Ok(())
}

fn finish(spec: &mut Spec, role: Option<Role>, buffers: Option<u64>, v6: bool) -> Result<(), String> {
    spec.role = role.ok_or("NTttcp either sends (-s) or receives (-r)")?;
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
    spec.layout.ports = spec.hosts.len() as u16;
    // A thread's token has a port a thousand above its own.
    let last = u32::from(spec.layout.port) + u32::from(spec.layout.ports) - 1
        + if spec.layout.token { u32::from(READY_OFFSET) } else { 0 };
    if last > 65_535 {
        return Err(format!(
            "{} ports from {} on would end at {last}, beyond 65535",
            spec.layout.ports, spec.layout.port
        ));
    }
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

fn number(word: &str, text: &str, low: u64, high: u64) -> Result<u64, String> {
    let n = text.parse().ok().filter(|n| (low..=high).contains(n));
    n.ok_or_else(|| format!("'{text}': {word} takes a whole number from {low} to {high}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &str) -> Result<Spec, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        match super::super::args::read(&words)? {
            Asked::Run(spec) => Ok(*spec),
            Asked::Help => Err("help".to_owned()),
        }
    }

    #[test]
    fn the_spelling_of_the_manual_is_windows_s() {
        let spec = asked("-s -m 1,*,192.168.212.18 -ns").unwrap();
        assert!(spec.windows && !spec.layout.sync && !spec.layout.token && spec.role == Role::Sender);
        assert_eq!(
            (spec.address.as_deref(), spec.layout.ports, spec.layout.threads),
            (Some("192.168.212.18"), 1, 1)
        );
        // 20480 buffers of 64 KiB.
        assert_eq!(spec.transfer, Some(20_480 << 16));
        let spec =
            asked("-r -m 2,*,10.0.0.1 3,0,10.0.0.2 -l 128k -t 60 -wu 2 -cd 2 -rb 2M -a 16 -p 6000").unwrap();
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
        let spec = asked("-s -m 1,*,10.0.0.1 -u -ns -thr 100 -t 5").unwrap();
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
            assert!(!asked(words).unwrap().windows, "{words}");
        }
        assert!(asked("-s -m 1,*,10.0.0.1 --windows -t 1").unwrap().layout.token);
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
            let told = asked(words).unwrap_err();
            assert!(told.contains(why), "{words}: {told}");
        }
    }
}
