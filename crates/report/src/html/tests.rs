use super::*;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Base64 (RFC 4648), for this test alone.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let word = part.iter().fold(0u32, |word, &b| word << 8 | u32::from(b)) << (8 * (3 - part.len()));
        for at in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= part.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[test]
fn the_policy_names_the_script() {
    // RFC 4648, section 10.
    let encoded = [&b"foobar"[..], b"fooba", b"f"].map(base64);
    assert_eq!(encoded, ["Zm9vYmFy", "Zm9vYmE=", "Zg=="]);
    let hash = base64(&Sha256::digest(SCRIPT.as_bytes()));
    assert_eq!(SCRIPT_HASH, hash, "the script has changed: write this hash");
    assert!(!SCRIPT.contains("</script"), "that would end it");
}

#[test]
fn the_parts_that_are_always_there_stay_small() {
    // A page has to stay under 500 KB plus data.
    assert!(STYLE.len() + SCRIPT.len() < 64 * 1024);
}

/// The colours of every palette of the style sheet: light, dark, paper.
fn palettes() -> Vec<BTreeMap<&'static str, [f64; 3]>> {
    let blocks = STYLE.split(":root {").skip(1).filter_map(|rest| rest.split('}').next());
    let palette = |block: &'static str| {
        let pairs = block.split(';').filter_map(|pair| pair.trim().strip_prefix("--")?.split_once(": #"));
        pairs.map(|(name, digits)| (name, rgb(digits))).collect()
    };
    blocks.map(palette).collect()
}

/// Red, green and blue, 0..=1, of `fff` or `1c2126`.
fn rgb(digits: &str) -> [f64; 3] {
    let each = digits.len() / 3;
    [0, 1, 2].map(|n| {
        let part = digits[n * each..(n + 1) * each].repeat(3 - each);
        f64::from(u8::from_str_radix(&part, 16).unwrap()) / 255.0
    })
}

/// Contrast of two colours (WCAG 2.2, relative luminance and contrast ratio).
fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
    let linear = |c: f64| if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
    let luminance = |[r, g, b]: [f64; 3]| 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
    a.max(b) / a.min(b)
}

#[test]
fn every_palette_can_be_read() {
    // Known values: black on white, and #767676, the lightest grey that text on white may have.
    assert!((contrast(rgb("000"), rgb("fff")) - 21.0).abs() < 1e-9);
    assert!((contrast(rgb("767676"), rgb("ffffff")) - 4.54).abs() < 0.005);
    let palettes = palettes();
    assert_eq!(palettes.len(), 3, "light, dark, paper");
    let text = ["ink", "soft", "good", "warn", "bad", "focus"].map(|name| (name, 4.5));
    let lines = ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"].map(|name| (name, 3.0));
    for (at, palette) in palettes.iter().enumerate() {
        for ground in ["paper", "panel", "warn-paper"] {
            for (name, least) in text.iter().chain(&lines) {
                let found = contrast(palette[name], palette[ground]);
                assert!(found >= *least, "palette {at}: {name} on {ground} has {found:.2}, not {least}");
            }
        }
    }
}

#[test]
fn what_means_something_in_html_is_made_harmless() {
    assert_eq!(escape("<a href=\"x\" b='y'>&"), "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;");
    assert_eq!(escape("plain"), "plain");
    assert_eq!(escape("bell\u{7} \u{202e}turned"), "bell\u{fffd} \u{fffd}turned");
}

#[test]
fn a_command_is_one_that_a_shell_takes() {
    let words = |words: &[&str]| command(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(words(&["netcaliper", "tcp", "[::1]:7411", "-t", "10s"]), "netcaliper tcp [::1]:7411 -t 10s");
    assert_eq!(words(&["a b", "it's", ""]), "'a b' 'it'\\''s' ''");
    assert_eq!(words(&[]), "not on record");
}
