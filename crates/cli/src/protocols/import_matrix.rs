//! Each kind of file that is read, in every encoding and wrapping, and with every number damaged.

use super::read;
use model::Outcome;
use serde_json::Value;

/// A file with its name, without the first line of samples that says where they are from.
macro_rules! sample {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../../", $name))
                .split_once('\n')
                .map_or("", |(_, rest)| rest)
                .to_owned(),
        )
    };
}

macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../../tests/imported/", $name)).to_owned())
    };
}

fn documents() -> Vec<(&'static str, String)> {
    vec![
        file!("iperf3-plain.json"),
        file!("iperf3-3.12-udp-bidir.json"),
        file!("iperf3-3.1-udp-half-lost.json"),
        file!("iperf3-server-bidir.json"),
        file!("flent-fairness.flent"),
        sample!("compat/src/import/irtt.json.txt"),
        sample!("compat/src/import/flent.json.txt"),
        sample!("protocols/ntttcp/src/compat/sample.json.txt"),
    ]
}

fn tables() -> Vec<(&'static str, String)> {
    let id = "01234567-89ab-cdef-0123-456789abcdef";
    let status = "TimeSlice,SendBps,RecvBps,In-Flight,Completed,NetError,DataError\n\
        5.001,1000,500,8,0,0,0\n10.001,2000,500,8,3,1,0\n";
    let ended = format!(
        "TimeSlice,LocalAddress,RemoteAddress,SendBytes,SendBps,RecvBytes,RecvBps,TimeMs,Result,ConnectionId\n\
        2.000,10.0.0.1:5000,10.0.0.2:4444,1000000,500000,0,0,2000,Succeeded,{id}\n\
        3.000,10.0.0.1:5001,10.0.0.2:4444,1000000,1000000,0,0,1000,Succeeded,{id}\n"
    );
    vec![
        sample!("protocols/ntttcp/src/compat/sample.xml.txt"),
        sample!("protocols/ntttcp/src/compat/sample-windows.xml.txt"),
        ("status.csv", status.to_owned()),
        ("connections.csv", ended),
    ]
}

fn printouts() -> Vec<(&'static str, String)> {
    let udpmon = "  pkt len; num_sent; inter-pkt_time us; send_user_data_rate Mbit; num_recv; num_lost; num_badorder; %lost; \
        num_lost_innet; %lost_innet; recv_user_data_rate Mbit; recv_wire_rate Mbit;\n \
        600; 40;  0;  1288.59; 40; 0; 0; 0; 0; 0;  934.761;  1037.59;  \n 600; 40;  30;  156.991; 30; 10; 0; 0; 0; 0;  161.331;  179.077;  \n";
    vec![
        ("udpmon_bw_mon", udpmon.to_owned()),
        sample!("protocols/bwdelaytester/src/compat/originals/sweep.txt"),
    ]
}

