//! The table of sending rates: 1,153 rows by formula.
//!
//! A row has two transmitters, each a burst of equal datagrams at an interval, and one more
//! datagram behind each burst of the second:
//!
//! ```text
//!  row        every 100 µs                every 1,000 µs
//!  0          nothing                     nothing; one datagram of a random size every 50 ms
//!  n ≤ 1000   k datagrams (100 Mbit/s)    i datagrams (10 Mbit/s), one of j Mbit/s     n = 100 k + 10 i + j
//!  n > 1000   10 datagrams and more, or longer ones where jumbo datagrams are allowed
//! ```
//!
//! A rate counts IPv4 packets, headers included. With the traditional MTU a datagram fills a
//! packet of 1,500 bytes, else one of 1,250: then *k* stands for 120 Mbit/s and *i* for 12.

/// The last row.
pub const LAST: u16 = 1_152;
/// The row of 1 Gbit/s: above it a search goes by single rows.
pub const HIGH_SPEED: u16 = 1_000;
/// Most datagrams of a burst.
pub const BURST: u32 = 100;

/// Headers of IPv4 and UDP, bytes.
const HEADERS: u32 = 28;
/// Intervals of the two transmitters, µs.
const FINE: u32 = 100;
const COARSE: u32 = 1_000;
/// Interval of row 0, µs.
const SLOWEST: u32 = 50_000;
/// Smallest IPv4 packet of a row's datagram of random size, bytes, as UDP payload.
const SMALLEST: u32 = 52;
/// UDP payload of the longest datagram, and of the first jumbo row above 1 Gbit/s, bytes.
const LONGEST: u32 = 8_972;
const JUMBO_FROM: u32 = 1_375 - HEADERS;

/// UDP payload of datagrams, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// The payload, or with `random` the most of it.
    pub bytes: u32,
    /// Each datagram has a size of its own, from the smallest to `bytes`.
    pub random: bool,
}

impl Size {
    /// Always `bytes`.
    pub const fn just(bytes: u32) -> Self {
        Size { bytes, random: false }
    }
}

/// Bursts of datagrams at an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transmitter {
    /// Time from one burst to the next, µs; 0 is a transmitter that is off.
    pub interval_us: u32,
    /// Size of its datagrams.
    pub size: Size,
    /// Datagrams of a burst.
    pub burst: u32,
}

/// Sending parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The two transmitters.
    pub transmitters: [Transmitter; 2],
    /// One more datagram behind each burst of the second; 0 bytes is none.
    pub addon: Size,
}

impl Row {
    /// Rate of its IPv4 packets, bits/s; a random size counts as its mean.
    pub fn rate_bps(&self) -> u64 {
        let bytes = |size: Size| match (size.bytes, size.random) {
            (0, _) => 0,
            (most, true) => u64::from(SMALLEST.midpoint(most) + HEADERS),
            (bytes, false) => u64::from(bytes + HEADERS),
        };
        let [first, second] = self.transmitters;
        let of = |one: Transmitter, addon: Size| {
            let tick = u64::from(one.burst) * bytes(one.size) + bytes(addon);
            (tick * 8_000_000).checked_div(u64::from(one.interval_us)).unwrap_or(0)
        };
        of(first, Size::default()) + of(second, self.addon)
    }
}

/// The table, by the datagrams that both ends allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateTable {
    /// Datagrams may be longer than a packet of Ethernet, above 1 Gbit/s.
    pub jumbo: bool,
    /// Datagrams fill packets of 1,500 bytes, instead of 1,250.
    pub traditional: bool,
}

impl RateTable {
    /// UDP payload of a datagram below 1 Gbit/s, bytes.
    pub fn payload(self) -> u32 {
        if self.traditional { 1_472 } else { 1_222 }
    }

    /// UDP payload of the longest datagram, bytes.
    pub fn longest(self) -> u32 {
        if self.jumbo { LONGEST } else { self.payload() }
    }

    /// Row `n`; rows behind the last are the last.
    pub fn row(self, n: u16) -> Row {
        let full = Size::just(self.payload());
        match u32::from(n.min(LAST)) {
            0 => {
                let slow = Transmitter { interval_us: SLOWEST, ..Transmitter::default() };
                let addon = Size { random: true, ..full };
                Row { transmitters: [Transmitter::default(), slow], addon }
            }
            n if n <= u32::from(HIGH_SPEED) => self.fine(n),
            n => self.fast(n - u32::from(HIGH_SPEED)),
        }
    }

