//! The schedule of a plan: from the command line, and the rounds one after the other.

use super::run::{count, shown, work};
use super::{ShowArgs, WhenArgs};
use crate::provenance;
use console::error::{CliError, Context as _, Exit};
use console::{signals, stderr};
use fleet::controller::{self, Journal, Wish};
use fleet::plan::{Plan, Round, Rounds};
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use metrics::{SECOND, Wall, format_count, format_duration, real};
use runtime::Interrupt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Interval at which a waiting controller checks the clock, and the user's signals.
const LOOK: Duration = Duration::from_millis(50);
/// Most rounds that a status lists.
const MOST_TOLD: u32 = 10;

/// When the rounds are due; `None` without a schedule.
pub(super) fn of(args: &WhenArgs) -> Result<Option<Rounds>, String> {
    let now = runtime::wall_now();
    let at = |text: &String| moment(text, now);
    if args.at.is_none() && args.every.is_none() {
        return Ok(None);
    }
    let first = args.at.as_ref().map_or(Ok(now), at)?;
    if let Some(text) = args.at.as_ref().filter(|_| first < now) {
        return Err(format!("--at {text} is over: a later time is wanted"));
    }
    let until = args.until.as_ref().map(at).transpose()?;
    match (args.every, until, args.count) {
        (None, ..) => Ok(Some(Rounds { first, every_ns: 0, count: 1 })),
        (Some(every), ..) if every < SECOND => Err("--every is at least 1s".to_owned()),
        (Some(_), None, None) => {
            Err("--every goes with an end: --count 100, or --until 2027-01-31T02:00".to_owned())
        }
        (Some(_), Some(until), _) if until < first => {
            Err("--until is before the first round: name a later time".to_owned())
        }
        (Some(every), until, count) => {
            Ok(Some(Rounds::until(first, every, until, count.unwrap_or(u32::MAX))))
        }
    }
}

/// A time with a zone (RFC 3339); a date and time of this host; or a time of day, which is the next
/// one.
fn moment(text: &str, now: Wall) -> Result<Wall, String> {
    let zone = TimeZone::system();
    let wrong = || format!("'{text}' is not a time such as 02:00, 2027-01-31T02:00 or 2027-01-31T02:00:00Z");
    let of = |at: DateTime| at.to_zoned(zone.clone()).map(|at| at.timestamp());
    let at = if let Ok(at) = text.parse::<Timestamp>() {
        Ok(at)
    } else if let Ok(at) = text.parse::<DateTime>() {
        of(at)
    } else {
        let time: Time = text.parse().map_err(|_| wrong())?;
        let now = Timestamp::from_nanosecond(now.0.into()).map_err(|_| wrong())?.to_zoned(zone.clone());
        let today = now.date().to_datetime(time);
        of(today).and_then(|at| match at <= now.timestamp() {
            true => of(today.checked_add(1.day())?),
            false => Ok(at),
        })
    };
    let at = at.map_err(|_| wrong())?;
    i64::try_from(at.as_nanosecond()).map(Wall).map_err(|_| wrong())
}

/// Results of the rounds so far.
#[derive(Default)]
struct SoFar {
    ended: Vec<Exit>,
    missed: u32,
}

impl SoFar {
    fn exit(&self) -> Exit {
        let all_are = |exit| self.ended.iter().all(|ended| *ended == exit);
        match self.missed {
            _ if self.ended.contains(&Exit::Threshold) => Exit::Threshold,
            _ if all_are(Exit::Failed) => Exit::Failed,
            0 if all_are(Exit::Good) => Exit::Good,
            _ => Exit::Partial,
        }
    }
}

enum Waited {
    Due,
    Missed,
    Cancelled,
    Interrupted,
    Deposed,
}

/// Gives a controller the lead of a run; by default, there is no other controller.
pub(super) trait Lead {
    /// True if it has the lead.
    fn is_held(&self) -> bool {
        true
    }

