//! Asks for the options that a bare command line leaves open, as Teldat's does.

use std::io::{self, BufRead, Write};

/// A question: the word it sets, its topic, the default, and true if only a sender is asked. Where
/// the default is no, a yes makes the word, without a value.
type Question = (&'static str, &'static str, &'static str, bool);

const NO: &str = "no";

const QUESTIONS: &[Question] = &[
    ("nsrcb", "Number of source buffers transmitted", "2048", true),
    ("blen", "Length of buffers read from or written to the network", "8192", false),
    ("port", "Port number to send to or listen at", "5001", false),
    ("timeout", "Time without data after which the receiver ends, ms (0: none)", "0", false),
    ("verbose", "More statistics", NO, false),
    ("phmarks", "Print a # per buffer", NO, false),
    ("sbsize", "Socket buffer size", "65535", false),
    ("nsrcbb", "Number of buffers in a burst, with a rate limit (none: an even rate)", "", true),
    ("random", "Random data", NO, true),
    ("frate", "Unit of the rate (b, k, m, g bits; B, K, M, G bytes)", "", false),
    ("rlimit", "Rate limit, kbit/s", "", true),
    ("perc", "Print the progress in percent", NO, true),
    ("mss", "Maximum segment size", "1340", false),
    ("time", "Time to send, s; without one the number of buffers decides", "", true),
];

/// Words that are not asked for.
const UNASKED: [Question; 2] = [
    ("nbhmarks", "Print a # per number of buffers", "", false),
    ("iRNG", "Number that random data is drawn from", "1", true),
];

/// The words that may follow the role, a line each, as Teldat's console lists what may follow.
pub(crate) fn words(sends: bool) -> String {
    let known = QUESTIONS.iter().chain(&UNASKED).filter(|(.., sender)| sends || !sender);
    let lines = known.map(|(word, about, ..)| format!("{word}  {about}\n"));
    lines.chain(["<cr>  begin\n".to_owned()]).collect()
}

/// Asks on `out`, hears on `input`; the answers as the words of a command line. An empty answer is
/// the default.
///
/// # Errors
/// When the terminal is gone, or ends before the role is known.
pub(crate) fn prompt(input: &mut dyn BufRead, out: &mut dyn Write) -> io::Result<Vec<String>> {
    let mut answer = |out: &mut dyn Write, text: &str, default: &str| -> io::Result<String> {
        let shown = if default.is_empty() { String::new() } else { format!(" [{default}]") };
        write!(out, "{text}{shown}: ")?;
        out.flush()?;
        let mut line = String::new();
        input.read_line(&mut line)?;
        Ok(Some(line.trim()).filter(|line| !line.is_empty()).unwrap_or(default).to_owned())
    };
    let role = answer(out, "Transmit or receive (tx, rx)", "rx")?;
    let sends = role.to_ascii_lowercase().starts_with('t');
    let mut words = vec![if sends { "tx" } else { "rx" }.to_owned()];
    if sends {
        let host = answer(out, "Address of the receiver", "")?;
        if host.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "no address of a receiver was given"));
        }
        words.push(host);
    }
    for (word, text, default, _) in QUESTIONS.iter().filter(|(.., sender)| sends || !sender) {
        let said = answer(out, text, default)?;
        let yes = said.to_ascii_lowercase().starts_with('y');
        match *default == NO {
            true if yes => words.push((*word).to_owned()),
            false if !said.is_empty() && said != *default => words.extend([(*word).to_owned(), said]),
            _ => {}
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompted(lines: &str) -> (Vec<String>, String) {
        let mut out = Vec::new();
        let words = prompt(&mut lines.as_bytes(), &mut out).unwrap();
        (words, String::from_utf8(out).unwrap())
    }

    #[test]
    fn empty_answers_are_the_defaults() {
        let (words, out) = prompted("");
        assert_eq!(words, ["rx"]);
        assert!(out.contains("Port number to send to or listen at [5001]: "), "{out}");
        assert!(!out.contains("Rate limit"), "a receiver has none");
    }

    #[test]
    fn answers_become_words() {
        let (words, _) = prompted("tx\n10.0.0.1\n100\n4096\n\n\ny\n\n\n\nyes\nk\n\nno\n1400\n\n");
        let want = "tx 10.0.0.1 nsrcb 100 blen 4096 verbose random frate k mss 1400";
        assert_eq!(words.join(" "), want);
        assert!(prompt(&mut "tx\n".as_bytes(), &mut io::sink()).is_err());
    }
}
