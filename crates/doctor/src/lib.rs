//! Judges what can be measured on a host, at a server and on the path between them, and at what
//! cost: facts in, [`Check`]s with remedies out.
//!
//! Everything here is pure. The facts of a host are `io`'s ([`model::HostSnapshot`],
//! [`model::Abilities`]), the facts of a path are results of short runs ([`Path`]).
//!
//! | module | judges |
//! |---|---|
//! | `host` | interface, buffers, TCP, limits: of either end |
//! | `own` | clock, CPUs, sockets, firewall, the lab: of this host alone |
//! | `path` | TCP, UDP, large packets, clocks and terms between the two |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod host;
mod own;
mod path;
mod text;

#[cfg(test)]
mod tests;

pub use path::{Datagrams, PATIENCE_NS, Path};
pub use text::{Detail, write_json, write_text};

use model::{Abilities, HostSnapshot};
use serde::{Deserialize, Serialize};

/// The document's name and version.
pub const SCHEMA: &str = "netcaliper.doctor.v1";

/// Every question; a path without TCP to the server answers none.
const ALL: [&str; 8] = ["tcp", "connect", "ping", "stream", "delay", "train", "capacity", "load"];
/// Questions with datagrams.
const OF_DATAGRAMS: [&str; 6] = ["ping -u", "stream", "delay", "train", "capacity", "load"];
/// Questions with full TCP segments.
const OF_SEGMENTS: [&str; 3] = ["tcp", "connect", "load"];
/// The lab alone.
const LAB: [&str; 1] = ["lab"];

/// State of a check, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Something cannot be done here: `prevents` names it.
    Missing,
    /// Measuring works, and figures are bounded or less exact.
    Limits,
    /// The system does not say.
    Unknown,
    /// As it should be.
    Ok,
}

impl State {
    /// Its heading.
    fn title(self) -> &'static str {
        match self {
            State::Missing => "Missing",
            State::Limits => "Limits",
            State::Unknown => "Unknown",
            State::Ok => "Good",
        }
    }
}

/// The subject of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The path to the server.
    Path,
    /// The host that checks.
    Local,
    /// The server's host.
    Remote,
}

/// One check and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Check {
    /// Its name (`tcp`, `receive-buffer`, `clock-source`, …), which does not change.
    pub check: String,
    /// Its subject.
    pub place: Place,
    /// Its result.
    pub state: State,
    /// The result in one sentence, with its cost.
    pub text: String,
    /// The command that mends it, where one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend: Option<String>,
    /// The host to run the command on; `path` checks name either.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mend_at: Option<Place>,
    /// Commands of netcaliper that cannot do their work.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub prevents: Vec<String>,
}

impl Check {
    fn new(check: &str, place: Place, state: State, text: impl Into<String>) -> Check {
        let (check, text) = (check.to_owned(), text.into());
        Check { check, place, state, text, mend: None, mend_at: None, prevents: Vec::new() }
    }

    /// With the command that mends it, where the subject is.
    fn mend(self, command: impl Into<String>) -> Check {
        let at = self.place;
        self.mend_at(at, command)
    }

    fn mend_at(self, at: Place, command: impl Into<String>) -> Check {
        Check { mend: Some(command.into()), mend_at: Some(at), ..self }
    }

    fn prevents(self, commands: &[&str]) -> Check {
        Check { prevents: commands.iter().map(|name| (*name).to_owned()).collect(), ..self }
    }
}

/// Checks of a host, and of the path to a server where one was named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Name and version of this format.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA)))]
    pub schema: String,
    /// Version of the netcaliper that checked.
    pub version: String,
    /// Commands of netcaliper that cannot do their work.
    pub prevents: Vec<String>,
    /// The checks, the worst first.
    pub checks: Vec<Check>,
    /// The host that checked, with its interface towards the server.
    pub host: HostSnapshot,
    /// Its abilities.
    pub abilities: Abilities,
    /// The path; `None` without a server's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Path>,
}

impl Report {
    /// Judges the facts.
    pub fn new(version: &str, host: HostSnapshot, abilities: Abilities, path: Option<Path>) -> Report {
        let trip = path.as_ref().and_then(Path::round_trip_ns);
        let mut checks = Vec::new();
        if let Some(path) = &path {
            checks.extend(path::checks(path, &host, version));
        }
        checks.extend(host::checks(&host, Place::Local, trip));
        checks.extend(own::checks(&host, &abilities));
        if let Some(session) = path.as_ref().and_then(|path| path.session.as_ref())
            && !session.same_host
        {
            // A server reports less about its host than it knows: silence is no fault.
            let there = host::checks(&session.host, Place::Remote, trip);
            checks.extend(there.into_iter().filter(|check| check.state != State::Unknown));
        }
        checks.sort_by_key(|check| (check.state, check.place));
        let mut prevents: Vec<String> = Vec::new();
        for command in checks.iter().flat_map(|check| &check.prevents) {
            if !prevents.contains(command) {
                prevents.push(command.clone());
            }
        }
        let (schema, version) = (SCHEMA.to_owned(), version.to_owned());
        Report { schema, version, prevents, checks, host, abilities, path }
    }

    /// True if a measurement cannot be made: the lab alone prevents none.
    pub fn prevents_measuring(&self) -> bool {
        self.prevents.iter().any(|command| !LAB.contains(&command.as_str()))
    }

    /// Checks in this state.
    fn count(&self, state: State) -> usize {
        self.checks.iter().filter(|check| check.state == state).count()
    }
}
