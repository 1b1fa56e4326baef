//! Servers of other protocols beside our own (`serve --legacy`): which there are, and what is said of them.

use crate::protocols;
use crate::serve::{ServeArgs, listen_addresses};
use crate::values::Legacy;
use crate::{CliError, key, plan};
use common::{Acl, Keyring, ServerConfig};
use model::{Event, Level, Phase, StampSettings};
use runtime::{Bound, Interrupt};
use std::net::SocketAddr;

/// A server that goes along, with its ports taken.
pub(crate) struct Answering {
    asked: Legacy,
    bound: Bound,
    /// It is not at its usual port, and why.
    aside: Option<String>,
}

/// Servers of other protocols that run beside this one.
pub(crate) struct Beside {
    pub(crate) answering: Vec<Answering>,
    /// What could not be had, and why.
    refused: Vec<(&'static str, String)>,
    /// `all`: every protocol whose port can be bound.
    every: bool,
}

/// Refuses to combine a key with protocols that cannot authenticate their clients (all but STAMP with a key of its own), unless
/// `--legacy-unauthenticated` is given.
///
/// # Errors
/// The refusal, in one sentence.
pub(crate) fn check_key(args: &ServeArgs, keyed: bool) -> Result<(), CliError> {
    let legacy = &args.legacy;
    if !keyed || legacy.unauthenticated {
        return Ok(());
    }
    let keyless = |asked: &Legacy| asked.protocol != protocols::STAMP || legacy.stamp_psk_file.is_none();
    let named = legacy.named().into_iter().filter(keyless).map(|asked| asked.protocol.name());
    let mut names: Vec<&str> = named.collect();
    if legacy.every() {
        names = vec!["the other protocols"];
    }
    names.dedup();
    if names.is_empty() {
        return Ok(());
    }
    Err(CliError::usage(format!(
        "the key guards the native protocol only, and {} would answer without it: say --legacy-unauthenticated if that is \
         meant",
        names.join(", ")
    )))
}

/// Takes the ports of all that are asked for. One that is asked for by name must be had.
pub(crate) fn bind(args: &ServeArgs) -> Result<Beside, CliError> {
    let mut beside = Beside { answering: Vec::new(), refused: Vec::new(), every: args.legacy.every() };
    let mut wanted = args.legacy.named();
    let named = wanted.len();
    if beside.every {
        let others = protocols::ALL.into_iter().filter_map(|one| Legacy::of(one, one.port()));
        let others = others.filter(|one| wanted.iter().all(|asked| asked.protocol != one.protocol));
        let others: Vec<Legacy> = others.collect();
        wanted.extend(others);
    }
    for (nth, asked) in wanted.iter().enumerate() {
        let (asked, aside) = aside(*asked, &wanted);
        match one(args, asked) {
            Ok(bound) => beside.answering.push(Answering { asked, bound, aside }),
            Err(error) if nth < named => return Err(error),
            Err(error) => beside.refused.push((asked.protocol.name(), error.text)),
        }
    }
    Ok(beside)
}

/// Moves a protocol to its other port where one of `others` has its usual port; says why.
fn aside(asked: Legacy, others: &[Legacy]) -> (Legacy, Option<String>) {
    let usual = asked.protocol.port();
    let taken = others.iter().find(|other| other.protocol != asked.protocol && other.port == usual);
    match (taken, asked.info.aside) {
        (Some(other), Some(port)) if asked.port == usual => {
            let why = format!("{} has {usual}, so its senders need -p {port}", other.protocol);
            (Legacy { port, ..asked }, Some(why))
        }
        _ => (asked, None),
    }
}

impl Answering {
    /// The addresses that are worth telling: of a row of ports the first, which is that of the conversation.
    fn shown(&self) -> Vec<SocketAddr> {
        self.bound.addresses().iter().step_by(self.asked.info.ports).copied().collect()
    }
}

impl Beside {
    /// What goes along, and at which ports.
    pub(crate) fn names(&self) -> Vec<String> {
        let ports = |one: &Answering| {
            one.shown().iter().map(|at| format!("{}:{}", one.asked.protocol, at.port())).collect::<Vec<_>>()
        };
        self.answering.iter().flat_map(ports).collect()
    }

    /// Whether a table is worth it.
    fn several(&self) -> bool {
        self.every || self.answering.len() > 1
    }

