//! Lists that the kernel answers over netlink sockets, and the queueing disciplines of interfaces
//! (NETLINK_ROUTE).
//!
//! ```text
//! answer   nlmsghdr { len u32, type u16, flags u16, seq u32, port u32 }     repeated; host byte order throughout,
//!          tcmsg    { family u8, pad [u8; 3], ifindex i32, handle u32, parent u32, info u32 }
//!          rtattr   { len u16, type u16, value, padding to 4 } …            TCA_KIND: the name, zero-terminated
//!                                                                           TCA_STATS: bytes u64, packets u32, drops u32 …
//! ```

use metrics::Clamped;
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::time::Duration;

/// A queueing discipline of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Qdisc {
    index: u32,
    parent: u32,
    kind: String,
    /// Packets that it has dropped, modulo 2^32, drops of its children included.
    drops: u32,
}

const HEADER: usize = 16;
const TCMSG: usize = 20;
/// `parent` of the root discipline.
const TC_H_ROOT: u32 = 0xffff_ffff;
/// `struct tc_stats` (linux/pkt_sched.h).
const TCA_STATS: u16 = 3;
/// One dump is a few of these; a kernel that says more is not believed.
const MOST_READS: usize = 256;

/// Packets dropped by each interface's root queueing discipline since it was made, modulo 2^32, by
/// the interface's number. Kernels that do not report drops leave it out.
pub(super) fn drops() -> BTreeMap<u32, u32> {
    let mut all = Vec::new();
    let _incomplete = dump(&mut all);
    all.iter().filter(|q| q.parent == TC_H_ROOT).map(|q| (q.index, q.drops)).collect()
}

/// The kind of the root queueing discipline of the interface of this number; `None` when the kernel
/// does not report it.
pub(super) fn root_qdisc(index: u32) -> Option<String> {
    // The part of an interrupted dump is still valid.
    let mut all = Vec::new();
    let _incomplete = dump(&mut all);
    root_of(all, index)
}

fn root_of(all: Vec<Qdisc>, index: u32) -> Option<String> {
    all.into_iter().find(|q| q.index == index && q.parent == TC_H_ROOT).map(|q| q.kind)
}

fn dump(into: &mut Vec<Qdisc>) -> io::Result<()> {
    // The kernel knows no narrower question than for all interfaces.
    list(libc::NETLINK_ROUTE, libc::RTM_GETQDISC, &[0; TCMSG], &mut |kind, message| {
        into.extend(qdisc_of(kind, message));
    })
}

/// Has the kernel list all objects of a kind; `head` is the fixed part of the request. `each` gets
/// the type of every message of the answer, and its content.
///
/// # Errors
/// The kernel's refusal, and a socket that cannot be had.
pub(super) fn list(
    protocol: i32,
    kind: u16,
    head: &[u8],
    each: &mut dyn FnMut(u16, &[u8]),
) -> io::Result<()> {
    const SEQUENCE: u32 = 1;
    let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(Protocol::from(protocol)))?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    (&socket).write_all(&request(kind, head, SEQUENCE))?;
    let mut buffer = vec![0; 32 * 1024];
    for _ in 0..MOST_READS {
        let n = (&socket).read(&mut buffer)?;
        match read_answer(&buffer[..n], SEQUENCE, each) {
            Dump::More if n > 0 => {}
            Dump::More | Dump::Over => break,
            Dump::Refused(errno) => return Err(io::Error::from_raw_os_error(errno)),
        }
    }
    Ok(())
}

fn request(kind: u16, head: &[u8], sequence: u32) -> Vec<u8> {
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let mut bytes = u32::clamped(HEADER + head.len()).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(head);
    bytes
}

/// Continuation of a dump after this datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dump {
    More,
    Over,
    /// The kernel's error number.
    Refused(i32),
}

/// Reads one datagram of the answer. Bytes that make no sense end it; what made sense before them
/// is kept.
fn read_answer(mut bytes: &[u8], sequence: u32, each: &mut dyn FnMut(u16, &[u8])) -> Dump {
    while let Some(length) = u32_at(bytes, 0) {
        let length = usize::clamped(length);
        let (Some(kind), Some(message)) = (u16_at(bytes, 4), bytes.get(HEADER..length)) else {
            return Dump::Over;
        };
        if u32_at(bytes, 8) == Some(sequence) {
            match i32::from(kind) {
                libc::NLMSG_DONE => return Dump::Over,
                // An error number below 0; 0 acknowledges.
                libc::NLMSG_ERROR => {
                    let errno = u32_at(message, 0).map_or(0, u32::cast_signed).wrapping_neg();
                    return if errno > 0 { Dump::Refused(errno) } else { Dump::Over };
                }
                _ => each(kind, message),
            }
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Dump::More
}

/// The attributes of a message, each with its type: the bits about nesting and byte order are taken
/// off.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    const TYPE: u16 = 0x3fff;
    std::iter::from_fn(move || {
        let (length, kind) = (usize::from(u16_at(bytes, 0)?), u16_at(bytes, 2)?);
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & TYPE, value))
    })
}

