//! The local baseline: round trips of the same messages within this host, before the run.

use crate::protocols;
use crate::verbs::loopback::Loopback;
use crate::verbs::measure;
use common::auth::DRAWN;
use common::{ClientConfig, Keyring, Limits, Psk, ServerConfig};
use console::error::CliError;
use metrics::SECOND;
use model::{Baseline, Event, Level, Phase, Ping, Schedule, SocketSettings, Verify};
use runtime::Interrupt;

/// Most messages, and in a short run the share of its own number; and most warm-up messages before
/// them.
const MESSAGES: u64 = 2_000;
const EACH: u64 = 20;
const WARMUP: u64 = 20;
/// Longest time, ns.
const LENGTH: u64 = SECOND / 4;
/// Time before its start at which its connection is opened, ns.
const LEAD: u64 = SECOND / 20;
/// Longest distance between messages of an open loop, ns: else there would be none to speak of.
const GAP: u64 = SECOND / 500;
/// Shortest message whose echo has room for the remote end's time.
const TOLD: u32 = 16;

/// Measures it for `phase`, as an event; a notice where it cannot be measured.
pub(crate) fn reading(config: &ClientConfig, phase: &Phase, interrupt: &Interrupt) -> Event {
    let found = phase.ping.map(|ping| within(config, phase, ping, interrupt));
    match found {
        Some(Ok(baseline)) => Event::Baseline(Box::new(baseline)),
        Some(Err(trouble)) => unknown(&trouble.text),
        None => unknown("it has no messages"),
    }
}

fn unknown(why: &str) -> Event {
    let text = format!("no local baseline of this host: {why}");
    Event::Notice { level: Level::Info, text }
}

/// The same against a remote end in this process.
fn within(
    config: &ClientConfig,
    phase: &Phase,
    ping: Ping,
    interrupt: &Interrupt,
) -> Result<Baseline, CliError> {
    let drawn = format!("{DRAWN}{}{}", runtime::run_id().simple(), runtime::run_id().simple());
    let keys = Keyring::of(Some(Psk::new(drawn.as_bytes()).map_err(CliError::failed)?));
    let elsewhere = config.placement.apart(&runtime::usable_cores());
    let apart = elsewhere.is_some();
    let server = ServerConfig {
        keys,
        limits: Limits { busy: apart, eager: apart, ..Limits::default() },
        placement: elsewhere.unwrap_or_else(|| config.placement.clone()),
        ..ServerConfig::new(protocols::NATIVE)
    };
    let server = Loopback::start("the remote end within this host", server)?;
    let client = ClientConfig {
        placement: config.placement.clone(),
        workers: config.workers.map(|_| 1),
        realtime: config.realtime,
        ..server.client()
    };
    let mut baseline = Baseline { rtt_ns: None, apart };
    let ran = measure::one(&client, &likeness(phase, ping), interrupt, &mut |event| {
        if let Event::Local(totals) = event {
            baseline.rtt_ns = totals.pings.and_then(|trips| trips.path_ns);
        }
    });
    // Only the client's result counts.
    server.end();
    let (_, reason) = ran?;
    match baseline.rtt_ns {
        Some(_) => Ok(baseline),
        None => Err(CliError::failed(reason.unwrap_or_else(|| "no message returned in time".to_owned()))),
    }
}

/// One connection with the messages of `phase`, for a moment.
fn likeness(phase: &Phase, ping: Ping) -> Phase {
    let gap = ping.schedule.gap_ns().map(|gap_ns| gap_ns.min(GAP));
    let schedule = match (ping.schedule, gap) {
        (Schedule::Poisson { .. }, Some(gap_ns)) => Schedule::Poisson { gap_ns },
        (_, Some(gap_ns)) => Schedule::Fixed { gap_ns },
        (_, None) => Schedule::Closed,
    };
    let messages = ping.messages.map_or(MESSAGES, |own| own.saturating_mul(EACH).min(MESSAGES));
    let ping = Ping {
        size: ping.size.max(TOLD),
        messages: Some(messages),
        warmup: WARMUP,
        schedule,
        timeout_ns: LENGTH,
        lead_ns: LEAD,
        samples: false,
        kernel_stamps: false,
        stamp: None,
        ..ping
    };
    Phase {
        kind: phase.kind,
        ping: Some(ping),
        buffer: phase.buffer,
        iterations: Some(1),
        duration_ns: Some(LENGTH),
        interval_ns: LENGTH,
        verify: Verify::Data,
        sockets: SocketSettings { flow_label: None, ..phase.sockets.clone() },
        connections: 1,
        ..Phase::default()
    }
}
