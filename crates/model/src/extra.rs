//! Results of one protocol only.

use crate::{Event, Figure, Point, Unit};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

/// A result or setting that only one protocol has: a value of JSON that its crate writes and reads.
/// All other code passes it on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Extra {
    /// The protocol, as `--protocol` names it.
    pub protocol: String,
    /// The value, as the protocol writes it: that of `udpmon` is described by
    /// `schema/udpmon.v1.json`. `null` where there was no room.
    pub value: Box<RawValue>,
    /// With a result: what outputs show of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<Box<Shown>>,
}

/// A result of a protocol's own as all outputs show it. With neither settings nor figures it is
/// kept, and not shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Shown {
    /// The title of the table of such results.
    pub title: String,
    /// The remote end's address.
    pub peer: String,
    /// Settings that results of one title differ in on purpose; of a plot's the last one that
    /// varies is its x axis.
    pub settings: Vec<Reading>,
    /// Numbers that stand in the table and nowhere else.
    pub counts: Vec<Reading>,
    /// Readings that are also plotted, kept and compared.
    pub figures: Vec<Reading>,
    /// Curves of the first result of each setting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Curve>,
    /// True if something did not arrive.
    pub bad: bool,
}

/// A number with its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reading {
    /// The name in files: the key of a figure where it is one, as in sweep rows.
    pub key: String,
    /// As people read it.
    pub label: String,
    /// The unit of `value`.
    pub unit: Unit,
    /// The number.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub value: f64,
}

/// A line or the outline of a histogram.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Curve {
    /// The title of the plot, which other settings' plots share.
    pub title: String,
    /// A note on the plot.
    pub note: String,
    /// The quantity of the x axis, and its unit.
    pub x: (String, Unit),
    /// The quantity of the y axis, and its unit.
    pub y: (String, Unit),
    /// True if a value holds until the next one.
    pub steps: bool,
    /// Places and values; `None` is a gap.
    pub points: Vec<(f64, Option<f64>)>,
}

impl PartialEq for Extra {
    fn eq(&self, other: &Self) -> bool {
        self.protocol == other.protocol && self.value.get() == other.value.get() && self.shown == other.shown
    }
}

impl Extra {
    /// `value` of `protocol`; `null` in place of what JSON cannot hold.
    pub fn new(protocol: &str, value: &impl Serialize) -> Extra {
        let value = to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Extra { protocol: protocol.to_owned(), value, shown: None }
    }

    /// The value, if it is one of `protocol` and such a `T`.
    pub fn read<T: DeserializeOwned>(&self, protocol: &str) -> Option<T> {
        let json = Some(self.value.get()).filter(|_| self.protocol == protocol)?;
        serde_json::from_str(json).ok()
    }
}

impl Shown {
    /// Its settings in a row, `size=1000 spacing=20000`: the store's name for the result.
    pub fn setting(&self) -> String {
        let words = self.settings.iter().map(|setting| format!("{}={}", setting.key, setting.value));
        words.collect::<Vec<_>>().join(" ")
    }
}

impl Reading {
    /// A number of this name.
    pub fn new(key: &str, label: &str, unit: Unit, value: f64) -> Reading {
        Reading { key: key.to_owned(), label: label.to_owned(), unit, value }
    }

    /// A figure, under a shorter label.
    pub fn of(figure: Figure, label: &str, value: f64) -> Reading {
        Reading::new(&figure.key(), label, figure.unit(), value)
    }

    /// The figures of the table that its key names: at most one.
    pub fn figure(&self) -> Option<Figure> {
        Figure::named(&self.key).into_iter().next()
    }

    /// As people read it.
    pub fn show(&self) -> String {
        self.unit.show(self.value)
    }
}

impl Event {
    /// An event with an [`Extra`].
    pub fn extra(protocol: &str, value: &impl Serialize) -> Event {
        Event::Extra(Extra::new(protocol, value))
    }

    /// The value of an event with an [`Extra`] of `protocol`.
    pub fn extra_of<T: DeserializeOwned>(&self, protocol: &str) -> Option<T> {
        if let Event::Extra(extra) = self { extra.read(protocol) } else { None }
    }
}

impl Point {
    /// Results of protocols themselves.
    pub fn shown(&self) -> impl Iterator<Item = &Shown> {
        let shown = self.extras.iter().filter_map(|extra| extra.shown.as_deref());
        shown.filter(|shown| !shown.settings.is_empty() || !shown.figures.is_empty())
    }
}
