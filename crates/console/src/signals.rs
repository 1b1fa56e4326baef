//! Requests to end this process (SIGINT, SIGTERM, SIGHUP), for every verb and every original: the
//! first ends the run in good order, a later one ends the program.

use crate::error::{CliError, Context as _};
use crate::{file, terminal};
use runtime::{EndRequest, Interrupt};
use std::sync::OnceLock;

static INTERRUPT: OnceLock<Interrupt> = OnceLock::new();

/// True once the run was requested to end.
pub fn interrupted() -> bool {
    INTERRUPT.get().is_some_and(Interrupt::is_requested)
}

/// Ends the run in good order, as a signal does.
pub fn end() {
    INTERRUPT.get().inspect(|interrupt| interrupt.ask());
}

/// Ends the program without waiting for the run: the terminal is given back, and no file that is
/// not whole is left.
pub fn exit_at_once() -> ! {
    terminal::leave_at_once();
    file::remove_partial();
    std::process::exit(130)
}

/// Has `first` called at the first request to end; a later one ends the program.
///
/// # Errors
/// When the system refuses.
pub fn on_first_request(mut first: impl FnMut() + Send + 'static) -> Result<(), CliError> {
    let on_request = move |request| match request {
        EndRequest::First => first(),
        EndRequest::Again => exit_at_once(),
    };
    runtime::on_end_request(on_request).context("cannot handle signals")
}

/// The interrupt of this process's run, which the first request to end raises.
///
/// # Errors
/// When the system refuses.
pub fn interrupt() -> Result<Interrupt, CliError> {
    if let Some(known) = INTERRUPT.get() {
        return Ok(known.clone());
    }
    let interrupt = INTERRUPT.get_or_init(Interrupt::new).clone();
    let raised = interrupt.clone();
    on_first_request(move || raised.ask())?;
    Ok(interrupt)
}
