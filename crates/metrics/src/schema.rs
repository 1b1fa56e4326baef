//! JSON Schemas of documents, generated from their types and compared with the files in `schema/`.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::PathBuf;

/// A published schema.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// Name of the file in `schema/`.
    pub file: &'static str,
    /// `$id`.
    pub id: &'static str,
    /// Title of the document.
    pub title: &'static str,
}

impl Published {
    /// The schema as published.
    ///
    /// # Errors
    /// The file cannot be read, or holds no JSON.
    pub fn read(self) -> Result<Value, String> {
        let text = std::fs::read_to_string(self.path()).map_err(|e| format!("reading {}: {e}", self.file))?;
        serde_json::from_str(&text).map_err(|e| format!("schema/{}: {e}", self.file))
    }

    /// Compares the file with the schema of `T`, or writes it when `NETCALIPER_WRITE_SCHEMA` is set.
    /// The lists of required members are taken from the file, so that none grows by itself.
    ///
    /// # Errors
    /// The file differs, or cannot be read or written.
    pub fn check<T: JsonSchema>(self) -> Result<(), String> {
        let wanted = self.text::<T>(&self.read()?);
        if std::env::var_os("NETCALIPER_WRITE_SCHEMA").is_some() {
            return std::fs::write(self.path(), wanted).map_err(|e| format!("writing {}: {e}", self.file));
        }
        let found =
            std::fs::read_to_string(self.path()).map_err(|e| format!("reading {}: {e}", self.file))?;
        let different = || wanted.lines().zip(found.lines()).find(|(wanted, found)| wanted != found);
        let advice = "run the test again with NETCALIPER_WRITE_SCHEMA=1";
        if wanted == found {
            Ok(())
        } else {
            Err(format!("schema/{} is not that of the types ({:?}): {advice}", self.file, different()))
        }
    }

    fn path(self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schema").join(self.file)
    }

    /// The file for `T`. Members that `published` does not require stay optional: older documents
    /// lack them.
    fn text<T: JsonSchema>(self, published: &Value) -> String {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let settings = settings.with_transform(RecursiveTransform(refine));
        let mut schema = settings.into_generator().into_root_schema_for::<T>();
        schema.insert("$id".to_owned(), self.id.into());
        schema.insert("title".to_owned(), self.title.into());
        let mut value = schema.to_value();
        keep_optional(&mut value, published);
        let mut text = String::new();
        print("", &value, 0, &mut text);
        text + "\n"
    }
}

/// Makes a generated schema one for readers of JSON: no defaults of the reader in Rust, plain
/// descriptions.
fn refine(schema: &mut Schema) {
    schema.remove("default");
    let has_members = schema.get("properties").is_some();
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = plain(text);
        if has_members {
            *text = text.replace("`None`", "null");
        }
    }
    let required = schema.get("required").cloned().unwrap_or_default();
    let required = required.as_array().map_or(&[][..], Vec::as_slice);
    for (name, property) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten()
    {
        let none = if required.iter().any(|one| one == name) { "null" } else { "absent" };
        if let Some(Value::String(text)) = property.get_mut("description") {
            *text = text.replace("`None`", none);
        }
    }
}

/// A doc comment without links and line ends. A paragraph that begins with `Wide:` is for readers
/// of the code.
fn plain(text: &str) -> String {
    let paragraphs = text.split("\n\n").filter(|paragraph| !paragraph.starts_with("Wide:"));
    let text = paragraphs.collect::<Vec<_>>().join(" ").replace('\n', " ");
    text.replace("[`", "`").replace("`]", "`")
}

/// Takes members out of `required` that the published schema of the same object does not require.
fn keep_optional(schema: &mut Value, published: &Value) {
    match (schema, published) {
        (Value::Object(schema), Value::Object(published)) => {
            let before = published.get("required").and_then(Value::as_array);
            if let Some(Value::Array(required)) = schema.get_mut("required") {
                required.retain(|name| before.is_some_and(|before| before.contains(name)));
            }
            for (key, value) in schema {
                keep_optional(value, published.get(key).unwrap_or(&Value::Null));
            }
        }
        (Value::Array(schemas), Value::Array(published)) => {
            schemas.iter_mut().zip(published).for_each(|(one, published)| keep_optional(one, published));
        }
        _ => {}
    }
}

/// Prints `value`, the value of `key`: over several lines where it has members or alternatives, and
/// on one where it has none.
fn print(key: &str, value: &Value, depth: usize, out: &mut String) {
    let mut items: Vec<(Option<&String>, &Value)> = match value {
        Value::Object(object) => object.iter().map(|(key, value)| (Some(key), value)).collect(),
        Value::Array(items) => items.iter().map(|item| (None, item)).collect(),
        _ => Vec::new(),
    };
    if items.is_empty() || !(PARTS.contains(&key) || has_parts(value)) {
        let _ = write!(out, "{value}");
        return;
    }
    let (open, close) = if value.is_object() { ('{', '}') } else { ('[', ']') };
    // Names of members are no keys of the schema.
    if !PARTS.contains(&key) {
        items.sort_by_key(|(key, _)| key.map_or(0, |key| place(key)));
    }
    let indent = "  ".repeat(depth + 1);
    for (at, (key, item)) in items.into_iter().enumerate() {
        let _ = write!(out, "{}\n{indent}", if at == 0 { open } else { ',' });
        if let Some(key) = key {
            let _ = write!(out, "{key:?}: ");
        }
        print(key.map_or("", String::as_str), item, depth + 1, out);
    }
    let _ = write!(out, "\n{}{close}", "  ".repeat(depth));
}

/// Keys whose values have one part a line.
const PARTS: [&str; 3] = ["properties", "oneOf", "$defs"];

fn has_parts(value: &Value) -> bool {
    match value {
        Value::Object(object) => {
            object.iter().any(|(key, value)| PARTS.contains(&key.as_str()) || has_parts(value))
        }
        Value::Array(items) => items.iter().any(has_parts),
        _ => false,
    }
}

/// Place of a key of a schema: first the description of the object, last the definitions.
fn place(key: &str) -> usize {
    let first = ["$schema", "$id", "title", "description", "type"];
    let last = ["required", "$defs"];
    let among = |keys: &[&str]| keys.iter().position(|one| *one == key);
    among(&first).or(among(&last).map(|at| 100 + at)).unwrap_or(50)
}
