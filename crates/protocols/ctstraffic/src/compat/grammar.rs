//! Grammar of ctsTraffic's arguments: `-Name:Value`, split at the first colon, names without regard
//! to case; whole numbers in decimal, or in hexadecimal when there is an `x` in them; ranges
//! `[low,high]`.

use std::ops::RangeInclusive;

/// One argument, apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    /// Its name in lower case, the dash included.
    pub(super) name: String,
    /// The text behind the first colon.
    pub(super) value: String,
}

impl Word {
    /// Takes `text` apart.
    ///
    /// # Errors
    /// One sentence when there is no name, no colon or no value.
    pub(super) fn read(text: &str) -> Result<Word, String> {
        match text.split_once(':') {
            Some((name, value)) if !name.is_empty() && !value.is_empty() => {
                Ok(Word { text: text.to_owned(), name: name.to_ascii_lowercase(), value: value.to_owned() })
            }
            _ => Err(format!("Invalid argument specified: '{text}'; an argument is written -Name:Value")),
        }
    }
}

/// A number's sign and size. With an `x` or `X` anywhere, the text is hexadecimal.
fn number(text: &str) -> Option<(bool, u64)> {
    let text = text.trim_start();
    let (negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let (digits, radix) = match text.contains(['x', 'X']) {
        true => (digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"))?, 16),
        false => (digits, 10),
    };
    let plain = digits.chars().all(|digit| digit.is_digit(radix));
    u64::from_str_radix(digits, radix).ok().filter(|_| plain).map(|size| (negative, size))
}

const WHOLE: &str = "a whole number, decimal or hexadecimal (0x10), without a suffix";

/// A number of 64 bits; as in the original, a negative one is taken as its two's complement.
pub(super) fn u64_of(text: &str) -> Result<u64, String> {
    match number(text) {
        Some((true, size)) if size <= 1 << 63 => Ok(size.wrapping_neg()),
        Some((false, size)) => Ok(size),
        _ => Err(format!("'{text}' is not {WHOLE}")),
    }
}

/// A number of 64 bits that must be above 0, for rates.
pub(super) fn rate_of(text: &str) -> Result<u64, String> {
    match number(text) {
        Some((false, size @ 1..=0x7fff_ffff_ffff_ffff)) => Ok(size),
        Some(_) => Err(format!("'{text}' must be above 0 and below 2^63")),
        None => Err(format!("'{text}' is not {WHOLE}")),
    }
}

/// A number within `range`.
pub(super) fn within(text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    match number(text) {
        Some((false, size)) if range.contains(&size) => Ok(size),
        Some((true, 0)) if range.contains(&0) => Ok(0),
        Some(_) => Err(format!("'{text}' must be from {} to {}", range.start(), range.end())),
        None => Err(format!("'{text}' is not {WHOLE}")),
    }
}

/// A value or a range `[low,high]`, its low end not 0; `each` reads one end.
pub(super) fn range_of(
    text: &str,
    each: impl Fn(&str) -> Result<u64, String>,
) -> Result<(u64, Option<u64>), String> {
    let not_0 = |n: u64| if n == 0 { Err(format!("'{text}' must not be 0")) } else { Ok(n) };
    if !text.starts_with('[') {
        return Ok((not_0(each(text)?)?, None));
    }
    let inside = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    let (low, high) = inside
        .and_then(|t| t.split_once(','))
        .ok_or_else(|| format!("'{text}' is not a range such as [1024,65536]"))?;
    let (low, high) = (not_0(each(low.trim())?)?, each(high.trim())?);
    if low > high {
        return Err(format!("the range '{text}' falls: the smaller value is the first one"));
    }
    Ok((low, Some(high)))
}

/// One of several words, without regard to case.
pub(super) fn one_of(
    text: &str,
    words: impl Iterator<Item = &'static str> + Clone,
) -> Result<&'static str, String> {
    let known = || format!("'{text}' is not one of {}", words.clone().collect::<Vec<_>>().join(", "));
    words.clone().find(|word| text.eq_ignore_ascii_case(word)).ok_or_else(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn u32_of(text: &str) -> Result<u64, String> {
        within(text, 0..=u32::MAX.into())
    }

    #[test]
    fn an_argument_is_split_at_its_first_colon() {
        let word = Word::read("-Target:fe80::1%eth0").unwrap();
        assert_eq!((word.name.as_str(), word.value.as_str()), ("-target", "fe80::1%eth0"));
        let word = Word::read(r"-StatusFilename:C:\logs\a.csv").unwrap();
        assert_eq!(word.value, r"C:\logs\a.csv");
        for bad in ["-Listen", "-Listen:", ":x", "", "listen"] {
            let why = Word::read(bad).unwrap_err();
            assert!(why.starts_with(&format!("Invalid argument specified: '{bad}'")), "{why}");
        }
    }

    /// The rules of the original's integers: an x anywhere means base 16, all of the text must be a
    /// number, no suffixes, two's complement for negative 64-bit values only.
    #[test]
    fn whole_numbers() {
        assert_eq!(u64_of("1048576"), Ok(1 << 20));
        assert_eq!(u64_of("0x100000"), Ok(1 << 20));
        assert_eq!(u64_of("0XfF"), Ok(255));
        assert_eq!(u64_of("-1"), Ok(u64::MAX));
        assert_eq!(u64_of("-0x1"), Ok(u64::MAX));
        assert_eq!(u64_of("18446744073709551615"), Ok(u64::MAX));
        for bad in ["18446744073709551616", "64K", "1.5", "", "ff", "10x", "x", "0x", "1 ", "--1", "1e3"] {
            assert!(u64_of(bad).is_err(), "{bad}");
        }
        assert_eq!(u32_of("0xffffffff"), Ok(u32::MAX.into()));
        assert!(u32_of("4294967296").unwrap_err().contains("must be from 0 to 4294967295"));
        assert!(u32_of("-1").is_err() && within("0", 1..=5).is_err());
        assert_eq!(within("0x115c", 1..=65_535), Ok(4444));
        assert!(within("0", 1..=65_535).is_err() && within("65536", 1..=65_535).is_err());
        assert!(rate_of("-8").is_err() && rate_of("0").is_err() && rate_of("1").is_ok());
        assert_eq!(within("6", 0..=6), Ok(6));
        assert!(within("7", 0..=6).unwrap_err().contains("from 0 to 6"));
    }

    #[test]
    fn ranges() {
        assert_eq!(range_of("[1024,1048576]", u32_of), Ok((1024, Some(1_048_576))));
        assert_eq!(range_of("[0x400, 0x800]", u32_of), Ok((1024, Some(2048))));
        assert_eq!(range_of("[5,5]", u32_of), Ok((5, Some(5))));
        assert_eq!(range_of("5", u32_of), Ok((5, None)));
        for bad in ["[9,3]", "[0,3]", "[9]", "[,]", "[1,2", "0", "1,2", "[1,2,3]", "[]"] {
            assert!(range_of(bad, u32_of).is_err(), "{bad}");
        }
    }

    #[test]
    fn words() {
        assert_eq!(one_of("PULL", ["push", "pull"].into_iter()), Ok("pull"));
        let why = one_of("maybe", ["on", "off"].into_iter()).unwrap_err();
        assert_eq!(why, "'maybe' is not one of on, off");
    }
}
