//! Servers of iperf3: ours, and the real one where it is installed; `with` adds options.

use super::net::{free_port, installed};
use super::{Line, Proc, eventually, netcaliper, skip};
use std::process::Command;

/// Whether the real program is not there; `test` is then on record as skipped.
pub(crate) fn missing(test: &str) -> bool {
    let missing = !installed("iperf3");
    if missing {
        skip(test, "iperf3 is not installed");
    }
    missing
}

/// Our server, which listens, and its port.
#[track_caller]
pub(crate) fn ours(with: impl FnOnce(Line) -> Line) -> (Proc, String) {
    let server = with(netcaliper("iperf3").args("-s -p 0 --forceflush")).spawn();
    let port = server.hears("Server listening on ").split_whitespace().nth(3).unwrap().to_owned();
    (server, port)
}

/// The real server, which listens, and its port; `None` (and a skip on record) where it is not
/// installed.
#[track_caller]
pub(crate) fn real(test: &str, with: impl Fn(Line) -> Line) -> Option<(Proc, String)> {
    if missing(test) {
        return None;
    }
    // The original cannot choose a free port, and another program may take this one first.
    for _ in 0..20 {
        let port = free_port().to_string();
        let words = format!("-s -p {port} --forceflush");
        let mut server = with(Line(Command::new("iperf3")).args(&words)).spawn();
        let mut listens = false;
        eventually("iperf3 listens, or cannot", || {
            listens = server.out().contains("Server listening on");
            listens || !server.is_running()
        });
        if listens {
            return Some((server, port));
        }
    }
    panic!("iperf3 finds no port to listen at");
}
