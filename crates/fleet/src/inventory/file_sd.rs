//! Prometheus' `file_sd`: lists of targets with their labels.

use super::build::Builder;
use super::{Inventory, lines};
use serde_json::Value;

pub(super) fn read(groups: &[Value]) -> Result<Inventory, String> {
    let mut builder = Builder::default();
    for (at, group) in groups.iter().enumerate() {
        let wrong = || format!("entry {}: expected \"targets\": [\"HOST:PORT\", …]", at + 1);
        let targets = group.get("targets").and_then(Value::as_array).ok_or_else(wrong)?;
        let labels = group.get("labels").and_then(Value::as_object);
        for target in targets {
            // The port behind the name is that of an exporter.
            let (name, _) = lines::address(target.as_str().ok_or_else(wrong)?)?;
            let (id, _) = builder.add(name)?;
            for (key, value) in labels.into_iter().flatten().filter(|(key, _)| !key.starts_with("__")) {
                let value = value.as_str().ok_or_else(wrong)?;
                if !value.is_empty() {
                    builder.set(id, key.strip_prefix("netcaliper_").unwrap_or(key), value)?;
                }
            }
        }
    }
    Ok(builder.build())
}
