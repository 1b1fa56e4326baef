//! ctsTraffic: its command line, its printout, its log files.
//!
//! [`read()`] makes a [`Spec`] of a command line. This folder has no part in the traffic on the
//! wire, and neither resolves names nor opens files nor handles signals.

mod args;
mod banner;
mod connection;
mod files;
mod grammar;
mod help;
mod import;
mod line;
mod options;
mod printer;
mod raw;
mod read;
mod run;
mod spec;
mod transcript;
mod windows;

use ::compat::Importer;
use args::{Request, read};
use banner::Resolved;
use common::original::{Original, Tables};
use help::page;
use model::Phase;
use printer::{Printer, print};
use read::{is_table, report};
use spec::{Binding, Role, Spec};

/// ctsTraffic.
pub(crate) const ORIGINALS: &[Original] = &[Original {
    name: "ctstraffic",
    about: "Be ctsTraffic: its arguments, its printout, its files (also when called by the name ctsTraffic)",
    run: run::run,
    print,
    tables: Some(Tables { known: is_table, report }),
}];

/// Its tables.
pub(crate) const IMPORTERS: &[Importer] =
    &[Importer { name: "ctsTraffic's tables", read: import::read, begins: import::begins }];

/// A server beside one of our own has the original's usual settings: for others there is
/// `netcaliper ctstraffic`.
pub(crate) fn usual_phase() -> Phase {
    match read(&["-Listen:*".to_owned()]) {
        Ok(Request::Run(spec)) => spec.phase,
        _ => Phase::default(),
    }
}

/// The stream of `netcaliper stream` without settings, which is that of the original's guide.
pub(crate) fn usual_stream() -> Phase {
    let words = ["-protocol:udp", "-bitspersecond:25000000", "-framerate:60", "-streamlength:60"];
    settings(&words.map(str::to_owned)).unwrap_or_default()
}

/// Options of the original that both ends of a connection or stream need alike.
const SHARED: [&str; 16] = [
    "-Protocol",
    "-Verify",
    "-Pattern",
    "-PushBytes",
    "-PullBytes",
    "-Transfer",
    "-Buffer",
    "-RateLimit",
    "-RateLimitPeriod",
    "-BurstCount",
    "-BurstDelay",
    "-StallTimeout",
    "-BitsPerSecond",
    "-FrameRate",
    "-StreamLength",
    "-DatagramByteSize",
];

/// The settings of a server beside one of our own, in the original's words.
///
/// # Errors
/// One sentence: the word that is no setting of both ends, or does not go with the others.
pub(crate) fn settings(words: &[String]) -> Result<Phase, String> {
    let shared = |word: &&String| {
        let name = word.split(':').next().unwrap_or_default().trim_start_matches('-');
        SHARED.iter().any(|shared| shared[1..].eq_ignore_ascii_case(name))
    };
    if let Some(other) = words.iter().find(|word| !shared(word)) {
        return Err(format!(
            "'{other}' is none of ctsTraffic's settings of both ends: {}",
            SHARED.join(", ")
        ));
    }
    let all: Vec<String> = std::iter::once("-Listen:*".to_owned()).chain(words.iter().cloned()).collect();
    match read(&all)? {
        Request::Run(spec) => Ok(spec.phase),
        Request::Help(_) => Err("ctsTraffic's settings are missing".to_owned()),
    }
}

/// Damaged inputs for each reader: `NETCALIPER_INPUTS`, or 5,000. `bench/deep` has a million.
#[cfg(test)]
fn inputs() -> u32 {
    std::env::var("NETCALIPER_INPUTS").map_or(5_000, |n| n.parse().expect("NETCALIPER_INPUTS is a number"))
}
