//! A ctsTraffic connection; the first bytes say of what kind and which end.
#![no_main]

#[path = "bench.rs"]
mod bench;

use libfuzzer_sys::fuzz_target;
use metrics::Group;
use model::{Pattern, Phase, Verify};
use std::sync::Arc;
use transport::{Flow, FlowEvent, Path};
use common::Params;
use ctstraffic::Connection;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[kind, transfer], bytes)) = bytes.split_first_chunk::<2>() else { return };
    let pick = |n: u8, of: u8| usize::from(kind / n % of);
    let pattern =
        [Pattern::Push, Pattern::Pull, Pattern::Duplex, Pattern::PushPull { push: 50, pull: 30 }][pick(1, 4)];
    let verify = [Verify::Data, Verify::Connection, Verify::None][pick(4, 3)];
    let transfer = u64::from(transfer) + 1;
    let params = Arc::new(Params::of(&Phase { pattern, verify, transfer, ..Phase::default() }, Group(1)));
    let mut flow = if kind >= 128 {
        Connection::client(params, 0, transfer, kind % 2 == 0)
    } else {
        Connection::server(params, transfer)
    };
    let mut side = bench::side();
    let path = Path { peer: ([10, 0, 0, 1], 1).into(), local: ([10, 0, 0, 2], 2).into() };
    if flow.on_event(&mut side.cx(bench::START), FlowEvent::Up(path)).is_ok() {
        bench::feed(&mut side, &mut flow, bytes);
    }
    if let Some(row) = flow.id().row {
        let (counts, _) = side.rec.life(row);
        assert!(counts.rx_bytes <= transfer && counts.tx_bytes <= transfer);
    }
});
