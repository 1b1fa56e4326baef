//! Completion: what a shell may put in the place of a word, from the definitions that read the
//! command line, the configuration file, the store and the system.

use crate::args::store::StoreArgs;
use crate::command::{Cli, mistaken};
use crate::{config, protocols};
use clap::{Arg, Args, Command};
use console::error::Exit;
use console::stdout;
use std::fs;

/// Most saved runs that are offered, the latest ones.
const RUNS: u32 = 20;
/// Marks that paths fit, too: the shell knows these.
const FILES: &str = ":files";

/// The words of a command line.
#[derive(Args, Debug)]
pub(crate) struct CompleteArgs {
    /// The shell.
    shell: String,
    /// The words behind the program's name; the last is to be completed.
    #[arg(last = true, allow_hyphen_values = true, value_name = "WORD")]
    words: Vec<String>,
}

/// Prints what fits, a line each: the word, a tab, its meaning.
pub(crate) fn complete(args: &CompleteArgs) -> Exit {
    let is_bash = args.shell == "bash";
    let words = if is_bash { joined(&args.words) } else { args.words.clone() };
    let text: String = candidates(&words, is_bash)
        .into_iter()
        .map(|(word, help)| match help.lines().next().filter(|help| !help.is_empty() && !is_bash) {
            Some(help) => format!("{word}\t{help}\n"),
            None => format!("{word}\n"),
        })
        .collect();
    stdout::write(text.as_bytes())
}

/// The script that completes this program's words in a shell.
pub(super) fn script(shell: &str) -> Option<&'static str> {
    match shell {
        "bash" => Some(include_str!("complete.bash")),
        "zsh" => Some(include_str!("complete.zsh")),
        "fish" => Some(include_str!("complete.fish")),
        _ => None,
    }
}

/// Words as bash has them, which splits at `=`: put together again.
fn joined(words: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in words {
        match all.last_mut() {
            Some(last) if word == "=" || last.ends_with('=') => last.push_str(word),
            _ => all.push(word.clone()),
        }
    }
    all
}

/// A word, and its meaning.
type Candidate = (String, String);

/// What fits in the place of the last word. `bare` leaves out what stands before the `=` of an
/// option.
fn candidates(words: &[String], bare: bool) -> Vec<Candidate> {
    let Some((last, before)) = words.split_last() else { return Vec::new() };
    if before.first().is_some_and(|verb| protocols::original(verb).is_some()) {
        return vec![(FILES.to_owned(), String::new())];
    }
    let mut whole = Cli::whole();
    whole.build();
    let mut command = &whole;
    // The option whose value is next, and the number of values of positional arguments.
    let (mut open, mut positional, mut options_end) = (None, 0, false);
    for (at, word) in before.iter().enumerate() {
        if options_end {
            positional += 1;
        } else if open.take().is_some() {
        } else if word == "--" {
            options_end = true;
            if command.get_name() == "monitor" {
                // A question follows.
                return candidates(&words[at + 1..], bare);
            }
        } else if word.starts_with('-') && word.len() > 1 {
            open = option_of(command, word);
        } else {
            match command.find_subcommand(word).filter(|_| positional == 0) {
                Some(verb) => command = verb,
                None => positional += 1,
            }
        }
    }
    let fits = |(word, _): &Candidate| word.starts_with(last.as_str()) || word == FILES;
    if let Some(arg) = open {
        return listed(arg, last).into_iter().filter(fits).collect();
    }
    if options_end {
        return vec![(FILES.to_owned(), String::new())];
    }
    if let Some((name, value)) = last.split_once('=').filter(|_| last.starts_with("--")) {
        let Some(arg) = named(command, &name[2..]) else { return Vec::new() };
        let prefix = if bare { String::new() } else { format!("{name}=") };
        let fits = |(word, _): &Candidate| word.starts_with(value) || word == FILES;
        let add =
            |(word, help): Candidate| (if word == FILES { word } else { format!("{prefix}{word}") }, help);
        return listed(arg, value).into_iter().filter(fits).map(add).collect();
    }
    if last.starts_with('-') {
        let mut all: Vec<Candidate> = options(command).filter(fits).collect();
        all.sort();
        return all;
    }
    let verbs = command.get_subcommands().filter(|verb| positional == 0 && !verb.is_hide_set());
    let about = |verb: &Command| verb.get_about().map(ToString::to_string).unwrap_or_default();
    let verbs = verbs.map(|verb| (verb.get_name().to_owned(), about(verb)));
    let all: Vec<&Arg> = command.get_positionals().filter(|arg| !arg.is_last_set()).collect();
    let arg = all.get(positional).or(all.last());
    let values = arg.map_or_else(Vec::new, |arg| listed(arg, last));
    verbs.chain(values).filter(fits).collect()
}

/// Options of a command, with their help.
fn options(command: &Command) -> impl Iterator<Item = Candidate> + '_ {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.flat_map(|arg| {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let long = arg.get_long().map(|long| format!("--{long}"));
        let short = arg.get_short().map(|short| format!("-{short}"));
        long.into_iter().chain(short).map(move |name| (name, help.clone()))
    })
}

fn named<'a>(command: &'a Command, long: &str) -> Option<&'a Arg> {
    let is_named = |arg: &&Arg| {
        arg.get_long() == Some(long) || arg.get_all_aliases().unwrap_or_default().contains(&long)
    };
    command.get_arguments().find(is_named)
}

