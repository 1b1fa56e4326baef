//! What this binary was built from and for: `netcaliper --version --verbose`.

use crate::plan::VERSION;

/// What build.rs found; an empty value is not known.
const FACTS: [(&str, &str); 5] = [
    ("commit", env!("NETCALIPER_BUILD_COMMIT")),
    ("target", env!("NETCALIPER_BUILD_TARGET")),
    ("profile", env!("NETCALIPER_BUILD_PROFILE")),
    ("features", env!("NETCALIPER_BUILD_FEATURES")),
    ("compiler", env!("NETCALIPER_BUILD_RUSTC")),
];

/// The text that `command` asks for with `--version` and `--verbose` (or `-V` and `-v`) and nothing else.
pub(crate) fn asked(command: &[String]) -> Option<String> {
    let mut words: Vec<&str> = command.iter().skip(1).map(String::as_str).collect();
    words.sort_unstable();
    let asked = match words[..] {
        [one] => ["-Vv", "-vV"].contains(&one),
        [one, other] => {
            let is = |word: &str, names: [&str; 2]| names.contains(&word);
            let (version, verbose) = (["--version", "-V"], ["--verbose", "-v"]);
            is(one, version) && is(other, verbose) || is(one, verbose) && is(other, version)
        }
        _ => false,
    };
    asked.then(text)
}

fn text() -> String {
    let known = FACTS.iter().filter(|(_, value)| !value.is_empty());
    let lines = known.map(|(name, value)| format!("{name}: {value}\n"));
    format!("netcaliper {VERSION}\n{}", lines.collect::<String>())
}
