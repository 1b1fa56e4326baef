//! `netcaliper serve` and `stop`.

use crate::args::{ServeArgs, StopArgs, listen_addresses};
use crate::outputs::Outputs;
use crate::values::Legacy;
use crate::{Exit, Trouble, measure, plan};
use engine::{Bound, Interrupt, Iperf3Server, ServerConfig};
use metrics::{Packets, SECOND, format_duration};
use model::{
    Event, Kind, Level, Phase, Ping, Probe, Range, SocketSettings, StampSettings, Status, Totals, Traffic,
    Transport, Verify,
};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use wire::Protocol;
use wire::native::{Fence, Limits};

/// The far end.
pub(crate) fn serve(args: &ServeArgs, command: Vec<String>) -> Result<Exit, Trouble> {
    let mut outputs = Outputs::open(&args.output, None)?;
    let config = ServerConfig {
        listen: listen_addresses(&args.listen, args.port).map_err(Trouble::usage)?,
        psk: plan::key(&args.key)?,
        fence: Fence { allow: args.allow.clone(), deny: args.deny.clone() },
        limits: Limits {
            sessions: args.max_sessions,
            per_address: args.max_per_address,
            connections: args.max_connections,
            duration_ns: args.max_time,
            rate: args.max_rate,
            busy: args.busy,
            eager: false,
        },
        exclusive: args.exclusive,
        exit_after: args.exit_after,
        interval_ns: args.interval,
        device: args.cores.bind_dev.clone(),
        placement: plan::placement(&args.cores),
        workers: args.cores.workers,
        version: plan::VERSION.to_owned(),
        records: outputs.wants_records(),
        ..ServerConfig::default()
    };
    let interval_ns = config.interval_ns;
    let bound = Bound::new(config)?;
    let interrupt = measure::on_signals()?;
    outputs.begin(bound.begin(command));
    let phase = Box::new(Phase { duration_ns: None, interval_ns, ..Phase::default() });
    outputs.event(&Event::Phase { label: BTreeMap::new(), repeat: 1, phase });
    for address in bound.addresses() {
        let text = format!("listening on {address} (TCP and UDP)");
        outputs.event(&Event::Notice { level: Level::Info, text });
    }
    let legacy = legacy(args)?;
    let names =
        legacy.iter().flat_map(|(name, bound)| bound.addresses().iter().map(move |at| (name, at.port())));
    let bound = bound.with(names.map(|(name, port)| format!("{name}:{port}")).collect());
    for (name, bound) in &legacy {
        for address in bound.addresses() {
            let how = match *name {
                "tcpmon" => "TCP",
                "bwdelaytester" | "stamp" | "udpmon" => "UDP",
                _ => "TCP and UDP",
            };
            let text = format!("answering {name} on {address} ({how})");
            outputs.event(&Event::Notice { level: Level::Info, text });
        }
    }
    let outputs_of_all = Mutex::new(outputs);
    let tell = |event: &Event| outputs_of_all.lock().unwrap_or_else(PoisonError::into_inner).event(event);
    std::thread::scope(|scope| {
        let stops: Vec<Interrupt> = legacy
            .into_iter()
            .map(|(name, bound)| {
                let stop = Interrupt::new();
                let (asked, tell) = (stop.clone(), &tell);
                scope.spawn(move || answer(name, bound, &asked, tell));
                stop
            })
            .collect();
        let mut quiet = false;
        let ran = bound.run(&interrupt, &mut |event| {
            // An idle server says so once, not every second.
            if let Event::Interval(interval) = &event {
                let idle = interval.in_flight == 0 && interval.near.tx_bytes + interval.near.rx_bytes == 0;
                let was_quiet = std::mem::replace(&mut quiet, idle && interval.opened == 0);
                if quiet && was_quiet {
                    return;
                }
            }
            tell(&event);
        });
        stops.iter().for_each(Interrupt::ask);
        ran
    })?;
    let mut outputs = outputs_of_all.into_inner().unwrap_or_else(PoisonError::into_inner);
    outputs.event(&Event::End { status: Status::Complete, reason: None });
    // A signal is how servers are ended: that is no failure.
    Ok(match outputs.finish() {
        Exit::Interrupted => Exit::Good,
        other => other,
    })
}

/// The legacy protocols that are answered as well, with their ports taken.
fn legacy(args: &ServeArgs) -> Result<Vec<(&'static str, Bound)>, Trouble> {
    let stamp_key = match &args.legacy.stamp_psk_file {
        Some(path) => plan::key_in(path).map(Some)?,
        None => None,
    };
    let stamp = StampSettings {
        authenticated: stamp_key.is_some(),
        direct: args.legacy.stamp_direct,
        ..StampSettings::default()
    };
    let one = |asked: Legacy| {
        let phase = answered(asked.protocol, stamp);
        let config = ServerConfig {
            listen: listen_addresses(&hosts(&args.listen), asked.port).map_err(Trouble::usage)?,
            fence: Fence { allow: args.allow.clone(), deny: args.deny.clone() },
            open_to: plan::open_to(&[])?,
            psk: stamp_key.clone().filter(|_| asked.protocol == Protocol::Stamp),
            device: args.cores.bind_dev.clone(),
            placement: plan::placement(&args.cores),
            workers: args.cores.workers,
            version: plan::VERSION.to_owned(),
            also_datagrams: asked.protocol == Protocol::Ttcp,
            iperf3: Iperf3Server { scribe: Some(classic::iperf3::scribe), ..Iperf3Server::default() },
            ..ServerConfig::legacy(asked.protocol, phase)
        };
        Ok((asked.protocol.name(), Bound::new(config)?))
    };
    args.legacy.all().into_iter().map(one).collect()
}