    /// Takes the lead of the run of this plan, and ends the one before. False if another controller
    /// was first.
    fn next(&mut self, _: &Plan) -> Result<bool, CliError> {
        Ok(true)
    }

    /// Joins the run's folder with what other controllers know of the run.
    fn join(&mut self, _: &mut Journal) -> Result<(), CliError> {
        Ok(())
    }

    /// The run is over.
    fn end(&mut self) -> Result<(), CliError> {
        Ok(())
    }
}

/// The lead of a run that no other controller knows of.
struct Alone;

impl Lead for Alone {}

/// Works on a run, and on the rounds of its series that follow, until the last one is over or the
/// user wants no more.
pub(super) fn go_on(journal: Journal, show: &ShowArgs) -> Result<Exit, CliError> {
    Ok(lead(journal, show, &signals::interrupt()?, &mut Alone)?.unwrap_or(Exit::Failed))
}

/// The same, as long as this controller has the lead: `None` when another controller has taken the
/// run over.
pub(super) fn lead(
    mut journal: Journal,
    show: &ShowArgs,
    interrupt: &Interrupt,
    lead: &mut dyn Lead,
) -> Result<Option<Exit>, CliError> {
    // What is wrong with the receivers is known before anything is measured.
    drop(show.export.open(provenance::VERSION)?);
    let mut so_far = SoFar::default();
    loop {
        let (plan, reach) = (journal.record().plan().clone(), journal.reach().clone());
        let folder = journal.folder().to_owned();
        so_far.missed += plan.round.map_or(0, |round| round.missed);
        let wish = || match (lead.is_held(), interrupt.is_requested()) {
            (false, _) => Wish::Leave,
            (true, true) => Wish::Stop,
            (true, false) => Wish::GoOn,
        };
        let waited = plan.round.map_or(Ok(Waited::Due), |round| wait(&journal, &round, &wish));
        let has_begun = match waited.context(folder.display())? {
            Waited::Deposed => return Ok(None),
            Waited::Interrupted => {
                stderr::say(format_args!(
                    "netcaliper: the round has not begun: `netcaliper fleet resume {}` waits for its time again",
                    folder.display()
                ));
                return Ok(Some(Exit::Interrupted));
            }
            Waited::Cancelled => {
                journal.end_all(runtime::wall_now(), "").context(folder.display())?;
                lead.end()?;
                return Ok(Some(so_far.exit()));
            }
            Waited::Missed => {
                let why = "the round was missed: no controller worked when it was due";
                journal.end_all(runtime::wall_now(), why).context(folder.display())?;
                drop(journal);
                false
            }
            Waited::Due => {
                let worked = work(journal, &wish);
                if !lead.is_held() {
                    return Ok(None);
                }
                worked?;
                let before = plan.round.and_then(|round| earlier(&round, &folder));
                let exit = shown(&folder, show, before.as_deref(), interrupt.is_requested())?;
                match plan.round {
                    _ if matches!(exit, Exit::Interrupted) => return Ok(Some(exit)),
                    None => {
                        lead.end()?;
                        return Ok(Some(exit));
                    }
                    Some(_) => so_far.ended.push(exit),
                }
                true
            }
        };
        let Some(next) = following(plan, has_begun, &folder, &mut so_far) else {
            lead.end()?;
            return Ok(Some(so_far.exit()));
        };
        if !lead.next(&next)? {
            return Ok(None);
        }
        journal = opened(&folder.with_file_name(next.run.to_string()), next, reach)?;
        lead.join(&mut journal)?;
    }
}

/// The folder of a run, which may be there already.
pub(super) fn opened(folder: &Path, plan: Plan, reach: serde_json::Value) -> Result<Journal, CliError> {
    let journal = match folder.join("plan.json").is_file() {
        true => Journal::resume(folder),
        false => Journal::create(folder, plan, reach),
    };
    journal.map_err(CliError::failed)
}

