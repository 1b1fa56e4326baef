//! Every protocol that knows connections beside a crowd of peers that connect and say nothing.

use super::cells;
use super::table::{PROTOCOLS, Trouble};
use model::Status;

/// Peers that say nothing, and the places that the server has for them.
const SILENT: u32 = 400;
const PLACES: usize = 150;

#[test]
fn silent_peers_keep_no_client_out_and_are_closed() {
    let mut tried = 0;
    for protocol in PROTOCOLS {
        let is_tried = |verb: &str| matches!(verb, "tcp" | "ping");
        let mut cells = cells().into_iter().filter(|cell| {
            cell.protocol == protocol
                && cell.trouble == Trouble::None
                && is_tried(cell.verb.name)
                && cell.phase.ping.is_none_or(|ping| ping.stamp.is_none())
        });
        let Some(cell) = cells.next() else { continue };
        let (outcome, held, left) = cell.run_beside(SILENT, PLACES);
        let status = outcome.points.first().map(|point| point.status);
        assert_eq!(status, Some(Status::Complete), "{}: {outcome:#?}", cell.name());
        // The character generator's peers read here, which proves something.
        if protocol.name() != "chargen" {
            assert!(held <= PLACES, "{}: {held} of {PLACES}", cell.name());
            assert_eq!(left, 0, "{}", cell.name());
        }
        tried += 1;
    }
    assert!(tried >= 9, "{tried}");
}
