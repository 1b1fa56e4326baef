//! Command lines as other programs have them, and slips of the fingers: what to type instead.

mod habits;

use crate::command::Cli;
use crate::{config, protocols, provenance};
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use console::{stderr, stdout};
use habits::HABITS;
use metrics::nearest;

/// Words for a question or an answer, which name no program.
const WORDS: [&str; 28] = [
    "bandwidth",
    "throughput",
    "speed",
    "bw",
    "upload",
    "download",
    "client",
    "test",
    "goodput",
    "latency",
    "rtt",
    "jitter",
    "loss",
    "owd",
    "bufferbloat",
    "rpm",
    "video",
    "voip",
    "call",
    "media",
    "capacity",
    "dispersion",
    "mtu",
    "pmtu",
    "server",
    "listen",
    "daemon",
    "start",
];

/// Commands that measure or serve: their users know the options of other programs.
pub(crate) const MEASURES: [&str; 9] =
    ["tcp", "connect", "ping", "stream", "delay", "train", "capacity", "load", "serve"];
/// clap's exit code of a wrong command line.
const USAGE: i32 = 2;

/// clap's value of an error under this name.
fn context_value(error: &Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        _ => None,
    }
}

/// The verb of a command; empty without one.
fn verb(command: &[String]) -> &str {
    command.get(1).map_or("", String::as_str)
}

/// The word behind another one, or behind its `=`, unless it is an option.
fn behind<'a>(command: &'a [String], word: &str) -> Option<&'a str> {
    let at = command.iter().position(|typed| typed.split('=').next() == Some(word))?;
    let next = || command.get(at + 1).map(String::as_str);
    let value = command[at].split_once('=').map(|(_, value)| value).or_else(next);
    value.filter(|value| !value.starts_with('-'))
}

/// The sentence about a word that is known from other programs; `None` without such a one.
fn habit(error: &Error, command: &[String]) -> Option<String> {
    let kind = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        _ => return None,
    };
    let unknown = context_value(error, kind)?;
    let verb = verb(command);
    let measures = MEASURES.contains(&verb) || verb == unknown;
    let habit = HABITS.iter().find(|habit| {
        let follows = match habit.verb {
            "" => verb == unknown,
            "*" => measures,
            other => other == verb,
        };
        follows && habit.words.contains(&unknown)
    })?;
    let value = behind(command, unknown);
    // In place of a verb, the host may stand behind the option of other programs.
    let before = ["-c", "--client", "client"].into_iter().find_map(|word| behind(command, word));
    let host = value.filter(|value| *value != "client").or(before);
    let instead = habit.instead.replace("{word}", unknown).replace("{n}", value.unwrap_or("N"));
    let instead = instead.replace("{host}", host.unwrap_or("HOST"));
    let whose = if WORDS.contains(&unknown) { "no command of this program" } else { "another program's" };
    Some(format!("'{unknown}' is {whose}: {instead}"))
}

/// The sentence about an option as ctsTraffic writes them, `-Name:Value`; `None` without such a one.
fn option_with_colon(command: &[String]) -> Option<String> {
    let is_name = |name: &str| {
        name.len() > 2
            && name.starts_with(|first: char| first.is_ascii_uppercase())
            && name.bytes().all(|letter| letter.is_ascii_alphanumeric())
    };
    let is_written_so = |word: &&String| {
        let parts = word.strip_prefix('-').and_then(|word| word.split_once(':'));
        parts.is_some_and(|(name, _)| is_name(name))
    };
    let word = command.iter().skip(1).find(is_written_so)?;
    Some(format!(
        "'{word}' is ctsTraffic's: use `netcaliper ctstraffic {word} …`, or what docs/from-ctstraffic.md has for it"
    ))
}

/// The words that a command begins with: the program, and its verb where it has one.
fn program(command: &[String], unknown: Option<&str>) -> String {
    let verb = command.get(1).filter(|word| !word.starts_with('-') && Some(word.as_str()) != unknown);
    verb.map_or("netcaliper".to_owned(), |verb| format!("netcaliper {verb}"))
}

