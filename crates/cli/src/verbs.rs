//! The commands that measure, serve or prepare either.

pub(crate) mod baseline;
pub(crate) mod capacity;
pub(crate) mod connect;
pub(crate) mod delay;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod key;
pub(crate) mod lab;
pub(crate) mod legacy;
pub(crate) mod lines;
pub(crate) mod load;
pub(crate) mod loopback;
pub(crate) mod measure;
pub(crate) mod monitor;
pub(crate) mod ping;
pub(crate) mod plan;
pub(crate) mod processes;
pub(crate) mod serve;
pub(crate) mod stream;
pub(crate) mod tcp;
pub(crate) mod train;

use crate::args::help::Lazy;
use crate::args::{OutputArgs, TargetArgs};
use clap::{Parser, Subcommand};
use console::error::{CliError, Exit};
use model::{Cost, Phase};

/// The commands that measure, each a question about a path.
// Only the options of the command that was asked for are made: all of them take longer than many a
// command.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Question {
    /// How much data gets through over TCP, and does every byte arrive intact?
    Tcp(Box<Lazy<tcp::TcpArgs>>),
    /// How many connections can be established, how fast, and how many fail?
    Connect(Box<Lazy<connect::ConnectArgs>>),
    /// How long do messages take there and back, and how far is the tail?
    Ping(Box<Lazy<ping::PingArgs>>),
    /// Does a media stream (frames of UDP datagrams at a fixed rate) arrive in time?
    Stream(Box<Lazy<stream::StreamArgs>>),
    /// How long do datagrams take one way, and how many are lost, repeated, reordered, late or
    /// damaged?
    Delay(Box<Lazy<delay::DelayArgs>>),
    /// What do packet trains show: dispersion (an estimate of capacity), delays, losses, congestion
    /// over time?
    Train(Box<Lazy<train::TrainArgs>>),
    /// How many bits of IP packets does the path carry (RFC 9097), up, down or both?
    Capacity(Box<Lazy<capacity::CapacityArgs>>),
    /// What happens to delays when the path is full (idle, loaded down, up and both ways), with a
    /// grade?
    Load(Box<Lazy<load::LoadArgs>>),
}

/// A question as a command line has it, without the other commands.
#[derive(Parser)]
struct QuestionLine {
    #[command(subcommand)]
    question: Question,
}

impl Question {
    /// The question in the words behind the program's name.
    pub(crate) fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Result<Question, clap::Error> {
        QuestionLine::try_parse_from(std::iter::once("netcaliper").chain(words)).map(|line| line.question)
    }

    pub(crate) fn run(&self, command: Vec<String>) -> Result<Exit, CliError> {
        match self {
            Question::Tcp(args) => tcp::tcp(args, command),
            Question::Connect(args) => connect::connect(args, command),
            Question::Ping(args) => ping::ping(args, command),
            Question::Stream(args) => stream::stream(args, command),
            Question::Delay(args) => delay::delay(args, command),
            Question::Train(args) => train::train(args, command),
            Question::Capacity(args) => capacity::capacity(args, command),
            Question::Load(args) => load::load(args, command),
        }
    }

    /// Its name, its remote end, its outputs.
    pub(crate) fn parts(&self) -> (&'static str, &TargetArgs, &OutputArgs) {
        match self {
            Question::Tcp(args) => ("tcp", &args.target, &args.output),
            Question::Connect(args) => ("connect", &args.target, &args.output),
            Question::Ping(args) => ("ping", &args.target, &args.output),
            Question::Stream(args) => ("stream", &args.target, &args.output),
            Question::Delay(args) => ("delay", &args.target, &args.output),
            Question::Train(args) => ("train", &args.target, &args.output),
            Question::Capacity(args) => ("capacity", &args.target, &args.output),
            Question::Load(args) => ("load", &args.target, &args.output),
        }
    }

    /// Its cost, and its phase where it is a single one that is known before: that of `load` is
    /// not, and no cost is known of `connect` and `stream`.
    pub(crate) fn cost(&self) -> Result<Option<(Cost, Option<Phase>)>, CliError> {
        let phase = match self {
            Question::Tcp(args) => tcp::phase(args),
            Question::Ping(args) => ping::phase(args, false)?,
            Question::Delay(args) => delay::phase(args)?,
            Question::Train(args) => train::checked(args)?,
            Question::Capacity(args) => capacity::phase(args)?,
            Question::Load(args) => {
                return Ok(Some((Cost { length_ns: Some(load::length_ns(args)), ..Cost::default() }, None)));
            }
            Question::Connect(_) | Question::Stream(_) => return Ok(None),
        };
        phase.check().map_err(CliError::usage)?;
        Ok(Some((phase.cost(), Some(phase))))
    }
}
