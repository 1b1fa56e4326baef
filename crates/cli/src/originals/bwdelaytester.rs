//! `netcaliper bwdelaytester`: either end.

use crate::file::SavedRun;
use crate::legacy::{self, Service};
use crate::originals::{self, ExitCodes, Refusal, Run};
use crate::{measure, protocols, stderr};
use common::{ClientConfig, ServerConfig};
use compat::bwdelaytester::{Asked, Client, Printer, Server, USAGE, read};
use metrics::{Packets, format_duration};
use model::{Event, Status, Totals, Waiting};
use runtime::Bound;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// What the original ends with, but for a sweep that was climbed to its end.
const CODES: ExitCodes = ExitCodes { usage: 1, failed: 1 };

/// A receiver beside a server of our own, which answers nothing.
pub(crate) const SERVICE: Service = Service {
    notice: |event| if let Event::Local(totals) = event { Some(came(totals)) } else { legacy::notice(event) },
    ..Service::PLAIN
};

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

pub(crate) fn run(arguments: &[String], command: Vec<String>) -> ExitCode {
    let ran = match read(arguments) {
        Ok(Asked::Client(client)) => send(&client, &command),
        Ok(Asked::Server(server)) => receive(&server, &command),
        Ok(Asked::Help) => originals::page(USAGE, 0),
        Err(text) => {
            stderr::say(format_args!("bwdelaytester: {text}"));
            originals::page(USAGE, CODES.usage)
        }
    };
    originals::ended("bwdelaytester", CODES, ran)
}

fn send(client: &Client, command: &[String]) -> Result<u8, Refusal> {
    let port = client.both.port.unwrap_or_else(|| protocols::BWDELAYTESTER.port());
    let config = ClientConfig {
        peers: originals::first(&client.host, port, false, false)?,
        device: client.both.device.clone(),
        workers: Some(1),
        records: false,
        ..originals::client(protocols::BWDELAYTESTER)
    };
    let mut phase = client.phase();
    if let Some(probe) = &mut phase.probe {
        probe.waiting = Waiting::Hybrid;
    }
    runtime::check(&config, &phase)?;
    let interrupt = measure::on_signals()?;
    let mut reporter = Reporter::new(Printer::client(client), client.both.save.as_ref(), false)?;
    let of = ("bwdelaytester", command);
    originals::call(&config, &phase, &interrupt, of, &mut |event| reporter.on_event(event))?;
    Ok(reporter.finish())
}

fn receive(server: &Server, command: &[String]) -> Result<u8, Refusal> {
    let port = server.both.port.unwrap_or_else(|| protocols::BWDELAYTESTER.port());
    let bound = Bound::new(ServerConfig {
        listen: vec![SocketAddr::from(([0, 0, 0, 0], port))],
        device: server.both.device.clone(),
        arrivals: true,
        ..originals::server(protocols::BWDELAYTESTER, server.phase())?
    })?;
    let interrupt = measure::on_signals()?;
    if server.both.port.is_some() {
        for address in bound.addresses() {
            stderr::say(format_args!("# listening on {address}"));
        }
    }
    let mut reporter = Reporter::new(Printer::server(server), server.both.save.as_ref(), true)?;
    originals::serve(bound, &server.phase(), &interrupt, command, &mut |event| reporter.on_event(event))?;
    Ok(reporter.finish())
}

/// The printout, on this program's stdout and stderr, and the file in which the run is kept.
struct Reporter {
    printer: Printer,
    saved: SavedRun,
    run: Run,
    /// Stdout is closed, and the notice about that was printed.
    unread: bool,
}

impl Reporter {
    fn new(printer: Printer, save: Option<&PathBuf>, serves: bool) -> Result<Reporter, Refusal> {
        Ok(Reporter { printer, saved: SavedRun::open(save, serves)?, run: Run::new("#"), unread: false })
    }

    /// Puts an event into the file, but for every single datagram; one that fails is told of once, and the run goes on.
    fn save(&mut self, event: &Event) {
        if !matches!(event, Event::Datagrams { .. })
            && let Err(text) = self.saved.hear(event)
        {
            stderr::say(format_args!("# {text}"));
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
            stderr::say(format_args!("# stdout is closed ({error}): the tables come at the end"));
        }
    }

    fn finish(mut self) -> u8 {
        self.save(&Event::End { status: Status::Interrupted, reason: None });
        if let Err(text) = self.saved.finish() {
            stderr::say(format_args!("# {text}"));
        }
        let code = self.printer.finish(&mut io::stdout().lock(), &mut io::stderr().lock());
        self.run.finish();
        code.unwrap_or(CODES.failed)
    }
}
