//! A run as a page shows it while it goes on: the parts of the report and its plots, again and again.

use super::sessions::Sessions;
use super::{SCRIPT, SCRIPT_HASH, STYLE, conditions, doubts, escape, figure, figures, title};
use crate::plot::{Axis, Plot, UNITS};
use crate::plots::{Sheet, latest_sheets, sheets};
use crate::{summary, words};
use model::{Builder, Event, Meanwhile, Outcome, doubts_so_far};
use serde_json::{Value, json};
use std::io;

/// The report's style sheet, for pages that bring their own.
pub const REPORT_STYLE: &str = STYLE;
/// The script that makes plots interactive, without anything that begins it on its own.
pub const REPORT_SCRIPT: &str = SCRIPT;

/// What a report's page may do, as a header (`Content-Security-Policy`): its own script and style, nothing else.
#[must_use]
pub fn page_policy() -> String {
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{SCRIPT_HASH}'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    )
}

/// A run that is looked at while it goes on. It stays small however long the run is.
#[derive(Clone, Debug)]
pub struct LivePage {
    builder: Builder,
    sessions: Sessions,
    ended: bool,
    /// Grows with everything that is heard.
    heard: u64,
}

impl Default for LivePage {
    fn default() -> Self {
        LivePage { builder: Builder::bounded(), sessions: Sessions::default(), ended: false, heard: 0 }
    }
}

/// What a page shows at a moment.
#[derive(Clone, Debug, Default)]
pub struct LiveView {
    /// Its title.
    pub title: String,
    /// Whether the run has ended.
    pub ended: bool,
    /// `run` or `serve`.
    pub kind: &'static str,
    /// Parts of the page: name and HTML. All that the network or a peer said is escaped.
    pub parts: Vec<(&'static str, String)>,
    /// Plots by the sheet that they stand on: its title, and the plots in order.
    pub sheets: Vec<(String, Vec<LivePlot>)>,
}

/// A plot of such a page.
#[derive(Clone, Debug)]
pub struct LivePlot {
    /// Its name, which stays.
    pub name: String,
    /// HTML of the figure without its data.
    pub frame: String,
    /// The plot as the page's script takes it.
    pub plot: Value,
}

impl LivePage {
    /// Takes in an event.
    pub fn hear(&mut self, event: &Event) {
        self.heard += 1;
        self.builder.absorb(event);
        self.sessions.hear(event);
        self.ended |= matches!(event, Event::End { .. });
    }

    /// Takes in an event of a protocol that a server speaks beside its own.
    pub fn hear_beside(&mut self, protocol: &'static str, event: &Event) {
        self.heard += 1;
        self.sessions.hear_beside(protocol, event);
    }

    /// How much was heard: as long as it stays, so does the view.
    #[must_use]
    pub fn heard(&self) -> u64 {
        self.heard
    }

    /// What was found so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.builder.outcome()
    }

    /// What is shown now.
    #[must_use]
    pub fn view(&self) -> LiveView {
        let mut outcome = self.builder.outcome();
        if !self.ended {
            Self::soften(&mut outcome);
        }
        let serving = outcome.begin.verb == "serve";
        // What earlier phases found stands in the tables until all is shown.
        let shown = if self.ended { sheets(&outcome) } else { latest_sheets(&outcome) };
        let sheets = shown.into_iter().map(|Sheet { title, plots, .. }| {
            let plots = plots.iter().map(live_plot).collect();
            (title, plots)
        });
        LiveView {
            title: if outcome.begin.verb.is_empty() { "netcaliper".to_owned() } else { title(&outcome) },
            ended: self.ended,
            kind: if serving { "serve" } else { "run" },
            sheets: sheets.collect(),
            parts: self.parts(&outcome),
        }
    }

    /// Of the phase that runs, what can be doubted already.
    fn soften(outcome: &mut Outcome) {
        if let Some(last) = outcome.points.last_mut() {
            last.doubts = doubts_so_far(last.clone(), &outcome.begin, &Meanwhile::default());
        }
    }

