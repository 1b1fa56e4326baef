//! Conversions of numbers, each once, and numbers as C prints them.

use metrics::{Clamped, Real, real};

/// `a / b`, or 0 where there is no `b`.
pub fn ratio(a: impl Real, b: impl Real) -> f64 {
    let b = real(b);
    if b > 0.0 { real(a) / b } else { 0.0 }
}

/// `%g` with this many significant digits.
pub fn g(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !value.is_finite() {
        return value.to_string().to_lowercase();
    }
    let digits = digits.max(1);
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= i64::clamped(digits) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    trimmed(&format!("{value:.*}", usize::clamped(i64::clamped(digits) - 1 - exponent)))
}

#[cfg(test)]
mod tests {
    use super::g;

    #[test]
    fn numbers_look_as_in_c() {
        // printf("%g") and printf("%.2g") of glibc.
        for (value, text) in [
            (0.0, "0"),
            (370.085_196, "370.085"),
            (1297.0, "1297"),
            (1_368_300.0, "1.3683e+06"),
            (141_545.2, "141545"),
            (0.000_555_556, "0.000555556"),
            (0.000_012_345_67, "1.23457e-05"),
            (-202.893, "-202.893"),
            (999_999.6, "1e+06"),
            (100.0, "100"),
        ] {
            assert_eq!(g(value, 6), text);
        }
        let shown = [3.0, 12.345, 100.0, 0.012_345].map(|value| g(value, 2));
        assert_eq!(shown, ["3", "12", "1e+02", "0.012"]);
        assert_eq!((g(f64::NAN, 6), g(f64::NEG_INFINITY, 6)), ("nan".into(), "-inf".into()));
    }

    #[test]
    fn shares_have_two_digits() {
        // What printf makes of them with "%.2g".
        for (share, text) in [
            (0.0, "0"),
            (0.123, "0.12"),
            (5.0, "5"),
            (12.3, "12"),
            (1.25, "1.2"),
            (99.6, "1e+02"),
            (100.0, "1e+02"),
            (0.00001, "1e-05"),
            (0.1, "0.1"),
        ] {
            assert_eq!(g(share, 2), text);
        }
    }
}
