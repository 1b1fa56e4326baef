//! `netcaliper serve` and `stop`.

use crate::args::{OutputArgs, ServeArgs, StopArgs, listen_addresses};
use crate::outputs::Outputs;
use crate::{Exit, Trouble, legacy, measure, plan, scrape};
use engine::{Bound, Interrupt, ServerConfig};
use model::{Event, Level, Phase, Status};
use report::{Planned, ServerMetrics};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use wire::Protocol;
use wire::native::{Fence, Limits};

/// The far end.
pub(crate) fn serve(args: &ServeArgs, command: Vec<String>) -> Result<Exit, Trouble> {
    let metrics = Arc::new(Mutex::new(ServerMetrics::default()));
    let mut outputs = Outputs::with_metrics(&args.output, Some(scrape::shared(&metrics)))?;
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
        records: outputs.wants_records()
            || args.metrics.is_some()
            || args.output.metrics_file.is_some()
            || args.output.web.wanted(),
        sessions: args.output.web.wanted() || outputs.wants_records(),
        ..ServerConfig::default()
    };
    let interval_ns = config.interval_ns;
    let bound = Bound::new(config)?;
    let interrupt = measure::on_signals()?;
    outputs.watch(&interrupt, Planned::default())?;
    let begin = bound.begin(command);
    count(&metrics, &args.output, &Event::Begin(Box::new(begin.clone())));
    outputs.begin(begin);
    let phase = Box::new(Phase { duration_ns: None, interval_ns, ..Phase::default() });
    outputs.event(&Event::Phase { label: BTreeMap::new(), repeat: 1, phase });
    for address in bound.addresses() {
        let text = format!("listening on {address} (TCP and UDP)");
        outputs.event(&Event::Notice { level: Level::Info, text });
    }
    let scraped = args.metrics.map(|address| scrape::serve(address, &metrics)).transpose()?;
    if let Some(scraped) = &scraped {
        let text = format!("metrics at http://{}/metrics", scraped.address());
        outputs.event(&Event::Notice { level: Level::Info, text });
    }
    let also = legacy::bind(args)?;
    let bound = bound.with(also.names());
    for text in also.lines() {
        outputs.event(&Event::Notice { level: Level::Info, text });
    }
    // As it is: notices are wrapped.
    also.table(&bound).into_iter().for_each(|line| outputs.complain(line));
    let outputs_of_all = Mutex::new(outputs);
    let lock = || outputs_of_all.lock().unwrap_or_else(PoisonError::into_inner);
    let tell = |event: &Event| lock().event(event);
    let show = |protocol: &'static str, event: &Event| lock().show(Some(protocol), event);
    std::thread::scope(|scope| {
        let stops: Vec<Interrupt> = also
            .bound
            .into_iter()
            .map(|(name, bound)| {
                let stop = Interrupt::new();
                let (asked, tell, show) = (stop.clone(), &tell, &show);
                scope.spawn(move || legacy::answer(name, bound, &asked, tell, show));
                stop
            })
            .collect();
        let mut quiet = false;
        let ran = bound.run(&interrupt, &mut |event| {
            count(&metrics, &args.output, &event);
            // An idle server says so once, not every second.
            if let Event::Interval(interval) = &event {
                let idle = interval.in_flight == 0 && interval.near.tx_bytes + interval.near.rx_bytes == 0;
                let was_quiet = std::mem::replace(&mut quiet, idle && interval.opened == 0);
                if quiet && was_quiet {
                    return lock().show(None, &event);
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

/// Takes an event into the metrics, and leaves them where they were asked for with each interval.
fn count(metrics: &Mutex<ServerMetrics>, output: &OutputArgs, event: &Event) {
    let mut metrics = metrics.lock().unwrap_or_else(PoisonError::into_inner);
    metrics.hear(event);
    if let (Some(path), Event::Interval(_) | Event::Begin(_)) = (&output.metrics_file, event)
        && let Err(text) = scrape::leave(path, &*metrics)
    {
        eprintln!("netcaliper: warning: {text}");
    }
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
