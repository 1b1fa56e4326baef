//! `netcaliper fleet run --shared` and `stand-by`: several controllers, of which one leads a run.

use super::ShowArgs;
use super::reach::StandByArgs;
use super::rounds::{Lead, lead, opened};
use super::run::{Reach, shown};
use console::error::{CliError, Exit, lock};
use console::file::state_folder;
use console::{signals, stderr};
use fleet::controller::Journal;
use fleet::plan::{Plan, RunId};
use fleet::result::PairResult;
use fleet::standby::{KEPT, Keeper, Lease, Log, SharedRuns};
use fleet::transport::nats::Login;
use runtime::Interrupt;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time between two looks for runs without a leader.
const LOOK: Duration = Duration::from_millis(500);

/// A controller that leads a run or stands by for one.
struct Standing<'a> {
    shared: SharedRuns,
    server: &'a Login,
    /// Folder of the runs' folders.
    runs: &'a Path,
    /// The run that the user gave a folder, and that folder.
    own: Option<(RunId, &'a Path)>,
    show: &'a ShowArgs,
    interrupt: Interrupt,
    /// Distinguishes this controller from all others.
    name: String,
    /// Runs that are over.
    over: BTreeSet<RunId>,
    /// The run or series that each run belongs to.
    series: BTreeMap<RunId, RunId>,
}

/// `netcaliper fleet run --shared`, in this folder.
pub(super) fn begin(server: &Login, folder: &Path, plan: Plan, show: &ShowArgs) -> Result<Exit, CliError> {
    let mut standing = Standing::of(server, folder, &plan, show)?;
    let lease = standing.shared.lead(plan.run, &standing.name).map_err(CliError::failed)?;
    let lease = lease.ok_or_else(|| CliError::failed("another controller leads a run of this name"))?;
    standing.shared.create(&lease, &plan).map_err(CliError::failed)?;
    standing.stand(Some(series(&plan)), Some(lease))
}

/// `netcaliper fleet resume` of a run that is shared, in this folder.
pub(super) fn resume(server: &Login, folder: &Path, plan: &Plan, show: &ShowArgs) -> Result<Exit, CliError> {
    Standing::of(server, folder, plan, show)?.stand(Some(series(plan)), None)
}

/// `netcaliper fleet stand-by`.
pub(super) fn stand_by(args: &StandByArgs) -> Result<Exit, CliError> {
    let server = args.nats.server()?;
    let server =
        server.ok_or_else(|| CliError::usage("controllers stand by at a NATS server: give --nats URL"))?;
    let runs = state_folder()?.join("runs");
    let mut standing = Standing::new(&server, &runs, &args.show)?;
    let only = args.run.as_ref().map(|name| standing.named(name)).transpose()?;
    standing.stand(only, None)
}

/// The common series of a plan's rounds.
fn series(plan: &Plan) -> RunId {
    plan.round.map_or(plan.run, |round| round.series)
}

impl<'a> Standing<'a> {
    /// Stands by for the run of a plan in this folder; other rounds of its series have folders
    /// beside.
    fn of(server: &'a Login, folder: &'a Path, plan: &Plan, show: &'a ShowArgs) -> Result<Self, CliError> {
        let standing = Standing::new(server, folder.parent().unwrap_or(folder), show)?;
        Ok(Standing { own: Some((plan.run, folder)), ..standing })
    }

    fn new(server: &'a Login, runs: &'a Path, show: &'a ShowArgs) -> Result<Self, CliError> {
        let host = crate::fleet::agent::host_name();
        Ok(Standing {
            shared: SharedRuns::connect(server, stderr::say_sentence).map_err(CliError::failed)?,
            server,
            runs,
            own: None,
            show,
            interrupt: signals::interrupt()?,
            name: format!("{host}, process {}, since {}", std::process::id(), runtime::wall_now().0),
            over: BTreeSet::new(),
            series: BTreeMap::new(),
        })
    }