#[track_caller]
fn runs(name: &str, bytes: &[u8]) -> Vec<Outcome> {
    let (runs, errors) = read(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(errors, [""; 0], "{name}");
    runs
}

/// The figures of a run, without the program's name.
fn figures(outcome: &Outcome) -> String {
    serde_json::to_string(&outcome.points).unwrap().replace(&format!("as {} does", outcome.begin.version), "")
}

/// The same text as other programs and copies leave it, of any kind.
fn encoded(text: &str) -> Vec<(&'static str, Vec<u8>)> {
    let two = |unit: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(unit).collect::<Vec<u8>>();
    let four = |unit: fn(u32) -> [u8; 4]| text.chars().flat_map(|c| unit(c.into())).collect::<Vec<u8>>();
    let marked = |mark: &[u8], rest: &[u8]| [mark, rest].concat();
    let utf8: &[u8] = &[0xef, 0xbb, 0xbf];
    let plain = text.as_bytes();
    vec![
        ("UTF-8 with a mark", marked(utf8, plain)),
        ("two marks", marked(utf8, &marked(utf8, plain))),
        ("UTF-16, least byte first", two(u16::to_le_bytes)),
        ("UTF-16, most byte first", two(u16::to_be_bytes)),
        ("UTF-16, most byte first, with a mark", marked(&[0xfe, 0xff], &two(u16::to_be_bytes))),
        ("UTF-32, least byte first", four(u32::to_le_bytes)),
        ("UTF-32, most byte first", four(u32::to_be_bytes)),
        ("UTF-32, least byte first, with a mark", marked(&[0xff, 0xfe, 0, 0], &four(u32::to_le_bytes))),
        ("UTF-32, most byte first, with a mark", marked(&[0, 0, 0xfe, 0xff], &four(u32::to_be_bytes))),
        ("carriage returns and line feeds", text.replace('\n', "\r\n").into_bytes()),
        ("carriage returns alone", text.replace('\n', "\r").into_bytes()),
        (
            "colours",
            text.lines().map(|line| format!("\u{1b}[1;32m{line}\u{1b}[0m\n")).collect::<String>().into(),
        ),
        ("empty lines", format!("\n \r\n{text}\n\n").into_bytes()),
        ("zeros behind", [plain, &[0; 700]].concat()),
        (
            "a line of another program, then UTF-16",
            [b"started\r\n".as_slice(), &two(u16::to_le_bytes)].concat(),
        ),
        (
            "a line of another program, then UTF-16 with a mark",
            [b"started\r\n".as_slice(), &marked(&[0xff, 0xfe], &two(u16::to_le_bytes))].concat(),
        ),
    ]
}

/// The same document within something else.
fn wrapped(text: &str) -> Vec<(&'static str, Vec<u8>)> {
    let text = text.trim();
    let quoted = Value::from(text).to_string();
    let logged = |prefix: fn(usize) -> String| -> Vec<u8> {
        let lines = text.lines().enumerate().map(|(n, line)| format!("{}{line}\n", prefix(n)));
        lines.collect::<String>().into_bytes()
    };
    let mut within: Vec<&str> = text.lines().collect();
    within.insert(within.len() / 2, "warning: clock skew");
    vec![
        ("a list", format!("[{text}]").into_bytes()),
        ("a list with more", format!("note\n[\n{text},\nnull]\n").into_bytes()),
        ("a member", format!("{{\"host\": \"a\", \"result\": {{\"iperf3\": {text}}}}}").into_bytes()),
        ("a text", format!("{{\"rc\": 0, \"stdout\": {quoted}}}").into_bytes()),
        ("texts of a list", format!("{{\"results\": [{{\"stdout\": {quoted}}}]}}").into_bytes()),
        ("a journal's lines", logged(|n| format!("Nov 28 12:00:{:02} host test[7]: ", n % 60))),
        ("lines of a container", logged(|_| "iperf3-1  | ".to_owned())),
        ("a line of another output within", within.join("\n").into_bytes()),
        ("a variable", format!("result = {text}\n").into_bytes()),
        ("a page", format!("```json\n{text}\n```\n").into_bytes()),
    ]
}

#[test]
fn a_file_is_the_same_in_every_encoding_and_wrapping() {
    let all = [documents(), tables(), printouts()].concat();
    for (name, text) in &all {
        let want = figures(&runs(name, text.as_bytes())[0]);
        let mut forms = encoded(text);
        if text.trim_start().starts_with('{') {
            forms.extend(wrapped(text));
        }
        for (form, bytes) in forms {
            let name = format!("{name}, {form}");
            let found = runs(&name, &bytes);
            assert_eq!(found.len(), 1, "{name}");
            // In UTF-16 with a mark the original of ctsTraffic wrote the table, whose first row has
            // no time.
            if !(name.starts_with("status.csv") && name.contains("UTF-16") && name.ends_with("with a mark")) {
                assert!(figures(&found[0]) == want, "{name}: other figures");
            }
        }
    }
}

#[test]
fn two_documents_are_two_runs() {
    for (name, text) in [documents(), tables()].concat() {
        let want = figures(&runs(name, text.as_bytes())[0]);
        let mark = "\u{feff}";
        for between in ["", "\n", "done\n", mark] {
            let found = runs(name, format!("{mark}{text}{between}{text}").as_bytes());
            // A line behind a table is a damaged row of it, and a notice says so.
            let figures: Vec<bool> = found.iter().map(|run| figures(run) == want).collect();
            assert_eq!(figures, [true; 2], "{name}, with '{between}' between");
        }
    }
}

#[test]
fn packed_files_of_other_programs_are_named() {
    for (magic, program) in [
        (b"\xfd7zXZ\0".as_slice(), "xz"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"PK\x03\x04", "zip"),
        (b"BZh91AY", "bzip2"),
    ] {
        let said = read(&[magic, &[0; 300]].concat()).unwrap_err();
        assert!(said.contains(&format!("packed with {program}: unpack it first")), "{said}");
    }
}

/// Places of the numbers of a text: those that stand alone.
fn numbers(text: &str) -> Vec<std::ops::Range<usize>> {
    let bytes = text.as_bytes();
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+' | b'_' | b':');
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = bytes[at..].iter().take_while(|byte| inner(**byte)).count();
        // A colon ends a name of JSON.
        let word = text.get(at..at + length).unwrap_or_default();
        if word.bytes().any(|byte| byte.is_ascii_digit()) && word.parse::<f64>().is_ok() {
            found.push(at..at + length);
        }
        at += length.max(1);
    }
    found
}

/// Numbers of one file that are damaged, evenly spread.
const MOST: usize = 40;

#[test]
fn a_damaged_number_changes_no_figure_in_silence() {
    let mut silent = Vec::new();
    for (name, text) in [documents(), tables(), printouts()].concat() {
        let whole = runs(name, text.as_bytes()).remove(0);
        let places = numbers(&text);
        assert!(!places.is_empty(), "{name}");
        // Each place with one of these, in turn.
        let odd = ["1e308", "-5", "18446744073709551615", "1e40", "-1e18"].into_iter().cycle();
        for (place, odd) in places.iter().step_by(places.len().div_ceil(MOST)).zip(odd) {
            let (before, behind) = (&text[..place.start], &text[place.end..]);
            let Ok((found, errors)) = read(format!("{before}{odd}{behind}").as_bytes()) else { continue };
            let Some(run) = found.first().filter(|_| errors.is_empty()) else { continue };
            // Delays between two clocks may be below 0.
            let signed = odd == "-5" && name.contains("bwdelaytester");
            let line = before.lines().last().unwrap_or_default();
            let near: String = behind.chars().take(30).collect();
            if !signed && run.notices == whole.notices && figures(run) != figures(&whole) {
                silent.push(format!("{name}: {odd} at '{line}|{near}'"));
            }
        }
    }
    assert!(silent.is_empty(), "{} of them:\n{}", silent.len(), silent.join("\n"));
}
