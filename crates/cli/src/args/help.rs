//! Contents of the help: `-h` has the options that most runs need and three examples, `--help` all
//! options, `netcaliper options` in full the options that several commands share.

use crate::args::repeat::RepeatArgs;
use crate::args::{LocalArgs, OutputArgs, SocketArgs, TargetArgs};
use crate::{config, protocols};
use clap::builder::Resettable;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use std::collections::BTreeSet;
use std::ops::Deref;

/// Contents of a command's `-h`.
struct Brief {
    verb: &'static str,
    /// Identifiers of its options, in no order.
    options: &'static str,
    examples: [&'static str; 3],
}

/// Of each command its name, its options, its examples.
macro_rules! briefs {
    ($($verb:literal $options:literal $first:literal $second:literal $third:literal;)*) => {
        &[$(Brief { verb: $verb, options: $options, examples: [$first, $second, $third] },)*]
    };
}

/// All commands.
const BRIEFS: &[Brief] = briefs! {
    "tcp" "connections time bytes rate reverse bidir congestion sweep html json quiet verbose"
        "netcaliper tcp HOST                      to the server, as fast as it goes"
        "netcaliper tcp HOST -R -P 1 -t 30s       from the server, one connection"
        "netcaliper tcp HOST --sweep rate=10M,100M,1G --html sweep.html";
    "connect" "rate connections time transfer json quiet verbose"
        "netcaliper connect HOST                  as many connections as can be established"
        "netcaliper connect HOST --rate 500       500 new connections a second"
        "netcaliper connect HOST -P 1             one after the other";
    "ping" "udp count rate size time json quiet verbose"
        "netcaliper ping HOST                     round trips over TCP"
        "netcaliper ping HOST -u --rate 100 -t 1m"
        "netcaliper ping HOST --assert 'p99<5ms'  exit code 3 if it takes longer";
    "stream" "rate fps length depth up bidir json quiet verbose"
        "netcaliper stream HOST                   a video of 25 Mbit/s, one minute"
        "netcaliper stream HOST --up -b 4M --fps 30 --length 20s"
        "netcaliper stream HOST --bidir -b 2M     a call: both directions";
    "delay" "rate time reverse bidir search path_mtu json quiet verbose"
        "netcaliper delay HOST -b 10M             datagrams: delay, loss, jitter"
        "netcaliper delay HOST --search           the highest rate that gets through"
        "netcaliper delay HOST --path-mtu         the largest packets that arrive whole";
    "train" "packets length wait repeat reverse echo json quiet verbose"
        "netcaliper train HOST                    dispersion, an estimate of capacity"
        "netcaliper train HOST -n 300 --wait 0,10us,20us"
        "netcaliper train HOST -R --train-csv trains.csv";
    "capacity" "time reverse both connections json quiet verbose"
        "netcaliper capacity HOST                 to the server: bits/s of IP packets, best second"
        "netcaliper capacity HOST --both -P 4     both directions in turn, four connections"
        "netcaliper capacity HOST -R --algorithm c --protocol udpstp";
    "load" "time ramp connections rate json html quiet verbose"
        "netcaliper load HOST                     delays of an idle and of a full path"
        "netcaliper load HOST -t 5s --html load.html"
        "netcaliper load HOST --assert 'grade<=B' --assert 'rtt.p99<50ms'";
    "serve" "port listen legacy max_rate max_time metrics web"
        "netcaliper serve                         port 7411, TCP and UDP"
        "netcaliper serve --legacy iperf3         for clients of iperf3, too"
        "netcaliper serve --max-rate 100M --max-time 1m";
    "agent" "stdio port max_rate max_time max_share target"
        "netcaliper agent --stdio                 as `netcaliper fleet run` starts it at a host"
        "netcaliper agent --stdio --max-rate 100M --max-share 10%"
        "netcaliper agent --stdio --target 10.0.0.0/8";
    "stop" "port psk_file"
        "netcaliper stop HOST with the key of NETCALIPER_PSK"
        "netcaliper stop HOST --psk-file key"
        "netcaliper stop 127.0.0.1:7412";
    "key" ""
        "netcaliper key new key                   a key for both ends, for --psk-file"
        "netcaliper key new --pair server.key     a private key; prints its public key"
        "netcaliper key public server.key";
    "demo" "time html json quiet verbose"
        "netcaliper demo                          three runs over loopback"
        "netcaliper demo --html demo.html"
        "netcaliper demo -t 500ms -q";
    "doctor" "port psk_file json quiet verbose"
        "netcaliper doctor                        this host: buffers, clock, CPUs, limits, the lab"
        "netcaliper doctor HOST                   and the path: TCP, UDP, large packets, clocks"
        "netcaliper doctor HOST --json            for programs; exit code 3 if something is missing";
    "report" "original html svg json quiet verbose"
        "netcaliper report run.json --html run.html"
        "netcaliper report last --svg plots"
        "netcaliper report last --as iperf3";
    "history" "number verb host since figure retain forget json"
        "netcaliper history                       the latest 20 runs"
        "netcaliper history --host example.org --since 7d"
        "netcaliper history --verb ping --figure rtt.p99";
    "show" "html svg json verbose"
        "netcaliper show last                     all tables of the latest run"
        "netcaliper show 12 --html run.html"
        "netcaliper show 12 --json";
    "import" "store"
        "netcaliper import iperf3.json            then: netcaliper show last"
        "netcaliper import results/*.flent.gz"
        "netcaliper import ConnectionFilename.csv StatusFilename.csv";
    "export" "format output verb host since"
        "netcaliper export last                   its figures as CSV"
        "netcaliper export --since 7d -o week.csv"
        "netcaliper export 12 --format jsonl -o run.jsonl";
    "compare" "after threshold json"
        "netcaliper compare 11 12                 what differs between two runs"
        "netcaliper compare 1 2 3 --with 4 5 6    between two groups"
        "netcaliper compare a.json b.json --threshold 5";
    "monitor" "every count asserts on_break on_mend metrics"
        "netcaliper monitor --every 5m -- ping HOST"
        "netcaliper monitor --assert 'p99<20ms' --on-break ./alert -- ping HOST"
        "netcaliper monitor --metrics 127.0.0.1:9400 -- load HOST -t 3s";
    "lab" "delay loss rate queue up down server report quiet"
        "netcaliper lab --delay 10ms --loss 1% -- ping 10.77.0.2"
        "netcaliper lab --rate 50M --queue 200ms --server ./serve.sh -- ./test.sh"
        "netcaliper lab --up delay=40ms -- ping 10.77.0.2";
    "run" ""
        "netcaliper run nightly                   `nightly = \"tcp paris -t 1m\"` stands in `[tests]`"
        "netcaliper run nightly -q                its answer in one line"
        "netcaliper run nightly --html night.html";
    "completions" ""
        "netcaliper completions bash              for /etc/bash_completion.d/netcaliper"
        "netcaliper completions zsh               for _netcaliper in a folder of $fpath"
        "netcaliper completions fish              for ~/.config/fish/completions";
    "man" ""
        "netcaliper man                           the first page, to stdout"
        "netcaliper man man1                      all pages as files in that folder"
        "netcaliper man /usr/local/share/man/man1";
    "fleet" ""
        "netcaliper fleet plan hosts --test tcp            the forecast; nothing is sent"
        "netcaliper fleet run hosts --copy                 round trips of all pairs, over ssh"
        "netcaliper fleet report result --html fleet.html";
};

/// The options that several commands share.
#[derive(Args, Debug)]
pub(crate) struct SharedArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    local: LocalArgs,
    #[command(flatten)]
    sockets: SocketArgs,
    #[command(flatten)]
    repeat: RepeatArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Examples of a command.
#[cfg(feature = "man")]
pub(crate) fn examples(verb: &str) -> Option<&'static [&'static str]> {
    BRIEFS.iter().find(|brief| brief.verb == verb).map(|brief| brief.examples.as_slice())
}

