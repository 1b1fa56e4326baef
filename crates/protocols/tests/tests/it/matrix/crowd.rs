//! Every protocol that knows connections beside a crowd of peers that connect and say nothing, or
//! too little.

use super::cells;
use super::table::{PROTOCOLS, Trouble};
use model::Status;

/// Peers that say nothing, and the places that the server has for them.
const SILENT: u32 = 400;
const PLACES: usize = 150;

/// Connections that are left at the end, by protocol, beside peers that each say these bytes.
fn beside(says: &[u8]) -> Vec<(&'static str, usize)> {
    let mut all = Vec::new();
    for protocol in PROTOCOLS {
        let is_tried = |verb: &str| matches!(verb, "tcp" | "ping");
        let mut cells = cells().into_iter().filter(|cell| {
            cell.protocol == protocol
                && cell.trouble == Trouble::None
                && is_tried(cell.verb.name)
                && cell.phase.ping.is_none_or(|ping| ping.stamp.is_none())
        });
        // The character generator's peers read here, which proves something.
        let Some(cell) = cells.next().filter(|cell| cell.protocol.name() != "chargen") else { continue };
        let (outcome, held, left) = cell.run_beside((SILENT, says), PLACES);
        let status = outcome.points.first().map(|point| point.status);
        assert_eq!(status, Some(Status::Complete), "{}: {outcome:#?}", cell.name());
        assert!(held <= PLACES, "{}: {held} of {PLACES}", cell.name());
        all.push((protocol.name(), left));
    }
    assert!(all.len() >= 8, "{all:?}");
    all
}

#[test]
fn silent_peers_keep_no_client_out_and_are_closed() {
    let all = beside(b"");
    assert!(all.iter().all(|(_, left)| *left == 0), "{all:?}");
}

#[test]
fn peers_that_say_too_little_keep_no_client_out() {
    beside(b"half a word");
}