    /// A row of whole Mbit/s.
    fn fine(self, n: u32) -> Row {
        let step = if self.traditional { 12 } else { 10 };
        let (k, i, j) = (n / (10 * step), n / step % 10, n % step);
        let full = Size::just(self.payload());
        let every = |interval_us, burst| Transmitter { interval_us, size: full, burst };
        let first = if k > 0 { every(FINE, k) } else { Transmitter::default() };
        let second = match (i, j) {
            (0, 0) => Transmitter::default(),
            (0, _) => Transmitter { interval_us: COARSE, ..Transmitter::default() },
            (i, _) => every(COARSE, i),
        };
        let addon = if j > 0 { Size::just(125 * j - HEADERS) } else { Size::default() };
        Row { transmitters: [first, second], addon }
    }

    /// The `n`-th row above 1 Gbit/s, from 1.
    fn fast(self, n: u32) -> Row {
        let (bytes, burst) = match (self.jumbo, self.traditional) {
            (true, _) if JUMBO_FROM + 125 * (n - 1) <= LONGEST => (JUMBO_FROM + 125 * (n - 1), 10),
            // Behind the row with the longest datagrams, the 62nd, bursts grow.
            (true, _) => (LONGEST, n - 62 + 10),
            (false, false) => (self.payload(), 10 + n),
            (false, true) => (self.payload(), 8 + n),
        };
        let first = Transmitter { interval_us: FINE, size: Size::just(bytes), burst: burst.min(BURST) };
        Row { transmitters: [first, Transmitter::default()], addon: Size::default() }
    }

    /// The row that is closest to a rate of IPv4 packets, bits/s, from below; row 0 below 1 Mbit/s.
    pub fn row_of(self, rate_bps: u64) -> u16 {
        // Rates rise with the row, by its construction; those at the end may be equal.
        let (mut low, mut high) = (0, LAST);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.row(middle).rate_bps() <= rate_bps {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: [RateTable; 4] = [
        RateTable { jumbo: false, traditional: false },
        RateTable { jumbo: false, traditional: true },
        RateTable { jumbo: true, traditional: false },
        RateTable { jumbo: true, traditional: true },
    ];

    fn mbit(table: RateTable, n: u16) -> u64 {
        table.row(n).rate_bps() / 1_000_000
    }

    #[test]
    fn rows_up_to_one_gigabit_have_the_rate_of_their_number() {
        for table in TABLES {
            for n in 1..=HIGH_SPEED {
                assert_eq!(table.row(n).rate_bps(), u64::from(n) * 1_000_000, "{table:?} {n}");
            }
            assert!((100_000..500_000).contains(&table.row(0).rate_bps()), "{table:?}");
            assert_eq!(table.row(1).addon, Size::just(97));
        }
    }

    #[test]
    fn rows_above_have_longer_datagrams_or_longer_bursts() {
        let [plain, traditional, jumbo, both] = TABLES;
        // Mbit/s, by arithmetic: packets of 1,250 and of 1,500 bytes every 100 µs.
        let rates = |table, rows: [u16; 4]| rows.map(|n| mbit(table, n));
        assert_eq!(rates(plain, [1_001, 1_002, 1_090, 1_152]), [1_100, 1_200, 10_000, 10_000]);
        assert_eq!(rates(traditional, [1_001, 1_002, 1_092, 1_152]), [1_080, 1_200, 12_000, 12_000]);
        assert_eq!(rates(jumbo, [1_002, 1_010, 1_062, 1_100]), [1_200, 2_000, 7_200, 34_560]);
        assert_eq!(rates(both, [1_002, 1_062, 1_063, 1_152]), [1_200, 7_200, 7_920, 72_000]);
        for table in TABLES {
            let rows = (0..=LAST).map(|n| table.row(n));
            assert!(rows.clone().all(|row| row.transmitters.iter().all(|one| one.burst <= BURST)));
            assert!(rows.map(|row| row.rate_bps()).is_sorted(), "{table:?}");
            assert_eq!(table.row(u16::MAX), table.row(LAST));
        }
    }

    #[test]
    fn a_rate_has_the_row_below_it() {
        for table in TABLES {
            let of = |mbit: u64| table.row_of(mbit * 1_000_000);
            assert_eq!((of(0), of(1), of(999), of(1_000)), (0, 1, 999, 1_000));
            assert_eq!(table.row_of(123_999_999), 123);
        }
    }
}
