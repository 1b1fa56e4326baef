//! A new connection on the server's port.
#![no_main]

#[path = "bench.rs"]
mod bench;

use common::protocol::Foreigners;
use libfuzzer_sys::fuzz_target;
use metrics::Group;
use model::Phase;
use std::sync::Arc;
use transport::{Acceptor, Path};
use native::{Grant, Grants, Listener, OpeningKey, Params};

fuzz_target!(|bytes: &[u8]| {
    let phase = Phase { transfer: 300, ..Phase::default() };
    let grants = Arc::new(Grants::new(Foreigners::default(), None));
    let grant = Grant::new(OpeningKey::new(&[0; 16], &[]), Arc::new(Params::of(&phase, Group(1))), 0..1);
    grants.insert(0, Arc::new(grant));
    let mut listener = Listener::new(grants, Arc::default(), 0);
    let mut side = bench::side();
    let path = Path { peer: ([10, 0, 0, 1], 1).into(), local: ([10, 0, 0, 2], 2).into() };
    if let Some(mut flow) = listener.accept(&mut side.cx(bench::START), &path) {
        bench::feed(&mut side, &mut *flow, bytes);
    }
});
