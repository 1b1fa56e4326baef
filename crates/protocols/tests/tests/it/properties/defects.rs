//! Proof that the properties find the defects that the simulated platform can plant in the engine.

use super::{Check, SEEDS, exhausted, native, spent, together};
use std::time::Instant;
use transport::Defect;

const CHECKS: [Check; 4] = [together::check, native::check_service, native::check_shares, exhausted::check];

/// The seed that has shown a mistake before, and the check that it did so by: tried first.
fn shown(defect: Defect) -> (Check, u64) {
    match defect {
        Defect::RegisterWhenIdle => (native::check_shares, 1),
        Defect::TimerNotRearmed | Defect::LateTimers => (exhausted::check, 1),
        Defect::AnsweredTwice | Defect::LostMessage => (together::check, 1),
        // Seed 25: twelve clients with one connection each.
        Defect::LostEdge
        | Defect::IdleTooEarly
        | Defect::CountedTwice
        | Defect::NotForgotten
        | Defect::LostTally
        | Defect::NotWoken => (native::check_service, 25),
    }
}

/// Each mistake that can be planted in the engine is found by the seeds that are tried by default.
#[test]
fn planted_defects_are_found() {
    #[expect(clippy::disallowed_methods, reason = "what the tests themselves take")]
    let began = Instant::now();
    for defect in Defect::ALL {
        let (check, seed) = shown(defect);
        let others = (1..=SEEDS).flat_map(|seed| CHECKS.map(|check| (check, seed)));
        let found = std::iter::once((check, seed)).chain(others).find(|&(check, seed)| {
            !matches!(std::panic::catch_unwind(|| check(seed, Some(defect))), Ok(Ok(())))
        });
        let by =
            found.map(|(check, seed)| (CHECKS.iter().position(|of| std::ptr::fn_addr_eq(*of, check)), seed));
        println!("{defect:?}: found by {by:?}, {:?}", spent(began));
        assert!(found.is_some(), "{defect:?} is found by none of {SEEDS} seeds");
    }
}
