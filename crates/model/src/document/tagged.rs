//! Enums whose JSON is an object that names the variant in one field, beside the fields of the
//! variant: `{"event":"start","at":5}`.
//!
//! Serde can do that (`#[serde(tag = "..")]`), but keeps all fields in a buffer until it has met
//! the tag, and reads the variant from that buffer: with a second copy of the code of every type in
//! every variant. Here the tag is looked up first, and the variant then read from the same text.
//! The enum derives serde's usual form, `{"start":{"at":5}}`, with `#[serde(remote = "Self")]`, so
//! that this form cannot get out by mistake.

use super::top_field;
use serde::Deserialize;
use serde::de::value::{EnumAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error as _, IgnoredAny, VariantAccess, Visitor};
use serde_json::de::SliceRead;
use serde_json::{Error, Result, Value};
use std::io::{self, Write};

/// Makes a [`Document`](super::Document) of an enum that derives serde's traits with `remote =
/// "Self"`.
#[macro_export]
macro_rules! tagged_document {
    ($name:ty, $tag:literal) => {
        impl $crate::document::Document for $name {
            fn write(&self, out: &mut dyn ::std::io::Write) -> ::std::io::Result<()> {
                $crate::document::write_tagged($tag, out, &|out| {
                    <$name>::serialize(self, &mut ::serde_json::Serializer::new(out))
                })
            }

            fn read(json: &[u8]) -> ::serde_json::Result<Self> {
                $crate::document::read_tagged(json, $tag, |variant| <$name>::deserialize(variant))
            }
        }
    };
}

/// An enum that is a document as above, and a field of others.
macro_rules! tagged_field {
    ($name:ty, $tag:literal) => {
        $crate::tagged_document!($name, $tag);

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                $crate::document::field::serialize(self, to)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::document::field::deserialize(from)
            }
        }
    };
}

pub(crate) use tagged_field;

/// Writes what `serialize` writes in serde's usual form of an enum, `"stop"` or
/// `{"start":{"at":5}}`, as `{"event":"stop"}` or `{"event":"start","at":5}`; `tag` is `event`.
///
/// # Errors
/// When `out` cannot be written, or the variant is not an object.
pub fn write_tagged(
    tag: &str,
    out: &mut dyn Write,
    serialize: &dyn Fn(&mut dyn Write) -> Result<()>,
) -> io::Result<()> {
    let mut text = Vec::with_capacity(512);
    serialize(&mut text)?;
    let unit = text.strip_prefix(b"\"").map(|_| (&text[..], &b""[..]));
    let (name, fields) = unit.or_else(|| with_fields(&text)).ok_or_else(|| {
        let text = String::from_utf8_lossy(&text);
        io::Error::new(io::ErrorKind::InvalidData, format!("the variant is no object: {text}"))
    })?;
    write!(out, "{{\"{tag}\":")?;
    out.write_all(name)?;
    if !fields.is_empty() {
        out.write_all(b",")?;
        out.write_all(fields)?;
    }
    out.write_all(b"}")
}

/// `"start"` and `"at":5` of `{"start":{"at":5}}`. Names of variants are identifiers, so the first
/// colon ends the name.
fn with_fields(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = text.strip_prefix(b"{")?.strip_suffix(b"}")?;
    let (name, fields) = inner.split_at(inner.iter().position(|&byte| byte == b':')?);
    Some((name, fields.strip_prefix(b":{")?.strip_suffix(b"}")?))
}

/// Reads `{"event":"start","at":5}` with the derived function `deserialize`; `tag` is `event`, at
/// any place.
///
/// # Errors
/// When `json` is no such object.
pub fn read_tagged<'de, T>(
    json: &'de [u8],
    tag: &'static str,
    deserialize: impl FnOnce(EnumAccessDeserializer<Variant<'_, 'de>>) -> Result<T>,
) -> Result<T> {
    let name = match top_field(json, tag)? {
        Some(Value::String(name)) => name,
        Some(_) => return Err(Error::custom(format_args!("`{tag}` is not text"))),
        None => return Err(Error::missing_field(tag)),
    };
    let mut fields = serde_json::Deserializer::from_slice(json);
    let value = deserialize(EnumAccessDeserializer::new(Variant { name: &name, fields: &mut fields }))?;
    fields.end()?;
    Ok(value)
}

/// A variant of which the name is known, and an object with its fields.
pub struct Variant<'a, 'de> {
    name: &'a str,
    fields: &'a mut serde_json::Deserializer<SliceRead<'de>>,
}

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self)> {
        Ok((seed.deserialize(StrDeserializer::new(self.name))?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<()> {
        IgnoredAny::deserialize(self.fields).map(drop)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value> {
        seed.deserialize(self.fields)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value> {
        Err(Error::custom("a variant with a list is never written"))
    }

    fn struct_variant<V: Visitor<'de>>(self, names: &'static [&'static str], visitor: V) -> Result<V::Value> {
        self.fields.deserialize_struct("", names, visitor)
    }
}
