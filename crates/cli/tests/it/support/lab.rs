//! Commands in `netcaliper lab`, which needs a privilege.

use super::net::is_root;
use super::{BIN, Done, Line, netcaliper, skip};

/// `netcaliper lab` with these options; without the privilege, `test` is counted as skipped.
pub(crate) fn lab(test: &str, options: &str) -> Option<Line> {
    if !is_root() || !std::path::Path::new("/dev/net/tun").exists() {
        skip(test, "a lab needs root and /dev/net/tun");
        return None;
    }
    Some(netcaliper("lab").args(options))
}

/// The same with a shell's command in it.
pub(crate) fn sh(lab: Line, command: &str) -> Line {
    lab.args("-- sh -c").arg(command)
}

/// The same with `netcaliper serve` at the other end.
pub(crate) fn served(lab: Line, command: &str) -> Line {
    sh(lab.arg("--server").arg(format!("{BIN} serve")), command)
}

/// Runs a command in a lab with these options, with `netcaliper serve` at the other end.
pub(crate) fn on_lab(test: &str, options: &str, command: &str) -> Option<Done> {
    Some(served(lab(test, options)?, command).run())
}
