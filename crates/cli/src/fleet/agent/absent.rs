//! Agents in builds that have none.

use super::AgentArgs;
use crate::verbs::serve::{Beside, ServeArgs};
use console::error::{CliError, Exit};

/// Why nothing of fleets can be done.
pub(crate) fn absent() -> CliError {
    CliError::usage("this netcaliper was built without fleets (cargo build --release --features fleet)")
}

pub(crate) fn agent(_: &AgentArgs) -> Result<Exit, CliError> {
    Err(absent())
}

pub(crate) fn orders(args: &ServeArgs) -> Result<Option<Beside>, CliError> {
    if args.fleet.is_empty() { Ok(None) } else { Err(absent()) }
}
