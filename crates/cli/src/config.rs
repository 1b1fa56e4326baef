//! The configuration file: defaults of each command, named targets, named tests; `netcaliper
//! config` and `netcaliper run`.

use clap::Args;
use console::error::{CliError, Exit};
use console::{file, stdout};
use serde_json::{Map, Value};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// An example of a file; `netcaliper config` prints it where there is none.
const EXAMPLE: &str = r#"# Defaults of a command: its long options. What is typed comes first.
[tcp]
time = "30s"
connections = 4

[ping]
udp = true

# `netcaliper tcp lab` is `netcaliper tcp 10.0.0.2:7411`.
[targets]
lab = "10.0.0.2:7411"

# `netcaliper run morning` is `netcaliper load lab -t 10s`; words behind the name are added.
[tests]
morning = "load lab -t 10s"
"#;

/// Sections that are no commands.
pub(crate) const TARGETS: &str = "targets";
pub(crate) const TESTS: &str = "tests";

/// A configuration file that was read.
#[derive(Debug, Default)]
pub(crate) struct Config {
    /// Its path, or the path of one that is missing or cannot be read.
    path: Option<PathBuf>,
    /// Why it cannot be read, although it may be there.
    unread: Option<String>,
    /// Its text, if there is one.
    text: Option<String>,
    sections: Map<String, Value>,
}

static CONFIG: OnceLock<Config> = OnceLock::new();

/// Its path, and whether the user names it: NETCALIPER_CONFIG, or by the specification of base
/// directories; `None` when it is `off` or there is no home.
fn path() -> Option<(PathBuf, bool)> {
    if let Some(path) = std::env::var_os("NETCALIPER_CONFIG").filter(|path| !path.is_empty()) {
        return Some((PathBuf::from(path), true)).filter(|(path, _)| path.as_os_str() != "off");
    }
    Some((file::own_folder("XDG_CONFIG_HOME", ".config", "APPDATA")?.join("config.toml"), false))
}

impl Config {
    /// Reads the file of this user. Its sections and keys follow the `whole` command line. The file
    /// of a home directory that belongs to another user, as under `sudo -u` or cron, is left out.
    ///
    /// # Errors
    /// One sentence when a file that the user names cannot be read, or when any says what cannot
    /// be.
    pub(crate) fn read(whole: fn() -> clap::Command) -> Result<Config, CliError> {
        let Some((path, is_named)) = path() else { return Ok(Config::default()) };
        let cannot = |error| format!("cannot read {}: {error}", path.display());
        let unread = match std::fs::read_to_string(&path) {
            Ok(text) => return Config::parse(&path, text, whole()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) if is_named => return Err(CliError::usage(cannot(error))),
            Err(error) => Some(cannot(error)),
        };
        Ok(Config { path: Some(path), unread, ..Config::default() })
    }

    /// The warning about a file that nobody named and that cannot be read.
    pub(crate) fn warning(&self) -> Option<String> {
        let cannot = self.unread.as_ref()?;
        Some(format!("warning: {cannot}: its defaults do not apply (NETCALIPER_CONFIG=off: no such file)"))
    }

    fn parse(path: &Path, text: String, mut whole: clap::Command) -> Result<Config, CliError> {
        let wrong = |why: String| CliError::usage(format!("{}: {why}", path.display()));
        let sections: Map<String, Value> = basic_toml::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        for (name, section) in &sections {
            let Some(entries) = section.as_object() else {
                return Err(wrong(format!("'{name}' must be a section: [tcp], [targets], [tests], …")));
            };
            if [TARGETS, TESTS].contains(&name.as_str()) {
                match entries.iter().find(|(_, value)| !value.is_string()) {
                    Some((key, _)) => return Err(wrong(format!("[{name}] {key} must be a text in quotes"))),
                    None => continue,
                }
            }
            let verb = whole.find_subcommand_mut(name).filter(|verb| !verb.is_hide_set());
            let verb = verb.ok_or_else(|| {
                let sections = format!("a section is a command such as [tcp], [{TARGETS}] or [{TESTS}]");
                wrong(format!("there is no command '{name}': {sections}"))
            })?;
            verb.build();
            let has = |key: &str| verb.get_arguments().any(|arg| arg.get_long() == Some(key));
            if let Some(key) = entries.keys().find(|key| !has(key)) {
                return Err(wrong(format!(
                    "{name} has no option --{key}: `netcaliper {name} --help` lists its options"
                )));
            }
        }
        Ok(Config { path: Some(path.to_owned()), text: Some(text), sections, ..Config::default() })
    }

    /// The command line with the file's additions: the words of a named test, the defaults of the
    /// command before the typed words.
    pub(crate) fn applied(&self, command: &[String]) -> Vec<String> {
        let mut words = command.to_vec();
        if let [_, run, name, ..] = words.as_slice()
            && run == "run"
            && let Some(test) = self.text_of(TESTS, name)
        {
            let test: Vec<String> = test.split_whitespace().map(str::to_owned).collect();
            words.splice(1..3, test);
        }
        let section = words.get(1).and_then(|verb| self.sections.get(verb)).and_then(Value::as_object);
        let options: Vec<String> =
            section.into_iter().flatten().flat_map(|(key, value)| option(key, value)).collect();
        if !options.is_empty() {
            words.splice(2..2, options);
        }
        words
    }

