//! Control datagrams of our own protocol.
#![no_main]

use libfuzzer_sys::fuzz_target;
use native::udp::Word;

fuzz_target!(|bytes: &[u8]| {
    if let Some(word) = Word::decode(bytes) {
        assert_eq!(Word::decode(&word.encode()), Some(word));
    }
});