    fn parts(&self, outcome: &Outcome) -> Vec<(&'static str, String)> {
        let begin = &outcome.begin;
        let verdict = match self.ended {
            true => summary::verdict_line(outcome),
            false if begin.verb == "serve" => format!("Serving at {}", begin.targets.join(" and ")),
            false => summary::running_line(outcome),
        };
        let phase = outcome.points.last().filter(|_| begin.verb != "serve");
        let phase = phase.map(|point| words::phase(&point.phase)).unwrap_or_default();
        let foot = format!(
            "Run {} by netcaliper {}, protocol {}",
            begin.run,
            escape(&begin.version),
            escape(if begin.protocol.is_empty() { "native" } else { &begin.protocol })
        );
        let mut parts = vec![
            ("verdict", escape(&verdict).into_owned()),
            ("began", escape(&super::utc(begin.started)).into_owned()),
            ("phase", escape(&phase).into_owned()),
            ("foot", foot),
        ];
        if begin.verb == "serve" {
            parts.push(("sessions", self.sessions.html()));
        }
        for (name, write) in [
            ("doubts", doubts as fn(&Outcome, &mut dyn io::Write) -> io::Result<()>),
            ("figures", figures),
            ("conditions", conditions),
        ] {
            parts.push((name, written(outcome, write)));
        }
        parts
    }
}

fn written(outcome: &Outcome, write: fn(&Outcome, &mut dyn io::Write) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    match write(outcome, &mut out) {
        Ok(()) => String::from_utf8(out).unwrap_or_default(),
        // Memory takes everything.
        Err(_) => String::new(),
    }
}

fn live_plot(plot: &Plot) -> LivePlot {
    // The script draws all of it: without data there is a frame to draw in.
    let bare = Plot {
        x: Axis { names: Vec::new(), ..plot.x.clone() },
        series: Vec::new(),
        marks: Vec::new(),
        ..plot.clone()
    };
    let mut frame = Vec::new();
    let framed = figure(&bare, 0, &mut frame).ok().and_then(|()| String::from_utf8(frame).ok());
    LivePlot { name: plot.name.clone(), frame: framed.unwrap_or_default(), plot: plot.json() }
}

/// The units of plots, as the page's script takes them.
#[must_use]
pub fn live_units() -> Value {
    let unit = |(name, unit): &(&str, crate::plot::Unit)| {
        let (base, prefixes, suffix) = unit.words();
        ((*name).to_owned(), json!({ "base": base, "prefixes": prefixes, "suffix": suffix }))
    };
    Value::Object(UNITS.iter().map(unit).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::SECOND;
    use model::{Begin, Interval, Status, Traffic};
    use std::collections::BTreeMap;

    const EVIL: &str = "</script><img src=x onerror=\"x\">'";

    fn run(page: &mut LivePage, phases: u32) {
        let begin = Begin { verb: "tcp".to_owned(), targets: vec![EVIL.to_owned()], ..Begin::default() };
        page.hear(&Event::Begin(Box::new(begin)));
        for repeat in 1..=phases {
            let label = BTreeMap::from([(EVIL.to_owned(), EVIL.to_owned())]);
            page.hear(&Event::Phase { label, repeat, phase: Box::default() });
            for index in 0..5 {
                let near = Traffic { tx_bytes: 1_000, rx_bytes: 0, ns: SECOND };
                let (start_ns, end_ns) = (u64::from(index) * SECOND, u64::from(index + 1) * SECOND);
                let interval = Interval { index, start_ns, end_ns, near, ..Interval::default() };
                page.hear(&Event::Interval(Box::new(interval)));
            }
        }
    }

    #[test]
    fn a_sweep_shows_its_latest_phase_and_in_the_end_all() {
        let mut page = LivePage::default();
        run(&mut page, 4);
        let titles = |page: &LivePage| page.view().sheets.into_iter().map(|s| s.0).collect::<Vec<_>>();
        let shown = titles(&page);
        assert!(shown.last().unwrap().ends_with("repetition 4"), "{shown:?}");
        assert!(!shown.iter().any(|title| title.ends_with("repetition 2")), "{shown:?}");
        assert!(!page.view().ended);
        page.hear(&Event::End { status: Status::Complete, reason: None });
        let all = titles(&page);
        for n in 2..=4 {
            assert!(all.iter().any(|title| title.ends_with(&format!("repetition {n}"))), "{all:?}");
        }
        assert!(page.view().ended);
    }

    #[test]
    fn nothing_of_a_view_is_markup_that_a_peer_chose() {
        let mut page = LivePage::default();
        run(&mut page, 2);
        let view = page.view();
        assert!(view.parts.iter().any(|(_, html)| html.contains("&lt;img src=x")), "it is there, as text");
        let frames = view.sheets.iter().flat_map(|s| &s.1).map(|plot| plot.frame.as_str());
        for html in view.parts.iter().map(|(_, html)| html.as_str()).chain(frames) {
            assert!(!html.contains("<img") && !html.contains("<script"), "{html}");
        }
    }

    #[test]
    fn a_page_is_there_before_anything_came() {
        let page = LivePage::default();
        assert_eq!(page.view().title, "netcaliper");
    }
}
