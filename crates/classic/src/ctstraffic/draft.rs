//! Arguments as they were read, and what they come to together: defaults, and the rules that join several of them.

use super::grammar::Word;
use super::spec::{Cores, Encoding, LogFiles, Place, Role, Sharding, Shown, Spec, Transport};
use metrics::SECOND;
use model::{Burst, Kind, MAX_BUFFER, Media, Pattern, Phase, Range, Shutdown, SocketSettings};
use std::path::{Path, PathBuf};

const MS: u64 = SECOND / 1000;

/// The port that both ends use unless told otherwise.
const PORT: u16 = 4444;
/// Windows' own idle time before keep-alive probes, which Linux has too: two hours.
const KEEPALIVE_NS: u64 = 7200 * SECOND;
/// A connection that moves nothing for so long has failed.
const STALL_NS: u64 = 15 * SECOND;
/// As good as for ever, and still a sum that fits.
const FOR_EVER_NS: u64 = 10 * 365 * 86_400 * SECOND;
/// CPUs in a processor group of Windows.
const GROUP: usize = 64;

/// The names of the four patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum PatternName {
    #[default]
    Push,
    Pull,
    PushPull,
    Duplex,
}

/// What is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Verify {
    #[default]
    Data,
    Connection,
}

/// How connections are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Connect {
    #[default]
    Extended,
    Plain,
    ByName,
}

/// How bytes are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum IoModel {
    #[default]
    Iocp,
    Rio,
    ReadWriteFile,
}

/// What `-Options` turns on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketOption {
    KeepAlive,
    FastPath,
}

/// Arguments as given.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub(super) listen: Vec<String>,
    pub(super) target: Vec<String>,
    pub(super) bind: Vec<String>,
    pub(super) port: Option<u16>,
    pub(super) protocol: Option<Transport>,
    pub(super) verify: Option<Verify>,
    pub(super) connections: Option<u32>,
    pub(super) iterations: Option<u64>,
    pub(super) exit_limit: Option<u64>,
    pub(super) throttle: Option<u32>,
    pub(super) time_limit: Option<u32>,
    pub(super) pause_at_end: Option<u32>,
    pub(super) break_on_error: Option<bool>,
    pub(super) pattern: Option<PatternName>,
    pub(super) push_bytes: Option<u32>,
    pub(super) pull_bytes: Option<u32>,
    pub(super) transfer: Option<(u64, Option<u64>)>,
    pub(super) buffer: Option<(u32, Option<u32>)>,
    pub(super) rate_limit: Option<(u64, Option<u64>)>,
    pub(super) rate_period: Option<u64>,
    pub(super) burst_count: Option<u32>,
    pub(super) burst_delay: Option<u32>,
    pub(super) shutdown: Option<Shutdown>,
    pub(super) stall_ms: Option<u32>,
    pub(super) bits_per_second: Option<u64>,
    pub(super) frame_rate: Option<u32>,
    pub(super) stream_length: Option<u32>,
    pub(super) buffer_depth: Option<u32>,
    pub(super) datagram: Option<u32>,
    pub(super) allow: Vec<String>,
    pub(super) sharding: Option<bool>,
    pub(super) shards: Option<u32>,
    pub(super) shard_workers: Option<u32>,
    pub(super) batch: Option<u32>,
    pub(super) affinity: Option<&'static str>,
    pub(super) jitter: Option<PathBuf>,
    pub(super) verbosity: Option<u8>,
    pub(super) status_update: Option<u32>,
    pub(super) status_file: Option<PathBuf>,
    pub(super) connection_file: Option<PathBuf>,
    pub(super) error_file: Option<PathBuf>,
    pub(super) tcp_info: Option<PathBuf>,
    pub(super) encoding: Option<Encoding>,
    pub(super) accept: Option<&'static str>,
    pub(super) connect: Option<Connect>,
    pub(super) io: Option<IoModel>,
    pub(super) inline: Option<bool>,
    pub(super) wait_all: Option<bool>,
    pub(super) receives: Option<u32>,
    pub(super) sends: Option<u32>,
    pub(super) rcvbuf: Option<u32>,
    pub(super) sndbuf: Option<u32>,
    pub(super) options: Vec<SocketOption>,
    pub(super) keepalive_ms: Option<u32>,
    pub(super) local_port: Option<(u16, Option<u16>)>,
    pub(super) port_scalability: Option<bool>,
    pub(super) if_index: Option<u32>,
    pub(super) compartment: Option<String>,
    pub(super) dscp: Option<u8>,
    pub(super) cpu_group: Option<u32>,
    pub(super) pool: Option<&'static str>,
}

