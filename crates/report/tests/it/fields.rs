//! The fields and variants that the outcome's types read, asked of their own `Deserialize`, against those that `schema/outcome.v2.json`
//! describes: a field that no test fills in cannot be forgotten.

use model::{Failure, Outcome, Schedule};
use serde::de::value::{Error, StrDeserializer};
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde_json::Value;
use std::collections::BTreeSet;

/// What a type reads.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Fields(&'static [&'static str]),
    Variants(&'static [&'static str]),
    List,
    Map,
    /// A text, a number, a variant without data, or several of these.
    Leaf,
}

/// What `serde_json` calls a value that it is to leave as it is.
const RAW: &str = "$serde_json::private::RawValue";
/// A key that maps by name and maps by address have.
const KEY: &str = "127.0.0.1";

/// Leads a type's reader along a path, and notes the shape at its end. Reading fails there: no value is needed.
struct Guide<'a> {
    path: &'a [&'static str],
    shape: &'a mut Option<Shape>,
}

impl<'a> Guide<'a> {
    fn at_end<T>(self, shape: Shape) -> Result<T, Error> {
        *self.shape = Some(shape);
        Err(de::Error::custom("the end of the path"))
    }

    fn next(self) -> (StrDeserializer<'static, Error>, Guide<'a>) {
        (self.path[0].into_deserializer(), Guide { path: &self.path[1..], shape: self.shape })
    }
}

/// The one entry of a map, of a list, or of an enumeration, that lies on the path.
struct Step<'a>(Option<Guide<'a>>);

impl<'de> Deserializer<'de> for Guide<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        self.at_end(Shape::Leaf)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        // An enumeration with its tag inside is read from the text as it is.
        if name == RAW { self.at_end(Shape::Leaf) } else { visitor.visit_newtype_struct(self) }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.path.is_empty() { self.at_end(Shape::List) } else { visitor.visit_seq(Step(Some(self))) }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.path.is_empty() { self.at_end(Shape::Map) } else { visitor.visit_map(Step(Some(self))) }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.path {
            [] => self.at_end(Shape::Fields(fields)),
            _ => visitor.visit_map(Step(Some(self))),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.path {
            [] => self.at_end(Shape::Variants(variants)),
            _ => visitor.visit_enum(Step(Some(self))),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple tuple_struct
        identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for Step<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some(guide) = self.0.take() else { return Ok(None) };
        let (key, rest) = guide.next();
        self.0 = Some(rest);
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.0.take().unwrap())
    }
}

impl<'de> SeqAccess<'de> for Step<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.0.take().map(|guide| seed.deserialize(guide.next().1)).transpose()
    }
}

impl<'de> EnumAccess<'de> for Step<'_> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let (name, rest) = self.0.unwrap().next();
        Ok((seed.deserialize(name)?, Step(Some(rest))))
    }
}

impl<'de> VariantAccess<'de> for Step<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        self.0.unwrap().at_end(Shape::Leaf)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.0.unwrap())
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Error> {
        self.0.unwrap().at_end(Shape::Leaf)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.unwrap().deserialize_struct("", fields, visitor)
    }
}

/// The alternatives that a schema has at a place, references followed.
fn alternatives<'a>(root: &'a Value, at: &'a Value) -> Vec<&'a Value> {
    if let Some(reference) = at["$ref"].as_str() {
        return alternatives(root, root.pointer(&reference[1..]).unwrap());
    }
    match at["anyOf"].as_array() {
        Some(options) => options.iter().flat_map(|option| alternatives(root, option)).collect(),
        None => vec![at],
    }
}

/// Compares the types from `path` on with the schema `at` its place. How many places there are.
fn compare(path: &mut Vec<&'static str>, root: &Value, at: &Value) -> usize {
    let mut shape = None;
    let _ = Outcome::deserialize(Guide { path, shape: &mut shape });
    let shape = shape.unwrap_or_else(|| panic!("{path:?} was not reached"));
    let options = alternatives(root, at);
    let member = |name: &str| options.iter().find_map(|option| option["properties"].get(name));
    let mut described: BTreeSet<&str> = BTreeSet::new();
    for option in &options {
        described
            .extend(option["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()));
        described.extend(option["enum"].as_array().into_iter().flatten().filter_map(Value::as_str));
        described.extend(option["const"].as_str());
    }
    let (names, children) = match shape {
        Shape::Leaf => return 1,
        Shape::Fields(names) | Shape::Variants(names) => (Some(names), names),
        Shape::List | Shape::Map => (None, &[KEY][..]),
    };
    if let Some(names) = names {
        assert_eq!(names.iter().copied().collect::<BTreeSet<_>>(), described, "at {path:?}");
    }
    let mut places = 1;
    for name in children {
        let next = match shape {
            Shape::List => options.iter().find_map(|option| option.get("items")),
            Shape::Map => options.iter().find_map(|option| option.get("additionalProperties")),
            _ => member(name),
        };
        path.push(name);
        // A variant without data is a word.
        places += next.map_or(0, |next| compare(path, root, next));
        path.pop();
    }
    places
}

#[test]
fn the_schema_has_the_fields_and_words_of_the_types() {
    let root = crate::schema::schema();
    let places = compare(&mut Vec::new(), root, root);
    assert!(places > 500, "the types were walked through: {places}");
}

/// Compares an enumeration whose JSON names the variant in the field `tag`, beside those of the variant.
fn compare_tagged(definition: &str, tag: &str, read: fn(Guide)) {
    let shape_at = |path: &[&'static str]| {
        let mut shape = None;
        read(Guide { path, shape: &mut shape });
        shape
    };
    let Some(Shape::Variants(words)) = shape_at(&[]) else { panic!("{definition} is no enumeration") };
    let mut fields = BTreeSet::from([tag]);
    for word in words {
        if let Some(Shape::Fields(more)) = shape_at(&[*word]) {
            fields.extend(more);
        }
    }
    let properties = crate::schema::schema()["$defs"][definition]["properties"].as_object().unwrap();
    assert_eq!(properties.keys().map(String::as_str).collect::<BTreeSet<_>>(), fields, "{definition}");
    let described = properties[tag]["enum"].as_array().unwrap().iter().filter_map(Value::as_str);
    assert_eq!(described.collect::<BTreeSet<_>>(), words.iter().copied().collect(), "{definition}");
}

#[test]
fn the_schema_has_the_words_of_enumerations_with_a_tag_inside() {
    compare_tagged("schedule", "when", |guide| drop(Schedule::deserialize(guide)));
    compare_tagged("failure", "why", |guide| drop(Failure::deserialize(guide)));
}
