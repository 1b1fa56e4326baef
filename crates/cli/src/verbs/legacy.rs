//! Servers of other protocols beside our own (`serve --legacy`), and their lines.

use crate::args::protocol::LegacyArgs;
use crate::args::values::{self, Legacy};
use crate::args::{CoreArgs, key};
use crate::protocols;
use crate::verbs::plan;
use common::{Keyring, ServerConfig};
use console::error::CliError;
use metrics::format_count;
use model::ending::WRONG_DATA;
use model::{Event, Level, Phase};
use runtime::{Admission, Bound, Interrupt};
use std::fmt::Display;
use std::net::SocketAddr;

/// Settings of the servers beside a native one.
pub(crate) struct Settings<'a> {
    pub(crate) legacy: &'a LegacyArgs,
    pub(crate) cores: &'a CoreArgs,
    pub(crate) insecure_key_file: bool,
    /// True if a page in a browser shows their connections.
    pub(crate) page: bool,
    /// The native server.
    pub(crate) own: &'a ServerConfig,
}

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

/// Refuses to combine a key with protocols that have no key of their own for their clients, unless
/// `--legacy-unauthenticated` is given.
///
/// # Errors
/// The refusal, in one sentence.
pub(crate) fn check_key(legacy: &LegacyArgs, keyed: bool) -> Result<(), CliError> {
    if !keyed || legacy.unauthenticated {
        return Ok(());
    }
    let keyless = |asked: &Legacy| legacy.key(asked.protocol).is_none();
    let named = legacy.named().into_iter().filter(keyless).map(|asked| asked.protocol.name());
    let mut names: Vec<&str> = if legacy.every() { vec!["the other protocols"] } else { named.collect() };
    names.dedup();
    match names.join(", ") {
        none if none.is_empty() => Ok(()),
        names => Err(CliError::usage(format!(
            "the key guards the native protocol only, and {names} would answer without it: say --legacy-unauthenticated if that is \
             meant"
        ))),
    }
}

