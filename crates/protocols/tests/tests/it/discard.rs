//! The character generator: its bytes are those of RFC 864, and a client finds what a path does to
//! them.

use crate::support::ran;
use discard::chargen::{Generator, Reader, STREAM};
use metrics::SECOND;
use model::{Pattern, Phase, Verify};
use sim::{At, Cut, Link, Pair, Quirks};
use transport::{Arena, Cause, Flow, Transmit, Violation};

const ALL: u64 = 30_011;

fn reader(verify: Verify) -> Box<dyn Flow> {
    let phase = Phase { pattern: Pattern::Pull, transfer: ALL, verify, ..Phase::default() };
    Box::new(Reader::new(&phase, 0))
}

fn pair(verify: Verify, link: Link) -> Pair {
    Pair::stream(reader(verify), Box::new(Generator::new(10 * SECOND))).down(link)
}

#[test]
fn the_lines_are_those_of_the_rfc() {
    let printable: String = (' '..='~').collect();
    let twice = printable.repeat(2);
    let lines: String = (0..300).map(|n| format!("{}\r\n", &twice[n % 95..][..72])).collect();
    for from in [0, 1, 73, 74, 7_029, 7_030, 14_061] {
        let mut arena = Arena::new(0);
        let mut sent = Transmit::new(&mut arena, 8_000);
        STREAM.offer(from as u64, 8_000, &mut sent);
        let bytes: Vec<u8> = sent.slices().flatten().copied().collect();
        assert!(bytes == lines.as_bytes()[from..][..8_000], "from {from}");
        assert_eq!(STREAM.check(from as u64, &bytes), Ok(()));
    }
}

#[test]
fn a_client_reads_what_it_wants_and_hangs_up() {
    for verify in [Verify::Data, Verify::Connection, Verify::None] {
        for quirks in [Quirks::default(), Quirks::rough(), Quirks::one_byte_reads()] {
            let pair = ran(pair(verify, Link::new()).quirks(quirks));
            assert!(pair.ends.iter().all(|end| end.completed()), "{verify:?}: {:?}", pair.ends[1].ended);
            assert_eq!(pair.ends[0].counts.rx_bytes, ALL);
            assert!(pair.ends[1].counts.tx_bytes >= ALL);
        }
    }
}

#[test]
fn a_changed_byte_and_a_stream_that_is_cut_are_errors() {
    let spoilt = ran(pair(Verify::Data, Link::new().flip(12_345, 1)));
    match &spoilt.ends[0].ended {
        Some(Err(Cause::Violation(Violation::BadData { offset: 12_345, want, got, .. }))) => {
            assert_eq!(want[0] ^ got[0], 1);
        }
        other => panic!("{other:?}"),
    }
    let cut = ran(pair(Verify::Connection, Link::new().cut(At::Byte(20_000), Cut::Fin)));
    let short = Violation::TooFew { got: 20_000, want: ALL };
    assert_eq!(cut.ends[0].ended, Some(Err(Cause::Violation(short))));
}
