//! `netcaliper fleet run`, `resume`, `status` and `cancel`.

use super::lost::LostHosts;
use super::reach::{FleetRunArgs, ReachArgs, ResumeArgs, WhichArgs};
use super::secure::Keyed;
#[cfg(feature = "nats")]
use super::standby;
use super::{ShowArgs, pages, plan, rounds};
use crate::args::key;
use common::auth::{DRAWN, hex};
use console::error::{CliError, Context as _, Exit};
use console::file::state_folder;
use console::stderr;
use console::stdout::{is_stdout, print};
use fleet::controller::{self, Controller, Journal, RunProgress, Wish};
use fleet::inventory::{Host, HostId};
use fleet::plan::Plan;
use fleet::record::Record;
use fleet::result::{Counts, Reason};
use fleet::transport::Transport;
use fleet::transport::direct::Direct;
use fleet::transport::lines::{Lines, Named};
use fleet::transport::ssh::RemoteShell;
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Time between two lines that say how far a run is.
const TOLD: Duration = Duration::from_secs(5);
/// Name of the last run.
const LAST: &str = "last";
/// Time that `cancel` waits for the controller.
const CANCELLED: Duration = Duration::from_secs(60);

/// The way to the hosts, as a run's record keeps it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Reach {
    rsh: String,
    program: String,
    copy: Option<PathBuf>,
    copy_to: String,
    agent_options: Vec<String>,
    direct: Option<Listening>,
    #[cfg(feature = "nats")]
    nats: Option<fleet::transport::nats::Login>,
    /// True if the run is on the NATS server, so that another controller can take it over.
    #[cfg(feature = "nats")]
    #[serde(default)]
    shared: bool,
}

/// Agents that listen: the file of their key, and their port.
#[derive(Debug, Serialize, Deserialize)]
struct Listening {
    psk_file: PathBuf,
    insecure: bool,
    port: u16,
}

impl Reach {
    fn of(args: &ReachArgs) -> Result<Reach, CliError> {
        #[cfg(not(feature = "nats"))]
        args.nats.refuse()?;
        let listening = |psk_file: &PathBuf| Listening {
            psk_file: absolute(psk_file),
            insecure: args.insecure_key_file,
            port: args.agent_port,
        };
        Ok(Reach {
            direct: args.psk_file.as_ref().filter(|_| args.direct).map(listening),
            #[cfg(feature = "nats")]
            nats: args.nats.server()?,
            #[cfg(feature = "nats")]
            shared: args.shared,
            rsh: args.rsh.clone(),
            program: args.program.clone(),
            copy: args.copy.as_ref().map(|file| if is_stdout(file) { file.clone() } else { absolute(file) }),
            copy_to: args.copy_to.clone(),
            agent_options: args.agent_option.clone(),
        })
    }

    /// Agents and controllers that share runs on this server.
    #[cfg(feature = "nats")]
    pub(super) fn shared(server: &fleet::transport::nats::Login) -> Reach {
        Reach { nats: Some(server.clone()), shared: true, ..Reach::default() }
    }

    fn connect(&self, plan: &Plan) -> Result<Box<dyn Transport>, CliError> {
        let hosts = (0..).map(HostId).zip(&plan.inventory.hosts);
        let active = hosts.filter(|(_, host)| host.passive_protocol().is_none());
        #[cfg(feature = "nats")]
        if let Some(server) = &self.nats {
            let names = active.map(|(id, host)| (id, host.name.clone())).collect();
            let nats =
                fleet::transport::nats::Nats::start(server.clone(), plan.run, names, stderr::say_sentence);
            return Ok(Box::new(nats.map_err(CliError::failed)?));
        }
        let named = |host: &Host| Named { name: host.name.clone(), address: host.address.clone() };
        let active = active.map(|(id, host)| (id, named(host))).collect();
        if let Some(Listening { psk_file, insecure, port }) = &self.direct {
            let keys = key::keys_in(psk_file, *insecure)?;
            if keys.shared.len() != 1 {
                return Err(key::wrong(psk_file, "holds several keys: a controller has one"));
            }
            let direct = Direct { secure: Keyed(keys), port: *port };
            return Ok(Box::new(Lines::start(direct, active).map_err(CliError::failed)?));
        }
        let copied = match &self.copy {
            Some(path) if is_stdout(path) => {
                Some(std::env::current_exe().context("cannot find this program to copy it")?)
            }
            other => other.clone(),
        };
        let shell = RemoteShell {
            template: self.rsh.clone(),
            program: self.program.clone(),
            copied,
            folder: self.copy_to.clone(),
            arguments: self.agent_options.clone(),
            checksum: OnceLock::new(),
        };
        Ok(Box::new(Lines::start(shell, active).map_err(CliError::failed)?))
    }
}

