//! One kind of table for the options of every original: names, values, effects.

use std::fmt::Display;
use std::str::FromStr;

/// The request of a command line.
#[derive(Clone, Debug, PartialEq)]
pub enum Request<T> {
    Help,
    Version,
    Run(T),
}

/// Why a command line is read no further.
pub enum Stop {
    /// The fault, in one sentence.
    Wrong(String),
    /// The usage is asked for.
    Help,
    /// The version is asked for.
    Version,
}

impl<T: Display> From<T> for Stop {
    fn from(text: T) -> Stop {
        Stop::Wrong(text.to_string())
    }
}

pub fn stop(why: impl Into<Stop>) -> Result<(), Stop> {
    Err(why.into())
}

/// The request that reading ended with.
///
/// # Errors
/// The fault of the command line.
pub fn request<T>(read: Result<T, Stop>) -> Result<Request<T>, String> {
    match read {
        Ok(run) => Ok(Request::Run(run)),
        Err(Stop::Help) => Ok(Request::Help),
        Err(Stop::Version) => Ok(Request::Version),
        Err(Stop::Wrong(text)) => Err(text),
    }
}

/// True if a value belongs to an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// None.
    Flag,
    /// One follows.
    Value,
    /// A value may be joined to it.
    Maybe,
}

/// An option of the command line that `S` is read from.
pub struct Opt<S: 'static> {
    /// All its names, with spaces between them, and without dashes where all options have them.
    pub names: &'static str,
    /// True if a value belongs to it.
    pub takes: Takes,
    /// Its effect.
    pub set: fn(&mut S, &Value<'_>) -> Result<(), Stop>,
}

/// A table of options: `"names" Takes |state, value| what it sets;` for each.
#[macro_export]
macro_rules! options {
    ($of:ty: $($names:literal $takes:ident |$s:pat_param, $v:pat_param| $set:expr;)*) => {
        &[$($crate::options::Opt {
            names: $names,
            takes: $crate::options::Takes::$takes,
            set: |$s: &mut $of, $v: &$crate::options::Value<'_>| {
                let () = $set;
                Ok(())
            },
        }),*]
    };
}
pub fn find<S>(table: &'static [Opt<S>], name: &str) -> Option<&'static Opt<S>> {
    table.iter().find(|option| option.names.split(' ').any(|known| known == name))
}

/// An option as it was given, and its value.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    /// The option as the user wrote it.
    pub name: &'a str,
    /// Its value.
    pub text: Option<&'a str>,
}

impl Value<'_> {
    /// The value; empty where there is none.
    pub fn text(&self) -> &str {
        self.text.unwrap_or_default()
    }

    /// The value, as text of its own.
    pub fn owned(&self) -> String {
        self.text().to_owned()
    }

    /// The value as a `what`.
    pub fn parse<T: FromStr>(&self, what: &str) -> Result<T, Stop> {
        Ok(parse(self.text(), what)?)
    }

    /// A whole number from `low` to `high`.
    pub fn whole<T: FromStr + PartialOrd + Display>(&self, low: T, high: T) -> Result<T, Stop> {
        Ok(whole(self.text(), self.name, self.text(), low, high)?)
    }
}

/// `text` as a `what`.
pub fn parse<T: FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("'{text}' is not a {what}"))
}

/// A whole number; `given` is how the user has written the option that is called `name`.
pub fn whole<T>(given: &str, name: &str, text: &str, low: T, high: T) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    let n = text.parse().ok().filter(|n| (&low..=&high).contains(&n));
    n.ok_or_else(|| format!("'{given}': {name} takes a whole number from {low} to {high}"))
}

/// A number with the suffix k, m or g, each `base` times the one before; `None` beyond 64 bits.
pub fn scaled(text: &str, base: u64) -> Option<u64> {
    let power = match text.bytes().last() {
        Some(b'k' | b'K') => 1,
        Some(b'm' | b'M') => 2,
        Some(b'g' | b'G') => 3,
        _ => 0,
    };
    let digits = &text[..text.len() - usize::from(power > 0)];
    digits.parse::<u64>().ok()?.checked_mul(base.pow(power))
}

/// The words of a command line.
pub type Words<'a> = std::slice::Iter<'a, String>;

/// Letters as getopt reads them, and the messages for invalid ones.
pub struct Letters<'a, S: 'static> {
    pub find: &'a dyn Fn(&str) -> Option<&'static Opt<S>>,
    pub unknown: &'a dyn Fn(&str) -> String,
    pub missing: &'a dyn Fn(&str) -> String,
}

/// Effect of each option on the settings.
pub type Set<'a, S> = &'a mut dyn FnMut(&'static Opt<S>, Value<'_>) -> Result<(), Stop>;

impl<S> Letters<'_, S> {
    /// Reads the letters of one word: those without a value in a row, the last one perhaps with its
    /// value behind it or in the next word.
    ///
    /// # Errors
    /// Their fault.
    pub fn read(&self, letters: &str, words: &mut Words<'_>, set: Set<'_, S>) -> Result<(), Stop> {
        for (at, letter) in letters.char_indices() {
            let end = at + letter.len_utf8();
            let (name, rest) = (&letters[at..end], &letters[end..]);
            let option = (self.find)(name).ok_or_else(|| (self.unknown)(name))?;
            if option.takes == Takes::Value {
                let text = if rest.is_empty() { words.next().map(String::as_str) } else { Some(rest) };
                let text = Some(text.ok_or_else(|| (self.missing)(name))?);
                return set(option, Value { name, text });
            }
            set(option, Value { name, text: None })?;
        }
        Ok(())
    }
}