/// The plan of the next round; prints the missed ones.
fn following(plan: Plan, has_begun: bool, folder: &Path, so_far: &mut SoFar) -> Option<Plan> {
    let round = plan.round?;
    if controller::is_cancel_requested(folder) {
        return None;
    }
    let next = round.next(has_begun, runtime::wall_now());
    let missed = *next.as_ref().map_or_else(|missed| missed, |next| &next.missed);
    if missed > 0 {
        stderr::say(format_args!(
            "netcaliper: {} missed: another round still ran, or no controller worked, when {} due",
            format_count(missed.into(), "round"),
            if missed == 1 { "it was" } else { "they were" },
        ));
    }
    match next {
        Ok(next) => Some(plan.in_round(next)),
        Err(missed) => {
            so_far.missed += missed;
            None
        }
    }
}

/// Waits until a round is due.
fn wait(journal: &Journal, round: &Round, wish: &dyn Fn() -> Wish) -> std::io::Result<Waited> {
    let left = |now: i64| round.due().0.saturating_sub(now);
    if left(runtime::wall_now().0) > 0 {
        let left = format_duration(real(left(runtime::wall_now().0).unsigned_abs()));
        stderr::say(format_args!("netcaliper: {} is due at {}, in {left}", named(round), date(round.due())));
    }
    while left(runtime::wall_now().0) > 0 {
        match (wish(), controller::is_cancel_requested(journal.folder())) {
            (Wish::Leave, _) => return Ok(Waited::Deposed),
            (_, true) => return Ok(Waited::Cancelled),
            (Wish::GoOn, false) => std::thread::sleep(LOOK),
            (Wish::Stop, false) => return Ok(Waited::Interrupted),
        }
    }
    // One that has begun is ended, however late.
    let has_begun = !controller::latest(journal.record())?.is_empty();
    Ok(if round.is_missed(runtime::wall_now()) && !has_begun { Waited::Missed } else { Waited::Due })
}

/// The folder of the latest earlier round with a measured result. A round that was missed has a
/// folder, too, but no result.
fn earlier(round: &Round, folder: &Path) -> Option<PathBuf> {
    let folder_of = |number| folder.with_file_name(Round { number, ..*round }.run().to_string());
    let mut before = (1..round.number).rev().take(MOST_TOLD as usize).map(folder_of);
    before.find(|folder| count(folder).is_ok_and(|(_, counts)| counts.measured > 0))
}

fn named(round: &Round) -> String {
    format!("round {} of {}", round.number, round.rounds.count)
}

fn date(at: Wall) -> String {
    Timestamp::from_nanosecond(at.0.into()).map_or_else(
        |_| "a time that has no date".to_owned(),
        |at| format!("{}", at.to_zoned(TimeZone::system()).strftime("%F %T")),
    )
}

