//! What listens for UDPSTP's clients; two bytes before each datagram say how long it is and how
//! much later it comes. And the decoders of the data.
#![no_main]

#[path = "bench.rs"]
mod bench;

use libfuzzer_sys::fuzz_target;
use udpstp::acceptors;
use udpstp::codec::{Activation, Load, Null, Setup, Status};

fuzz_target!(|bytes: &[u8]| {
    let _ = (Setup::decode(bytes), Null::decode(bytes), Activation::decode(bytes));
    let _ = (Load::decode(bytes, bytes.len()), Status::decode(bytes, 11), Status::decode(bytes, 20));
    bench::unsolicited(acceptors, bytes);
});
