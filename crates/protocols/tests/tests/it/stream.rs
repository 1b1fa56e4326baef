//! Our own media stream in virtual time: both directions, over good and bad links.

use crate::support::run::{MS, Told, client_plan, join, serve, server_plan, told};
use metrics::{Frames, SECOND};
use model::{Kind, Media, Pattern, Phase, Probe, Status, Totals};
use sim::{Link, Network};

/// 3 s of 50 frames a second, 2500 bytes each: a datagram of 1400 bytes and one of 1100.
fn phase(pattern: Pattern) -> Phase {
    let media = Media::new(1_000_000, 50, 3, 1, 1_400).unwrap();
    Phase {
        kind: Kind::Stream,
        pattern,
        connections: 2,
        duration_ns: None,
        media: Some(media),
        probe: Some(Probe { size: media.datagram, ..Probe::default() }),
        ..Phase::default()
    }
}

fn run(phase: &Phase, up: Link, down: Link) -> Told {
    let mut net = Network::new(5);
    net.links(up, down);
    serve(&mut net, server_plan());
    let client = join(&mut net, 0, client_plan(phase));
    net.run_until(metrics::Mono(60 * SECOND));
    told(&net, client)
}

/// What became of the datagrams, and of the frames.
fn counts(totals: &Totals) -> (metrics::Packets, Frames) {
    (totals.packets.as_ref().unwrap().counts, totals.frames.unwrap())
}

#[test]
fn a_clean_path_shows_every_frame() {
    for pattern in [Pattern::Pull, Pattern::Push, Pattern::Duplex] {
        let link = Link::new().delay(20 * MS);
        let told = run(&phase(pattern), link.clone(), link);
        assert_eq!(told.status(), Status::Complete, "{pattern}: {}", told.reason());
        let ends = [(told.local(), pattern.sends_down()), (&told.remote[0], pattern.sends_up())];
        for (totals, receives) in ends {
            let (packets, frames) = counts(totals);
            // Two streams of 150 frames of two datagrams.
            let all = if receives { 600 } else { 0 };
            assert_eq!((packets.received, packets.lost, packets.duplicated), (all, 0, 0), "{pattern}");
            assert_eq!((frames.completed, frames.dropped, frames.errors), (all / 2, 0, 0), "{pattern}");
            if receives {
                let playout = totals.playout.as_ref().unwrap();
                assert_eq!((playout.never, playout.stalls), (0, 0));
                // Each frame is complete 20 ms after it was due, and nothing else delays it.
                let need = playout.need_ns.unwrap();
                assert!((20 * MS as i64..21 * MS as i64).contains(&need.min), "{need:?}");
                assert!((20 * MS as i64..21 * MS as i64).contains(&need.max), "{need:?}");
            }
        }
    }
}

#[test]
fn what_is_lost_is_lost_and_what_is_repeated_is_not_new() {
    let bad = Link::new().delay(5 * MS).loss(0.02).duplicate(0.02).reorder(0.05);
    let told = run(&phase(Pattern::Pull), Link::new(), bad);
    assert_eq!(told.status(), Status::Complete, "{}", told.reason());
    let (packets, frames) = counts(told.local());
    let (sent, _) = counts(&told.remote[0]);
    assert_eq!(sent.sent, 600);
    assert!(packets.lost > 0 && packets.duplicated > 0, "{packets:?}");
    assert_eq!(packets.received + packets.lost as u64, 600);
    assert_eq!(frames.completed + frames.dropped + frames.repeated, 300);
    // A dropped frame lacks one datagram or both.
    let (most, least) = (packets.lost as u64, (packets.lost as u64).div_ceil(2));
    assert!((least..=most).contains(&frames.dropped), "{frames:?} {packets:?}");
    assert_eq!(told.local().playout.as_ref().unwrap().never, frames.dropped);
}

#[test]
fn a_deeper_buffer_would_have_helped_against_delay() {
    let mut phase = phase(Pattern::Pull);
    let media = phase.media.as_mut().unwrap();
    // Held for 20 ms only.
    media.depth_frames = 1;
    let told = run(&phase, Link::new(), Link::new().delay(10 * MS).jitter(60 * MS));
    let (packets, frames) = counts(told.local());
    assert_eq!((packets.received, packets.lost), (600, 0));
    assert!(frames.dropped > 30 && frames.errors > 0, "{frames:?}");
    let playout = told.local().playout.as_ref().unwrap();
    assert_eq!(playout.never, 0);
    assert!(playout.stalls > 0 && playout.longest_stall > 0);
    let missed = |depth: u64| playout.misses.iter().find(|m| m.0 == depth).unwrap().1;
    assert_eq!(missed(20 * MS), frames.dropped, "what the buffer missed is what the table says");
    assert_eq!(missed(100 * MS), 0, "nothing takes longer than 10 + 60 ms and the sending");
}

#[test]
fn spread_datagrams_leave_one_by_one() {
    let mut phase = phase(Pattern::Pull);
    phase.media.as_mut().unwrap().spread = true;
    let told = run(&phase, Link::new(), Link::new());
    let need = told.local().playout.as_ref().unwrap().need_ns.unwrap();
    // The second datagram of a frame leaves half of 20 ms after the first.
    assert!((10 * MS as i64..11 * MS as i64).contains(&need.p50), "{need:?}");
    assert_eq!(counts(told.local()).1.completed, 300);
}
