//! Numbers as real ones or as whole ones of another size, and the quotients that figures are made
//! of: each conversion once, by name.

/// A number that is shown or calculated with as a real one: exact up to 2^53, the nearest one
/// beyond.
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

real!(u8, u16, i32, u32, i64, u64, i128, u128, usize, f64);

/// `n` as a real number.
#[inline]
pub fn real(n: impl Real) -> f64 {
    n.real()
}

/// Serde's test for counts that JSON leaves out at 0.
pub fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Nanoseconds as seconds.
pub fn seconds(ns: impl Real) -> f64 {
    ns.real() / 1e9
}

/// A count in `ns` nanoseconds, per second.
pub fn per_second(n: impl Real, ns: impl Real) -> f64 {
    n.real() * 1e9 / ns.real()
}

/// Bytes in `ns` nanoseconds as bits per second.
pub fn bits_per_second(bytes: impl Real, ns: impl Real) -> f64 {
    bytes.real() * 8e9 / ns.real()
}

/// Which part of `all` it is, percent.
pub fn percent_of(part: impl Real, all: impl Real) -> f64 {
    100.0 * part.real() / all.real()
}

/// Converts whole numbers from one type to another.
pub trait Clamped<From>: Sized {
    /// `n`, or the least or the largest of this type where `n` lies beyond it. Fractions are cut
    /// off, and NaN is 0.
    fn clamped(n: From) -> Self;
}

macro_rules! clamped {
    ($to:ty: $($from:ty),*) => {
        $(impl Clamped<$from> for $to {
            #[inline]
            fn clamped(n: $from) -> Self {
                <$to>::try_from(n).unwrap_or(if n > 0 { <$to>::MAX } else { <$to>::MIN })
            }
        })*
        impl Clamped<f64> for $to {
            #[inline]
            fn clamped(n: f64) -> Self {
                n as $to
            }
        }
    };
    ($($to:ty),*) => {
        $(clamped!($to: u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);)*
    };
}

clamped!(u8, u16, u32, u64, u128, usize, i32, i64);

#[cfg(test)]
mod tests {
    use super::Clamped as _;

    #[test]
    fn what_lies_beyond_a_type_is_its_end() {
        assert_eq!((u8::clamped(255_u64), u8::clamped(256_u64), u8::clamped(-1_i64)), (255, 255, 0));
        let signed = [i32::clamped(i64::MIN), i32::clamped(u128::MAX), i32::clamped(-7_i8)];
        assert_eq!(signed, [i32::MIN, i32::MAX, -7]);
        assert_eq!([2.9, -2.9, f64::NAN].map(u64::clamped), [2, 0, 0]);
        assert_eq!(i64::clamped(-2.9), -2);
        assert_eq!(u64::clamped(1e30), u64::MAX);
    }
}
