//! The protocols that can be spoken: the binary's table of their objects.

use common::protocol::Foreigners;
use common::{Original, ProtocolOptions};
use compat::Importer;
use model::Outcome;

pub(crate) type Protocol = &'static dyn common::Protocol;

pub(crate) const NATIVE: Protocol = &native::PROTOCOL;
pub(crate) const CTSTRAFFIC: Protocol = &ctstraffic::PROTOCOL;
pub(crate) const ECHO: Protocol = &echo::PROTOCOL;
pub(crate) const STAMP: Protocol = &stamp::PROTOCOL;
pub(crate) const TTCP: Protocol = &ttcp::PROTOCOL;
pub(crate) const BWDELAYTESTER: Protocol = &bwdelaytester::PROTOCOL;
pub(crate) const UDPMON: Protocol = &udpmon::PROTOCOL;
pub(crate) const TCPMON: Protocol = &udpmon::tcpmon::PROTOCOL;
pub(crate) const NTTTCP: Protocol = &ntttcp::PROTOCOL;
pub(crate) const IPERF3: Protocol = &iperf3::PROTOCOL;
pub(crate) const DISCARD: Protocol = &discard::PROTOCOL;
pub(crate) const CHARGEN: Protocol = &discard::chargen::PROTOCOL;
pub(crate) const UDPSTP: Protocol = &udpstp::PROTOCOL;

/// The table. Protocols beside our own (`serve --legacy`) take their ports in this order.
pub(crate) const ALL: [Protocol; 13] = [
    NATIVE,
    IPERF3,
    CTSTRAFFIC,
    TTCP,
    NTTTCP,
    TCPMON,
    UDPMON,
    BWDELAYTESTER,
    ECHO,
    STAMP,
    DISCARD,
    CHARGEN,
    UDPSTP,
];

/// The outcomes of a file, of this program or of another, and a sentence for each of its documents
/// that cannot be used.
///
/// # Errors
/// One sentence when it holds no text.
pub(crate) fn read(bytes: &[u8]) -> Result<(Vec<Outcome>, Vec<String>), String> {
    Ok(compat::import::read(&importers(), compat::file::open(bytes)?, report::read_run))
}

/// The protocols whose peers our own recognises.
pub(crate) fn foreign() -> ProtocolOptions {
    ProtocolOptions::new(Foreigners(ALL.into_iter().filter_map(|one| one.info().foreign.as_ref()).collect()))
}

fn importers() -> Vec<&'static Importer> {
    ALL.into_iter().flat_map(|protocol| protocol.info().importers).chain(compat::IMPORTERS).collect()
}

/// All originals. Each is also found by its name as that of the binary, in upper or lower case: by
/// a link to it.
pub(crate) fn originals() -> impl Iterator<Item = &'static Original> {
    ALL.into_iter().flat_map(|protocol| protocol.info().originals)
}

/// The original of this name, which Windows' users write with `.exe`.
pub(crate) fn original(name: &str) -> Option<&'static Original> {
    let name = name.strip_suffix(".exe").unwrap_or(name);
    originals().find(|original| original.name.eq_ignore_ascii_case(name))
}

pub(crate) fn parse(text: &str) -> Result<Protocol, String> {
    let found = ALL.into_iter().find(|protocol| protocol.name().eq_ignore_ascii_case(text));
    found.ok_or_else(|| {
        let known = ALL.map(|protocol| protocol.name()).join(", ");
        format!("'{text}' is not a protocol: it must be one of {known}")
    })
}

