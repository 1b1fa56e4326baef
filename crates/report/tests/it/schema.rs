//! `schema/outcome.v2.json` and written outcomes against each other: what is written is described, and what is described is written.

use crate::common::{built, events, outcome};
use jsonschema::Validator;
use metrics::ClockKind;
use model::{
    Baseline, CaveatLevel, Count, Counts, Curve, Event, Extra, FrameRow, FrameVerdict, Kind, Media, MtuFound,
    PathMtu, Pattern, Phase, Ping, Probe, Reading, Schedule, ServerLimits, Shown, Slot, StampSettings,
    Totals, Trace, Unit,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

pub(crate) fn schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/outcome.v2.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    });
    &SCHEMA
}

fn validator() -> &'static Validator {
    static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| jsonschema::validator_for(schema()).unwrap());
    &VALIDATOR
}

fn complaints(document: &Value) -> Vec<String> {
    validator().iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

/// An outcome in which every field has a value: a duplex and a push-pull phase, and a sweep that counted connections.
fn full() -> &'static Value {
    static FULL: LazyLock<Value> = LazyLock::new(written_in_full);
    &FULL
}

fn written_in_full() -> Value {
    let mut told = events();
    let end = told.pop().unwrap();
    let phase = |repeat, phase| Event::Phase { label: BTreeMap::new(), repeat, phase: Box::new(phase) };
    let pattern = Pattern::PushPull { push: 3, pull: 5 };
    told.push(phase(2, Phase { pattern, ..crate::common::phase() }));
    let media = Some(Media::new(25_000_000, 60, 60, 1, 1400).unwrap());
    told.push(phase(4, crate::common::phase()));
    let unknown = Counts::of(&[Count::SentBytes]);
    told.push(Event::Local(Box::new(Totals { unknown, ..Totals::default() })));
    told.push(Event::Remote(Box::default()));
    told.push(phase(3, Phase { kind: Kind::Stream, media, ..crate::common::phase() }));
    let frame = FrameRow {
        seq: 1,
        verdict: FrameVerdict::Completed,
        bytes: 1,
        sender_ticks: 1,
        sender_hz: 1,
        receiver_ticks: 1,
        receiver_hz: 1,
    };
    told.push(Event::Frames { id: Default::default(), rows: vec![frame] });
    let ping = Some(Ping {
        messages: Some(1000),
        warmup: 50,
        chunk: Some(32),
        schedule: Schedule::Poisson { gap_ns: 1_000_000 },
        stamp: Some(StampSettings { cos: Some(46), ..StampSettings::default() }),
        kernel_stamps: true,
        ..Ping::default()
    });
    let (inside_gap_ns, hold_ns) = (Some(1), Some(1));
    told.push(phase(4, Phase { kind: Kind::Ping, ping, inside_gap_ns, hold_ns, ..crate::common::phase() }));
    let probe = Some(Probe { clock: Some(ClockKind::Realtime), ..Probe::default() });
    let trace = Some(Trace { gaps_ns: vec![1_000_000] });
    told.push(phase(5, Phase { kind: Kind::Delay, probe, trace, ..crate::common::phase() }));
    let mut train = crate::common::train_phase();
    train.train.as_mut().unwrap().echo = true;
    told.push(phase(6, train));
    told.push(Event::Trains(Box::new(crate::common::echoed())));
    told.push(Event::Flows { rows: vec![crate::common::flow()] });
    let mut own = Phase { kind: Kind::Train, extra: Some(extra()), ..crate::common::phase() };
    own.sockets.whole_segments = true;
    told.push(phase(7, own));
    told.push(Event::Extra(extra()));
    told.push(end);
    let mut outcome = built(&told);
    outcome.points[0].local.pings.as_mut().unwrap().ways = Some(Box::new(crate::common::ways()));
    let baseline = Baseline { rtt_ns: Some(crate::common::spectrum()), apart: true };
    outcome.points[0].baseline = Some(Box::new(baseline));
    outcome.points[0].local.pings.as_mut().unwrap().kernel_ns =
        Some(metrics::Spectrum { missing: 1, ..crate::common::spectrum() });
    let mtu = Some(MtuFound { mtu: 1_400, too_big: Some(1_401), told: true });
    outcome.path_mtu = Some(PathMtu { up: mtu, down: mtu });
    let slot = Slot { clock_bound_ns: Some(1), power: Some(1.0), knee: true };
    (outcome.sweep[0].up_slot, outcome.sweep[0].down_slot) = (Some(slot), Some(slot));
    let one = Some(1);
    outcome.begin.limits = Some(ServerLimits {
        rate_bps: one,
        time_ns: one,
        bytes: one,
        address_rate_bps: one,
        total_rate_bps: one,
    });
    serde_json::to_value(outcome).unwrap()
}