impl Draft {
    /// Which end this is.
    ///
    /// # Errors
    /// When both or neither of the two is given.
    pub(super) fn role(&self) -> Result<Role, String> {
        match (self.listen.is_empty(), self.target.is_empty()) {
            (false, true) => Ok(Role::Server),
            (true, false) => Ok(Role::Client),
            (false, false) => {
                Err("-Listen makes a server and -Target a client: one of them must go".to_owned())
            }
            (true, true) => Err("either -Listen (a server) or -Target (a client) is required".to_owned()),
        }
    }

    pub(super) fn transport(&self) -> Transport {
        self.protocol.unwrap_or_default()
    }

    /// All together; `words` are the arguments as typed.
    ///
    /// # Errors
    /// One sentence naming what does not go together, and what would.
    pub(super) fn finish(self, words: &[Word]) -> Result<Spec, String> {
        let role = self.role()?;
        let transport = self.transport();
        self.check(transport)?;
        let mut ignored = self.ignored(words);
        let phase = self.phase(role, transport, &mut ignored)?;
        phase.check()?;
        let cores = match (self.cpu_group, self.affinity) {
            (Some(group), _) if group > 0 => {
                let first = usize::try_from(group).unwrap_or(usize::MAX).saturating_mul(GROUP);
                Cores::These((first..first.saturating_add(GROUP)).collect())
            }
            (_, Some("PerGroup" | "Manual")) => Cores::Free,
            _ => Cores::Each,
        };
        let shown = self.shown(role, transport);
        let place = match (&self.compartment, self.if_index) {
            (Some(_), Some(_)) => {
                return Err("-Compartment and -IfIndex both say where sockets belong: give one".to_owned());
            }
            (Some(name), None) => Some(Place::Compartment(name.clone())),
            (None, Some(index)) => Some(Place::Interface(index)),
            (None, None) => None,
        };
        Ok(Spec {
            role,
            transport,
            binds: self.bind.into_iter().filter(|bind| bind != "*").collect(),
            targets: self.target,
            listens: self.listen,
            port: self.port.unwrap_or(PORT),
            local_ports: self.local_port.map(|(low, high)| (low, high.unwrap_or(low))),
            phase,
            exit_limit: self.exit_limit.filter(|&n| n > 0),
            pause_at_end_ms: self.pause_at_end.unwrap_or(0),
            break_on_error: self.break_on_error.unwrap_or(false),
            verbosity: self.verbosity.unwrap_or(4),
            logs: LogFiles {
                status: self.status_file,
                connection: self.connection_file,
                error: self.error_file,
                jitter: self.jitter,
                tcp_info: self.tcp_info,
                encoding: self.encoding.unwrap_or_default(),
            },
            cores,
            workers: self.shards.filter(|&n| n > 0).and_then(|n| u16::try_from(n).ok()),
            place,
            allow: self.allow,
            shown,
            ignored,
        })
    }

    /// Rules that join several arguments.
    fn check(&self, transport: Transport) -> Result<(), String> {
        if let (Some(_), Some(_)) = (self.rate_limit, self.burst_delay) {
            return Err("-RateLimit and -BurstDelay exclude each other".to_owned());
        }
        if let Some((rate, _)) = self.rate_limit {
            let period = self.rate_period.unwrap_or(100);
            if u128::from(rate) * u128::from(period) < 1000 {
                return Err(format!(
                    "-RateLimit:{rate} is less than one byte in a -RateLimitPeriod of {period} ms: raise either"
                ));
            }
        }
        if transport == Transport::Tcp
            && self.receives.is_some_and(|n| n > 1)
            && self.verify != Some(Verify::Connection)
        {
            return Err("-PrePostRecvs above 1 needs -Verify:connection over TCP".to_owned());
        }
        if let Some((low, Some(high))) = self.local_port {
            let (ports, connections) = (u32::from(high - low) + 1, self.connections.unwrap_or(8));
            if ports < connections {
                return Err(format!(
                    "-LocalPort has {ports} ports for -Connections:{connections}: each connection needs one"
                ));
            }
        }
        self.check_files()
    }