/// Lines of `fleet status` about the series of a run: when the round is due, and how the last rounds
/// ended.
pub(super) fn status_lines(round: &Round, folder: &Path) -> Result<Vec<String>, CliError> {
    let every = match round.rounds.every_ns {
        0 => String::new(),
        ns => format!(", one every {}", format_duration(real(ns))),
    };
    let mut lines = vec![format!("{}, due at {}{every}", named(round), date(round.due()))];
    let first = round.number.saturating_sub(MOST_TOLD).max(1);
    for number in first..round.number {
        let run = Round { number, ..*round }.run();
        let beside = folder.with_file_name(run.to_string());
        if !beside.join("plan.json").is_file() {
            lines.push(format!("  round {number}: missed"));
            continue;
        }
        let (_, counts) = count(&beside)?;
        lines.push(format!("  round {number}: {} of {} measured, run {run}", counts.measured, counts.all()));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::inventory::{Format, Inventory};
    use fleet::plan::{Request, RunId, Shape, TaskId, Test};
    use fleet::result::{Ending, PairResult};

    fn args(at: Option<&str>, every: Option<u64>, count: Option<u32>, until: Option<&str>) -> WhenArgs {
        WhenArgs { every, at: at.map(str::to_owned), count, until: until.map(str::to_owned) }
    }

    #[test]
    fn times_have_a_zone_or_are_of_this_host() {
        let now = Wall("2026-11-25T12:00:00Z".parse::<Timestamp>().unwrap().as_nanosecond() as i64);
        let utc = moment("2027-01-31T02:00:00Z", now).unwrap();
        assert_eq!(utc.0, 1_801_360_800_000_000_000, "date -u -d '2027-01-31 02:00' +%s");
        assert_eq!(moment("2027-01-31T03:00:00+01:00", now), Ok(utc));
        let day = 24 * 3_600 * 1_000_000_000;
        for hour in 0..24 {
            let next = moment(&format!("{hour:02}:30"), now).unwrap();
            assert!(next > now && next.0 - now.0 <= day + 3_600_000_000_000, "{hour}: {next:?}");
        }
        assert!(moment("2027-01-31", now).is_ok());
        for wrong in ["soon", "25:00", "2027-13-01T00:00", ""] {
            assert!(moment(wrong, now).unwrap_err().contains("02:00"), "{wrong}");
        }
    }

    #[test]
    fn a_round_is_compared_with_the_last_one_that_measured() {
        let all = std::env::temp_dir().join(format!("nc-rounds-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&all);
        let inventory = Inventory::parse("a\nb\n", Format::Lines).unwrap();
        let rounds = Rounds { first: Wall(0), every_ns: 60 * SECOND, count: 3 };
        let first = Round::first(RunId::from_u128(7), rounds);
        let request = Request {
            run: first.run(),
            shape: Shape::Mesh,
            tests: vec![Test::default()],
            repeats: 1,
            seed: 1,
            unlike: None,
        };
        let plan = Plan::make(inventory, request).unwrap();
        let at = |number| Round { number, ..first };
        let folder = |number| all.join(at(number).run().to_string());
        let made = |number| {
            let plan = plan.clone().in_round(at(number));
            Journal::create(&folder(number), plan, serde_json::Value::Null).unwrap()
        };
        let ending = |outcome: &serde_json::Value| {
            Ending::Measured(serde_json::value::RawValue::from_string(outcome.to_string()).unwrap())
        };
        let result = |ending| PairResult { task: TaskId(0), attempts: 1, ended: Wall(0), ending };
        let outcome = serde_json::json!({
            "schema": model::SCHEMA,
            "begin": { "verb": "ping", "protocol": "native" },
            "status": "complete",
            "points": [{ "phase": { "kind": "ping" } }],
        });
        made(1).append(&[result(ending(&outcome))]).unwrap();
        made(2).end_all(Wall(0), "missed").unwrap();
        assert_eq!(earlier(&at(3), &folder(3)), Some(folder(1)));
        std::fs::remove_dir_all(&all).unwrap();
    }

    #[test]
    fn a_schedule_has_a_beginning_and_an_end() {
        let minute = 60 * SECOND;
        assert_eq!(of(&args(None, None, None, None)), Ok(None));
        assert!(of(&args(None, Some(minute), None, None)).unwrap_err().contains("--count"));
        assert_eq!(of(&args(None, Some(minute), Some(3), None)).unwrap().unwrap().count, 3);
        let once = of(&args(Some("2100-01-01T00:00:00Z"), None, None, None)).unwrap().unwrap();
        assert_eq!((once.count, once.due(1).0), (1, 4_102_444_800_000_000_000));
        let hour = args(Some("2100-01-01T00:00:00Z"), Some(10 * minute), None, Some("2100-01-01T01:00:00Z"));
        assert_eq!(of(&hour).unwrap().unwrap().count, 7);
        assert!(of(&args(Some("2000-01-01T00:00:00Z"), None, None, None)).unwrap_err().contains("over"));
        let backwards = args(None, Some(minute), None, Some("2000-01-01T00:00:00Z"));
        assert!(of(&backwards).unwrap_err().contains("--until"));
    }
}
