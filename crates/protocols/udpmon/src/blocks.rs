//! Blocks: a responder's results, as in the memory of the original (libhj 4.9.5 on a 64-bit
//! machine), fetched in pieces without any header.
//!
//! ```text
//! histogram, 8064 bytes
//!   0      4      8      12     16             24             32                           8032       8064
//!  +------+------+------+------+--------------+--------------+----------------------------+----------+
//!  |number|low   |width |bins  | sum of values| 0            | 1000 × i64: below, bins …, | title,   |
//!  |      |      |      |      |              |              | and in the last: above     | 32 chars |
//!  +------+------+------+------+--------------+--------------+----------------------------+----------+
//!
//! texts of /proc/net, 26,888 bytes: at the start and at the stop, each
//!  +-----------+-----------+-----------+------------------------+-------------------+
//!  | dev, 4000 | snmp, 4000| snmp6,4000| 16 interfaces × 80     | 160: read numbers |     two of these, then
//!  +-----------+-----------+-----------+------------------------+-------------------+     i32 0, i32 family (1 or 2)
//!
//! CPU shares, 12,384 bytes: 129 × 96: eleven i64 (user, nice, system, idle, iowait, irq, softirq, steal, kernel, 0, 0),
//!                           i32 number of entries (in the first), i32
//! card, 136 bytes: twelve i64, name (32 chars), i32 how many, i32
//! record of a packet, 32 bytes: came (tenths), left (tenths), kernel's stamp (ns), card's stamp (ns)
//! record of a lost packet, 24 bytes: the last one before came, left (tenths), number of the lost one
//! ```

use super::codec::{Block, i32_at, put32, put64};
use super::proc::{between, is_interface};
use crate::host::HostTexts;
use crate::{PacketTestCard, PacketTestCpu, PacketTestHost, PacketTestLost, PacketTestRecord};
use metrics::Binned;

pub const HISTOGRAM: usize = 8064;
pub const NET: usize = 26_888;
/// Length of the CPU shares.
pub const CPU: usize = 12_384;
/// Length of the card's counters.
pub const CARD: usize = 136;
/// Length of a packet's record.
pub const RECORD: usize = 32;
/// Length of a lost packet's record.
pub const LOST: usize = 24;

/// Bins in memory; the first and the last are for values beside.
const ALL_BINS: usize = 1000;
/// Room of a text, its NUL included.
const TEXT: usize = 4000;
/// Begin of the second set of texts.
const SECOND: usize = 13_440;
/// CPUs and their sum.
const CPUS: usize = 129;
const CPU_ENTRY: usize = 96;

fn words(bytes: &[u8]) -> impl Iterator<Item = i64> + '_ {
    bytes.chunks_exact(8).map(|word| word.first_chunk().map_or(0, |word| i64::from_le_bytes(*word)))
}

fn text(bytes: &[u8]) -> String {
    // A responder in verbose mode has put NULs in place of colons: the text goes on behind them.
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let text = bytes[..end].iter().map(|&byte| if byte == 0 { b':' } else { byte }).collect::<Vec<u8>>();
    String::from_utf8_lossy(&text).into_owned()
}

/// A block about a responder's host as it sends it; of the card's, that of card `n`.
pub(super) fn encode_host(block: Block, [start, stop]: [&HostTexts; 2], v6: bool, n: usize) -> Vec<u8> {
    match block {
        Block::Net => encode_net(start, stop, v6),
        Block::Cpu => encode_cpus(&between(start, stop, v6).cpus),
        _ => encode_card(between(start, stop, v6).cards.get(n)),
    }
}

impl PacketTestHost {
    /// Keeps a block's figures of a responder's host.
    pub(super) fn keep(&mut self, block: Block, bytes: &[u8], v6: bool) {
        match block {
            Block::Net => {
                if let Some((start, stop)) = decode_net(bytes) {
                    let host = between(&start, &stop, v6);
                    (self.interfaces, self.ip) = (host.interfaces, host.ip);
                }
            }
            Block::Cpu => self.cpus = decode_cpus(bytes),
            _ => self.cards.extend(decode_card(bytes)),
        }
    }
}

/// A histogram as a responder sends it.
pub fn encode_histogram(number: i32, title: &str, hist: &Binned) -> Vec<u8> {
    let small = |n: i64| i32::try_from(n).unwrap_or(i32::MAX);
    let mut bytes = vec![0; HISTOGRAM];
    let head = [number, small(hist.low), small(hist.width), small(hist.bins.len() as i64)];
    (0..).step_by(4).zip(head).for_each(|(at, n)| put32(&mut bytes, at, n));
    put64(&mut bytes, 16, hist.sum);
    let counts = std::iter::once(&hist.under).chain(hist.bins.iter().take(ALL_BINS - 2));
    for (bin, count) in counts.enumerate().chain([(ALL_BINS - 1, &hist.over)]) {
        put64(&mut bytes, 32 + 8 * bin, i64::try_from(*count).unwrap_or(i64::MAX));
    }
    put_name(&mut bytes[32 + 8 * ALL_BINS..], title);
    bytes
}

/// Writes a name into 32 bytes, cut before a closing NUL.
fn put_name(bytes: &mut [u8], name: &str) {
    let n = name.len().min(31);
    bytes[..n].copy_from_slice(&name.as_bytes()[..n]);
}