/// A result of a protocol's own in which every field has a value.
fn extra() -> Extra {
    let reading = || Reading::new("loss.up", "loss", Unit::Percent, 1.0);
    let axis = || ("gap".to_owned(), Unit::Ns);
    let (title, points) = (String::new(), vec![(0.0, Some(1.0)), (1.0, None)]);
    let curve = Curve { title, note: String::new(), x: axis(), y: axis(), steps: true, points };
    let shown = Shown {
        settings: vec![reading()],
        counts: vec![reading()],
        figures: vec![reading()],
        curves: vec![curve],
        ..Shown::default()
    };
    Extra { shown: Some(Box::new(shown)), ..Extra::new("ttcp", &1) }
}

#[test]
fn what_is_written_is_valid() {
    assert_eq!(complaints(full()), [""; 0]);
    for (name, written) in [("whole", outcome()), ("empty", built(&[])), ("cut", built(&events()[..6]))] {
        assert_eq!(complaints(&serde_json::to_value(written).unwrap()), [""; 0], "{name}");
    }
}

#[test]
fn what_is_wrong_is_not_valid() {
    let spoilt = |spoil: fn(&mut Value)| {
        let mut document = full().clone();
        spoil(&mut document);
        !validator().is_valid(&document)
    };
    assert!(spoilt(|d| d["schema"] = json!("netcaliper.outcome.v1")));
    assert!(spoilt(|d| d["status"] = json!("perfect")));
    assert!(spoilt(|d| d["points"][0]["local"]["opened"] = json!(-1)));
    assert!(spoilt(|d| d["points"][0]["up"]["goodput_bps"] = json!("fast")));
    assert!(spoilt(|d| d["points"][0]["intervals"][0]["remote"] = json!([])));
    assert!(spoilt(|d| d["points"][0]["local"]["connect_ns"]["buckets"][0] = json!([1])));
    assert!(spoilt(|d| drop(d["points"][0].as_object_mut().unwrap().remove("caveats"))));
    assert!(!spoilt(|d| d["points"][0]["later"] = json!("fields may be added")));
}

/// What a walk through a document and the schema beside it finds.
#[derive(Default)]
struct Walk {
    /// Fields in the document that the schema does not describe.
    unknown: Vec<String>,
    /// Properties of the schema that had a value.
    seen: BTreeSet<String>,
}

impl Walk {
    fn through(document: &Value) -> Walk {
        let (root, mut walk) = (schema(), Walk::default());
        walk.walk(document, &Place { root, schema: root, pointer: String::new() }, "outcome");
        walk
    }

