//! The command line: words to a [`Spec`].

use super::grammar::Word;
use super::options::{self, OptionRow, Page};
use super::raw::RawOptions;
use super::spec::{Role, Spec, Transport};

/// The request of a command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request {
    Help(Page),
    /// A test, and what to say about the way it was written.
    Run(Box<Spec>),
}

/// Reads the arguments that follow the program's name.
///
/// # Errors
/// One sentence that names what cannot be, and what could.
pub(crate) fn read(arguments: &[String]) -> Result<Request, String> {
    if let Some(page) = help(arguments) {
        return Ok(Request::Help(page));
    }
    let words: Vec<Word> =
        arguments.iter().map(|text| Word::read(&with_dash(text))).collect::<Result<_, _>>()?;
    let mut given = RawOptions::default();
    let mut left = Vec::new();
    let mut seen: Vec<&'static str> = Vec::new();
    for word in &words {
        match options::find(&word.name) {
            None => left.push(unknown(word)),
            Some(row) if !row.many && seen.contains(&row.name) => {
                left.push(format!("'{}' ({} may be given once only)", word.text, row.name));
            }
            Some(row) => {
                seen.push(row.name);
                let arg = row.read(&word.value).map_err(|why| format!("{}: {why}", row.name))?;
                given.0.push((row.name, arg));
            }
        }
    }
    let role = if left.is_empty() { Some(given.role()?) } else { given.role().ok() };
    for word in &words {
        let row = options::find(&word.name);
        left.extend(
            row.and_then(|row| misplaced(row, role, &given)).map(|why| format!("'{}' ({why})", word.text)),
        );
    }
    if !left.is_empty() {
        return Err(format!("Invalid argument specified: {}", left.join("; ")));
    }
    given.finish(&words).map(|spec| Request::Run(Box::new(spec)))
}

/// A help page, if one is asked for: then nothing else counts.
fn help(arguments: &[String]) -> Option<Page> {
    if arguments.is_empty() {
        return Some(Page::Overview);
    }
    // The last two are not the original's, but users try them first.
    let asks = |text: &&String| {
        ["-?", "--help", "-h"].contains(&text.as_str())
            || text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("-help"))
    };
    let asked = arguments.iter().find(asks)?;
    Some(match asked.to_ascii_lowercase().split_once(':') {
        Some(("-help", "tcp")) => Page::Tcp,
        Some(("-help", "udp")) => Page::Udp,
        Some(("-help", "logging")) => Page::Logging,
        Some(("-help", "advanced")) => Page::Advanced,
        _ => Page::Overview,
    })
}

/// The original's guide itself prints `framerate:60` without the dash once: a known name is
/// recognised without it.
fn with_dash(text: &str) -> String {
    let dashed = format!("-{text}");
    let name = dashed.split(':').next().unwrap_or_default();
    if options::find(name).is_some() { dashed } else { text.to_owned() }
}

fn unknown(word: &Word) -> String {
    let given = word.text.split(':').next().unwrap_or_default();
    match options::like(&word.name) {
        Some(known) => format!("'{}' (there is no {given}; did you mean {known}?)", word.text),
        None => format!("'{}' (there is no {given})", word.text),
    }
}

/// Why an option that exists is none for this command line.
fn misplaced(row: &OptionRow, role: Option<Role>, given: &RawOptions) -> Option<String> {
    let elsewhere = match (row.who, role, row.over, given.transport()) {
        (Some(Role::Client), Some(Role::Server), ..) => {
            Some("it is for clients, and -Listen makes this a server")
        }
        (Some(Role::Server), Some(Role::Client), ..) => {
            Some("it is for servers, and -Target makes this a client")
        }
        (.., Some(Transport::Tcp), Transport::Udp) => Some("it is for -Protocol:tcp"),
        (.., Some(Transport::Udp), Transport::Tcp) => Some("it is for -Protocol:udp"),
        _ => None,
    };
    let missing = || row.needs.filter(|need| !given.holds(need)).map(|need| format!("it needs {need}"));
    elsewhere.map(str::to_owned).or_else(missing)
}

#[cfg(test)]
pub(super) mod tests;
