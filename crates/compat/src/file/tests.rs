use super::encoding::bounded;
use super::*;
use std::io;

const GOOD: &str = r#"{"a":{"b":"}{\"x"},"n":1}"#;

fn opened(bytes: &[u8]) -> File {
    open(bytes).unwrap()
}

#[test]
fn a_document_is_the_same_in_every_encoding() {
    let units = |f: fn(u16) -> [u8; 2]| GOOD.encode_utf16().flat_map(f).collect::<Vec<u8>>();
    let marked = |mark: &[u8], rest: &[u8]| [mark, rest].concat();
    for bytes in [
        GOOD.as_bytes().to_vec(),
        marked(&[0xef, 0xbb, 0xbf], GOOD.as_bytes()),
        marked(&[0xff, 0xfe], &units(u16::to_le_bytes)),
        marked(&[0xfe, 0xff], &units(u16::to_be_bytes)),
        units(u16::to_le_bytes),
        units(u16::to_be_bytes),
        format!("\r\n\n  {GOOD}\r\n").into_bytes(),
    ] {
        let file = opened(&bytes);
        assert_eq!((file.documents.len(), file.notices.len()), (1, 0), "{bytes:?}");
        assert_eq!((file.documents[0].form, file.documents[0].text.as_str()), (Form::Json, GOOD));
    }
}

#[test]
fn lines_around_documents_are_passed_over_and_named() {
    let text = format!("warning: old\n{GOOD}\niperf3: error - x\n\n{GOOD} trailing\n");
    let file = opened(text.as_bytes());
    let lines: Vec<usize> = file.documents.iter().map(|document| document.line).collect();
    assert_eq!(lines, [2, 5]);
    let said = "passed over, being no JSON: line 1 ('warning: old'), line 3 ('iperf3: error - x'), line 5 ('trailing')";
    assert_eq!(file.notices, [said]);
    // On one line, too.
    assert_eq!(opened(format!("{GOOD}{GOOD}").as_bytes()).documents.len(), 2);
}

#[test]
fn numbers_that_printf_garbled_are_read() {
    let text = r#"{"lost_percent": -nan, "rate": 5.9e 06, "inf": [inf, -inf, 1e-05], "name": "-nan e 1"}"#;
    let source = opened(text.as_bytes()).documents[0].source().unwrap();
    let value = source.json().unwrap();
    assert!(value["lost_percent"].is_null() && value["inf"][0].is_null() && value["inf"][1].is_null());
    assert_eq!((value["rate"].as_f64(), value["name"].as_str()), (Some(5.9e6), Some("-nan e 1")));
}

#[test]
fn events_are_one_document_until_the_next_begins() {
    let run = "{\"event\":\"start\",\"data\":{}}\n{\"event\":\"interval\"}\n";
    let file = opened(format!("{run}note\n{run}").as_bytes());
    // The note is no part of the first run, and the second begins with its start.
    assert_eq!(file.documents.iter().filter(|document| document.form == Form::Events).count(), 2);
    assert_eq!(file.notices, ["passed over, being no JSON: line 3 ('note')"]);
    // A line between events, a damaged event and one that is cut: the run goes on.
    let odd =
        "{\"event\":\"start\"}\nwarning\n{\"event\":\"interv\n{\"event\":\"interval\"}\n{\"event\":\"end\"";
    let file = opened(odd.as_bytes());
    let Source::Events(events) = file.documents[0].source().unwrap() else { panic!("{file:?}") };
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((file.documents.len(), names), (1, vec!["start", "interval"]));
    let said = "line 2 ('warning'), line 3 ('{\"event\":\"interv'), line 5 ('{\"event\":\"end\"')";
    assert_eq!(file.notices, [format!("passed over, being no JSON: {said}")]);
    assert!(!file.documents[0].is_ours());
    let ours = "{\"event\":\"begin\",\"schema\":\"netcaliper.outcome.v2\"}\n{\"event\":\"start\",\"at\":1}\n{\"event\":\"inter";
    let file = opened(ours.as_bytes());
    assert_eq!((file.documents.len(), file.documents[0].is_ours()), (1, true));
    assert_eq!(file.documents[0].text, ours, "a last line that a crash cut belongs to the journal");
}

