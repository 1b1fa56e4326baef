use super::*;
use sha2::{Digest, Sha256};

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
    assert_eq!(
        (base64(b"foobar"), base64(b"fooba"), base64(b"f")),
        ("Zm9vYmFy".into(), "Zm9vYmE=".into(), "Zg==".into())
    );
    assert_eq!(
        SCRIPT_HASH,
        base64(&Sha256::digest(SCRIPT.as_bytes())),
        "the script has changed: write this hash"
    );
    assert!(!SCRIPT.contains("</script"), "that would end it");
}

#[test]
fn the_parts_that_are_always_there_stay_small() {
    // A page has to stay under 500 KB plus data.
    assert!(STYLE.len() + SCRIPT.len() < 64 * 1024);
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
