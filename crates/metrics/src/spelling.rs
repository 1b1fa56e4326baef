//! The known word that was probably meant.

/// Longest word that is compared, in letters: a longer one is no slip of the fingers.
const LONGEST: usize = 64;
/// Shortest beginning of a word that stands for it.
const BEGINNING: usize = 3;

/// Letters to add, take away, change, or swap with their neighbour.
pub fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(LONGEST).collect();
    let b: Vec<char> = b.chars().take(LONGEST).collect();
    // Rows of the table of Damerau and Levenshtein (each letter moves once): the one before the
    // last, the last, the present one.
    let (mut older, mut last): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=b.len()).collect());
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let changed = last[j] + usize::from(x != y);
            let mut least = changed.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(older[j - 1] + 1);
            }
            row.push(least);
        }
        older = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// The first of the `known` words that is most like `word`: at most a third of its letters differ,
/// or it begins with `word`.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let apart = |known: &'a str| {
        let longer = word.chars().count().max(known.chars().count());
        let begins = word.chars().count() >= BEGINNING && known.starts_with(word);
        let apart = if begins { 1 } else { distance(word, known) };
        (apart * 3 <= longer).then_some((apart, known))
    };
    known.into_iter().filter_map(apart).min_by_key(|(apart, _)| *apart).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_differ() {
        for (a, b, apart) in
            [("", "", 0), ("tcp", "", 3), ("tcp", "tcp", 0), ("tpc", "tcp", 1), ("ttcp", "tcp", 1)]
        {
            assert_eq!((distance(a, b), distance(b, a)), (apart, apart), "{a} {b}");
        }
        // The example of Levenshtein's distance that textbooks have.
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn the_first_of_the_nearest_words_is_meant() {
        let verbs = ["tcp", "connect", "ping", "delay", "history", "ttcp"];
        for (word, meant) in [
            ("tpc", Some("tcp")),
            ("pingg", Some("ping")),
            ("dealy", Some("delay")),
            ("hist", Some("history")),
            ("ttpc", Some("ttcp")),
            ("fly", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, verbs), meant, "{word}");
        }
    }
}