/// The sentence about a word in the place of a command: a slip, or a host.
fn unknown_command(error: &Error, command: &[String]) -> Option<String> {
    let unknown = context_value(error, ContextKind::InvalidSubcommand)?;
    if verb(command) != unknown {
        // A command has commands of its own.
        return None;
    }
    let host = || {
        format!(
            "'{unknown}' is no command: to measure to a host of this name, use `netcaliper tcp {unknown}`"
        )
    };
    let is_address =
        unknown.contains(['.', ':']) || unknown == "localhost" || config::target(unknown) != unknown;
    if is_address {
        return Some(host());
    }
    let whole = Cli::whole();
    let verbs = whole.get_subcommands().filter(|verb| !verb.is_hide_set()).map(clap::Command::get_name);
    // Programs of the same name or nearly so are meant less often.
    let known = verbs.chain(["help"]).chain(protocols::originals().map(|original| original.name));
    Some(match nearest(unknown, known) {
        // Names of hosts often have digits.
        Some(known) if unknown.contains(|letter: char| letter.is_ascii_digit()) => format!(
            "unrecognized subcommand '{unknown}'; a similar subcommand exists: '{known}', and a host is `netcaliper tcp {unknown}`"
        ),
        Some(known) => format!(
            "unrecognized subcommand '{unknown}'; a similar subcommand exists: '{known}' (`netcaliper -h` lists all)"
        ),
        None => format!("{} (`netcaliper -h` lists all commands)", host()),
    })
}

/// The fault of an option that the verb does not have, and the one that was perhaps meant.
fn unknown_option(error: &Error, command: &[String]) -> Option<String> {
    let unknown = context_value(error, ContextKind::InvalidArg)?;
    let program = program(command, Some(unknown));
    let mut whole = Cli::whole();
    let known = whole.find_subcommand_mut(verb(command)).map(|verb| {
        verb.build();
        &*verb
    });
    let takes_command = known.is_some_and(|verb| verb.get_positionals().any(clap::Arg::is_last_set));
    let meant = match unknown.strip_prefix("--") {
        _ if verb(command) == "lab" && unknown.starts_with(|first: char| first.is_ascii_digit()) => {
            "a condition is an option with one value, such as `--delay 100ms --jitter 10ms`".to_owned()
        }
        _ if takes_command && !unknown.starts_with('-') => {
            format!("put `--` before the command that it runs, `{program} … -- {unknown} …`")
        }
        Some(bare) => {
            let longs =
                known.into_iter().flat_map(clap::Command::get_arguments).filter_map(clap::Arg::get_long);
            let meant = nearest(bare, longs).map(|known| format!("--{known}"));
            let meant = meant.or_else(|| context_value(error, ContextKind::SuggestedArg).map(str::to_owned));
            meant.map_or_else(
                || format!("`{program} --help` lists its options"),
                |known| format!("did you mean '{known}'?"),
            )
        }
        None => format!("`{program} --help` lists its options"),
    };
    Some(format!("`{program}` does not take '{unknown}': {meant}"))
}

/// clap's error of several lines, in one: without its usage, which repeats the missing ones among
/// all the others.
fn sentence(error: &Error, command: &[String]) -> String {
    let text = error.render().to_string();
    let lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"));
    let words: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let words = words.join(" ").replace(" tip: ", "; ");
    let words = words.strip_prefix("error: ").unwrap_or(&words);
    let program = program(command, context_value(error, ContextKind::InvalidSubcommand));
    format!("{words} (`{program} -h` has examples)")
}

/// Prints the version and ends, unless `-V` stands behind a question, where iperf3's users want
/// more of the result.
fn version(command: &[String]) -> ! {
    let is_question = MEASURES.contains(&verb(command)) && !command.iter().any(|word| word == "--version");
    if is_question {
        stderr::say(
            "netcaliper: '-V' is another program's: use `-v` for all tables, `netcaliper --version` for the version",
        );
        std::process::exit(USAGE);
    }
    stdout::write(format!("netcaliper {}\n", provenance::VERSION).as_bytes());
    std::process::exit(0);
}

/// Prints help or the version, or the fault of the command line in one sentence, and ends with
/// clap's exit code for it.
pub(crate) fn end(error: &Error, command: &[String]) -> ! {
    if error.kind() == ErrorKind::DisplayVersion {
        version(command);
    }
    // Help was asked for.
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        error.exit();
    }
    let wrong = option_with_colon(command).or_else(|| habit(error, command)).or_else(|| match error.kind() {
        ErrorKind::UnknownArgument => unknown_option(error, command),
        ErrorKind::InvalidSubcommand => unknown_command(error, command),
        _ => None,
    });
    let wrong = wrong.unwrap_or_else(|| sentence(error, command));
    stderr::say(format_args!("netcaliper: {wrong}"));
    std::process::exit(error.exit_code());
}
