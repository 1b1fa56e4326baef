//! Arguments as they were read, and the settings that they make together: defaults, and the rules
//! that join several of them.

use super::grammar::Word;
use super::spec::{BannerSettings, Binding, LogFiles, Role, Spec, Transport};
use crate::PORT;
use common::Placement;
use metrics::SECOND;
use model::{Burst, Kind, MAX_BUFFER, Media, Pattern, Phase, Range, Shutdown, SocketSettings, Verify};
use std::path::{Path, PathBuf};

const MS: u64 = SECOND / 1000;

/// Windows' own idle time before keep-alive probes, which Linux has too: two hours.
const KEEPALIVE_NS: u64 = 7200 * SECOND;
/// Time without progress after which a connection has failed.
const STALL_NS: u64 = 15 * SECOND;
/// As good as for ever, and still a sum that fits.
const FOR_EVER_NS: u64 = 10 * 365 * 86_400 * SECOND;
/// CPUs in a processor group of Windows.
const GROUP: usize = 64;

#[derive(Clone, Debug)]
pub(super) enum Arg {
    Text(String),
    Word(&'static str),
    /// A number, or the ends of a range.
    Number(u64, Option<u64>),
}

/// Arguments as given, each with the name of its option.
#[derive(Debug, Default)]
pub(super) struct RawOptions(pub(super) Vec<(&'static str, Arg)>);

impl RawOptions {
    fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Arg> {
        self.0.iter().filter(move |(known, _)| *known == name).map(|(_, arg)| arg)
    }

    fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// True if `need` is given: an option (`-RateLimit`), or a word of one (`-Pattern:pushpull`).
    pub(super) fn holds(&self, need: &str) -> bool {
        need.split_once(':').map_or_else(|| self.has(need), |(name, word)| self.word(name) == Some(word))
    }

    fn texts(&self, name: &str) -> Vec<String> {
        self.all(name)
            .filter_map(|arg| if let Arg::Text(text) = arg { Some(text.clone()) } else { None })
            .collect()
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.texts(name).pop().map(PathBuf::from)
    }

    fn word(&self, name: &str) -> Option<&'static str> {
        self.all(name).find_map(|arg| if let Arg::Word(word) = arg { Some(*word) } else { None })
    }

    fn range<T: TryFrom<u64>>(&self, name: &str) -> Option<(T, Option<T>)> {
        let Arg::Number(low, high) = self.all(name).next()? else { return None };
        let of = |n: u64| T::try_from(n).ok();
        Some((of(*low)?, high.and_then(of)))
    }

    fn get<T: TryFrom<u64>>(&self, name: &str) -> Option<T> {
        self.range(name).map(|(n, _)| n)
    }

    /// Milliseconds as ns.
    fn ms(&self, name: &str) -> Option<u64> {
        self.get(name).map(|ms: u64| ms.saturating_mul(MS))
    }

    /// Which end this is.
    ///
    /// # Errors
    /// When both or neither of the two is given.
    pub(super) fn role(&self) -> Result<Role, String> {
        match (self.has("-Listen"), self.has("-Target")) {
            (true, false) => Ok(Role::Server),
            (false, true) => Ok(Role::Client),
            (true, true) => {
                Err("-Listen makes a server and -Target a client: one of them must go".to_owned())
            }
            (false, false) => Err("either -Listen (a server) or -Target (a client) is required".to_owned()),
        }
    }

    pub(super) fn transport(&self) -> Transport {
        if self.holds("-Protocol:udp") { Transport::Udp } else { Transport::Tcp }
    }

    /// Connections, or streams, held at once.
    fn connections(&self, transport: Transport) -> u32 {
        self.get("-Connections").unwrap_or(if transport == Transport::Tcp { 8 } else { 1 })
    }

    fn verify(&self) -> Verify {
        match self.word("-Verify") {
            Some("connection" | "never") => Verify::Connection,
            _ => Verify::Data,
        }
    }

    /// All together; `words` are the arguments as typed.
    ///
    /// # Errors
    /// One sentence naming what does not go together, and what would.
    pub(super) fn finish(&self, words: &[Word]) -> Result<Spec, String> {
        let role = self.role()?;
        let transport = self.transport();
        self.check(transport)?;
        let mut changed = Vec::new();
        let phase = self.phase(role, transport, &mut changed)?;
        phase.check()?;
        let cores = match (self.get::<usize>("-CpuSetGroupId"), self.word("-AffinityPolicy")) {
            (Some(group), _) if group > 0 => {
                let first = group.saturating_mul(GROUP);
                Placement::Cores((first..first.saturating_add(GROUP)).collect())
            }
            (_, Some("PerGroup" | "Manual")) => Placement::Spread,
            _ => Placement::Even,
        };
        let place = match (self.texts("-Compartment").pop(), self.get("-IfIndex")) {
            (Some(_), Some(_)) => {
                return Err("-Compartment and -IfIndex both say where sockets belong: give one".to_owned());
            }
            (name, index) => name.map(Binding::Compartment).or(index.map(Binding::Interface)),
        };
        Ok(Spec {
            role,
            transport,
            binds: self.texts("-Bind").into_iter().filter(|bind| bind != "*").collect(),
            targets: self.texts("-Target"),
            listens: self.texts("-Listen"),
            port: self.get("-Port").unwrap_or(PORT),
            local_ports: self.range("-LocalPort").map(|(low, high)| (low, high.unwrap_or(low))),
            phase,
            exit_limit: self.get("-ServerExitLimit").filter(|&n| n > 0),
            pause_at_end_ms: self.get("-PauseAtEnd").unwrap_or(0),
            break_on_error: self.holds("-OnError:break"),
            verbosity: self.get("-ConsoleVerbosity").unwrap_or(4),
            logs: LogFiles {
                status: self.path("-StatusFilename"),
                connection: self.path("-ConnectionFilename"),
                error: self.path("-ErrorFilename"),
                jitter: self.path("-JitterFilename"),
                tcp_info: self.path("-TcpInfoFilename"),
                utf16: self.holds("-LogEncoding:utf16"),
            },
            cores,
            workers: self.get("-ShardCount").filter(|&n| n > 0),
            place,
            device: None,
            allow: self.texts("-Allow"),
            shown: self.shown(role, transport),
            ignored: self.ignored(words),
            changed,
        })
    }

    fn check(&self, transport: Transport) -> Result<(), String> {
        if self.has("-RateLimit") && self.has("-BurstDelay") {
            return Err("-RateLimit and -BurstDelay exclude each other".to_owned());
        }
        if let Some(rate) = self.get::<u64>("-RateLimit") {
            let period: u64 = self.get("-RateLimitPeriod").unwrap_or(100);
            if u128::from(rate) * u128::from(period) < 1000 {
                return Err(format!(
                    "-RateLimit:{rate} is less than one byte in a -RateLimitPeriod of {period} ms: raise either"
                ));
            }
        }
        if transport == Transport::Tcp
            && self.get("-PrePostRecvs").is_some_and(|n: u32| n > 1)
            && self.verify() != Verify::Connection
        {
            return Err("-PrePostRecvs above 1 needs -Verify:connection over TCP".to_owned());
        }
        if let Some((low, Some(high))) = self.range::<u32>("-LocalPort") {
            let (ports, connections) = (high - low + 1, self.connections(transport));
            if ports < connections {
                return Err(format!(
                    "-LocalPort has {ports} ports for -Connections:{connections}: each connection needs one"
                ));
            }
        }
        self.check_files()
    }

    fn check_files(&self) -> Result<(), String> {
        if self.has("-JitterFilename") && self.get("-Connections").is_some_and(|n: u32| n != 1) {
            return Err("-JitterFilename follows one stream: it needs -Connections:1".to_owned());
        }
        for name in ["-JitterFilename", "-TcpInfoFilename"] {
            if let Some(path) = self.path(name).filter(|p| !is_csv(p)) {
                return Err(format!("{name}:{} must end in .csv", path.display()));
            }
        }
        if let Some(path) = self.path("-ErrorFilename").filter(|p| is_csv(p)) {
            return Err(format!(
                "-ErrorFilename:{} is written as text and must not end in .csv",
                path.display()
            ));
        }
        let all = ["-StatusFilename", "-ConnectionFilename", "-JitterFilename", "-TcpInfoFilename"];
        let tables: Vec<PathBuf> =
            all.iter().filter_map(|name| self.path(name)).filter(|p| is_csv(p)).collect();
        let twice = tables.iter().enumerate().find(|(i, path)| tables[..*i].contains(path));
        twice.map_or(Ok(()), |(_, path)| {
            Err(format!("{} is named twice: each CSV file holds one table", path.display()))
        })
    }

    /// Arguments without an effect, as typed.
    fn ignored(&self, words: &[Word]) -> Vec<String> {
        let idle = |name: &str| match name {
            "-acc" => !self.holds("-Acc:AcceptEx"),
            "-conn" => self.holds("-Conn:connect"),
            "-io" => !self.holds("-IO:iocp"),
            "-inlinecompletions" => !self.holds("-InlineCompletions:on"),
            "-msgwaitall" => self.holds("-MsgWaitAll:on"),
            "-prepostrecvs" | "-prepostsends" | "-shardworkercount" | "-iocpbatchsize" => true,
            "-portscalability" => !self.holds("-PortScalability:off"),
            "-threadpool" => !self.holds("-ThreadPool:default"),
            _ => false,
        };
        let fast_path =
            |word: &Word| word.name == "-options" && word.value.eq_ignore_ascii_case("tcpfastpath");
        words.iter().filter(|w| idle(&w.name) || fast_path(w)).map(|w| w.text.clone()).collect()
    }

    fn phase(&self, role: Role, transport: Transport, changed: &mut Vec<String>) -> Result<Phase, String> {
        let update = self.get("-StatusUpdate").unwrap_or(5000);
        let interval: u64 = update.clamp(10, 3_600_000);
        if interval != update {
            changed.push(format!("-StatusUpdate:{update} (here 10 to 3600000; {interval} is used)"));
        }
        // The original takes a number below 0 for one of 64 bits.
        let lives = self.get("-Iterations").filter(|&n: &u64| n > 0);
        if lives.is_some_and(|lives| i64::try_from(lives).is_err()) {
            changed.push("-Iterations below 0 (0 is used: without end)".to_owned());
        }
        let mut phase = Phase {
            kind: Kind::Tcp,
            connections: self.connections(transport),
            iterations: lives.filter(|&lives| i64::try_from(lives).is_ok()),
            duration_ns: self.ms("-TimeLimit"),
            interval_ns: interval * MS,
            verify: self.verify(),
            shutdown: match (self.word("-Conn"), self.word("-Shutdown")) {
                (Some("ConnectByName"), _) | (_, Some("rude")) => Shutdown::Rude,
                (_, Some("random")) => Shutdown::Random,
                _ => Shutdown::Graceful,
            },
            sockets: self.sockets(role, transport),
            throttle: match self.get("-ThrottleConnections") {
                Some(0) => u32::MAX,
                throttle => throttle.unwrap_or(1000),
            },
            ..Phase::default()
        };
        if transport == Transport::Udp {
            let media = self.media(role)?;
            phase.kind = Kind::Stream;
            phase.pattern = Pattern::Pull;
            phase.transfer = media.total();
            phase.buffer = Range::just(u64::from(media.datagram));
            phase.media = Some(media);
        } else {
            self.tcp(&mut phase, changed);
        }
        phase.stall_ns = self.stall(&phase);
        Ok(phase)
    }

    /// Settings of TCP tests.
    fn tcp(&self, phase: &mut Phase, changed: &mut Vec<String>) {
        let bytes = |name: &str| self.get(name).unwrap_or(1 << 20);
        phase.pattern = match self.word("-Pattern") {
            Some("pull") => Pattern::Pull,
            Some("pushpull") => Pattern::PushPull { push: bytes("-PushBytes"), pull: bytes("-PullBytes") },
            Some("duplex" | "flood") => Pattern::Duplex,
            _ => Pattern::Push,
        };
        (phase.transfer, phase.transfer_high) = self.range("-Transfer").unwrap_or((1 << 30, None));
        let (low, high): (u64, _) = self.range("-Buffer").unwrap_or((65_536, None));
        let high = high.unwrap_or(low);
        phase.buffer = Range { low: low.min(MAX_BUFFER), high: high.min(MAX_BUFFER) };
        if high > MAX_BUFFER {
            changed.push(format!("-Buffer above {MAX_BUFFER} ({MAX_BUFFER} is used)"));
        }
        if let Some((low, high)) = self.range::<u64>("-RateLimit") {
            phase.rate = Some(low.saturating_mul(8));
            phase.rate_high = high.map(|n| n.saturating_mul(8));
            phase.rate_period_ns = Some(self.ms("-RateLimitPeriod").unwrap_or(100 * MS));
        }
        if let (Some(count), Some(delay_ns)) = (self.get("-BurstCount"), self.ms("-BurstDelay")) {
            phase.burst = Some(Burst { count, delay_ns });
        }
    }

    /// The stream; a server does not look at the depth.
    fn media(&self, role: Role) -> Result<Media, String> {
        let must = |name: &str| {
            let why = || format!("{name} is required with -Protocol:udp, the same at both ends");
            self.get::<u64>(name).ok_or_else(why)
        };
        let (bits, rate, length) = (must("-BitsPerSecond")?, must("-FrameRate")?, must("-StreamLength")?);
        let depth = match (role, self.get("-BufferDepth")) {
            (Role::Client, Some(0)) => return Err("-BufferDepth must be at least 1 second".to_owned()),
            (Role::Client, depth) => depth.unwrap_or(1),
            (Role::Server, _) => 1,
        };
        let datagram = self.get("-DatagramByteSize").unwrap_or(1400);
        let made = Media::new(bits, u32::try_from(rate).unwrap_or(u32::MAX), length, depth, datagram);
        made.map_err(|why| format!("-BitsPerSecond, -FrameRate, -StreamLength and -BufferDepth: {why}"))
    }

    fn sockets(&self, role: Role, transport: Transport) -> SocketSettings {
        let client = role == Role::Client && transport == Transport::Udp;
        let media = client.then(|| self.media(role).ok()).flatten();
        let by_default = media.map(|media| media.receive_buffer());
        let alive = role == Role::Server && transport == Transport::Tcp
            || self.all("-Options").any(|arg| matches!(arg, Arg::Word("keepalive")));
        SocketSettings {
            sndbuf: self.get("-SendBufValue"),
            rcvbuf: self.get("-RecvBufValue").or(by_default),
            // Frames arrive as bursts: merged, they take a fraction of the buffer, and of the
            // processor.
            gro: client,
            dscp: self.get("-QosDscpValue"),
            keepalive_ns: match self.ms("-KeepAliveValue") {
                Some(ns) => Some(ns.next_multiple_of(SECOND)),
                None => alive.then_some(KEEPALIVE_NS),
            },
            ..SocketSettings::default()
        }
    }

    /// A connection that its own limit keeps waiting has not stalled.
    fn stall(&self, phase: &Phase) -> u64 {
        match self.ms("-StallTimeout") {
            Some(0) => FOR_EVER_NS,
            Some(ns) => ns,
            None => {
                let by_rate = phase.rate.map_or(0, |bits| {
                    let bytes =
                        u128::from(phase.buffer.high) * u128::from(SECOND) * 8 / u128::from(bits.max(1));
                    u64::try_from(bytes).unwrap_or(u64::MAX)
                });
                let by_burst = phase.burst.map_or(0, |burst| burst.delay_ns);
                STALL_NS.saturating_add(by_rate).saturating_add(by_burst).min(FOR_EVER_NS)
            }
        }
    }

    fn shown(&self, role: Role, transport: Transport) -> BannerSettings {
        let tcp = transport == Transport::Tcp;
        let io = self.word("-IO").unwrap_or("iocp");
        let inline_by_default = if tcp { io == "iocp" } else { role == Role::Client };
        let inline = self.word("-InlineCompletions").map_or(inline_by_default, |word| word == "on");
        let sockets = self.sockets(role, transport);
        let keepalive = match self.get::<u32>("-KeepAliveValue") {
            Some(ms) => Some(format!("KeepAlive ({ms})")),
            None => sockets.keepalive_ns.map(|_| "KeepAlive".to_owned()),
        };
        let options = [
            keepalive,
            inline.then(|| "InlineIOCP".to_owned()),
            sockets.rcvbuf.map(|n| format!("SO_RCVBUF({n})")),
            sockets.sndbuf.map(|n| format!("SO_SNDBUF({n})")),
        ];
        BannerSettings {
            connect_function: match (role, self.word("-Conn")) {
                (Role::Server, _) => self.word("-Acc").unwrap_or("AcceptEx"),
                (_, Some("connect")) => "connect",
                (_, Some("ConnectByName")) => "WSAConnectByName",
                _ => "ConnectEx",
            },
            options: options.into_iter().flatten().collect(),
            receives: self.get("-PrePostRecvs").unwrap_or(if tcp { 1 } else { 2 }),
            sends: self.get("-PrePostSends").unwrap_or(u32::from(io != "RioIocp")),
            cpu_group: self.get("-CpuSetGroupId"),
            sharding: self.holds("-EnableRecvSharding:on").then(|| {
                let number = |name: &str, default: u32| self.get(name).unwrap_or(default);
                format!(
                    "{} shards, {} threads each, batches of {}, affinity {}",
                    number("-ShardCount", 0),
                    number("-ShardWorkerCount", 1),
                    number("-IocpBatchSize", 64),
                    self.word("-AffinityPolicy").unwrap_or("PerCpu")
                )
            }),
        }
    }
}

/// True if a file's name asks for a table.
pub(super) fn is_csv(path: &Path) -> bool {
    path.to_string_lossy().to_ascii_lowercase().ends_with(".csv")
}
