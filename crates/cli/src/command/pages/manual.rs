//! Manual pages: one for each command, with the sections that the definitions of the command line
//! do not have.

use crate::args::help;
use crate::command::Cli;
use crate::provenance::VERSION;
use clap::Command;
use clap_mangen::Man;
use std::io::{self, Write};

/// File name and text of a page.
pub(super) type Page = (String, Vec<u8>);

/// Questions: their results, exit codes and keys are alike.
const QUESTIONS: &str = "tcp connect ping stream delay train load demo";

/// Exit codes: commands, or commands with one of their own, code, meaning. The first row of a code
/// that names the command counts.
const EXIT_STATUS: &[(&str, &str, &str)] = &[
    ("lab", "N", "The exit code of the command."),
    ("lab", "125", "The path could not be built."),
    ("lab", "2", "The command line is wrong."),
    (QUESTIONS, "0", "All went as planned, and all data arrived intact."),
    ("serve", "0", "The server did its work; a signal is how it ends."),
    ("monitor", "0", "All measurements were good."),
    ("doctor", "0", "Nothing prevents measuring; the lab alone does not count."),
    ("*", "0", "Success."),
    (
        QUESTIONS,
        "1",
        "Nothing was measured, connections failed, data were damaged, or an output could not be written.",
    ),
    ("serve", "1", "No port, connections of the native protocol failed, or data were damaged."),
    ("compare", "1", "Too few readings for --threshold, or a file could not be read."),
    ("*", "1", "Failure."),
    ("*", "2", "The command line is wrong: one sentence on stderr names the fault and the remedy."),
    (QUESTIONS, "3", "A condition of --assert was not met."),
    ("report show", "3", "A condition of --assert was not met."),
    ("compare", "3", "A figure is significantly worse, by more than --threshold."),
    ("monitor", "3", "A measurement failed or broke a condition."),
    ("doctor", "3", "Something is missing without which a question cannot be asked."),
    ("fleet", "3", "A verdict was found, where one was to be reported so."),
    (
        QUESTIONS,
        "4",
        "Partial: an end vanished or a limit of the server ended the run; the result covers the time until then.",
    ),
    (
        "fleet-run fleet-resume fleet-stand-by",
        "4",
        "Partial: pairs or rounds have no result; the matrix shows the others.",
    ),
    ("fleet-run fleet-resume fleet-stand-by", "130", "Interrupted by SIGINT or SIGTERM before its end."),
    (QUESTIONS, "130", "Interrupted by SIGINT or SIGTERM; the result covers the time until then."),
];

/// Variables: commands, name, meaning.
const ENVIRONMENT: &[(&str, &str, &str)] = &[
    ("*", "NETCALIPER_CONFIG", "The configuration file, or `off`."),
    (
        "tcp connect ping stream delay train load demo serve monitor report show history import export compare run fleet",
        "NETCALIPER_STORE",
        "The store of runs, an SQLite file, or `off`.",
    ),
    (
        "tcp connect ping stream delay train load serve stop agent doctor",
        "NETCALIPER_PSK",
        "The pre-shared key itself.",
    ),
    (
        "tcp connect ping stream delay train load serve stop agent doctor",
        "NETCALIPER_PSK_FILE",
        "The file of --psk-file.",
    ),
    (
        "tcp connect ping stream delay train load serve stop agent doctor",
        "NETCALIPER_KEY_FILE",
        "The file of --key-file.",
    ),
    (
        "serve",
        "NETCALIPER_ALLOW",
        "Networks that protocols without a proof of address serve, separated by commas.",
    ),
    ("ping serve", "NETCALIPER_STAMP_PSK_FILE", "The file with the key of STAMP."),
    ("lab", "NETCALIPER_LAB_SERVER", "Set for the command: the address of the other end."),
    ("lab", "NETCALIPER_LAB_CLIENT", "Set for the command: its own address."),
    ("monitor", "NETCALIPER_BROKEN", "Set for --on-break: the sentences about the fault, a line each."),
    (
        "monitor",
        "NETCALIPER_RUN, NETCALIPER_VERB, NETCALIPER_TARGET",
        "Set for --on-break and --on-mend: the measurement.",
    ),
    ("*", "NO_COLOR", "No colours, if it is set to anything."),
    ("*", "COLUMNS", "The width of text, where stdout is no terminal."),
];

