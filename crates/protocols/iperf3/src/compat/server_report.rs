//! A server's printout: the tests of many clients at once, printed one after the other.

use super::json::Facts;
use super::text::{Report, Style};
use crate::{Bulk, BulkNews};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Bytes that are kept of a test that has to wait; what goes beyond is left out.
const LONGEST: usize = 1 << 20;
/// Finished tests that wait for an older one that is not; of further ones only the number is
/// printed.
const MOST_OVER: usize = 1_000;

/// The printout of a server. The first test is printed as it happens; concurrent ones when they are
/// over, each as a whole, so that the lines of two tests are never mixed.
#[derive(Debug)]
pub(crate) struct ServerReport {
    style: Style,
    facts: Facts,
    port: u16,
    ended: u64,
    tests: BTreeMap<u64, TestReport>,
    /// Number of finished ones, and of further ones that were not kept.
    over: usize,
    left_out: u64,
    /// The server ends after one test: the next banner is printed only when there is another.
    once: bool,
    held: bool,
}

#[derive(Debug)]
struct TestReport {
    report: Report,
    waiting: String,
    over: bool,
}

impl ServerReport {
    /// A printout in this style of a server at this port, which ends after one test where it serves
    /// `once`.
    pub(crate) fn new(style: Style, facts: Facts, port: u16, once: bool) -> Self {
        let (ended, over, left_out, held) = (0, 0, 0, false);
        ServerReport { style, facts, port, ended, tests: BTreeMap::new(), over, left_out, once, held }
    }

    /// Lines printed while waiting for a client.
    pub(crate) fn banner(&self) -> String {
        let rule = "-".repeat(59);
        format!("{rule}\nServer listening on {} (test #{})\n{rule}\n", self.port, self.ended + 1)
    }

    /// Takes in news of a test; returns the lines to print now.
    pub(crate) fn on_event(&mut self, bulk: &Bulk) -> String {
        let test = self.tests.entry(bulk.test).or_insert_with(|| TestReport {
            report: Report::new(self.style.clone(), self.facts.clone()),
            waiting: String::new(),
            over: false,
        });
        let lines = test.report.on_event(&bulk.news);
        if test.waiting.len() < LONGEST {
            test.waiting.push_str(&lines);
        }
        if matches!(bulk.news, BulkNews::Ended(_) | BulkNews::Failed { .. })
            && !std::mem::replace(&mut test.over, true)
        {
            self.over += 1;
            let oldest = self.tests.first_key_value().is_some_and(|(oldest, _)| *oldest == bulk.test);
            if self.over > MOST_OVER && !oldest {
                self.tests.remove(&bulk.test);
                self.over -= 1;
                self.ended += 1;
                self.left_out += 1;
            }
        }
        let mut out = if std::mem::take(&mut self.held) { self.banner() } else { String::new() };
        while let Some(mut first) = self.tests.first_entry() {
            out.push_str(&std::mem::take(&mut first.get_mut().waiting));
            if !first.get().over {
                return out;
            }
            first.remove();
            self.over -= 1;
            self.ended += 1;
            let left_out = std::mem::take(&mut self.left_out);
            if left_out > 0 {
                let tests = metrics::format_count(left_out, "further test");
                let _ = writeln!(out, "({tests} ended while this one ran: no report was kept)");
            }
        }
        self.held = self.once;
        if !self.held {
            out.push_str(&self.banner());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::Wall;

    #[test]
    fn lines_of_two_tests_are_never_mixed() {
        let mut server_report = ServerReport::new(Style::USUAL, Facts::default(), 5201, false);
        let met = |test: u64| {
            let peer = ([10, 0, 0, test as u8], 4).into();
            let local = ([10, 0, 0, 9], 5201).into();
            Bulk { test, news: BulkNews::Met { peer, local, cookie: String::new(), at: Wall(0) } }
        };
        let over = |test| Bulk { test, news: BulkNews::Failed { error: String::new() } };
        assert!(server_report.banner().contains("(test #1)"));
        assert_eq!(server_report.on_event(&met(1)), "Accepted connection from 10.0.0.1, port 4\n");
        assert_eq!(server_report.on_event(&met(2)), "");
        assert_eq!(server_report.on_event(&over(2)), "");
        let told = server_report.on_event(&over(1));
        assert!(told.starts_with("Accepted connection from 10.0.0.2, port 4\n---"), "{told}");
        assert!(told.contains("(test #3)"));

        // Of many that wait for one a thousand are kept.
        assert!(server_report.on_event(&met(3)).contains("port 4\n"));
        for test in 4..1_504 {
            assert_eq!(server_report.on_event(&met(test)) + &server_report.on_event(&over(test)), "");
        }
        let told = server_report.on_event(&over(3));
        assert_eq!(told.matches("Accepted connection").count(), 1_000);
        assert!(
            told.starts_with("(500 further tests ended while this one ran") && told.contains("(test #1504)"),
            "{told}"
        );

        // After its only test a server prints no banner; one that did not count is followed by
        // another.
        let mut server_report = ServerReport::new(Style::USUAL, Facts::default(), 5201, true);
        server_report.on_event(&met(1));
        assert_eq!(server_report.on_event(&over(1)), "");
        let told = server_report.on_event(&met(2));
        assert!(told.contains("(test #2)") && told.ends_with("from 10.0.0.2, port 4\n"), "{told}");
    }
}