/// Takes the ports of all that are asked for. One that is asked for by name must be had.
pub(crate) fn bind(settings: &Settings<'_>) -> Result<Beside, CliError> {
    let legacy = settings.legacy;
    let mut beside = Beside { answering: Vec::new(), refused: Vec::new(), every: legacy.every() };
    let mut wanted = legacy.named();
    let named = wanted.len();
    if beside.every {
        let others = protocols::ALL.into_iter().filter_map(|one| Legacy::of(one, one.port()));
        let is_named = |one: &Legacy| wanted.iter().any(|asked| asked.protocol == one.protocol);
        let others: Vec<Legacy> = others.filter(|one| !is_named(one)).collect();
        wanted.extend(others);
    }
    // Each may have a companion.
    let admission = runtime::admission_beside(2 * wanted.len(), settings.cores.workers);
    for (nth, asked) in wanted.iter().enumerate() {
        let (asked, aside) = aside(asked.clone(), &wanted);
        let most = if asked.info.sends_first { runtime::most_sent_to() } else { usize::MAX };
        let admission_of = |nth: usize| admission.at(u16::try_from(nth).unwrap_or(u16::MAX), most);
        match one(settings, &asked, admission_of(nth))
            .map_err(|error| beside.located(settings, &asked, error))
        {
            Ok(bound) => {
                let port = bound.addresses().first().map_or(asked.port, SocketAddr::port);
                let companion =
                    asked.companion(port).filter(|one| !wanted.iter().any(|other| other.is_like(one)));
                beside.answering.push(Answering { asked, bound, aside });
                let Some(companion) = companion else { continue };
                match one(settings, &companion, admission_of(wanted.len() + nth)) {
                    Ok(bound) => beside.answering.push(Answering { asked: companion, bound, aside: None }),
                    Err(error) => beside.refused.push((companion.protocol.name(), error.text)),
                }
            }
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
    /// The addresses that are worth telling: of a row of ports the first, which is that of the
    /// conversation.
    fn shown(&self) -> impl Iterator<Item = &SocketAddr> {
        self.bound.addresses().iter().step_by(self.asked.info.ports)
    }
}

impl Beside {
    /// An error of taking a protocol's ports, with the option that asks for them, and what else of
    /// this server has one of them.
    fn located(&self, settings: &Settings<'_>, asked: &Legacy, error: CliError) -> CliError {
        let Legacy { protocol, port, .. } = *asked;
        // Errors of taking a port begin with its address.
        let at = error.text.split(": ").next().and_then(|at| at.parse::<SocketAddr>().ok());
        let has = |one: &&Answering| {
            one.bound.addresses().iter().any(|own| Some(own.port()) == at.map(|at| at.port()))
        };
        let other = self.answering.iter().find(has).map(|one| one.asked.protocol.name());
        let own = &settings.own.listen;
        let native = || {
            at.filter(|at| own.iter().any(|own| own.port() == at.port())).map(|_| protocols::NATIVE.name())
        };
        let holder = other.or_else(native).map_or(String::new(), |name| format!(" (by {name}, here)"));
        let row = match asked.info.ports {
            1 => String::new(),
            _ => {
                format!(" (its conversation is at port {}, its data from {port} on)", port.saturating_sub(1))
            }
        };
        CliError { text: format!("--legacy {protocol}:{port}{row}: {}{holder}", error.text), ..error }
    }

    /// A line about each address that a protocol answers at.
    fn lines_of_addresses(&self, text: impl Fn(&Legacy, &SocketAddr) -> String) -> Vec<String> {
        let addresses = self.answering.iter().flat_map(|one| one.shown().map(move |at| (&one.asked, at)));
        addresses.map(|(asked, at)| text(asked, at)).collect()
    }

    /// What goes along, and at which ports.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = self.lines_of_addresses(|asked, at| format!("{}:{}", asked.protocol, at.port()));
        names.dedup();
        names
    }

    /// True if a table is worth it: of several protocols, or of one that could not be had.
    fn several(&self) -> bool {
        let mut names: Vec<&str> = self.answering.iter().map(|one| one.asked.protocol.name()).collect();
        names.dedup();
        self.every || names.len() > 1 || !self.refused.is_empty()
    }

    /// What is answered where, a line each; nothing where there is a table.
    pub(crate) fn lines(&self) -> Vec<String> {
        if self.several() {
            return Vec::new();
        }
        self.lines_of_addresses(|asked, at| {
            format!("answering {} on {at} ({})", asked.protocol, asked.ports_in_words())
        })
    }

    /// A table of what listens where, and of what could not be had; nothing where there is no more
    /// than one.
    pub(crate) fn table(&self, own: &Bound) -> Vec<String> {
        if !self.several() {
            return Vec::new();
        }
        let row = |name: &str, at: &dyn Display, how: &str, who: &str| {
            vec![name.to_owned(), at.to_string(), how.to_owned(), who.to_owned()]
        };
        let mut rows = vec![row("protocol", &"listens at", "over", "serves")];
        let native = own.addresses().iter();
        rows.extend(native.map(|at| row(protocols::NATIVE.name(), at, "TCP and UDP", "everybody")));
        for one in &self.answering {
            let Legacy { protocol, .. } = one.asked;
            let who =
                [one.asked.serves()].into_iter().chain(one.aside.as_deref()).collect::<Vec<_>>().join("; ");
            rows.extend(one.shown().map(|at| row(protocol.name(), at, one.asked.ports_in_words(), &who)));
        }
        rows.extend(self.refused.iter().map(|(name, why)| row(name, &"refused", "-", why)));
        report::aligned(&rows, 4).collect()
    }
}

fn one(settings: &Settings<'_>, asked: &Legacy, admission: Admission) -> Result<Bound, CliError> {
    let Settings { legacy, cores, own, .. } = settings;
    let key = legacy.key(asked.protocol);
    let key = key.map(|path| key::key_in(path, settings.insecure_key_file)).transpose()?;
    let mut phase = Phase { interval_ns: own.interval_ns, duration_ns: None, ..asked.phase() };
    phase.ping.iter_mut().for_each(|ping| ping.size = 0);
    legacy.apply(asked.protocol, &mut phase)?;
    (asked.protocol.info().form)(&mut phase, key.is_some()).map_err(CliError::usage)?;
    let mut listen = own.listen.clone();
    listen.iter_mut().for_each(|address| address.set_port(asked.port));
    let config = ServerConfig {
        listen,
        acl: own.acl.clone(),
        limits: own.limits.clone(),
        clients: own.clients.clone(),
        open_to: values::open_to(&[])?,
        records: settings.page,
        sessions: settings.page,
        links_ns: settings.page.then_some(own.interval_ns),
        keys: Keyring::of(key),
        device: own.device.clone(),
        placement: plan::placement(cores, asked.protocol),
        workers: own.workers,
        version: own.version.clone(),
        also_datagrams: asked.info.also_datagrams,
        admission: Some(admission),
        ..ServerConfig::legacy(asked.protocol, phase)
    };
    Ok(Bound::new((asked.info.config)(config).map_err(CliError::usage)?)?)
}

/// Failed connections of a test that is over, and why the most failed; and how many of them had
/// damaged data. Others are no failure of the server: over these protocols clients end a test in
/// mid-connection (ctsTraffic by a reset at its time limit).
fn failures(event: &Event) -> Option<(String, u64)> {
    let Event::Local(totals) = event else { return None };
    let why = totals.causes.first().map_or("unknown", |cause| cause.first.as_str());
    let errors = totals.errors();
    let damaged = totals.causes.iter().filter(|cause| cause.text == WRONG_DATA).map(|cause| cause.count);
    let text = || format!("{} FAILED, most because: {why}", format_count(errors, "connection"));
    (errors > 0).then(|| (text(), damaged.sum()))
}

/// Connections of a test that is over whose clients have sent no end.
fn open(event: &Event) -> String {
    match event {
        Event::Local(totals) if totals.stopped > 0 => {
            format!("; {} cut off while open", format_count(totals.stopped, "connection"))
        }
        _ => String::new(),
    }
}

/// Answers a legacy protocol until its end is asked for; says what a person should know. `fail`
/// counts failures.
pub(crate) fn answer(
    answering: Answering,
    stop: &Interrupt,
    tell: &dyn Fn(&Event),
    show: &dyn Fn(&'static str, &Event),
    fail: &dyn Fn(&'static str, u64),
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
                event => match ((info.notice)(event).map(|text| text + &open(event)), failures(event)) {
                    (Some(text), None) => say(Level::Info, &text),
                    (text, Some((failed, damaged))) => {
                        fail(protocol.name(), damaged);
                        let all: Vec<String> = text.into_iter().chain([failed]).collect();
                        say(Level::Warning, &all.join("; "));
                    }
                    (None, None) => {}
                },
            }
        });
        if let Err(error) = ran {
            fail(protocol.name(), 1);
            say(Level::Error, &error.to_string());
        }
        let Some(config) = again.filter(|_| !stop.is_requested()) else { return };
        bound = match Bound::new(config) {
            Ok(bound) => bound,
            Err(error) => {
                fail(protocol.name(), 1);
                return say(Level::Error, &format!("cannot listen again: {error}"));
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::{CauseCount, Ending};
    use model::Totals;

    #[test]
    fn failed_connections_are_named_with_their_cause() {
        let of = |network_errors, text: &str| {
            let first = "timed out: nothing moved for 15 s".to_owned();
            let cause = CauseCount { class: Ending::NetworkError, text: text.to_owned(), count: 4, first };
            let totals = Totals { opened: 5, network_errors, causes: vec![cause], ..Totals::default() };
            failures(&Event::Local(Box::new(totals)))
        };
        let line = |network_errors| of(network_errors, "timed out");
        let four = "4 connections FAILED, most because: timed out: nothing moved for 15 s";
        assert_eq!((line(4), line(0)), (Some((four.to_owned(), 0)), None));
        assert_eq!(of(4, WRONG_DATA), Some((four.to_owned(), 4)));
    }
}
