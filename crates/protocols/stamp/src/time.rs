//! Times and their errors as packets carry them.
//!
//! ```text
//!  time stamp (64 bits)                            error estimate (16 bits)
//! +------------------------+---------------------+ +-+-+------------+------------------+
//! | seconds (32)           | fraction (32)       | |S|Z| scale (6)  | multiplier (8)   |
//! +------------------------+---------------------+ +-+-+------------+------------------+
//!   Z = 0: since 1900, 2^-32 s  (NTP, RFC 5905)      S: the clock is disciplined by another
//!   Z = 1: since 1970, ns       (PTP, RFC 8186)      error = multiplier · 2^scale · 2^-32 s; multiplier 0 is no value
//! ```
//!
//! Seconds wrap (NTP in 2036): of all times with the same 32 bits the nearest to our own clock is
//! meant. PTP's scale is TAI, but most peers put UTC there; we do, too. A peer that does not is 37
//! s ahead, which the offset of its clock shows.

use metrics::{SECOND, Wall};

/// Format of the 64 bits of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Seconds since 1900 and 2^-32 s.
    #[default]
    Ntp,
    /// Seconds since 1970 and ns.
    Ptp,
}

/// From 1900 to 1970, s (RFC 5905 §6).
const EPOCH: i64 = 2_208_988_800;
const S: u16 = 0x8000;
const Z: u16 = 0x4000;

impl Format {
    pub fn encode(self, at: Wall) -> u64 {
        let (mut seconds, ns) = (at.0.div_euclid(SECOND as i64), at.0.rem_euclid(SECOND as i64) as u64);
        let fraction = match self {
            Format::Ptp => ns,
            Format::Ntp => {
                seconds += EPOCH;
                // Less than a second, rounded, is never a whole one: half of 2^-32 s is less than 1
                // ns.
                ((ns << 32) + SECOND / 2) / SECOND
            }
        };
        // The upper bits of the seconds wrap away.
        (seconds as u64) << 32 | fraction
    }

    /// The time nearest to `local` that is written so; `None` if that is no time in this format.
    pub fn decode(self, raw: u64, local: Wall) -> Option<Wall> {
        let fraction = raw & 0xffff_ffff;
        let (epoch, ns) = match self {
            Format::Ptp if fraction >= SECOND => return None,
            Format::Ptp => (0, fraction),
            Format::Ntp => (EPOCH, (fraction * SECOND + (1 << 31)) >> 32),
        };
        let known = local.0.div_euclid(SECOND as i64) + epoch;
        let distance = i64::from(((raw >> 32) as u32).wrapping_sub(known as u32) as i32);
        let seconds = known.checked_add(distance)?.checked_sub(epoch)?;
        Some(Wall(seconds.checked_mul(SECOND as i64)?.checked_add(ns as i64)?))
    }
}

/// Error bound of a clock, its discipline, and the format of its times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorEstimate {
    /// Error bound, ns; `None` is no value.
    pub ns: Option<u64>,
    /// True if another clock disciplines it.
    pub synced: bool,
    pub format: Format,
}

impl ErrorEstimate {
    /// The 16 bits; an error is never understated. `None` is written as the largest error there is.
    pub fn encode(self) -> u16 {
        let units = match self.ns {
            Some(ns) => (u128::from(ns) << 32).div_ceil(u128::from(SECOND)),
            None => u128::MAX,
        };
        let (mut multiplier, mut scale) = (units.max(1), 0u16);
        while multiplier > 255 && scale < 63 {
            multiplier = multiplier.div_ceil(2);
            scale += 1;
        }
        let (s, z) = (if self.synced { S } else { 0 }, if self.format == Format::Ptp { Z } else { 0 });
        s | z | scale << 8 | multiplier.min(255) as u16
    }

