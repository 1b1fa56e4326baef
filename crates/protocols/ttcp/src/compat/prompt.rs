//! Asks for what a bare command line leaves open, as Teldat's does.

use std::io::{self, BufRead, Write};

/// A question: the word it sets, what it is about, and the default.
struct Question {
    word: &'static str,
    text: &'static str,
    default: &'static str,
    /// Only a sender is asked.
    sender: bool,
    /// A yes makes the word, without a value.
    flag: bool,
}

const fn value(word: &'static str, text: &'static str, default: &'static str, sender: bool) -> Question {
    Question { word, text, default, sender, flag: false }
}

const fn flag(word: &'static str, text: &'static str, sender: bool) -> Question {
    Question { word, text, default: "no", sender, flag: true }
}

const QUESTIONS: &[Question] = &[
    value("nsrcb", "Number of source buffers transmitted", "2048", true),
    value("blen", "Length of buffers read from or written to the network", "8192", false),
    value("port", "Port number to send to or listen at", "5001", false),
    value("timeout", "Time without data after which the receiver ends, ms (0: none)", "0", false),
    flag("verbose", "More statistics", false),
    flag("phmarks", "Print a # per buffer", false),
    value("sbsize", "Socket buffer size", "65535", false),
    value("nsrcbb", "Number of buffers in a burst, with a rate limit (none: an even rate)", "", true),
    flag("random", "Random data", true),
    value("frate", "Unit of the rate (b, k, m, g bits; B, K, M, G bytes)", "", false),
    value("rlimit", "Rate limit, kbit/s", "", true),
    flag("perc", "Print the progress in percent", true),
    value("mss", "Maximum segment size", "1340", false),
    value("time", "Time to send, s; without one the number of buffers decides", "", true),
];

/// Asks on `out`, hears on `input`; the answers as the words of a command line. An empty answer is the default.
///
/// # Errors
/// When the terminal is gone, or ends before the role is known.
pub(crate) fn prompt(input: &mut dyn BufRead, out: &mut dyn Write) -> io::Result<Vec<String>> {
    let mut answer = |out: &mut dyn Write, text: &str, default: &str| -> io::Result<String> {
        if default.is_empty() {
            write!(out, "{text}: ")?;
        } else {
            write!(out, "{text} [{default}]: ")?;
        }
        out.flush()?;
        let mut line = String::new();
        let ended = input.read_line(&mut line)? == 0;
        let line = line.trim();
        if ended && default.is_empty() {
            return Ok(String::new());
        }
        Ok(if line.is_empty() { default } else { line }.to_owned())
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
    for question in QUESTIONS.iter().filter(|question| sends || !question.sender) {
        let said = answer(out, question.text, question.default)?;
        let yes = said.to_ascii_lowercase().starts_with('y');
        match question.flag {
            true if yes => words.push(question.word.to_owned()),
            false if !said.is_empty() && said != question.default => {
                words.extend([question.word.to_owned(), said]);
            }
            _ => {}
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(lines: &str) -> (Vec<String>, String) {
        let mut out = Vec::new();
        let words = prompt(&mut lines.as_bytes(), &mut out).unwrap();
        (words, String::from_utf8(out).unwrap())
    }

    #[test]
    fn empty_answers_are_the_defaults() {
        let (words, out) = asked("");
        assert_eq!(words, ["rx"]);
        assert!(out.contains("Port number to send to or listen at [5001]: "), "{out}");
        assert!(!out.contains("Rate limit"), "a receiver has none");
    }

    #[test]
    fn answers_become_words() {
        let (words, _) = asked("tx\n10.0.0.1\n100\n4096\n\n\ny\n\n\n\nyes\nk\n\nno\n1400\n\n");
        let want = "tx 10.0.0.1 nsrcb 100 blen 4096 verbose random frate k mss 1400";
        assert_eq!(words.join(" "), want);
        assert!(prompt(&mut "tx\n".as_bytes(), &mut io::sink()).is_err());
    }
}
