//! Reads the kernel's answers about stamps and clocks of cards, and decides what to do. No system
//! call is made here.
//!
//! ```text
//! ptp_clock_time           │ seconds i64 │ ns u32 │ 0 u32 │                                               16 bytes
//! PTP_SYS_OFFSET_PRECISE   │ card │ wall │ raw monotonic │ 16 bytes of nothing │                            64
//! PTP_SYS_OFFSET_EXTENDED  │ n u32 │ clock i32 │ 8 bytes of nothing │ 25 × (wall before │ card │ after) │  1216
//! PTP_SYS_OFFSET           │ n u32 │ 12 bytes of nothing │ wall │ 25 × (card │ wall) │                     832
//! ```

use metrics::{Clamped, Crossing, Mono};

/// Reading and writing (`_IOWR`), writing (`_IOW`) of `n` bytes, of the clocks' requests.
const fn request(direction: u32, number: u32, n: usize) -> u32 {
    direction << 30 | (n as u32) << 16 | (b'=' as u32) << 8 | number
}

const TIME: usize = 16;
/// Readings in one answer, at most and as many as are asked for (`PTP_MAX_SAMPLES`).
const MOST: usize = 25;
const READINGS: u32 = 10;

/// Methods of reading a card's clock beside the host's wall clock, the best one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadMethod {
    /// Both at once, by the card.
    Precise,
    /// The driver reads the wall clock directly before and after the card's.
    Extended,
    /// The kernel reads both in turn.
    Plain,
}

pub(super) const WAYS: [ReadMethod; 3] = [ReadMethod::Precise, ReadMethod::Extended, ReadMethod::Plain];

/// A card's clock between two readings of the wall clock, ns since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CardReading {
    pub(super) before: i64,
    pub(super) card: i64,
    pub(super) after: i64,
}

impl ReadMethod {
    /// The request, and the block that asks.
    pub(super) fn question(self) -> (u32, Vec<u8>) {
        let (number, n) = match self {
            ReadMethod::Precise => (request(3, 8, 4 * TIME), 4 * TIME),
            ReadMethod::Extended => (request(3, 9, TIME + 3 * MOST * TIME), TIME + 3 * MOST * TIME),
            ReadMethod::Plain => (request(1, 5, TIME + (2 * MOST + 1) * TIME), TIME + (2 * MOST + 1) * TIME),
        };
        let mut block = vec![0; n];
        if self != ReadMethod::Precise {
            block[..4].copy_from_slice(&READINGS.to_ne_bytes());
        }
        (number, block)
    }

    /// Parses the kernel's answer and returns the narrowest of its readings.
    pub(super) fn answer(self, block: &[u8]) -> Option<CardReading> {
        let time = |place: usize| time(block.get(place * TIME..)?);
        if self == ReadMethod::Precise {
            let (card, wall) = (time(0)?, time(1)?);
            return Some(CardReading { before: wall, card, after: wall });
        }
        let n = usize::clamped(u32::from_ne_bytes(*block.first_chunk()?));
        let apart = if self == ReadMethod::Extended { 3 } else { 2 };
        let reading = |i: usize| {
            let first = 1 + apart * i;
            Some(CardReading { before: time(first)?, card: time(first + 1)?, after: time(first + 2)? })
        };
        let all = (0..n.min(MOST)).filter_map(reading).filter(|r| r.before <= r.after);
        all.min_by_key(|r| r.after.saturating_sub(r.before))
    }
}

/// A `ptp_clock_time` as ns.
fn time(bytes: &[u8]) -> Option<i64> {
    let seconds = i64::from_ne_bytes(*bytes.first_chunk()?);
    let ns = u32::from_ne_bytes(*bytes.get(8..)?.first_chunk()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns.into())
}

/// Two relations of the wall clock to ours may differ by so much, ns; by more the wall clock has
/// been set in between.
const SET: u64 = 20_000;

/// A reading by our clock: how far the wall clock was ahead of it, and how sure that is, was looked
/// at before and after.
pub(super) fn crossing(reading: CardReading, before: (i64, u64), after: (i64, u64)) -> Option<Crossing> {
    if before.0.abs_diff(after.0) > SET {
        return None;
    }
    let (low, high) = (before.0.min(after.0), before.0.max(after.0));
    let unsure = before.1.max(after.1);
    let ours = |ns: i64| u64::try_from(ns).ok().map(Mono);
    Some(Crossing {
        before: ours(reading.before.checked_sub(high)?.checked_sub_unsigned(unsure)?)?,
        card: reading.card,
        after: ours(reading.after.checked_sub(low)?.checked_add_unsigned(unsure)?)?,
    })
}

