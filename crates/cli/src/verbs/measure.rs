//! How a method is run.

use crate::args::OutputArgs;
use crate::outputs::Outputs;
use common::ClientConfig;
use console::error::{CliError, Exit};
use console::signals;
use model::{Assertion, Event, Method, Outcome, Phase, Status, Step};
use runtime::Interrupt;
use screen::Planned;

/// Checks that all phases can be run from here and have the figures of the conditions, before
/// anything is opened or printed.
pub(crate) fn check(config: &ClientConfig, method: &Method, output: &OutputArgs) -> Result<(), CliError> {
    let phases: Vec<Phase> = phases(method).map(|phase| *phase).collect();
    phases.iter().try_for_each(|phase| check_phase(config, phase))?;
    check_conditions(&output.asserts, &phases)
}

/// Checks that these phases can have the figures of the conditions.
pub(crate) fn check_conditions(asserts: &[Assertion], phases: &[Phase]) -> Result<(), CliError> {
    asserts.iter().try_for_each(|assert| assert.check(phases)).map_err(CliError::usage)
}

/// Checks that a load can have the figures of the conditions.
pub(crate) fn check_load_conditions(asserts: &[Assertion]) -> Result<(), CliError> {
    asserts.iter().try_for_each(Assertion::check_load).map_err(CliError::usage)
}

/// Checks that a phase can be run from here, at each named server.
pub(crate) fn check_phase(config: &ClientConfig, phase: &Phase) -> Result<(), CliError> {
    config.check_servers(phase).map_err(CliError::usage)?;
    Ok(runtime::check(config, phase)?)
}

/// The phases of a method that do not depend on its results.
fn phases(method: &Method) -> impl Iterator<Item = Box<Phase>> {
    let mut method = method.clone();
    std::iter::from_fn(move || Some(method.next(&Outcome::default())?.phase))
}

/// Runs all phases of a method and passes their events to all outputs.
pub(crate) fn run(
    verb: &str,
    command: Vec<String>,
    config: &ClientConfig,
    method: Method,
    mut outputs: Outputs,
) -> Result<Exit, CliError> {
    measure(verb, command, config, method, &mut outputs, |phase, interrupt, outputs| {
        one(config, phase, interrupt, &mut |event| outputs.event(&event))
    })?;
    Ok(outputs.finish())
}

/// Ending of a phase or a run, and its reason.
pub(crate) type Ended = (Status, Option<String>);

/// Runs all phases of a method, each by `one`, and passes their events to the outputs.
pub(crate) fn measure(
    verb: &str,
    command: Vec<String>,
    config: &ClientConfig,
    mut method: Method,
    outputs: &mut Outputs,
    one: impl Fn(&Phase, &Interrupt, &mut Outputs) -> Result<Ended, CliError>,
) -> Result<(), CliError> {
    let interrupt = signals::interrupt()?;
    outputs.watch(&interrupt, planned(&method))?;
    let mut begun = false;
    let (mut status, mut reason) = (Status::Complete, None);
    while let Some(Step { phase, label, repeat }) = method.next(&outputs.outcome()) {
        if !begun {
            outputs.begin(runtime::begin(config, verb, command.clone(), &phase));
            begun = true;
        }
        outputs.event(&Event::Phase { label, repeat, phase: phase.clone() });
        (status, reason) = match one(&phase, &interrupt, outputs) {
            Ok(end) => end,
            Err(error) => {
                let reason = failed(error, &outputs.outcome())?;
                outputs.event(&Event::PhaseEnd { status: Status::Failed, reason: Some(reason.clone()) });
                (Status::Failed, Some(reason))
            }
        };
        if status != Status::Complete && !method.goes_on(&outputs.outcome()) {
            break;
        }
    }
    if let Some(found) = method.highest(&outputs.outcome()) {
        let none = match status {
            Status::Complete => "the search found no rate that gets through: more was lost at each",
            _ => "the search was cut short before a rate got through often enough",
        };
        outputs.inform(match found {
            None => none.to_owned(),
            Some(at) => format!(
                "the highest rate that got through: {:.0} datagrams/s ({}), {:.2} ppm lost",
                at.pps,
                metrics::format_bits_per_second(at.bps),
                at.loss * 1e6
            ),
        });
    }
    if let Some((level, text)) = method.sure(&outputs.outcome()) {
        outputs.event(&Event::Notice { level, text });
    }
    let status = of_run(status, &outputs.outcome());
    outputs.event(&Event::End { status, reason });
    Ok(())
}

/// Status of a run by that of its last phase: one that failed leaves the results of the phases
/// before it.
pub(crate) fn of_run(last: Status, outcome: &Outcome) -> Status {
    let measured = outcome.points.iter().any(|point| point.status == Status::Complete);
    if last == Status::Failed && measured { Status::Partial } else { last }
}

/// The reason of a phase that could not be run; the error itself, with which nothing is shown or
/// kept, where no phase before it has measured anything.
pub(crate) fn failed(error: CliError, outcome: &Outcome) -> Result<String, CliError> {
    let measured = outcome.points.iter().any(|point| point.status == Status::Complete);
    if measured { Ok(error.text) } else { Err(error) }
}

/// Number of a method's phases, and their length, where known.
fn planned(method: &Method) -> Planned {
    // A search is asked for its first phase only: the others depend on its results.
    let open = method.is_empty();
    let phases: Vec<_> = phases(method).take(if open { 1 } else { usize::MAX }).collect();
    let planned = Planned::of(phases.iter().map(|phase| &**phase));
    if open { Planned { phases: None, ..planned } } else { planned }
}

/// Runs one phase.
pub(crate) fn one(
    config: &ClientConfig,
    phase: &Phase,
    interrupt: &Interrupt,
    sink: &mut dyn FnMut(Event),
) -> Result<Ended, CliError> {
    let mut end = (Status::Failed, None);
    runtime::run(config, phase, interrupt, &mut |event| {
        if let Event::PhaseEnd { status, reason } = &event {
            end = (*status, reason.clone());
        }
        sink(event);
    })?;
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Point;

    #[test]
    fn an_error_costs_nothing_that_was_measured_before() {
        let outcome = |all: &[Status]| {
            let points = all.iter().map(|&status| Point { status, ..Point::default() }).collect();
            Outcome { points, ..Outcome::default() }
        };
        let ended = |all: &[Status]| failed(CliError::failed("too many open files"), &outcome(all)).ok();
        assert_eq!(ended(&[Status::Partial]), None, "the first phase has only begun");
        let second = [Status::Complete, Status::Partial];
        assert_eq!(ended(&second).as_deref(), Some("too many open files"));
        assert_eq!(of_run(Status::Failed, &outcome(&second)), Status::Partial);
    }
}
