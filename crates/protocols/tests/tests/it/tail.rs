//! The last datagrams of a run, behind which none arrives: each is lost, at the end that never saw
//! it, as soon as both ends' sums are known.

use crate::reach::questions;
use crate::support::run::{MS, client_plan, join, serve, server_plan, told};
use crate::support::sized;
use metrics::{Packets, SECOND};
use model::{Event, FlowWay, Kind, Phase, Probe};
use sim::{At, Cut, Link, Network, Quirks, START};

/// When paths die, ns from the start of the simulation: flows begin after 0.5 s, and last a second.
const DEATHS: [u64; 3] = [1_050 * MS, 1_300 * MS, 1_460 * MS];

/// The questions of one way and both, with so many flows.
fn phases(flows: u32) -> impl Iterator<Item = (&'static str, Phase)> {
    let of_datagrams = |(_, phase): &(&str, Phase)| phase.kind != Kind::Ping;
    questions().into_iter().filter(of_datagrams).map(move |(name, mut phase)| {
        phase.connections = if phase.train.is_some() { 1 } else { flows };
        phase.probe = phase.probe.map(|probe| Probe { lead_ns: 500 * MS, late_ns: 400 * MS, ..probe });
        (name, phase)
    })
}

/// Each datagram that `sent` counts is received, damaged or lost in `got`.
#[track_caller]
fn adds_up(sent: u64, got: &Packets, what: &str) {
    let all = i64::try_from(got.received + got.corrupt).unwrap() + got.lost;
    assert_eq!(i64::try_from(sent), Ok(all), "{what}: {got:?}");
}

/// Runs `phase` and compares what was sent with what became of it, of each way and flow. How many
/// were lost in all.
#[track_caller]
fn compare(phase: &Phase, (up, down): (Link, Link), quirks: Quirks, what: &str) -> i64 {
    let mut net = Network::new(5);
    net.datagram_links(up, down);
    let server = serve(&mut net, server_plan());
    net.quirks(server, quirks);
    let client = join(&mut net, 0, client_plan(phase));
    net.quirks(client, quirks);
    net.run();
    let it = told(&net, client);
    let [local, remote] = [it.local(), &it.remote[0]].map(|of| of.packets.as_deref().unwrap());
    let mut lost = 0;
    for (sends, from, to, way) in
        [(phase.pattern.sends_up(), local, remote, "up"), (phase.pattern.sends_down(), remote, local, "down")]
    {
        if sends {
            let what = format!("{what}, {way}, {:?}", it.end);
            assert!(from.counts.sent > 0, "{what}");
            adds_up(from.counts.sent, &to.counts, &what);
            let longest = i64::try_from(to.longest_loss.unwrap()).unwrap();
            let bursts = i64::try_from(to.loss_bursts.unwrap()).unwrap();
            assert!(longest <= to.counts.lost && longest * bursts >= to.counts.lost, "{what}: {to:?}");
            lost += to.counts.lost;
        }
    }
    for (_, event) in net.events(client) {
        let Event::Flows { rows } = event else { continue };
        assert_eq!(rows.len(), phase.connections as usize, "{what}");
        let ways = rows.iter().flat_map(|row| [row.up, row.down]).flatten();
        ways.for_each(|FlowWay { sent, got, .. }| adds_up(sent.unwrap(), &got.counts, what));
    }
    lost
}

#[test]
fn what_a_dead_path_swallows_at_the_end_is_lost() {
    for (merges, flows) in [(true, 1), (false, 3)] {
        let quirks = Quirks { batches: merges, ..Quirks::default() };
        for (nth, (name, phase)) in phases(flows).enumerate() {
            let cases = DEATHS.into_iter().flat_map(|death| {
                let dead = || Link::new().delay(MS).cut(At::Time(START.plus(death)), Cut::Silence);
                let alive = || Link::new().delay(MS);
                let (sends_up, sends_down) = (phase.pattern.sends_up(), phase.pattern.sends_down());
                [
                    ("both", death, true, dead(), dead()),
                    ("up", death, sends_up, dead(), alive()),
                    ("down", death, sends_down, alive(), dead()),
                ]
            });
            // Every fourth case in ./test: others of each question, and with three flows than with
            // one.
            let first = sized((nth + flows as usize) % 4, 0);
            for (dies, death, carries, up, down) in cases.skip(first).step_by(sized(4, 1)) {
                let what = format!("{name}, {flows} flows, {dies} dead after {} ms", death / MS);
                let lost = compare(&phase, (up, down), quirks, &what);
                assert!(lost > 0 || !carries, "{what}");
            }
        }
    }
}

/// Words are read from the same socket as data: behind the last datagrams that a full receive
/// buffer dropped they tell of the drops.
#[test]
fn drops_at_the_end_of_a_run_are_counted_as_ours() {
    for (pattern, up) in [(model::Pattern::Push, true), (model::Pattern::Pull, false)] {
        let (_, phase) = phases(1).find(|(name, _)| *name == "delay").unwrap();
        // The receiver's buffer holds 25 datagrams, and it reads far fewer than are sent.
        let phase = Phase { pattern, rate: Some(20_000 * 160 * 8), duration_ns: Some(SECOND / 20), ..phase };
        let mut net = Network::new(5);
        let link = || Link::new().delay(MS).window(4_000);
        net.datagram_links(link(), link());
        let server = serve(&mut net, server_plan());
        let client = join(&mut net, 0, client_plan(&phase));
        let quirks = Quirks { slowness: 300, batches: false, ..Quirks::default() };
        net.quirks(if up { server } else { client }, quirks);
        net.run();
        let it = told(&net, client);
        let [local, remote] = [it.local(), &it.remote[0]].map(|of| of.packets.as_deref().unwrap());
        let (from, to) = if up { (local, remote) } else { (remote, local) };
        adds_up(from.counts.sent, &to.counts, "overflow");
        // Words are dropped, too.
        let (lost, dropped) = (to.counts.lost, i64::try_from(to.counts.dropped).unwrap());
        assert!(lost > 100 && (lost..lost + 10).contains(&dropped), "{:?}", to.counts);
    }
}
