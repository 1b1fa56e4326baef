//! `netcaliper lab`: a command on an impaired path with known truth.

use crate::args::values::{self, Named};
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches};
#[cfg(target_os = "linux")]
use console::error::Context as _;
use console::error::{CliError, Exit};
#[cfg(target_os = "linux")]
use console::stderr;
#[cfg(target_os = "linux")]
use metrics::real;
use std::ffi::OsString;
use std::path::PathBuf;

/// Exit code without a lab, as of `env` and `timeout`: commands seldom end with it.
const NO_LAB: u8 = 125;

/// A path that delays, loses, reorders …: how, and what runs on it.
#[derive(Args, Debug)]
pub(crate) struct LabArgs {
    #[command(flatten)]
    conditions: Conditions,
    /// Conditions from client to server only: delay=5ms,loss=1%, with the names of the options
    /// above.
    #[arg(long, value_name = "CONDITIONS", help_heading = "Conditions of one direction")]
    up: Vec<String>,
    /// Conditions from server to client only.
    #[arg(long, value_name = "CONDITIONS", help_heading = "Conditions of one direction")]
    down: Vec<String>,
    /// A router on the path (repeatable, from client to server), with conditions of the link before
    /// it, of one direction or both: delay=2ms,up.loss=1%. Also address=IP, icmp=10/s or silent,
    /// ways=K[:packet|:same] with way2.delay=9ms, mtu, nat, mpls=LABEL. All other conditions
    /// then apply on the link before the server.
    #[arg(long, value_name = "CONDITIONS", help_heading = "Routers")]
    hop: Vec<String>,
    /// Seed of all random decisions: the same seed does the same to the n-th packet [default:
    /// drawn, and printed].
    #[arg(long, value_name = "N", value_parser = values::whole)]
    seed: Option<u64>,
    /// Shell command to run at the other side, started before the command and ended after it.
    #[arg(long, value_name = "COMMAND")]
    server: Option<String>,
    /// Longest wait of the command for the server to listen.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::pause)]
    server_wait: u64,
    /// Side of the command.
    #[arg(long, default_value = "client", value_parser = values::one_of(SIDE))]
    side: lab::Side,
    /// The lab's way of waiting for packets, and for the time to let one go.
    #[arg(long, default_value = "hybrid", value_parser = values::one_of(WAIT))]
    wait: lab::Wait,
    /// A core for the lab alone: the commands are kept off it.
    #[arg(long, value_name = "N")]
    core: Option<usize>,
    /// Write the lab's account, as JSON.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write one row per packet, as CSV.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Do not print the lab's account.
    #[arg(short, long)]
    quiet: bool,
    /// The command and its arguments. The other end is at the address in NETCALIPER_LAB_SERVER
    /// (10.77.0.2; NETCALIPER_LAB_SERVER6 is fd77::2), the command's own in NETCALIPER_LAB_CLIENT
    /// (10.77.0.1, fd77::1).
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const SIDE: Named<lab::Side> = &[
    ("client", "Its packets take the way up", lab::Side::Client),
    ("server", "Its packets take the way down", lab::Side::Server),
];

const WAIT: Named<lab::Wait> = &[
    ("hybrid", "Sleeps until shortly before a packet is due, then spins", lab::Wait::Hybrid),
    ("spin", "Never sleeps: packets are seen at their arrival, at the cost of a core", lab::Wait::Spin),
    ("sleep", "Sleeps whenever it can: packets leave some 50 µs late", lab::Wait::Sleep),
];

/// The conditions given for both directions, in the order of the table: name and value.
#[derive(Debug, Default)]
struct Conditions(Vec<(&'static str, String)>);

impl Args for Conditions {
    fn augment_args(command: clap::Command) -> clap::Command {
        let heading = "Conditions of both directions";
        command.args(lab::KEYS.iter().map(|key| {
            let action = if key.repeats { ArgAction::Append } else { ArgAction::Set };
            Arg::new(key.name)
                .long(key.name)
                .value_name(key.value)
                .help(key.help)
                .help_heading(heading)
                .action(action)
        }))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Conditions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let values = |key: &lab::Key| {
            let values = matches.get_many::<String>(key.name).into_iter().flatten();
            values.map(|value| (key.name, value.clone())).collect::<Vec<_>>()
        };
        Ok(Conditions(lab::KEYS.iter().flat_map(values).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl LabArgs {
    /// Both directions: the common conditions, then those of one.
    fn paths(&self) -> Result<[lab::Path; 2], CliError> {
        let mut both = lab::Path::default();
        for (name, value) in &self.conditions.0 {
            both.set(name, value).map_err(|why| CliError::usage(format!("--{why}")))?;
        }
        let one = |option: &str, texts: &[String]| {
            let mut path = both.clone();
            let all = texts.iter().try_for_each(|text| path.set_all(text));
            all.and_then(|()| path.check())
                .map_err(|why| CliError::usage(format!("--{option}: {why}")))
                .map(|()| path)
        };
        both.check().map_err(CliError::usage)?;
        Ok([one("up", &self.up)?, one("down", &self.down)?])
    }

    fn hops(&self) -> Result<Vec<lab::Hop>, CliError> {
        lab::Hop::parse_all(&self.hop).map_err(|why| CliError::usage(format!("--hop: {why}")))
    }
}

/// Runs a command on an impaired path.
#[cfg(not(target_os = "linux"))]
pub(crate) fn lab(args: &LabArgs) -> Result<Exit, CliError> {
    args.paths()?;
    args.hops()?;
    Err(no_lab(lab::LabError::NoLinux))
}

/// Runs a command on an impaired path.
#[cfg(target_os = "linux")]
pub(crate) fn lab(args: &LabArgs) -> Result<Exit, CliError> {
    use console::file::NewFile;
    let ([up, down], hops) = (args.paths()?, args.hops()?);
    let open = |path: &Option<PathBuf>| {
        path.as_ref().map(|path| NewFile::create(path).context(path.display())).transpose()
    };
    let (report, rows) = (open(&args.report)?, open(&args.trace)?);
    let trace = rows.as_ref().map(NewFile::handle).transpose().map_err(CliError::failed)?;
    let setup = lab::Setup {
        up,
        down,
        hops,
        seed: args.seed.unwrap_or_else(lab::seed),
        wait: args.wait,
        core: args.core,
        trace: trace.map_or(lab::Trace::Off, lab::Trace::File),
    };
    let job = lab::Job {
        setup,
        command: args.command.clone(),
        side: args.side,
        server: args.server.clone(),
        patience: std::time::Duration::from_nanos(args.server_wait),
    };
    let finished = lab::run(job).map_err(no_lab)?;
    for notice in &finished.notices {
        stderr::say(format_args!("netcaliper lab: {notice}"));
    }
    let truth = &finished.ended.truth;
    if !args.quiet {
        summary(truth).iter().for_each(stderr::say);
    }
    let written = report.map_or(Ok(()), |file| file.fill(|out| writeln!(out, "{}", truth.to_json())));
    written.and_then(|()| rows.map_or(Ok(()), NewFile::finish)).context("writing the lab's account")?;
    Ok(Exit::Command(finished.code))
}

fn no_lab(error: lab::LabError) -> CliError {
    match error {
        lab::LabError::Setting(text) => CliError::usage(text),
        other => CliError { text: other.to_string(), exit: Exit::Command(NO_LAB) },
    }
}

/// The lab's account, for people.
#[cfg(target_os = "linux")]
fn summary(truth: &lab::Truth) -> Vec<String> {
    let mut lines = vec![format!("lab: seed {}", truth.seed)];
    for (name, way) in [("up", &truth.up), ("down", &truth.down)] {
        lines.push(format!("lab: {name}: {}", counted(way)));
        let time = |ns: u64| metrics::format_duration(real(ns));
        if let (Some(delay), Some(late)) = (&way.delay_ns, &way.late_ns) {
            lines.push(format!(
                "lab: {name}: delay {} median, {} p99, {} max; of that {} median, {} p99 the lab's own lateness",
                time(delay.p50),
                time(delay.p99),
                time(delay.max),
                time(late.p50),
                time(late.p99),
            ));
        }
    }
    for (number, hop) in (1..).zip(&truth.hops) {
        for (way, of) in (1..).zip(&hop.ways) {
            let way = if hop.ways.len() > 1 { format!(" way {way}") } else { String::new() };
            let lab::WayTruth { asked, up, down, icmp } = of;
            lines.push(format!(
                "lab: hop {number}{way}: {}: {} packets up, {} lost; {} down, {} lost; {} expired, {} ICMP errors",
                asked.v4, up.packets, up.lost, down.packets, down.lost, icmp.expired, icmp.sent,
            ));
        }
    }
    lines.extend(truth.caveats.iter().map(|caveat| format!("lab: caveat: {caveat}")));
    lines
}

/// Packets of a direction by what became of them; what did not happen is left out.
#[cfg(target_os = "linux")]
fn counted(way: &lab::Direction) -> String {
    let c = &way.counts;
    let parts = [
        (c.passed, "passed untouched"),
        (c.lost_random, "lost at random"),
        (c.lost_burst, "lost in bursts"),
        (c.lost_outage, "lost in outages"),
        (c.dropped_queue, "found the queue full"),
        (c.too_big, "too big"),
        (c.expired, "expired at hops"),
        (c.overrun, "too many for the lab"),
        (c.refused, "refused by the device"),
        (c.unfinished, "still on their way"),
        (c.copies, "copies"),
        (way.reordering.reordered, "reordered"),
        (c.corrupted, "corrupted"),
        (c.damaged, "damaged (the kernel drops them)"),
        (c.marked, "marked CE"),
    ];
    let mut text = format!("{} packets arrived, {} left", c.arrived, c.delivered);
    for (n, what) in parts.into_iter().filter(|(n, _)| *n > 0) {
        text += &format!(", {n} {what}");
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::command::{Cli, Command};
    use clap::Parser as _;

    fn paths(words: &str) -> Result<[lab::Path; 2], String> {
        let all = format!("netcaliper lab {words} -- true");
        let cli = Cli::try_parse_from(all.split_whitespace()).map_err(|e| e.to_string())?;
        match cli.command {
            Command::Lab(args) => args.paths().map_err(|trouble| trouble.text),
            _ => Err("another command".to_owned()),
        }
    }

    #[test]
    fn conditions_are_for_both_or_for_one() {
        let [up, down] =
            paths("--delay 20ms --loss 1% --down delay=30ms,loss=0 --up outage=1s+1s --outage 5s+1s")
                .expect("good conditions");
        assert_eq!((up.delay_ns, down.delay_ns), (20_000_000, 30_000_000));
        assert_eq!((up.loss, down.loss), (0.01, 0.0));
        assert_eq!((up.outages.len(), down.outages.len()), (2, 1));
    }

    #[test]
    fn trouble_names_the_option() {
        assert_eq!(paths("--loss 2").unwrap_err(), "--loss: '2' is not a probability such as 0.5% or 0.005");
        assert!(paths("--up loss=2").unwrap_err().starts_with("--up: loss: '2' is not"));
        assert!(paths("--queue 50p").unwrap_err().starts_with("rate"));
        assert!(paths("--loss 1% --loss 2%").is_err(), "only timetables are repeated");
    }
}