    fn check_files(&self) -> Result<(), String> {
        if self.jitter.is_some() && self.connections.is_some_and(|n| n != 1) {
            return Err("-JitterFilename follows one stream: it needs -Connections:1".to_owned());
        }
        let must_be_csv = [("-JitterFilename", &self.jitter), ("-TcpInfoFilename", &self.tcp_info)];
        for (name, path) in must_be_csv {
            if let Some(path) = path.as_ref().filter(|p| !is_csv(p)) {
                return Err(format!("{name}:{} must end in .csv", path.display()));
            }
        }
        if let Some(path) = self.error_file.as_ref().filter(|p| is_csv(p)) {
            return Err(format!(
                "-ErrorFilename:{} is written as text and must not end in .csv",
                path.display()
            ));
        }
        let all = [&self.status_file, &self.connection_file, &self.jitter, &self.tcp_info];
        let tables: Vec<&PathBuf> = all.into_iter().flatten().filter(|p| is_csv(p)).collect();
        match tables.iter().enumerate().find(|(i, path)| tables[..*i].contains(path)) {
            Some((_, path)) => {
                Err(format!("{} is named twice: each CSV file holds one table", path.display()))
            }
            None => Ok(()),
        }
    }

    /// Arguments without an effect, as typed.
    fn ignored(&self, words: &[Word]) -> Vec<String> {
        let idle = |name: &str| match name {
            "-acc" => self.accept != Some("AcceptEx"),
            "-conn" => self.connect == Some(Connect::Plain),
            "-io" => self.io != Some(IoModel::Iocp),
            "-inlinecompletions" => self.inline != Some(true),
            "-msgwaitall" => self.wait_all == Some(true),
            "-prepostrecvs" | "-prepostsends" | "-shardworkercount" | "-iocpbatchsize" => true,
            "-portscalability" => self.port_scalability != Some(false),
            "-threadpool" => self.pool != Some("default"),
            _ => false,
        };
        let fast_path =
            |word: &Word| word.name == "-options" && word.value.eq_ignore_ascii_case("tcpfastpath");
        words.iter().filter(|w| idle(&w.name) || fast_path(w)).map(|w| w.text.clone()).collect()
    }

    fn phase(&self, role: Role, transport: Transport, ignored: &mut Vec<String>) -> Result<Phase, String> {
        let update = self.status_update.unwrap_or(5000);
        let interval = update.clamp(10, 3_600_000);
        if interval != update {
            ignored.push(format!("-StatusUpdate:{update} (here 10 to 3600000; {interval} is used)"));
        }
        let mut phase = Phase {
            kind: Kind::Tcp,
            connections: self.connections.unwrap_or(if transport == Transport::Tcp { 8 } else { 1 }),
            iterations: self.iterations.filter(|&n| n > 0),
            duration_ns: self.time_limit.map(|ms| u64::from(ms) * MS),
            interval_ns: u64::from(interval) * MS,
            verify: match self.verify.unwrap_or_default() {
                Verify::Data => model::Verify::Data,
                Verify::Connection => model::Verify::Connection,
            },
            shutdown: match self.connect {
                Some(Connect::ByName) => Shutdown::Rude,
                _ => self.shutdown.unwrap_or_default(),
            },
            sockets: self.sockets(role, transport),
            throttle: self.throttle.filter(|&n| n > 0).unwrap_or(if self.throttle == Some(0) {
                u32::MAX
            } else {
                1000
            }),
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
            self.tcp(&mut phase, ignored);
        }
        phase.stall_ns = self.stall(&phase);
        Ok(phase)
    }

    /// What TCP tests have.
    fn tcp(&self, phase: &mut Phase, ignored: &mut Vec<String>) {
        let bytes = |n: Option<u32>| u64::from(n.unwrap_or(1 << 20));
        phase.pattern = match self.pattern.unwrap_or_default() {
            PatternName::Push => Pattern::Push,
            PatternName::Pull => Pattern::Pull,
            PatternName::PushPull => {
                Pattern::PushPull { push: bytes(self.push_bytes), pull: bytes(self.pull_bytes) }
            }
            PatternName::Duplex => Pattern::Duplex,
        };
        (phase.transfer, phase.transfer_high) = self.transfer.unwrap_or((1 << 30, None));
        let (low, high) = self.buffer.unwrap_or((65_536, None));
        let (low, high) = (u64::from(low), u64::from(high.unwrap_or(low)));
        phase.buffer = Range { low: low.min(MAX_BUFFER), high: high.min(MAX_BUFFER) };
        if high > MAX_BUFFER {
            ignored.push(format!("-Buffer above {MAX_BUFFER} ({MAX_BUFFER} is used)"));
        }
        if let Some((low, high)) = self.rate_limit {
            phase.rate = Some(low.saturating_mul(8));
            phase.rate_high = high.map(|n| n.saturating_mul(8));
            phase.rate_period_ns = Some(self.rate_period.unwrap_or(100).saturating_mul(MS));
        }
        if let (Some(count), Some(delay)) = (self.burst_count, self.burst_delay) {
            phase.burst = Some(Burst { count, delay_ns: u64::from(delay) * MS });
        }
    }

