//! The first 64 bytes of a connection, the UDP hello, and guessing who sent something else.
#![no_main]

use libfuzzer_sys::fuzz_target;
use native::{PREAMBLE, Preamble, answer_hello, guess, is_answer};

fuzz_target!(|bytes: &[u8]| {
    let _ = guess(bytes, &[]);
    if let Some(answer) = answer_hello(bytes) {
        assert_eq!(answer.len(), bytes.len());
    }
    let _ = is_answer(bytes, uuid::Uuid::nil());
    if let Some(bytes) = bytes.first_chunk::<PREAMBLE>()
        && let Some(preamble) = Preamble::decode(bytes)
    {
        assert_eq!(Preamble::decode(&preamble.encode()), Some(preamble));
    }
});
