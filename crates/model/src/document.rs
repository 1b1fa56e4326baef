//! The only reader and writer of the JSON of runs and their results.
//!
//! Serde's code is generic over the reader and the writer, and a crate that calls it gets a copy of
//! it for every type below the one it asks for. So each [`Document`] has one writer and one reader,
//! compiled here; other crates call those.

mod indent;
mod tagged;

pub(crate) use tagged::tagged_field;
pub use tagged::{Variant, read_tagged, write_tagged};

use crate::{Effective, HostSnapshot, Outcome, PacketReport, Phase, Totals};
use indent::Indented;
use serde::Deserializer as _;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Deserializer, Result, Value};
use std::fmt;
use std::io::{self, Write};

/// Something that is a JSON document of its own.
pub trait Document: Sized {
    /// Writes it on one line, without a line end.
    fn write(&self, out: &mut dyn Write) -> io::Result<()>;

    /// Reads it; fields that it does not know are passed over.
    ///
    /// # Errors
    /// When `json` is not such a document.
    fn read(json: &[u8]) -> Result<Self>;

    /// Writes it indented by two spaces per level, without a line end.
    fn write_indented(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write(&mut Indented::new(out))
    }

    /// The document as a value of JSON.
    ///
    /// # Errors
    /// When it is nested too deeply for a reader.
    fn value(&self) -> io::Result<Value> {
        Ok(serde_json::from_str(&text(&|out| self.write(out))?)?)
    }
}

/// The output of `write` as text.
fn text(write: &dyn Fn(&mut dyn Write) -> io::Result<()>) -> io::Result<String> {
    let mut text = Vec::new();
    write(&mut text)?;
    String::from_utf8(text).map_err(io::Error::other)
}

macro_rules! documents {
    ($($name:ty),+) => {
        $(impl Document for $name {
            fn write(&self, out: &mut dyn Write) -> io::Result<()> {
                Ok(serde_json::to_writer(out, self)?)
            }

            fn read(json: &[u8]) -> Result<Self> {
                serde_json::from_slice(json)
            }
        })+
    };
}

documents!(Outcome, Phase, Totals, HostSnapshot, PacketReport, Effective);

impl<T: Document> Document for Box<T> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        T::write(self, out)
    }

    fn read(json: &[u8]) -> Result<Self> {
        T::read(json).map(Box::new)
    }
}

/// No document is `null`.
impl<T: Document> Document for Option<T> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Some(document) => document.write(out),
            None => out.write_all(b"null"),
        }
    }

    fn read(json: &[u8]) -> Result<Self> {
        if json == b"null" { Ok(None) } else { T::read(json).map(Some) }
    }
}

/// A [`Document`] as a field of a message that is itself read and written with serde: `#[serde(with
/// = "..")]`. The JSON is the same as without; what differs is that the field's code is not
/// compiled once more for each such message.
pub mod field {
    use super::Document;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
    use serde_json::value::RawValue;

    /// Writes `document`.
    ///
    /// # Errors
    /// Errors of `to`.
    pub fn serialize<T: Document, S: Serializer>(document: &T, to: S) -> Result<S::Ok, S::Error> {
        let text = super::text(&|out| document.write(out)).map_err(ser::Error::custom)?;
        RawValue::from_string(text).map_err(ser::Error::custom)?.serialize(to)
    }

    /// Reads it.
    ///
    /// # Errors
    /// Errors of `from`, and a field that is no such document.
    pub fn deserialize<'de, T: Document, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        let raw = <Box<RawValue>>::deserialize(from)?;
        T::read(raw.get().as_bytes()).map_err(de::Error::custom)
    }
}

/// Checks the syntax of `json`.
///
/// # Errors
/// The place of the error.
pub fn check_syntax(json: &[u8]) -> Result<()> {
    serde_json::from_slice::<IgnoredAny>(json).map(drop)
}

/// The first field `name` of the object `json`; what follows it is not looked at. `None` without
/// such a field.
///
/// # Errors
/// When `json` is no object, or damaged before the field.
pub fn top_field(json: &[u8], name: &str) -> Result<Option<Value>> {
    struct Search<'a> {
        name: &'a str,
        found: Option<Value>,
    }

    impl<'de> Visitor<'de> for &mut Search<'_> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
            while let Some(key) = map.next_key::<String>()? {
                if key == self.name {
                    self.found = Some(map.next_value()?);
                    // Ends the reading here: the caller looks at `found` first.
                    return Err(A::Error::custom("found"));
                }
                map.next_value::<IgnoredAny>()?;
            }
            Ok(())
        }
    }

    let mut search = Search { name, found: None };
    let read = Deserializer::from_slice(json).deserialize_map(&mut search);
    if search.found.is_none() {
        read?;
    }
    Ok(search.found)
}

#[cfg(test)]
mod tests;