    /// The stream; a server does not look at the depth.
    fn media(&self, role: Role) -> Result<Media, String> {
        let must = |value: Option<u64>, name: &str| {
            value.ok_or_else(|| format!("{name} is required with -Protocol:udp, the same at both ends"))
        };
        let bits = must(self.bits_per_second, "-BitsPerSecond")?;
        let rate = self.frame_rate;
        must(rate.map(u64::from), "-FrameRate")?;
        let length = must(self.stream_length.map(u64::from), "-StreamLength")?;
        let depth = match (role, self.buffer_depth) {
            (Role::Client, Some(0)) => return Err("-BufferDepth must be at least 1 second".to_owned()),
            (Role::Client, depth) => u64::from(depth.unwrap_or(1)),
            (Role::Server, _) => 1,
        };
        let datagram = self.datagram.unwrap_or(1400);
        let made = Media::new(bits, rate.unwrap_or(1), length, depth, datagram);
        made.map_err(|why| format!("-BitsPerSecond, -FrameRate, -StreamLength and -BufferDepth: {why}"))
    }

    fn sockets(&self, role: Role, transport: Transport) -> SocketSettings {
        let client = role == Role::Client && transport == Transport::Udp;
        let media = client.then(|| self.media(role).ok()).flatten();
        let by_default = media.map(|media| media.receive_buffer());
        let alive = role == Role::Server && transport == Transport::Tcp
            || self.options.contains(&SocketOption::KeepAlive);
        SocketSettings {
            sndbuf: self.sndbuf.map(u64::from),
            rcvbuf: self.rcvbuf.map(u64::from).or(by_default),
            // Frames come as bursts: merged, they take a fraction of the buffer, and of the processor.
            gro: client,
            dscp: self.dscp,
            keepalive_ns: match self.keepalive_ms {
                Some(ms) => Some((u64::from(ms) * MS).next_multiple_of(SECOND)),
                None => alive.then_some(KEEPALIVE_NS),
            },
            ..SocketSettings::default()
        }
    }

    /// A connection that its own limit keeps waiting has not stalled.
    fn stall(&self, phase: &Phase) -> u64 {
        match self.stall_ms {
            Some(0) => FOR_EVER_NS,
            Some(ms) => u64::from(ms) * MS,
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

    fn shown(&self, role: Role, transport: Transport) -> Shown {
        let tcp = transport == Transport::Tcp;
        let io = self.io.unwrap_or_default();
        let inline_by_default = if tcp { io == IoModel::Iocp } else { role == Role::Client };
        let mut options = Vec::new();
        match self.keepalive_ms {
            Some(ms) => options.push(format!("KeepAlive ({ms})")),
            None if self.sockets(role, transport).keepalive_ns.is_some() => {
                options.push("KeepAlive".to_owned());
            }
            None => {}
        }
        if self.inline.unwrap_or(inline_by_default) {
            options.push("InlineIOCP".to_owned());
        }
        let sockets = self.sockets(role, transport);
        options.extend(sockets.rcvbuf.map(|n| format!("SO_RCVBUF({n})")));
        options.extend(sockets.sndbuf.map(|n| format!("SO_SNDBUF({n})")));
        Shown {
            io_function: io_function(role, transport),
            connect_function: match (role, self.connect.unwrap_or_default()) {
                (Role::Server, _) => self.accept.unwrap_or("AcceptEx"),
                (_, Connect::Extended) => "ConnectEx",
                (_, Connect::Plain) => "connect",
                (_, Connect::ByName) => "WSAConnectByName",
            },
            options,
            receives: self.receives.unwrap_or(if tcp { 1 } else { 2 }),
            sends: self.sends.unwrap_or(u32::from(io != IoModel::Rio)),
            compartment: self.compartment.clone(),
            interface: self.if_index,
            cpu_group: self.cpu_group,
            sharding: (self.sharding == Some(true)).then(|| Sharding {
                shards: self.shards.unwrap_or(0),
                workers: self.shard_workers.unwrap_or(1),
                batch: self.batch.unwrap_or(64),
                policy: self.affinity.unwrap_or("PerCpu"),
            }),
        }
    }
}

/// What moves the bytes, as the banner names it.
pub(super) fn io_function(role: Role, transport: Transport) -> &'static str {
    match (transport, role) {
        (Transport::Udp, Role::Client) => "MediaStream Client",
        (Transport::Udp, Role::Server) => "MediaStream Server",
        (Transport::Tcp, _) => "epoll (send/recv on non-blocking sockets)",
    }
}

/// Whether a file's name asks for a table.
pub(super) fn is_csv(path: &Path) -> bool {
    path.to_string_lossy().to_ascii_lowercase().ends_with(".csv")
}