/// `SOF_TIMESTAMPING_RX_HARDWARE` and `_RAW_HARDWARE` of linux/net_tstamp.h.
const STAMPS: u32 = 1 << 2 | 1 << 6;
/// `HWTSTAMP_TX_ON`, `HWTSTAMP_FILTER_ALL`.
const SENDING: i32 = 1;
const ALL: i32 = 1;

/// Abilities of a card (`struct ethtool_ts_info`); nothing, where the card reports none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Able {
    /// `SOF_TIMESTAMPING_*`.
    flags: u32,
    /// The number of its clock, `/dev/ptpN`.
    pub(crate) clock: Option<u32>,
    /// Packets that it can stamp when sent, by bit.
    sends: u32,
    receives: u32,
}

impl Able {
    /// The kernel's eleven words: command, flags, clock, kinds of sending, 3 of nothing, kinds of
    /// receiving, 3 of nothing.
    pub(crate) fn read(words: &[u32]) -> Option<Able> {
        Some(Able {
            flags: *words.get(1)?,
            // -1 is none.
            clock: u32::try_from(*words.get(2)? as i32).ok(),
            sends: *words.get(3)?,
            receives: *words.get(7)?,
        })
    }

    /// True if it stamps both ways, by some filter.
    pub(crate) fn both(&self) -> bool {
        self.flags & (STAMPS | 1) == STAMPS | 1
    }
}

/// The stamp setting of a card (`struct hwtstamp_config`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct How {
    pub(super) flags: i32,
    pub(super) sends: i32,
    pub(super) receives: i32,
}

impl How {
    /// True if it stamps all received packets; packets of PTP alone are none of ours.
    pub(super) fn receives_all(self) -> bool {
        self.receives == ALL
    }

    pub(super) fn sends_any(self) -> bool {
        self.sends == SENDING
    }
}

