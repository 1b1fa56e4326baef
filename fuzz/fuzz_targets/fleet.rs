//! Inventories of fleets in each format, and what controllers and agents say to each other: the
//! first byte chooses.
#![no_main]

use fleet::inventory::{Format, Inventory};
use fleet::message::{self, Order, Report};
use fleet::plan::Plan;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, bytes)) = bytes.split_first() else { return };
    let format = match kind % 6 {
        0 => Format::Lines,
        1 => Format::Yaml,
        2 => Format::Json,
        3 => return drop(message::parse::<Order>(bytes)),
        4 => return drop(message::parse::<Report>(bytes)),
        _ => return drop(Plan::read(bytes)),
    };
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(inventory) = Inventory::parse(text, format) {
        // What was read is read again from what is written of it.
        let json = serde_json::to_string(&inventory).expect("an inventory is written");
        let again: Inventory = serde_json::from_str(&json).expect("an inventory is read again");
        assert_eq!(again, inventory);
    }
});
