//! The fate of an entry after a receiver's answer.

use std::time::Duration;

/// Longest part of an answer's text that a sentence repeats, characters.
const MOST_SAID: usize = 160;

/// Fate of an entry after an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Taken, with a remark of the receiver where it left out a part.
    Taken(Option<String>),
    /// Not taken now: the same request may succeed later, after this time if one is named.
    Later(String, Option<Duration>),
    /// Not taken until the user has changed something; the entry waits.
    Refused(String),
    /// Never to be taken: the entry is given up.
    Invalid(String),
}

/// The parts of a response that count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) location: Option<String>,
    pub(crate) retry_after: Option<String>,
    /// The beginning of the body.
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The fate of the entry that was answered so.
    pub(crate) fn judge(&self) -> Answer {
        let text = String::from_utf8_lossy(&self.body);
        let said = match one_line(&text) {
            said if said.is_empty() => format!("HTTP status {}", self.status),
            said => format!("HTTP status {}: {said}", self.status),
        };
        match self.status {
            200..=299 => Answer::Taken(partial_success(&text)),
            300..=399 => {
                let to = self.location.as_deref().map(one_line).filter(|to| !to.is_empty());
                let to = to.map_or_else(|| "elsewhere".to_owned(), |to| format!("to {to}"));
                Answer::Refused(format!("the receiver redirects {to}, which is not followed: give that URL"))
            }
            401 | 403 => Answer::Refused(format!(
                "{said}; NETCALIPER_EXPORT_TOKEN or --export-token-file gives the token of this receiver"
            )),
            408 | 429 | 500..=599 => {
                let wait = self.retry_after.as_deref().and_then(|text| text.trim().parse().ok());
                Answer::Later(said, wait.map(Duration::from_secs))
            }
            400 | 413 | 415 | 422 => Answer::Invalid(said),
            _ => Answer::Refused(said),
        }
    }
}

/// The number of points that a receiver of OTLP did not take, and why: the rest is taken.
fn partial_success(body: &str) -> Option<String> {
    let document: serde_json::Value = serde_json::from_str(body).ok()?;
    let partial = document.get("partialSuccess")?;
    let rejected = partial.get("rejectedDataPoints");
    let rejected =
        rejected.and_then(|n| n.as_str().map_or(n.as_u64(), |text| text.parse().ok())).unwrap_or(0);
    let why = one_line(partial.get("errorMessage").and_then(serde_json::Value::as_str).unwrap_or_default());
    let colon = if why.is_empty() { "" } else { ": " };
    (rejected > 0).then(|| format!("the receiver left out {rejected} figures{colon}{why}"))
}

/// A part of an answer as one line: control characters and line breaks are spaces.
fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_control() || c.is_whitespace()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").chars().take(MOST_SAID).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(status: u16, body: &str) -> Answer {
        Response { status, body: body.as_bytes().to_vec(), ..Response::default() }.judge()
    }

    #[test]
    fn a_status_decides_what_becomes_of_an_entry() {
        for status in [200, 202, 204] {
            assert_eq!(judged(status, ""), Answer::Taken(None), "{status}");
        }
        for status in [408, 429, 500, 502, 503, 504] {
            assert!(matches!(judged(status, "busy"), Answer::Later(..)), "{status}");
        }
        for status in [301, 307, 401, 403, 404, 405, 418] {
            assert!(matches!(judged(status, ""), Answer::Refused(_)), "{status}");
        }
        for status in [400, 413, 415, 422] {
            assert!(matches!(judged(status, ""), Answer::Invalid(_)), "{status}");
        }
    }

    #[test]
    fn sentences_have_one_line_whatever_the_answer_says() {
        let Answer::Invalid(why) = judged(400, "{\"error\":\n \"bad \u{1b}[31mpoint\"}") else {
            panic!("judged otherwise")
        };
        assert_eq!(why, "HTTP status 400: {\"error\": \"bad [31mpoint\"}");
        let Answer::Refused(why) = judged(404, &"x".repeat(10_000)) else { panic!("judged otherwise") };
        assert!(why.len() < 200, "{why}");
    }

    #[test]
    fn a_time_to_wait_is_in_seconds() {
        let response =
            |text: &str| Response { status: 503, retry_after: Some(text.to_owned()), ..Response::default() };
        let wait = |text: &str| match response(text).judge() {
            Answer::Later(_, wait) => wait,
            other => panic!("{other:?}"),
        };
        assert_eq!(wait("7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("Fri, 31 Dec 1999 23:59:59 GMT"), None);
    }

    #[test]
    fn a_partial_success_is_told() {
        let body = r#"{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"too old"}}"#;
        assert_eq!(
            judged(200, body),
            Answer::Taken(Some("the receiver left out 3 figures: too old".to_owned()))
        );
        assert_eq!(judged(200, r#"{"partialSuccess":{}}"#), Answer::Taken(None));
    }
}
