//! Settings of this protocol's senders.

use crate::NAME;
use common::options::{OptionGroup, OptionValue, ProtocolOption};
use metrics::{SECOND, parse_duration};
use model::{Extra, Phase};
use serde::{Deserialize, Serialize};

/// Settings of this protocol's senders, as a phase has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Datagrams carry the time of the host's monotonic clock, whose zero no other host knows:
    /// delays are relative.
    pub unsynchronised: bool,
    /// A rate that rises.
    pub stairs: Option<Stairs>,
    /// Datagrams that the socket has no room for are given up with their numbers, instead of waited
    /// for.
    pub give_up: bool,
}

/// A rate that rises in equal steps from one of them to the phase's rate: step *k* of *n* sends
/// *k*/*n* of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stairs {
    /// Number of steps.
    pub steps: u32,
    /// Length of each, ns.
    pub step_ns: u64,
}

impl Stairs {
    /// Length of all of them, ns.
    pub fn length_ns(&self) -> u64 {
        self.step_ns.saturating_mul(self.steps.into())
    }
}

impl Settings {
    /// The settings of a phase.
    pub fn of(phase: &Phase) -> Settings {
        phase.extra.as_ref().and_then(|extra| extra.read(NAME)).unwrap_or_default()
    }

    /// As a phase has it; `None` where nothing of it is asked for.
    pub fn extra(&self) -> Option<Extra> {
        (*self != Settings::default()).then(|| Extra::new(NAME, self))
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The rest of a sentence about the protocol.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match self.stairs {
            Some(s) if s.steps == 0 || s.step_ns == 0 || s.length_ns() >= 86_400 * SECOND => {
                Err("needs at least one step of a rising rate, and less than a day for all of them")
            }
            _ => Ok(()),
        }
    }
}

/// Options of `delay`.
pub(crate) const OPTIONS: &[OptionGroup] = &[OptionGroup {
    command: "delay",
    heading: "With --protocol bwdelaytester",
    options: &[
        ProtocolOption {
            name: "unsynchronised",
            help: "Stamp with the monotonic clock, because the clocks of both hosts are not synchronised (the original's -a): its \
                   server then takes the first datagram for the fastest",
            set: |_, phase| {
                phase.extra = Settings { unsynchronised: true, ..Settings::of(phase) }.extra();
                Ok(())
            },
            ..ProtocolOption::SWITCH
        },
        ProtocolOption {
            name: "stairs",
            help: "Ramp the rate to its full value in STEPS steps of TIME each, then end (bwdelaytester -s: 100:2s)",
            value: OptionValue::One("STEPS:TIME"),
            conflicts: Some("time"),
            set: |text, phase| {
                let stairs = stairs(text)?;
                phase.duration_ns = Some(stairs.length_ns().saturating_add(SECOND));
                phase.extra = Settings { stairs: Some(stairs), ..Settings::of(phase) }.extra();
                Ok(())
            },
        },
        ProtocolOption {
            name: "give-up",
            help: "Drop datagrams that do not fit into the socket's buffer, with their numbers, instead of waiting (the original's -n)",
            set: |_, phase| {
                phase.extra = Settings { give_up: true, ..Settings::of(phase) }.extra();
                Ok(())
            },
            ..ProtocolOption::SWITCH
        },
    ],
}];

fn stairs(text: &str) -> Result<Stairs, String> {
    let parsed = text.split_once(':').and_then(|(steps, time)| {
        let step_ns = parse_duration(time).ok().filter(|ns| *ns > 0)?;
        Some(Stairs { steps: steps.parse().ok()?, step_ns })
    });
    parsed.ok_or_else(|| format!("'{text}' is not a number of steps and their length, such as 100:2s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stairs_without_a_step_are_refused() {
        let of = |steps| Settings { stairs: Some(Stairs { steps, step_ns: 1 }), ..Settings::default() };
        assert!(of(0).check().unwrap_err().contains("one step"));
        assert_eq!(of(1).check(), Ok(()));
        let phase = Phase { extra: of(7).extra(), ..Phase::default() };
        assert_eq!((Settings::of(&phase), Settings::default().extra()), (of(7), None));
    }
}
