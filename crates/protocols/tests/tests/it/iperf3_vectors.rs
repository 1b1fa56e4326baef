//! Conversations of real iperf3 programs, as captured, in the words of our codec.

use crate::support::bench::unhex;
use iperf3::codec::{COOKIE, Inbox, LONGEST_PARAMETERS, LONGEST_RESULTS, StateByte, code, error_text};
use iperf3::{params, results};
use std::collections::BTreeMap;

const VECTORS: &str = include_str!("vectors/iperf3.txt");

/// What has been said, in order.
#[derive(Debug, PartialEq)]
enum Said {
    Server(StateByte),
    Client(StateByte),
    Asked(Box<params::Parameters>),
    Results { server: bool, found: results::Results },
    Code(i32),
}

fn conversations() -> BTreeMap<&'static str, Vec<(bool, Vec<u8>)>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let (name, who, bytes) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
        all.entry(name).or_default().push((who == "s", unhex(bytes)));
    }
    all
}

/// What is to be read next.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    StateByte,
    Parameters,
    Results { server: bool },
    Code,
}

#[derive(Default)]
struct Reader {
    client: Inbox,
    server: Inbox,
    cookie: usize,
    streams: u32,
    next: Option<Next>,
    said: Vec<Said>,
}

impl Reader {
    fn take(&mut self, from_server: bool, piece: &[u8]) {
        let rest = if from_server { 0 } else { piece.len().min(COOKIE - self.cookie) };
        self.cookie += rest;
        if from_server {
            self.server.push(piece);
        } else {
            self.client.push(&piece[rest..]);
        }
        while self.step() {}
    }

    fn step(&mut self) -> bool {
        match self.next.unwrap_or(Next::StateByte) {
            Next::StateByte => {
                let heard = match (self.server.byte(), self.client.byte()) {
                    (Some(byte), None) => Said::Server(StateByte(byte)),
                    (None, Some(byte)) => Said::Client(StateByte(byte)),
                    (None, None) => return false,
                    both => panic!("at once: {both:?}"),
                };
                self.next = match heard {
                    Said::Server(StateByte::PARAM_EXCHANGE) => Some(Next::Parameters),
                    Said::Server(StateByte::EXCHANGE_RESULTS) => Some(Next::Results { server: false }),
                    Said::Server(StateByte::SERVER_ERROR) => Some(Next::Code),
                    _ => None,
                };
                self.said.push(heard);
            }
            Next::Parameters => {
                let Some(text) = self.client.document(LONGEST_PARAMETERS).unwrap() else { return false };
                let asked = params::read(&text).unwrap();
                // What we would write means the same.
                assert_eq!(params::read(&params::write(&asked)).unwrap(), asked);
                self.streams = asked.terms.all_streams();
                self.said.push(Said::Asked(Box::new(asked)));
                self.next = None;
            }
            Next::Results { server } => {
                let inbox = if server { &mut self.server } else { &mut self.client };
                let Some(text) = inbox.document(LONGEST_RESULTS).unwrap() else { return false };
                let found = results::read(&text, self.streams).unwrap();
                self.said.push(Said::Results { server, found });
                self.next = (!server).then_some(Next::Results { server: true });
            }
            Next::Code => {
                // The system's own number comes behind ours.
                if self.server.len() < 8 {
                    return false;
                }
                self.said.push(Said::Code(self.server.number().unwrap()));
                self.server.number();
                self.next = None;
            }
        }
        true
    }
}

/// Reads a conversation in pieces of `cut` bytes at most.
fn read(segments: &[(bool, Vec<u8>)], cut: usize) -> Vec<Said> {
    let mut reader = Reader::default();
    for (from_server, bytes) in segments {
        bytes.chunks(cut).for_each(|piece| reader.take(*from_server, piece));
    }
    reader.said
}

/// The states of a conversation, without its documents.
fn states(said: &[Said]) -> Vec<u8> {
    said.iter()
        .filter_map(|said| match said {
            Said::Server(state) | Said::Client(state) => Some(state.0),
            _ => None,
        })
        .collect()
}

#[test]
fn conversations_of_real_programs_in_any_pieces() {
    // The states by their bytes, as `codec.rs` names them.
    let whole = [9, 10, 1, 2, 4, 13, 14, 16];
    for (name, segments) in conversations() {
        let said = read(&segments, usize::MAX);
        for cut in [1, 2, 3, 5, 100] {
            assert_eq!(read(&segments, cut), said, "{name} in pieces of {cut}");
        }
        let expected: &[u8] = match name {
            "tcp" | "gso" | "oldcli" | "old" => &whole,
            "udp" | "bidir" => &whole[..4],
            "limit" | "maxdur" => &[9, 0xfe],
            "cabort" => &[9, 10, 1, 2, 12, 0xfe],
            "sabort" => &[9, 10, 1, 2, 11, 16],
            "denied" => &[0xff],
            other => panic!("{other} is not expected"),
        };
        assert_eq!(states(&said), expected, "{name}");
        if let Some(Said::Code(number)) = said.last() {
            let (wanted, word) =
                if name == "limit" { (code::RATE, "bandwidth") } else { (code::LONG, "duration") };
            assert_eq!(*number, wanted, "{name}");
            assert!(error_text(*number).contains(word), "{name}: {}", error_text(*number));
        }
    }
}

#[test]
fn what_they_asked_for_and_found() {
    let all = conversations();
    let of = |name: &str| read(&all[name], usize::MAX);
    let terms = |said: &[Said]| {
        said.iter().find_map(|said| match said {
            Said::Asked(asked) => Some(asked.terms.clone()),
            _ => None,
        })
    };
    // The command lines: -t 1 -l 8000 -b 2M; -u -P 2; --bidir -P 2; --get-server-output; 3.1.7 -u
    // -l 1000 -b 200K.
    let tcp = terms(&of("tcp")).unwrap();
    assert_eq!((tcp.udp, tcp.time_s, tcp.block, tcp.rate), (false, 1, 8000, 2_000_000));
    let udp = terms(&of("udp")).unwrap();
    assert!(udp.udp && udp.streams == 2);
    let bidir = terms(&of("bidir")).unwrap();
    assert!(bidir.bidir && bidir.all_streams() == 4);
    assert!(terms(&of("gso")).unwrap().server_output);
    let old = terms(&of("old")).unwrap();
    assert_eq!((old.udp, old.block, old.rate, old.version.as_str()), (true, 1000, 200_000, "3.1.7"));
    let found = |name: &str, server: bool| {
        of(name).into_iter().find_map(|said| match said {
            Said::Results { server: whose, found } if whose == server => Some(found),
            _ => None,
        })
    };
    // Both ends of the TCP test count 256,000 bytes.
    let (client, server) = (found("tcp", false).unwrap(), found("tcp", true).unwrap());
    assert_eq!((client.lines[0].row.bytes, server.lines[0].row.bytes), (256_000, 256_000));
    assert_eq!((client.has_retransmits, server.has_retransmits), (1, -1));
    assert!(found("gso", true).unwrap().output.is_some() && client.output.is_none());
    assert!(found("old", true).unwrap().lines[0].row.ns.is_none(), "3.1.7 does not say how long it took");
}
