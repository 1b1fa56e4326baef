use super::*;
use model::Kind;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Base64 (RFC 4648), for this test alone.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let word = part.iter().fold(0u32, |word, &b| word << 8 | u32::from(b)) << (8 * (3 - part.len()));
        for at in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= part.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[test]
fn the_policy_names_the_script() {
    // RFC 4648, section 10.
    let encoded = [&b"foobar"[..], b"fooba", b"f"].map(base64);
    assert_eq!(encoded, ["Zm9vYmFy", "Zm9vYmE=", "Zg=="]);
    let hash = base64(&Sha256::digest(SCRIPT.as_bytes()));
    assert_eq!(SCRIPT_HASH, hash, "the script has changed: write this hash");
    assert!(!SCRIPT.contains("</script"), "that would end it");
}

#[test]
fn the_parts_that_are_always_there_stay_small() {
    // A page has to stay under 500 KB plus data.
    assert!(STYLE.len() + SCRIPT.len() < 64 * 1024);
}

/// The colours of every palette of the style sheet: light, dark, paper.
fn palettes() -> Vec<BTreeMap<&'static str, [f64; 3]>> {
    let blocks = STYLE.split(":root {").skip(1).filter_map(|rest| rest.split('}').next());
    let palette = |block: &'static str| {
        let pairs = block.split(';').filter_map(|pair| pair.trim().strip_prefix("--")?.split_once(": #"));
        pairs.map(|(name, digits)| (name, rgb(digits))).collect()
    };
    blocks.map(palette).collect()
}

/// Red, green and blue, 0..=1, of `fff` or `1c2126`.
fn rgb(digits: &str) -> [f64; 3] {
    let each = digits.len() / 3;
    [0, 1, 2].map(|n| {
        let part = digits[n * each..(n + 1) * each].repeat(3 - each);
        f64::from(u8::from_str_radix(&part, 16).unwrap()) / 255.0
    })
}

/// Contrast of two colours (WCAG 2.2, relative luminance and contrast ratio).
fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
    let linear = |c: f64| if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
    let luminance = |[r, g, b]: [f64; 3]| 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
    a.max(b) / a.min(b)
}

#[test]
fn every_palette_can_be_read() {
    // Known values: black on white, and #767676, the lightest grey that text on white may have.
    assert!((contrast(rgb("000"), rgb("fff")) - 21.0).abs() < 1e-9);
    assert!((contrast(rgb("767676"), rgb("ffffff")) - 4.54).abs() < 0.005);
    let palettes = palettes();
    assert_eq!(palettes.len(), 3, "light, dark, paper");
    let text = ["ink", "soft", "good", "warn", "bad", "focus"].map(|name| (name, 4.5));
    let lines = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"].map(|name| (name, 4.5));
    for (at, palette) in palettes.iter().enumerate() {
        for ground in ["paper", "panel", "warn-paper"] {
            for (name, least) in text.iter().chain(&lines) {
                let found = contrast(palette[name], palette[ground]);
                assert!(found >= *least, "palette {at}: {name} on {ground} has {found:.2}, not {least}");
            }
        }
    }
}

/// The style sheets of all pages but the fleet's, without their palettes.
#[test]
fn pages_have_no_colour_beside_the_palettes() {
    for sheet in [STYLE, include_str!("../../../web/src/page/live.css")] {
        let mut rest = sheet.to_owned();
        while let Some(at) = rest.find(":root {") {
            let end = rest[at..].find('}').map_or(rest.len(), |end| at + end);
            rest.replace_range(at..end, "");
        }
        for colour in ["#0", "#1", "#2", "#3", "#4", "#5", "#6", "#7", "#8", "#9", "#a", "#b", "#c", "#f"] {
            let found = rest.split([':', ' ', '(']).find(|word| word.starts_with(colour));
            assert_eq!(found, None, "a colour that no test of contrast knows");
        }
        assert!(!["rgb(", "hsl(", "color-mix("].iter().any(|word| rest.contains(word)));
    }
}

/// A page's first screen: the names and values of its tiles, and the labels of its panels.
fn first_screen(outcome: &Outcome) -> (Vec<(String, String)>, Vec<String>) {
    let page = live::written(|page| {
        first::write(outcome, page);
    });
    let all = |from: &str, to: &str| {
        let parts = page.split(from).skip(1).filter_map(|rest| rest.split(to).next());
        parts.map(str::to_owned).collect::<Vec<String>>()
    };
    let tiles = all("class=\"name\">", "</span>").into_iter().zip(all("class=\"value\">", "</span>"));
    let labels = all("class=\"what\"", "</text>").into_iter();
    (tiles.collect(), labels.filter_map(|text| Some(text.split_once('>')?.1.to_owned())).collect())
}

