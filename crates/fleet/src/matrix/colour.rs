//! The colours of values in a picture: steps from the best to the worst, each with the ink, black
//! or white, that has more contrast on it.

use metrics::{Clamped, real};
use std::fmt::Write as _;

/// Steps from the best to the worst.
pub(super) const STEPS: u32 = 25;

/// Red, green, blue, 0..=255.
pub(super) type Rgb = [u8; 3];

pub(super) const BLACK: Rgb = [0; 3];
pub(super) const WHITE: Rgb = [255; 3];

/// The best and the worst colour of a scheme.
pub(super) struct Scheme {
    best: Rgb,
    worst: Rgb,
}

/// The light scheme, and the dark one.
pub(super) const SCHEMES: [Scheme; 2] = [
    Scheme { best: [0xdc, 0xeb, 0xf7], worst: [0xb4, 0x47, 0x0a] },
    Scheme { best: [0x16, 0x32, 0x4a], worst: [0xff, 0x9a, 0x4d] },
];

impl Scheme {
    /// The ground of a step.
    pub(super) fn ground(&self, step: u32) -> Rgb {
        let share = f64::from(step) / f64::from(STEPS);
        [0, 1, 2].map(|n| {
            let mixed = f64::from(self.best[n]) * (1.0 - share) + f64::from(self.worst[n]) * share;
            u8::try_from(u64::clamped(mixed.round())).unwrap_or(u8::MAX)
        })
    }
}

/// The step of a place between the best, 0, and the worst, 1.
pub(super) fn step(place: f64) -> u32 {
    u32::clamped((place * real(STEPS)).round()).min(STEPS)
}

/// Of black and white the colour with more contrast on `ground`, which is 4.58 at least.
pub(super) fn ink(ground: Rgb) -> Rgb {
    if contrast(ground, BLACK) >= contrast(ground, WHITE) { BLACK } else { WHITE }
}

/// Contrast of two colours (WCAG 2.2, relative luminance and contrast ratio).
pub(super) fn contrast(a: Rgb, b: Rgb) -> f64 {
    let linear = |part: u8| {
        let c = f64::from(part) / 255.0;
        if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
    };
    let luminance = |[r, g, b]: Rgb| 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) + 0.05;
    let (a, b) = (luminance(a), luminance(b));
    a.max(b) / a.min(b)
}

/// The rules of a style sheet for all steps, in both schemes.
pub(super) fn rules() -> String {
    let mut rules = String::new();
    let around = [("", ""), ("@media screen and (prefers-color-scheme: dark) {\n", "}\n")];
    for (scheme, (open, close)) in SCHEMES.iter().zip(around) {
        rules.push_str(open);
        let [best, worst] = [scheme.best, scheme.worst].map(hex);
        // Writing to a string does not fail.
        let _ = writeln!(rules, ":root {{ --best: {best}; --worst: {worst}; }}");
        for step in 0..=STEPS {
            let ground = scheme.ground(step);
            let (back, front) = (hex(ground), hex(ink(ground)));
            let _ = writeln!(rules, "td.v{step} {{ background-color: {back}; color: {front}; }}");
        }
        rules.push_str(close);
    }
    rules
}

fn hex([r, g, b]: Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}
