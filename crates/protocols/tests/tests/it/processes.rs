//! Connections spread over worker processes, which hear of a session later than its peers may.

use crate::support::run::*;
use common::{Processes, Protocol};
use metrics::SECOND;
use model::{Kind, Pattern, Phase, Status};
use sim::{Host, Network};

/// A server's worker processes have ports of their own, from this one on.
const FIRST_PORT: u16 = 7_500;

/// A server and a client with so many worker processes, each with two workers.
fn spread(net: &mut Network, (there, here): (u16, u16), phase: &Phase) -> (Host, Host) {
    let replica = || native::PROTOCOL.replica().unwrap();
    let ports = FIRST_PORT..FIRST_PORT + there;
    let plan =
        native::ServerPlan { process_ports: ports.clone().collect(), workers_of_process: 2, ..server_plan() };
    let server = serve(net, plan);
    ports.for_each(|port| net.process(server, Some(port), 2, replica()));
    let processes = Processes { count: here, workers: 2 };
    let client = join(net, 0, native::ClientPlan { processes, ..client_plan(phase) });
    (0..here).for_each(|_| net.process(client, None, 2, replica()));
    (server, client)
}

fn held() -> Phase {
    Phase {
        kind: Kind::Connect,
        connections: 9,
        transfer: 64,
        hold_ns: Some(SECOND / 10),
        iterations: Some(1),
        duration_ns: None,
        ..small()
    }
}

#[test]
fn no_connection_fails_however_late_a_process_hears_of_its_session() {
    let bulk = |pattern| Phase {
        pattern,
        connections: 7,
        transfer: 30_000,
        iterations: Some(3),
        duration_ns: None,
        ..small()
    };
    for seed in 0..20 {
        for count in [(2, 0), (0, 2), (3, 2)] {
            for phase in [held(), bulk(Pattern::Push), bulk(Pattern::Pull), bulk(Pattern::Duplex)] {
                let mut net = network(seed);
                let (_, client) = spread(&mut net, count, &phase);
                net.run();
                let told = told(&net, client);
                let what = format!("seed {seed}, {count:?}, {:?} {:?}: {told:#?}", phase.kind, phase.pattern);
                assert_eq!(told.status(), Status::Complete, "{what}");
                let (local, remote) = (told.local(), &told.remote[0]);
                let all = u64::from(phase.connections) * phase.iterations.unwrap_or(1);
                assert_eq!([local.completed, remote.completed], [all; 2], "{what}");
                assert_eq!(local.traffic.tx_bytes, remote.traffic.rx_bytes, "{what}");
                assert_eq!(local.traffic.rx_bytes, remote.traffic.tx_bytes, "{what}");
            }
        }
    }
}
