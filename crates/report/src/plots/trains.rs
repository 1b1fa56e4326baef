//! Packet trains: delay against the packet's number, rates train by train, and rates against the
//! spacing.

use super::{coarse_curve, coarse_histogram, percentiles, times_axis};
use crate::plot::{Axis, Plot, Series, Style};
use crate::words;
use metrics::{TrainReport, TrainRow, TrainSetting, TroubleKind, percent_of, real, seconds};
use model::{Point, Unit};

pub(super) fn plots(point: &Point) -> Vec<Plot> {
    let Some(trains) = &point.trains else { return Vec::new() };
    let report = &trains.report;
    let size = point.phase.probe.as_ref().map_or(0, |probe| probe.size);
    let mut plots = vec![over_time(report)];
    plots.extend(by_wait(report, size));
    plots.push(by_number(report));
    plots.push(gaps(report));
    plots.push(
        percentiles("train-delays", "One-way delay of packets, percentiles", "one-way delay")
            .with(report.settings.iter().filter_map(|s| Some(coarse_curve(&name(s), s.delay_ns.as_ref()?)))),
    );
    plots.push(troubles(report));
    plots
}

fn name(setting: &TrainSetting) -> String {
    words::spacing(setting.wait_ns)
}

fn by_number(report: &TrainReport) -> Plot {
    Plot::new(
        "delay-by-number",
        "One-way delay by packet number",
        Axis::new("number in the train", Unit::Count),
        Axis::new("mean one-way delay", Unit::Ns),
    )
    .note("The mean over all trains of a setting. A line that rises with the number is a queue that fills.")
    .with(report.settings.iter().map(|setting| {
        let points = setting.by_number.iter().map(|d| (f64::from(d.number), Some(d.mean_ns))).collect();
        Series::line(name(setting), points)
    }))
}

fn over_time(report: &TrainReport) -> Plot {
    let mut plot = Plot::timed(
        "train-rates",
        "Rate of each train as received",
        "rate received",
        Unit::BitsPerSecond,
    )
    .note("UDP payload after the first packet, over the time until the last arrived. Troughs are marked.")
    .with(report.settings.iter().map(|setting| {
        let own = report.trains.iter().filter(|row| row.setting == setting.setting);
        Series::line(name(setting), own.map(|row| (seconds(row.at_ns), row.receive_bps)).collect())
    }));
    for trough in report.troughs.iter().take(20) {
        let what = if trough.common { "trough of all settings" } else { "trough" };
        plot.marks.push((seconds(trough.at_ns), what.to_owned()));
    }
    plot
}

/// Rates and losses against the spacing, when several were tried.
fn by_wait(report: &TrainReport, size: u32) -> Vec<Plot> {
    if report.settings.len() < 2 {
        return Vec::new();
    }
    let mut settings: Vec<&TrainSetting> = report.settings.iter().collect();
    settings.sort_by_key(|s| s.wait_ns);
    let across = || Axis::new("time from packet to packet", Unit::Ns);
    let rate = |title: &str, style, of: fn(&TrainSetting) -> Option<metrics::Spread>| {
        let value = |s: &&TrainSetting| (real(s.wait_ns), of(s).map(|spread| spread.mean));
        let around =
            |s: &&TrainSetting| of(s).map(|spread| (spread.mean - spread.sd, spread.mean + spread.sd));
        Series {
            spread: settings.iter().map(around).collect(),
            ..Series::new(title, style, settings.iter().map(value).collect())
        }
    };
    let lost = settings.iter().map(|s| {
        let share = percent_of(s.lost, s.sent.max(1));
        (real(s.wait_ns), (s.sent > 0).then_some(share))
    });
    vec![
        Plot::new(
            "rate-by-spacing",
            &format!("Rate against the spacing of packets of {size} bytes"),
            across(),
            Axis::new("rate, UDP payload", Unit::BitsPerSecond),
        )
        .note("Mean over the trains of a setting, and their standard deviation.")
        .with([
            rate("received", Style::Line, |s| s.receive_bps),
            rate("sent", Style::Dashed, |s| s.send_bps),
        ]),
        Plot::new("loss-by-spacing", "Loss against the spacing", across(), Axis::new("lost", Unit::Percent))
            .with([Series::line("lost", lost.collect())]),
    ]
}

fn gaps(report: &TrainReport) -> Plot {
    let (x, y) = times_axis(true);
    let mut plot = Plot::new("gaps", "Time between packets", x, y)
        .note("Between arrivals in their order, and between sends.");
    for setting in &report.settings {
        let kinds = [("received", &setting.gap_ns), ("sent", &setting.send_gap_ns)];
        for (what, dist) in kinds {
            let series =
                dist.as_ref().and_then(|d| coarse_histogram(&format!("{}, {what}", name(setting)), d));
            series.into_iter().for_each(|series| plot.add(series));
        }
    }
    plot
}

/// Fates of packets: each at its time, at its number in the train.
fn troubles(report: &TrainReport) -> Plot {
    let of = |kind: TroubleKind, title: &str| {
        let own = report.troubles.iter().filter(|t| t.kind == kind);
        Series::new(
            title,
            Style::Points,
            own.map(|t| (seconds(t.intended_ns), Some(f64::from(t.number)))).collect(),
        )
    };
    let losses = |row: &TrainRow| row.lost + row.unsent + row.overtaken + row.repeated;
    let more = match report.more_troubles {
        0 => String::new(),
        n => format!(" {n} further ones are not shown."),
    };
    let all: u32 = report.trains.iter().map(losses).sum();
    Plot::timed(
        "troubles",
        "Packets lost, overtaken, repeated or not sent",
        "number in the train",
        Unit::Count,
    )
    .note(format!("{all} packets; each at the time it was to be sent.{more}"))
    .with([
        of(TroubleKind::Lost, "lost"),
        of(TroubleKind::Overtaken, "overtaken"),
        of(TroubleKind::Repeated, "repeated"),
        of(TroubleKind::Unsent, "not sent"),
    ])
}
