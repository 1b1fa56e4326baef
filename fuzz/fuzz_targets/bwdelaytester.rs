//! What listens for bwdelaytester's datagrams; two bytes before each say how long it is and how
//! much later it comes.
#![no_main]

#[path = "bench.rs"]
mod bench;

use libfuzzer_sys::fuzz_target;
use bwdelaytester::acceptors;

fuzz_target!(|bytes: &[u8]| bench::unsolicited(acceptors, bytes));
