//! Numbers as real ones, and the quotients that figures are made of: each conversion once, by name.

/// A number that is shown or calculated with as a real one: exact up to 2^53, the nearest one beyond.
pub trait Real: Copy {
    /// As a real number.
    fn real(self) -> f64;
}

macro_rules! real {
    ($($number:ty),*) => {
        $(impl Real for $number {
            #[inline]
            fn real(self) -> f64 {
                self as f64
            }
        })*
    };
}

real!(u8, i32, u32, i64, u64, u128, usize, f64);

/// `n` as a real number.
#[inline]
#[must_use]
pub fn real(n: impl Real) -> f64 {
    n.real()
}

/// Nanoseconds as seconds.
#[must_use]
pub fn seconds(ns: impl Real) -> f64 {
    ns.real() / 1e9
}

/// So many of something in so many nanoseconds, per second.
#[must_use]
pub fn per_second(n: impl Real, ns: impl Real) -> f64 {
    n.real() * 1e9 / ns.real()
}

/// Bytes in so many nanoseconds as bits per second.
#[must_use]
pub fn bits_per_second(bytes: impl Real, ns: impl Real) -> f64 {
    bytes.real() * 8e9 / ns.real()
}

/// Which part of `all` it is, percent.
#[must_use]
pub fn percent_of(part: impl Real, all: impl Real) -> f64 {
    100.0 * part.real() / all.real()
}
