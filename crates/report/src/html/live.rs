//! A run as a page shows it while it goes on: the parts of the report and its plots, again and
//! again.

use super::sessions::Sessions;
use super::{SCRIPT_HASH, caveats, conditions, escape, figure, figures, first, origin, title, zeros};
use crate::plot::{Axis, AxisUnit, Plot};
use crate::plots::{Sheet, latest_sheets, sheets};
use crate::text::Page;
use crate::{summary, words};
use model::{Builder, Event, Outcome, caveats_so_far};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Rights of a report's page, as a header (`Content-Security-Policy`): its own script and style,
/// nothing else.
pub fn page_policy() -> String {
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{SCRIPT_HASH}'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    )
}

/// A view of a running run. The page stays small however long the run is.
#[derive(Clone, Debug)]
pub struct LivePage {
    builder: Builder,
    /// Concurrent measurements, in the order in which their events are replayed to the builder at
    /// the end.
    parts: BTreeMap<u32, Builder>,
    sessions: Sessions,
    ended: bool,
    /// Number of events taken in: while it stays the same, so does the view.
    pub heard: u64,
}

impl Default for LivePage {
    fn default() -> Self {
        LivePage {
            builder: Builder::bounded(),
            parts: BTreeMap::new(),
            sessions: Sessions::default(),
            ended: false,
            heard: 0,
        }
    }
}

/// The page at a moment.
#[derive(Clone, Debug, Default)]
pub struct LiveView {
    pub title: String,
    pub run: String,
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
    pub fn absorb(&mut self, event: &Event) {
        self.heard += 1;
        if matches!(event, Event::Phase { .. }) {
            // The view of the running part goes: the events of the whole part follow.
            self.parts.pop_first();
        }
        self.builder.absorb(event);
        self.sessions.absorb(event);
        self.ended |= matches!(event, Event::End { .. });
    }

    /// Takes in an event of a protocol that a server speaks beside its own.
    pub fn absorb_side(&mut self, protocol: &'static str, event: &Event) {
        self.heard += 1;
        self.sessions.absorb_side(protocol, event);
    }

    /// Takes in an event of a concurrent measurement. At the end all its events are replayed
    /// ([`LivePage::absorb`]), one measurement after the other in the order of their `place`.
    pub fn absorb_part(&mut self, place: u32, event: &Event) {
        self.heard += 1;
        self.parts.entry(place).or_insert_with(|| self.builder.for_concurrent()).absorb(event);
    }

    pub fn outcome(&self) -> Outcome {
        self.builder.outcome_with(self.parts.values())
    }

    pub fn view(&self) -> LiveView {
        let mut outcome = self.outcome();
        if !self.ended {
            self.soften(&mut outcome);
        }
        let serving = outcome.begin.verb == "serve";
        // Results of earlier phases stand in the tables; the report has the plots of each.
        let mut shown = if self.ended { sheets(&outcome) } else { latest_sheets(&outcome) };
        if self.ended && shown.iter().any(|sheet| !sheet.single) {
            shown.retain(|sheet| !sheet.single);
        }
        let mut parts = self.parts(&outcome);
        parts.push(("zeros", written(|page| shown.iter().for_each(|sheet| zeros(sheet, page)))));
        let sheets = shown.into_iter().map(|Sheet { title, plots, .. }| {
            let plots = plots.iter().map(live_plot).collect();
            (title, plots)
        });
        LiveView {
            run: outcome.begin.run.to_string(),
            title: if outcome.begin.verb.is_empty() { "netcaliper".to_owned() } else { title(&outcome) },
            ended: self.ended,
            kind: if serving { "serve" } else { "run" },
            sheets: sheets.collect(),
            parts,
        }
    }

    /// Caveats so far, of the phases that run.
    fn soften(&self, outcome: &mut Outcome) {
        let own = self.parts.is_empty().then_some(&self.builder);
        let running = self.parts.values().chain(own);
        for (point, builder) in outcome.points.iter_mut().rev().zip(running.rev()) {
            point.caveats = caveats_so_far(point.clone(), &outcome.begin, &builder.meanwhile());
        }
    }

    fn parts(&self, outcome: &Outcome) -> Vec<(&'static str, String)> {
        let begin = &outcome.begin;
        let verdict = match self.ended {
            true => summary::verdict_line(outcome),
            false if begin.verb == "serve" => format!("Serving at {}", begin.targets.join(" and ")),
            false => summary::result_line("Running", &summary::result_words_of_all(outcome)),
        };
        let phase = outcome.points.last().filter(|_| begin.verb != "serve");
        let phase = phase.map(|point| words::phase(&point.phase)).unwrap_or_default();

        let mut parts = vec![
            ("verdict", escape(&verdict).into_owned()),
            ("began", escape(&super::utc(begin.started)).into_owned()),
            ("phase", escape(&phase).into_owned()),
            ("foot", origin(begin)),
        ];
        let last = outcome.points.last().and_then(|point| point.intervals.last());
        if begin.verb == "serve" {
            parts.push(("sessions", written(|page| self.sessions.write(page))));
            parts.push(("first", written(|page| first::tiled(self.sessions.tiles(last), page))));
        } else {
            let first = written(|page| {
                first::write(outcome, page);
            });
            parts.push(("first", first));
        }
        parts.extend([
            ("caveats", written(|page| caveats(outcome, page))),
            ("figures", written(|page| figures(outcome, page))),
            ("conditions", written(|page| conditions(outcome, page))),
        ]);
        parts
    }
}

