use super::*;
use crate::{Event, Failure, Level, Schedule, Status};
use metrics::Wall;
use serde_json::json;

fn text(document: &impl Document) -> String {
    let mut out = Vec::new();
    document.write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_tag_stands_first_beside_the_fields_of_its_variant() {
    for (event, json) in [
        (Event::Start { at: Wall(5) }, r#"{"event":"start","at":5}"#),
        (
            Event::Notice { level: Level::Info, text: "{\":{}".to_owned() },
            r#"{"event":"notice","level":"info","text":"{\":{}"}"#,
        ),
        (
            Event::PhaseEnd { status: Status::Failed, reason: None },
            r#"{"event":"phase_end","status":"failed","reason":null}"#,
        ),
        (
            Event::extra("ttcp", &json!({"a": [1, {"event": "start"}]})),
            r#"{"event":"extra","protocol":"ttcp","value":{"a":[1,{"event":"start"}]}}"#,
        ),
    ] {
        assert_eq!(text(&event), json);
        assert_eq!(Event::read(json.as_bytes()).unwrap(), event);
        // Programs that sort the fields move the tag.
        let sorted = serde_json::from_str::<Value>(json).unwrap().to_string();
        assert_eq!(Event::read(sorted.as_bytes()).unwrap(), event, "{sorted}");
    }
    assert_eq!(text(&Schedule::Closed), r#"{"when":"closed"}"#);
    assert_eq!(text(&Schedule::Poisson { gap_ns: 5 }), r#"{"when":"poisson","gap_ns":5}"#);
    assert_eq!(text(&Failure::TooFew), r#"{"why":"too_few"}"#);
}

#[test]
fn a_tagged_object_that_cannot_be_read_is_refused() {
    let fails = |json: &str| Event::read(json.as_bytes()).unwrap_err().to_string();
    assert!(fails("{}").starts_with("missing field `event`"));
    assert!(fails(r#"{"at":5}"#).starts_with("missing field `event`"));
    assert!(fails(r#"{"event":5,"at":5}"#).starts_with("`event` is not text"));
    assert!(fails(r#"{"event":"eclipse"}"#).starts_with("unknown variant `eclipse`"));
    assert!(fails(r#"{"event":"start"}"#).starts_with("missing field `at`"));
    assert!(fails(r#"{"event":"start","at":5} x"#).starts_with("trailing characters"));
    assert!(fails(r#"{"event":"start","at":5"#).starts_with("EOF while parsing"));
    assert!(fails(r#"{"start":{"at":5}}"#).starts_with("missing field `event`"));
    assert!(fails(r#"["start",5]"#).starts_with("invalid type: sequence, expected an object"));
    assert!(fails("").starts_with("EOF while parsing"));
    assert!(Schedule::read(br#"{"when":"fixed"}"#).is_err());
    assert!(Schedule::read(br#"{"when":"closed""#).is_err());
    assert!(Schedule::read(br#"{"when":"closed"}}"#).is_err());
}

#[test]
fn a_field_at_the_top_is_found_whatever_follows() {
    let find = |json: &str| top_field(json.as_bytes(), "a");
    assert_eq!(find(r#"{"b":{"a":1},"a":[2],"a":3"#).unwrap(), Some(json!([2])));
    assert_eq!(find(r#"{"b":[{"a":1}]}"#).unwrap(), None);
    assert_eq!(find(r#"{"\u0061":null}"#).unwrap(), Some(Value::Null));
    assert!(find(r#"{"b":1"#).is_err() && find("[1]").is_err() && find("").is_err());
}

/// Arbitrary JSON from a sequence that a small generator makes.
fn arbitrary(seed: &mut u64, depth: u32) -> Value {
    let mut next = |below: u64| {
        // The constants of Knuth's MMIX generator.
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % below
    };
    let words = ["", "a", "{", "[1,2]", "\"", "\\", "\\\"", ": ,", "\n", "\u{1}", "µ\u{10348}", "}]"];
    let word = words[next(words.len() as u64) as usize].to_owned();
    match next(if depth == 0 { 5 } else { 9 }) {
        0 => Value::Null,
        1 => json!(next(2) == 0),
        2 => json!(next(1 << 30) as i64 - (1 << 29)),
        3 => json!(next(1000) as f64 / 7.0),
        4 => json!(word),
        5 | 6 => (0..next(4)).map(|_| arbitrary(seed, depth - 1)).collect(),
        _ => {
            let fields = (0..next(4)).map(|n| (format!("{word}{n}"), arbitrary(seed, depth - 1)));
            Value::Object(fields.collect())
        }
    }
}

#[test]
fn indented_json_is_as_serde_json_indents_it() {
    let mut seed = 1;
    let mut containers = 0;
    for _ in 0..2_000 {
        let value = arbitrary(&mut seed, 5);
        let (compact, wanted) = (value.to_string(), serde_json::to_string_pretty(&value).unwrap());
        containers += usize::from(wanted.contains('\n'));
        // Whole, and cut into pieces anywhere, as a writer may get it.
        for piece in [1, 2, 7, compact.len()] {
            let mut out = Vec::new();
            let mut indented = Indented::new(&mut out);
            compact.as_bytes().chunks(piece).for_each(|bytes| indented.write_all(bytes).unwrap());
            assert_eq!(String::from_utf8(out).unwrap(), wanted, "{compact} in pieces of {piece}");
        }
    }
    assert!(containers > 500, "{containers} had something to indent");
}

/// How far each line is indented.
fn indents(text: &str) -> Vec<usize> {
    text.lines().map(|line| line.len() - line.trim_start().len()).collect()
}

#[test]
fn a_document_is_the_same_in_all_its_forms() {
    let phase = Phase { ping: Some(crate::Ping::default()), ..Phase::default() };
    let mut indented = Vec::new();
    phase.write_indented(&mut indented).unwrap();
    // Every line begins anew where serde_json's own, which sorts the keys of a value, does.
    let mut lines: Vec<usize> = indents(&String::from_utf8(indented.clone()).unwrap());
    let mut wanted = indents(&serde_json::to_string_pretty(&phase.value().unwrap()).unwrap());
    lines.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(lines, wanted);
    assert_eq!(Phase::read(&indented).unwrap(), phase);
    assert_eq!(phase.value().unwrap(), serde_json::to_value(&phase).unwrap());
    assert_eq!(serde_json::from_value::<Phase>(phase.value().unwrap()).unwrap(), phase);
    assert_eq!(text(&Some(Box::new(phase.clone()))), text(&phase));
    assert_eq!(<Option<Box<Phase>>>::read(text(&phase).as_bytes()).unwrap().unwrap(), Box::new(phase));
    assert_eq!((text(&None::<Phase>).as_str(), <Option<Phase>>::read(b"null").unwrap()), ("null", None));
}