/// Files: commands, path, meaning.
const FILES: &[(&str, &str, &str)] = &[
    (
        "*",
        "~/.config/netcaliper/config.toml",
        "Defaults of commands, named targets, named tests ($XDG_CONFIG_HOME).",
    ),
    (
        "tcp connect ping stream delay train load demo serve monitor report show history import export compare run fleet",
        "~/.local/share/netcaliper/runs.sqlite",
        "The saved runs ($XDG_DATA_HOME).",
    ),
    ("serve", "/etc/default/netcaliper", "Options of the server that systemd runs."),
    ("monitor", "/etc/netcaliper/monitor/NAME.conf", "A measurement that systemd runs."),
];

/// Further pages: commands, names.
const SEE_ALSO: &[(&str, &str)] = &[
    (QUESTIONS, "serve options report history compare"),
    ("serve", "stop key tcp options"),
    ("agent", "fleet serve key"),
    ("fleet", "agent tcp monitor"),
    ("monitor", "history compare tcp ping"),
    ("stop", "serve key"),
    ("key", "serve stop"),
    ("report show history import export compare", "history show report compare import export"),
    ("lab", "delay tcp ping"),
    ("doctor", "serve delay tcp demo"),
    ("run config", "config run options"),
    ("options", "tcp serve report"),
    ("completions man", "completions man"),
];

/// All pages, in the order of the help.
///
/// # Errors
/// Never: the texts are in memory.
pub(super) fn pages() -> io::Result<Vec<Page>> {
    let mut whole = Cli::whole();
    whole.build();
    let mut all = Vec::new();
    collect(&whole, &[], &mut all)?;
    Ok(all)
}

/// The pages of a command and of the commands in it; `above` are the names of the commands
/// that it is in.
fn collect(command: &Command, above: &[&str], all: &mut Vec<Page>) -> io::Result<()> {
    let names: Vec<&str> = above.iter().copied().chain([command.get_name()]).collect();
    all.push((format!("{}.1", names.join("-")), page(command, &names)?));
    let shown = |verb: &&Command| !verb.is_hide_set() && verb.get_name() != "help";
    command.get_subcommands().filter(shown).try_for_each(|verb| collect(verb, &names, all))
}

/// True if the commands of a row have the one of a page, without the program's name: `fleet-run`
/// is in the rows of `fleet`, too.
fn is_of(row: &str, page: &str) -> bool {
    let verb = page.split('-').next().unwrap_or(page);
    row == "*" || row.split(' ').any(|name| name == verb || name == page)
}