    /// What is answered where, a line each; nothing where there is a table.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |one: &Answering| {
            let (name, how) = (one.asked.protocol, one.asked.info.over);
            one.shown().iter().map(|at| format!("answering {name} on {at} ({how})")).collect::<Vec<_>>()
        };
        if self.several() { Vec::new() } else { self.answering.iter().flat_map(line).collect() }
    }

    /// A table of what listens where, and of what could not be had; nothing where there is no more than one.
    pub(crate) fn table(&self, own: &Bound) -> Vec<String> {
        if !self.several() {
            return Vec::new();
        }
        let mut rows = vec![["protocol", "listens at", "over", "serves"].map(str::to_owned)];
        let mut listening = |name: &str, at: &[SocketAddr], how: &str, who: &str| {
            rows.extend(
                at.iter().map(|at| [name.to_owned(), at.to_string(), how.to_owned(), who.to_owned()]),
            );
        };
        listening(protocols::NATIVE.name(), own.addresses(), "TCP and UDP", "everybody");
        for one in &self.answering {
            let Legacy { protocol, info, .. } = one.asked;
            let who = info.serves;
            let who = one.aside.as_ref().map_or_else(|| who.to_owned(), |why| format!("{who}; {why}"));
            listening(protocol.name(), &one.shown(), info.over, &who);
        }
        for (name, why) in &self.refused {
            rows.push([*name, "refused", "-", why].map(str::to_owned));
        }
        aligned(&rows)
    }
}

/// A table's lines, with columns below each other.
fn aligned(rows: &[[String; 4]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let line = |[name, at, how, who]: &[String; 4]| {
        let [a, b, c] = widths;
        format!("{name:a$}  {at:b$}  {how:c$}  {who}")
    };
    rows.iter().map(line).collect()
}

fn one(args: &ServeArgs, asked: Legacy) -> Result<Bound, CliError> {
    let stamp_key = match &args.legacy.stamp_psk_file {
        Some(path) => key::key_in(path, args.key.insecure_key_file).map(Some)?,
        None => None,
    };
    let stamp = StampSettings {
        authenticated: stamp_key.is_some(),
        direct: args.legacy.stamp_direct,
        ..StampSettings::default()
    };
    let phase = Phase { interval_ns: args.interval, ..answered(asked, stamp) };
    let config = ServerConfig {
        listen: listen_addresses(&hosts(&args.listen), asked.port).map_err(CliError::usage)?,
        acl: Acl { allow: args.allow.clone(), deny: args.deny.clone() },
        open_to: plan::open_to(&[])?,
        records: args.output.web.wanted(),
        sessions: args.output.web.wanted(),
        links_ns: args.output.web.wanted().then_some(args.interval),
        keys: Keyring::of(stamp_key.filter(|_| asked.protocol == protocols::STAMP)),
        device: args.cores.bind_dev.clone(),
        placement: plan::placement(&args.cores, asked.protocol),
        workers: args.cores.workers,
        version: plan::VERSION.to_owned(),
        also_datagrams: asked.info.also_datagrams,
        ..ServerConfig::legacy(asked.protocol, phase)
    };
    Ok(Bound::new((asked.info.config)(config).map_err(CliError::usage)?)?)
}

/// The settings with which a legacy protocol is answered.
fn answered(asked: Legacy, stamp: StampSettings) -> Phase {
    let mut phase = Phase { duration_ns: None, ..(asked.info.phase)() };
    if let Some(ping) = phase.ping.as_mut().filter(|ping| ping.stamp.is_some()) {
        (ping.size, ping.stamp) = (stamp.size(), Some(stamp));
    }
    phase
}

/// The addresses of `listen` without their ports, which are those of our own protocol.
fn hosts(listen: &[String]) -> Vec<String> {
    let host = |text: &String| match text.parse::<SocketAddr>() {
        Ok(address) => address.ip().to_string(),
        Err(_) => text.clone(),
    };
    listen.iter().map(host).collect()
}

/// Answers a legacy protocol until it is told to end; says what a person should know.
pub(crate) fn answer(
    answering: Answering,
    stop: &Interrupt,
    tell: &dyn Fn(&Event),
    show: &dyn Fn(&'static str, &Event),
) {
    let Answering { asked: Legacy { protocol, info, .. }, mut bound, .. } = answering;
    let say = |level, text: &str| tell(&Event::Notice { level, text: format!("{protocol}: {text}") });
    loop {
        let again = info.one_test.then(|| bound.config().clone());
        let ran = bound.run(stop, &mut |event| {
            show(protocol.name(), &event);
            match &event {
                Event::Notice { level, text } => say(*level, text),
                // A test is kept with what the server itself does.
                Event::Extra(extra) if extra.shown.is_some() => tell(&event),
                event => (info.notice)(event).iter().for_each(|text| say(Level::Info, text)),
            }
        });
        if let Err(error) = ran {
            say(Level::Error, &error.to_string());
        }
        let Some(config) = again.filter(|_| !stop.asked()) else { return };
        bound = match Bound::new(config) {
            Ok(bound) => bound,
            Err(error) => return say(Level::Error, &format!("cannot listen again: {error}")),
        };
    }
}
