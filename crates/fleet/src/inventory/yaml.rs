//! YAML as a tree of JSON's values, within bounds: an alias counts as all that it stands for.

use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Most values of a document, values of aliases included.
const MAX_VALUES: usize = 1_000_000;
const MAX_DEPTH: usize = 100;

pub(super) fn parse(text: &str) -> Result<Value, String> {
    let mut reader = Reader { parser: Parser::new_from_str(text), anchors: HashMap::new(), left: MAX_VALUES };
    loop {
        match reader.event()? {
            Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
            Event::StreamEnd | Event::DocumentEnd => return Ok(Value::Null),
            first => return reader.value(first, 0),
        }
    }
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// Values with an anchor, and how many values each holds.
    anchors: HashMap<usize, (Value, usize)>,
    left: usize,
}

impl<'a> Reader<'a> {
    fn event(&mut self) -> Result<Event<'a>, String> {
        let event = self.parser.next_event().transpose();
        let event = event.map_err(|error| format!("the YAML is damaged: {error}"))?;
        Ok(event.map_or(Event::StreamEnd, |(event, _)| event))
    }

    fn spend(&mut self, values: usize) -> Result<(), String> {
        self.left = self.left.checked_sub(values).ok_or_else(|| {
            format!("the YAML has more than {MAX_VALUES} values, values of aliases included")
        })?;
        Ok(())
    }

    fn value(&mut self, event: Event<'a>, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err(format!("the YAML is nested more than {MAX_DEPTH} deep"));
        }
        self.spend(1)?;
        let before = self.left;
        let (value, anchor) = match event {
            Event::Alias(anchor) => {
                let (value, size) = self
                    .anchors
                    .get(&anchor)
                    .cloned()
                    .ok_or_else(|| "the YAML has an alias within its own value".to_owned())?;
                self.spend(size)?;
                return Ok(value);
            }
            Event::Scalar(text, ScalarStyle::Plain, anchor, _) => (plain(&text), anchor),
            Event::Scalar(text, _, anchor, _) => (Value::String(text.into_owned()), anchor),
            Event::SequenceStart(anchor, _) => (self.sequence(depth)?, anchor),
            Event::MappingStart(anchor, _) => (self.mapping(depth)?, anchor),
            _ => return Err("the YAML ends within a value".to_owned()),
        };
        if anchor > 0 {
            // Copied: its values count once more.
            let size = before - self.left + 1;
            self.spend(size)?;
            self.anchors.insert(anchor, (value.clone(), size));
        }
        Ok(value)
    }

    fn sequence(&mut self, depth: usize) -> Result<Value, String> {
        let mut all = Vec::new();
        loop {
            match self.event()? {
                Event::SequenceEnd => return Ok(Value::Array(all)),
                event => all.push(self.value(event, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, String> {
        let (mut all, mut merged) = (Map::new(), Map::new());
        loop {
            let key = match self.event()? {
                Event::MappingEnd => break,
                // A name of digits stays as it is written: `007` is a host, not 7.
                Event::Scalar(text, _, 0, _) => {
                    self.spend(1)?;
                    text.into_owned()
                }
                _ => return Err("the YAML has a key that is no plain name".to_owned()),
            };
            let event = self.event()?;
            let value = self.value(event, depth + 1)?;
            match (key.as_str(), value) {
                ("<<", Value::Object(of)) => merged.extend(of),
                (_, value) => drop(all.insert(key, value)),
            }
        }
        for (key, value) in merged {
            all.entry(key).or_insert(value);
        }
        Ok(Value::Object(all))
    }
}

/// A scalar without quotes: nothing, a truth, or the text as it is written.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        text => Value::String(text.to_owned()),
    }
}
