//! Sources and target of this binary: `netcaliper --version --verbose`.

/// The version that both ends tell each other.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Values of build.rs; an empty one is unknown.
const FACTS: [(&str, &str); 5] = [
    ("commit", env!("NETCALIPER_BUILD_COMMIT")),
    ("target", env!("NETCALIPER_BUILD_TARGET")),
    ("profile", env!("NETCALIPER_BUILD_PROFILE")),
    ("features", env!("NETCALIPER_BUILD_FEATURES")),
    ("compiler", env!("NETCALIPER_BUILD_RUSTC")),
];

/// The text that `command` asks for with `--version` and `--verbose` (or `-V` and `-v`) and nothing
/// else.
pub(crate) fn version_text(command: &[String]) -> Option<String> {
    let mut words: Vec<&str> = command.iter().skip(1).map(|word| long(word)).collect();
    words.sort_unstable();
    matches!(words[..], ["-Vv" | "-vV"] | ["--verbose", "--version"]).then(text)
}

fn long(word: &str) -> &str {
    match word {
        "-v" => "--verbose",
        "-V" => "--version",
        other => other,
    }
}

fn text() -> String {
    let known = FACTS.iter().filter(|(_, value)| !value.is_empty());
    let lines = known.map(|(name, value)| format!("{name}: {value}\n"));
    format!("netcaliper {VERSION}\n{}", lines.collect::<String>())
}