fn one(kind: Kind, spoil: fn(&mut Point)) -> Outcome {
    let up = model::Direction { goodput_bps: 6e6, confirmed: true, ..model::Direction::default() };
    let interval = model::Interval { end_ns: metrics::SECOND, opened: 176, ..model::Interval::default() };
    let mut point = Point { up: Some(up), intervals: vec![interval], ..Point::default() };
    (point.phase.kind, point.status) = (kind, model::Status::Complete);
    spoil(&mut point);
    let begin = Begin { verb: kind.name().to_owned(), ..Begin::default() };
    Outcome { begin, points: vec![point], ..Outcome::default() }
}

#[test]
fn the_first_tile_and_the_first_plot_answer_the_question() {
    let train = one(Kind::Train, |point| {
        let mut trains = model::Trains::default();
        let train_bps = Some(metrics::Quartiles { n: 9, q1: 50e6, median: 50.2e6, q3: 51e6 });
        trains.report.settings = vec![metrics::TrainSetting { train_bps, ..Default::default() }];
        point.trains = Some(Box::new(trains));
    });
    let (tiles, panels) = first_screen(&train);
    assert_eq!(tiles[0], ("dispersion rate".to_owned(), "50.2 Mbit/s".to_owned()));
    assert!(!tiles.iter().any(|(name, _)| name.contains("goodput")) && panels.is_empty(), "{tiles:?}");
    let stream = one(Kind::Stream, |point| {
        let frames = metrics::Frames { completed: 596, dropped: 4, ..metrics::Frames::default() };
        (point.local.frames, point.intervals[0].frames) = (Some(frames), Some(frames));
    });
    let (tiles, panels) = first_screen(&stream);
    assert_eq!(tiles[0], ("frames not whole in time".to_owned(), "0.67 %".to_owned()));
    assert_eq!(panels[0], "frames not in time, %");
    let connect = one(Kind::Connect, |point| {
        point.local.opened = 176;
        point.local.traffic.ns = metrics::SECOND;
        let times = metrics::Dist::from_iter((1..=200).map(|n| n * 1_000_000)).summary();
        point.local.connect_ns = times;
    });
    let (tiles, panels) = first_screen(&connect);
    assert!(tiles[0].0.starts_with("connections"), "{tiles:?}");
    assert!(tiles.iter().any(|(name, _)| name == "time to connect, p99"), "{tiles:?}");
    assert!(panels[0].starts_with("connections"), "{panels:?}");
    let delay = one(Kind::Delay, |point| {
        let mut packets = model::PacketReport::default();
        packets.counts.received = 100;
        packets.delay_ns = metrics::Dist::from_iter([10_000_000; 100]).summary();
        (point.phase.rate, point.intervals[0].remote_packets) = (Some(1), Some(Box::new(packets.clone())));
        point.remote = vec![model::Totals { packets: Some(Box::new(packets)), ..Default::default() }];
    });
    let (tiles, panels) = first_screen(&delay);
    assert!(tiles[0].0.starts_with("delay") && tiles[1].0.starts_with("loss"), "{tiles:?}");
    assert!(tiles.len() <= 6 && panels[0].starts_with("delay"), "{panels:?}");
}

#[test]
fn many_phases_are_no_timeline() {
    let phases = |n: usize| {
        let mut run = one(Kind::Tcp, |point| {
            let rx = model::Traffic { rx_bytes: 1_000, ns: metrics::SECOND, ..Default::default() };
            point.intervals[0].remote = Some(rx);
        });
        run.points = vec![run.points[0].clone(); n];
        for (at, point) in run.points.iter_mut().enumerate() {
            point.label = BTreeMap::from([("part".to_owned(), at.to_string())]);
        }
        !first_screen(&run).1.is_empty()
    };
    assert_eq!((phases(8), phases(9)), (true, false));
}

#[test]
fn what_means_something_in_html_is_made_harmless() {
    assert_eq!(escape("<a href=\"x\" b='y'>&"), "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;");
    assert_eq!(escape("plain"), "plain");
    assert_eq!(escape("bell\u{7} \u{202e}turned"), "bell\u{fffd} \u{fffd}turned");
}

#[test]
fn a_command_is_one_that_a_shell_takes() {
    let words = |words: &[&str]| command(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(words(&["netcaliper", "tcp", "[::1]:7411", "-t", "10s"]), "netcaliper tcp [::1]:7411 -t 10s");
    assert_eq!(words(&["a b", "it's", ""]), "'a b' 'it'\\''s' ''");
    assert_eq!(words(&[]), "not on record");
}