/// Decides about a card's stamps, with its setting `how`, if known: one that stamps already is left
/// as it is (`None`); another one gets a new setting (`Some`), but only if it `may` be changed.
///
/// # Errors
/// A clause that says why they cannot.
pub(super) fn choose(able: &Able, how: Option<How>, may: bool) -> Result<Option<How>, String> {
    let can = |mask: u32, what: i32| mask & 1 << what != 0;
    if able.flags & STAMPS != STAMPS {
        return Err("it has none".to_owned());
    }
    if able.clock.is_none() {
        return Err("its clock cannot be read: it has no /dev/ptp".to_owned());
    }
    let now = how.filter(|how| how.receives_all());
    if let Some(how) = now
        && (how.sends_any() || !may || !can(able.sends, SENDING))
    {
        return Ok(None);
    }
    if !can(able.receives, ALL) {
        return Err("it stamps packets of PTP only".to_owned());
    }
    if !may {
        return Err("they are off (--hardware-stamps=on enables them)".to_owned());
    }
    let Some(how) = how else {
        return Err("its stamp setting cannot be read, so that it could not be restored".to_owned());
    };
    let sends = if can(able.sends, SENDING) { SENDING } else { how.sends };
    Ok(Some(How { sends, receives: ALL, ..how }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(block: &mut [u8], place: usize, seconds: i64, ns: u32) {
        block[place * TIME..][..8].copy_from_slice(&seconds.to_ne_bytes());
        block[place * TIME + 8..][..4].copy_from_slice(&ns.to_ne_bytes());
    }

    /// The numbers that linux/ptp_clock.h makes of its structs, as a C compiler prints them on
    /// x86-64 and arm64.
    #[test]
    fn requests_have_the_kernels_numbers() {
        let number = |way: ReadMethod| way.question().0;
        assert_eq!(number(ReadMethod::Plain), 0x4340_3d05);
        assert_eq!(number(ReadMethod::Precise), 0xc040_3d08);
        assert_eq!(number(ReadMethod::Extended), 0xc4c0_3d09);
        for way in WAYS {
            let (number, block) = way.question();
            assert_eq!((number >> 16 & 0x3fff) as usize, block.len());
            assert_eq!(way.answer(&block[..3]), None);
        }
    }

    #[test]
    fn readings_are_found_where_the_kernel_writes_them() {
        let (_, mut block) = ReadMethod::Precise.question();
        put(&mut block, 0, 1_700_000_037, 5);
        put(&mut block, 1, 1_700_000_000, 9);
        let wall = 1_700_000_000_000_000_009;
        let card = 1_700_000_037_000_000_005;
        assert_eq!(ReadMethod::Precise.answer(&block), Some(CardReading { before: wall, card, after: wall }));

        for (way, apart) in [(ReadMethod::Extended, 3), (ReadMethod::Plain, 2)] {
            let (_, mut block) = way.question();
            assert_eq!(u32::from_ne_bytes(*block.first_chunk().unwrap()), READINGS);
            // The third of ten is the narrowest. In the plain layout a wall time is the end of one
            // and the beginning of the next.
            for i in 0..10 {
                let start = 1_000 * i as u32;
                let width = if i == 2 { 40 } else { 900 };
                put(&mut block, 1 + apart * i, 7, start);
                put(&mut block, 2 + apart * i, 99, start + 20);
                put(&mut block, 3 + apart * i, 7, start + width);
            }
            if way == ReadMethod::Plain {
                (0..10).for_each(|i| put(&mut block, 1 + 2 * i, 7, 1_000 * i as u32));
                put(&mut block, 1 + 2 * 3, 7, 2_040);
                put(&mut block, 21, 7, 9_900);
            }
            let told = way.answer(&block).unwrap();
            assert_eq!((told.before, told.card, told.after), (7_000_002_000, 99_000_002_020, 7_000_002_040));
            // More than there is room for is not believed.
            block[..4].copy_from_slice(&u32::MAX.to_ne_bytes());
            assert!(way.answer(&block).is_some());
        }
        assert_eq!(time(&i64::MAX.to_ne_bytes().repeat(2)), None);
    }

    #[test]
    fn a_reading_is_as_unsure_by_our_clock_as_the_relation_is() {
        let reading = CardReading { before: 10_000_000, card: 77, after: 10_004_000 };
        let found = crossing(reading, (9_000_000, 30), (9_000_100, 50)).unwrap();
        assert_eq!(found, Crossing { before: Mono(999_850), card: 77, after: Mono(1_004_050) });
        assert_eq!(crossing(reading, (9_000_000, 30), (9_900_000, 30)), None, "the wall clock was set");
        assert_eq!(crossing(reading, (i64::MIN, 30), (i64::MIN, 30)), None);
    }

    const CARD: Able = Able { flags: 0x7f, clock: Some(0), sends: 0b11, receives: 0b11 };
    const OFF: How = How { flags: 0, sends: 0, receives: 0 };

    #[test]
    fn what_a_card_can_do_is_read_from_its_words() {
        let words = [0x41, 0x7f, 3, 0b11, 0, 0, 0, 0b11, 0, 0, 0];
        assert_eq!(Able::read(&words), Some(Able { clock: Some(3), ..CARD }));
        assert!(CARD.both() && !Able { flags: 0x7e, ..CARD }.both());
        let none = [0x41, 0x1a, u32::MAX, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Able::read(&none).unwrap().clock, None);
        assert_eq!(Able::read(&words[..7]), None);
    }

    #[test]
    fn a_card_is_told_only_what_is_needed_and_permitted() {
        let on = How { sends: 1, receives: 1, ..OFF };
        assert_eq!(choose(&CARD, Some(on), false), Ok(None));
        assert_eq!(choose(&CARD, Some(on), true), Ok(None));
        let receiving = How { sends: 0, ..on };
        assert_eq!(choose(&CARD, Some(receiving), false), Ok(None));
        assert_eq!(choose(&CARD, Some(receiving), true), Ok(Some(on)));
        assert_eq!(choose(&CARD, Some(OFF), true), Ok(Some(on)));
        // Flags that are there stay there, and so does what it cannot do otherwise.
        let bond = How { flags: 1, ..OFF };
        let mute = Able { sends: 1, ..CARD };
        assert_eq!(choose(&mute, Some(bond), true), Ok(Some(How { sends: 0, receives: 1, flags: 1 })));
    }

    #[test]
    fn a_card_without_usable_stamps_says_why() {
        let why = |able: &Able, how, may| choose(able, how, may).unwrap_err();
        assert!(why(&CARD, Some(OFF), false).contains("off"));
        // One that serves ptp4l alone.
        assert!(why(&CARD, Some(How { sends: 1, receives: 12, ..OFF }), false).contains("off"));
        assert!(why(&Able { receives: 1 << 12, ..CARD }, Some(OFF), true).contains("PTP only"));
        assert!(why(&Able { clock: None, ..CARD }, Some(OFF), true).contains("/dev/ptp"));
        assert!(why(&Able { flags: 0x18, ..CARD }, Some(OFF), true).contains("none"));
        assert!(why(&CARD, None, true).contains("cannot be read"));
    }
}
