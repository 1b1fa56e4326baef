//! Packet trains: rates, dispersion, delays, and what befell packets.

use super::extras;
use crate::text::{Column, FEW_TIMES, Page, Table, Tone, or_dash};
use crate::words;
use metrics::{
    Clamped, Spread, TrainReport, TrainRow, TrainSetting, Trouble, TroubleKind, Trough,
    format_bits_per_second, format_duration,
};
use model::{Point, Trains};

/// Packets that something befell, troughs and trains shown; the CSV and the JSON have more.
const MOST_SHOWN: usize = 20;
/// Packet numbers whose delay is shown.
const NUMBERS: usize = 8;

/// The result in a few words.
pub(super) fn result_words(point: &Point) -> Vec<String> {
    let Some(trains) = &point.trains else { return vec!["no train confirmed by both ends".to_owned()] };
    let settings = &trains.report.settings;
    let of = |s: &TrainSetting| {
        let rate = s.train_bps.map_or("no rate".to_owned(), |q| format_bits_per_second(q.median));
        format!("{rate} with packets {}", wait(s))
    };
    let mut all: Vec<String> = settings.iter().map(of).collect();
    let lost: u64 = settings.iter().map(|s| s.lost).sum();
    all.extend(words::counted([(lost, "lost")]));
    all
}

/// All about the trains of `point`.
pub(super) fn write(point: &Point, verbose: bool, page: &mut Page<'_>) {
    let Some(trains) = &point.trains else {
        if extras::any(point) {
            return;
        }
        return page.line(Tone::Bad, "No trains: the log of an end is missing");
    };
    let report = &trains.report;
    rates(report, page);
    dispersion(trains, page);
    delays(trains, page);
    echoes(report, page);
    by_number(report, page);
    if verbose {
        gaps(report, page);
        series(report, page);
    }
    troughs(report, page);
    troubles(report, page);
}

fn wait(setting: &TrainSetting) -> String {
    words::spacing(setting.wait_ns)
}

fn rate(bps: Option<f64>) -> String {
    or_dash(bps, format_bits_per_second)
}

fn spread(of: Option<Spread>) -> [String; 2] {
    [rate(of.map(|s| s.mean)), rate(of.filter(|s| s.n > 1).map(|s| s.sd))]
}

fn rates(report: &TrainReport, page: &mut Page<'_>) {
    let mut table = Table::new(
        "Trains (UDP payload)|trains|sent|received|lost|overtaken|repeated|not sent|sent at|± sd|received at|± sd",
    );
    for s in &report.settings {
        let mut cells = vec![wait(s), s.trains.to_string()];
        cells.extend([s.sent, s.received, s.lost, s.overtaken, s.repeated, s.unsent].map(|n| n.to_string()));
        cells.extend(spread(s.send_bps));
        cells.extend(spread(s.receive_bps));
        table.row(Tone::bad_if(s.lost > 0), cells);
    }
    page.table(&table);
}

fn dispersion(trains: &Trains, page: &mut Page<'_>) {
    let columns: [Column<&TrainSetting>; 7] = [
        ("trains p50", |s| rate(s.train_bps.map(|q| q.median))),
        ("p25", |s| rate(s.train_bps.map(|q| q.q1))),
        ("p75", |s| rate(s.train_bps.map(|q| q.q3))),
        ("pairs p50", |s| rate(s.pair_bps.map(|q| q.median))),
        ("p25", |s| rate(s.pair_bps.map(|q| q.q1))),
        ("p75", |s| rate(s.pair_bps.map(|q| q.q3))),
        ("stretched", |s| {
            or_dash(s.stretched, |yes| if yes { "yes" } else { "no: a lower bound" }.to_owned())
        }),
    ];
    let rows = trains.report.settings.iter().map(|s| (Tone::Plain, wait(s), s));
    page.section(&Table::of("Dispersion rate (IP)", &columns, rows));
    page.remark(format!(
        "pairs estimate the capacity of the narrow link, if nothing else shared it; long trains its available rate. \
         IP packets, with {} bytes of headers",
        trains.headers
    ));
}

fn delays(trains: &Trains, page: &mut Page<'_>) {
    let mut table = Table::new(&format!("One-way delay|{FEW_TIMES}"));
    trains.report.settings.iter().for_each(|s| table.few_times(&wait(s), s.delay_ns.as_ref()));
    if table.is_empty() {
        return;
    }
    page.section(&table);
    let report = &trains.report;
    let received: u64 = report.settings.iter().map(|s| s.received).sum();
    let before: u64 = report.settings.iter().map(|s| s.before_sent).sum();
    let mut words = vec![format!("right to ±{}", format_duration(trains.clock_bound_ns))];
    words.push(stamps(report, received));
    words.extend(words::counted([
        (before, "seemed to arrive before they were sent, taken for 0"),
        (trains.left_out, "arrivals not remembered"),
    ]));
    page.remark(words.join(", "));
}

/// Source of the receive timestamps.
fn stamps(report: &TrainReport, received: u64) -> String {
    let (kernel, card) = (report.kernel_stamped, report.card_stamped);
    match (kernel, card) {
        (n, 0) if n == received => "kernel receive stamps".to_owned(),
        (0, n) if n == received => "receive stamps of the network card".to_owned(),
        (_, 0) => format!("{kernel} of {received} stamped by the kernel, the others by the program"),
        (0, _) => format!("{card} of {received} stamped by the network card, the others by the program"),
        _ => {
            let all = format!("{card} of {received} stamped by the network card, {kernel} by the kernel");
            if kernel + card < received { all + ", the others by the program" } else { all }
        }
    }
}

