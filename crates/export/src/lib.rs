//! Sends the figures of runs to receivers that others watch: OTLP over HTTP, InfluxDB's line
//! protocol, Prometheus' Pushgateway.
//!
//! A [`Reading`] is a sheet of gauges, the same that Prometheus scrapes, with its time. Encoders
//! (`influx.rs`, `otlp.rs`, `pushgateway.rs`) turn it into [`Entry`] values, and are pure. Each
//! entry is in the [`Spool`] before the first attempt and leaves it when the receiver has taken
//! it: a program that is killed meanwhile loses none, and may send one twice. Within a time limit,
//! [`Exporter::deliver`] sends the entries of each receiver in their order; the next run sends the
//! rest. [`Background`] does so on a thread of its own.
//!
//! Without the feature `http` nothing is sent: an exporter cannot be made, and says so.
#![forbid(unsafe_code)]
#![cfg_attr(not(feature = "http"), expect(dead_code, reason = "nothing is sent in such a build"))]

#[cfg(not(feature = "http"))]
mod absent;
mod answer;
mod background;
mod delivery;
#[cfg(feature = "http")]
mod http;
mod influx;
mod otlp;
mod pushgateway;
mod receiver;
mod secret;
mod spool;

#[cfg(not(feature = "http"))]
use absent as http;
pub use background::Background;
pub use delivery::{Delivery, Exporter};
pub use receiver::Receiver;
pub use secret::Secret;
pub use spool::{Spool, SpoolLimits};

use metrics::Wall;
use report::{MetricsLabels, MetricsSheet};

/// Figures of one run, or of a round of a fleet, and the source of them.
#[derive(Default)]
pub struct Reading {
    /// The figures.
    pub sheet: MetricsSheet,
    /// Time of the figures; a Pushgateway keeps none.
    pub at: Wall,
    /// Labels that distinguish this test from others: the grouping key at a Pushgateway.
    pub group: MetricsLabels,
    /// Name of this host; empty where unknown.
    pub host: String,
    /// Version of the program that measured.
    pub version: String,
}

/// One request to a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path and query of the request; no line breaks.
    pub target: String,
    /// Body of the request.
    pub body: String,
}

impl Receiver {
    /// The requests that pass `reading` on to this receiver; none for an empty sheet.
    pub fn entries(&self, reading: &Reading) -> Vec<Entry> {
        match self.kind() {
            receiver::Kind::Otlp => otlp::bodies(reading, otlp::MOST_POINTS)
                .map(|body| Entry { target: self.path().to_owned(), body })
                .collect(),
            receiver::Kind::Influx => influx::bodies(reading, influx::MOST_BYTES)
                .map(|body| Entry { target: self.path().to_owned(), body })
                .collect(),
            receiver::Kind::Pushgateway => pushgateway::entry(self.path(), reading).into_iter().collect(),
        }
    }
}