    /// The series of the run whose name begins so.
    fn named(&mut self, name: &str) -> Result<RunId, CliError> {
        let runs = self.shared.runs().map_err(CliError::failed)?;
        let mut found = runs.into_iter().filter(|run| run.to_string().starts_with(name));
        let run = found.next();
        let run = run.filter(|_| found.next().is_none());
        let run = run.ok_or_else(|| {
            CliError::failed(format!(
                "'{name}' does not begin the name of one run that is shared on the server"
            ))
        })?;
        let log = self.shared.log(run).map_err(CliError::failed)?;
        log.map(|log| series(&log.plan))
            .ok_or_else(|| CliError::failed(format!("the server does not have the plan of run {run}")))
    }

    /// Leads runs whose leader is gone, until the series is over, or the user wants no more.
    fn stand(&mut self, only: Option<RunId>, mut lease: Option<Lease>) -> Result<Exit, CliError> {
        let (mut told, mut last) = (None, None);
        loop {
            let found = match lease.take() {
                Some(lease) => Ok(Some(lease)),
                None => self.lease(only),
            };
            match found {
                Ok(Some(lease)) => {
                    let run = lease.run();
                    if let Some(exit) = self.lead(lease)? {
                        (told, last) = (None, Some((run, exit)));
                    }
                    if self.interrupt.is_requested() {
                        return Ok(last.map_or(Exit::Interrupted, |(_, exit)| exit));
                    }
                    continue;
                }
                Ok(None) if only.is_some() && self.is_over(only) => return self.end(only, last),
                Ok(None) => {
                    if let Some(run) = only.filter(|_| self.runs_of(only).next().is_none()) {
                        return last.map(|(_, exit)| exit).ok_or_else(|| self.no_log_error(run));
                    }
                    self.report_once(&mut told, "stands by: another controller leads, or there is no run");
                }
                // The server may return.
                Err(why) => self.report_once(&mut told, &why),
            }
            if self.interrupt.is_requested() {
                return Ok(Exit::Interrupted);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Prints a sentence unless it was the last one.
    fn report_once(&self, told: &mut Option<String>, what: &str) {
        if told.as_deref() != Some(what) {
            stderr::say(format_args!("netcaliper: {what}"));
            *told = Some(what.to_owned());
        }
    }

    /// The error that the server has no log of a run.
    fn no_log_error(&self, run: RunId) -> CliError {
        CliError::failed(format!(
            "the NATS server has no log of run {run}, and without it the run cannot go on (logs are kept for {} days): `netcaliper fleet report` shows the results in the run's folder in {}, and `netcaliper fleet run --shared` begins a new run",
            KEPT.as_secs() / (24 * 3600),
            self.runs.display()
        ))
    }

    /// The lease of a run that no controller leads.
    fn lease(&mut self, only: Option<RunId>) -> Result<Option<Lease>, String> {
        let runs: BTreeSet<RunId> = self.shared.runs()?.into_iter().collect();
        // A run whose log is gone is not waited for.
        self.series.retain(|run, _| runs.contains(run));
        for run in runs {
            if self.over.contains(&run) || !self.is_meant(run, only)? {
                continue;
            }
            if self.shared.is_over(run)? {
                self.over.insert(run);
                continue;
            }
            let Some(lease) = self.shared.lead(run, &self.name)? else { continue };
            // Its leader may have ended it just before.
            if !self.shared.is_over(run)? {
                return Ok(Some(lease));
            }
        }
        Ok(None)
    }

    /// True if a run is of the series.
    fn is_meant(&mut self, run: RunId, only: Option<RunId>) -> Result<bool, String> {
        if !self.series.contains_key(&run)
            && let Some(log) = self.shared.log(run)?
        {
            self.series.insert(run, series(&log.plan));
        }
        let known = self.series.get(&run);
        Ok(known.is_some() && only.is_none_or(|only| known == Some(&only)))
    }

    /// True if all runs of the series are over.
    fn is_over(&self, only: Option<RunId>) -> bool {
        self.runs_of(only).next().is_some() && self.runs_of(only).all(|run| self.over.contains(&run))
    }

    /// The runs of the series.
    fn runs_of(&self, only: Option<RunId>) -> impl Iterator<Item = RunId> {
        self.series.iter().filter(move |(_, series)| Some(**series) == only).map(|(run, _)| *run)
    }

    /// The folder of a run, with the log's results.
    fn folder(&self, plan: Plan) -> Result<Journal, CliError> {
        let reach = serde_json::to_value(Reach::shared(self.server)).map_err(CliError::failed)?;
        let own = self.own.filter(|(run, _)| *run == plan.run);
        let folder =
            own.map_or_else(|| self.runs.join(plan.run.to_string()), |(_, folder)| folder.to_owned());
        opened(&folder, plan, reach)
    }

    /// Leads a run; `None` where another controller has taken it over.
    fn lead(&self, lease: Lease) -> Result<Option<Exit>, CliError> {
        let run = lease.run();
        stderr::say(format_args!("netcaliper: leads run {run}"));
        let (log, keeper) = match self.shared.take_over(&lease, &self.name) {
            Ok(taken) => taken,
            Err(why) => {
                stderr::say(format_args!("netcaliper: does not lead run {run}: {why}"));
                return Ok(None);
            }
        };
        let keeper = Arc::new(Mutex::new(keeper));
        let Log { results, was_led, plan, .. } = log;
        let mut leading = Leading { standing: self, lease, keeper, results, was_led, before: None };
        let mut journal = self.folder(plan)?;
        leading.join(&mut journal)?;
        let over = lead(journal, self.show, &self.interrupt, &mut leading)?;
        if over.is_none() {
            stderr::say("netcaliper: the lease is lost: stands by again");
        }
        Ok(over)
    }

    /// Shows the last run of the series, which other controllers may have led.
    fn end(&self, only: Option<RunId>, last: Option<(RunId, Exit)>) -> Result<Exit, CliError> {
        let mut logs = Vec::new();
        for run in self.runs_of(only) {
            logs.extend(self.shared.log(run).map_err(CliError::failed)?);
        }
        let newest = logs.into_iter().max_by_key(|log| log.plan.round.map(|round| round.number));
        match (newest, last) {
            (Some(log), last) if last.as_ref().is_none_or(|(run, _)| *run != log.plan.run) => {
                let mut journal = self.folder(log.plan)?;
                let folder: PathBuf = journal.folder().to_owned();
                journal.adopt(0, false, log.results, None).map_err(CliError::failed)?;
                drop(journal);
                shown(&folder, self.show, None, false)
            }
            (_, Some((_, exit))) => Ok(exit),
            (_, None) => Ok(Exit::Good),
        }
    }
}

/// The lead of a run by a lease.
struct Leading<'a> {
    standing: &'a Standing<'a>,
    lease: Lease,
    keeper: Arc<Mutex<Keeper>>,
    /// Results in the log, until the run's folder has them, too.
    results: Vec<PairResult>,
    /// True if the log names a controller before this one.
    was_led: bool,
    /// The round before this one.
    before: Option<RunId>,
}

impl Lead for Leading<'_> {
    fn is_held(&self) -> bool {
        self.lease.is_held()
    }

    fn next(&mut self, plan: &Plan) -> Result<bool, CliError> {
        // The next round is there before this one is over: at no moment is there nothing to take
        // over.
        let Standing { shared, name, .. } = self.standing;
        let Some(lease) = shared.lead(plan.run, name).map_err(CliError::failed)? else {
            self.end()?;
            return Ok(false);
        };
        shared.create(&lease, plan).map_err(CliError::failed)?;
        let (log, keeper) = shared.take_over(&lease, name).map_err(CliError::failed)?;
        self.end()?;
        if let Some(before) = self.before.replace(self.lease.run()) {
            shared.forget(before).map_err(CliError::failed)?;
        }
        (self.lease, self.results, self.was_led) = (lease, log.results, log.was_led);
        self.keeper = Arc::new(Mutex::new(keeper));
        Ok(true)
    }

    fn join(&mut self, journal: &mut Journal) -> Result<(), CliError> {
        let epoch = lock(&self.keeper).epoch();
        let keeper = Arc::clone(&self.keeper);
        let mirror = move |results: &[_]| lock(&keeper).append(results);
        journal
            .adopt(epoch, self.was_led, std::mem::take(&mut self.results), Some(Box::new(mirror)))
            .map_err(CliError::failed)
    }

    fn end(&mut self) -> Result<(), CliError> {
        lock(&self.keeper).end().map_err(CliError::failed)
    }
}
