//! Numbers as iperf3 prints them.

/// `n` bytes in a unit: `kmgt` are bits and thousands, `KMGT` bytes and 1024s; `a` and `A` take
/// what fits.
pub(super) fn amount(bytes: f64, format: char) -> String {
    let bits = !format.is_ascii_uppercase();
    let (number, step) = if bits { (bytes * 8.0, 1000.0) } else { (bytes, 1024.0) };
    let power = match "bkmgt".find(format.to_ascii_lowercase()) {
        Some(power) => power,
        None => {
            let mut power = 0;
            let mut left = number;
            while left >= step && power < 4 {
                left /= step;
                power += 1;
            }
            power
        }
    };
    let number = number / (0..power).map(|_| step).product::<f64>();
    let letter = ["", "K", "M", "G", "T"][power];
    let unit = if bits { "bits" } else { "Bytes" };
    let figure = if number < 9.995 {
        format!("{number:4.2}")
    } else if number < 99.95 {
        format!("{number:4.1}")
    } else {
        format!("{number:4.0}")
    };
    format!("{figure} {letter}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_as_the_original_prints_them() {
        // Lines of iperf 3.12: 1.01 s with 11.9 MBytes, 98.7 Mbits/sec, 895 KBytes of window, 1.12
        // MBytes.
        assert_eq!(amount(12_451_840.0, 'A'), "11.9 MBytes");
        assert_eq!(amount(98_700_000.0 / 8.0, 'a'), "98.7 Mbits");
        assert_eq!(amount(916_694.0, 'A'), " 895 KBytes");
        assert_eq!(amount(1_178_694.0, 'A'), "1.12 MBytes");
        assert_eq!(amount(1e9 / 8.0, 'm'), "1000 Mbits");
        assert_eq!(amount(0.0, 'a'), "0.00 bits");
        assert_eq!(amount(2.5e9, 'g'), "20.0 Gbits");
        assert_eq!(amount(1_048_576.0, 'K'), "1024 KBytes");
    }
}
