//! `netcaliper bwdelaytester`: either end.

use super::{Printer, Spec, USAGE, read};
use common::original::{Driver, ExitCodes, Refusal, Run};
use common::{ClientConfig, ServerConfig};
use compat::{Printed, Request, Text};
use metrics::{Packets, format_duration, real};
use model::{Event, Status, Totals};
use std::io::{self, Write};
use std::net::SocketAddr;

/// The original's exit codes, except after a complete sweep.
const CODES: ExitCodes = ExitCodes { usage: 1, failed: 1 };

pub(crate) fn summary(totals: &Totals) -> String {
    let Some(report) = totals.packets.as_deref() else { return "nothing arrived".to_owned() };
    let Packets { received, lost, duplicated, reordered, dropped, .. } = report.counts;
    let mut text = format!(
        "{received} datagrams from {} senders, {lost} lost ({dropped} of them here), {duplicated} repeated, {reordered} \
         reordered",
        totals.opened
    );
    if let Some(delay) = &report.delay_ns {
        let told = |ns: u64| format_duration(real(ns));
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

pub(super) fn run(arguments: &[String], driver: &Driver) -> u8 {
    let ran = match read(arguments) {
        Ok(Request::Run(spec)) => match &spec.host {
            Some(host) => send(&spec, host, driver),
            None => receive(&spec, driver),
        },
        Ok(_) => driver.page(USAGE, 0),
        Err(text) => {
            driver.say(format_args!("bwdelaytester: {text}"));
            driver.page(USAGE, CODES.usage)
        }
    };
    driver.ended("bwdelaytester", CODES, ran)
}

fn send(spec: &Spec, host: &str, driver: &Driver) -> Result<u8, Refusal> {
    let config = ClientConfig {
        peers: driver.first(host, spec.port.unwrap_or(crate::PORT), false, false)?,
        device: spec.device.clone(),
        workers: Some(1),
        records: false,
        ..driver.client(&crate::PROTOCOL)
    };
    let phase = spec.phase();
    (driver.check)(&config, &phase)?;
    let interrupt = (driver.on_signals)()?;
    let mut reporter = Reporter::new(spec, driver)?;
    driver.call(&config, &phase, &interrupt, "bwdelaytester", &mut |event| reporter.on_event(event))?;
    Ok(reporter.finish())
}

fn receive(spec: &Spec, driver: &Driver) -> Result<u8, Refusal> {
    let phase = spec.phase();
    let bound = driver.bind(ServerConfig {
        listen: vec![SocketAddr::from(([0, 0, 0, 0], spec.port.unwrap_or(crate::PORT)))],
        device: spec.device.clone(),
        arrivals: true,
        ..driver.server(&crate::PROTOCOL, phase.clone())?
    })?;
    let interrupt = (driver.on_signals)()?;
    if spec.port.is_some() {
        for address in &bound.addresses {
            driver.say(format_args!("# listening on {address}"));
        }
    }
    let mut reporter = Reporter::new(spec, driver)?;
    bound.serve(&phase, &interrupt, &mut |event| reporter.on_event(event))?;
    Ok(reporter.finish())
}

/// The printout, on this program's stdout and stderr, and the file in which the run is kept.
struct Reporter<'a> {
    printer: Printer,
    driver: &'a Driver,
    run: Run<'a>,
    /// Stdout is closed, and the notice about that was printed.
    unread: bool,
}

impl Reporter<'_> {
    fn new<'a>(spec: &Spec, driver: &'a Driver) -> Result<Reporter<'a>, Refusal> {
        let run = Run::new(driver, "#").saved(spec.save.as_ref(), spec.host.is_none())?;
        Ok(Reporter { printer: Printer::new(spec), driver, run, unread: false })
    }

    fn on_event(&mut self, event: &Event) {
        // The file does not have every single datagram.
        if !matches!(event, Event::Extra(_)) {
            self.run.save(event);
        }
        self.run.on_event(event);
        // With a closed stdout the tables still go to stderr.
        let Printed { out, err } = self.printer.on_event(event);
        let told = put(io::stderr(), &err);
        if let Err(error) = put(io::stdout(), &out).and(told)
            && !std::mem::replace(&mut self.unread, true)
        {
            self.driver.say(format_args!("# stdout is closed ({error}): the tables follow at the end"));
        }
    }

    fn finish(mut self) -> u8 {
        self.run.save(&Event::End { status: Status::Interrupted, reason: None });
        let (Printed { out, err }, code) = self.printer.finish();
        let (printed, told) = (put(io::stdout(), &out), put(io::stderr(), &err));
        self.run.finish();
        printed.and(told).map_or(CODES.failed, |()| code)
    }
}

fn put(mut to: impl Write, text: &Text) -> io::Result<()> {
    to.write_all(text.0.as_bytes()).and_then(|()| to.flush())
}
