//! Values that may be unknown, and sums of any number of values.

/// Adds `theirs` to `ours` where both are known; where one of them is, that is the sum.
pub fn add_known<T: Clone>(ours: &mut Option<T>, theirs: Option<&T>, add: impl FnOnce(&mut T, &T)) {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => add(ours, theirs),
        (ours @ None, theirs) => *ours = theirs.cloned(),
        (Some(_), None) => {}
    }
}

/// All `parts` together, by `add`; `None` without any.
pub fn sum_of<T>(parts: impl Iterator<Item = T>, add: impl Fn(&mut T, &T)) -> Option<T> {
    parts.reduce(|mut sum, part| {
        add(&mut sum, &part);
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_does_not_know_is_the_others() {
        for (ours, theirs, sum) in [
            (None, None, None),
            (Some(1), None, Some(1)),
            (None, Some(2), Some(2)),
            (Some(1), Some(2), Some(3)),
        ] {
            let mut found = ours;
            add_known(&mut found, theirs.as_ref(), |ours, theirs| *ours += theirs);
            assert_eq!(found, sum);
        }
    }
}
