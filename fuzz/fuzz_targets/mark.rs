//! What stands between the payload of a data connection.
#![no_main]

use libfuzzer_sys::fuzz_target;
use native::{MARK, Mark};

fuzz_target!(|bytes: &[u8]| {
    let id = uuid::Uuid::from_u128(7);
    if let Some(bytes) = bytes.first_chunk::<MARK>()
        && let Some(mark) = Mark::decode(bytes, id)
    {
        assert_eq!(Mark::decode(&mark.encode(id), id), Some(mark));
    }
});