/// The first sentence of a help text, without what follows its first clause where it is to be
/// short.
fn first(text: &str, clause: bool) -> String {
    let ends: &[&str] = if clause { &[". ", ": ", "; ", " [", ", such as", " ("] } else { &[". "] };
    let end = ends.iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len());
    text[..end].trim_end_matches('.').to_owned()
}

/// The first clause of a help text, and its default where that is a value.
fn clause(text: &str) -> String {
    let clause = first(text, true);
    let default = text.split_once("[default: ").and_then(|(_, rest)| rest.split([']', ';', ',', '(']).next());
    match default.map(str::trim_end).filter(|default| !default.contains(' ') && *default != "none") {
        Some(default) => format!("{clause} [default: {default}]"),
        None => clause,
    }
}

/// An argument with its whole text for `--help`, its first words for `-h`.
fn with_help(arg: Arg, brief: &Brief, shared: &BTreeSet<String>) -> Arg {
    // As it stands: the search for escape sequences that `to_string` takes out would cost more than
    // the rest of a start.
    let whole =
        arg.get_long_help().or(arg.get_help()).map(|text| text.ansi().to_string()).unwrap_or_default();
    let named = brief.options.split(' ').any(|name| name == arg.get_id().as_str());
    let is_shown = arg.is_positional() || named;
    let long = if shared.contains(arg.get_id().as_str()) { first(&whole, false) } else { whole.clone() };
    let arg = arg.help(clause(&whole)).long_help(long).hide_short_help(!is_shown);
    // Without headings they are together, and the first.
    if is_shown { arg.help_heading(None) } else { arg }
}

