//! OTLP over HTTP: metrics in the JSON encoding of `ExportMetricsServiceRequest`.
//!
//! Names are lowerCamelCase, 64-bit integers are strings, and each figure is a gauge of doubles.
//! <https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>

use crate::Reading;
use report::Gauge;
use serde_json::{Value, json};

/// Most data points of a request.
pub(crate) const MOST_POINTS: usize = 5_000;

/// Units in the code of UCUM, by the end of a name. Names without such an end are counts, or have
/// a unit that UCUM writes in no short form.
const UNITS: [(&str, &str); 6] = [
    ("_bytes_per_second", "By/s"),
    ("_per_second", "1/s"),
    ("_seconds_per_gigabyte", ""),
    ("_seconds", "s"),
    ("_ratio", "1"),
    ("_bytes", "By"),
];

/// The requests for a reading, each of at most `most` points.
pub(crate) fn bodies(reading: &Reading, most: usize) -> impl Iterator<Item = String> {
    let gauges: Vec<Gauge<'_>> = reading.sheet.gauges().collect();
    let bodies: Vec<String> =
        gauges.chunks(most).map(|gauges| request(gauges, reading).to_string()).collect();
    bodies.into_iter()
}

fn request(gauges: &[Gauge<'_>], reading: &Reading) -> Value {
    let resource =
        [("service.name", "netcaliper"), ("service.version", &reading.version), ("host.name", &reading.host)];
    let known = resource.into_iter().filter(|(_, value)| !value.is_empty());
    let resource: Vec<Value> = known.map(|(key, value)| attribute(key, value)).collect();
    let metrics: Vec<Value> =
        gauges.chunk_by(|a, b| a.name == b.name).map(|of_name| metric(of_name, reading)).collect();
    json!({ "resourceMetrics": [{
        "resource": { "attributes": resource },
        "scopeMetrics": [{
            "scope": { "name": "netcaliper", "version": reading.version },
            "metrics": metrics,
        }],
    }] })
}

/// The samples of one name.
fn metric(gauges: &[Gauge<'_>], reading: &Reading) -> Value {
    let (name, help) = gauges.first().map_or(("", ""), |first| (first.name, first.help));
    let unit = UNITS.iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, unit)| unit);
    let point = |gauge: &Gauge<'_>| {
        let labels = gauge.labels.iter().filter(|(_, value)| !value.is_empty());
        let attributes: Vec<Value> = labels.map(|(key, value)| attribute(key, value)).collect();
        json!({
            "attributes": attributes,
            "timeUnixNano": reading.at.0.max(0).to_string(),
            "asDouble": gauge.value,
        })
    };
    let points: Vec<Value> = gauges.iter().map(point).collect();
    json!({ "name": name, "description": help, "unit": unit, "gauge": { "dataPoints": points } })
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::Wall;
    use report::MetricsSheet;

    fn reading(names: &[&str]) -> Reading {
        let mut sheet = MetricsSheet::default();
        for name in names {
            for way in ["up", "down", ""] {
                sheet.gauge(name, "Help.", &vec![("direction", way.to_owned())], Some(0.5));
            }
        }
        let (host, version) = ("probe".to_owned(), "1.2.3".to_owned());
        Reading { sheet, at: Wall(1_700_000_000_000_000_001), host, version, ..Reading::default() }
    }

    #[test]
    fn the_samples_of_a_name_are_one_metric() {
        let bodies: Vec<String> = bodies(&reading(&["a_ratio"]), 10).collect();
        let body: Value = serde_json::from_str(&bodies[0]).unwrap();
        let scope = &body["resourceMetrics"][0]["scopeMetrics"][0];
        let metric = &scope["metrics"][0];
        assert_eq!((&metric["name"], &metric["unit"]), (&json!("a_ratio"), &json!("1")));
        let points = metric["gauge"]["dataPoints"].as_array().unwrap();
        assert_eq!(
            points[0],
            json!({
                "attributes": [{ "key": "direction", "value": { "stringValue": "up" } }],
                "timeUnixNano": "1700000000000000001",
                "asDouble": 0.5,
            })
        );
        assert_eq!((points.len(), &points[2]["attributes"]), (3, &json!([])));
        let names = body["resourceMetrics"][0]["resource"]["attributes"].as_array().unwrap();
        let names: Vec<&str> = names.iter().filter_map(|one| one["key"].as_str()).collect();
        assert_eq!(names, ["service.name", "service.version", "host.name"]);
    }

    #[test]
    fn long_readings_have_several_requests() {
        let count = |body: String| body.matches("timeUnixNano").count();
        let counts: Vec<usize> = bodies(&reading(&["a", "b", "c"]), 4).map(count).collect();
        assert_eq!(counts, [4, 4, 1]);
        assert_eq!(bodies(&Reading::default(), 4).count(), 0);
    }

    #[test]
    fn each_unit_of_the_figures_has_its_code() {
        for (unit, code) in [
            (model::Unit::BitsPerSecond, "By/s"),
            (model::Unit::PerSecond, "1/s"),
            (model::Unit::Ns, "s"),
            (model::Unit::Percent, "1"),
            (model::Unit::Count, ""),
            (model::Unit::Share, "1"),
            (model::Unit::SecondsPerGb, ""),
            (model::Unit::Bytes, "By"),
        ] {
            let name = format!("x{}", unit.scraped().0);
            let bodies: Vec<String> = bodies(&reading(&[&name]), 10).collect();
            assert!(bodies[0].contains(&format!("\"unit\":\"{code}\"")), "{name}: {}", bodies[0]);
        }
    }
}
