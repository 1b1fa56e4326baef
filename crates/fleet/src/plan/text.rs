//! A forecast for people.

use super::{Busiest, Forecast, GroupForecast, Plan};
use metrics::{format_bytes, format_duration, real};
use report::{Page, Table, Tone};
use std::io::{self, Write};

/// Most groups, and most hosts that count as one, that are told.
const MOST: usize = 20;

impl Forecast {
    /// Writes duration, bytes and what excludes what.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn write(
        &self,
        plan: &Plan,
        color: bool,
        columns: Option<u16>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let page = &mut Page::new(out, color).within(columns);
        let time = |ns: u64| format_duration(real(ns));
        let at_least = format!("at least {}", time(self.at_least_ns));
        let expected = match self.expected_ns {
            Some(ns) => format!("about {} ({at_least})", time(ns)),
            None => at_least,
        };
        page.line(Tone::Heading, &format!("{} tests of {} hosts: {expected}", self.tests, self.hosts))?;
        for test in &plan.tests {
            let (words, length, class) = (test.words(), time(test.length_ns), test.class.words());
            page.line(Tone::Plain, &format!("  {words}: {length} each, {class}"))?;
        }
        let limited = format!("{} of payload", format_bytes(self.bytes));
        let bytes = match (self.bytes, self.unlimited) {
            (_, 0) => limited,
            (0, _) => "as much payload as the paths carry".to_owned(),
            (_, n) => format!("{limited}, and as much as the paths carry in {n} tests"),
        };
        page.line(Tone::Plain, &format!("  {bytes}"))?;
        if self.unreachable > 0 {
            let n = self.unreachable;
            let text = format!("  {n} more tests have no way: both hosts are behind NAT, or passive.");
            page.line(Tone::Plain, &text)?;
        }
        if let Some(rounds) = self.rounds.filter(|rounds| rounds.count > 1) {
            let text = format!("  {} rounds, one every {}", rounds.count, time(rounds.every_ns));
            page.line(Tone::Plain, &text)?;
            if self.expected_ns.unwrap_or(self.at_least_ns) > rounds.every_ns.saturating_add(rounds.late_ns())
            {
                let text = "A round takes longer than the time to the next, so that rounds will be missed.";
                page.paragraph(Tone::Warning, "  ", text)?;
            }
        }
        self.exclusions(page, &time)?;
        let repeats = plan.tasks.iter().map(|task| task.repeat).max().unwrap_or(0);
        if repeats < 2 {
            page.paragraph(Tone::Plain, "", "A single pair is judged from three repeats on: --repeats 3.")?;
        }
        Ok(())
    }

    fn exclusions(&self, page: &mut Page<'_>, time: &dyn Fn(u64) -> String) -> io::Result<()> {
        page.gap()?;
        page.line(Tone::Heading, "What excludes what")?;
        for (tests, rule) in [
            (
                self.exclusive,
                "Exclusive tests: one at a time at each host, nothing but background tests beside.",
            ),
            (self.limited, "Limited tests: a few at a time at each host, never beside an exclusive one."),
            (self.background, "Background tests: beside everything, in no group."),
        ] {
            if tests > 0 {
                page.line(Tone::Plain, &format!("  {rule}"))?;
            }
        }
        if let Some(Busiest { host, tests, ns }) = &self.busiest {
            let text = format!("  The busiest host, {host}, has {tests} tests, {} of time.", time(*ns));
            page.line(Tone::Plain, &text)?;
        }
        if let Some(most) = self.most_at_once {
            page.line(Tone::Plain, &format!("  At most {most} tests run at a time."))?;
        }
        let mut table = Table::new("Group|at a time|hosts|tests|at least");
        for GroupForecast { group, tests, at_least_ns } in self.groups.iter().take(MOST) {
            let name = if group.crossing { format!("{}, to others", group.name) } else { group.name.clone() };
            let [limit, hosts, tests] = [group.limit as usize, group.hosts, *tests].map(|n| n.to_string());
            table.row(Tone::Plain, vec![name, limit, hosts, tests, time(*at_least_ns)]);
        }
        page.section(&table)?;
        if self.groups.len() > MOST {
            page.line(Tone::Plain, &format!("  and {} more groups", self.groups.len() - MOST))?;
        }
        for (resource, hosts) in self.shared.iter().take(MOST) {
            page.paragraph(Tone::Plain, "  Count as one: ", &format!("{} ({resource}).", hosts.join(", ")))?;
        }
        Ok(())
    }
}
