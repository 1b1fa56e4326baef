//! The command line: every command, and what runs it.
#![allow(rustdoc::broken_intra_doc_links, reason = "doc comments here are the help text, brackets and all")]

pub(crate) mod failure;
pub(crate) mod mistaken;
pub(crate) mod pages;

use crate::args::help::{self, Lazy};
use crate::fleet::{self, agent};
use crate::runs::{compare, import_export, kept, saved};
use crate::verbs::{Question, demo, doctor, key, lab, monitor, processes, serve};
use crate::{config, protocols};
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use common::Original;
use console::error::{CliError, Exit};

/// A measuring instrument for networks: goodput with every byte compared, connections, round trips,
/// one-way delay and loss, media streams. One program is both ends.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 110, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads the command line of this process. The originals stand in the help; they never come
    /// here, because each has a grammar of its own.
    pub(crate) fn parse_command(command: &[String]) -> Cli {
        let matches =
            Cli::whole().try_get_matches_from(command).unwrap_or_else(|error| mistaken::end(&error, command));
        Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// Shows help or the version and ends this process, where these were asked for.
    pub(crate) fn help_if_asked(command: &[String]) {
        if let Err(error) = Cli::whole().try_get_matches_from(command)
            && matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
        {
            mistaken::end(&error, command);
        }
    }

    /// False of commands that other processes start: workers, and shells for their completion.
    pub(crate) fn is_for_users(command: &[String]) -> bool {
        let whole = Cli::whole();
        command.get(1).and_then(|name| whole.find_subcommand(name)).is_none_or(|verb| !verb.is_hide_set())
    }

    /// All of the command line, the originals' names included.
    pub(crate) fn whole() -> clap::Command {
        let original =
            |original: &Original| clap::Command::new(original.name).about(original.about).hide(true);
        help::with_briefs(Cli::command().subcommands(protocols::originals().map(original)))
    }
}

// Only the options of the command that was asked for are made: all of them take longer than many a
// command.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    #[command(flatten)]
    Question(Question),
    /// Run the server, for any number of clients at once.
    Serve(Box<Lazy<serve::ServeArgs>>),
    /// Run tests of a fleet at this host, for a controller
    #[cfg_attr(not(feature = "fleet"), doc = " (needs a build with the feature `fleet`).")]
    Agent(Box<Lazy<agent::AgentArgs>>),
    /// Ask a server to end once its sessions are over.
    Stop(Lazy<serve::StopArgs>),
    /// Make keys, with which servers and clients prove who they are.
    Key(Lazy<key::KeyVerbArgs>),
    /// Measure this host against itself over loopback; nothing to set up.
    Demo(Lazy<demo::DemoArgs>),
    /// What can be measured on this host and towards a server, and at what cost? Each check has the
    /// command that mends it.
    Doctor(Box<Lazy<doctor::DoctorArgs>>),
    /// Print a saved run again, in any format.
    Report(Lazy<saved::ReportArgs>),
    /// List the saved runs: every run is saved, unless --no-store is given.
    History(Lazy<kept::HistoryArgs>),
    /// Print a saved run.
    Show(Lazy<kept::ShowArgs>),
    /// Import other tools' results: files of iperf3, irtt, flent, ntttcp, ctsTraffic,
    /// bwdelaytester, UDPmon.
    Import(Lazy<import_export::ImportArgs>),
    /// Write saved runs as tables or documents for other programs.
    Export(Lazy<import_export::ExportArgs>),
    /// Which differences between saved runs are real, and what was set differently?
    Compare(Lazy<compare::CompareArgs>),
    /// Run measurements on a schedule, into the store and into metrics; alert on failure.
    Monitor(Box<Lazy<monitor::MonitorArgs>>),
    /// Run a command on an impaired path (delay, loss, reordering, …) with known truth. Needs root,
    /// or the right to make network namespaces.
    Lab(Box<Lazy<lab::LabArgs>>),
    /// Measure the pairs of many hosts, without conflicts, and name what is worse than the rest
    #[cfg_attr(not(feature = "fleet"), doc = " (needs a build with the feature `fleet`).")]
    Fleet(Box<Lazy<fleet::FleetArgs>>),
    /// Show the configuration file: defaults of commands, named targets, named tests.
    Config,
    /// Run a test that the configuration file names.
    Run(Lazy<config::TestArgs>),
    /// Be a worker process of a client or a server, which starts it.
    #[command(hide = true)]
    WorkerProcess(Lazy<processes::WorkerArgs>),
    /// Print what fits in the place of the last word, for a shell's completion.
    #[cfg(feature = "man")]
    #[command(hide = true)]
    Complete(pages::complete::CompleteArgs),
    /// Explain the options that several commands share: target, sockets, output, store, live view.
    Options,
    /// Print the completion script for a shell
    #[cfg_attr(not(feature = "man"), doc = " (needs a build with the feature `man`).")]
    Completions(Lazy<pages::CompletionsArgs>),
    /// Write the manual pages
    #[cfg_attr(not(feature = "man"), doc = " (needs a build with the feature `man`).")]
    Man(Lazy<pages::ManArgs>),
}

/// Does what the command line asks for; `command` is as it was typed.
pub(crate) fn run(verb: Command, command: Vec<String>) -> Result<Exit, CliError> {
    let failure = failure::Form::of(&verb);
    let done = run_verb(verb, command.clone());
    done.inspect_err(|error| failure.iter().for_each(|form| form.report(error, command.clone())))
}

fn run_verb(verb: Command, command: Vec<String>) -> Result<Exit, CliError> {
    match verb {
        Command::Question(question) => question.run(command),
        Command::Serve(args) => serve::serve(&args, command, agent::orders),
        Command::Agent(args) => agent::agent(&args),
        Command::Stop(args) => serve::stop(&args),
        Command::Key(args) => key::key(&args),
        Command::Demo(args) => demo::demo(&args, command),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Report(args) => saved::report(&args),
        Command::History(args) => kept::history(&args),
        Command::Show(args) => kept::show(&args),
        Command::Import(args) => import_export::import(&args),
        Command::Export(args) => import_export::export(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Monitor(args) => monitor::monitor(&args),
        Command::Lab(args) => lab::lab(&args),
        Command::Fleet(args) => fleet::fleet(&args),
        Command::WorkerProcess(args) => processes::worker(&args),
        #[cfg(feature = "man")]
        Command::Complete(args) => Ok(pages::complete::complete(&args)),
        Command::Options => pages::options(),
        Command::Config => config::show(),
        Command::Run(args) => config::run(&args),
        Command::Completions(args) => pages::completions(&args),
        Command::Man(args) => pages::man(&args),
    }
}

/// Asserts that an example is a command line; three blanks separate its remark.
#[cfg(test)]
pub(crate) fn reads(example: &str) {
    let line = example.split("   ").next().unwrap_or(example);
    let words = line.split('\'').enumerate().flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    if let Err(error) = Cli::try_parse_from(words) {
        panic!("{line}: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::whole().debug_assert();
    }
}
