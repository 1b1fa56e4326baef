//! Values of iperf3's options, as it writes them.

use metrics::{Clamped, SECOND};

/// A number with the suffix k, m, g or t, times 1024 each (sizes) or 1000 (rates).
pub(super) fn amount(text: &str, thousand: f64) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a number with an optional suffix K, M, G or T");
    let (digits, power) = match text.char_indices().next_back() {
        Some((at, last)) if last.is_ascii_alphabetic() => {
            let power = "kmgt".find(last.to_ascii_lowercase()).ok_or_else(wrong)?;
            (&text[..at], i32::clamped(power) + 1)
        }
        _ => (text, 0),
    };
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let number = number * thousand.powi(power);
    if !(0.0..1.8e19).contains(&number) {
        return Err(wrong());
    }
    Ok(u64::clamped(number))
}

/// Idle time of `--cntl-ka[=idle/interval/count]`. The kernel probes at this interval, too, and its
/// count is the system's.
pub(super) fn keepalive(text: Option<&str>) -> Result<Option<u64>, String> {
    let Some(text) = text else { return Ok(None) };
    let wrong =
        || format!("'{text}' is not an idle time in seconds, with an optional /interval/count behind it");
    let mut parts = text.split('/').map(|part| if part.is_empty() { Ok(0) } else { part.parse::<u32>() });
    let mut next = || parts.next().transpose().map_err(|_| wrong());
    let (idle, interval, count) = (next()?.unwrap_or(0), next()?.unwrap_or(0), next()?.unwrap_or(0));
    if idle > 0 && u64::from(interval) * u64::from(count) >= u64::from(idle) {
        return Err("--cntl-ka: the idle time must be longer than interval times count".into());
    }
    Ok((idle > 0).then(|| u64::from(idle) * SECOND))
}

/// A number as C writes it: decimal, octal with a 0, hexadecimal with 0x.
pub(super) fn any_base(text: &str, what: &str) -> Result<u32, String> {
    let parsed = match (text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")), text.strip_prefix('0')) {
        (Some(hex), _) => u32::from_str_radix(hex, 16),
        (None, Some(octal)) if !octal.is_empty() => u32::from_str_radix(octal, 8),
        _ => text.parse(),
    };
    parsed.map_err(|_| format!("'{text}' is not a {what}"))
}