#[test]
fn a_damaged_line_between_events_is_named_and_parts_nothing() {
    let [start, interval] =
        ["start", "interval"].map(|name| format!("{{\"event\":\"{name}\",\"data\":{{}}}}\n"));
    for odd in ["{\"event\":\"interval\",\"data\":{\n", "val\",\"data\":{}}\n", "{\n"] {
        let file = opened(format!("{start}{interval}{odd}{interval}").as_bytes());
        assert_eq!((file.documents.len(), file.documents[0].form), (1, Form::Events), "{odd}");
        let said = format!("passed over, being no JSON: line 3 ('{}')", odd.trim());
        assert_eq!(file.notices, [said]);
        let Source::Events(events) = file.documents[0].source().unwrap() else { panic!("{odd}") };
        assert_eq!(events.len(), 3, "{odd}");
    }
    assert!(opened(format!("{start}{interval}").as_bytes()).notices.is_empty());
}

#[test]
fn refusals_say_what_is_odd_and_where() {
    assert!(open(b" \n").unwrap_err().contains("empty"));
    assert!(open(&[0; 64]).unwrap_err().contains("no text"));
    assert!(open(b"BZh9").unwrap_err().contains("bzip2"));
    let cut = "{\n \"a\": 1,\n \"b\": [1,\n";
    let said = opened(cut.as_bytes()).documents[0].source().unwrap_err();
    assert!(said.contains("ends before it is whole at line"), "{said}");
    let odd = "{\n \"a\": 1,\n \"b\": what\n}\n";
    let said = opened(odd.as_bytes()).documents[0].source().unwrap_err();
    assert!(said.contains("damaged at line 3 ('\"b\": what')"), "{said}");
    // Text with a brace on a line is text.
    assert_eq!(opened(b"a b\n{ c\nd\n").documents[0].form, Form::Text);
}

#[test]
fn no_document_holds_what_a_terminal_obeys() {
    let text = "{\"name\": \"a\\u001b[31mb\\u202e\", \"n\": \"\u{9b}\"}";
    assert!(!opened(text.as_bytes()).documents[0].text.contains("u001b"));
    assert_eq!(opened("a\u{1b}b\tc\nd".as_bytes()).documents[0].text, "a\u{fffd}b\tc\nd");
}

#[test]
fn more_than_a_file_may_have_is_not_read() {
    let error = bounded(io::repeat(0), 1_000).unwrap_err();
    assert!(error.to_string().contains("too large"));
}

#[test]
fn packed_files_have_members_and_what_copies_leave_behind() {
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write as _;
    let pack = |text: &str| {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        packed.finish().unwrap()
    };
    let two = [pack(GOOD), pack("\n"), pack(GOOD)].concat();
    // A server may pack a packed file again.
    let again = |bytes: &[u8]| {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    };
    assert_eq!(opened(&again(&two)).documents.len(), 2);
    assert_eq!(opened(&two).documents.len(), 2);
    let padded = opened(&[pack(GOOD), vec![0; 100]].concat());
    assert_eq!((padded.documents.len(), padded.notices.len()), (1, 0));
    let trailing = opened(&[pack(GOOD), b"xyz".to_vec()].concat());
    assert_eq!(trailing.notices, ["passed over: 3 bytes behind the packed data"]);
    let cut = &two[..two.len() - 12];
    assert!(open(cut).unwrap_err().contains("cut short"));
    let huge: Vec<u8> = pack(GOOD).into_iter().chain([0x1f, 0x8b, 9]).collect();
    assert!(open(&huge).is_err());
}

#[test]
fn zeros_around_a_text_are_passed_over_and_one_within_is_a_damaged_character() {
    let zeros = vec![0; 700];
    let padded = opened(&[zeros.as_slice(), GOOD.as_bytes(), zeros.as_slice()].concat());
    assert_eq!(padded.documents[0].text, GOOD);
    assert_eq!(padded.notices, ["passed over: 1400 zero bytes around the text"]);
    let within = opened(b"{\"name\": \"a\0b\x1b\", \"n\": 1}");
    let source = within.documents[0].source().unwrap();
    assert_eq!(source.json().unwrap()["name"], "a\u{fffd}b\u{fffd}");
    assert!(open(&[1, 0, 2, 0, 0, 0, 3, 0, 0].repeat(9)).unwrap_err().contains("no text"));
}

#[test]
fn a_list_of_objects_is_several_documents() {
    assert_eq!(opened(format!("[{GOOD},\n{GOOD}]").as_bytes()).documents.len(), 2);
    assert_eq!(opened(b"[1, 2]").documents[0].form, Form::Text);
}