    fn text_of(&self, section: &str, name: &str) -> Option<&str> {
        self.sections.get(section)?.get(name)?.as_str()
    }

    /// Makes its targets known to [`target`].
    pub(crate) fn keep(self) {
        let _ = CONFIG.set(self);
    }
}

/// An option as it is typed.
fn option(key: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Bool(true) => vec![format!("--{key}")],
        Value::Bool(false) | Value::Null => Vec::new(),
        Value::Array(all) => all.iter().flat_map(|value| option(key, value)).collect(),
        Value::String(text) => vec![format!("--{key}={text}")],
        other => vec![format!("--{key}={other}")],
    }
}

/// The address of a target that the file names, or `name` itself.
pub(crate) fn target(name: &str) -> String {
    CONFIG.get().and_then(|config| config.text_of(TARGETS, name)).unwrap_or(name).to_owned()
}

/// True if there may be a file that cannot be read, of which the user has been warned.
pub(crate) fn is_unread() -> bool {
    CONFIG.get().is_some_and(|config| config.unread.is_some())
}

/// Names in a section of the file, and what they stand for.
#[cfg(feature = "man")]
pub(crate) fn names(section: &str) -> Vec<(String, String)> {
    let section = CONFIG.get().and_then(|config| config.sections.get(section)).and_then(Value::as_object);
    let one = |(name, text): (&String, &Value)| (name.clone(), text.as_str().unwrap_or_default().to_owned());
    section.into_iter().flatten().map(one).collect()
}

/// True if the file has defaults for a command.
pub(crate) fn has_defaults(verb: &str) -> bool {
    CONFIG.get().is_some_and(|config| config.sections.contains_key(verb))
}

/// A test of the configuration file.
#[derive(Args, Debug)]
pub(crate) struct TestArgs {
    /// Its name there, in the section `[tests]`.
    name: String,
    /// Words to add to it.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    words: Vec<String>,
}

/// Reached by names that the file does not have.
pub(crate) fn run(args: &TestArgs) -> Result<Exit, CliError> {
    let config = CONFIG.get();
    let tests = config.and_then(|config| config.sections.get(TESTS)).and_then(Value::as_object);
    let known: Vec<&str> = tests.into_iter().flat_map(|tests| tests.keys().map(String::as_str)).collect();
    let there = match known.as_slice() {
        [] => "none are named".to_owned(),
        known => format!("there are {}", known.join(", ")),
    };
    Err(CliError::usage(format!(
        "'{}' is no test of the configuration file, in which {there}; `netcaliper config` shows it",
        args.name
    )))
}

/// Shows the file.
pub(crate) fn show() -> Result<Exit, CliError> {
    stdout::print(|out| match CONFIG.get() {
        Some(Config { path: Some(path), text: Some(text), .. }) => {
            writeln!(out, "# {}\n{}", path.display(), text.trim_end())
        }
        Some(Config { unread: Some(cannot), .. }) => writeln!(out, "# {cannot}"),
        Some(Config { path: Some(path), .. }) => {
            writeln!(out, "# {} is not there; it could say:\n{}", path.display(), EXAMPLE.trim_end())
        }
        _ => {
            writeln!(out, "# no configuration file: NETCALIPER_CONFIG is off, or there is no home directory")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::values;
    use crate::command::Cli;

    fn config(text: &str) -> Result<Config, String> {
        Config::parse(Path::new("config.toml"), text.to_owned(), Cli::whole()).map_err(|error| error.text)
    }

    fn applied(config: &Config, line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        config.applied(&words).join(" ")
    }

    #[test]
    fn the_example_is_read_and_applied() {
        let config = config(EXAMPLE).unwrap();
        assert_eq!(
            applied(&config, "netcaliper tcp lab -t 5s"),
            "netcaliper tcp --connections=4 --time=30s lab -t 5s"
        );
        assert_eq!(applied(&config, "netcaliper ping lab"), "netcaliper ping --udp lab");
        assert_eq!(applied(&config, "netcaliper run morning -q"), "netcaliper load lab -t 10s -q");
        for untouched in ["netcaliper", "netcaliper serve", "netcaliper run", "netcaliper run evening"] {
            assert_eq!(applied(&config, untouched), untouched);
        }
        assert_eq!(config.text_of(TARGETS, "lab"), Some("10.0.0.2:7411"));
    }

    #[test]
    fn what_cannot_be_is_one_sentence() {
        for (text, why) in [
            ("[tcp]\nspeed = 1", "tcp has no option --speed"),
            ("[fly]\nfast = true", "there is no command 'fly'"),
            ("time = 1", "'time' must be a section"),
            ("[targets]\nlab = 1", "must be a text"),
            ("[tcp", "config.toml: "),
        ] {
            let told = config(text).unwrap_err();
            assert!(told.contains(why) && !told.contains('\n'), "{told}");
        }
    }

    #[test]
    fn defaults_give_way_to_what_is_typed() {
        config("[tcp]\ntime = '30s'").unwrap().keep();
        let words = ["netcaliper", "tcp", "--time=30s", "--reverse", "HOST", "-t", "5s"];
        let matches = Cli::whole().try_get_matches_from(words).unwrap();
        let time = matches.subcommand_matches("tcp").and_then(|tcp| tcp.get_one::<u64>("time").copied());
        assert_eq!(time, values::duration("5s").ok());
    }
}
