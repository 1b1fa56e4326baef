//! A receiver of OTLP's JSON: the messages of opentelemetry-proto that metrics have, and the rules
//! of their JSON encoding.
//!
//! Fields are those of `metrics.proto`, `resource.proto`, `common.proto` and
//! `metrics_service.proto` (v1) with gauges; the rules are those of
//! <https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>.

use crate::server::Server;
use crate::{LONG, Root, reading};
use export::{Exporter, Receiver};
use metrics::Wall;
use serde_json::Value;

/// Type of a field.
#[derive(Clone, Copy, Debug)]
enum Type {
    Text,
    Bool,
    Double,
    /// 64 bits: a string of digits.
    Long,
    /// 32 bits: a number.
    Int,
    Message(&'static str),
    Repeated(&'static str),
    Texts,
}

use Type::{Bool, Double, Int, Long, Message, Repeated, Text, Texts};

/// The messages, with their fields in lowerCamelCase.
const MESSAGES: &[(&str, &[(&str, Type)])] = &[
    ("ExportMetricsServiceRequest", &[("resourceMetrics", Repeated("ResourceMetrics"))]),
    (
        "ResourceMetrics",
        &[("resource", Message("Resource")), ("scopeMetrics", Repeated("ScopeMetrics")), ("schemaUrl", Text)],
    ),
    (
        "Resource",
        &[
            ("attributes", Repeated("KeyValue")),
            ("droppedAttributesCount", Int),
            ("entityRefs", Repeated("EntityRef")),
        ],
    ),
    ("EntityRef", &[("schemaUrl", Text), ("type", Text), ("idKeys", Texts), ("descriptionKeys", Texts)]),
    (
        "ScopeMetrics",
        &[("scope", Message("InstrumentationScope")), ("metrics", Repeated("Metric")), ("schemaUrl", Text)],
    ),
    (
        "InstrumentationScope",
        &[
            ("name", Text),
            ("version", Text),
            ("attributes", Repeated("KeyValue")),
            ("droppedAttributesCount", Int),
        ],
    ),
    (
        "Metric",
        &[
            ("name", Text),
            ("description", Text),
            ("unit", Text),
            ("gauge", Message("Gauge")),
            ("metadata", Repeated("KeyValue")),
        ],
    ),
    ("Gauge", &[("dataPoints", Repeated("NumberDataPoint"))]),
    (
        "NumberDataPoint",
        &[
            ("attributes", Repeated("KeyValue")),
            ("startTimeUnixNano", Long),
            ("timeUnixNano", Long),
            ("asDouble", Double),
            ("asInt", Long),
            ("flags", Int),
        ],
    ),
    ("KeyValue", &[("key", Text), ("value", Message("AnyValue"))]),
    ("AnyValue", &[("stringValue", Text), ("boolValue", Bool), ("intValue", Long), ("doubleValue", Double)]),
];

/// Why a value is not such a message.
fn check(message: &str, value: &Value) -> Result<(), String> {
    let fields = MESSAGES.iter().find(|(name, _)| *name == message).map(|(_, fields)| fields);
    let fields = fields.ok_or(format!("no message {message}"))?;
    let object = value.as_object().ok_or(format!("{message} is no object: {value}"))?;
    for (name, value) in object {
        let known = fields.iter().find(|(known, _)| known == name);
        let (_, kind) = known.ok_or(format!("{message} has no field {name}"))?;
        let fits = match kind {
            Text => value.is_string(),
            Bool => value.is_boolean(),
            Double => value.is_number() || ["NaN", "Infinity", "-Infinity"].iter().any(|text| value == text),
            Long => value.as_str().is_some_and(|text| text.parse::<u64>().is_ok()),
            Int => value.as_u64().is_some_and(|n| u32::try_from(n).is_ok()),
            Texts => value.as_array().is_some_and(|all| all.iter().all(Value::is_string)),
            Message(name) => check(name, value).map(|()| true)?,
            Repeated(name) => {
                let all = value.as_array().ok_or(format!("{message}.{name} is no list"))?;
                all.iter().try_for_each(|one| check(name, one)).map(|()| true)?
            }
        };
        if !fits {
            return Err(format!("{message}.{name} is no {kind:?}: {value}"));
        }
    }
    Ok(())
}

#[test]
fn requests_are_those_of_the_published_definitions() {
    let (root, server) = (Root::new(), Server::start([]));
    let receiver = Receiver::parse(&format!("otlp+http://{}", server.address)).unwrap();
    let exporter = Exporter::new(&root.0, vec![(receiver, None)], "0.0.0").unwrap();
    assert_eq!(exporter.deliver(&reading(1.25e8), Wall(1), LONG, &|| false)[0].sent, 1);
    let requests = server.requests();
    let (_, body) = requests[0].split_once("\r\n\r\n").unwrap();
    let document: Value = serde_json::from_str(body).unwrap();
    check("ExportMetricsServiceRequest", &document).unwrap();
    let resource = &document["resourceMetrics"][0];
    let metric = &resource["scopeMetrics"][0]["metrics"][0];
    assert_eq!(metric["name"], "netcaliper_goodput_bytes_per_second");
    let point = &metric["gauge"]["dataPoints"][0];
    assert_eq!((&point["asDouble"], &point["timeUnixNano"]), (&1.25e8.into(), &"1700000000000000001".into()));
    for (wrong, why) in [
        (r#"{"resource_metrics":[]}"#, "no field resource_metrics"),
        (
            r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"gauge":{"dataPoints":[{"timeUnixNano":1}]}}]}]}]}"#,
            "Long",
        ),
    ] {
        let wrong: Value = serde_json::from_str(wrong).unwrap();
        assert!(check("ExportMetricsServiceRequest", &wrong).unwrap_err().contains(why));
    }
}
