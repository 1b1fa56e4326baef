//! Connections spread over worker processes, which hear of a session later than its peers may.

use crate::support::run::*;
use crate::support::sized;
use common::{Processes, Protocol};
use metrics::SECOND;
use model::{Pattern, Phase, Status};
use sim::{Host, Network};

/// A server's worker processes have ports of their own, from this one on.
const FIRST_PORT: u16 = 7_500;

/// A server and a client with so many worker processes, each with two workers.
fn spread(net: &mut Network, (there, here): (u16, u16), phase: &Phase) -> (Host, Host) {
    let replica = || native::PROTOCOL.replica().unwrap();
    let ports = FIRST_PORT..FIRST_PORT + there;
    let config = server_with(|config| config.processes.workers = 2);
    let plan = native::ServerPlan { process_ports: ports.clone().collect(), ..config };
    let server = serve(net, plan);
    ports.for_each(|port| net.worker_process(server, Some(port), 2, replica()));
    let processes = Processes { count: here, workers: 2 };
    let mut plan = client_plan(phase);
    plan.config.processes = processes;
    let client = join(net, 0, plan);
    (0..here).for_each(|_| net.worker_process(client, None, 2, replica()));
    (server, client)
}

fn nine() -> Phase {
    Phase { connections: 9, ..held(SECOND / 10) }
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
    for seed in 0..sized(3, 20) {
        for count in [(2, 0), (0, 2), (3, 2)] {
            for phase in [nine(), bulk(Pattern::Push), bulk(Pattern::Pull), bulk(Pattern::Duplex)] {
                let mut net = network(seed);
                let (_, client) = spread(&mut net, count, &phase);
                net.run();
                let told = told(&net, client);
                let what =
                    || format!("seed {seed}, {count:?}, {:?} {:?}: {told:#?}", phase.kind, phase.pattern);
                assert_eq!(told.status(), Status::Complete, "{}", what());
                let (local, remote) = (told.local(), &told.remote[0]);
                let all = u64::from(phase.connections) * phase.iterations.unwrap_or(1);
                assert_eq!([local.completed, remote.completed], [all; 2], "{}", what());
                assert_eq!(local.traffic.tx_bytes, remote.traffic.rx_bytes, "{}", what());
                assert_eq!(local.traffic.rx_bytes, remote.traffic.tx_bytes, "{}", what());
            }
        }
    }
}

#[test]
fn a_process_that_dies_at_any_time_takes_its_connections_along_and_no_others() {
    for at in (0..40).step_by(sized(3, 1)).map(|step| step * 25 * MS) {
        for of_server in [true, false] {
            let mut net = network(at);
            let phase = nine();
            let (server, client) = spread(&mut net, (3, 3), &phase);
            net.kill_process_at(if of_server { server } else { client }, 1, net.now.plus(at));
            // A run that waits for what does not come ends the test, too.
            let limit = net.now.plus(20 * SECOND);
            while net.now < limit && net.done(client).is_none() {
                net.run_until(net.now.plus(SECOND));
            }
            let told = told(&net, client);
            let what = || format!("after {at} ns, of the server {of_server}: {told:#?}");
            let local = told.local();
            let failed = local.errors();
            assert_eq!(local.completed + failed, 9, "{}", what());
            // A session that begins later does without it.
            assert!(failed <= 3 && (failed > 0 || at < 50 * MS), "{}", what());
        }
    }
}