fn page(command: &Command, names: &[&str]) -> io::Result<Vec<u8>> {
    let verb = names.get(1).copied().unwrap_or_default();
    let own = names[1..].join("-");
    let man = Man::new(command.clone()).title(names.join("-").to_uppercase());
    let man = man.source(format!("netcaliper {VERSION}")).manual("netcaliper");
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    let about = command.get_about().map(|text| text.to_string()).unwrap_or_default();
    heading(&mut out, "NAME")?;
    writeln!(out, "{} \\- {}", roff(&names.join("-")), roff(&what(&about)))?;
    heading(&mut out, "SYNOPSIS")?;
    writeln!(out, "\\fB{}\\fR {}", roff(&names.join(" ")), roff(&synopsis(command)))?;
    man.render_description_section(&mut out)?;
    match verb {
        // The page of shared options has these, and none of its own.
        "options" => Man::new(help::shared()).render_options_section(&mut out)?,
        _ => man.render_options_section(&mut out)?,
    }
    let shown = |verb: &&Command| !verb.is_hide_set() && verb.get_name() != "help";
    let commands: Vec<(String, String)> = command
        .get_subcommands()
        .filter(shown)
        .map(|verb| {
            let about = verb.get_about().map(|text| text.to_string()).unwrap_or_default();
            (format!("{}-{}(1)", names.join("-"), verb.get_name()), about)
        })
        .collect();
    list(&mut out, "COMMANDS", commands.iter().map(|(name, about)| (name.as_str(), about.as_str())))?;
    let mut codes: Vec<(&str, &str)> = Vec::new();
    for (of, code, text) in EXIT_STATUS.iter().filter(|(of, ..)| is_of(of, &own)) {
        // A command in a lab may end with any code.
        let is_own = !(verb == "lab" && *of == "*");
        if is_own && !codes.iter().any(|(known, _)| known == code) {
            codes.push((*code, *text));
        }
    }
    list(&mut out, "EXIT STATUS", codes.into_iter())?;
    let of = |rows: &'static [(&'static str, &'static str, &'static str)]| {
        rows.iter().filter(|(of, ..)| is_of(of, &own)).map(|(_, name, text)| (*name, *text))
    };
    list(&mut out, "ENVIRONMENT", of(ENVIRONMENT))?;
    list(&mut out, "FILES", of(FILES))?;
    let further = EXAMPLES.iter().find(|(page, _)| *page == own).map_or(&[][..], |(_, lines)| lines);
    let examples = help::examples(&own).unwrap_or(further);
    heading(&mut out, "EXAMPLES")?;
    writeln!(out, ".EX")?;
    examples.iter().try_for_each(|line| writeln!(out, "{}", roff(line)))?;
    writeln!(out, ".EE")?;
    if verb.is_empty()
        && let Some(text) = command.get_after_help()
    {
        heading(&mut out, "OTHER PROGRAMS")?;
        let text = text.to_string();
        writeln!(out, "{}", roff(text.split("\n\n").next().unwrap_or_default()))?;
    }
    let also = SEE_ALSO.iter().find(|(of, _)| is_of(of, verb)).map_or("serve tcp options", |(_, also)| also);
    let also = also
        .split(' ')
        .filter(|name| *name != verb)
        .map(|name| format!("\\fBnetcaliper\\-{}\\fR(1)", roff(name)));
    let first = (!verb.is_empty()).then(|| "\\fBnetcaliper\\fR(1)".to_owned());
    heading(&mut out, "SEE ALSO")?;
    writeln!(out, "{}", first.into_iter().chain(also).collect::<Vec<_>>().join(", "))?;
    Ok(out)
}

/// Examples of the pages whose command has no three in its help; the first page has no name.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "netcaliper demo                          this host against itself",
            "netcaliper serve                         on the remote host",
            "netcaliper tcp HOST                      on this one",
        ],
    ),
    ("config", &["netcaliper config                        the file with its path, or one as it could be"]),
    ("options", &["netcaliper options                       all shared options, with their defaults"]),
    (
        "key-new",
        &[
            "netcaliper key new key                   for --psk-file of both ends",
            "netcaliper key new --name lab1 lab1.key",
            "netcaliper key new --pair client.key     for --key-file; prints the public key",
        ],
    ),
    ("key-public", &["netcaliper key public --name lab1 client.key"]),
    (
        "fleet-plan",
        &[
            "netcaliper fleet plan hosts --test tcp",
            "netcaliper fleet plan hosts --test 'tcp -t 5s' --limit wan:1",
        ],
    ),
    (
        "fleet-run",
        &[
            "netcaliper fleet run hosts --copy        round trips of all pairs, over ssh",
            "netcaliper fleet run hosts --test 'tcp -t 5s' --state result --html fleet.html",
            "netcaliper fleet run hosts --every 1h --count 24 --fail-on-verdict",
        ],
    ),
    (
        "fleet-report",
        &[
            "netcaliper fleet report result           the matrix as text",
            "netcaliper fleet report result --html fleet.html --pages pairs",
            "netcaliper fleet report result --baseline before --fail-on-verdict",
        ],
    ),
    (
        "fleet-resume",
        &[
            "netcaliper fleet resume                  the last run, whose controller has ended",
            "netcaliper fleet resume result --html fleet.html",
        ],
    ),
    ("fleet-status", &["netcaliper fleet status result"]),
    ("fleet-cancel", &["netcaliper fleet cancel result"]),
    ("fleet-stand-by", &["netcaliper fleet stand-by --nats tls://nats.example:4222"]),
];

