//! A server whose process has no descriptors left.

use super::{Bounds, bounded, bulk, forgotten, native, one_of};
use crate::support::run::{MS, address, client_ip, client_plan, join, recorded, server_plan, told};
use ::native::{ClientPlan, ServerPlan};
use metrics::SECOND;
use model::{Event, Level, Pattern, Phase, Status};
use sim::{Link, Network, Quirks, START, Say};
use transport::{Defect, Rng};

/// Clients served before descriptors run out go on, the server reports it, and clients that come
/// later are served.
pub(super) fn check(seed: u64, defect: Option<Defect>) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let mut net = Network::new(seed);
    let link = Link::new().delay(one_of(&mut rng, &[50_000, MS, 10 * MS])).rate(2_000_000);
    net.links(link.clone(), link);
    net.plant(defect);
    let plan = ServerPlan { workers: one_of(&mut rng, &[1, 2, 4]), ..server_plan() };
    let threads = plan.threads();
    let server = native::serve(&mut net, plan);
    // A listener or a bound UDP socket for each worker, the links of the first client and of the
    // last, and some more.
    let (first, room) = (rng.between(1, 8) as u32, rng.between(0, 20));
    let last = first.min(2);
    let descriptors = usize::from(threads) + (first + last + 2) as usize + room as usize;
    net.quirks(server, Quirks { descriptors, ..Quirks::default() });
    let patterns = [Pattern::Push, Pattern::Pull, Pattern::Duplex];
    let asked = |rng: &mut Rng, connections, seconds| Phase {
        duration_ns: Some(seconds * SECOND),
        ..bulk(one_of(rng, &patterns), connections)
    };
    let plan = |phase: &Phase| recorded(ClientPlan { workers: 1, ..client_plan(phase) }, 0);
    let before = asked(&mut rng, first, 4);
    let client = join(&mut net, 0, plan(&before));
    net.run_until(START.plus(SECOND));
    // More than there is room for: silent connections, connections without a session, and clients
    // with many connections.
    let (mute, crowds) = (rng.between(0, 40), rng.between(1, 3) as u32);
    for n in 0..mute {
        let bytes = (0..rng.between(0, 40)).map(|_| rng.next() as u8).collect();
        let stays = rng.between(500, 1_500) * MS;
        net.raw(client_ip(100 + n as u32), address(1), vec![(0, Say::Bytes(bytes)), (stays, Say::Reset)]);
    }
    let crowd = asked(&mut rng, 60, 1);
    let many: Vec<_> = (1..=crowds).map(|n| join(&mut net, n, plan(&crowd))).collect();
    for &host in &many {
        let at = START.plus(rng.between(2_000, 2_900) * MS);
        net.kill_at(host, at);
    }
    net.run_until(START.plus(3_500 * MS));
    let after = asked(&mut rng, last, 1);
    let late = join(&mut net, 50, plan(&after));
    net.run_until(START.plus(10 * SECOND));
    let text = "cannot accept connections";
    let says = |event: &Event| matches!(event, Event::Notice { level: Level::Error, text: told } if told.contains(text));
    if !net.events(server).iter().any(|(_, event)| says(event)) {
        return Err(format!("no report that descriptors have run out: {:?}", net.events(server)));
    }
    for (host, phase, arrives) in [(client, &before, 0), (late, &after, 3_500 * MS)] {
        let it = told(&net, host);
        native::served(phase, arrives, &it, net.done(host))
            .map_err(|why| format!("{why}: {phase:?}: {:?} {}", it.end, it.notices.join("; ")))?;
        if it.status() != Status::Complete || it.local().opened != u64::from(phase.connections) {
            return Err(format!("{:?} of {}", it.local().opened, phase.connections));
        }
    }
    net.run_until(START.plus(80 * SECOND));
    forgotten(&net, server, 0, 0)?;
    let links = descriptors;
    let peers = 2 + crowds as usize;
    bounded(&net, server, &Bounds { links, peers, threads: 1 + usize::from(threads), slowness: 1 })
}
