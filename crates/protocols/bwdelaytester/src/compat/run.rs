//! `netcaliper bwdelaytester`: either end.

use super::{Printer, Spec, USAGE, read};
use common::original::{Driver, ExitCodes, Journal, Refusal, Run};
use common::{ClientConfig, ServerConfig};
use compat::Request;
use metrics::{Packets, format_duration, real};
use model::{Event, Status, Totals};
use std::io;
use std::net::SocketAddr;

/// What the original ends with, but for a sweep that was climbed to its end.
const CODES: ExitCodes = ExitCodes { usage: 1, failed: 1 };

pub(crate) fn came(totals: &Totals) -> String {
    let Some(report) = totals.packets.as_deref() else { return "nothing came".to_owned() };
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

pub(super) fn run(arguments: &[String], driver: &dyn Driver) -> u8 {
    let ran = match read(arguments) {
        Ok(Request::Run(spec)) => match &spec.host {
            Some(host) => send(&spec, host, driver),
            None => receive(&spec, driver),
        },
        Ok(_) => driver.page(USAGE, 0),
        Err(text) => {
            driver.say(&format_args!("bwdelaytester: {text}"));
            driver.page(USAGE, CODES.usage)
        }
    };
    driver.ended("bwdelaytester", CODES, ran)
}

fn send(spec: &Spec, host: &str, driver: &dyn Driver) -> Result<u8, Refusal> {
    let config = ClientConfig {
        peers: driver.first(host, spec.port.unwrap_or(crate::PORT), false, false)?,
        device: spec.device.clone(),
        workers: Some(1),
        records: false,
        ..driver.client(&crate::PROTOCOL)
    };
    let phase = spec.phase();
    driver.check(&config, &phase)?;
    let interrupt = driver.on_signals()?;
    let mut reporter = Reporter::new(spec, driver)?;
    driver.call(&config, &phase, &interrupt, "bwdelaytester", &mut |event| reporter.on_event(event))?;
    Ok(reporter.finish())
}

fn receive(spec: &Spec, driver: &dyn Driver) -> Result<u8, Refusal> {
    let phase = spec.phase();
    let bound = driver.bind(ServerConfig {
        listen: vec![SocketAddr::from(([0, 0, 0, 0], spec.port.unwrap_or(crate::PORT)))],
        device: spec.device.clone(),
        arrivals: true,
        ..driver.server(&crate::PROTOCOL, phase.clone())?
    })?;
    let interrupt = driver.on_signals()?;
    if spec.port.is_some() {
        for address in bound.addresses() {
            driver.say(&format_args!("# listening on {address}"));
        }
    }
    let mut reporter = Reporter::new(spec, driver)?;
    driver.serve(bound, &phase, &interrupt, &mut |event| reporter.on_event(event))?;
    Ok(reporter.finish())
}

/// The printout, on this program's stdout and stderr, and the file in which the run is kept.
struct Reporter<'a> {
    printer: Printer,
    saved: Box<dyn Journal>,
    driver: &'a dyn Driver,
    run: Run<'a>,
    /// Stdout is closed, and the notice about that was printed.
    unread: bool,
}

impl Reporter<'_> {
    fn new<'a>(spec: &Spec, driver: &'a dyn Driver) -> Result<Reporter<'a>, Refusal> {
        let saved = driver.journal(spec.save.as_ref(), spec.host.is_none())?;
        Ok(Reporter { printer: Printer::new(spec), saved, driver, run: Run::new(driver, "#"), unread: false })
    }

    /// Puts an event into the file, but for every single datagram; one that fails is told of once, and the run goes on.
    fn save(&mut self, event: &Event) {
        if !matches!(event, Event::Extra(_))
            && let Err(text) = self.saved.on_event(event)
        {
            self.driver.say(&format_args!("# {text}"));
        }
    }

    fn on_event(&mut self, event: &Event) {
        self.save(event);
        self.run.on_event(event);
        // With a closed stdout the tables still go to stderr.
        let heard = self.printer.on_event(event, &mut io::stdout().lock(), &mut io::stderr().lock());
        if let Err(error) = heard.map_err(|e| e.to_string())
            && !std::mem::replace(&mut self.unread, true)
        {
            self.driver.say(&format_args!("# stdout is closed ({error}): the tables come at the end"));
        }
    }

    fn finish(mut self) -> u8 {
        self.save(&Event::End { status: Status::Interrupted, reason: None });
        if let Err(text) = self.saved.finish() {
            self.driver.say(&format_args!("# {text}"));
        }
        let code = self.printer.finish(&mut io::stdout().lock(), &mut io::stderr().lock());
        self.run.finish();
        code.unwrap_or(CODES.failed)
    }
}
