//! Control messages: the first byte says how the rest is split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use native::{Frames, encode};

fuzz_target!(|bytes: &[u8]| {
    let Some((&split, bytes)) = bytes.split_first() else { return };
    let mut frames = Frames::new(64 * 1024);
    for chunk in bytes.chunks(usize::from(split) + 1) {
        if frames.push(chunk).is_err() { return }
        loop {
            match frames.pop() {
                Ok(Some(message)) => drop(encode(&message)),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
});