/// Arguments of a command, made when the command is asked for, with its brief help.
#[derive(Debug)]
pub(crate) struct Lazy<T>(T);

impl<T> Deref for Lazy<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: FromArgMatches> FromArgMatches for Lazy<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Lazy)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<T: Args> Args for Lazy<T> {
    fn augment_args(command: Command) -> Command {
        // Texts of the arguments must not replace those of the command.
        let (about, long) = (command.get_about().cloned(), command.get_long_about().cloned());
        let command =
            T::augment_args(command).about(Resettable::from(about)).long_about(Resettable::from(long));
        match BRIEFS.iter().find(|brief| brief.verb == command.get_name()) {
            Some(brief) => with_brief(command, brief),
            None => command,
        }
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

/// A command with brief help, and its examples.
fn with_brief(verb: Command, brief: &Brief) -> Command {
    let all = SharedArgs::augment_args(Command::new("options"));
    let shared: BTreeSet<String> = all.get_arguments().map(|arg| arg.get_id().to_string()).collect();
    let shares =
        verb.get_arguments().any(|arg| !arg.is_positional() && shared.contains(arg.get_id().as_str()));
    let examples = format!("Examples:\n  {}", brief.examples.join("\n  "));
    let more = "Options that several commands share are explained by `netcaliper options`.";
    let long = if shares { format!("{examples}\n\n{more}") } else { examples.clone() };
    let verb = verb.mut_args(|arg| with_help(arg, brief, &shared));
    // A typed option follows the same option of the configuration file, and replaces it.
    let is_configured = config::has_defaults(verb.get_name());
    verb.after_help(examples).after_long_help(long).args_override_self(is_configured)
}

/// The command line with the first sentence about each command, and first steps.
pub(crate) fn with_briefs(command: Command) -> Command {
    let command = BRIEFS.iter().fold(command, |command, brief| {
        command.mut_subcommand(brief.verb, |verb| {
            let about =
                verb.get_about().map(|about| first(&about.ansi().to_string(), false)).unwrap_or_default();
            let whole = verb.get_long_about().or(verb.get_about()).cloned().unwrap_or_default();
            verb.about(about).long_about(whole)
        })
    });
    let names: Vec<&str> = protocols::originals().map(|original| original.name).collect();
    command.after_help(format!(
        "Other programs' command lines, also when called by their names: {}.\n\n\
         First steps: `netcaliper serve` on one host, `netcaliper tcp HOST` on another. `netcaliper COMMAND -h` shows three examples.\n\
         `netcaliper --version --verbose` tells commit, target, features and compiler of this build.",
        names.join(", ")
    ))
}

/// All about the options that several commands share.
pub(crate) fn shared() -> Command {
    let about = "The options that several commands share; each command has those of use to it.";
    SharedArgs::augment_args(Command::new("netcaliper options")).about(about).disable_help_flag(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Cli, reads};

    #[test]
    fn examples_can_be_read_and_options_exist() {
        let mut whole = Cli::whole();
        whole.build();
        for brief in BRIEFS {
            let verb = whole.find_subcommand(brief.verb).unwrap_or_else(|| panic!("{}", brief.verb));
            for option in brief.options.split_whitespace() {
                let known = verb.get_arguments().any(|arg| arg.get_id().as_str() == option);
                assert!(known, "{}: {option}", brief.verb);
            }
            for example in brief.examples {
                assert!(example.starts_with(&format!("netcaliper {}", brief.verb)), "{example}");
            }
            brief.examples.iter().for_each(|example| reads(example));
        }
    }
}
