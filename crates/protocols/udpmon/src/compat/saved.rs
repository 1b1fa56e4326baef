//! A saved run, printed as one of the programs would have printed it.

use super::args::{Program, Spec, read};
use super::print::Printer;
use crate::{PacketTest, PacketTestRole, PacketTestSettings};
use compat::options::Request;
use model::{Event, Outcome};

/// A saved run as `program` would have printed it. A run of the programs themselves has its command
/// line; any other run is printed with the settings of its first phase, and all columns.
///
/// # Errors
/// When it has no test of UDPmon or tcpmon that the program prints.
pub(crate) fn print(program: Program, outcome: &Outcome, events: &[Event]) -> Result<String, String> {
    let tests = || PacketTest::all(outcome);
    let Some(first) = tests().next() else {
        return Err(format!("this run has no tests that {} could print", program.name()));
    };
    let latency = program == Program::Req;
    if tests().all(|test| test.latency.is_some() != latency) {
        let kind = if latency { "no round trips" } else { "nothing but round trips" };
        return Err(format!("this run has {kind}: {} could not have printed it", program.name()));
    }
    let remote = first.peer.rsplit_once(':').map_or(first.peer.as_str(), |(host, _)| host);
    let remote = remote.trim_matches(['[', ']']).to_owned();
    let spec = spec(program, outcome, &remote);
    let mut printer = Printer::new(spec, remote);
    Ok(events.iter().map(|event| printer.on_event(event)).collect())
}

/// The command line of the run, or one that asks for its results.
fn spec(program: Program, outcome: &Outcome, remote: &str) -> Spec {
    let command = &outcome.begin.command;
    let own = |word: &String| {
        let name = word.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
        name.strip_suffix(".exe").unwrap_or(&name) == program.name()
    };
    let words = command.iter().take(2).position(own).map(|at| &command[at + 1..]);
    if let Some(Ok(Request::Run(mut spec))) = words.map(|words| read(program, words)) {
        // Port 0 was a free one.
        let found = outcome.begin.targets.first().and_then(|at| at.rsplit(':').next()?.parse().ok());
        spec.port = if spec.port == 0 { found.unwrap_or(0) } else { spec.port };
        return *spec;
    }
    let host = if program.serves() { Vec::new() } else { vec!["-d".to_owned(), remote.to_owned()] };
    let mut spec = match read(program, &host) {
        Ok(Request::Run(spec)) => *spec,
        // An address is a word that every program of these takes.
        _ => Spec::empty(program),
    };
    let phase = outcome.points.first().map(|point| &point.phase);
    spec.packet_tests = phase.and_then(PacketTestSettings::of).unwrap_or_else(|| PacketTestSettings {
        size: PacketTest::all(outcome).next().map_or(64, |test| test.size),
        ..PacketTestSettings::default()
    });
    if program == Program::Req {
        spec.packet_tests.role = PacketTestRole::Latency;
    }
    (spec.extended, spec.v6) = (true, remote.contains(':'));
    spec.command = command.join(" ");
    spec
}