/// A histogram, if the bytes are one.
pub fn decode_histogram(bytes: &[u8]) -> Option<Binned> {
    let number = |at: usize| i32_at(bytes, at);
    let bins = usize::try_from(number(12)?).ok().filter(|n| (1..=ALL_BINS - 2).contains(n))?;
    let all: Vec<u64> =
        words(bytes.get(32..32 + 8 * ALL_BINS)?).map(|n| u64::try_from(n).unwrap_or(0)).collect();
    Some(Binned {
        low: number(4)?.into(),
        width: i64::from(number(8)?).max(1),
        under: all[0],
        bins: all[1..=bins].to_vec(),
        over: all[ALL_BINS - 1],
        sum: words(bytes.get(16..24)?).next()?,
    })
}

/// The texts of start and stop as a responder sends them.
pub fn encode_net(start: &HostTexts, stop: &HostTexts, v6: bool) -> Vec<u8> {
    let mut bytes = vec![0; NET];
    for (at, texts) in [(0, start), (SECOND, stop)] {
        for (n, text) in [&texts.dev, &texts.snmp, &texts.snmp6].into_iter().enumerate() {
            let from = at + n * TEXT;
            let length = text.len().min(TEXT - 1);
            bytes[from..from + length].copy_from_slice(&text.as_bytes()[..length]);
        }
    }
    let family = if v6 { 2 } else { 1 };
    put32(&mut bytes, NET - 4, family);
    bytes
}

/// The texts of start and stop, if the bytes are long enough to hold them.
pub fn decode_net(bytes: &[u8]) -> Option<(HostTexts, HostTexts)> {
    let texts = |at: usize| {
        let one = |n: usize| Some(text(bytes.get(at + n * TEXT..at + (n + 1) * TEXT)?));
        Some(HostTexts { dev: one(0)?, snmp: one(1)?, snmp6: one(2)?, ..HostTexts::default() })
    };
    Some((texts(0)?, texts(SECOND)?))
}

/// CPU shares as a responder sends them.
pub fn encode_cpus(cpus: &[PacketTestCpu]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(CPU);
    for cpu in cpus.iter().take(CPUS) {
        let shares =
            [cpu.user, cpu.nice, cpu.system, cpu.idle, cpu.iowait, cpu.irq, cpu.softirq, 0, cpu.kernel, 0, 0];
        shares.iter().for_each(|share| bytes.extend_from_slice(&share.to_le_bytes()));
        let count = if bytes.len() < CPU_ENTRY { cpus.len().min(CPUS) as i64 } else { 0 };
        bytes.extend_from_slice(&count.to_le_bytes());
    }
    bytes.resize(CPU, 0);
    bytes
}

/// CPU shares: that of all, then of each.
pub fn decode_cpus(bytes: &[u8]) -> Vec<PacketTestCpu> {
    let count = usize::try_from(i32_at(bytes, 88).unwrap_or(0)).unwrap_or(0).min(CPUS);
    let one = |entry: &[u8]| {
        let mut words = words(entry);
        let [user, nice, system, idle, iowait, irq, softirq, _, kernel] =
            std::array::from_fn(|_| words.next().unwrap_or(0));
        PacketTestCpu { user, nice, system, idle, iowait, irq, softirq, kernel }
    };
    bytes.chunks_exact(CPU_ENTRY).take(count).map(one).collect()
}

/// The card's counters as a responder sends them; without a card all is 0.
pub fn encode_card(card: Option<&PacketTestCard>) -> Vec<u8> {
    let mut bytes = vec![0; CARD];
    let Some(card) = card else { return bytes };
    let counts = card.counts.get(..12).unwrap_or(&card.counts);
    (0..).step_by(8).zip(counts).for_each(|(at, count)| put64(&mut bytes, at, *count));
    put_name(&mut bytes[96..], &card.name);
    put32(&mut bytes, 128, counts.len() as i32);
    bytes
}

/// The card's counters; `None` when the responder was given no card.
pub fn decode_card(bytes: &[u8]) -> Option<PacketTestCard> {
    let name = bytes.get(96..128)?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let name = String::from_utf8_lossy(&name[..end]).into_owned();
    let count = usize::try_from(i32_at(bytes, 128)?).unwrap_or(0).min(12);
    is_interface(&name).then(|| PacketTestCard { name, counts: words(bytes).take(count).collect() })
}

/// Packets' records as a responder sends them.
pub fn encode_records(records: &[PacketTestRecord]) -> Vec<u8> {
    let words = records.iter().flat_map(|row| [row.received, row.sent, row.system_ns, row.raw_ns]);
    words.flat_map(i64::to_le_bytes).collect()
}

pub fn decode_records(bytes: &[u8]) -> Vec<PacketTestRecord> {
    let one = |row: &[u8]| {
        let mut words = words(row);
        let [received, sent, system_ns, raw_ns] = std::array::from_fn(|_| words.next().unwrap_or(0));
        PacketTestRecord { received, sent, system_ns, raw_ns }
    };
    bytes.chunks_exact(RECORD).map(one).collect()
}

/// Lost packets' records as a responder sends them.
pub fn encode_lost(lost: &[PacketTestLost]) -> Vec<u8> {
    lost.iter().flat_map(|row| [row.received, row.sent, row.number]).flat_map(i64::to_le_bytes).collect()
}

/// Lost packets' records; a responder leaves out those without a loss.
pub fn decode_lost(bytes: &[u8]) -> Vec<PacketTestLost> {
    let one = |row: &[u8]| {
        let mut words = words(row);
        let mut next = || words.next().unwrap_or(0);
        PacketTestLost { received: next(), sent: next(), number: next() }
    };
    bytes.chunks_exact(LOST).map(one).filter(|row| *row != PacketTestLost::default()).collect()
}