/// The discipline in a message, an `RTM_NEWQDISC`.
fn qdisc_of(kind: u16, message: &[u8]) -> Option<Qdisc> {
    if kind != libc::RTM_NEWQDISC {
        return None;
    }
    let (index, parent) = (u32_at(message, 4)?, u32_at(message, 12)?);
    let (mut name, mut drops) = (None, 0);
    for (kind, value) in attributes(message.get(TCMSG..)?) {
        match kind {
            libc::TCA_KIND => name = value.split(|b| *b == 0).next().filter(|name| !name.is_empty()),
            TCA_STATS => drops = u32_at(value, 12).unwrap_or(0),
            _ => {}
        }
    }
    Some(Qdisc { index, parent, kind: String::from_utf8_lossy(name?).into_owned(), drops })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = u16::try_from(4 + value.len()).unwrap().to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = u32::try_from(HEADER + body.len()).unwrap().to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([2, 0]); // NLM_F_MULTI
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn qdisc(index: u32, parent: u32, kind: &str) -> Vec<u8> {
        let mut body = vec![0; 4];
        body.extend(index.to_ne_bytes());
        body.extend([0, 0, 0x80, 0]); // handle
        body.extend(parent.to_ne_bytes());
        body.extend(2_u32.to_ne_bytes()); // info: reference count
        body.extend(attribute(6, &[7; 5])); // an attribute before it, of odd length
        body.extend(attribute(libc::TCA_KIND, format!("{kind}\0").as_bytes()));
        body.extend(attribute(2, &[1, 2, 3])); // TCA_OPTIONS
        let (bytes, packets, drops) = (9_u64.to_ne_bytes(), 8_u32.to_ne_bytes(), 7_u32.to_ne_bytes());
        let stats = [&bytes[..], &packets, &drops].concat();
        body.extend(attribute(TCA_STATS, &stats));
        message(libc::RTM_NEWQDISC, 1, &body)
    }

    /// What `tc qdisc show` prints of a two-queue virtio card with an ingress hook, next to a plain
    /// loopback.
    fn answer() -> Vec<u8> {
        [
            qdisc(1, TC_H_ROOT, "noqueue"),
            qdisc(2, TC_H_ROOT, "mq"),
            qdisc(2, 1, "fq_codel"),
            qdisc(2, 2, "fq_codel"),
            qdisc(2, 0xffff_fff1, "clsact"), // TC_H_INGRESS: a filter, not a queue
            message(3, 1, &[0; 4]),          // NLMSG_DONE
        ]
        .concat()
    }

    fn read(bytes: &[u8]) -> (Dump, Vec<Qdisc>) {
        let mut all = Vec::new();
        let dump = read_answer(bytes, 1, &mut |kind, message| all.extend(qdisc_of(kind, message)));
        (dump, all)
    }

    #[test]
    fn roots_and_children_are_told_apart() {
        let (dump, all) = read(&answer());
        assert_eq!(dump, Dump::Over);
        assert_eq!(all.len(), 5);
        assert_eq!(root_of(all.clone(), 1).as_deref(), Some("noqueue"));
        assert_eq!(root_of(all.clone(), 2).as_deref(), Some("mq"));
        assert_eq!(root_of(all, 3), None);
    }

    #[test]
    fn answers_to_other_questions_and_errors() {
        let stray = message(libc::RTM_NEWQDISC, 9, &[0; 20]);
        assert_eq!(
            read(&[stray, qdisc(1, TC_H_ROOT, "fq")].concat()),
            (Dump::More, vec![Qdisc { index: 1, parent: TC_H_ROOT, kind: "fq".into(), drops: 7 }])
        );
        // An error (EOPNOTSUPP) ends the dump.
        assert_eq!(read(&message(2, 1, &(-95_i32).to_ne_bytes())), (Dump::Refused(95), vec![]));
        assert_eq!(read(&message(2, 1, &0_i32.to_ne_bytes())).0, Dump::Over, "acknowledged");
    }

    #[test]
    fn truncated_answers_give_what_came_whole() {
        let bytes = answer();
        let (_, whole) = read(&bytes);
        assert_eq!(whole.len(), 5);
        for cut in 0..bytes.len() {
            let (_, all) = read(&bytes[..cut]);
            assert!(whole.starts_with(&all), "cut at {cut}");
        }
    }

    #[test]
    fn lengths_that_lie_end_the_answer() {
        for lie in [0, 1, 15, 17, 0x7fff_ffff, u32::MAX] {
            let mut bytes = qdisc(1, TC_H_ROOT, "fq");
            bytes[..4].copy_from_slice(&lie.to_ne_bytes());
            assert_eq!(read(&bytes).1, vec![], "message of {lie}");
        }
        for lie in [0, 1, 3, 0xffff_u16] {
            let mut bytes = qdisc(1, TC_H_ROOT, "fq");
            bytes[HEADER + TCMSG..][..2].copy_from_slice(&lie.to_ne_bytes());
            assert_eq!(read(&bytes).1, vec![], "attribute of {lie}");
        }
    }

    #[test]
    fn garbage_is_survived() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let whole = answer();
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..=random() % 8 {
                let at = random() as usize % bytes.len();
                bytes[at] = random() as u8;
            }
            let _any = read(&bytes);
        }
    }
}