    /// Decodes the 16 bits.
    pub fn decode(raw: u16) -> Self {
        let (scale, multiplier) = (raw >> 8 & 0x3f, u128::from(raw & 0xff));
        let ns = ((multiplier << scale) * u128::from(SECOND)).div_ceil(1 << 32);
        ErrorEstimate {
            ns: (multiplier > 0).then(|| u64::try_from(ns).unwrap_or(u64::MAX)),
            synced: raw & S != 0,
            format: if raw & Z == 0 { Format::Ntp } else { Format::Ptp },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_times() {
        // RFC 5905 §6 gives 2,208,988,800 for the first day of Unix; half a second is the highest
        // bit of the fraction.
        assert_eq!(Format::Ntp.encode(Wall(0)), 0x83aa_7e80_0000_0000);
        assert_eq!(Format::Ntp.encode(Wall(500_000_000)), 0x83aa_7e80_8000_0000);
        assert_eq!(Format::Ptp.encode(Wall(1_500_000_001)), 1 << 32 | 500_000_001);
        assert_eq!(Format::Ptp.decode(1 << 32 | 1_000_000_000, Wall(0)), None, "no such nanosecond");
    }

    #[test]
    fn the_era_is_the_one_of_our_own_clock() {
        // The last second before the wrap of February 2036, and the first after it (RFC 5905,
        // figure 4).
        let wrap = (0x1_0000_0000 - EPOCH) * SECOND as i64;
        let before = Format::Ntp.encode(Wall(wrap - SECOND as i64));
        let after = Format::Ntp.encode(Wall(wrap));
        assert_eq!((before >> 32, after >> 32), (0xffff_ffff, 0));
        for local in [Wall(wrap - 5), Wall(wrap + 5)] {
            assert_eq!(Format::Ntp.decode(before, local), Some(Wall(wrap - SECOND as i64)));
            assert_eq!(Format::Ntp.decode(after, local), Some(Wall(wrap)));
        }
    }

    #[test]
    fn error_estimates_by_hand() {
        let told = |raw| ErrorEstimate::decode(raw);
        // 1 · 2^0 · 2^-32 s = 0.23 ns; 128 · 2^25 · 2^-32 s = 1 s; twampy's 0x3fff is beyond all
        // sense but readable.
        assert_eq!(told(0x0001), ErrorEstimate { ns: Some(1), synced: false, format: Format::Ntp });
        assert_eq!(told(0x8000 | 25 << 8 | 128).ns, Some(SECOND));
        assert_eq!(told(0xc000), ErrorEstimate { ns: None, synced: true, format: Format::Ptp });
        assert_eq!(told(0x3fff).ns, Some(u64::MAX));
        let made = ErrorEstimate { ns: Some(SECOND), synced: true, format: Format::Ptp }.encode();
        assert_eq!(made, 0xc000 | 25 << 8 | 128);
        assert_eq!(ErrorEstimate { ns: Some(0), ..ErrorEstimate::default() }.encode() & 0xff, 1, "never 0");
        assert_eq!(ErrorEstimate { ns: None, ..ErrorEstimate::default() }.encode(), 0x3fff);
    }

    proptest! {
        #[test]
        fn times_survive_to_the_nanosecond(ns in 0i64..4_000_000_000_000_000_000, off in -60_000_000_000i64..60_000_000_000) {
            for format in [Format::Ntp, Format::Ptp] {
                prop_assert_eq!(format.decode(format.encode(Wall(ns)), Wall(ns + off)), Some(Wall(ns)));
            }
        }

        #[test]
        fn errors_are_never_understated_and_hardly_overstated(ns in 1u64..16_000_000_000) {
            let told = ErrorEstimate::decode(ErrorEstimate { ns: Some(ns), ..ErrorEstimate::default() }.encode()).ns.unwrap();
            prop_assert!(told >= ns && told <= ns + ns / 100 + 1, "{} {}", ns, told);
        }

        #[test]
        fn no_bits_are_too_odd(raw: u64, error: u16, local: i64) {
            let _ = (Format::Ntp.decode(raw, Wall(local)), Format::Ptp.decode(raw, Wall(local)), ErrorEstimate::decode(error));
        }
    }
}