    fn walk(&mut self, value: &Value, at: &Place<'_>, path: &str) {
        let at = at.resolved(value);
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    let path = format!("{path}.{name}");
                    match (at.child("properties", name), at.schema.get("additionalProperties")) {
                        (Some(property), _) => {
                            if !field.is_null() {
                                self.seen.insert(property.pointer.clone());
                            }
                            self.walk(field, &property, &path);
                        }
                        (None, Some(map @ Value::Object(_))) => {
                            let entry =
                                Place { schema: map, pointer: format!("{}/*", at.pointer), ..at.clone() };
                            self.walk(field, &entry, &path);
                        }
                        _ => self.unknown.push(path),
                    }
                }
            }
            Value::Array(items) => {
                if let Some(item) = at.schema.get("items") {
                    let item = Place { schema: item, pointer: format!("{}/[]", at.pointer), ..at.clone() };
                    items.iter().for_each(|value| self.walk(value, &item, path));
                } else if at.schema.get("prefixItems").is_none() {
                    self.unknown.push(path.to_owned());
                }
            }
            _ => {}
        }
    }
}

#[derive(Clone)]
struct Place<'a> {
    root: &'a Value,
    schema: &'a Value,
    pointer: String,
}

impl<'a> Place<'a> {
    fn child(&self, keyword: &str, name: &str) -> Option<Place<'a>> {
        let schema = self.schema.get(keyword)?.get(name)?;
        Some(Place { schema, pointer: format!("{}/{name}", self.pointer), ..self.clone() })
    }

    /// Follows references, and of several alternatives the one that describes an object when `value` is one.
    fn resolved(&self, value: &Value) -> Place<'a> {
        if let Some(reference) = self.schema.get("$ref").and_then(Value::as_str) {
            let pointer = reference.trim_start_matches('#');
            let schema = self.root.pointer(pointer).unwrap();
            return Place { schema, pointer: pointer.to_owned(), ..self.clone() }.resolved(value);
        }
        if let Some(options) = self.schema.get("anyOf").and_then(Value::as_array) {
            let fits =
                |s: &&Value| s.get("$ref").is_some() || s.get("properties").is_some() == value.is_object();
            let schema = options.iter().find(fits).unwrap();
            return Place { schema, ..self.clone() }.resolved(value);
        }
        self.clone()
    }
}

/// The pointers of all properties under `schema`, each with its own schema.
fn properties(schema: &Value, pointer: &str, all: &mut BTreeMap<String, Value>) {
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let pointer = format!("{pointer}/{name}");
        properties(property, &pointer, all);
        all.insert(pointer, property.clone());
    }
    for option in schema.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
        properties(option, pointer, all);
    }
}

fn described() -> BTreeMap<String, Value> {
    let root = schema();
    let mut all = BTreeMap::new();
    properties(root, "", &mut all);
    for (name, definition) in root["$defs"].as_object().unwrap() {
        properties(definition, &format!("/$defs/{name}"), &mut all);
    }
    all
}

#[test]
fn every_field_written_is_described_and_every_field_described_is_written() {
    let walk = Walk::through(full());
    assert_eq!(walk.unknown, [""; 0], "fields that schema/outcome.v2.json does not describe");
    let described: BTreeSet<String> = described().into_keys().collect();
    assert!(described.len() > 200, "the walk found the schema: {}", described.len());
    let unused: Vec<&String> = described.difference(&walk.seen).collect();
    assert_eq!(unused, [""; 0], "properties of the schema that a full outcome does not have");
}

#[test]
fn the_walk_finds_what_is_not_described() {
    let mut document = full().clone();
    document["points"][0]["local"]["extra"] = json!(1);
    document["points"][0]["intervals"][1]["samples"][0]["info"]["new"] = json!([1]);
    let walk = Walk::through(&document);
    assert_eq!(walk.unknown, ["outcome.points.intervals.samples.info.new", "outcome.points.local.extra"]);
}

#[test]
fn every_property_has_a_description() {
    for (pointer, property) in described() {
        let text = property["description"].as_str().unwrap_or_default();
        assert!(text.len() > 4, "{pointer} is not described: '{text}'");
    }
}

#[test]
fn levels_and_units_are_written_by_their_names() {
    let levels = [CaveatLevel::Invalid, CaveatLevel::Caution, CaveatLevel::Note];
    assert!(levels.iter().all(|level| json!(level) == level.name()));
    assert!(Unit::all().all(|unit| json!(unit) == unit.name()));
}