/// Returned packets: two-way rates, round trips, and the time for each packet.
fn echoes(report: &TrainReport, page: &mut Page<'_>) {
    let mut table = Table::new(
        "Echoed (two-way)|returned|lost there|lost back|two-way rate|± sd|back at|± sd|time per packet",
    );
    let mut times = Table::new(&format!("Round trip|{FEW_TIMES}"));
    for (s, e) in report.settings.iter().filter_map(|s| Some((s, s.echo.as_deref()?))) {
        let mut cells = vec![wait(s)];
        cells.extend([e.returned, e.lost_there, e.lost_back].map(|n| n.to_string()));
        cells.extend(spread(e.two_way_bps));
        cells.extend(spread(e.back_bps));
        cells.push(or_dash(e.frame_ns, |f| format_duration(f.mean)));
        table.row(Tone::bad_if(e.lost_there + e.lost_back > 0), cells);
        times.few_times(&wait(s), e.round_trip_ns.as_ref());
        times.few_times("  held by the remote end", e.held_ns.as_ref());
        times.few_times("  without that", e.path_ns.as_ref());
    }
    if table.is_empty() {
        return;
    }
    page.section(&table);
    page.remark(
        "the two-way rate is the UDP payload that went both ways over the time from the first send to the last return; \
         it is no rate of either way",
    );
    page.section(&times);
}

/// The delay of a few numbers, evenly from the first to the last: it rises where a queue builds up.
fn by_number(report: &TrainReport, page: &mut Page<'_>) {
    let longest = report.settings.iter().filter_map(|s| s.by_number.last()).map(|d| d.number).max();
    let Some(last) = longest.filter(|&last| last > 0).map(usize::clamped) else { return };
    let mut numbers: Vec<u32> = (0..NUMBERS).map(|i| u32::clamped(i * last / (NUMBERS - 1))).collect();
    numbers.dedup();
    let titles = numbers.iter().map(|n| (n + 1).to_string());
    let mut table = Table::under(std::iter::once("Mean delay of packet".to_owned()).chain(titles).collect());
    for s in &report.settings {
        let at =
            |n: &u32| or_dash(s.by_number.iter().find(|d| d.number == *n), |d| format_duration(d.mean_ns));
        table.row(Tone::Plain, std::iter::once(wait(s)).chain(numbers.iter().map(at)).collect());
    }
    page.section(&table);
}

fn gaps(report: &TrainReport, page: &mut Page<'_>) {
    for s in &report.settings {
        let Some(gap) = &s.gap_ns else { continue };
        let mut table = Table::new(&format!("Time between arrivals, {}: up to|packets", wait(s)));
        for (up_to, n) in &gap.buckets {
            table.row(Tone::Plain, vec![format_duration(*up_to), n.to_string()]);
        }
        page.section(&table);
    }
}

fn series(report: &TrainReport, page: &mut Page<'_>) {
    type Row<'a> = (&'a TrainRow, Option<&'a TrainSetting>);
    let columns: [Column<Row<'_>>; 8] = [
        ("setting", |(_, setting)| or_dash(*setting, wait)),
        ("at", |(row, _)| format_duration(row.at_ns)),
        ("sent", |(row, _)| row.sent.to_string()),
        ("received", |(row, _)| row.received.to_string()),
        ("sent at", |(row, _)| rate(row.send_bps)),
        ("received at", |(row, _)| rate(row.receive_bps)),
        ("dispersion", |(row, _)| or_dash(row.dispersion_ns, format_duration)),
        ("delay mean", |(row, _)| or_dash(row.delay_mean_ns, format_duration)),
    ];
    let rows = report.trains.iter().take(10 * MOST_SHOWN).map(|row| {
        let setting = report.settings.get(usize::clamped(row.setting));
        (Tone::bad_if(row.lost > 0), (row.train + 1).to_string(), (row, setting))
    });
    page.section(&Table::of("Train", &columns, rows));
}

/// The first of `all` under a heading, a paragraph each, and how many further ones there are.
fn listed<T>(title: &str, all: &[T], further: u64, words: impl Fn(&T) -> String, page: &mut Page<'_>) {
    if all.is_empty() {
        return;
    }
    page.gap();
    page.line(Tone::Heading, title);
    all.iter().take(MOST_SHOWN).for_each(|one| page.paragraph(Tone::Warning, "  ", &words(one)));
    page.more(u64::clamped(all.len().saturating_sub(MOST_SHOWN)) + further, "");
}

fn troughs(report: &TrainReport, page: &mut Page<'_>) {
    let title = "Troughs: repetitions in which trains arrived much slower than usual";
    let words = |trough: &Trough| {
        let names = trough.settings.iter().filter_map(|&s| report.settings.get(usize::clamped(s))).map(wait);
        let whose = match trough.common {
            true => "all settings: something else used the path, or a host was held up".to_owned(),
            false => names.collect::<Vec<_>>().join(", "),
        };
        format!("repetition {} at {}: {whose}", trough.round + 1, format_duration(trough.at_ns))
    };
    listed(title, &report.troughs, 0, words, page);
}

fn troubles(report: &TrainReport, page: &mut Page<'_>) {
    let words = |trouble: &Trouble| {
        let at = format_duration(trouble.intended_ns);
        let (train, number) = (trouble.train + 1, trouble.number + 1);
        format!("train {train}, packet {number}, at {at}: {}", befell(trouble))
    };
    listed("Packets that something befell", &report.troubles, report.more_troubles, words, page);
}

/// Fate of a packet, in words.
fn befell(trouble: &Trouble) -> String {
    let others = u64::from(trouble.by);
    match trouble.kind {
        TroubleKind::Lost => "lost".to_owned(),
        TroubleKind::Overtaken => format!("overtaken by {}", words::count(others, "packet")),
        TroubleKind::Repeated => format!("arrived {} more", words::count(others, "time")),
        TroubleKind::Unsent => "not sent".to_owned(),
    }
}
