//! The lines before a test.

use super::json::Facts;
use compat::Text;
use jiff::Timestamp;
use metrics::Wall;
use std::net::SocketAddr;

/// The program and the system, of a verbose report.
pub(crate) fn program(facts: &Facts) -> String {
    format!("{}\n{}\n", facts.version, facts.system_info)
}

/// A time as the original writes it.
pub(super) fn time(at: Wall) -> String {
    let text = Timestamp::from_nanosecond(at.0.into())
        .map(|at| at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string());
    text.unwrap_or_default()
}

/// A client has reached its server.
pub(super) fn called(out: &mut Text, facts: &Facts, cookie: &str, at: Wall, verbose: bool) {
    let terms = &facts.asked;
    let (host, port) = facts.connecting_to.clone().unwrap_or_default();
    if verbose {
        writeln!(out, "Control connection MSS {}\nTime: {}", facts.mss, time(at));
    }
    writeln!(out, "Connecting to host {host}, port {port}");
    if terms.reverse {
        writeln!(out, "Reverse mode, remote host {host} is sending");
    }
    if !verbose {
        return;
    }
    writeln!(out, "      Cookie: {cookie}");
    match (terms.udp, terms.mss) {
        (true, _) => {}
        (false, 0) => writeln!(out, "      TCP MSS: {} (default)", facts.mss),
        (false, mss) => writeln!(out, "      TCP MSS: {mss}"),
    }
    if terms.rate > 0 {
        writeln!(out, "      Target Bitrate: {}", terms.rate);
    }
}

/// A server's client is there.
pub(super) fn accepted(out: &mut Text, peer: &SocketAddr, cookie: &str, at: Wall, verbose: bool) {
    if verbose {
        writeln!(out, "Time: {}", time(at));
    }
    writeln!(out, "Accepted connection from {}, port {}", peer.ip().to_canonical(), peer.port());
    if verbose {
        writeln!(out, "      Cookie: {cookie}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BulkTerms;

    #[test]
    fn lines_as_the_original_prints_them() {
        // Those of iperf 3.21 over loopback, its version and the names of the system apart.
        let mut facts = Facts {
            version: "iperf 3.21+".into(),
            system_info: "Linux vm 6.18".into(),
            connecting_to: Some(("127.0.0.1".into(), 5997)),
            mss: 32_768,
            asked: BulkTerms { rate: 1_000_000, ..BulkTerms::usual() },
            ..Facts::default()
        };
        assert_eq!(program(&facts), "iperf 3.21+\nLinux vm 6.18\n");
        let at = Wall(1_795_418_832_000_000_000);
        let mut told = Text::default();
        called(&mut told, &facts, "r6ufz24x", at, true);
        assert_eq!(
            told.0,
            "Control connection MSS 32768\nTime: Mon, 23 Nov 2026 07:27:12 GMT\n\
             Connecting to host 127.0.0.1, port 5997\n      Cookie: r6ufz24x\n      TCP MSS: 32768 (default)\n      \
             Target Bitrate: 1000000\n"
        );
        facts.asked = BulkTerms { reverse: true, mss: 1_000, ..BulkTerms::usual() };
        told.0.clear();
        called(&mut told, &facts, "", at, false);
        assert_eq!(
            told.0,
            "Connecting to host 127.0.0.1, port 5997\nReverse mode, remote host 127.0.0.1 is sending\n"
        );
    }
}
