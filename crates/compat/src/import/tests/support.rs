//! What the tests of all importers ask of an outcome. The module that includes this one names
//! `import` and `IMPORTERS`.

use super::{IMPORTERS, import};
use model::{Outcome, Point};

#[track_caller]
pub(super) fn outcome_of(bytes: &[u8]) -> Outcome {
    import(IMPORTERS, bytes).expect("a file that is known").expect("a good file")
}

#[track_caller]
pub(super) fn only(outcome: &Outcome) -> &Point {
    assert_eq!(outcome.points.len(), 1, "{:?}", outcome.notices);
    &outcome.points[0]
}

#[track_caller]
pub(super) fn near(got: Option<f64>, want: f64) {
    let got = got.expect("a figure");
    assert!((got - want).abs() <= want.abs() * 2e-3 + 1e-9, "{got} against {want}");
}
