//! `netcaliper stream` with the real binary at both ends.

use crate::support::files::Scratch;
use crate::support::{Line, Outcome, netcaliper, number, serve};
use serde_json::Value;

fn stream(target: impl AsRef<std::ffi::OsStr>) -> Line {
    netcaliper("stream").arg(target)
}

/// What each end received: ours, and the server's.
fn ends(outcome: &Outcome) -> [&Value; 2] {
    [outcome.local(), &outcome.remote()[0]]
}

/// Every frame was judged, and is whole if nothing was lost on the way or in our own buffer.
#[track_caller]
fn judged(end: &Value, frames: u64, datagrams: u64) {
    let of = |name: &str| number(&end["frames"][name]);
    let packets = &end["packets"]["counts"];
    assert_eq!(of("completed") + of("dropped") + of("repeated"), frames, "{end}");
    let (received, lost) = (number(&packets["received"]), packets["lost"].as_i64().unwrap());
    assert_eq!(received as i64 + lost, datagrams as i64, "{packets}");
    if lost == 0 {
        // A machine that stood still may have shown frames too late, but none can be missing for
        // good.
        assert_eq!(end["playout"]["never"], 0, "{end}");
        assert_eq!(number(&end["playout"]["need_ns"]["count"]), frames, "{end}");
    }
}

#[test]
fn every_frame_is_judged_in_every_direction_and_has_a_row() {
    let server = serve("");
    // 50 frames of 2500 bytes, in two datagrams each.
    for (way, down, up) in [("", true, false), ("--up", false, true), ("--bidir --spread", true, true)] {
        let line =
            stream(server.at()).args("--rate 1M --fps 50 --length 1s --depth 500ms -P 2 -i 500ms").args(way);
        let outcome = line.outcome().good();
        for (end, receives) in ends(&outcome).into_iter().zip([down, up]) {
            if receives {
                judged(end, 100, 200);
            } else {
                assert_eq!(number(&end["packets"]["counts"]["received"]), 0, "{way}: {end}");
            }
        }
    }
    // There is a row for each frame.
    let scratch = Scratch::new();
    let file = scratch.file("frames.csv");
    let line = stream(server.at()).args("--rate 8M --fps 20 --length 1s --depth 100ms --samples").arg(&file);
    line.outcome().good();
    let text = std::fs::read_to_string(&file).unwrap();
    let mut rows = text.lines();
    let header = "label,repeat,stream,frame,due_ns,sent_ns,received_ns,bytes,verdict";
    assert_eq!(rows.next().unwrap(), header);
    for (n, row) in (0..20u64).zip(rows.by_ref()) {
        let cells: Vec<&str> = row.split(',').collect();
        assert_eq!((cells[3], cells[4]), (&*(n + 1).to_string(), &*(n * 50_000_000).to_string()), "{row}");
    }
    assert_eq!(rows.next(), None);
    server.still_serves();
}

#[test]
fn what_cannot_be_is_said() {
    for (args, words) in [
        ("--fps 0", "--fps"),
        ("--length 1500ms", "whole seconds"),
        ("--depth 1ms", "buffer depth"),
        ("--datagram 100", "at least 128 bytes"),
        ("--iterations 2", "each media stream once"),
        ("--up --protocol ctstraffic", "from the server only"),
    ] {
        stream("127.0.0.1").args(args).run().exits(2).complains(&[words]);
    }
}
