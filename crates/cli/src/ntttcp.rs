//! `netcaliper ntttcp`: ntttcp for Linux, either end.

use crate::{measure, plan};
use classic::ntttcp::{Asked, Face, Now, PAGE, Reading, Role, Spec, Texts, read, time_of_day};
use engine::{Bound, ClientConfig, EngineError, Interrupt, ServerConfig};
use model::{Event, Level, Status};
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use wire::Protocol;
use wire::ntttcp::Layout;

/// -1001 of the original: the command line cannot be.
const USAGE: u8 = 23;
/// -1000 of the original: refused, busy, unreachable.
const FAILED: u8 = 24;

/// Why there is no run: one sentence, and the exit code.
struct Refusal(String, u8);

impl From<EngineError> for Refusal {
    fn from(error: EngineError) -> Self {
        let code = if matches!(error, EngineError::Setting(_)) { USAGE } else { FAILED };
        Refusal(error.to_string(), code)
    }
}

/// Runs it.
pub(crate) fn run(arguments: &[String], command: Vec<String>) -> ExitCode {
    let done = match read(arguments) {
        Ok(Asked::Help) => {
            // Nobody reads on: then nobody needs the rest either.
            let _ = io::stdout().write_all(PAGE.as_bytes());
            return ExitCode::from(USAGE);
        }
        Ok(Asked::Run(spec)) => start(&spec, &command),
        Err(text) => Err(Refusal(text, USAGE)),
    };
    ExitCode::from(done.unwrap_or_else(|Refusal(text, code)| {
        eprintln!("ntttcp: {text}");
        code
    }))
}

fn start(spec: &Spec, command: &[String]) -> Result<u8, Refusal> {
    if !spec.ignored.is_empty() {
        eprintln!("ntttcp: warning: ignored: {}", spec.ignored.join(", "));
    }
    let interrupt = measure::on_signals().map_err(|trouble| Refusal(trouble.text, FAILED))?;
    let mut show = Show::new(spec);
    show.banner();
    match spec.role {
        Role::Sender => send(spec, &interrupt, &mut show)?,
        Role::Receiver => loop {
            receive(spec, &interrupt, command, &mut show)?;
            if !spec.hold || interrupt.asked() {
                break;
            }
            show.again(spec);
        },
    }
    Ok(show.code())
}

fn layout(spec: &Spec) -> Layout {
    Layout {
        port: spec.port,
        ports: spec.ports,
        threads: spec.threads,
        connections: spec.connections,
        warmup_s: spec.warmup_s,
        seconds: spec.seconds,
        cooldown_s: spec.cooldown_s,
        sync: spec.sync,
        multi: spec.multi,
    }
}

fn send(spec: &Spec, interrupt: &Interrupt, show: &mut Show) -> Result<(), Refusal> {
    let host = spec.address.clone().unwrap_or_default();
    let config = ClientConfig {
        protocol: Protocol::Ntttcp,
        peers: engine::resolve_targets(&[host], spec.port, false, false)?.into_iter().take(1).collect(),
        sources: spec.local.into_iter().collect(),
        ports: spec.local_port.map(|first| (first, first)),
        run: engine::run_id(),
        version: plan::VERSION.to_owned(),
        records: true,
        arrivals: true,
        ..ClientConfig::default()
    };
    let threads = u32::from(spec.ports) * spec.threads;
    show.info(&format!("{threads} threads created"));
    engine::send_ntttcp(&config, &spec.phase(), layout(spec), interrupt, &mut |event| show.hear(&event))?;
    Ok(())
}

fn receive(spec: &Spec, interrupt: &Interrupt, command: &[String], show: &mut Show) -> Result<(), Refusal> {
    let host = spec.address.clone().unwrap_or_else(|| "0.0.0.0".to_owned());
    let address = engine::resolve_targets(&[host], spec.port, false, false)?;
    let ip = address.first().map_or_else(|| [0, 0, 0, 0].into(), |peer| peer.address.ip());
    let first = if spec.sync { spec.port - 1 } else { spec.port };
    let listen = (first..=spec.port + (spec.ports - 1)).map(|port| SocketAddr::new(ip, port)).collect();
    let config = ServerConfig {
        listen,
        version: plan::VERSION.to_owned(),
        records: true,
        arrivals: true,
        ntttcp: Some(layout(spec)),
        ..ServerConfig::legacy(Protocol::Ntttcp, spec.phase())
    };
    let bound = Bound::new(config)?;
    let _ = bound.begin(command.to_vec());
    show.info(&format!("{} threads created", u32::from(spec.ports) + u32::from(spec.sync)));
    bound.run(interrupt, &mut |event| show.hear(&event))?;
    Ok(())
}

/// The face, on this program's stdout and stderr.
struct Show {
    spec: Spec,
    face: Face,
    begun: Instant,
    status: Status,
}

impl Show {
    fn new(spec: &Spec) -> Show {
        let face = Face::new(spec.clone(), io::stdout().is_terminal());
        Show { spec: spec.clone(), face, begun: Instant::now(), status: Status::Failed }
    }

    /// Another test, with a report of its own.
    fn again(&mut self, spec: &Spec) {
        self.face = Face::new(spec.clone(), io::stdout().is_terminal());
    }

    fn banner(&mut self) {
        // Where nobody reads on, the exit code still tells.
        let _ = self.face.banner(&mut io::stdout().lock());
    }

    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ns = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Now { day: time_of_day(i64::try_from(wall.as_nanos()).unwrap_or(i64::MAX)), ns }
    }

    fn info(&self, text: &str) {
        let mut out = io::stdout().lock();
        let _ = writeln!(out, "{} INFO: {text}", self.now().day);
        let _ = out.flush();
    }

    fn hear(&mut self, event: &Event) {
        match event {
            Event::PhaseEnd { status, .. } => self.status = *status,
            Event::Notice { level: Level::Warning | Level::Error, text } => eprintln!("ntttcp: {text}"),
            _ => {}
        }
        let watched = matches!(event, Event::Start { .. } | Event::Interval(_));
        let host = if watched { self.host() } else { Reading::default() };
        let now = self.now();
        let _ = self.face.hear(event, &now, &host, &mut io::stdout().lock());
    }

    /// What the kernel says of this host now.
    fn host(&self) -> Reading {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let packets = |nic: &str, way: &str| {
            // An interface's name is no path.
            let plain = !nic.contains('/') && !nic.contains("..");
            let path = format!("/sys/class/net/{nic}/statistics/{way}_packets");
            if plain { text(&path).trim().parse().unwrap_or(0) } else { 0 }
        };
        let nic = self.spec.nic.as_deref();
        let texts = Texts {
            stat: text("/proc/stat"),
            snmp: text("/proc/net/snmp"),
            netstat: text("/proc/net/netstat"),
            interrupts: if self.spec.interrupts.is_some() { text("/proc/interrupts") } else { String::new() },
            cpuinfo: text("/proc/cpuinfo"),
            packets: nic.map_or((0, 0), |nic| (packets(nic, "tx"), packets(nic, "rx"))),
        };
        Reading::of(&texts, self.spec.interrupts.as_deref())
    }

    fn code(&self) -> u8 {
        if self.status == Status::Failed || self.face.failed() { FAILED } else { 0 }
    }
}