/// The same file from everywhere: a run is resumed from another folder.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// `netcaliper fleet run`.
pub(super) fn run(args: &FleetRunArgs) -> Result<Exit, CliError> {
    let plan = plan::of(&args.shape)?;
    let folder = match (&args.state, plan.round) {
        (Some(folder), None) => folder.clone(),
        (Some(folder), Some(_)) => folder.join(plan.run.to_string()),
        (None, _) => state_folder()?.join("runs").join(plan.run.to_string()),
    };
    let reach = Reach::of(&args.reach)?;
    #[cfg(feature = "nats")]
    if let Some(server) = reach.nats.as_ref().filter(|_| reach.shared) {
        return standby::begin(server, &folder, plan, &args.show);
    }
    let reach = serde_json::to_value(reach).map_err(CliError::failed)?;
    rounds::go_on(Journal::create(&folder, plan, reach).map_err(CliError::failed)?, &args.show)
}

/// `netcaliper fleet resume`.
pub(super) fn resume(args: &ResumeArgs) -> Result<Exit, CliError> {
    let folder = args.run.folder()?;
    #[cfg(feature = "nats")]
    {
        let reach = read_reach(&Journal::reach_in(&folder).context(folder.display())?)?;
        if let Some(server) = reach.nats.as_ref().filter(|_| reach.shared) {
            let record = Record::open(&folder).context(folder.display())?;
            return standby::resume(server, &folder, record.plan(), &args.show);
        }
    }
    rounds::go_on(Journal::resume(&folder).map_err(CliError::failed)?, &args.show)
}

fn read_reach(reach: &serde_json::Value) -> Result<Reach, CliError> {
    Reach::deserialize(reach).context("how hosts are reached was not written by this build")
}

/// Works on one run until it is over or is to end.
pub(super) fn work(journal: Journal, wish: &dyn Fn() -> Wish) -> Result<(), CliError> {
    let folder = journal.folder().to_owned();
    let reach = read_reach(journal.reach())?;
    let plan = journal.record().plan().clone();
    stderr::say(format_args!("netcaliper: run {} in {}", plan.run, folder.display()));
    let mut transport = reach.connect(&plan)?;
    let key = Some(format!("{DRAWN}{}", hex(&key::drawn()?)));
    let (mut told, mut lost) = (Instant::now(), LostHosts::default());
    let mut tell = |progress| match progress {
        RunProgress::Lost(host, reason, why) => {
            let name = plan.inventory.host(host).map_or("", |host| &host.name);
            if let Some(message) = lost.add(host, name, reason, why) {
                stderr::say(format_args!("netcaliper: {message}"));
            }
        }
        RunProgress::Ended(done, all) if done == all || told.elapsed() >= TOLD => {
            told = Instant::now();
            stderr::say(format_args!("netcaliper: {done} of {all} tests are over"));
        }
        RunProgress::Ended(..) => {}
    };
    let controller = Controller::new(journal, key, &mut *transport);
    let ran = controller.context(folder.display())?.run(wish, &mut tell).map_err(CliError::failed);
    if let Some(message) = lost.summary() {
        stderr::say(format_args!("netcaliper: {message}"));
    }
    ran
}

/// The record of a run, and how its tests stand.
pub(super) fn count(folder: &Path) -> Result<(Record, Counts), CliError> {
    let record = Record::open(folder).context(folder.display())?;
    let counts = record.counts().context(folder.display())?;
    Ok((record, counts))
}

/// Shows the results of a run so far.
pub(super) fn shown(
    folder: &Path,
    show: &ShowArgs,
    before: Option<&Path>,
    is_interrupted: bool,
) -> Result<Exit, CliError> {
    let result = pages::report(folder, show, before)?;
    let counts = &result.counts;
    let (all, missing) = (counts.all(), counts.of(Reason::NotMeasuredYet));
    if missing > 0 {
        stderr::say(format_args!(
            "netcaliper: {missing} of {all} tests are not measured yet: `netcaliper fleet resume {}` goes on",
            folder.display()
        ));
    }
    let exit = match (is_interrupted, counts.measured) {
        (true, _) if missing > 0 => Exit::Interrupted,
        (_, measured) if measured == all => Exit::Good,
        (_, 0) => Exit::Failed,
        _ => Exit::Partial,
    };
    Ok(result.exit(exit, show))
}

/// `netcaliper fleet status`.
pub(super) fn status(args: &WhichArgs) -> Result<Exit, CliError> {
    let folder = args.folder()?;
    let (record, counts) = count(&folder)?;
    let plan = record.plan();
    let hosts = metrics::format_count(plan.inventory.hosts.len() as u64, "host");
    let tests = metrics::format_count(counts.all() as u64, "test");
    let measured = format!("  {} measured", counts.measured);
    let mut lines = vec![format!("run {}: {hosts}, {tests}", plan.run), measured];
    lines.extend(counts.missing.iter().map(|(reason, n)| format!("  {n} {reason}")));
    if let Some(round) = plan.round {
        lines.extend(rounds::status_lines(&round, &folder)?);
    }
    let is_early = || plan.round.is_some_and(|round| round.due() > runtime::wall_now());
    lines.push(match controller::is_held(&folder) {
        true if is_early() => "a controller waits for its time".to_owned(),
        true => "a controller works on it".to_owned(),
        false if counts.of(Reason::NotMeasuredYet) > 0 => {
            format!("no controller works on it: `netcaliper fleet resume {}` goes on", folder.display())
        }
        false => "it is over".to_owned(),
    });
    print(|out| lines.iter().try_for_each(|line| writeln!(out, "{line}")))
}