/// The settings with which a legacy protocol is answered.
fn answered(protocol: Protocol, stamp: StampSettings) -> Phase {
    let common = Phase { duration_ns: None, ..Phase::default() };
    match protocol {
        Protocol::Ttcp => Phase { verify: Verify::Connection, stall_ns: 300 * SECOND, ..common },
        Protocol::Stamp => Phase {
            kind: Kind::Ping,
            ping: Some(Ping {
                transport: Transport::Udp,
                size: stamp.size(),
                stamp: Some(stamp),
                ..Ping::default()
            }),
            buffer: Range::just(1 << 16),
            sockets: SocketSettings { ttl: Some(255), ..SocketSettings::default() },
            ..common
        },
        // What a buffer of ours loses is not lost by a network.
        Protocol::Udpmon => Phase {
            kind: Kind::Train,
            udpmon: Some(Box::default()),
            buffer: Range::just(1 << 16),
            sockets: SocketSettings { rcvbuf: Some(4 << 20), ..SocketSettings::default() },
            ..common
        },
        // One connection is served at a time by the original, any number here.
        Protocol::Tcpmon => Phase { verify: Verify::Connection, buffer: Range::just(1 << 20), ..common },
        Protocol::Bwdelaytester => Phase {
            kind: Kind::Delay,
            probe: Some(Probe::default()),
            buffer: Range::just(1 << 16),
            sockets: SocketSettings { rcvbuf: Some(4 << 20), ..SocketSettings::default() },
            ..common
        },
        _ => Phase {
            kind: Kind::Ping,
            ping: Some(Ping { transport: Transport::Udp, ..Ping::default() }),
            buffer: Range::just(1 << 16),
            ..common
        },
    }
}

/// The addresses of `listen` without their ports, which are those of our own protocol.
fn hosts(listen: &[String]) -> Vec<String> {
    let host = |text: &String| match text.parse::<std::net::SocketAddr>() {
        Ok(address) => address.ip().to_string(),
        Err(_) => text.clone(),
    };
    listen.iter().map(host).collect()
}

/// Answers a legacy protocol until it is told to end; says what a person should know.
fn answer(name: &str, bound: Bound, stop: &Interrupt, tell: &dyn Fn(&Event)) {
    let say = |level, text: &str| tell(&Event::Notice { level, text: format!("{name}: {text}") });
    let ran = bound.run(stop, &mut |event| match event {
        Event::Notice { level, text } => say(level, &text),
        Event::Portion(portion) => {
            let ns = portion.to_ns.saturating_sub(portion.from_ns);
            let bytes = portion.rx_bytes;
            let rate = Traffic { tx_bytes: 0, rx_bytes: bytes, ns }.rx_bps() / 1e6;
            let seconds = ns as f64 / 1e9;
            let from = portion.remote;
            say(Level::Info, &format!("{bytes} bytes from {from} in {seconds:.6} s, {rate:.3} Mbit/s"));
        }
        Event::Near(totals) if name == "bwdelaytester" => say(Level::Info, &came(&totals)),
        Event::Near(totals) if totals.traffic.rx_bytes > 0 => {
            let (back, bytes) = (totals.traffic.tx_bytes, totals.traffic.rx_bytes);
            let what =
                if back > 0 { format!("{back} bytes answered") } else { format!("{bytes} bytes received") };
            let text = format!("{} connections, {what}", totals.opened);
            say(Level::Info, &text);
        }
        _ => {}
    });
    if let Err(error) = ran {
        say(Level::Error, &error.to_string());
    }
}

/// What came of a protocol that answers nothing.
fn came(totals: &Totals) -> String {
    let Some(report) = totals.packets.as_deref() else { return "nothing came".to_owned() };
    let Packets { received, lost, duplicated, reordered, dropped, .. } = report.counts;
    let mut text = format!(
        "{received} datagrams from {} senders, {lost} lost ({dropped} of them here), {duplicated} repeated, {reordered} \
         reordered",
        totals.opened
    );
    if let Some(delay) = &report.delay_ns {
        let told = |ns: u64| format_duration(ns as f64);
        let bound = match report.clock_bound_ns {
            Some(bound) => format!("if the clocks agree, within {}", told(bound)),
            None => "relative to the fastest".to_owned(),
        };
        text += &format!(
            "; delay p50 {}, p99 {}, max {} ({bound})",
            told(delay.p50),
            told(delay.p99),
            told(delay.max)
        );
    }
    text
}

/// Asks servers to end.
pub(crate) fn stop(args: &StopArgs) -> Result<Exit, Trouble> {
    let config = plan::client(&args.target, &args.local, false)?;
    if config.protocol != Protocol::Native {
        let text = format!("a server of the protocol {} cannot be asked to end", config.protocol);
        return Err(Trouble::usage(text));
    }
    let interrupt = measure::on_signals()?;
    let mut end = (Status::Failed, None);
    engine::stop_servers(&config, &interrupt, &mut |event| match event {
        Event::Notice { text, .. } => eprintln!("{text}"),
        Event::PhaseEnd { status, reason } => end = (status, reason),
        _ => {}
    })?;
    match end {
        (Status::Complete, _) => Ok(Exit::Good),
        (Status::Interrupted, _) => Ok(Exit::Interrupted),
        (_, reason) => Err(Trouble::failed(reason.unwrap_or_else(|| "the server did not answer".to_owned()))),
    }
}
