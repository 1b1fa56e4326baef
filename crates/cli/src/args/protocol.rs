//! Options that protocols bring to commands, and the lines of the help that list protocols.

use crate::args::values::{self, Legacy, LegacyAsked};
use crate::protocols::{self, Protocol};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use common::options::{OptionValue, ProtocolOption};
use console::error::CliError;
use model::Phase;
use std::path::{Path, PathBuf};

/// Names of the protocols with a property: `a, b and c`.
pub(crate) fn named(has: impl Fn(Protocol) -> bool) -> String {
    listed(protocols::ALL.into_iter().filter(|protocol| has(*protocol)).map(|protocol| protocol.name()))
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// Default ports, each with its protocols.
pub(crate) fn ports() -> String {
    let mut ports: Vec<u16> = protocols::ALL.map(|protocol| protocol.port()).into();
    let mut seen = Vec::new();
    ports.retain(|port| {
        !seen.contains(port) && {
            seen.push(*port);
            true
        }
    });
    let of = |port: u16| format!("{port} {}", named(|protocol| protocol.port() == port));
    ports.into_iter().map(of).collect::<Vec<_>>().join(", ")
}

/// Protocols of other programs' servers, each with the questions that are asked over it.
pub(crate) fn questions() -> String {
    let asked = protocols::ALL.into_iter().filter(|protocol| !protocol.info().questions.is_empty());
    let one = |protocol: Protocol| format!("{protocol} ({})", protocol.info().questions);
    asked.map(one).collect::<Vec<_>>().join(", ")
}

/// Protocols that a server answers beside its own.
fn served_protocols() -> impl Iterator<Item = (Protocol, &'static common::protocol::Legacy)> {
    protocols::ALL.into_iter().filter_map(|protocol| Some((protocol, protocol.info().legacy.as_ref()?)))
}

/// An option with its value, its help and its place in it.
fn arg(option: &'static ProtocolOption, heading: &'static str) -> Arg {
    // A value is tried on any phase of its kind, so that a wrong one is an error of the command
    // line.
    let tried = move |text: &str| {
        let mut phase = Phase { ping: Some(model::Ping::default()), ..Phase::default() };
        (option.set)(text, &mut phase).map(|()| text.to_owned())
    };
    let arg = Arg::new(option.name).long(option.name).help(option.help).help_heading(heading);
    let arg = match option.value {
        OptionValue::Switch => arg.action(ArgAction::SetTrue),
        OptionValue::One(name) => arg.value_name(name).value_parser(tried),
        OptionValue::List(name) => {
            arg.value_name(name).value_delimiter(',').action(ArgAction::Append).value_parser(tried)
        }
        OptionValue::Of(name, values) => {
            let possible = values.iter().map(|(value, help)| PossibleValue::new(*value).help(*help));
            let default = values.first().map(|(value, _)| *value);
            arg.value_name(name).default_value(default).value_parser(PossibleValuesParser::new(possible))
        }
    };
    option.conflicts.into_iter().fold(arg, |arg, other| arg.conflicts_with(other))
}

/// The values of an option on the command line; that of a switch is empty.
fn typed(option: &ProtocolOption, matches: &ArgMatches) -> Vec<String> {
    let is_typed = matches.try_contains_id(option.name).unwrap_or(false)
        && matches.value_source(option.name) == Some(ValueSource::CommandLine);
    match option.value {
        _ if !is_typed => Vec::new(),
        OptionValue::Switch => vec![String::new()],
        _ => matches.get_many(option.name).into_iter().flatten().cloned().collect(),
    }
}

/// An option on the command line, and its value.
type Typed = (&'static ProtocolOption, String);

/// Options that single protocols bring to a command that measures.
#[derive(Debug, Default)]
pub(crate) struct ProtocolArgs {
    /// Protocols whose options are on the command line, the names of these options, and what they
    /// do.
    typed: Vec<(Protocol, String, Vec<Typed>)>,
}

impl ProtocolArgs {
    /// Changes a phase as the options say.
    ///
    /// # Errors
    /// When they belong to another protocol.
    pub(crate) fn apply(&self, protocol: Protocol, phase: &mut Phase) -> Result<(), CliError> {
        for (owner, names, options) in &self.typed {
            if *owner != protocol {
                return Err(CliError::usage(format!(
                    "{names} are for the protocol {owner}: use them with --protocol {owner}"
                )));
            }
            for (option, value) in options {
                (option.set)(value, phase).map_err(CliError::usage)?;
            }
        }
        Ok(())
    }
}

impl Args for ProtocolArgs {
    fn augment_args(command: Command) -> Command {
        let groups = protocols::ALL.into_iter().flat_map(|protocol| protocol.info().options);
        let name = command.get_name().to_owned();
        let args = groups
            .filter(|group| group.command == name)
            .flat_map(|group| group.options.iter().map(|option| arg(option, group.heading)));
        command.args(args)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ProtocolArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut all = ProtocolArgs::default();
        for protocol in protocols::ALL {
            for group in protocol.info().options {
                let values = |option: &'static ProtocolOption| {
                    typed(option, matches).into_iter().map(move |value| (option, value))
                };
                let options: Vec<_> = group.options.iter().flat_map(values).collect();
                if !options.is_empty() {
                    let names: Vec<String> =
                        group.options.iter().map(|option| format!("--{}", option.name)).collect();
                    all.typed.push((protocol, listed(names.iter().map(String::as_str)), options));
                }
            }
        }
        Ok(all)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

const BESIDE: &str = "Other protocols";

/// Other protocols that a server answers besides its own.
#[derive(Args, Debug)]
#[command(next_help_heading = BESIDE)]
pub(crate) struct LegacyArgs {
    #[arg(long, value_name = "all|NAME[:PORT],…", value_delimiter = ',', value_parser = values::legacy, help = legacy_help())]
    legacy: Vec<LegacyAsked>,
    #[command(flatten)]
    short: ShortArgs,
    /// Answer the other protocols although the server has a key, which guards the native protocol
    /// only.
    #[arg(long = "legacy-unauthenticated")]
    pub(crate) unauthenticated: bool,
    #[command(flatten)]
    own: OwnArgs,
}

fn legacy_help() -> String {
    let names: Vec<&str> = served_protocols().map(|(protocol, _)| protocol.name()).collect();
    let settings = served_protocols().filter_map(|(_, legacy)| Some(legacy.settings.as_ref()?.help));
    let settings: String = settings.map(|help| format!(". {help}")).collect();
    format!(
        "Answer other protocols as well, each on its own port or on the one given (echo:9999): {}, separated by commas; or all, and a \
         table shows which ports could not be bound. Their datagrams prove no address: only those of this host and of directly \
         connected networks are answered, unless NETCALIPER_ALLOW names other networks{settings}",
        names.join(", ")
    )
}

/// Options that are short for `--legacy` with one protocol.
#[derive(Debug)]
struct ShortArgs(Vec<Legacy>);

impl Args for ShortArgs {
    fn augment_args(command: Command) -> Command {
        command.args(served_protocols().filter_map(|(protocol, legacy)| {
            let name = protocol.name();
            let port = move |text: &str| match text {
                "" => Ok(protocol.port()),
                text => values::port(text),
            };
            let arg = Arg::new(name).long(name).value_name("PORT").num_args(0..=1).require_equals(true);
            let arg = arg.default_missing_value("").value_parser(port);
            Some(arg.help(legacy.short?).help_heading(BESIDE))
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ShortArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let short = served_protocols().filter(|(_, legacy)| legacy.short.is_some());
        let port = |protocol: Protocol| matches.get_one::<u16>(protocol.name()).copied();
        let asked = |(protocol, _): (Protocol, _)| Legacy::of(protocol, port(protocol)?);
        Ok(ShortArgs(short.filter_map(asked).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Options that single protocols bring to a server.
#[derive(Debug, Default)]
struct OwnArgs {
    keys: Vec<(Protocol, PathBuf)>,
    options: Vec<(Protocol, Typed)>,
}

impl Args for OwnArgs {
    fn augment_args(command: Command) -> Command {
        served_protocols().fold(command, |command, (_, legacy)| {
            let key = legacy.key.as_ref().map(|key| {
                let arg = Arg::new(key.name).long(key.name).value_name("FILE").env(key.variable);
                arg.value_parser(clap::value_parser!(PathBuf)).help(key.help).help_heading(BESIDE)
            });
            command.args(key).args(legacy.options.iter().map(|option| arg(option, BESIDE)))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for OwnArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut own = OwnArgs::default();
        for (protocol, legacy) in served_protocols() {
            let key = legacy.key.as_ref().and_then(|key| matches.get_one::<PathBuf>(key.name));
            own.keys.extend(key.map(|path| (protocol, path.clone())));
            for option in legacy.options {
                let values = typed(option, matches).into_iter();
                own.options.extend(values.map(|value| (protocol, (option, value))));
            }
        }
        Ok(own)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl LegacyArgs {
    /// All that are asked for by name.
    pub(crate) fn named(&self) -> Vec<Legacy> {
        let named = self.legacy.iter().filter_map(|asked| match asked {
            LegacyAsked::One(legacy) => Some(legacy.clone()),
            LegacyAsked::All => None,
        });
        named.chain(self.short.0.iter().cloned()).collect()
    }

    /// True if `all` is among them.
    pub(crate) fn every(&self) -> bool {
        self.legacy.iter().any(|asked| matches!(asked, LegacyAsked::All))
    }

    /// File with a protocol's own key.
    pub(crate) fn key(&self, protocol: Protocol) -> Option<&Path> {
        self.own.keys.iter().find(|(owner, _)| *owner == protocol).map(|(_, path)| path.as_path())
    }

    /// Changes the settings of a protocol's server as its own options say.
    pub(crate) fn apply(&self, protocol: Protocol, phase: &mut Phase) -> Result<(), CliError> {
        let mut own = self.own.options.iter().filter(|(owner, _)| *owner == protocol);
        own.try_for_each(|(_, (option, value))| (option.set)(value, phase)).map_err(CliError::usage)
    }
}
