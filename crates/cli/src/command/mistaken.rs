//! Command lines as other programs have them: what to type instead.

use crate::stderr;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// Words that are known from other programs, and what does the same here.
struct Habit {
    /// The verb they follow; empty where they stand in its place, `*` after any.
    verb: &'static str,
    words: &'static [&'static str],
    /// `N` and `HOST` stand for the word that follows.
    instead: &'static str,
}

/// The first that fits counts.
const HABITS: &[Habit] = &[
    Habit { verb: "ping", words: &["-c"], instead: "-n N" },
    Habit { verb: "*", words: &["-c", "--client"], instead: "netcaliper tcp HOST" },
    Habit { verb: "*", words: &["-s", "--server"], instead: "netcaliper serve" },
    Habit { verb: "*", words: &["-u", "--udp", "udp"], instead: "netcaliper delay HOST -b RATE" },
];

/// clap's value of an error under this name.
fn said(error: &Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        _ => None,
    }
}

/// The unknown word and the one to type in its place; `None` without such a one.
fn instead(error: &Error, command: &[String]) -> Option<(String, String)> {
    let kind = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        _ => return None,
    };
    let unknown = said(error, kind)?;
    let verb = command.get(1).map_or("", String::as_str);
    let fits = |habit: &&Habit| ["*", verb].contains(&habit.verb) && habit.words.contains(&unknown);
    let habit = HABITS.iter().find(fits)?;
    let next =
        command.iter().skip_while(|word| *word != unknown).nth(1).filter(|word| !word.starts_with('-'));
    let instead = match next {
        Some(value) => habit.instead.replace('N', value).replace("HOST", value),
        None => habit.instead.to_owned(),
    };
    Some((unknown.to_owned(), instead))
}

/// The words that a command begins with: the program, and its verb where it has one.
fn program(command: &[String], unknown: Option<&str>) -> String {
    let verb = command.get(1).filter(|word| !word.starts_with('-') && Some(word.as_str()) != unknown);
    verb.map_or("netcaliper".to_owned(), |verb| format!("netcaliper {verb}"))
}

/// The fault of an option that the verb does not have, and the one that was perhaps meant.
fn unknown_option(error: &Error, command: &[String]) -> Option<String> {
    let unknown = said(error, ContextKind::InvalidArg)?;
    let program = program(command, Some(unknown));
    let meant = match said(error, ContextKind::SuggestedArg) {
        Some(known) => format!("did you mean '{known}'?"),
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
    let program = program(command, said(error, ContextKind::InvalidSubcommand));
    format!("{words} (`{program} -h` has examples)")
}

/// Prints the fault of the command line in one sentence, and ends with clap's exit code for it.
pub(crate) fn end(error: &Error, command: &[String]) -> ! {
    // Help and the version were asked for.
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        error.exit();
    }
    let wrong = match instead(error, command) {
        Some((unknown, instead)) => format!("'{unknown}' is another program's: use `{instead}`"),
        None if error.kind() == ErrorKind::UnknownArgument => {
            unknown_option(error, command).unwrap_or_else(|| sentence(error, command))
        }
        None => sentence(error, command),
    };
    stderr::say(format_args!("netcaliper: {wrong}"));
    std::process::exit(error.exit_code());
}