/// `netcaliper fleet cancel`.
pub(super) fn cancel(args: &WhichArgs) -> Result<Exit, CliError> {
    let folder = args.folder()?;
    controller::request_cancel(&folder).context(folder.display())?;
    let began = Instant::now();
    while controller::is_held(&folder) {
        if began.elapsed() >= CANCELLED {
            return Err(CliError::failed("the controller has the request, and has not ended yet"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut journal = Journal::resume(&folder).map_err(CliError::failed)?;
    // Resuming has removed the request, which the controller of a series may not have seen yet
    // between two rounds.
    controller::request_cancel(&folder).context(folder.display())?;
    let results = controller::latest(journal.record()).context(folder.display())?;
    let missing = journal.end_all(runtime::wall_now(), "").context(folder.display())?;
    let cancelled =
        results.values().filter(|result| result.ending.reason() == Some(Reason::Cancelled)).count();
    stderr::say(format_args!(
        "netcaliper: run {} is over: {} of {} tests were cancelled",
        journal.record().plan().run,
        missing + cancelled,
        journal.record().plan().tasks.len()
    ));
    Ok(Exit::Good)
}

impl WhichArgs {
    /// The folder of the run.
    pub(super) fn folder(&self) -> Result<PathBuf, CliError> {
        if let Some(run) = self.run.as_ref().filter(|run| run.join("plan.json").is_file()) {
            return Ok(run.clone());
        }
        self.folder_in(&state_folder()?.join("runs"))
    }

    /// The folder of the run, of these.
    fn folder_in(&self, all: &Path) -> Result<PathBuf, CliError> {
        let wanted = self.run.as_ref().map_or("", |run| run.to_str().unwrap_or("\0"));
        let wanted = if wanted == LAST { "" } else { wanted };
        let mut found = runs(all);
        found.retain(|(_, name, _)| name.starts_with(wanted));
        found.sort();
        match (found.pop(), wanted) {
            (Some(_), wanted) if !wanted.is_empty() && !found.is_empty() => {
                Err(CliError::usage(format!("'{wanted}' begins the names of {} runs", found.len() + 1)))
            }
            (Some((_, _, folder)), _) => Ok(folder),
            (None, "") => Err(CliError::failed(format!("there is no run of a fleet in {}", all.display()))),
            (None, wanted) => Err(CliError::failed(format!(
                "'{wanted}' is neither a folder with a run nor the name of one in {}",
                all.display()
            ))),
        }
    }
}

/// When each run was made, its name, its folder.
fn runs(folder: &Path) -> Vec<(std::time::SystemTime, String, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let run = |entry: std::fs::DirEntry| {
        let made = entry.path().join("plan.json").metadata().ok()?.modified().ok()?;
        Some((made, entry.file_name().to_str()?.to_owned(), entry.path()))
    };
    entries.filter_map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `fleet status` prints a run's name, and every command takes it.
    #[test]
    fn a_run_is_found_by_its_name_and_a_result_by_its_file() {
        let folder = std::env::temp_dir().join(format!("nc-which-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        drop(Journal::create(&folder.join("abc"), Plan::default(), serde_json::Value::Null).unwrap());
        drop(Journal::create(&folder.join("abd"), Plan::default(), serde_json::Value::Null).unwrap());
        let older = std::fs::File::options().append(true).open(folder.join("abc/plan.json")).unwrap();
        older.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let find = |text: &str| WhichArgs { run: Some(PathBuf::from(text)) }.folder_in(&folder);
        assert_eq!(find("abc").unwrap(), folder.join("abc"));
        assert_eq!(find("abd").unwrap(), folder.join("abd"));
        assert_eq!(find(LAST).unwrap(), folder.join("abd"));
        assert_eq!(WhichArgs { run: None }.folder_in(&folder).unwrap(), folder.join("abd"));
        assert!(find("ab").unwrap_err().text.contains("2 runs"));
        assert!(find("x").unwrap_err().text.contains("neither"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_cancelled_run_says_so_to_the_next_round() {
        let folder = std::env::temp_dir().join(format!("nc-cancel-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        drop(Journal::create(&folder, Plan::default(), serde_json::Value::Null).unwrap());
        cancel(&WhichArgs { run: Some(folder.clone()) }).unwrap();
        assert!(controller::is_cancel_requested(&folder));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