#[cfg(test)]
mod import_matrix;
#[cfg(test)]
mod import_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Kind, Pattern, Payload, Phase, Ping, Probe, StampSettings, Transport, Verify};

    #[test]
    fn every_protocol_is_found_by_its_name_and_carries_something() {
        for protocol in ALL {
            assert_eq!(parse(protocol.name()), Ok(protocol));
            let ping = Phase { kind: Kind::Ping, ping: Some(Ping::default()), ..Phase::default() };
            let train = Phase {
                kind: Kind::Train,
                extra: udpmon::PacketTestSettings::default().extra(),
                ..Phase::default()
            };
            let counted = Phase { verify: Verify::Connection, ..Phase::default() };
            let pulled = Phase { pattern: Pattern::Pull, ..counted.clone() };
            let probe = Some(Probe::default());
            let delay = Phase { kind: Kind::Delay, probe, ..Phase::default() };
            let (transport, settings) = (Transport::Udp, StampSettings::default());
            let stamp = Ping { transport, stamp: Some(settings), ..Ping::default() };
            let stamp = Phase { ping: Some(stamp), ..ping.clone() };
            let capacity = model::CapacitySettings::RFC.phase(Pattern::Push, 1);
            let all = [Phase::default(), counted, pulled, ping, delay, stamp, train, capacity];
            let some = all.iter().find_map(|phase| protocol.check(phase).ok());
            let some = some.ok_or(());
            assert_eq!(some, Ok(()), "{protocol}");
            assert!(protocol.port() > 0);
        }
        let unknown = parse("iperf9").unwrap_err();
        let known = "native, iperf3, ctstraffic, ttcp, ntttcp, tcpmon, udpmon, bwdelaytester, echo, stamp, \
                     discard, chargen, udpstp";
        assert!(unknown.contains(known), "{unknown}");
    }

    #[test]
    fn every_protocol_and_every_question_is_in_the_matrix() {
        let page = include_str!("../../../docs/matrix.md");
        for protocol in ALL {
            assert!(
                page.contains(&format!("\n| {protocol} |")),
                "{protocol}: a row of protocol-tests' matrix"
            );
        }
        let methods = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/methods");
        let names = std::fs::read_dir(methods).unwrap().map(|entry| entry.unwrap().path());
        let names = names.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
        // The lab is a path, and no question.
        for question in names.filter(|name| name != "lab") {
            assert!(page.contains(&format!("| {question} ")), "{question}: a row of protocol-tests' matrix");
        }
    }

    #[test]
    fn a_file_of_no_known_program_is_refused_with_what_it_is() {
        for (text, said) in [
            ("", "empty"),
            ("{", "ends before it is whole"),
            ("{}", "without any field"),
            ("[1]", "begins with '[1]'"),
            ("<xml/>", "begins with '<xml/>'"),
            ("size,wait\n", "begins with 'size,wait'"),
            ("{\"a\":1}\n", "JSON with 'a'"),
            ("{\"event\":\"interval\"}\n{\"event\":\"end\"}\n", "first event is 'interval'"),
            ("\0\0\0\0\0\0\0\0", "no text"),
        ] {
            let why = match read(text.as_bytes()) {
                Ok((outcomes, errors)) => {
                    assert!(outcomes.is_empty(), "{text}");
                    errors.concat()
                }
                Err(why) => why,
            };
            assert!(why.contains(said), "{text}: {why}");
        }
    }

    #[test]
    fn what_cannot_be_carried_is_said_in_a_sentence() {
        let base = Phase::default;
        let delay = |size| Phase {
            kind: Kind::Delay,
            probe: Some(Probe { size, ..Probe::default() }),
            ..Phase::default()
        };
        for (protocol, phase, why) in [
            (CTSTRAFFIC, Phase { payload: Payload::Random, ..base() }, "one payload"),
            (CTSTRAFFIC, Phase { total_bytes: Some(9), ..base() }, "cut short"),
            (ECHO, base(), "round trips only"),
            (STAMP, base(), "round trips only"),
            (UDPMON, base(), "trains of packets only"),
            (TCPMON, base(), "compare nothing"),
            (IPERF3, base(), "compares no payload"),
            (IPERF3, Phase { verify: Verify::None, iterations: Some(1), ..base() }, "whole run"),
            (CTSTRAFFIC, Phase { exclusive: true, ..base() }, "exclude others"),
            (BWDELAYTESTER, base(), "with delay"),
            (BWDELAYTESTER, Phase { pattern: Pattern::Pull, ..delay(64) }, "to server only"),
            (BWDELAYTESTER, delay(2_001), "16 to 2000 bytes"),
            (NATIVE, delay(39), "40 to 65507"),
            (NATIVE, Phase { transfer_high: Some(1 << 31), total_bytes: Some(9), ..base() }, "cannot share"),
            (NATIVE, Phase { rate: Some(9), rate_high: Some(10), ..delay(64) }, "of connections only"),
            (TCPMON, Phase { rate: Some(9), rate_high: Some(10), ..base() }, "native draws from ranges"),
            (CTSTRAFFIC, Phase { draw_seed: Some(1), ..base() }, "repeats no draws"),
            (NATIVE, Phase { rate: Some(9), rate_period_ns: Some(9), ..base() }, "not by quanta"),
        ] {
            let told = protocol.check(&phase).unwrap_err();
            assert!(told.contains(why) && told.starts_with("the protocol "), "{told}");
        }
    }
}
