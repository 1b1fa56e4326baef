//! `netcaliper bwdelaytester`: either end.

use crate::file::SavedRun;
use crate::keeping::Keeping;
use crate::protocols;
use crate::{faces, measure, plan, stderr};
use classic::bwdelaytester::{Asked, Client, Face, Server, USAGE, read};
use common::{ClientConfig, ServerConfig};
use model::{Event, Level, Status, Waiting};
use runtime::Bound;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// What the original ends with, but for a sweep that was climbed to its end.
const FAILED: u8 = 1;

type Refusal = faces::Refusal<FAILED, FAILED>;

/// Runs it.
pub(crate) fn run(arguments: &[String], command: Vec<String>) -> ExitCode {
    let ran = match read(arguments) {
        Ok(Asked::Client(client)) => send(&client, command),
        Ok(Asked::Server(server)) => receive(&server, command),
        Ok(Asked::Help) => {
            let _ = io::stdout().write_all(USAGE.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(text) => {
            stderr::say(format_args!("bwdelaytester: {text}"));
            // Nobody reads on: then nobody needs the rest either.
            let _ = io::stdout().write_all(USAGE.as_bytes());
            return ExitCode::from(FAILED);
        }
    };
    faces::ended("bwdelaytester", ran)
}

fn send(client: &Client, command: Vec<String>) -> Result<u8, Refusal> {
    let port = client.both.port.unwrap_or_else(|| protocols::BWDELAYTESTER.port());
    let mut peers = runtime::resolve_targets(std::slice::from_ref(&client.host), port, false, false)?;
    peers.truncate(1);
    let config = ClientConfig {
        peers,
        device: client.both.device.clone(),
        workers: Some(1),
        run: runtime::run_id(),
        version: plan::VERSION.to_owned(),
        ..ClientConfig::new(protocols::BWDELAYTESTER)
    };
    let mut phase = client.phase();
    if let Some(probe) = &mut phase.probe {
        probe.waiting = Waiting::Hybrid;
    }
    runtime::check(&config, &phase)?;
    let interrupt = measure::on_signals().map_err(|trouble| Refusal::new(trouble.text, FAILED))?;
    let mut show = Show::new(Face::client(client), client.both.save.as_ref(), false)?;
    show.hear(&Event::Begin(Box::new(runtime::begin(&config, "bwdelaytester", command, &phase))));
    show.hear(&Event::Phase { label: BTreeMap::new(), repeat: 1, phase: Box::new(phase.clone()) });
    runtime::run(&config, &phase, &interrupt, &mut |event| show.hear(&event))?;
    Ok(show.finish())
}

fn receive(server: &Server, command: Vec<String>) -> Result<u8, Refusal> {
    let port = server.both.port.unwrap_or_else(|| protocols::BWDELAYTESTER.port());
    let config = ServerConfig {
        listen: vec![SocketAddr::from(([0, 0, 0, 0], port))],
        open_to: plan::open_to(&[]).map_err(|trouble| Refusal::new(trouble.text, FAILED))?,
        device: server.both.device.clone(),
        version: plan::VERSION.to_owned(),
        arrivals: true,
        ..ServerConfig::legacy(protocols::BWDELAYTESTER, server.phase())
    };
    let bound = Bound::new(config)?;
    let interrupt = measure::on_signals().map_err(|trouble| Refusal::new(trouble.text, FAILED))?;
    if server.both.port.is_some() {
        for address in bound.addresses() {
            stderr::say(format_args!("# listening on {address}"));
        }
    }
    let mut show = Show::new(Face::server(server), server.both.save.as_ref(), true)?;
    show.hear(&Event::Begin(Box::new(bound.begin(command))));
    show.hear(&Event::Phase { label: BTreeMap::new(), repeat: 1, phase: Box::new(server.phase()) });
    bound.run(&interrupt, &mut |event| show.hear(&event))?;
    Ok(show.finish())
}

/// The face, on this program's stdout and stderr, and the file in which the run is kept.
struct Show {
    face: Face,
    saved: SavedRun,
    keeping: Keeping,
    /// Nobody reads what is printed, which has been told.
    unread: bool,
}

impl Show {
    fn new(face: Face, save: Option<&PathBuf>, serves: bool) -> Result<Show, Refusal> {
        let saved = SavedRun::open(save, serves).map_err(|text| Refusal::new(text, FAILED))?;
        Ok(Show { face, saved, keeping: Keeping::new(), unread: false })
    }

    /// Keeps an event, but for every single datagram; a file that fails is told of once, and the run goes on.
    fn keep(&mut self, event: &Event) {
        self.keeping.hear(event);
        if !matches!(event, Event::Datagrams { .. })
            && let Err(text) = self.saved.hear(event)
        {
            stderr::say(format_args!("# {text}"));
        }
    }

    fn hear(&mut self, event: &Event) {
        self.keep(event);
        if let Event::Notice { level: Level::Warning | Level::Error, text } = event {
            stderr::say(format_args!("# {text}"));
        }
        // Where nobody reads on, the tables on stderr are still wanted.
        let heard = self.face.hear(event, &mut io::stdout().lock(), &mut io::stderr().lock());
        if let Err(error) = heard.map_err(|e| e.to_string())
            && !std::mem::replace(&mut self.unread, true)
        {
            stderr::say(format_args!(
                "# nobody reads the lines any more ({error}): the tables come at the end"
            ));
        }
    }

    fn finish(mut self) -> u8 {
        self.keep(&Event::End { status: Status::Interrupted, reason: None });
        if let Err(text) = self.saved.finish() {
            stderr::say(format_args!("# {text}"));
        }
        let code = self.face.finish(&mut io::stdout().lock(), &mut io::stderr().lock()).unwrap_or(FAILED);
        self.keeping.finish();
        code
    }
}
