//! A session on this system's threads.

use crate::machine;
use common::Placement;
use engine::{Control, EngineError, Interrupt, Setup};
use io::System;
use io::thread::available;
use metrics::Mono;
use model::Event;
use std::sync::Arc;
use transport::Session;

/// Placement of workers on this system, which may be unable to bind them to cores (`can_pin`).
///
/// # Errors
/// When cores were named, and it is unable to.
pub(crate) fn placed(placement: &Placement, can_pin: bool) -> Result<Placement, EngineError> {
    match placement {
        _ if can_pin => Ok(placement.clone()),
        Placement::Even | Placement::Spread => Ok(Placement::Spread),
        Placement::Cores(_) => Err(EngineError::Setting(
            "this system cannot bind threads to cores: leave out the option that names them".to_owned(),
        )),
    }
}

/// Threads for a session, without listeners and with the system's socket options; the first worker
/// is on the `first`-th core.
pub(crate) fn setup(placement: &Placement, workers: u16, first: usize, buffer: usize) -> Setup<System> {
    let usable = available();
    let cores = placement.cores(usize::from(workers.max(1)), first, &usable);
    Setup {
        cores,
        // A group can share them with the workers of a server on this host, in their order.
        shared_cores: if *placement == Placement::Even { usable } else { Vec::new() },
        meter: Some(Arc::new(machine::meter)),
        ..Setup::new(workers, buffer)
    }
}

/// Runs a session to its end, on the calling thread and its workers.
pub(crate) fn run(
    session: Box<dyn Session>,
    setup: Setup<System>,
    interrupt: &Interrupt,
    sink: &mut dyn FnMut(Event),
) -> Result<(), EngineError> {
    let mut control = Control::new(System, session, setup, interrupt, sink)?;
    io::drive(&mut control);
    control.finish()
}

/// Now, by the same clock as all workers.
pub(crate) fn now() -> Mono {
    io::Clock::new().now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_threads_cannot_be_bound_to_cores_nothing_claims_that_they_are() {
        let cores = Placement::Cores(vec![0]);
        for placement in [&Placement::Even, &Placement::Spread, &cores] {
            assert_eq!(placed(placement, true).unwrap(), *placement);
        }
        assert_eq!(placed(&Placement::Even, false).unwrap(), Placement::Spread);
        assert_eq!(placed(&Placement::Spread, false).unwrap(), Placement::Spread);
        let refused = placed(&cores, false).unwrap_err().to_string();
        assert!(refused.contains("cannot bind threads to cores"), "{refused}");
    }
}