/// The option of a word whose value is the next word.
fn option_of<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let arg = match word.strip_prefix("--") {
        Some(long) if long.contains('=') => return None,
        Some(long) => named(command, long)?,
        // Of several letters the last may take the next word.
        None => {
            let letter = word.chars().last();
            command.get_arguments().find(|arg| arg.get_short().is_some() && arg.get_short() == letter)?
        }
    };
    let takes = arg.get_num_args().is_some_and(|range| range.min_values() > 0);
    Some(arg).filter(|arg| takes && !arg.is_require_equals_set())
}

/// Values of an argument; of a list, values of its last part.
fn listed(arg: &Arg, typed: &str) -> Vec<Candidate> {
    let (before, _) =
        typed.rsplit_once(',').map_or(("", typed), |(before, _)| typed.split_at(before.len() + 1));
    let is_list = arg.get_value_delimiter() == Some(',') && !before.is_empty();
    let values = values(arg);
    if !is_list {
        return values;
    }
    values
        .into_iter()
        .filter(|(word, _)| word != FILES)
        .map(|(word, help)| (format!("{before}{word}"), help))
        .collect()
}

/// Values of an argument: the ones that it names, or the known ones of its kind.
fn values(arg: &Arg) -> Vec<Candidate> {
    let plain = |word: String| (word, String::new());
    let possible: Vec<Candidate> = arg
        .get_possible_values()
        .into_iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| {
            (value.get_name().to_owned(), value.get_help().map(ToString::to_string).unwrap_or_default())
        })
        .collect();
    // A switch has the values of a truth.
    if !possible.is_empty() {
        return if arg.get_action().takes_values() { possible } else { Vec::new() };
    }
    let name = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
    match arg.get_id().as_str() {
        "congestion" => congestion_controls().into_iter().map(plain).collect(),
        "bind_dev" => folder("/sys/class/net").into_iter().map(plain).collect(),
        "protocol" => protocols::ALL.into_iter().map(|one| plain(one.name().to_owned())).collect(),
        "legacy" => {
            let all = protocols::ALL.into_iter().filter(|one| one.info().legacy.is_some());
            all.map(|one| one.name().to_owned()).chain(["all".to_owned()]).map(plain).collect()
        }
        "original" => protocols::originals().map(|one| (one.name.to_owned(), one.about.to_owned())).collect(),
        "verb" => mistaken::MEASURES.map(|verb| plain(verb.to_owned())).into(),
        "targets" => config::names(config::TARGETS),
        "name" => config::names(config::TESTS),
        "ids" | "forget" => runs(),
        _ if name == "ID" || name.ends_with("|ID") => {
            runs().into_iter().chain([(FILES.to_owned(), String::new())]).collect()
        }
        _ if ["FILE", "DIR", "PATH", "FOLDER"].iter().any(|kind| name.contains(kind)) => {
            vec![(FILES.to_owned(), String::new())]
        }
        _ => Vec::new(),
    }
}

/// Congestion controls that the kernel offers.
fn congestion_controls() -> Vec<String> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Names in a folder, in order.
fn folder(path: &str) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The latest saved runs, by number.
fn runs() -> Vec<Candidate> {
    let query = store::Query { most: Some(RUNS), ..store::Query::default() };
    let saved = StoreArgs::of_environment().open().ok().and_then(|store| store.list(&query).ok());
    let last = ("last".to_owned(), "the latest run".to_owned());
    let one = |run: model::KeptRun| (run.id.to_string(), format!("{} {}", run.verb, run.targets));
    std::iter::once(last).chain(saved.into_iter().flatten().map(one)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        candidates(&words, false).into_iter().map(|(word, _)| word).collect()
    }

    #[test]
    fn commands_options_and_values_are_offered() {
        assert_eq!(words("t"), ["tcp", "train"], "programs of other names are left out");
        assert_eq!(words("tcp --conn"), ["--connect-timeout", "--connection-csv", "--connections"]);
        assert_eq!(words("tcp HOST --protocol tt"), ["ttcp"]);
        assert_eq!(words("tcp --live=a"), ["--live=auto", "--live=always"]);
        assert_eq!(words("serve --legacy echo,stam"), ["echo,stamp"]);
        assert_eq!(words("monitor --every 5m -- pi"), ["ping"]);
        assert_eq!(words("monitor --every 5m -- ping HOST --ud"), ["--udp"]);
        assert_eq!(words("fleet pl"), ["plan"]);
        assert_eq!(words("show l"), ["last"]);
        assert!(words("report ").contains(&FILES.to_owned()));
        assert_eq!(words("tcp HOST -qvP "), Vec::<String>::new(), "a number");
        assert_eq!(words("tcp HOST --html "), [FILES]);
        assert_eq!(words("iperf3 -c "), [FILES]);
        assert!(words("tcp HOST --pattern ").contains(&"duplex".to_owned()));
        #[cfg(target_os = "linux")]
        assert!(
            words("tcp HOST -C ").contains(&"cubic".to_owned())
                || words("tcp HOST -C ").contains(&"reno".to_owned())
        );
    }

    #[test]
    fn bash_splits_at_an_equals_sign() {
        let split = ["tcp", "--live", "=", "al"].map(str::to_owned);
        let found = candidates(&joined(&split), true);
        assert_eq!(found.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>(), ["always"]);
    }
}