/// The output of `write`. Writes to memory cannot fail.
pub(super) fn written(write: impl FnOnce(&mut Page<'_>)) -> String {
    let mut out = Vec::new();
    write(&mut Page::html(&mut out));
    String::from_utf8(out).unwrap_or_default()
}

fn live_plot(plot: &Plot) -> LivePlot {
    // The script draws all of it: without data there is a frame to draw in.
    let bare = Plot {
        x: Axis { names: Vec::new(), ..plot.x.clone() },
        series: Vec::new(),
        marks: Vec::new(),
        ..plot.clone()
    };
    LivePlot { name: plot.name.clone(), frame: written(|page| figure(&bare, 0, page)), plot: plot.json() }
}

/// The units of plots, as the page's script takes them.
pub fn live_units() -> Value {
    let unit = |unit: AxisUnit| {
        let (base, prefixes, suffix) = unit.words();
        (unit.name().to_owned(), json!({ "base": base, "prefixes": prefixes, "suffix": suffix }))
    };
    Value::Object(AxisUnit::all().map(unit).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::{SECOND, TcpInfo};
    use model::load::{Load, Stage};
    use model::{Begin, Interval, Phase, Sample, Status, Traffic};

    const EVIL: &str = "</script><img src=x onerror=\"x\">'";

    fn run(page: &mut LivePage, phases: u32) {
        let begin = Begin { verb: "tcp".to_owned(), targets: vec![EVIL.to_owned()], ..Begin::default() };
        page.absorb(&Event::Begin(Box::new(begin)));
        for repeat in 1..=phases {
            let label = BTreeMap::from([(EVIL.to_owned(), EVIL.to_owned())]);
            page.absorb(&Event::Phase { label, repeat, phase: Box::default() });
            for index in 0..5 {
                let local = Traffic { tx_bytes: 1_000, rx_bytes: 0, ns: SECOND, ..Traffic::default() };
                let (start_ns, end_ns) = (u64::from(index) * SECOND, u64::from(index + 1) * SECOND);
                let interval = Interval { index, start_ns, end_ns, local, ..Interval::default() };
                page.absorb(&Event::Interval(Box::new(interval)));
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
        page.absorb(&Event::End { status: Status::Complete, reason: None });
        let all = titles(&page);
        for n in 2..=4 {
            assert!(all.iter().any(|title| title.ends_with(&format!("repetition {n}"))), "{all:?}");
        }
        assert!(page.view().ended);
    }

    #[test]
    fn plots_that_would_show_zeros_alone_are_named() {
        let mut page = LivePage::default();
        run(&mut page, 1);
        let info = TcpInfo { rtt_us: 20_000, cwnd: 10, snd_mss: 1_448, ..TcpInfo::default() };
        let samples = vec![Sample { id: uuid::Uuid::nil(), slot: 0, tx_bytes: 1, rx_bytes: 0, info }];
        let (start_ns, end_ns) = (5 * SECOND, 6 * SECOND);
        let interval = Interval { index: 5, start_ns, end_ns, samples, ..Interval::default() };
        page.absorb(&Event::Interval(Box::new(interval)));
        let view = page.view();
        let (_, zeros) = view.parts.iter().find(|(name, _)| *name == "zeros").unwrap();
        assert!(zeros.contains("Zero throughout") && zeros.contains("Segments retransmitted"), "{zeros}");
        let drawn = view.sheets.iter().flat_map(|sheet| &sheet.1);
        assert!(!drawn.into_iter().any(|plot| plot.name.contains("retransmits")));
    }

    #[test]
    fn parts_of_a_stage_are_shown_while_they_run_and_once_when_it_is_over() {
        let filler = Phase { duration_ns: Some(10 * SECOND), ..Phase::default() };
        let load = Load { filler, ramp_ns: SECOND, rate: 50.0, servers: 1, seed: 1, ecn: None };
        let mut page = LivePage::default();
        page.absorb(&Event::Begin(Box::new(Begin { verb: "load".to_owned(), ..Begin::default() })));
        let titles = |page: &LivePage| page.view().sheets.into_iter().map(|s| s.0).collect::<Vec<_>>();
        let interval = |index: u32| {
            let local = Traffic { tx_bytes: 1_000_000, rx_bytes: 0, ns: SECOND, ..Traffic::default() };
            let (start_ns, end_ns) = (u64::from(index) * SECOND, u64::from(index + 1) * SECOND);
            Event::Interval(Box::new(Interval { index, start_ns, end_ns, local, ..Interval::default() }))
        };
        for stage in [Stage::Idle, Stage::Up] {
            let parts: Vec<_> = load.probes(stage).into_iter().chain(load.filler(stage)).collect();
            let phase = |(label, phase): &(BTreeMap<_, _>, Phase)| {
                let (label, phase) = (label.clone(), Box::new(phase.clone()));
                Event::Phase { label, repeat: 1, phase }
            };
            for (place, part) in (0..).zip(&parts) {
                page.absorb_part(place, &phase(part));
                (0..3).for_each(|index| page.absorb_part(place, &interval(index)));
            }
            let during = titles(&page);
            for part in &parts {
                page.absorb(&phase(part));
                (0..3).for_each(|index| page.absorb(&interval(index)));
                assert_eq!(titles(&page), during, "none is doubled or gone, however far that has come");
            }
            assert_eq!(page.outcome().points.len(), if stage == Stage::Idle { 2 } else { 5 });
            if stage != Stage::Idle {
                assert!(during.iter().any(|title| title.contains("load")), "{during:?}");
                assert!(!during.iter().any(|title| title.contains("idle")), "{during:?}");
            }
        }
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