fn heading(out: &mut impl Write, title: &str) -> io::Result<()> {
    writeln!(out, ".SH \"{title}\"")
}

/// A section of terms and their meanings; nothing without any.
fn list<'a>(
    out: &mut impl Write,
    title: &str,
    rows: impl Iterator<Item = (&'a str, &'a str)>,
) -> io::Result<()> {
    let mut rows = rows.peekable();
    if rows.peek().is_some() {
        heading(out, title)?;
    }
    rows.try_for_each(|(term, text)| writeln!(out, ".TP\n\\fB{}\\fR\n{}", roff(term), roff(text)))
}

/// What a command does, as `whatis` prints it: no sentence, and no question.
fn what(about: &str) -> String {
    let about = about.trim_end_matches(['.', '?']).replace('\n', " ");
    let mut letters = about.chars();
    let first = letters.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
    // A word of capitals, such as TCP, stays.
    match letters.clone().next() {
        Some(second) if second.is_uppercase() => about,
        _ => first + letters.as_str(),
    }
}

/// The arguments in short.
fn synopsis(command: &Command) -> String {
    let mut words = Vec::new();
    if command.get_arguments().any(|arg| !arg.is_positional() && !arg.is_hide_set()) {
        words.push("[OPTION]...".to_owned());
    }
    let has_commands = command.get_subcommands().any(|verb| verb.get_name() != "help");
    words.extend(has_commands.then(|| "COMMAND".to_owned()));
    for arg in command.get_positionals() {
        let names = arg
            .get_value_names()
            .map_or_else(|| arg.get_id().to_string().to_uppercase(), |all| all.join(" "));
        let many = arg.get_num_args().is_some_and(|range| range.max_values() > 1)
            || matches!(arg.get_action(), clap::ArgAction::Append);
        let name = if many { format!("{names}...") } else { names };
        let name = if arg.is_last_set() { format!("-- {name}") } else { name };
        words.push(if arg.is_required_set() { name } else { format!("[{name}]") });
    }
    words.join(" ")
}

/// Text as troff prints it as it is.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('`', "\\`");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page_with_all_sections() {
        let pages = pages().unwrap();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.contains(&"netcaliper.1") && names.contains(&"netcaliper-tcp.1"), "{names:?}");
        assert!(names.iter().all(|name| !name.contains("help")), "{names:?}");
        for (name, text) in &pages {
            let text = String::from_utf8_lossy(text);
            for section in [
                "NAME",
                "SYNOPSIS",
                "DESCRIPTION",
                "EXIT STATUS",
                "ENVIRONMENT",
                "FILES",
                "EXAMPLES",
                "SEE ALSO",
            ] {
                let is_there = text.lines().any(|line| line.replace('"', "") == format!(".SH {section}"));
                assert!(is_there, "{name} has no {section}");
            }
            let examples = text.lines().skip_while(|line| *line != ".EX").nth(1).unwrap_or_default();
            assert!(examples.starts_with("netcaliper"), "{name} has no example");
            let what = text.lines().skip_while(|line| !line.contains("NAME")).nth(1).unwrap_or_default();
            assert!(what.contains(" \\- ") && !what.ends_with(['?', '.']), "{name}: {what}");
        }
        let tcp = pages.iter().find(|(name, _)| name == "netcaliper-tcp.1").unwrap();
        let tcp = String::from_utf8_lossy(&tcp.1);
        assert!(tcp.contains("[OPTION]... HOST..."), "a synopsis of one line");
        assert!(tcp.contains("netcaliper tcp HOST \\-R"), "{tcp}");
        let run = pages.iter().find(|(name, _)| name == "netcaliper-fleet-run.1").unwrap();
        let codes =
            String::from_utf8_lossy(&run.1).split("EXIT STATUS").nth(1).unwrap_or_default().to_owned();
        assert!(["3", "4", "130"].iter().all(|code| codes.contains(&format!("\\fB{code}\\fR"))), "{codes}");
    }

    #[test]
    fn examples_are_command_lines() {
        for (_, lines) in EXAMPLES {
            lines.iter().for_each(|line| crate::command::reads(line));
        }
    }
}
