//! `schema/outcome.v2.json`, the types, and written outcomes against each other.

use crate::common::{built, events, outcome};
use jsonschema::Validator;
use metrics::schema::Published;
use metrics::{ClockKind, Ecn};
use model::{
    Baseline, CaveatLevel, Count, Counts, Curve, Effective, Event, Extra, FrameRow, FrameVerdict, Kind,
    Media, MtuFound, Outcome, PathMtu, Pattern, Phase, Ping, Probe, Reading, Schedule, ServerLimits, Shown,
    Slot, StampSettings, Totals, Trace, Unit,
};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

const PUBLISHED: Published = Published {
    file: "outcome.v2.json",
    id: "urn:netcaliper:outcome:v2",
    title: "netcaliper outcome, version 2",
};

static SCHEMA: LazyLock<Value> = LazyLock::new(|| PUBLISHED.read().unwrap());
static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| jsonschema::validator_for(&SCHEMA).unwrap());

fn complaints(validator: &Validator, document: &Value) -> Vec<String> {
    validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

/// An outcome in which every field has a value: a duplex and a push-pull phase, and a sweep that
/// counted connections.
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
    let probe = Some(Probe { paired: Some(Ecn::Off), ..Probe::default() });
    told.push(phase(5, Phase { kind: Kind::Delay, probe, ..crate::common::phase() }));
    let effective = Some(Effective { tos: Some(1), ..Effective::default() });
    told.push(Event::Local(Box::new(Totals { effective, ..Totals::default() })));
    let packets = Some(crate::common::packets());
    told.push(Event::Remote(Box::new(Totals { packets, ..Totals::default() })));
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
    let (capacity, found) = crate::common::capacity();
    told.push(phase(8, capacity));
    told.push(Event::Capacity(Box::new(found)));
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
fn the_schema_is_that_of_the_types() {
    PUBLISHED.check::<Outcome>().unwrap();
}

#[test]
fn written_outcomes_are_valid() {
    for (name, written) in [("whole", outcome()), ("empty", built(&[])), ("cut", built(&events()[..6]))] {
        let written = serde_json::to_value(written).unwrap();
        assert_eq!(complaints(&VALIDATOR, &written), [""; 0], "{name}");
    }
}

#[test]
fn what_is_wrong_is_not_valid() {
    let spoilt = |spoil: fn(&mut Value)| {
        let mut document = full().clone();
        spoil(&mut document);
        !VALIDATOR.is_valid(&document)
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

/// Visits every schema within `schema`.
fn visit(schema: &mut Value, look: &mut dyn FnMut(&mut Map<String, Value>)) {
    match schema {
        Value::Object(object) => {
            look(object);
            object.values_mut().for_each(|value| visit(value, look));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| visit(value, look)),
        _ => {}
    }
}

/// Implementations by hand of `Serialize` and `JsonSchema` agree, and a full outcome is full.
#[test]
fn every_member_written_is_described_and_every_member_described_is_written() {
    let mut written = BTreeSet::new();
    visit(&mut full().clone(), &mut |object| written.extend(object.keys().cloned()));
    let mut unused = BTreeSet::new();
    let mut strict = SCHEMA.clone();
    visit(&mut strict, &mut |object| {
        let Some(Value::Object(members)) = object.get("properties") else { return };
        unused.extend(members.keys().filter(|name| !written.contains(*name)).cloned());
        object.insert("additionalProperties".to_owned(), json!(false));
    });
    assert_eq!(unused, BTreeSet::new(), "members that a full outcome does not have");
    let strict = jsonschema::validator_for(&strict).unwrap();
    assert_eq!(complaints(&strict, full()), [""; 0]);
    let mut document = full().clone();
    document["points"][0]["local"]["extra"] = json!(1);
    assert_eq!(complaints(&strict, &document).len(), 1, "members that are not described are found");
}

#[test]
fn every_member_has_a_description() {
    visit(&mut SCHEMA.clone(), &mut |object| {
        for (name, member) in object.get("properties").and_then(Value::as_object).into_iter().flatten() {
            // A word of an enumeration, and an object under one, are described beside them.
            let is_variant = member.get("const").is_some() || member.get("properties").is_some();
            let text = member["description"].as_str().unwrap_or_default();
            assert!(is_variant || text.len() > 4, "{name} is not described: '{text}'");
        }
    });
}

#[test]
fn levels_and_units_are_written_by_their_names() {
    let levels = [CaveatLevel::Invalid, CaveatLevel::Caution, CaveatLevel::Note];
    assert!(levels.iter().all(|level| json!(level) == level.name()));
    assert!(Unit::all().all(|unit| json!(unit) == unit.name()));
}
